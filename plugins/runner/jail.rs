//! The files that a jailed program reaches, by Landlock. Everything that the asked-for version
//! knows is denied, and then opened path by path; a version that is not there, or not enforced
//! whole, is the end.
//!
//! Landlock says nothing of metadata: what can be looked up by name can be seen to exist. What
//! changes metadata (`chmod` and its like) is for the filter.

use std::path::Path;

use crate::invocation::Jail;

/// Where there is no Landlock there is no jail.
#[cfg(not(target_os = "linux"))]
pub(crate) fn enforce(_jail: &Jail, _dir: &Path) -> Result<(), String> {
    Err("there is no jail on this system".to_owned())
}

#[cfg(target_os = "linux")]
pub(crate) use linux::enforce;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
        PathFdError, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
        RulesetStatus, Scope,
    };

    use super::{Jail, Path};

    /// Lets the program reach its private directory and what was granted. The directory must be
    /// there; another path that is not there grants nothing.
    pub(crate) fn enforce(jail: &Jail, dir: &Path) -> Result<(), String> {
        let abi = ABI::from(i32::from(jail.landlock));
        if abi == ABI::Unsupported {
            return Err("a jail without Landlock is none".to_owned());
        }
        let failed = |error: RulesetError| format!("Landlock {} not enforced: {error}", jail.landlock);
        // The reason is a list of all the rights there are, and says no more than this.
        let none = |_| format!("the kernel has no Landlock of version {}", jail.landlock);
        let mut rules = Rules { ruleset: deny_all(jail, abi).map_err(none)?, abi };
        rules.allow(dir, private(abi))?;
        rules.allow(Path::new("/dev/null"), AccessFs::ReadFile | AccessFs::WriteFile)?;
        for path in &jail.execute {
            rules.allow(path, AccessFs::from_read(abi))?;
        }
        for path in &jail.read {
            rules.allow(path, AccessFs::ReadFile | AccessFs::ReadDir)?;
        }
        for path in &jail.open {
            rules.allow(path, AccessFs::ReadFile.into())?;
        }
        let status = rules.ruleset.restrict_self().map_err(failed)?;
        match status.ruleset {
            RulesetStatus::FullyEnforced => Ok(()),
            other => Err(format!("Landlock {} not enforced: {other:?}", jail.landlock)),
        }
    }

    /// Denies all that this version knows. A hard requirement: what the kernel does not know is an
    /// error here, never a rule that is left out.
    fn deny_all(jail: &Jail, abi: ABI) -> Result<RulesetCreated, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))?;
        if abi >= ABI::V4 {
            // What may open a connection may still not wait for one.
            let denied = if jail.network { AccessNet::BindTcp.into() } else { AccessNet::from_all(abi) };
            ruleset = ruleset.handle_access(denied)?;
        }
        if abi >= ABI::V6 {
            ruleset = ruleset.scope(Scope::from_all(ABI::V6))?;
        }
        ruleset.create()
    }

    /// Files and folders of its own; neither devices, sockets nor pipes, and nothing to execute.
    fn private(abi: ABI) -> BitFlags<AccessFs> {
        let all = AccessFs::ReadFile
            | AccessFs::ReadDir
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::Refer
            | AccessFs::RemoveDir
            | AccessFs::RemoveFile
            | AccessFs::MakeDir
            | AccessFs::MakeReg
            | AccessFs::MakeSym;
        all & AccessFs::from_all(abi)
    }

    struct Rules {
        ruleset: RulesetCreated,
        abi: ABI,
    }

    impl Rules {
        fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), String> {
            let failed = |error: &dyn std::fmt::Display| format!("{} not granted: {error}", path.display());
            let opened = match PathFd::new(path) {
                Ok(opened) => opened,
                Err(PathFdError::OpenCall { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Ok(());
                }
                Err(error) => return Err(failed(&error)),
            };
            let file = rustix::fs::fstat(&opened).map_err(|error| failed(&error))?;
            let is_folder = rustix::fs::FileType::from_raw_mode(file.st_mode).is_dir();
            let access = if is_folder { access } else { access & AccessFs::from_file(self.abi) };
            let rule = PathBeneath::new(opened, access);
            (&mut self.ruleset).add_rule(rule).map(drop).map_err(|error| failed(&error))
        }
    }
}
