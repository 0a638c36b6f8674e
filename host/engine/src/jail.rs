//! How far a strategy is confined, as values: what this machine can do, what a strategy was
//! granted, and what the runner is told. It starts nothing; the runner builds the jail, and either
//! enforces all that it was told or does not start the program. So a tier is never reported by
//! anybody inside: a strategy that ran at all ran at the tier that was asked for.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use jp_compact_schema::Permissions;

/// The version of Landlock that covers all that the jail asks of it.
const LANDLOCK_WHOLE: u8 = 6;

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

/// How far a strategy is confined. Later ones are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Tier {
    /// Deadline, caps, environment, descriptors, process group.
    Contained,
    /// Files and network as well, by a kernel that cannot hold all of the jail: a strategy that may
    /// start processes can signal those of the user, one with network can wait for connections.
    PartlyIsolated,
    /// Files and network as well.
    Isolated,
}

impl Tier {
    /// The word for receipts and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contained => "contained",
            Self::PartlyIsolated => "partly-isolated",
            Self::Isolated => "isolated",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What this machine can do for a jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// The version of Landlock's interface; 0 is none.
    pub landlock: u8,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
}

/// Something that this machine lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// What, as the middle of a sentence.
    pub what: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Abilities {
    /// Asks the kernel. Versions of Landlock that the jail has no use for are not told apart.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[must_use]
    pub fn of_machine() -> Self {
        let landlock = (1..=LANDLOCK_WHOLE).rev().find(|version| has_landlock(*version)).unwrap_or(0);
        Self { landlock, seccomp: rustix::thread::secure_computing_mode().is_ok() }
    }

    /// There is no jail here yet.
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    #[must_use]
    pub fn of_machine() -> Self {
        Self { landlock: 0, seccomp: false }
    }

    /// The tier that this machine reaches.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self {
            Self { landlock: 0, .. } | Self { seccomp: false, .. } => Tier::Contained,
            Self { landlock: LANDLOCK_WHOLE.., .. } => Tier::Isolated,
            Self { .. } => Tier::PartlyIsolated,
        }
    }

    /// What is missing for the highest tier.
    #[must_use]
    pub fn missing(self) -> Vec<Missing> {
        let linux = cfg!(target_os = "linux");
        let landlock = match self.landlock {
            _ if !linux => Some(Missing {
                what: "a jail for this system: there is one for Linux alone",
                remedy: "run jp-compact on Linux, or say `--sandbox=contained`",
            }),
            0 => Some(Missing {
                what: "Landlock",
                remedy: "use Linux 5.13 or later with `landlock` in the kernel's `lsm=` list, and a container \
                         whose profile lets landlock_create_ruleset through",
            }),
            1..LANDLOCK_WHOLE => Some(Missing {
                what: "a Landlock that holds signals and listening sockets (version 6)",
                remedy: "use Linux 6.12 or later, or grant neither `subprocess` nor `network`",
            }),
            _ => None,
        };
        let seccomp = (linux && !self.seccomp).then_some(Missing {
            what: "seccomp",
            remedy: "use a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
        });
        landlock.into_iter().chain(seccomp).collect()
    }
}

/// Whether the kernel knows all of a version. Nothing is made by asking.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_landlock(version: u8) -> bool {
    use landlock::{ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset};
    use landlock::{RulesetAttr as _, Scope};

    let abi = ABI::from(i32::from(version));
    let files = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi));
    let network = |ruleset: Ruleset| match abi {
        ABI::V1 | ABI::V2 | ABI::V3 => Ok(ruleset),
        _ => ruleset.handle_access(AccessNet::from_all(abi)),
    };
    let scopes = |ruleset: Ruleset| match abi {
        ABI::V1 | ABI::V2 | ABI::V3 | ABI::V4 | ABI::V5 => Ok(ruleset),
        _ => ruleset.scope(Scope::from_all(abi)),
    };
    files.and_then(network).and_then(scopes).is_ok()
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

    #[track_caller]
    fn reaches(landlock: u8, seccomp: bool, tier: Tier, missing: &[&str]) {
        let abilities = Abilities { landlock, seccomp };
        assert_eq!(abilities.tier(), tier);
        let words: Vec<_> = abilities.missing().iter().map(|missing| missing.what).collect();
        assert_eq!(words.len(), missing.len(), "{words:?}");
        assert!(words.iter().zip(missing).all(|(word, start)| word.contains(start)), "{words:?}");
        let jail = Jail::new(abilities, Path::new("/own"), &Permissions::default(), None);
        assert_eq!(jail.map_or(Tier::Contained, |jail| jail.tier()), tier);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_tier_takes_landlock_and_seccomp() {
        reaches(6, true, Tier::Isolated, &[]);
        reaches(7, true, Tier::Isolated, &[]);
        reaches(5, true, Tier::PartlyIsolated, &["version 6"]);
        reaches(1, true, Tier::PartlyIsolated, &["version 6"]);
        reaches(0, true, Tier::Contained, &["Landlock"]);
        reaches(6, false, Tier::Contained, &["seccomp"]);
        reaches(0, false, Tier::Contained, &["Landlock", "seccomp"]);
    }

    #[test]
    fn a_plugin_without_a_place_has_no_jail() {
        assert_eq!(Jail::new(WHOLE, Path::new("own"), &Permissions::default(), None), None);
    }
}
