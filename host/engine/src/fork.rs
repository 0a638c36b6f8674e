//! A conversation's fork: the last turns of it in a folder of its own, with the overlays that are about them. The
//! source is read, and nothing else.

use std::path::Path;

use jp_compact_core::fork::{Fork, fork};
use jp_compact_core::splice::concat;
use jp_compact_core::{Stream, append, import};

use crate::compact::{self, Opened};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::store::{self, Missing};

/// What a fork would hold.
#[derive(Debug)]
pub struct Plan {
    /// What stays, and what becomes of the overlays.
    pub fork: Fork,
    /// The stream that it makes.
    pub stream: Stream,
}

/// Cuts a transcript to its last turns, or takes all of it.
///
/// # Errors
/// JP would not load the fork.
pub fn plan(source: &Opened, last: Option<usize>) -> Result<Plan, Failure> {
    compact::only_jp(source, "forked")?;
    let path = || source.place.path().to_owned();
    append::check(&source.stream).map_err(|source| Failure::NotAppendable { path: path(), source })?;
    let fork = fork(&source.stream, last);
    let stream = if fork.cut == 0 {
        source.stream.clone()
    } else {
        let bytes = concat(&fork.pieces, source.stream.bytes());
        Stream::parse(bytes.into()).map_err(|source| Failure::Unreadable { path: path(), source })?
    };
    Ok(Plan { fork, stream })
}

/// Makes the fork's folder, whole or not at all.
///
/// # Errors
/// It cannot be made: nothing is there.
pub fn write(source: &Opened, plan: &Plan, dest: &Path, environment: &Environment) -> Result<(), Failure> {
    let missing = Missing {
        base_config: (!import::has_base_config(&plan.stream)).then(|| import::base_config(&plan.stream)),
        metadata: Some(import::metadata(&plan.stream, None)),
    };
    Ok(store::create(dest, &source.place, plan.stream.bytes(), &missing, environment)?)
}
