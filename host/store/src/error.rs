//! The errors of the store. Each names the file. The error of the operating system is its source.

use std::{error::Error, ffi::OsString, fmt, io, path::PathBuf, time::Duration};

/// An error of the store.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The path does not exist, and is not an id or a title.
    NotFound { path: PathBuf },
    /// No conversation has that id in the storages of the workspace.
    UnknownId {
        id: String,
        /// The workspace's `.jp`, or the allowed folder. `None` outside of a workspace.
        workspace: Option<PathBuf>,
    },
    /// A transcript is outside of the allowed folder.
    Outside {
        /// The path or id as the caller gave it.
        transcript: OsString,
        folder: PathBuf,
    },
    /// A folder without an `events.json`.
    NoEvents { folder: PathBuf },
    /// The path of a transcript is not a regular file.
    NotAFile {
        path: PathBuf,
        /// The kind of file.
        found: &'static str,
    },
    /// Two folders in one storage have the same id.
    Ambiguous { id: String, first: PathBuf, second: PathBuf },
    /// Several conversations have this title, or an id that begins with this text.
    AmbiguousName { name: String, first: PathBuf, second: PathBuf },
    /// The two copies of a conversation disagree. Writing to one would lose the other's turns.
    Disagree {
        /// The copy that JP loads.
        path: PathBuf,
        twin: PathBuf,
    },
    /// A symlink that is not followed: in a write, or in a read of a sidecar, an event's file, or an allowed root.
    Symlink { path: PathBuf },
    /// A file that is read but never written, because it is not named `events.json`.
    NotEvents { path: PathBuf },
    /// The path of a new file or conversation exists already.
    Exists { path: PathBuf },
    /// A new conversation has the id of another conversation.
    IdTaken {
        id: String,
        /// The folder of the other conversation.
        folder: PathBuf,
    },
    /// The name of a new folder among JP's conversations does not begin with an id.
    NoId { path: PathBuf },
    /// Another process holds the lock.
    Locked {
        /// The transcript.
        path: PathBuf,
        /// The locked file or folder.
        lock: PathBuf,
        waited: Duration,
        /// The process, if the system reports it.
        holder: Option<String>,
    },
    /// The file has changed since it was read.
    Changed {
        path: PathBuf,
        /// The change: "grew", "was changed".
        how: &'static str,
    },
    /// The new file would exceed the process's limit for files (`RLIMIT_FSIZE`).
    TooLarge { path: PathBuf, size_bytes: u64, limit_bytes: u64 },
    /// A read failed.
    Unreadable {
        /// The verb: "open", "read".
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A write failed. The old file is unchanged.
    Unwritable {
        /// The verb: "lock", "replace".
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The new file is in place, but its folder could not be synced. A power cut may restore the old file.
    NotDurable { path: PathBuf, source: io::Error },
}

/// The category of a store error. It decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The transcript does not exist or cannot be read.
    Unreadable,
    /// The transcript cannot be written now, because of another writer, another copy, or several matches.
    Conflict,
    /// The transcript cannot be written.
    Unwritable,
}

impl StoreError {
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::NotFound { .. }
            | Self::UnknownId { .. }
            | Self::Outside { .. }
            | Self::NoEvents { .. }
            | Self::NotAFile { .. }
            | Self::Unreadable { .. } => StoreErrorKind::Unreadable,
            Self::Ambiguous { .. }
            | Self::AmbiguousName { .. }
            | Self::Disagree { .. }
            | Self::Locked { .. }
            | Self::Changed { .. } => StoreErrorKind::Conflict,
            Self::Symlink { .. }
            | Self::NotEvents { .. }
            | Self::Exists { .. }
            | Self::IdTaken { .. }
            | Self::NoId { .. }
            | Self::TooLarge { .. }
            | Self::Unwritable { .. }
            | Self::NotDurable { .. } => StoreErrorKind::Unwritable,
        }
    }

    /// Returns whether the same operation may succeed later, because the cause was another writer of the file.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Changed { .. })
    }

    /// Returns a hint for the user, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound { .. } => {
                "give a conversation folder, an events.json, or an id such as 17738399468 inside its workspace"
            }
            Self::UnknownId { workspace: None, .. } => {
                "run the command inside the workspace, or give the path of the conversation's folder"
            }
            Self::UnknownId { .. } => "`jp conversation ls` lists the ids of this workspace",
            Self::Outside { .. } => {
                "give a path inside that folder; the copy that JP would load must be inside, too"
            }
            Self::NoEvents { .. } => {
                "give a conversation's folder, or search a folder with `jp-compact batch DIR`"
            }
            Self::Ambiguous { .. } => "give the path of one folder",
            Self::AmbiguousName { .. } => "give a whole id; `jp conversation ls` lists them",
            Self::Disagree { .. } => {
                "compare the two with `diff`: JP loads the first, and overwrites the second when it next saves the \
                 conversation"
            }
            Self::Symlink { .. } => "give the path that it points to",
            Self::NotEvents { .. } => {
                "give the events.json of a conversation; other files in JP's format are only read"
            }
            Self::Exists { .. } => "give a path that does not exist",
            Self::IdTaken { .. } | Self::NoId { .. } => {
                "give a folder whose name begins with a new id, such as 17738399469 or 17738399469-fork"
            }
            Self::Locked { .. } => {
                "run the command again when that process is done, or wait longer with `--lock-timeout`"
            }
            Self::Changed { .. } => "run the command again",
            Self::TooLarge { .. } => "raise the limit with `ulimit -f`",
            Self::NotAFile { .. }
            | Self::Unreadable { .. }
            | Self::Unwritable { .. }
            | Self::NotDurable { .. } => return None,
        })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { path } => write!(f, "failed to find a transcript at {}", path.display()),
            Self::UnknownId { id, workspace: Some(workspace) } => {
                write!(f, "failed to find conversation {id} in {} or the user's storage", workspace.display())
            }
            Self::UnknownId { id, workspace: None } => {
                write!(f, "failed to find conversation {id}: the current folder is not in a workspace")
            }
            Self::Outside { transcript, folder } => {
                write!(f, "{} is not inside {}", transcript.display(), folder.display())
            }
            Self::NoEvents { folder } => {
                write!(f, "{} is not a conversation: it has no events.json", folder.display())
            }
            Self::NotAFile { path, found } => {
                write!(f, "{} is {found}, not a regular file", path.display())
            }
            Self::Ambiguous { id, first, second } => {
                write!(f, "two folders have the id {id}: {} and {}", first.display(), second.display())
            }
            Self::AmbiguousName { name, first, second } => {
                write!(f, "`{name}` matches several conversations: {}, {}", first.display(), second.display())
            }
            Self::Disagree { path, twin } => {
                write!(
                    f,
                    "two copies of the conversation disagree: {} and {}",
                    path.display(),
                    twin.display()
                )
            }
            Self::Symlink { path } => {
                write!(f, "{} is a symlink, which is not followed here", path.display())
            }
            Self::NotEvents { path } => write!(f, "{} is not named events.json", path.display()),
            Self::Exists { path } => write!(f, "{} already exists", path.display()),
            Self::IdTaken { id, folder } => {
                write!(f, "JP would confuse conversation {id} with {}", folder.display())
            }
            Self::NoId { path } => {
                write!(
                    f,
                    "JP would not find a conversation in {}: its name does not begin with a valid id",
                    path.display()
                )
            }
            Self::Locked { path, lock, waited, holder } => write!(
                f,
                "{} is locked by {}: failed to lock {} within {} s",
                path.display(),
                holder.as_deref().unwrap_or("another process"),
                lock.display(),
                waited.as_secs_f32()
            ),
            Self::Changed { path, how } => write!(f, "{} {how} since it was read", path.display()),
            Self::TooLarge { path, size_bytes, limit_bytes } => write!(
                f,
                "{} would have {size_bytes} bytes, but this process can write files of at most {limit_bytes} bytes",
                path.display()
            ),
            Self::Unreadable { doing, path, .. } | Self::Unwritable { doing, path, .. } => {
                write!(f, "failed to {doing} {}", path.display())
            }
            Self::NotDurable { path, .. } => {
                write!(f, "{} was written, but its folder could not be synced", path.display())
            }
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { source, .. }
            | Self::Unwritable { source, .. }
            | Self::NotDurable { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Converts an I/O error into [`StoreError::Unreadable`].
pub(super) fn unreadable(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.into();
    move |source| StoreError::Unreadable { doing, path, source }
}

/// Converts an I/O error into [`StoreError::Unwritable`].
pub(super) fn unwritable(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.into();
    move |source| StoreError::Unwritable { doing, path, source }
}
