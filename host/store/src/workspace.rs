//! JP's two storages of one workspace: `.jp`, and the user's storage. This module knows how JP names folders and ids,
//! and where JP looks for them. An id must be parsed before it becomes part of a path.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::small_file;

use super::{StoreError, error::unreadable, lock_file::LockFile, small::read_small};

const JP: &str = ".jp";
const CONVERSATIONS: &str = "conversations";
const ARCHIVE: &str = ".archive";

/// Parses an id, with or without the prefix `jp-c`. Returns its digits.
pub(super) fn parse_id(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("jp-c").unwrap_or(text);
    let is_well_formed = (1..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_well_formed.then_some(digits)
}

/// Returns whether JP would parse these digits as an id, and print the same digits. An id is a time in tenths of a
/// second, which JP stores in nanoseconds.
pub(super) fn is_jp_id(id: &str) -> bool {
    let number = id.parse::<i64>().ok().filter(|number| number.checked_mul(100_000_000).is_some());
    number.is_some_and(|number| number.to_string() == id)
}

/// Returns the id in the name of a conversation's folder, `<id>` or `<id>-<slug>`.
pub(super) fn folder_id(folder: &Path) -> Option<&str> {
    let name = folder.file_name()?.to_str()?;
    let digits = name.split_once('-').map_or(name, |(digits, _)| digits);
    parse_id(digits)
}

/// A workspace's storages.
#[derive(Debug)]
pub(super) struct Workspace {
    /// The `.jp` folders. More than one only if several checkouts share a user's storage.
    roots: Vec<PathBuf>,
    /// The user's storage, if there is one.
    user: Option<PathBuf>,
}

/// One storage: a folder with `conversations/`.
pub(super) struct Storage<'a>(&'a Path);

impl Workspace {
    /// Finds the workspace of the current folder.
    pub(super) fn of_current_folder(environment: &Environment) -> Option<Self> {
        let root = environment.cwd.ancestors().map(|folder| folder.join(JP)).find(|jp| jp.is_dir())?;
        Some(Self::of_root(root, environment))
    }

    /// Finds the workspace of a conversation's folder, by its path.
    pub(super) fn of_conversation(folder: &Path, environment: &Environment) -> Option<Self> {
        let parent = folder.parent()?;
        let parent = if parent.file_name() == Some(OsStr::new(ARCHIVE)) { parent.parent()? } else { parent };
        let storage = parent.parent().filter(|_| parent.file_name() == Some(OsStr::new(CONVERSATIONS)))?;
        if storage.file_name() == Some(OsStr::new(JP)) {
            return Some(Self::of_root(storage.to_path_buf(), environment));
        }
        let storages = user_storages(environment)?.canonicalize().ok()?;
        let real = storage.canonicalize().ok()?;
        (real.parent() == Some(&*storages)).then(|| Self::of_user(real, environment))
    }

    fn of_root(root: PathBuf, environment: &Environment) -> Self {
        let user = workspace_id(&root, environment).and_then(|id| user_storage(&root, &id, environment));
        Self { roots: vec![root], user }
    }

    /// Returns the workspace of a user's storage. Its root is the root of the current folder if the id matches.
    /// Otherwise it has the roots that the storage records and that have this id.
    fn of_user(user: PathBuf, environment: &Environment) -> Self {
        let has_this_id =
            |root: &PathBuf| workspace_id(root, environment).is_some_and(|id| is_storage_of(&user, &id));
        let current = Self::of_current_folder(environment)
            .and_then(|workspace| workspace.roots.into_iter().find(has_this_id));
        let mut roots = match current {
            Some(root) => vec![root],
            None => recorded_roots(&user)
                .into_iter()
                .filter_map(|root| root.canonicalize().ok())
                .filter(has_this_id)
                .collect(),
        };
        roots.sort();
        roots.dedup();
        Self { roots, user: Some(user) }
    }

    /// Returns the storages. Of two equally new copies of a conversation, JP prefers the one in the first storage.
    pub(super) fn storages(&self) -> impl Iterator<Item = Storage<'_>> {
        self.user.iter().chain(&self.roots).map(|folder| Storage(folder))
    }

    /// Returns the workspace's `.jp`.
    pub(super) fn root(&self) -> Option<&Path> {
        self.roots.first().map(PathBuf::as_path)
    }

    /// Returns the lock that JP takes on a conversation.
    pub(super) fn lock(&self, id: &str) -> LockFile {
        let mut files =
            self.storages().map(|Storage(folder)| folder.join("locks").join(format!("jp-c{id}.lock")));
        match files.next() {
            Some(path) => LockFile::File { path, others: files.collect() },
            None => LockFile::Folder,
        }
    }
}

impl Storage<'_> {
    /// Returns the folders that JP would confuse with a new conversation of this id, because it takes the first folder
    /// whose name begins with the id.
    pub(super) fn folders_with_id(&self, id: &str) -> Result<Vec<PathBuf>, StoreError> {
        self.folders_where(|other| other.starts_with(id) || id.starts_with(other))
    }

    /// Returns the folders of a conversation, including archived folders, sorted.
    pub(super) fn folders(&self, id: &str) -> Result<Vec<PathBuf>, StoreError> {
        self.folders_where(|other| other == id)
    }

    /// Returns the id and the folder of each conversation that is not archived.
    pub(super) fn all_folders(&self) -> Result<Vec<(String, PathBuf)>, StoreError> {
        let mut folders = self.folders_where(|_| true)?;
        folders.retain(|folder| folder.parent().and_then(Path::file_name) != Some(OsStr::new(ARCHIVE)));
        let with_id = |folder: PathBuf| Some((folder_id(&folder)?.to_owned(), folder));
        Ok(folders.into_iter().filter_map(with_id).collect())
    }

    fn folders_where(&self, matches: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, StoreError> {
        let conversations = self.0.join(CONVERSATIONS);
        let mut folders = Vec::new();
        for folder in [conversations.join(ARCHIVE), conversations] {
            let entries = entries(&folder).map_err(unreadable("list", &folder))?;
            folders.extend(
                entries
                    .into_iter()
                    .filter(|folder| folder_id(folder).is_some_and(&matches) && folder.is_dir()),
            );
        }
        folders.sort();
        Ok(folders)
    }
}

/// Returns the folder with the user's storages of all workspaces.
fn user_storages(environment: &Environment) -> Option<PathBuf> {
    Some(environment.jp_user_data()?.join("workspace"))
}

/// Returns the user's storage of the workspace at `root`. If there are several, JP merges them at its next start. In
/// this case, returns the storage that JP merges into: the storage that is named after the workspace's folder,
/// otherwise the storage that was changed last.
fn user_storage(root: &Path, id: &str, environment: &Environment) -> Option<PathBuf> {
    let mut candidates = entries(&user_storages(environment)?).ok()?;
    candidates.retain(|folder| is_storage_of(folder, id) && folder.is_dir());
    let slug = root.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    let expected_name = slug.map(|slug| format!("{slug}-{id}"));
    let has_expected_name =
        |folder: &PathBuf| folder.file_name().and_then(OsStr::to_str) == expected_name.as_deref();
    candidates
        .into_iter()
        .max_by_key(|folder| (has_expected_name(folder), last_changed(folder), folder.clone()))
}

/// Returns whether the folder's name is `<id>` or `<slug>-<id>`.
fn is_storage_of(folder: &Path, id: &str) -> bool {
    let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.strip_suffix(id).is_some_and(|slug| slug.is_empty() || slug.ends_with('-'))
}

/// Reads `.jp/.id`. The id is the last line that is not empty, because JP writes a warning above it.
fn workspace_id(root: &Path, environment: &Environment) -> Option<String> {
    let path = root.join(".id");
    let text = read_small(&path, small_file::ID, environment)
        .and_then(|bytes| bytes.map(small_file::text).transpose());
    let text = text.unwrap_or_else(|error| {
        tracing::warn!(%error, path = %path.display(), "failed to read the workspace's id");
        None
    })?;
    let id = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    is_workspace_id(id).then(|| id.to_owned())
}

fn is_workspace_id(text: &str) -> bool {
    text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
}

/// Returns the `.jp` folders that a user's storage was used with, from its `storage` link and, in newer versions,
/// `roots/*.json`.
fn recorded_roots(user: &Path) -> Vec<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Root {
        path: PathBuf,
    }
    let roots = entries(&user.join("roots")).unwrap_or_default();
    let roots = roots.iter().filter_map(|file| {
        serde_json::from_slice::<Root>(&small_file::read(file, small_file::JP_FILE).ok()??).ok()
    });
    roots.map(|root| root.path.join(JP)).chain([user.join("storage")]).collect()
}

fn last_changed(folder: &Path) -> Option<SystemTime> {
    let files = entries(folder).unwrap_or_default();
    files.iter().filter_map(|file| fs::metadata(file).ok()?.modified().ok()).max()
}

/// Lists a folder. A missing folder is empty.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(parse_id(text), expect);
    }

    #[test]
    fn id_accepts_digits_with_and_without_prefix() {
        check("17738399468", Some("17738399468"));
        check("jp-c17738399468", Some("17738399468"));
    }

    #[test]
    fn id_rejects_other_text() {
        check("", None);
        check("jp-c", None);
        check("jp-c-1", None);
        check("../1", None);
        check("1/2", None);
        check("1-slug", None);
        check("١٢", None);
        check("123456789012345678901", None);
    }

    #[test]
    fn jp_reads_ids_below_a_limit_and_without_leading_zeros() {
        assert!(is_jp_id("17738399468") && is_jp_id("92233720368") && is_jp_id("0"));
        assert!(!is_jp_id("92233720369") && !is_jp_id("017738399468") && !is_jp_id("99999999999999999999"));
    }

    #[test]
    fn folder_id_ends_at_first_dash() {
        assert_eq!(folder_id(Path::new("/c/177-a-1")), Some("177"));
        assert_eq!(folder_id(Path::new("/c/177")), Some("177"));
        assert_eq!(folder_id(Path::new("/c/177x")), None);
        assert_eq!(folder_id(Path::new("/c/.old-177")), None);
    }

    #[test]
    fn storage_name_ends_with_workspace_id() {
        assert!(is_storage_of(Path::new("/u/jp-otvo8"), "otvo8"));
        assert!(is_storage_of(Path::new("/u/otvo8"), "otvo8"));
        assert!(!is_storage_of(Path::new("/u/xotvo8"), "otvo8"));
    }
}
