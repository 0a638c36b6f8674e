//! The folders in which agents keep their sessions. Each agent that has such a folder also has a variable
//! that moves it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jp_compact_folders::events;
use jp_compact_runtime::environment::Environment;

use crate::agent::Agent;
use crate::agents::kimi_cli;

/// The depth of folders to search below the folder of an agent.
const DEPTH_MAX: usize = 5;

/// Returns the folder below which an agent keeps its sessions. OpenCode has a database, and no such folder.
pub(crate) fn folder(agent: Agent, environment: &Environment) -> Option<PathBuf> {
    let variable = |name: &str| environment.variables.get(name).map(|folder| environment.cwd.join(folder));
    let home = || environment.home.clone();
    match agent {
        Agent::ClaudeCode => {
            let config = variable("CLAUDE_CONFIG_DIR").or_else(|| Some(home()?.join(".claude")))?;
            Some(config.join("projects"))
        }
        Agent::Codex => {
            let config = variable("CODEX_HOME").or_else(|| Some(home()?.join(".codex")))?;
            Some(config.join("sessions"))
        }
        Agent::Pi => variable("PI_CODING_AGENT_SESSION_DIR").or_else(|| {
            let agent = variable("PI_CODING_AGENT_DIR").or_else(|| Some(home()?.join(".pi/agent")))?;
            Some(agent.join("sessions"))
        }),
        Agent::GeminiCli => {
            let home = variable("GEMINI_CLI_HOME").or_else(home)?;
            Some(home.join(".gemini/tmp"))
        }
        Agent::OpenHands => variable("OPENHANDS_CONVERSATIONS_DIR").or_else(|| {
            let config =
                variable("OPENHANDS_PERSISTENCE_DIR").or_else(|| Some(home()?.join(".openhands")))?;
            Some(config.join("conversations"))
        }),
        Agent::KimiCli => {
            let share = variable("KIMI_SHARE_DIR").or_else(|| Some(home()?.join(".kimi")))?;
            Some(share.join("sessions"))
        }
        Agent::QwenCode => {
            let config = variable("QWEN_RUNTIME_DIR").or_else(|| variable("QWEN_HOME"));
            Some(config.or_else(|| Some(home()?.join(".qwen")))?.join("projects"))
        }
        Agent::Opencode => None,
    }
}

/// Returns the id in the name of a session's file, or of its folder. Returns `None` for any other file.
pub(crate) fn id_of_name(agent: Agent, path: &Path) -> Option<&str> {
    if agent == Agent::OpenHands {
        let is_id = |id: &&str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let folder = path.parent().filter(|_| path.ends_with(events::FOLDER))?;
        return folder.file_name()?.to_str().filter(is_id);
    }
    if agent == Agent::KimiCli {
        let folder = path.parent().filter(|_| path.ends_with(kimi_cli::CONTEXT))?;
        return folder.file_name()?.to_str().filter(|id| is_uuid(id));
    }
    let stem = path.file_name()?.to_str()?;
    let stem = stem.strip_suffix(".jsonl")?;
    let last = |length: usize| stem.get(stem.len().checked_sub(length)?..);
    match agent {
        Agent::ClaudeCode | Agent::QwenCode => Some(stem).filter(|stem| is_uuid(stem)),
        Agent::Codex => last(36).filter(|id| stem.starts_with("rollout-") && is_uuid(id)),
        Agent::Pi => last(36).filter(|id| is_uuid(id)),
        // The file has only the beginning of the id in its name.
        Agent::GeminiCli => last(8).filter(|_| stem.starts_with("session-")),
        Agent::Opencode | Agent::OpenHands | Agent::KimiCli => None,
    }
}

/// Returns whether a text has the form of a UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36 && is_uuid_beginning(text)
}

/// Returns whether a text has the form of the beginning of a UUID.
pub(crate) fn is_uuid_beginning(text: &str) -> bool {
    text.len() <= 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Returns the files of an agent's sessions. A folder that cannot be read is logged and skipped.
pub(crate) fn session_paths(agent: Agent, environment: &Environment) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some(folder) = folder(agent, environment) {
        collect(agent, &folder, DEPTH_MAX, &mut paths);
    }
    paths
}

fn collect(agent: Agent, folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            tracing::warn!(%error, folder = %folder.display(), "failed to list a folder of sessions");
            return;
        }
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && agent == Agent::OpenHands && id_of_name(agent, &path).is_some() => {
                paths.push(path);
            }
            Ok(kind) if kind.is_dir() && depth > 1 => collect(agent, &path, depth - 1, paths),
            Ok(kind) if kind.is_file() && id_of_name(agent, &path).is_some() && is_session(agent, &path) => {
                paths.push(path);
            }
            _ => {}
        }
    }
}

/// Returns whether a file is a session, and not the file of a sub-agent inside the folder of a session.
fn is_session(agent: Agent, path: &Path) -> bool {
    let parent = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    match agent {
        Agent::ClaudeCode => parent != "subagents",
        Agent::GeminiCli | Agent::QwenCode => parent == "chats",
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(agent: Agent, name: &str, expected: Option<&str>) {
        assert_eq!(id_of_name(agent, Path::new(name)), expected, "{name}");
    }

    #[test]
    fn names_of_sessions_hold_their_id() {
        const ID: &str = "01a1fd18-25ed-7671-90cc-5ecb92e14c45";
        check(Agent::ClaudeCode, &format!("{ID}.jsonl"), Some(ID));
        check(Agent::ClaudeCode, "agent-1234.jsonl", None);
        check(Agent::Codex, &format!("rollout-2026-11-21T07-52-56-{ID}.jsonl"), Some(ID));
        check(Agent::Pi, &format!("2026-11-21T07-53-00-653Z_{ID}.jsonl"), Some(ID));
        check(Agent::GeminiCli, "session-2026-11-21T07-57-d8f03c33.jsonl", Some("d8f03c33"));
        let conversation = "/c/5d1e00dd1c9e4011b6aa690d39d3ef85";
        let id = conversation.strip_prefix("/c/");
        check(Agent::OpenHands, &format!("{conversation}/events"), id);
        check(Agent::OpenHands, conversation, None);
        check(Agent::KimiCli, &format!("/s/17920fd5/{ID}/context.jsonl"), Some(ID));
        check(Agent::KimiCli, &format!("/s/17920fd5/{ID}/wire.jsonl"), None);
        check(Agent::Pi, &format!(".2026_{ID}.jsonl.jp-compact"), None);
    }

    #[test]
    fn variables_of_agents_move_their_folders() {
        let mut environment = Environment { home: Some("/home/u".into()), ..Environment::bare("/here") };
        let of = |agent, environment: &Environment| folder(agent, environment).unwrap();
        assert_eq!(of(Agent::Codex, &environment), Path::new("/home/u/.codex/sessions"));
        assert_eq!(of(Agent::Pi, &environment), Path::new("/home/u/.pi/agent/sessions"));
        environment.variables = jp_compact_runtime::environment::Variables::These(
            [("CODEX_HOME", "/c"), ("CLAUDE_CONFIG_DIR", "d"), ("PI_CODING_AGENT_SESSION_DIR", "/p")]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
        );
        assert_eq!(of(Agent::Codex, &environment), Path::new("/c/sessions"));
        assert_eq!(of(Agent::ClaudeCode, &environment), Path::new("/here/d/projects"));
        assert_eq!(of(Agent::Pi, &environment), Path::new("/p"));
    }
}
