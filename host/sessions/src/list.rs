//! A row of the list of sessions. Only the beginning and the end of a file are read, because there may be thousands of
//! files. A session of `OpenHands` is a folder of small files, and is read completely.

use std::path::{Path, PathBuf};

use jp_compact_runtime::small_file;
use jp_compact_store as store;
use serde_json::Value;

use crate::agent::Agent;
use crate::agents::{kimi_cli, openhands};
use crate::find::SessionFile;
use crate::origin::session_origin;
use crate::records::{TITLE_CHARS_MAX, first_string, shortened, title_or_prompt};

/// The bytes that are read at each end. A session of Codex begins with long instructions.
const END_BYTES: u64 = 96 << 10;
/// The file with the path of a project of Gemini CLI.
const GEMINI_ROOT: &str = ".project_root";

/// A session, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) file: SessionFile,
    pub(crate) title: Option<String>,
    /// The folder in which the agent worked.
    pub(crate) folder: Option<PathBuf>,
    /// The source of this session, if `jp-compact` made it as a fork.
    pub(crate) fork_of: Option<String>,
}

/// Reads the title and the folder of a session.
pub(crate) fn describe(file: SessionFile) -> SessionRow {
    let ends = match file.agent {
        Agent::OpenHands => store::read_file(&file.path).unwrap_or_default().to_vec(),
        _ => with_tail(&file.path),
    };
    let folder = folder_of(file.agent, &ends, &file.path);
    let fork_of = session_origin(&ends, &file.path).map(|origin| origin.source);
    SessionRow { title: title_of(file.agent, &ends, &file.path), folder, fork_of, file }
}

/// Returns the beginning and the end of a file, as lines. A file that cannot be read is empty.
fn with_tail(path: &Path) -> Vec<u8> {
    let mut ends = small_file::read_start(path, END_BYTES).unwrap_or_default();
    if ends.len() as u64 == END_BYTES {
        ends.push(b'\n');
        ends.extend(small_file::read_end(path, END_BYTES).unwrap_or_default());
    }
    ends
}

/// Returns the title of a session, or the beginning of the first prompt.
fn title_of(agent: Agent, bytes: &[u8], path: &Path) -> Option<String> {
    whole_title_of(agent, bytes, path).map(|title| shortened(&title, TITLE_CHARS_MAX))
}

/// Returns the title of a session, or the first prompt.
pub(crate) fn whole_title_of(agent: Agent, bytes: &[u8], path: &Path) -> Option<String> {
    let own = if agent == Agent::KimiCli { kimi_cli::title_of(path) } else { None };
    own.or_else(|| title_or_prompt(agent, bytes))
}

/// Returns the folder in which an agent worked.
pub(crate) fn folder_of(agent: Agent, bytes: &[u8], path: &Path) -> Option<PathBuf> {
    let folder = match agent {
        Agent::ClaudeCode | Agent::Pi | Agent::QwenCode => first_string(bytes, |record| &record["cwd"]),
        Agent::Codex => first_string(bytes, |record| &record["payload"]["cwd"]),
        Agent::GeminiCli => {
            let root = path.parent()?.parent()?.join(GEMINI_ROOT);
            let text = small_file::read(&root, small_file::ID).ok()??;
            Some(String::from_utf8(text).ok()?.trim().to_owned())
        }
        Agent::OpenHands => openhands::folder_of(path),
        Agent::KimiCli => kimi_cli::folder_of(path),
        Agent::Opencode => {
            let document: Value = serde_json::from_slice(bytes).ok()?;
            document["info"]["directory"].as_str().map(str::to_owned)
        }
    };
    folder.map(PathBuf::from)
}
