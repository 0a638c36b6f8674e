//! The turns, steps, tokens, and overlays of listed sessions. Each session is read as a whole. A session that is too
//! large or cannot be read is listed without counts.

use std::ffi::OsStr;
use std::thread;

use jp_compact_core::Survey;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{ListedSession, SessionCounts};

use crate::compact::open_as;

/// Larger sessions are not counted, because a list must be fast.
const BYTES_MAX: u64 = 32 << 20;

/// Adds the counts to listed sessions.
pub fn add_counts(rows: &mut [ListedSession], environment: &Environment) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let size = rows.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        for chunk in rows.chunks_mut(size) {
            scope.spawn(|| chunk.iter_mut().for_each(|row| row.counts = counts(row, environment)));
        }
    });
}

fn counts(row: &ListedSession, environment: &Environment) -> Option<SessionCounts> {
    let path = row.path.as_deref().filter(|_| row.bytes.is_some_and(|bytes| bytes <= BYTES_MAX))?;
    let opened = open_as(OsStr::new(path), row.agent.parse().ok(), environment).ok()?;
    let survey = Survey::new(&opened.stream);
    Some(SessionCounts {
        turns: opened.stream.turns(),
        steps: opened.stream.steps().total(),
        tokens: survey.estimate.view_tokens(&survey.view),
        overlays: opened.stream.overlays().len(),
    })
}
