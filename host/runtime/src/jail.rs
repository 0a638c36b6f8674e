//! The jail of a strategy: it combines the abilities of this machine with the permissions of the strategy, and builds
//! the arguments of the runner. This module must not start anything. The runner builds the jail, and does not start the
//! program unless it can enforce the whole jail. So the tier does not have to be reported from inside: a strategy that
//! ran at all ran at the requested tier.

mod abilities;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jp_compact_schema::Permissions;

pub use abilities::{Abilities, MissingAbility, Tier, describe_missing};

use abilities::LANDLOCK_FULL;

/// The system libraries and a few system files, which every program may read.
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
    // Package stores. They contain libraries and no user files.
    "/nix/store",
    "/gnu/store",
    "/dev/urandom",
];
/// The dynamic loaders. The kernel executes them together with the program.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
/// The folders of interpreters and of programs that scripts call.
const PROGRAMS: [&str; 3] = ["/usr", "/bin", "/sbin"];
/// Interpreters read these files at start. Node fails without the first.
const RUNTIME_FILES: [&str; 2] = ["/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf"];
/// Files for name resolution and certificates.
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

/// Returns whether a path is in a system folder, which contains no user files.
#[must_use]
pub fn is_of_system(path: &Path) -> bool {
    let folders = PROGRAMS.iter().chain(LIBRARIES.iter().filter(|folder| !folder.starts_with("/etc")));
    path.is_absolute() && folders.into_iter().any(|folder| path.starts_with(folder))
}

/// The confinement of a strategy.
#[derive(Debug, Clone, Copy)]
pub enum Confinement<'a> {
    /// Without a jail.
    Contained,
    /// In this jail, or the program does not start.
    Isolated(&'a Jail),
}

impl Confinement<'_> {
    /// Returns the tier that a program reaches with this confinement.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self {
            Self::Contained => Tier::Contained,
            Self::Isolated(jail) => jail.tier(),
        }
    }

    /// Returns whether threads must be limited on a machine that can limit them.
    pub(crate) fn limits_threads(self) -> bool {
        match self {
            Self::Contained => false,
            Self::Isolated(jail) => jail.limits_threads,
        }
    }

    /// Returns whether the strategy can leave processes to the host. In a jail, it can only start processes if
    /// `subprocess` was granted.
    pub(crate) fn may_leave_orphans(self) -> bool {
        match self {
            Self::Contained => true,
            Self::Isolated(jail) => jail.subprocess,
        }
    }
}

/// The resources that a jailed strategy may use.
///
/// Invariant: `landlock` is at least 1, and all paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jail {
    landlock: u8,
    execute: Vec<PathBuf>,
    read: Vec<PathBuf>,
    open: Vec<PathBuf>,
    network: bool,
    subprocess: bool,
    limits_threads: bool,
}

impl Jail {
    /// Builds the jail for `plugin`, the path of an executable or plugin folder, with these permissions. Returns `None`
    /// if the machine does not support a jail, or if the path is relative. `interpreter` is the real path of the
    /// granted runtime. Granted variables are not handled here.
    #[must_use]
    pub fn new(
        abilities: Abilities,
        plugin: &Path,
        granted: &Permissions,
        interpreter: Option<&Path>,
    ) -> Option<Self> {
        if abilities.tier() == Tier::Contained || !plugin.is_absolute() {
            return None;
        }
        let mut jail = Self {
            landlock: abilities.landlock.min(LANDLOCK_FULL),
            execute: LOADERS.map(PathBuf::from).into(),
            read: LIBRARIES.map(PathBuf::from).into(),
            open: Vec::new(),
            network: granted.network,
            subprocess: granted.subprocess,
            limits_threads: true,
        };
        jail.execute.push(plugin.to_owned());
        // The runner would resolve a relative path differently.
        jail.read.extend(granted.read.iter().map(PathBuf::from).filter(|path| path.is_absolute()));
        if granted.network {
            jail.read.extend(NETWORK_FILES.map(PathBuf::from));
        }
        if let Some(interpreter) = interpreter.filter(|path| path.is_absolute()) {
            jail.execute.extend(PROGRAMS.map(PathBuf::from));
            jail.execute.extend(interpreter_paths(interpreter));
            jail.read.extend(RUNTIME_FILES.map(PathBuf::from));
        }
        Some(jail)
    }

    /// Allows opening files in this folder by name, but not listing it.
    #[must_use]
    pub fn with_spool(mut self, folder: &Path) -> Self {
        self.open.push(folder.to_owned());
        self
    }

    /// Disables the thread limit for bundled strategies, because the limit takes as much time as the rest of the start.
    #[must_use]
    pub fn with_unbounded_threads(self) -> Self {
        Self { limits_threads: false, ..self }
    }

    /// Allows executing and reading one more file, such as the program that loads a shared library.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        self.execute.push(program.to_owned());
        self
    }

    /// Returns the tier that the jail reaches.
    #[must_use]
    pub fn tier(&self) -> Tier {
        Abilities { landlock: self.landlock, seccomp: true }.tier()
    }

    /// Returns the jail arguments of the runner.
    pub(crate) fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--landlock".into(), self.landlock.to_string().into()];
        for (flag, paths) in [("--execute", &self.execute), ("--read", &self.read), ("--open", &self.open)] {
            for path in paths {
                args.extend([flag.into(), path.clone().into()]);
            }
        }
        for (flag, is_granted) in [("--network", self.network), ("--subprocess", self.subprocess)] {
            if is_granted {
                args.push(flag.into());
            }
        }
        args
    }
}

/// Returns an interpreter and the libraries that were installed with it. Does not return the whole prefix of the
/// installation, because that may be the home folder.
fn interpreter_paths(interpreter: &Path) -> Vec<PathBuf> {
    let prefix = interpreter.parent().filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    let libraries = prefix.into_iter().flat_map(|prefix| ["lib", "lib64"].map(|name| prefix.join(name)));
    [interpreter.to_owned()].into_iter().chain(libraries).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Abilities = Abilities { landlock: 6, seccomp: true };

    fn args(granted: &Permissions, interpreter: Option<&str>) -> Vec<String> {
        let jail = Jail::new(FULL, Path::new("/own"), granted, interpreter.map(Path::new)).unwrap();
        jail.args().into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[track_caller]
    fn adds(granted: &Permissions, interpreter: Option<&str>, expect: &[&str]) {
        let default_args = args(&Permissions::default(), None);
        let mut added = args(granted, interpreter);
        for arg in default_args {
            let index = added.iter().position(|other| *other == arg).unwrap();
            added.remove(index);
        }
        added.retain(|arg| !["--read", "--execute"].contains(&&**arg));
        assert_eq!(added, expect);
    }

    #[test]
    fn without_grants_only_own_file_and_libraries() {
        let args = args(&Permissions::default(), None);
        assert_eq!(args[..2], ["--landlock", "6"]);
        assert!(args.windows(2).any(|pair| pair == ["--execute", "/own"]), "{args:?}");
        let outside =
            |path: &&String| !["/lib", "/usr/l", "/nix", "/gnu", "/own"].iter().any(|s| path.starts_with(s));
        let others: Vec<_> = args.iter().filter(|word| word.starts_with('/')).filter(outside).collect();
        assert_eq!(others, ["/etc/ld.so.cache", "/dev/urandom"]);
    }

    #[test]
    fn each_grant_adds_its_arguments() {
        let read = vec!["/data".to_owned(), "relative".to_owned()];
        adds(&Permissions { read, ..Permissions::default() }, None, &["/data"]);
        adds(&Permissions { subprocess: true, ..Permissions::default() }, None, &["--subprocess"]);
        let network: Vec<_> = NETWORK_FILES.into_iter().chain(["--network"]).collect();
        adds(&Permissions { network: true, ..Permissions::default() }, None, &network);
        adds(&Permissions { llm: true, env: vec!["A".into()], ..Permissions::default() }, None, &[]);
    }

    #[test]
    fn an_interpreter_adds_only_its_own_libraries() {
        let expect = ["/usr", "/bin", "/sbin", "/home/u/bin/python3", "/home/u/lib", "/home/u/lib64"];
        adds(&Permissions::default(), Some("/home/u/bin/python3"), &[&expect[..], &RUNTIME_FILES].concat());
        let expect = ["/usr", "/bin", "/sbin", "/home/u/python3"];
        adds(&Permissions::default(), Some("/home/u/python3"), &[&expect[..], &RUNTIME_FILES].concat());
    }

    #[test]
    fn a_plugin_without_absolute_path_has_no_jail() {
        assert_eq!(Jail::new(FULL, Path::new("own"), &Permissions::default(), None), None);
    }
}
