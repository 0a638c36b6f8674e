//! How far a strategy is confined, as values: what this machine can do, what a strategy was
//! granted, and what the runner is told. It starts nothing; the runner builds the jail, and either
//! enforces all that it was told or does not start the program. So a tier is never reported by
//! anybody inside: a strategy that ran at all ran at the tier that was asked for.

mod abilities;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jp_compact_schema::Permissions;

pub use abilities::{Abilities, Missing, Tier};

use abilities::LANDLOCK_WHOLE;

/// Where the libraries of the system are: what a program needs that was granted nothing.
const LIBRARIES: [&str; 13] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    // Where every package has a folder of its own, libraries are there, and nothing of a user's.
    "/nix/store",
    "/gnu/store",
    "/dev/urandom",
];
/// What loads a program's libraries; the kernel executes it with the program.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
/// Where interpreters, and the programs of scripts, are.
const PROGRAMS: [&str; 3] = ["/usr", "/bin", "/sbin"];
/// What interpreters read when they start; node ends without the first.
const RUNTIME_FILES: [&str; 2] = ["/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf"];
/// What names, addresses and certificates are looked up in.
const NETWORK_FILES: [&str; 8] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/pki",
    "/usr/share/ca-certificates",
];

/// Whether a path is in the system's folders: what is there is the machine's own, and not a user's.
#[must_use]
pub fn is_of_system(path: &Path) -> bool {
    let folders = PROGRAMS.iter().chain(LIBRARIES.iter().filter(|folder| !folder.starts_with("/etc")));
    path.is_absolute() && folders.into_iter().any(|folder| path.starts_with(folder))
}

/// How a strategy is to be confined.
#[derive(Debug, Clone, Copy)]
pub enum Confinement<'a> {
    /// Without a jail.
    Contained,
    /// In this jail, or not at all.
    Isolated(&'a Jail),
}

impl Confinement<'_> {
    /// The tier that a program reaches which starts like this.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self {
            Self::Contained => Tier::Contained,
            Self::Isolated(jail) => jail.tier(),
        }
    }

    /// Whether its threads have to be bounded, where that is possible.
    pub(crate) fn bounds_threads(self) -> bool {
        match self {
            Self::Contained => false,
            Self::Isolated(jail) => jail.bounds_threads,
        }
    }

    /// Whether processes may be left that the host inherits: a jail lets none be started unless that was granted.
    pub(crate) fn may_leave_orphans(self) -> bool {
        match self {
            Self::Contained => true,
            Self::Isolated(jail) => jail.subprocess,
        }
    }
}

/// What a jailed strategy reaches.
///
/// Invariant: `landlock` is at least 1, and paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jail {
    landlock: u8,
    execute: Vec<PathBuf>,
    read: Vec<PathBuf>,
    open: Vec<PathBuf>,
    network: bool,
    subprocess: bool,
    bounds_threads: bool,
}

impl Jail {
    /// The jail of the plugin `own`, its executable or its folder, with these permissions; `None`
    /// where the machine has none. `interpreter` is the real path of the granted runtime's; the
    /// variables granted by name are not the jail's business.
    #[must_use]
    pub fn new(
        abilities: Abilities,
        own: &Path,
        granted: &Permissions,
        interpreter: Option<&Path>,
    ) -> Option<Self> {
        if abilities.tier() == Tier::Contained || !own.is_absolute() {
            return None;
        }
        let mut jail = Self {
            landlock: abilities.landlock.min(LANDLOCK_WHOLE),
            execute: LOADERS.map(PathBuf::from).into(),
            read: LIBRARIES.map(PathBuf::from).into(),
            open: Vec::new(),
            network: granted.network,
            subprocess: granted.subprocess,
            bounds_threads: true,
        };
        jail.execute.push(own.to_owned());
        // A relative path would mean one thing here and another to the runner.
        jail.read.extend(granted.read.iter().map(PathBuf::from).filter(|path| path.is_absolute()));
        if granted.network {
            jail.read.extend(NETWORK_FILES.map(PathBuf::from));
        }
        if let Some(interpreter) = interpreter.filter(|path| path.is_absolute()) {
            jail.execute.extend(PROGRAMS.map(PathBuf::from));
            jail.execute.extend(belongings(interpreter));
            jail.read.extend(RUNTIME_FILES.map(PathBuf::from));
        }
        Some(jail)
    }

    /// Lets files of this folder be opened by name; the folder cannot be listed.
    #[must_use]
    pub fn with_spool(mut self, folder: &Path) -> Self {
        self.open.push(folder.to_owned());
        self
    }

    /// Does without a bound on threads, which costs as much time as all else at a start: for what is bundled.
    #[must_use]
    pub fn with_unbounded_threads(self) -> Self {
        Self { bounds_threads: false, ..self }
    }

    /// Lets one more file be executed and read: what opens a shared library, and the library.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        self.execute.push(program.to_owned());
        self
    }

    /// How far it confines.
    #[must_use]
    pub fn tier(&self) -> Tier {
        Abilities { landlock: self.landlock, seccomp: true }.tier()
    }

    /// What the runner is told.
    pub(crate) fn args(&self) -> impl Iterator<Item = OsString> {
        let paths = [("--execute", &self.execute), ("--read", &self.read), ("--open", &self.open)];
        let paths = paths.into_iter().flat_map(|(flag, paths)| {
            paths.iter().flat_map(move |path| [OsString::from(flag), path.clone().into()])
        });
        let words = [("--network", self.network), ("--subprocess", self.subprocess)];
        let words = words.into_iter().filter(|(_, granted)| *granted).map(|(flag, _)| flag.into());
        ["--landlock".into(), self.landlock.to_string().into()].into_iter().chain(paths).chain(words)
    }
}

/// An interpreter, and the libraries that were installed with it. Not all of what it was installed
/// under: that may be the home folder.
fn belongings(interpreter: &Path) -> Vec<PathBuf> {
    let prefix = interpreter.parent().filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    let libraries = prefix.into_iter().flat_map(|prefix| ["lib", "lib64"].map(|name| prefix.join(name)));
    [interpreter.to_owned()].into_iter().chain(libraries).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Abilities = Abilities { landlock: 6, seccomp: true };

    fn args(granted: &Permissions, interpreter: Option<&str>) -> Vec<String> {
        let jail = Jail::new(WHOLE, Path::new("/own"), granted, interpreter.map(Path::new)).unwrap();
        jail.args().map(|word| word.into_string().unwrap()).collect()
    }

    #[track_caller]
    fn adds(granted: &Permissions, interpreter: Option<&str>, expect: &[&str]) {
        let nothing = args(&Permissions::default(), None);
        let mut added = args(granted, interpreter);
        for word in nothing {
            let at = added.iter().position(|other| *other == word).unwrap();
            added.remove(at);
        }
        added.retain(|word| !["--read", "--execute"].contains(&&**word));
        assert_eq!(added, expect);
    }

    #[test]
    fn nothing_granted_is_its_own_file_and_libraries() {
        let args = args(&Permissions::default(), None);
        assert_eq!(args[..2], ["--landlock", "6"]);
        assert!(args.windows(2).any(|pair| pair == ["--execute", "/own"]), "{args:?}");
        let outside =
            |path: &&String| !["/lib", "/usr/l", "/nix", "/gnu", "/own"].iter().any(|s| path.starts_with(s));
        let others: Vec<_> = args.iter().filter(|word| word.starts_with('/')).filter(outside).collect();
        assert_eq!(others, ["/etc/ld.so.cache", "/dev/urandom"]);
    }

    #[test]
    fn a_grant_adds_what_it_says() {
        let read = vec!["/data".to_owned(), "relative".to_owned()];
        adds(&Permissions { read, ..Permissions::default() }, None, &["/data"]);
        adds(&Permissions { subprocess: true, ..Permissions::default() }, None, &["--subprocess"]);
        let network: Vec<_> = NETWORK_FILES.into_iter().chain(["--network"]).collect();
        adds(&Permissions { network: true, ..Permissions::default() }, None, &network);
        adds(&Permissions { llm: true, env: vec!["A".into()], ..Permissions::default() }, None, &[]);
    }

    #[test]
    fn an_interpreter_brings_its_libraries_and_not_its_neighbours() {
        let expect = ["/usr", "/bin", "/sbin", "/home/u/bin/python3", "/home/u/lib", "/home/u/lib64"];
        adds(&Permissions::default(), Some("/home/u/bin/python3"), &[&expect[..], &RUNTIME_FILES].concat());
        let expect = ["/usr", "/bin", "/sbin", "/home/u/python3"];
        adds(&Permissions::default(), Some("/home/u/python3"), &[&expect[..], &RUNTIME_FILES].concat());
    }

    #[test]
    fn a_plugin_without_a_place_has_no_jail() {
        assert_eq!(Jail::new(WHOLE, Path::new("own"), &Permissions::default(), None), None);
    }
}
