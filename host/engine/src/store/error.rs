//! What can go wrong with a transcript on disk. Each error names the file; the system's own words are its source.

use std::{error::Error, ffi::OsString, fmt, io, path::PathBuf, time::Duration};

/// An error of the store.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// There is nothing at that path, and it is no id.
    NotFound {
        /// What was asked for.
        path: PathBuf,
    },
    /// No conversation has that id in the storages of the workspace.
    UnknownId {
        /// The id asked for.
        id: String,
        /// The workspace's `.jp`; `None` where there is no workspace to look in.
        workspace: Option<PathBuf>,
    },
    /// A transcript outside of the only folder that it may lie in.
    Outside {
        /// What was asked for, as it was asked for.
        transcript: OsString,
        /// The folder.
        folder: PathBuf,
    },
    /// A folder that is not a conversation's.
    NoEvents {
        /// The folder.
        folder: PathBuf,
    },
    /// Something other than a regular file where a transcript should be.
    NotAFile {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// One id, two folders in one storage.
    Ambiguous {
        /// The id.
        id: String,
        /// One folder.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The two copies of a conversation disagree, so that writing to one would lose the other's turns.
    Disagree {
        /// The copy that JP loads.
        path: PathBuf,
        /// The copy that holds something else.
        twin: PathBuf,
    },
    /// A symlink, which is read but never written through.
    Symlink {
        /// The link.
        path: PathBuf,
    },
    /// A file that is read but never written, for it is not named as JP names a stream.
    NotEvents {
        /// The file.
        path: PathBuf,
    },
    /// There is something where a new conversation was to be made.
    Exists {
        /// Where it is.
        path: PathBuf,
    },
    /// A new conversation was to have an id that another has.
    IdTaken {
        /// The id.
        id: String,
        /// The other's folder.
        folder: PathBuf,
    },
    /// A new conversation was to be among JP's, in a folder that is not named by an id.
    NoId {
        /// The folder.
        path: PathBuf,
    },
    /// Somebody else holds the lock.
    Locked {
        /// The transcript.
        path: PathBuf,
        /// The file or folder that is locked.
        lock: PathBuf,
        /// How long was waited.
        waited: Duration,
        /// Who has it, where the system tells that.
        holder: Option<String>,
    },
    /// The file is no longer what was read.
    Changed {
        /// The file.
        path: PathBuf,
        /// What became of it.
        how: &'static str,
    },
    /// The new file would exceed the process's limit for files (`RLIMIT_FSIZE`).
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What it would hold.
        size_bytes: u64,
        /// What it may hold.
        limit_bytes: u64,
    },
    /// The system refused to read.
    Unreadable {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The system refused to write. The old file stands.
    Unwritable {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The new file is in place, but its folder could not be synced: a power cut may bring the old one back.
    NotDurable {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// What an error means to whoever ran the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// There is no transcript to be had.
    Unreadable,
    /// There is one, but now is not the time to write to it.
    Conflict,
    /// There is one, and it cannot be written.
    Unwritable,
}

impl StoreError {
    /// What the error means.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::NotFound { .. }
            | Self::UnknownId { .. }
            | Self::Outside { .. }
            | Self::NoEvents { .. }
            | Self::NotAFile { .. }
            | Self::Unreadable { .. } => StoreErrorKind::Unreadable,
            Self::Ambiguous { .. } | Self::Disagree { .. } | Self::Locked { .. } | Self::Changed { .. } => {
                StoreErrorKind::Conflict
            }
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

    /// What to do about it, where there is something to do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound { .. } => {
                "give a conversation folder, an events.json, or an id such as 17738399468 inside its workspace"
            }
            Self::UnknownId { workspace: None, .. } => {
                "run it inside the workspace, or give the path of the conversation's folder"
            }
            Self::UnknownId { .. } => "`jp conversation ls` lists the ids of this workspace",
            Self::Outside { .. } => {
                "give a path inside that folder; the copy that JP would load has to lie inside, too"
            }
            Self::NoEvents { .. } => {
                "a conversation's folder holds its events in events.json; `jp-compact batch DIR` searches a folder"
            }
            Self::Ambiguous { .. } => "give the path of the folder that is meant",
            Self::Disagree { .. } => {
                "compare the two with `diff`: JP loads the first, and overwrites the second when it next saves the \
                 conversation"
            }
            Self::Symlink { .. } => "give the path that it points to",
            Self::NotEvents { .. } => "only a conversation's events.json is written to",
            Self::Exists { .. } => "give a folder that is not there yet",
            Self::IdTaken { .. } | Self::NoId { .. } => {
                "among JP's conversations give a folder named by a new id, such as 17738399469 or 17738399469-fork"
            }
            Self::Locked { .. } => {
                "wait until that process is done, and run it again; `--lock-timeout` says how long to wait"
            }
            Self::Changed { .. } => "run it again on what is there now",
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
            Self::NotFound { path } => write!(f, "there is no transcript at {}", path.display()),
            Self::UnknownId { id, workspace: Some(workspace) } => {
                write!(f, "no conversation {id} in {} or the user's storage", workspace.display())
            }
            Self::UnknownId { id, workspace: None } => {
                write!(f, "no workspace here to look for conversation {id} in")
            }
            Self::Outside { transcript, folder } => {
                write!(f, "{} is not inside {}", transcript.display(), folder.display())
            }
            Self::NoEvents { folder } => {
                write!(f, "{} is no conversation: it holds no events.json", folder.display())
            }
            Self::NotAFile { path, found } => {
                write!(f, "{} is {found}, not a file that can be read", path.display())
            }
            Self::Ambiguous { id, first, second } => {
                write!(f, "two folders have the id {id}: {} and {}", first.display(), second.display())
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
                write!(f, "{} is a symlink, which is not written through", path.display())
            }
            Self::NotEvents { path } => write!(f, "{} is not named events.json", path.display()),
            Self::Exists { path } => write!(f, "there is something at {} already", path.display()),
            Self::IdTaken { id, folder } => {
                write!(f, "JP would take {} for conversation {id}", folder.display())
            }
            Self::NoId { path } => {
                write!(
                    f,
                    "JP would not find a conversation in {}: its name does not begin with an id of JP's",
                    path.display()
                )
            }
            Self::Locked { path, lock, waited, holder } => write!(
                f,
                "{} is locked by {}: no lock on {} in {} s",
                path.display(),
                holder.as_deref().unwrap_or("another process"),
                lock.display(),
                waited.as_secs_f32()
            ),
            Self::Changed { path, how } => write!(f, "{} {how} since it was read", path.display()),
            Self::TooLarge { path, size_bytes, limit_bytes } => write!(
                f,
                "{} would hold {size_bytes} bytes, and this process may write files of {limit_bytes}",
                path.display()
            ),
            Self::Unreadable { doing, path, .. } | Self::Unwritable { doing, path, .. } => {
                write!(f, "failed to {doing} {}", path.display())
            }
            Self::NotDurable { path, .. } => {
                write!(f, "{} is in place, but failed to sync its folder", path.display())
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

/// Makes an [`StoreError::Unreadable`] of a system's error.
pub(super) fn unreadable(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.into();
    move |source| StoreError::Unreadable { doing, path, source }
}

/// Makes an [`StoreError::Unwritable`] of a system's error.
pub(super) fn unwritable(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.into();
    move |source| StoreError::Unwritable { doing, path, source }
}
