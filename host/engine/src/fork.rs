//! The fork of a conversation: its last turns and their overlays, copied into a new folder. For another program's
//! session, this module makes the view that the fork contains. The source is never changed.

use std::path::Path;

use jp_compact_core::fork::{Fork, ForkEffect, fork};
use jp_compact_core::projection::project;
use jp_compact_core::splice::concat;
use jp_compact_core::view::View;
use jp_compact_core::{Stream, append};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{ForkOverlays, ForkReport};
use jp_compact_transcripts::{self as transcripts, Transcript, import};

use crate::compact::{self, Error, Opened};
use jp_compact_store::{self as store, JpFiles};

/// The content of a fork.
#[derive(Debug)]
pub struct ForkPlan {
    /// The turns to keep, and the effect on overlays.
    pub fork: Fork,
    /// The resulting stream.
    pub stream: Stream,
}

impl ForkPlan {
    /// Returns the report of the fork, before its compaction.
    #[must_use]
    pub fn document(&self, source: &Opened, dest: &Path, dry_run: bool) -> ForkReport {
        let numbers_with = |wanted: ForkEffect| -> Vec<usize> {
            let numbered = (1..).zip(&self.fork.effects);
            numbered.filter(|(_, effect)| **effect == wanted).map(|(number, _)| number).collect()
        };
        ForkReport {
            path: dest.join("events.json").to_string_lossy().into_owned(),
            source: source.place.path().to_string_lossy().into_owned(),
            dry_run,
            turns: self.stream.turns(),
            cut: self.fork.removed_turns,
            overlays: ForkOverlays {
                kept: numbers_with(ForkEffect::Kept),
                clipped: numbers_with(ForkEffect::Clipped),
                gone: numbers_with(ForkEffect::Removed),
                summary_dropped: numbers_with(ForkEffect::SummaryDropped),
            },
            report: None,
            error: None,
            session: None,
        }
    }
}

/// Plans a fork with this number of last turns. `None` keeps all turns.
///
/// # Errors
/// The source is not a conversation of JP, or JP would not load the fork.
pub fn plan(source: &Opened, last: Option<usize>) -> Result<ForkPlan, Error> {
    compact::require_jp(source, "forked")?;
    let path = || source.place.path().to_owned();
    append::check_loadable(&source.stream).map_err(|source| Error::NotAppendable { path: path(), source })?;
    let fork = fork(&source.stream, last);
    let stream = if fork.removed_turns == 0 {
        source.stream.stream().clone()
    } else {
        let bytes = concat(&fork.pieces, source.stream.bytes());
        Stream::parse(bytes.into()).map_err(|source| Error::Unreadable { path: path(), source })?
    };
    Ok(ForkPlan { fork, stream })
}

/// Creates the folder of the fork, completely or not at all.
///
/// # Errors
/// The folder cannot be created.
pub fn write(source: &Opened, plan: &ForkPlan, dest: &Path, environment: &Environment) -> Result<(), Error> {
    let defaults = JpFiles {
        base_config: (!import::has_base_config(&plan.stream)).then(|| import::base_config(None, None)),
        metadata: Some(import::metadata(&plan.stream, None)),
    };
    Ok(store::create(dest, &source.place, plan.stream.bytes(), &defaults, environment)?)
}

/// The content of a new session.
#[derive(Debug)]
pub struct SessionView {
    /// The source session, with the overlays whose effect is in `view`.
    pub transcript: Transcript,
    pub view: View,
    /// The view in the form of the session's file.
    pub bytes: Vec<u8>,
}

/// Returns the view of another program's session. `sidecar` is the result of [`compact::compact_in_memory`], if it made overlays.
///
/// # Errors
/// An overlay is malformed.
pub fn session_view(source: &Opened, sidecar: Option<Vec<u8>>) -> Result<SessionView, Error> {
    let unreadable =
        |source_error| Error::Unreadable { path: source.place.path().to_owned(), source: source_error };
    let transcript = match sidecar {
        Some(sidecar) => {
            let stream = transcripts::read(source.stream.format(), source.stream.bytes().clone());
            stream.and_then(|stream| compact::with_sidecar(stream, sidecar.into())).map_err(unreadable)?
        }
        None => source.stream.clone(),
    };
    let view = project(&transcript);
    let bytes = concat(&transcripts::render(&transcript, &view), transcript.bytes());
    Ok(SessionView { transcript, view, bytes })
}
