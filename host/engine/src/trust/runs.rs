//! What a plugin executes that is not its own: the interpreter of its `#!` line, the program of its manifest's
//! `command`, and the files that either is given by absolute paths. What is outside the system's folders is part of what
//! is trusted: its bytes are hashed with the plugin's, and the owner and mode checks hold for the way to it too. Nothing
//! is executed here.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jp_compact_schema::Program;

use super::known::Digests;
use super::shebang;
use crate::digest;
use crate::jail::is_of_system;
use crate::registry::{Form, Plugin};

/// What the digest of a plugin that executes such files begins with.
const HEADING: &[u8] = b"jp-compact plugin and what it runs 1\n";
/// Linux follows `#!` lines no further.
const SCRIPTS_MAX: usize = 5;

/// A file outside the system's folders that a plugin executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    /// As it is named, or was found on PATH.
    pub named: PathBuf,
    /// The file itself, links resolved.
    pub real: PathBuf,
}

/// The bytes that are trusted with a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// Of the plugin, and of all that it runs outside the system's folders.
    pub(super) sha256: String,
    /// Of the plugin alone.
    pub(super) own: String,
    pub(super) runs: Vec<Runs>,
}

impl Identity {
    /// Of a plugin whose own digest is known.
    pub(super) fn of(own: String, runs: Vec<Runs>, digests: &Digests) -> io::Result<Self> {
        if runs.is_empty() {
            return Ok(Self { sha256: own.clone(), own, runs });
        }
        let mut all = [HEADING, own.as_bytes(), b"\n"].concat();
        for Runs { named, real } in &runs {
            let named = named.as_os_str().as_bytes();
            all.extend_from_slice(format!("{} {}:", digests.of(real)?, named.len()).as_bytes());
            all.extend_from_slice(named);
            all.push(b'\n');
        }
        Ok(Self { sha256: digest::of_bytes(&all), own, runs })
    }
}

/// The files outside the system's folders that a plugin executes; `root` is the plugin, or its copy.
///
/// # Errors
/// It starts something that cannot be told for sure.
pub(super) fn of(plugin: &Plugin, root: &Path) -> Result<Vec<Runs>, String> {
    let mut found = Vec::new();
    match &plugin.form {
        Form::Executable => follow(root, &mut found)?,
        Form::Folder(manifest) => {
            let Program::Command(command) = &manifest.run.program else { return Ok(found) };
            let Some((program, args)) = command.split_first() else { return Ok(found) };
            if program.contains('/') && !program.starts_with('/') {
                follow(&root.join(program), &mut found)?;
            } else if let Some(named) = shebang::find(program)
                && let Some(real) = add(named, &mut found)
            {
                follow(&real, &mut found)?;
            }
            files(args, &mut found);
        }
        Form::Dylib | Form::Broken(_) => {}
    }
    Ok(found)
}

/// Adds the interpreter of a script, and that one's, as far as they are outside the system's folders.
fn follow(script: &Path, found: &mut Vec<Runs>) -> Result<(), String> {
    let mut next = Some(script.to_owned()).filter(|path| path.is_file());
    for _ in 0..SCRIPTS_MAX {
        let Some(script) = next else { return Ok(()) };
        let Some(line) = shebang::read(&script)? else { return Ok(()) };
        next = add(line.program, found);
        files(&line.args, found);
    }
    Err(format!("the `#!` line of {} leads to too many others", script.display()))
}

/// Adds a file that is outside the system's folders, or is reached from there. What is not there does not start.
fn add(named: PathBuf, found: &mut Vec<Runs>) -> Option<PathBuf> {
    let real = named.canonicalize().ok().filter(|real| real.is_file())?;
    if is_of_system(&named) && is_of_system(&real) {
        return None;
    }
    if !found.iter().any(|other| other.named == named) {
        found.push(Runs { named, real: real.clone() });
    }
    Some(real)
}

fn files(args: &[String], found: &mut Vec<Runs>) {
    let absolute = args.iter().map(PathBuf::from).filter(|path| path.is_absolute());
    absolute.for_each(|path| drop(add(path, found)));
}
