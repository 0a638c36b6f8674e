//! The session that a user named: a path, an id of JP, or an id of another agent's session. Paths and JP's ids come
//! first. This module must not write to a session.

use std::ffi::OsStr;

use jp_compact_engine::compact::Opened;
use jp_compact_runtime::environment::Environment;
use jp_compact_sessions::{self as sessions, OpenCode};
use jp_compact_store::{self as store, StoreError};
use jp_compact_transcripts::Format;

use crate::error::Report;
use crate::input::{open_as, with_similar_id};

/// A session that the user named.
pub(crate) enum SessionSource {
    Opened(Box<Opened>),
    /// A session in the database of OpenCode, by its id.
    InOpencode(String),
}

/// Finds and reads a session.
pub(crate) fn session_source(
    session: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Result<SessionSource, Report> {
    let id = session.to_str().unwrap_or_default();
    match store::locate(session, environment) {
        Err(StoreError::NotFound { .. } | StoreError::UnknownId { .. })
            // The name of a file is not an id.
            if !id.is_empty() && !id.contains(['/', '.']) =>
        {
            if OpenCode::is_session_id(id) {
                return Ok(SessionSource::InOpencode(id.to_owned()));
            }
            let found = sessions::find(id, environment)
                .map_err(|error| with_similar_id(error.into(), session, environment))?;
            Ok(SessionSource::Opened(Box::new(open_as(found.path.as_os_str(), format, environment)?)))
        }
        _ => Ok(SessionSource::Opened(Box::new(open_as(session, format, environment)?))),
    }
}
