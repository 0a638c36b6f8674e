//! The names and patterns that the search depends on: names of transcripts, of JP's other files, and of hidden folders.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jp_compact_store as store;

/// The file name of a JP stream.
pub(super) const EVENTS: &str = "events.json";
/// The name of the folder with the events of an OpenHands conversation.
pub(super) const RECORDS: &str = "events";
/// The folder of conversations in a workspace.
pub(super) const CONVERSATIONS: &str = ".jp/conversations";
const JP: &str = ".jp";
/// The characters that a pattern can use. A name with one of them is not literal in a pattern.
pub(super) const WILDCARDS: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];
/// Other files of JP next to a stream.
const OTHER_JP_FILES: [&str; 2] = ["base_config.json", "metadata.json"];
/// The file extensions of other agents' transcripts.
const EXTENSIONS: [&str; 3] = ["json", "jsonl", "traj"];

/// Whether a path in a folder is a transcript, judged by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    /// A transcript. If its content is invalid, that is reported.
    Transcript,
    /// Possibly a transcript. The content decides, and other files are skipped.
    Candidate,
    /// Not a transcript.
    Other,
}

/// Returns the kind of a file. Only its name is read.
pub(super) fn name_kind(path: &Path) -> NameKind {
    let has_name = |name: &&str| path.file_name() == Some(OsStr::new(name));
    let has_extension = |extension: &&str| path.extension() == Some(OsStr::new(extension));
    if has_name(&EVENTS) {
        NameKind::Transcript
    } else if store::is_sidecar_path(path) || OTHER_JP_FILES.iter().any(has_name) {
        NameKind::Other
    } else if EXTENSIONS.iter().any(has_extension) {
        NameKind::Candidate
    } else {
        NameKind::Other
    }
}

/// Returns whether a name is hidden. JP's folder is not.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.') && name != JP
}

/// Returns whether a path is inside of JP's folder.
pub(super) fn is_in_jp(path: &Path) -> bool {
    path.components().any(|name| name.as_os_str() == JP)
}

/// Splits a path with wildcards into the folder before the first wildcard, and the rest. Some shells pass such paths to
/// the program unchanged.
pub(super) fn split_pattern(path: &Path) -> Option<(PathBuf, &str)> {
    let text = path.to_str()?;
    let first_wildcard = text.find(['*', '?', '[', '{'])?;
    match text[..first_wildcard].rfind('/') {
        Some(0) => Some(("/".into(), &text[1..])),
        Some(slash) => Some((text[..slash].into(), &text[slash + 1..])),
        None => Some((".".into(), text)),
    }
}
