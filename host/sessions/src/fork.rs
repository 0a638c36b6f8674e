//! A new session that contains the view of another session. It is prepared completely before anything is written. The
//! file of the session is written last, so an agent never finds a session without the files that belong to it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jp_compact_core::splice::Piece;
use jp_compact_folders::events;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file;
use jp_compact_schema::document::AppliedOverlay;
use jp_compact_store as store;
use serde_json::json;

use crate::agent::Agent;
use crate::agents::{self, Additions, Location, kimi_cli, openhands};
use crate::error::SessionError;
use crate::ids::NewIds;
use crate::list::{folder_of, whole_title_of};
use crate::places;
use crate::records::{TITLE_CHARS_MAX, shortened};
use crate::resume_command::ResumeCommand;

/// The end of a fork's title.
const TITLE_SUFFIX: &str = " (compacted)";
/// The maximum number of files that are copied with a session, and their maximum size in bytes.
const BELONGING_MAX: usize = 1000;
const BELONGING_BYTES_MAX: u64 = 64 << 20;

/// The session to copy, and the view that the copy gets.
#[derive(Debug)]
pub struct ForkSource<'a> {
    pub agent: Agent,
    pub path: &'a Path,
    /// The session itself.
    pub bytes: &'a [u8],
    /// The view in the agent's own form.
    pub view: &'a [u8],
    /// The digest of the file.
    pub sha256: &'a str,
    /// The command that makes the fork.
    pub command: &'a str,
    /// The overlays that the view applies.
    pub applied: &'a [AppliedOverlay],
}

/// A session that is ready to be written.
#[derive(Debug)]
pub struct NewSession {
    pub agent: Agent,
    pub id: String,
    pub path: PathBuf,
    pub title: String,
    /// The folder in which the agent worked.
    pub folder: Option<PathBuf>,
    pub bytes: Vec<u8>,
    pub resume: ResumeCommand,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// The files that belong to the session, such as those of sub-agents. For `OpenHands`, these are all its files.
    belonging: Vec<(PathBuf, Vec<u8>)>,
}

/// Prepares a new session. Without `dest`, it gets the place and the name that the agent expects.
///
/// # Errors
/// The source lacks an id, or the place of the new session is unknown or taken.
pub fn prepare(
    source: &ForkSource<'_>,
    dest: Option<&Path>,
    now: Timestamp,
    environment: &Environment,
) -> Result<NewSession, SessionError> {
    let agent = source.agent;
    let origin = json!({
        "source": source.path.to_string_lossy(), "sha256": source.sha256, "command": source.command,
        "overlays": source.applied.len(), "applied": source.applied, "version": env!("CARGO_PKG_VERSION"),
        "at": now.to_string(),
    });
    // The first prompt of the view can be the request of a summary.
    let title = new_title(whole_title_of(agent, source.bytes, source.path).as_deref());
    let ids = NewIds::new(now);
    let additions = Additions { origin: &origin, title: &title, source: source.path, now };
    let incomplete = |missing| SessionError::Incomplete { path: source.path.to_path_buf(), missing };
    let renumbered = agents::renumber(agent, source.view, &ids, &additions).map_err(incomplete)?;
    let folder = folder_of(agent, source.view, source.path);
    let sessions = places::folder(agent, environment);
    let in_place = sessions.as_ref().and_then(|sessions| {
        let folder = folder.as_deref();
        let location = Location { sessions, source: source.path, folder, id: &renumbered.id, now };
        agents::path(agent, &location)
    });
    let path = match (dest, &in_place, agent) {
        (Some(dest), _, Agent::OpenHands) => environment.cwd.join(dest).join(events::FOLDER),
        (Some(dest), ..) => environment.cwd.join(dest),
        (None, Some(path), _) => path.clone(),
        // A file for `opencode import`.
        (None, None, Agent::Opencode) => environment.temp_dir.join(format!("{}.json", renumbered.id)),
        (None, None, _) => return Err(SessionError::NoFolder { agent }),
    };
    // A session of `OpenHands` is a folder, and `path` is the folder of its events.
    let place = if agent == Agent::OpenHands { path.parent().unwrap_or(&path) } else { &path };
    if place.symlink_metadata().is_ok() {
        return Err(store::StoreError::Exists { path: place.to_owned() }.into());
    }
    // A `dest` in the agent's folder is not enough: names and folders have a meaning there.
    let is_in_place = dest.is_none() && sessions.is_some_and(|sessions| path.starts_with(sessions));
    let mut notes = Vec::new();
    if dest.is_some()
        && let Some(note) = agents::note_on_place(agent)
    {
        notes.push(note.to_owned());
    }
    let words = agents::resume_words(agent, &renumbered.id, &path, is_in_place);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let resume = ResumeCommand::new(&words, folder.as_deref(), &environment.cwd);
    let belonging = match agent {
        Agent::OpenHands => openhands::files(source.path, &path, &renumbered, &ids, &origin)?,
        Agent::KimiCli if is_in_place => kimi_cli::files(source.path, &path, &title),
        _ => belonging(source, &path, &renumbered.id, &ids, &mut notes)?,
    };
    Ok(NewSession {
        agent,
        id: renumbered.id,
        path,
        title,
        folder,
        bytes: renumbered.bytes,
        resume,
        notes,
        belonging,
    })
}

/// Returns the title with the suffix of a fork, once. A long title is cut before the suffix, so the list shows the suffix.
fn new_title(title: Option<&str>) -> String {
    let title = title.unwrap_or("session");
    let original = title.strip_suffix(TITLE_SUFFIX).unwrap_or(title);
    shortened(original, TITLE_CHARS_MAX - TITLE_SUFFIX.len()) + TITLE_SUFFIX
}

/// Reads the files that belong to a session of Claude Code. They are in a folder with the session's id.
fn belonging(
    source: &ForkSource<'_>,
    path: &Path,
    id: &str,
    ids: &NewIds,
    notes: &mut Vec<String>,
) -> Result<Vec<(PathBuf, Vec<u8>)>, SessionError> {
    let (old, new) = (source.path.with_extension(""), path.with_file_name(id));
    let mut files = Vec::new();
    if source.agent != Agent::ClaudeCode || !old.is_dir() {
        return Ok(files);
    }
    // A link in a cloned repository can lead to any folder of the user.
    if old.is_symlink() {
        notes.push(format!("the files in {} are not copied, because it is a symbolic link", old.display()));
        return Ok(files);
    }
    let mut paths = Vec::new();
    collect_files(&old, &mut paths).map_err(|error| SessionError::Io {
        doing: "list",
        path: old.clone(),
        source: error,
    })?;
    let bytes: u64 =
        paths.iter().filter_map(|path| fs::metadata(path).ok()).map(|metadata| metadata.len()).sum();
    if let Some(reason) = reason_not_to_copy(paths.len(), bytes) {
        notes.push(format!("the files in {} are not copied, because {reason}", old.display()));
        return Ok(files);
    }
    for path in paths {
        let relative = path.strip_prefix(&old).unwrap_or(&path);
        let bytes = agents::renumber_belonging(&path, store::read_file(&path)?.to_vec(), ids, id);
        files.push((new.join(relative), bytes));
    }
    Ok(files)
}

/// Returns the reason not to copy the files that belong to a session. `None` if they are copied.
fn reason_not_to_copy(files: usize, bytes: u64) -> Option<String> {
    if files > BELONGING_MAX {
        return Some(format!("there are more than {BELONGING_MAX}"));
    }
    let mebibytes_max = BELONGING_BYTES_MAX >> 20;
    (bytes > BELONGING_BYTES_MAX).then(|| format!("together they are larger than {mebibytes_max} MiB"))
}

/// Collects the regular files below a folder. Links are skipped.
fn collect_files(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && paths.len() <= BELONGING_MAX {
            collect_files(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// Writes a new session. Only the owner can read its files.
///
/// # Errors
/// A file cannot be written. The files and folders that were created before it are removed.
pub(crate) fn write(session: &NewSession) -> Result<(), SessionError> {
    let files = session.belonging.iter().map(|(path, bytes)| (path, bytes));
    let main = (session.agent != Agent::OpenHands).then_some((&session.path, &session.bytes));
    let (mut written, mut created): (Vec<&PathBuf>, BTreeSet<&Path>) = Default::default();
    for (path, bytes) in files.chain(main) {
        created.extend(path.ancestors().skip(1).take_while(|folder| !folder.exists()));
        if let Err(error) = write_file(path, bytes) {
            for path in written {
                let removed = fs::remove_file(path);
                tracing::debug!(?removed, path = %path.display(), "removed a file of an unfinished fork");
            }
            // A folder comes after the folder that contains it.
            for folder in created.into_iter().rev() {
                let removed = fs::remove_dir(folder);
                tracing::debug!(?removed, path = %folder.display(), "removed a folder of an unfinished fork");
            }
            return Err(error);
        }
        written.push(path);
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), SessionError> {
    let folder = path.parent().unwrap_or(path);
    private_file::make_folder(folder).map_err(|source| SessionError::Io {
        doing: "create",
        path: folder.to_path_buf(),
        source,
    })?;
    store::write_new(path, None, &[Piece::New(bytes.to_vec())], &[])?;
    Ok(())
}

/// Removes the file of a session that its agent has imported.
///
/// # Errors
/// The file cannot be removed.
pub(crate) fn remove(session: &NewSession) -> Result<(), SessionError> {
    let path = session.path.clone();
    fs::remove_file(&path).map_err(|source| SessionError::Io { doing: "remove", path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_title(title: Option<&str>, expected: &str) {
        assert_eq!(new_title(title), expected);
        assert_eq!(new_title(Some(expected)), expected, "the fork of a fork");
        assert!(expected.chars().count() <= TITLE_CHARS_MAX);
    }

    #[test]
    fn failed_write_leaves_no_folder() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().join("sessions");
        fs::create_dir(&base).unwrap();
        // The second write fails, because the file exists then.
        let file = (base.join("f/events/1.json"), b"{}".to_vec());
        let session = NewSession {
            agent: Agent::OpenHands,
            id: "f".into(),
            path: base.join("f/events"),
            title: "title".into(),
            folder: None,
            bytes: Vec::new(),
            resume: ResumeCommand::new(&["openhands"], None, &base),
            notes: Vec::new(),
            belonging: vec![file.clone(), file],
        };
        assert!(matches!(write(&session), Err(SessionError::Store(store::StoreError::Exists { .. }))));
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
    }

    #[test]
    fn title_of_a_fork_has_the_suffix_once() {
        check_title(Some("Fix\nit"), "Fix it (compacted)");
        check_title(None, "session (compacted)");
        check_title(Some(&"ä".repeat(68)), &("ä".repeat(68) + TITLE_SUFFIX));
        check_title(Some(&"ä".repeat(74)), &("ä".repeat(67) + "…" + TITLE_SUFFIX));
    }

    /// Checks that the forks to a file, outside or inside of the agent's folder, have this note and no other files.
    #[track_caller]
    fn check_destination(agent: Agent, view: &str, note: Option<&str>) -> [ResumeCommand; 2] {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment { home: Some("/home/ada".into()), ..Environment::bare(folder.path()) };
        let source = folder.path().join("source.jsonl");
        fs::write(folder.path().join("state.json"), "{}").unwrap();
        let view = view.as_bytes();
        let source =
            ForkSource { agent, path: &source, bytes: view, view, sha256: "", command: "fork", applied: &[] };
        [folder.path().to_owned(), places::folder(agent, &environment).unwrap()].map(|folder| {
            let dest = folder.join("copy.jsonl");
            let fork = prepare(&source, Some(&dest), Timestamp::UNIX_EPOCH, &environment).unwrap();
            assert_eq!(fork.path, dest);
            let notes: Vec<&str> = fork.notes.iter().map(String::as_str).collect();
            assert_eq!((notes, fork.belonging.len()), (Vec::from_iter(note), 0));
            fork.resume
        })
    }

    #[test]
    fn fork_to_a_file_has_a_note_if_its_agent_does_not_find_it() {
        for (agent, view, note) in [
            (
                Agent::Codex,
                "{\"type\":\"session_meta\",\"payload\":{\"id\":\"a\"}}\n",
                "Codex finds a session only at the usual path in its folder `sessions`",
            ),
            (
                Agent::QwenCode,
                "{\"sessionId\":\"a\",\"uuid\":\"b\"}\n",
                "Qwen Code finds a session only at the usual path in its folder `projects`",
            ),
            (
                Agent::KimiCli,
                "{\"role\":\"user\",\"content\":\"Hi\"}\n",
                "Kimi CLI finds a session only at the usual path in its folder `sessions`",
            ),
        ] {
            check_destination(agent, view, Some(note));
        }
    }

    #[test]
    fn fork_of_claude_code_to_a_file_is_resumed_by_its_path() {
        let view = "{\"type\":\"user\",\"sessionId\":\"a\",\"uuid\":\"b\",\"cwd\":\"/w\",\"message\":{\"role\":\"user\",\"content\":\"Hi\"}}\n";
        for resume in check_destination(Agent::ClaudeCode, view, None) {
            assert!(resume.to_string().ends_with("/copy.jsonl"), "{resume}");
        }
    }

    #[test]
    fn reason_not_to_copy_is_the_number_or_the_size() {
        assert_eq!(reason_not_to_copy(BELONGING_MAX, BELONGING_BYTES_MAX), None);
        assert_eq!(reason_not_to_copy(1001, 5).unwrap(), "there are more than 1000");
        assert_eq!(reason_not_to_copy(2, (64 << 20) + 1).unwrap(), "together they are larger than 64 MiB");
    }
}
