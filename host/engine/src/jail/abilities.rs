//! What this machine can do for a jail, what it lacks, and how far that confines a strategy. Asking changes
//! nothing, and starts nothing.

use std::fmt;

use crate::environment::Environment;

/// The version of Landlock that covers all that the jail asks of it.
pub(super) const LANDLOCK_WHOLE: u8 = 6;

/// How far a strategy is confined. Later ones are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Tier {
    /// Deadline, caps, environment, descriptors, process group.
    Contained,
    /// Files and network as well, by a kernel that cannot hold all of the jail: a strategy that may
    /// start processes can signal those of the user.
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

    /// Those of this machine, less what a test takes away. What a machine cannot do nobody gives it.
    #[must_use]
    pub fn here(environment: &Environment) -> Self {
        let Self { landlock, seccomp } = Self::of_machine();
        let landlock = environment.landlock_max.map_or(landlock, |max| max.min(landlock));
        Self { landlock, seccomp: seccomp && !environment.without_seccomp }
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
                what: "a Landlock that keeps signals in the jail (version 6)",
                remedy: "use Linux 6.12 or later, or do not grant `subprocess`",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reaches(landlock: u8, seccomp: bool, tier: Tier, missing: &[&str]) {
        let abilities = Abilities { landlock, seccomp };
        assert_eq!(abilities.tier(), tier);
        let words: Vec<_> = abilities.missing().iter().map(|missing| missing.what).collect();
        assert_eq!(words.len(), missing.len(), "{words:?}");
        assert!(words.iter().zip(missing).all(|(word, start)| word.contains(start)), "{words:?}");
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
}
