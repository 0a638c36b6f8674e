//! The search for the files of sessions, all or by id. It never reads a session.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use jp_compact_runtime::environment::Environment;
use jp_compact_store as store;

use crate::agent::Agent;
use crate::error::SessionError;
use crate::places;

/// The shortest text that can be the beginning of an id.
const PREFIX_CHARS_MIN: usize = 6;

/// The file of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    pub agent: Agent,
    pub id: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub modified: SystemTime,
}

/// Returns the sessions of these agents, newest first.
pub(crate) fn find_all(agents: &[Agent], environment: &Environment) -> Vec<SessionFile> {
    let mut files = Vec::new();
    for agent in agents {
        for path in places::session_paths(*agent, environment) {
            let (Some(id), Ok(metadata)) = (places::id_of_name(*agent, &path), fs::metadata(&path)) else {
                continue;
            };
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let bytes = if metadata.is_dir() { store::record_bytes(&path) } else { metadata.len() };
            files.push(SessionFile { agent: *agent, id: id.to_owned(), bytes, modified, path });
        }
    }
    files.sort_by(|left, right| (right.modified, &right.id).cmp(&(left.modified, &left.id)));
    files
}

/// Finds a session by its id, or by the beginning of its id.
///
/// # Errors
/// No session has this id, or several ids begin with it.
pub fn find(id: &str, environment: &Environment) -> Result<SessionFile, SessionError> {
    let mut found = find_all(&Agent::ALL, environment);
    found.retain(|file| is_named(file, id));
    if found.iter().any(|file| file.id == id) {
        found.retain(|file| file.id == id);
    }
    match found.len() {
        0 => Err(SessionError::NotFound { id: id.to_owned() }),
        1 => Ok(found.remove(0)),
        _ => {
            let candidates = found.iter().map(|file| format!("{} ({})", file.id, file.agent)).collect();
            Err(SessionError::Ambiguous { id: id.to_owned(), candidates })
        }
    }
}

/// Returns whether a session has this id, or an id that begins with it. The names of Gemini CLI's files have only the
/// beginning of the id.
fn is_named(file: &SessionFile, id: &str) -> bool {
    if file.agent == Agent::OpenHands && id.contains('-') {
        // The command line of OpenHands prints ids with hyphens. The names of its folders have none.
        return is_named(file, &id.replace('-', ""));
    }
    let is_beginning = id.len() >= PREFIX_CHARS_MIN && file.id.starts_with(id);
    file.id == id
        || is_beginning
        || (file.agent == Agent::GeminiCli && places::is_uuid_beginning(id) && id.starts_with(&file.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(agent: Agent, id_of_file: &str, id: &str, expected: bool) {
        let (id_of_file, modified) = (id_of_file.to_owned(), SystemTime::UNIX_EPOCH);
        let file = SessionFile { agent, id: id_of_file, path: PathBuf::new(), bytes: 0, modified };
        assert_eq!(is_named(&file, id), expected, "{id}");
    }

    #[test]
    fn beginning_of_an_id_may_be_longer_than_the_name_of_the_file() {
        let gemini = |id, expected| check(Agent::GeminiCli, "d8f03c33", id, expected);
        for id in ["d8f03c", "d8f03c33", "d8f03c33-25ed", "d8f03c33-25ed-4671-90cc-5ecb92e14c45"] {
            gemini(id, true);
        }
        for id in
            ["d8f03", "d8f03c34", "d8f03c33x", "d8f03c33-25edx", "d8f03c33-25ed-4671-90cc-5ecb92e14c451"]
        {
            gemini(id, false);
        }
        check(Agent::Codex, "d8f03c33", "d8f03c33-25ed", false);
    }
}
