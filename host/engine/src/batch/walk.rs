//! Which transcripts a batch is about: what lies below the paths that were given, in the order of their paths, each
//! once. Folders are walked as `git` sees them; what decides that a file may be a transcript is [`named`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ignore::overrides::OverrideBuilder;
use ignore::{DirEntry, WalkBuilder, WalkState};

use jp_compact_core::formats;

use super::Shard;
use crate::environment::Environment;
use crate::store;

/// What JP calls the file that holds a stream.
const EVENTS: &str = "events.json";
/// Where a workspace has its conversations.
const CONVERSATIONS: &str = ".jp/conversations";
const JP: &str = ".jp";

/// What was found.
#[derive(Debug, Default)]
pub struct Files {
    roots: Vec<Root>,
    found: Vec<Found>,
    faults: Vec<Fault>,
    /// What is in the other shards.
    elsewhere: Vec<Found>,
    /// Whether something in another shard cannot be looked into.
    faulty_elsewhere: bool,
    /// Those whose view would go where that of another goes.
    clashes: Vec<(PathBuf, PathBuf)>,
}

/// What cannot be looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub path: PathBuf,
    /// Why.
    pub what: String,
}

/// A path that was given.
#[derive(Debug)]
struct Root {
    /// As it was typed.
    given: PathBuf,
    real: PathBuf,
}

/// A transcript: its root, and where it lies below it. A root that is a file has nothing below it.
#[derive(Debug)]
struct Found {
    root: u32,
    /// Whether its name alone does not tell.
    perhaps: bool,
    bytes: u64,
    below: Box<Path>,
}

/// What JP keeps beside a stream.
const BESIDE: [&str; 2] = ["base_config.json", "metadata.json"];
/// How the transcripts of other agents end.
const ENDINGS: [&str; 3] = ["json", "jsonl", "traj"];

/// Whether a path in a folder is that of a transcript, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// It is: whatever then only looks like one is told of.
    Transcript,
    /// It may be: that is found out when it is opened, and what is none is passed over.
    Perhaps,
    /// It is none.
    Otherwise,
}

fn named(path: &Path) -> Named {
    let is = |name: &&str| path.file_name() == Some(OsStr::new(name));
    if is(&EVENTS) {
        Named::Transcript
    } else if store::is_beside(path) || BESIDE.iter().any(is) {
        Named::Otherwise
    } else if ENDINGS.iter().any(|ending| path.extension() == Some(OsStr::new(ending))) {
        Named::Perhaps
    } else {
        Named::Otherwise
    }
}

/// What lies in hidden folders is somebody's business, and not ours, but for JP's own.
fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.') && name != JP
}

impl Files {
    /// Finds the transcripts of these paths. What lies in `out` is none: views are written there.
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
            files.take(Path::new(path), views.as_deref(), environment);
        }
        files.settle();
        if out.is_some() {
            files.find_clashes();
        }
        if let Some(shard) = shard {
            let Self { roots, found, faults, elsewhere, .. } = &mut files;
            let is_here = |found: &Found| shard.holds(key(&roots[found.root as usize], &found.below));
            (*found, *elsewhere) = std::mem::take(found).into_iter().partition(is_here);
            let count = faults.len();
            faults.retain(|fault| shard.holds(fault.path.as_os_str().as_bytes()));
            files.faulty_elsewhere = faults.len() < count;
        }
        files
    }

    /// Whether another shard has something to report.
    #[must_use]
    pub fn is_elsewhere(&self, environment: &Environment) -> bool {
        let is_one = |found: &Found| !found.perhaps || is_transcript(&environment.cwd.join(self.real(found)));
        self.faulty_elsewhere || self.elsewhere.iter().any(is_one)
    }

    /// Where they are, but for those that turn out to be none.
    pub fn transcripts<'a>(&'a self, environment: &'a Environment) -> impl Iterator<Item = PathBuf> + 'a {
        (0..self.len())
            .map(|place| (place, self.path(place)))
            .filter(move |(place, path)| {
                !self.is_perhaps(*place) || is_transcript(&environment.cwd.join(path))
            })
            .map(|(_, path)| path)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How large all are together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.found.iter().map(|found| found.bytes).sum()
    }

    /// How large one was when it was found.
    #[must_use]
    pub fn bytes_of(&self, place: usize) -> u64 {
        self.found[place].bytes
    }

    /// Whether one may turn out to be no transcript, which is then nobody's failure.
    #[must_use]
    pub fn is_perhaps(&self, place: usize) -> bool {
        self.found[place].perhaps
    }

    /// Where one is, from the path that was given.
    #[must_use]
    pub fn path(&self, place: usize) -> PathBuf {
        let Found { root, below, .. } = &self.found[place];
        joined(&self.roots[*root as usize].given, below)
    }

    /// The paths that cannot be looked into.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Whether another one is the file at this path, every link followed.
    #[must_use]
    pub fn holds_other(&self, place: usize, real: &Path) -> bool {
        let at = self.found.binary_search_by(|found| self.real(found).as_path().cmp(real));
        at.is_ok_and(|at| at != place)
    }

    /// Where one lies below the path that was given. A conversation that was itself given keeps its folder's name.
    #[must_use]
    pub fn below(&self, place: usize) -> PathBuf {
        let Found { root, below, .. } = &self.found[place];
        let root = &self.roots[*root as usize];
        let name = |path: &Path| path.file_name().map(PathBuf::from).unwrap_or_default();
        if below.as_os_str().is_empty() {
            let folder = root.real.parent().map(name).unwrap_or_default();
            return if named(&root.real) == Named::Transcript {
                folder.join(EVENTS)
            } else {
                name(&root.real)
            };
        }
        if **below == *Path::new(EVENTS) { name(&root.real).join(below) } else { below.to_path_buf() }
    }

    /// Another one whose view goes to the same place, and goes first.
    #[must_use]
    pub fn clash(&self, place: usize) -> Option<&Path> {
        let clashes = |path: &PathBuf| path == &self.path(place);
        self.clashes.iter().find(|(path, _)| clashes(path)).map(|(_, other)| other.as_path())
    }

    /// Two roots may have the same below them; of one, each has a place of its own.
    fn find_clashes(&mut self) {
        if self.roots.len() < 2 {
            return;
        }
        let mut goals: Vec<(PathBuf, usize)> =
            (0..self.len()).map(|place| (self.below(place), place)).collect();
        goals.sort_unstable();
        for same in goals.chunk_by(|one, other| one.0 == other.0).filter(|same| same.len() > 1) {
            let first = self.path(same[0].1);
            let others: Vec<_> =
                same[1..].iter().map(|(_, place)| (self.path(*place), first.clone())).collect();
            self.clashes.extend(others);
        }
    }

    fn real(&self, found: &Found) -> PathBuf {
        joined(&self.roots[found.root as usize].real, &found.below)
    }

    /// Sorts, and drops what was found twice.
    fn settle(&mut self) {
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
        self.faults.sort_by(|one, other| (&one.path, &one.what).cmp(&(&other.path, &other.what)));
        self.faults.dedup();
    }

    fn take(&mut self, given: &Path, out: Option<&Path>, environment: &Environment) {
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

    fn fault(&mut self, path: &Path, what: impl Into<String>) {
        self.faults.push(Fault { path: path.to_path_buf(), what: what.into() });
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
                self.found.push(Found { root, perhaps: false, bytes: metadata.len(), below });
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
            // A workspace was given, and whoever keeps its conversations out of git means them all the same.
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
        // As many threads as there are cores, in any order: nothing else is done before all are found.
        builder.build_parallel().run(|| {
            Box::new(|entry| {
                match entry {
                    Ok(entry) if entry.depth() > 0 && is_candidate(&entry) => {
                        let perhaps = named(entry.path()) == Named::Perhaps;
                        let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                        let below = entry.path().strip_prefix(real).unwrap_or(entry.path()).into();
                        let one = Found { root, perhaps, bytes, below };
                        found.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let path = at(&error).and_then(|path| path.strip_prefix(real).ok());
                        let path = path.map_or_else(|| given.clone(), |below| joined(given, below));
                        let what = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                        faults.lock().unwrap_or_else(PoisonError::into_inner).push(Fault { path, what });
                    }
                }
                WalkState::Continue
            })
        });
    }
}

/// Whether a file is a transcript by what it holds.
fn is_transcript(path: &Path) -> bool {
    store::read_file(path).is_ok_and(|bytes| formats::detect(&bytes).is_some())
}

/// What is not sure has to be a file, at least.
fn is_candidate(entry: &DirEntry) -> bool {
    match named(entry.path()) {
        Named::Transcript => true,
        Named::Perhaps => entry.file_type().is_some_and(|kind| kind.is_file()),
        Named::Otherwise => false,
    }
}

fn joined(root: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { root.to_path_buf() } else { root.join(below) }
}

/// What a shard is told by: the same wherever the root lies.
fn key<'a>(root: &'a Root, below: &'a Path) -> &'a [u8] {
    if below.as_os_str().is_empty() {
        root.given.as_os_str().as_bytes()
    } else {
        below.as_os_str().as_bytes()
    }
}

/// Where a walk went wrong.
fn at(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => at(err),
        _ => None,
    }
}

/// A path that is a pattern, for a shell that leaves those alone: the folder before it, and the rest.
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
