//! The parts of a new session that differ between agents: the ids in its records, the path of its file, and the command
//! that resumes it.

mod claude_code;
mod codex;
mod gemini_cli;
pub(crate) mod kimi_cli;
mod opencode;
pub(crate) mod openhands;
mod pi;
mod qwen_code;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use crate::agent::Agent;
use crate::ids::NewIds;

/// The member that `jp-compact` adds to a new session. It names the session's origin. No agent reads it.
pub(crate) const ORIGIN: &str = "jp_compact_origin";

/// A session with new ids.
pub(crate) struct Renumbered {
    pub(crate) id: String,
    pub(crate) bytes: Vec<u8>,
}

/// The values that a new session gets in addition to its ids.
pub(crate) struct Additions<'a> {
    pub(crate) origin: &'a Value,
    /// The title, for agents that keep it in the file.
    pub(crate) title: &'a str,
    pub(crate) source: &'a Path,
    pub(crate) now: Timestamp,
}

/// Returns a view as a session with new ids. On failure, returns the record or member that the view lacks.
pub(crate) fn renumber(
    agent: Agent,
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    match agent {
        Agent::ClaudeCode => claude_code::renumber(view, ids, additions),
        Agent::Codex => codex::renumber(view, ids, additions),
        Agent::Pi => pi::renumber(view, ids, additions),
        Agent::GeminiCli => gemini_cli::renumber(view, ids, additions),
        Agent::Opencode => opencode::renumber(view, ids, additions),
        Agent::OpenHands => openhands::renumber(view, ids, additions),
        Agent::QwenCode => qwen_code::renumber(view, ids, additions),
        Agent::KimiCli => kimi_cli::renumber(view, ids, additions),
    }
}

/// Returns the content of a file that belongs to a session. The session of a sub-agent gets the ids of the new session.
pub(crate) fn renumber_belonging(path: &Path, bytes: Vec<u8>, ids: &NewIds, id: &str) -> Vec<u8> {
    let is_session = path.extension().is_some_and(|extension| extension == "jsonl");
    if is_session { claude_code::renumber_lines(&bytes, ids, id) } else { bytes }
}

/// The location of a new session.
pub(crate) struct Location<'a> {
    /// The folder that contains all sessions of the agent.
    pub(crate) sessions: &'a Path,
    pub(crate) source: &'a Path,
    /// The folder in which the agent worked.
    pub(crate) folder: Option<&'a Path>,
    pub(crate) id: &'a str,
    pub(crate) now: Timestamp,
}

/// Returns the path at which the agent finds a session. `None` if it cannot be derived.
pub(crate) fn path(agent: Agent, location: &Location<'_>) -> Option<PathBuf> {
    match agent {
        Agent::ClaudeCode => claude_code::path(location),
        Agent::Codex => Some(codex::path(location)),
        Agent::Pi => pi::path(location),
        Agent::GeminiCli => gemini_cli::path(location),
        Agent::OpenHands => openhands::path(location),
        Agent::QwenCode => qwen_code::path(location),
        Agent::KimiCli => kimi_cli::path(location),
        Agent::Opencode => None,
    }
}

/// Returns the command that resumes a session. The caller adds the folder in which the command must run.
pub(crate) fn resume_words(agent: Agent, id: &str, path: &Path, is_in_place: bool) -> Vec<String> {
    let path = path.display().to_string();
    let words: &[&str] = match agent {
        // A session file with another path than the agent's own can be resumed only by its path.
        Agent::ClaudeCode => &["claude", "--resume", if is_in_place { id } else { &path }],
        Agent::Codex => &["codex", "resume", id],
        Agent::Pi => &["pi", "--session", &path],
        Agent::GeminiCli if is_in_place => &["gemini", "--resume", id],
        Agent::GeminiCli => &["gemini", "--session-file", &path],
        Agent::Opencode => &["opencode", "--session", id],
        Agent::QwenCode => &["qwen", "--resume", id],
        Agent::KimiCli => &["kimi", "--resume", id],
        Agent::OpenHands if is_in_place => &["openhands", "--resume", id],
        Agent::OpenHands => return openhands::resume_words(id, Path::new(&path)),
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the note on a session with another path than the agent's own, if the agent does not find such a session.
pub(crate) fn note_on_place(agent: Agent) -> Option<&'static str> {
    match agent {
        Agent::Codex => Some("Codex finds a session only at the usual path in its folder `sessions`"),
        Agent::OpenHands => {
            Some("OpenHands finds a conversation only in a folder that has its id as the name")
        }
        Agent::KimiCli => Some("Kimi CLI finds a session only at the usual path in its folder `sessions`"),
        Agent::QwenCode => Some("Qwen Code finds a session only at the usual path in its folder `projects`"),
        _ => None,
    }
}

/// Returns the lines of a file, each with its line break.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

/// Adds a record to the end of a file of lines.
fn push_record(out: &mut Vec<u8>, record: &Value) {
    if out.last().is_some_and(|last| *last != b'\n') {
        out.push(b'\n');
    }
    out.extend_from_slice(record.to_string().as_bytes());
    out.push(b'\n');
}

/// Returns the folder of the source, if the agent keeps its sessions there.
fn folder_in_place(location: &Location<'_>) -> Option<PathBuf> {
    location.source.parent().filter(|parent| parent.starts_with(location.sessions)).map(Path::to_path_buf)
}
