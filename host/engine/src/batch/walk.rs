//! Finds the transcripts of a batch below the given paths, in path order, each once. Folders are searched as
//! `git` sees them. The function [`name_kind`] decides which files may be transcripts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ignore::overrides::OverrideBuilder;
use ignore::{DirEntry, WalkBuilder, WalkState};
use jp_compact_runtime::environment::Environment;

use jp_compact_transcripts as transcripts;

use super::Shard;
use jp_compact_store as store;

/// The file name of a JP stream.
const EVENTS: &str = "events.json";
/// The folder of conversations in a workspace.
const CONVERSATIONS: &str = ".jp/conversations";
const JP: &str = ".jp";

/// The transcripts that were found.
#[derive(Debug, Default)]
pub struct Files {
    roots: Vec<Root>,
    found: Vec<FoundTranscript>,
    faults: Vec<Fault>,
    /// Transcripts in other shards.
    elsewhere: Vec<FoundTranscript>,
    /// Whether another shard has a path that cannot be searched.
    faulty_elsewhere: bool,
    /// Transcripts whose view would have the same path as another view.
    clashes: Vec<(PathBuf, PathBuf)>,
}

/// A path that cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The path.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// A path from the command line.
#[derive(Debug)]
struct Root {
    /// The path as the user typed it.
    given: PathBuf,
    real: PathBuf,
}

/// A transcript: its root and its relative path. The relative path is empty if the root is a file.
#[derive(Debug)]
struct FoundTranscript {
    root: u32,
    /// Whether the content must be read to decide whether it is a transcript.
    needs_detection: bool,
    bytes: u64,
    below: Box<Path>,
}

/// Other files of JP next to a stream.
const OTHER_JP_FILES: [&str; 2] = ["base_config.json", "metadata.json"];
/// The file extensions of other agents' transcripts.
const EXTENSIONS: [&str; 3] = ["json", "jsonl", "traj"];

/// Whether a path in a folder is a transcript, judged by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    /// A transcript. If its content is invalid, that is reported.
    Transcript,
    /// Possibly a transcript. The content decides, and other files are skipped.
    Candidate,
    /// Not a transcript.
    Other,
}

fn name_kind(path: &Path) -> NameKind {
    let is = |name: &&str| path.file_name() == Some(OsStr::new(name));
    if is(&EVENTS) {
        NameKind::Transcript
    } else if store::is_sidecar_path(path) || OTHER_JP_FILES.iter().any(is) {
        NameKind::Other
    } else if EXTENSIONS.iter().any(|ending| path.extension() == Some(OsStr::new(ending))) {
        NameKind::Candidate
    } else {
        NameKind::Other
    }
}

/// Skips hidden folders, except `.jp`.
fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.') && name != JP
}

impl Files {
    /// Finds the transcripts of these paths. Skips `out`, because views are written there.
    #[must_use]
    pub fn gather(
        paths: &[OsString],
        out: Option<&Path>,
        shard: Option<Shard>,
        environment: &Environment,
    ) -> Self {
        let mut files = Self::default();
        let views = out.and_then(|out| environment.cwd.join(out).canonicalize().ok());
        for path in paths {
            files.add_path(Path::new(path), views.as_deref(), environment);
        }
        files.sort_and_deduplicate();
        if out.is_some() {
            files.find_clashes();
        }
        if let Some(shard) = shard {
            let Self { roots, found, faults, elsewhere, .. } = &mut files;
            let is_here =
                |found: &FoundTranscript| shard.holds(key(&roots[found.root as usize], &found.below));
            (*found, *elsewhere) = std::mem::take(found).into_iter().partition(is_here);
            let count = faults.len();
            faults.retain(|fault| shard.holds(fault.path.as_os_str().as_bytes()));
            files.faulty_elsewhere = faults.len() < count;
        }
        files
    }

    /// Returns whether another shard has something to report.
    #[must_use]
    pub fn is_elsewhere(&self, environment: &Environment) -> bool {
        let is_transcript_file = |found: &FoundTranscript| {
            !found.needs_detection || is_transcript(&environment.cwd.join(self.real(found)))
        };
        self.faulty_elsewhere || self.elsewhere.iter().any(is_transcript_file)
    }

    /// Returns the paths, without files whose content shows that they are not transcripts.
    pub fn transcripts<'a>(&'a self, environment: &'a Environment) -> impl Iterator<Item = PathBuf> + 'a {
        (0..self.len())
            .map(|place| (place, self.path(place)))
            .filter(move |(place, path)| {
                !self.needs_detection(*place) || is_transcript(&environment.cwd.join(path))
            })
            .map(|(_, path)| path)
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
    pub fn bytes_of(&self, place: usize) -> u64 {
        self.found[place].bytes
    }

    /// Returns whether the content decides whether the file is a transcript. If it is not, that is not a failure.
    #[must_use]
    pub fn needs_detection(&self, place: usize) -> bool {
        self.found[place].needs_detection
    }

    /// Returns the path, starting with the path from the command line.
    #[must_use]
    pub fn path(&self, place: usize) -> PathBuf {
        let FoundTranscript { root, below, .. } = &self.found[place];
        joined(&self.roots[*root as usize].given, below)
    }

    /// Returns the paths that cannot be searched.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns whether another entry of the list is the file `real`, a path with all links resolved.
    #[must_use]
    pub fn holds_other(&self, place: usize, real: &Path) -> bool {
        let at = self.found.binary_search_by(|found| self.real(found).as_path().cmp(real));
        at.is_ok_and(|at| at != place)
    }

    /// Returns the path relative to its root. For a conversation folder that was given itself, the folder name is kept.
    #[must_use]
    pub fn below(&self, place: usize) -> PathBuf {
        let FoundTranscript { root, below, .. } = &self.found[place];
        let root = &self.roots[*root as usize];
        let name = |path: &Path| path.file_name().map(PathBuf::from).unwrap_or_default();
        if below.as_os_str().is_empty() {
            let folder = root.real.parent().map(name).unwrap_or_default();
            return if name_kind(&root.real) == NameKind::Transcript {
                folder.join(EVENTS)
            } else {
                name(&root.real)
            };
        }
        if **below == *Path::new(EVENTS) { name(&root.real).join(below) } else { below.to_path_buf() }
    }

    /// Returns an earlier transcript whose view has the same path.
    #[must_use]
    pub fn clash(&self, place: usize) -> Option<&Path> {
        let clashes = |path: &PathBuf| path == &self.path(place);
        self.clashes.iter().find(|(path, _)| clashes(path)).map(|(_, other)| other.as_path())
    }

    /// Finds relative paths that occur below two roots. Paths below one root are unique.
    fn find_clashes(&mut self) {
        if self.roots.len() < 2 {
            return;
        }
        let mut targets: Vec<(PathBuf, usize)> =
            (0..self.len()).map(|place| (self.below(place), place)).collect();
        targets.sort_unstable();
        for same in targets.chunk_by(|one, other| one.0 == other.0).filter(|same| same.len() > 1) {
            let first = self.path(same[0].1);
            let others: Vec<_> =
                same[1..].iter().map(|(_, place)| (self.path(*place), first.clone())).collect();
            self.clashes.extend(others);
        }
    }

    fn real(&self, found: &FoundTranscript) -> PathBuf {
        joined(&self.roots[found.root as usize].real, &found.below)
    }

    /// Sorts the files and removes duplicates.
    fn sort_and_deduplicate(&mut self) {
        let mut found = std::mem::take(&mut self.found);
        if self.roots.len() > 1 {
            found.sort_by_cached_key(|found| self.real(found));
            found.dedup_by(|one, other| self.real(one) == self.real(other));
        } else {
            found.sort_by(|one, other| one.below.cmp(&other.below));
            found.dedup_by(|one, other| one.below == other.below);
        }
        found.shrink_to_fit();
        self.found = found;
        self.faults.sort_by(|one, other| (&one.path, &one.reason).cmp(&(&other.path, &other.reason)));
        self.faults.dedup();
    }

    fn add_path(&mut self, given: &Path, out: Option<&Path>, environment: &Environment) {
        let path = environment.cwd.join(given);
        match path.symlink_metadata() {
            Ok(_) if !given.as_os_str().is_empty() => self.walk(given, &path, None, out),
            _ => match pattern(given) {
                Some((base, pattern)) => self.walk(&base, &environment.cwd.join(&base), Some(pattern), out),
                None => match store::locate(given.as_os_str(), environment) {
                    Ok(place) => self.walk(place.path(), place.path(), None, out),
                    Err(error) => self.fault(given, error.to_string()),
                },
            },
        }
    }

    fn fault(&mut self, path: &Path, reason: impl Into<String>) {
        self.faults.push(Fault { path: path.to_path_buf(), reason: reason.into() });
    }

    fn walk(&mut self, given: &Path, path: &Path, pattern: Option<&str>, out: Option<&Path>) {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return self.fault(given, error.to_string()),
        };
        let root = u32::try_from(self.roots.len()).expect("a command line is shorter");
        self.roots.push(Root { given: given.to_path_buf(), real: real.clone() });
        match real.metadata() {
            Err(error) => return self.fault(given, error.to_string()),
            Ok(metadata) if !metadata.is_dir() => {
                let below = Path::new("").into();
                self.found.push(FoundTranscript {
                    root,
                    needs_detection: false,
                    bytes: metadata.len(),
                    below,
                });
                return;
            }
            Ok(_) => {}
        }
        let mut builder = WalkBuilder::new(&real);
        builder.require_git(false).git_global(false);
        if let Some(pattern) = pattern {
            let mut only = OverrideBuilder::new(&real);
            let built = only.add(&format!("/{pattern}")).and_then(|only| only.add(&format!("/{pattern}/**")));
            match built.and_then(|only| only.build()) {
                Ok(only) => drop(builder.overrides(only)),
                Err(error) => return self.fault(&given.join(pattern), error.to_string()),
            }
        }
        self.collect(root, builder, out);
        let own = real.join(CONVERSATIONS);
        if pattern.is_none() && own.is_dir() {
            // The user named the workspace, so its conversations count even if git ignores them.
            let mut builder = WalkBuilder::new(own);
            builder.standard_filters(false);
            self.collect(root, builder, out);
        }
    }

    fn collect(&mut self, root: u32, mut builder: WalkBuilder, out: Option<&Path>) {
        let out = out.map(Path::to_path_buf);
        builder.hidden(false).filter_entry(move |entry| {
            entry.depth() == 0 || !is_hidden(entry.file_name()) && Some(entry.path()) != out.as_deref()
        });
        let Root { given, real } = &self.roots[root as usize];
        let (found, faults) = (Mutex::new(&mut self.found), Mutex::new(&mut self.faults));
        // Uses one thread per core, in any order. Processing starts only after all files are found.
        builder.build_parallel().run(|| {
            Box::new(|entry| {
                match entry {
                    Ok(entry) if entry.depth() > 0 && is_candidate(&entry) => {
                        let needs_detection = name_kind(entry.path()) == NameKind::Candidate;
                        let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                        let below = entry.path().strip_prefix(real).unwrap_or(entry.path()).into();
                        let one = FoundTranscript { root, needs_detection, bytes, below };
                        found.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let path = at(&error).and_then(|path| path.strip_prefix(real).ok());
                        let path = path.map_or_else(|| given.clone(), |below| joined(given, below));
                        let reason = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                        faults.lock().unwrap_or_else(PoisonError::into_inner).push(Fault { path, reason });
                    }
                }
                WalkState::Continue
            })
        });
    }
}

/// Returns whether the content of a file is a transcript.
fn is_transcript(path: &Path) -> bool {
    store::read_file(path).is_ok_and(|bytes| transcripts::detect(&bytes).is_some())
}

/// Returns whether an entry may be a transcript. A candidate must be a regular file.
fn is_candidate(entry: &DirEntry) -> bool {
    match name_kind(entry.path()) {
        NameKind::Transcript => true,
        NameKind::Candidate => entry.file_type().is_some_and(|kind| kind.is_file()),
        NameKind::Other => false,
    }
}

fn joined(root: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { root.to_path_buf() } else { root.join(below) }
}

/// Returns the bytes that select the shard. They do not depend on the location of the root.
fn key<'a>(root: &'a Root, below: &'a Path) -> &'a [u8] {
    if below.as_os_str().is_empty() {
        root.given.as_os_str().as_bytes()
    } else {
        below.as_os_str().as_bytes()
    }
}

/// Returns the path of a search error.
fn at(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => at(err),
        _ => None,
    }
}

/// Splits a path with wildcards into the folder before the first wildcard and the rest. Some shells pass such paths on
/// without expanding them.
fn pattern(given: &Path) -> Option<(PathBuf, &str)> {
    let text = given.to_str()?;
    let special = text.find(['*', '?', '[', '{'])?;
    match text[..special].rfind('/') {
        Some(0) => Some(("/".into(), &text[1..])),
        Some(slash) => Some((text[..slash].into(), &text[slash + 1..])),
        None => Some((".".into(), text)),
    }
}

#[cfg(test)]
mod tests;
