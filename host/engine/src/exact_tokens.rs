//! The counter of `--tokens exact`: the executable `compact-tokenizer`, which is in the folder of the host.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::process::Companion;
use jp_compact_runtime::registry::{DiscoveryError, companion};

/// The path of the executable, from the first [`prepare`].
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// The started tokenizers that no thread uses now.
static IDLE: Mutex<Vec<Companion>> = Mutex::new(Vec::new());

/// Finds the executable. It is started by the first count.
///
/// # Errors
/// The executable is not installed.
pub fn prepare(environment: &Environment) -> Result<(), DiscoveryError> {
    let program = companion(environment, "compact-tokenizer")?;
    // Another thread can only have stored the same path.
    let _ = PROGRAM.set(program);
    Ok(())
}

/// Returns the number of tokens of a text.
///
/// # Panics
/// If [`prepare`] was not called, or the tokenizer failed twice.
pub fn count_o200k(text: &str) -> u64 {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    // A tokenizer that was ended from outside is replaced once.
    let counted = count(text, idle).or_else(|_| count(text, None));
    match counted {
        Ok((count, tokenizer)) => {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(tokenizer);
            count
        }
        Err(error) => panic!("compact-tokenizer failed: {error}"),
    }
}

/// Asks a tokenizer, which is started if there is none.
fn count(text: &str, idle: Option<Companion>) -> io::Result<(u64, Companion)> {
    let mut tokenizer = match idle {
        Some(tokenizer) => tokenizer,
        None => Companion::start(PROGRAM.get().ok_or(io::ErrorKind::NotFound)?)?,
    };
    let mut count = [0; 8];
    tokenizer.ask(&[&(text.len() as u64).to_le_bytes(), text.as_bytes()], &mut count)?;
    Ok((u64::from_le_bytes(count), tokenizer))
}
