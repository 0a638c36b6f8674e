//! The sandbox features that this machine has and lacks, and the resulting tier. Detection must not start or change
//! anything.

use std::fmt;

use crate::environment::Environment;

/// The Landlock version that supports everything the jail uses.
pub(super) const LANDLOCK_FULL: u8 = 6;

/// The level of confinement. Later variants are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Tier {
    /// Limits time and resources, clears the environment, closes descriptors, and starts a new session.
    Contained,
    /// Also restricts files and network, on a kernel that does not support the whole jail. A strategy that may
    /// start processes can signal other processes of the user.
    PartlyIsolated,
    /// Also restricts files, network, and signals.
    Isolated,
}

impl Tier {
    /// Returns the word for receipts and reports.
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

/// The sandbox features of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// The version of the Landlock ABI. 0 means not available.
    pub landlock: u8,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
}

/// A feature that this machine lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingAbility {
    /// The feature, as it appears after "this machine lacks".
    pub what: &'static str,
    /// The way to get the feature, or to do without it.
    pub remedy: &'static str,
}

impl Abilities {
    /// Asks the kernel. Does not distinguish Landlock versions that the jail does not need.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[must_use]
    pub fn detect() -> Self {
        let landlock = (1..=LANDLOCK_FULL).rev().find(|version| has_landlock(*version)).unwrap_or(0);
        Self { landlock, seccomp: rustix::thread::secure_computing_mode().is_ok() }
    }

    /// Returns no abilities, because this system has no jail.
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    #[must_use]
    pub fn detect() -> Self {
        Self { landlock: 0, seccomp: false }
    }

    /// Returns the features of this machine without those that a test disables. Tests cannot add features.
    #[must_use]
    pub fn detect_with_limits(environment: &Environment) -> Self {
        let Self { landlock, seccomp } = Self::detect();
        let landlock = environment.landlock_max.map_or(landlock, |max| max.min(landlock));
        Self { landlock, seccomp: seccomp && !environment.without_seccomp }
    }

    /// Returns the highest tier that this machine supports.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self {
            Self { landlock: 0, .. } | Self { seccomp: false, .. } => Tier::Contained,
            Self { landlock: LANDLOCK_FULL.., .. } => Tier::Isolated,
            Self { .. } => Tier::PartlyIsolated,
        }
    }

    /// Returns the features that are missing for the highest tier.
    #[must_use]
    pub fn missing(self) -> Vec<MissingAbility> {
        let linux = cfg!(target_os = "linux");
        let landlock = match self.landlock {
            _ if !linux => Some(MissingAbility {
                what: "a jail for this system (only Linux has one)",
                remedy: "run jp-compact on Linux, or pass `--sandbox=contained`",
            }),
            0 => Some(MissingAbility {
                what: "Landlock",
                remedy: "use Linux 5.13 or later with `landlock` in the kernel's `lsm=` list, and a container \
                         whose seccomp profile allows landlock_create_ruleset",
            }),
            1..LANDLOCK_FULL => Some(MissingAbility {
                what: "a Landlock that blocks signals to processes outside the jail (version 6)",
                remedy: "use Linux 6.12 or later, or do not grant `subprocess`",
            }),
            _ => None,
        };
        let seccomp = (linux && !self.seccomp).then_some(MissingAbility {
            what: "seccomp",
            remedy: "use a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
        });
        landlock.into_iter().chain(seccomp).collect()
    }
}

/// Returns whether the kernel supports everything of a Landlock version.
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

/// Formats the missing features for an error message.
#[must_use]
pub fn describe_missing(missing: &[MissingAbility]) -> String {
    let features: Vec<_> = missing.iter().map(|missing| missing.what).collect();
    format!("this machine lacks {}", features.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(landlock: u8, seccomp: bool, tier: Tier, missing: &[&str]) {
        let abilities = Abilities { landlock, seccomp };
        assert_eq!(abilities.tier(), tier);
        let features: Vec<_> = abilities.missing().iter().map(|missing| missing.what).collect();
        assert_eq!(features.len(), missing.len(), "{features:?}");
        assert!(features.iter().zip(missing).all(|(feature, start)| feature.contains(start)), "{features:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn tiers_depend_on_landlock_and_seccomp() {
        check(6, true, Tier::Isolated, &[]);
        check(7, true, Tier::Isolated, &[]);
        check(5, true, Tier::PartlyIsolated, &["version 6"]);
        check(1, true, Tier::PartlyIsolated, &["version 6"]);
        check(0, true, Tier::Contained, &["Landlock"]);
        check(6, false, Tier::Contained, &["seccomp"]);
        check(0, false, Tier::Contained, &["Landlock", "seccomp"]);
    }
}
