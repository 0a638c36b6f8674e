//! JP's current conversation. JP keeps a file for each terminal session, with the conversations that were activated in
//! it. Without such a file, the current conversation is the conversation that was activated last.

use std::path::Path;

use jp_compact_core::time;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::small_file;
use jp_compact_store::{self as store, StoreError};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The variable with which a user names the session.
const SESSION_VARIABLE: &str = "JP_SESSION";

/// JP's current conversation, and the reason for the choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentConversation {
    /// The digits of the conversation's id.
    pub id: String,
    pub title: Option<String>,
    /// Whether the conversation is active in the terminal. If not, it is the conversation that was activated last.
    pub is_of_terminal: bool,
}

/// A file of a session, as JP writes it.
#[derive(Debug, Deserialize)]
struct SessionFile {
    history: Vec<Activation>,
    /// The id of the session. Older versions of JP write it only into the file's name.
    id: Option<String>,
    source: Source,
}

#[derive(Debug, Deserialize)]
struct Activation {
    id: u64,
}

/// The origin of a session's identity.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source {
    Getsid,
    Env {
        key: String,
    },
    #[serde(other)]
    Other,
}

/// Returns the current conversation of a workspace, or `None` if it has no conversation. `environment.cwd` must be in
/// the workspace, and `user_workspace` is the user's storage of the workspace.
///
/// # Errors
/// A folder of conversations cannot be listed.
pub fn current_conversation(
    user_workspace: Option<&Path>,
    environment: &Environment,
) -> Result<Option<CurrentConversation>, StoreError> {
    let conversations = store::conversations(environment)?;
    let metadata = |folder: &Path| -> Value {
        let json = small_file::read(&folder.join("metadata.json"), small_file::JP_FILE).ok().flatten();
        json.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
    };
    let title = |metadata: &Value| metadata["title"].as_str().map(str::to_owned);
    let active = user_workspace.map(|folder| active_ids(&folder.join("sessions"), environment));
    for id in active.unwrap_or_default() {
        if let Some((id, folder)) = conversations.iter().find(|(known, _)| *known == id) {
            let title = title(&metadata(folder));
            return Ok(Some(CurrentConversation { id: id.clone(), title, is_of_terminal: true }));
        }
    }
    let described = conversations.into_iter().map(|(id, folder)| (id, metadata(&folder)));
    let newest = described.max_by_key(|(id, metadata)| {
        (metadata["last_activated_at"].as_str().and_then(time::parse), id.parse::<u64>().ok())
    });
    Ok(newest.map(|(id, metadata)| CurrentConversation {
        id,
        title: title(&metadata),
        is_of_terminal: false,
    }))
}

/// Returns the conversations that were activated in this terminal, the last conversation first.
fn active_ids(sessions: &Path, environment: &Environment) -> Vec<String> {
    let (id, source) = match environment.variables.get(SESSION_VARIABLE) {
        Some(value) => (value, Source::Env { key: SESSION_VARIABLE.to_owned() }),
        None => match Environment::session_leader() {
            Some(leader) => (leader.to_string(), Source::Getsid),
            None => return Vec::new(),
        },
    };
    let key = match &source {
        Source::Env { key } => {
            let digest = Sha256::digest(id.as_bytes());
            let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("env-{key}-{hex}")
        }
        _ => format!("getsid-{id}"),
    };
    // Older versions of JP name the file after the session's id. An id with a separator is not a file name.
    let is_name = !id.contains(['/', '\\']) && id != "." && id != "..";
    let names = [Some(key), Some(id.clone()).filter(|_| is_name)];
    let read = |name: String| read_session(&sessions.join(format!("{name}.json")), &id, &source);
    names.into_iter().flatten().find_map(read).unwrap_or_default()
}

/// Returns the history in a session's file, if the file belongs to this session. The name alone is not a proof.
fn read_session(path: &Path, id: &str, source: &Source) -> Option<Vec<String>> {
    let bytes = small_file::read(path, small_file::JP_FILE).unwrap_or_else(|error| {
        tracing::warn!(%error, path = %path.display(), "failed to read a session of JP");
        None
    })?;
    let file: SessionFile = serde_json::from_slice(&bytes).ok()?;
    let is_same = file.source == *source && file.id.as_deref().is_none_or(|own| own == id);
    is_same.then(|| file.history.iter().map(|activation| activation.id.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jp_compact_runtime::environment::Variables;
    use serde_json::json;

    use super::*;

    const OLD: &str = "17738399468";
    const NEW: &str = "17738399469";

    /// A workspace with two conversations. The old one was activated last.
    struct Workspace {
        folder: tempfile::TempDir,
        environment: Environment,
    }

    impl Workspace {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            for (id, activated) in [(OLD, "2026-03-18 12:00:01.5"), (NEW, "2026-03-18T12:00:00Z")] {
                let conversation = root.join(".jp/conversations").join(id);
                fs::create_dir_all(&conversation).unwrap();
                fs::write(conversation.join("events.json"), "[]").unwrap();
                let metadata = json!({"title": format!("Title {id}"), "last_activated_at": activated});
                fs::write(conversation.join("metadata.json"), metadata.to_string()).unwrap();
            }
            fs::create_dir_all(root.join("user/sessions")).unwrap();
            let variables = Variables::These([("JP_SESSION".to_owned(), "1234".to_owned())].into());
            Self { environment: Environment { variables, ..Environment::bare(root) }, folder }
        }

        fn write_session(&self, name: &str, session: &Value) {
            let path = self.folder.path().join("user/sessions").join(name);
            fs::write(path, session.to_string()).unwrap();
        }

        #[track_caller]
        fn check(&self, id: &str, is_of_terminal: bool) {
            let user = self.folder.path().join("user");
            let current = current_conversation(Some(&user), &self.environment).unwrap().unwrap();
            assert_eq!((&*current.id, current.is_of_terminal), (id, is_of_terminal));
            assert_eq!(current.title, Some(format!("Title {id}")));
        }
    }

    /// Returns a session as JP writes it. The first conversation of the history is the one that was activated last.
    fn session(ids: &[u64], key: &str) -> Value {
        let history: Vec<Value> =
            ids.iter().map(|id| json!({"id": id, "activated_at": "2026-03-18T12:00:00Z"})).collect();
        json!({"history": history, "id": "1234", "source": {"type": "env", "key": key}})
    }

    /// The name that JP gives to the file of the session `1234` in `JP_SESSION`.
    const FILE: &str = "env-JP_SESSION-03ac674216f3e15c.json";

    #[test]
    fn conversation_of_terminal_comes_first() {
        let workspace = Workspace::new();
        workspace
            .write_session(FILE, &session(&[99_738_399_470, 17_738_399_469, 17_738_399_468], "JP_SESSION"));
        workspace.check(NEW, true);
    }

    #[test]
    fn last_activated_conversation_is_the_default() {
        let workspace = Workspace::new();
        workspace.check(OLD, false);
        assert_eq!(current_conversation(None, &workspace.environment).unwrap().unwrap().id, OLD);
    }

    #[test]
    fn session_of_another_variable_is_not_used() {
        let workspace = Workspace::new();
        workspace.write_session(FILE, &session(&[17_738_399_469], "TMUX_PANE"));
        workspace.check(OLD, false);
    }

    #[test]
    fn older_name_of_a_session_is_read() {
        let workspace = Workspace::new();
        let mut session = session(&[17_738_399_469], "JP_SESSION");
        session.as_object_mut().unwrap().remove("id");
        workspace.write_session("1234.json", &session);
        workspace.check(NEW, true);
    }

    #[test]
    fn workspace_without_conversations_has_no_current_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".jp")).unwrap();
        let environment = Environment::bare(folder.path());
        assert_eq!(current_conversation(None, &environment).unwrap(), None);
    }
}
