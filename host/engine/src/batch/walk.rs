//! The search for the transcripts of a batch below the given paths. It returns each once, in path order. Files that git
//! ignores are skipped. The function [`name_kind`] decides which files may be transcripts.

mod names;
mod pattern;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::FileType;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ignore::{WalkBuilder, WalkState};
use jp_compact_runtime::environment::Environment;
use jp_compact_transcripts as transcripts;

use super::Shard;
use jp_compact_store as store;
use names::{CONVERSATIONS, EVENTS, NameKind, RECORDS, is_hidden, is_in_jp, name_kind, split_pattern};
use pattern::Pattern;

/// The transcripts that were found.
#[derive(Debug, Default)]
pub struct FoundFiles {
    roots: Vec<Root>,
    found: Vec<FoundTranscript>,
    faults: Vec<Fault>,
    /// The transcripts in other shards.
    in_other_shards: Vec<FoundTranscript>,
    /// Whether another shard has a path that cannot be searched.
    other_shards_have_faults: bool,
    /// Each transcript whose view would have the same path as the view of an earlier transcript, with that transcript.
    same_view_paths: Vec<(PathBuf, PathBuf)>,
}

/// A path that cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub path: PathBuf,
    pub reason: String,
    pub hint: Option<String>,
}

/// The hint after a path that does not exist.
const PATHS_HINT: &str =
    "give a folder, a transcript, a pattern such as '*.jsonl', or the id of a conversation";

/// A path from the command line.
#[derive(Debug)]
struct Root {
    /// The path as the user typed it.
    typed: PathBuf,
    /// The path with all links resolved.
    real: PathBuf,
}

#[derive(Debug)]
struct FoundTranscript {
    /// The index of its root.
    root: u32,
    /// Whether the content must be read to decide whether it is a transcript.
    needs_detection: bool,
    bytes: u64,
    /// The path relative to the root. Empty if the root is a file.
    relative_path: Box<Path>,
}

impl FoundFiles {
    /// Finds the transcripts of these paths. Skips `out`, because views are written there.
    #[must_use]
    pub fn gather(
        paths: &[OsString],
        out: Option<&Path>,
        shard: Option<Shard>,
        environment: &Environment,
    ) -> Self {
        let mut files = Self::default();
        let real_out = out.and_then(|out| environment.cwd.join(out).canonicalize().ok());
        for path in paths {
            files.add_path(Path::new(path), real_out.as_deref(), environment);
        }
        files.sort_and_deduplicate();
        if out.is_some() {
            files.find_same_view_paths();
        }
        if let Some(shard) = shard {
            files.keep_shard(shard);
        }
        files
    }

    fn keep_shard(&mut self, shard: Shard) {
        let Self { roots, found, faults, .. } = self;
        let is_in_shard = |transcript: &FoundTranscript| {
            let root = &roots[transcript.root as usize];
            shard.contains(shard_key(root, &transcript.relative_path))
        };
        (self.found, self.in_other_shards) = std::mem::take(found).into_iter().partition(is_in_shard);
        let faults_before = faults.len();
        faults.retain(|fault| shard.contains(fault.path.as_os_str().as_bytes()));
        self.other_shards_have_faults = faults.len() < faults_before;
    }

    /// Returns whether another shard has something to report.
    #[must_use]
    pub fn other_shards_have_transcripts(&self, environment: &Environment) -> bool {
        self.other_shards_have_faults
            || self.in_other_shards.iter().any(|found| {
                !found.needs_detection || !is_other_file(&environment.cwd.join(self.real_path(found)))
            })
    }

    /// Returns the paths, without files whose content shows that they are not transcripts.
    pub fn transcripts<'a>(&'a self, environment: &'a Environment) -> impl Iterator<Item = PathBuf> + 'a {
        (0..self.len()).filter_map(move |index| {
            let path = self.path(index);
            let is_other = self.needs_detection(index) && is_other_file(&environment.cwd.join(&path));
            (!is_other).then_some(path)
        })
    }

    /// Returns the number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Returns whether no file was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the total size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.found.iter().map(|found| found.bytes).sum()
    }

    /// Returns the size of a file when it was found.
    #[must_use]
    pub fn bytes_of(&self, index: usize) -> u64 {
        self.found[index].bytes
    }

    /// Returns whether the content decides whether the file is a transcript. If so, a file that is not a transcript is
    /// skipped without a failure.
    #[must_use]
    pub fn needs_detection(&self, index: usize) -> bool {
        self.found[index].needs_detection
    }

    /// Returns the path, starting with the path from the command line.
    #[must_use]
    pub fn path(&self, index: usize) -> PathBuf {
        let FoundTranscript { root, relative_path, .. } = &self.found[index];
        join(&self.roots[*root as usize].typed, relative_path)
    }

    /// Returns the paths that cannot be searched.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns whether another entry of the list, or an entry of another shard, is the file `real_path`, a path with
    /// all links resolved.
    #[must_use]
    pub fn contains_other(&self, index: usize, real_path: &Path) -> bool {
        let find = |list: &[FoundTranscript]| {
            list.binary_search_by(|found| self.real_path(found).as_path().cmp(real_path))
        };
        find(&self.found).is_ok_and(|other| other != index) || find(&self.in_other_shards).is_ok()
    }

    /// Returns the path of the view in the output folder: the path of the transcript relative to its root. If the user
    /// typed the folder of a conversation, or its file, the path starts with the name of this folder.
    #[must_use]
    pub fn relative_path(&self, index: usize) -> PathBuf {
        let FoundTranscript { root, relative_path, .. } = &self.found[index];
        let real_root = &self.roots[*root as usize].real;
        if relative_path.as_os_str().is_empty() {
            let name = file_name(real_root);
            return match real_root.parent() {
                Some(folder) if has_no_own_name(&name) => file_name(folder).join(name),
                _ => name,
            };
        }
        if has_no_own_name(relative_path) {
            file_name(real_root).join(relative_path)
        } else {
            relative_path.to_path_buf()
        }
    }

    /// Returns an earlier transcript whose view has the same path.
    #[must_use]
    pub fn same_view_path(&self, index: usize) -> Option<&Path> {
        let path = self.path(index);
        self.same_view_paths.iter().find(|(later, _)| *later == path).map(|(_, earlier)| earlier.as_path())
    }

    /// Finds views that would have the same path. Their transcripts are below two roots, or one of them is the
    /// `events.json` or `events` of its root, because the path of its view starts with the name of the root.
    fn find_same_view_paths(&mut self) {
        let mut view_paths: Vec<(PathBuf, usize)> =
            (0..self.len()).map(|index| (self.relative_path(index), index)).collect();
        view_paths.sort_unstable();
        for same in view_paths.chunk_by(|left, right| left.0 == right.0) {
            let earliest = self.path(same[0].1);
            for (_, index) in &same[1..] {
                self.same_view_paths.push((self.path(*index), earliest.clone()));
            }
        }
    }

    fn real_path(&self, found: &FoundTranscript) -> PathBuf {
        join(&self.roots[found.root as usize].real, &found.relative_path)
    }

    /// Sorts the files and removes duplicates.
    fn sort_and_deduplicate(&mut self) {
        let mut found = std::mem::take(&mut self.found);
        if self.roots.len() > 1 {
            found.sort_by_cached_key(|found| self.real_path(found));
            found.dedup_by(|left, right| self.real_path(left) == self.real_path(right));
        } else {
            found.sort_by(|left, right| compare_paths(&left.relative_path, &right.relative_path));
            found.dedup_by(|left, right| left.relative_path == right.relative_path);
        }
        found.shrink_to_fit();
        self.found = found;
        self.faults.sort_by(|left, right| (&left.path, &left.reason).cmp(&(&right.path, &right.reason)));
        self.faults.dedup();
    }

    /// Adds the transcripts of a path, a pattern, or the id of a conversation.
    fn add_path(&mut self, typed: &Path, out: Option<&Path>, environment: &Environment) {
        let path = environment.cwd.join(typed);
        if !typed.as_os_str().is_empty() && path.symlink_metadata().is_ok() {
            return self.walk(typed, &path, None, out);
        }
        if let Some((folder, pattern)) = split_pattern(typed) {
            return self.walk(&folder, &environment.cwd.join(&folder), Some(pattern), out);
        }
        match store::locate(typed.as_os_str(), environment) {
            Ok(place) => self.walk(place.path(), place.path(), None, out),
            Err(error) => {
                let hint = match error {
                    store::StoreError::NotFound { .. } => Some(PATHS_HINT),
                    _ => error.hint(),
                };
                self.add_fault_with_hint(typed, error.to_string(), hint);
            }
        }
    }

    fn add_fault(&mut self, path: &Path, reason: impl Into<String>) {
        self.add_fault_with_hint(path, reason.into(), None);
    }

    fn add_fault_with_hint(&mut self, path: &Path, reason: String, hint: Option<&str>) {
        self.faults.push(Fault { path: path.to_path_buf(), reason, hint: hint.map(str::to_owned) });
    }

    /// Adds the transcripts of a root: a file, or a folder that is searched.
    fn walk(&mut self, typed: &Path, path: &Path, pattern: Option<&str>, out: Option<&Path>) {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return self.add_fault(typed, error.to_string()),
        };
        let root = u32::try_from(self.roots.len()).expect("a command line is shorter");
        self.roots.push(Root { typed: typed.to_path_buf(), real: real.clone() });
        let metadata = match real.metadata() {
            Ok(metadata) => metadata,
            Err(error) => return self.add_fault(typed, error.to_string()),
        };
        let is_record_folder = store::is_record_folder(&real);
        if pattern.is_none() && (!metadata.is_dir() || is_record_folder) {
            let bytes = if is_record_folder { store::record_bytes(&real) } else { metadata.len() };
            let relative_path = Path::new("").into();
            self.found.push(FoundTranscript { root, needs_detection: false, bytes, relative_path });
            return;
        }
        let pattern = match pattern.map(|pattern| Pattern::new(&real, pattern)).transpose() {
            Ok(pattern) => pattern,
            Err(error) => {
                return self.add_fault(&typed.join(pattern.unwrap_or_default()), error.to_string());
            }
        };
        let mut folders = vec![real.clone()];
        let conversations = real.join(CONVERSATIONS);
        if pattern.is_none() && conversations.is_dir() {
            // The user named the workspace, so its conversations count even if git ignores them.
            folders.push(conversations);
        }
        let mut searched = HashSet::new();
        while !folders.is_empty() {
            searched.extend(folders.iter().cloned());
            let (in_jp, others): (Vec<_>, Vec<_>) = folders.into_iter().partition(|folder| is_in_jp(folder));
            folders = self.collect(root, &others, true, pattern.as_ref(), out);
            // Git often ignores the folder of JP. The user named it, or its workspace.
            folders.extend(self.collect(root, &in_jp, false, pattern.as_ref(), out));
            folders.retain(|folder| !searched.contains(folder));
        }
    }

    /// Adds the transcripts and the faults of one search. Returns the folders that the pattern names, because git's
    /// rules could hide them from the search.
    fn collect(
        &mut self,
        root: u32,
        folders: &[PathBuf],
        with_git: bool,
        pattern: Option<&Pattern>,
        out: Option<&Path>,
    ) -> Vec<PathBuf> {
        let Some((first, others)) = folders.split_first() else { return Vec::new() };
        let mut builder = WalkBuilder::new(first);
        for folder in others {
            builder.add(folder);
        }
        builder.standard_filters(with_git).require_git(false).git_global(false).ignore(false).hidden(false);
        let out_folder = out.map(Path::to_path_buf);
        builder.filter_entry(move |entry| {
            entry.depth() == 0 || !is_hidden(entry.file_name()) && Some(entry.path()) != out_folder.as_deref()
        });
        let Root { typed, real } = &self.roots[root as usize];
        let (found, faults) = (Mutex::new(&mut self.found), Mutex::new(&mut self.faults));
        let named = Mutex::new(Vec::new());
        let matches = |path: &Path| pattern.is_none_or(|pattern| pattern.matches(path));
        let add = |path: &Path, needs_detection: bool, bytes: u64| {
            let relative_path = path.strip_prefix(real).unwrap_or(path).into();
            let transcript = FoundTranscript { root, needs_detection, bytes, relative_path };
            found.lock().unwrap_or_else(PoisonError::into_inner).push(transcript);
        };
        // Several threads search, in any order. Processing starts only after all files are found.
        builder.build_parallel().run(|| {
            Box::new(|entry| {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        let path = match error_path(&error).and_then(|path| path.strip_prefix(real).ok()) {
                            Some(relative_path) => join(typed, relative_path),
                            None => typed.clone(),
                        };
                        let reason = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                        let fault = Fault { path, reason, hint: None };
                        faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
                        return WalkState::Continue;
                    }
                };
                let path = entry.path();
                if entry.depth() > 0 && is_candidate(path, entry.file_type()) && matches(path) {
                    let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                    add(path, name_kind(path) == NameKind::Candidate, bytes);
                }
                if !entry.file_type().is_some_and(|kind| kind.is_dir()) {
                    return WalkState::Continue;
                }
                let records = record_files(path);
                if !records.is_empty() {
                    if matches(path) || records.iter().any(|file| matches(file)) {
                        add(path, true, store::record_bytes(path));
                    }
                    return WalkState::Skip;
                }
                for path in pattern.into_iter().flat_map(|pattern| pattern.named_in(path)) {
                    match path.symlink_metadata() {
                        Ok(_) if out.is_some_and(|out| path.starts_with(out)) => {}
                        Ok(metadata) if metadata.is_dir() => {
                            named.lock().unwrap_or_else(PoisonError::into_inner).push(path);
                        }
                        Ok(metadata) if is_candidate(&path, Some(metadata.file_type())) && matches(&path) => {
                            add(&path, name_kind(&path) == NameKind::Candidate, metadata.len());
                        }
                        _ => {}
                    }
                }
                WalkState::Continue
            })
        });
        named.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the content shows that the file is not a transcript. A file that cannot be read may be one.
pub(super) fn is_other_file(path: &Path) -> bool {
    store::read_file(path).is_ok_and(|bytes| transcripts::detect(&bytes).is_none())
}

/// Returns whether a path may be a transcript. A candidate must be a regular file.
fn is_candidate(path: &Path, kind: Option<FileType>) -> bool {
    match name_kind(path) {
        NameKind::Transcript => true,
        NameKind::Candidate => kind.is_some_and(|kind| kind.is_file()),
        NameKind::Other => false,
    }
}

/// Returns the files of the events of one conversation, if they are in this folder. The caller then does not search the
/// folder. Most conversation folders have `events.json` instead, and this check is faster than a list of all names.
fn record_files(folder: &Path) -> Vec<PathBuf> {
    let is_of_jp = folder.join(EVENTS).symlink_metadata().is_ok();
    if is_of_jp { Vec::new() } else { store::record_files(folder) }
}

/// Returns whether a path is the fixed name of a transcript in the folder of its conversation: JP's stream, or OpenHands'
/// folder of events.
fn has_no_own_name(path: &Path) -> bool {
    [EVENTS, RECORDS].iter().any(|name| path == Path::new(name))
}

fn file_name(path: &Path) -> PathBuf {
    path.file_name().map(PathBuf::from).unwrap_or_default()
}

/// Compares relative paths by their components, like [`Path::cmp`]. It is faster, because the paths are not split.
fn compare_paths(left: &Path, right: &Path) -> Ordering {
    // A separator is less than any other byte of a name.
    let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    let (left, right) = (left.as_os_str().as_bytes(), right.as_os_str().as_bytes());
    left.iter().map(rank).cmp(right.iter().map(rank))
}

/// Joins paths. Without a relative path, the result has no trailing slash.
fn join(root: &Path, relative_path: &Path) -> PathBuf {
    if relative_path.as_os_str().is_empty() { root.to_path_buf() } else { root.join(relative_path) }
}

/// Returns the bytes that select the shard: the relative path, which does not depend on the location of the searched
/// folder, or the path of a file as the user typed it.
fn shard_key<'a>(root: &'a Root, relative_path: &'a Path) -> &'a [u8] {
    if relative_path.as_os_str().is_empty() {
        root.typed.as_os_str().as_bytes()
    } else {
        relative_path.as_os_str().as_bytes()
    }
}

/// Returns the path of a search error.
fn error_path(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => error_path(err),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
