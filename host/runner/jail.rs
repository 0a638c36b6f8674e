//! The Landlock rules of a jailed program.
//!
//! All access that the requested version handles is denied, and then allowed path by path. The runner fails if the version
//! is not available or not fully enforced.
//!
//! Landlock does not cover metadata: a program can check whether a file exists. The filter denies changes of metadata
//! (`chmod` and similar calls).

use std::path::Path;

use crate::invocation::JailRules;

/// Fails, because this system has no Landlock.
#[cfg(not(target_os = "linux"))]
pub(crate) fn enforce(_jail: &JailRules, _dir: &Path) -> Result<(), String> {
    Err("jails are not available on this system".to_owned())
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

    use super::{JailRules, Path};

    /// Allows the private directory and the granted paths. The directory must exist. Other missing paths are ignored.
    pub(crate) fn enforce(jail: &JailRules, dir: &Path) -> Result<(), String> {
        let abi = ABI::from(i32::from(jail.landlock));
        if abi == ABI::Unsupported {
            return Err("a jail requires Landlock".to_owned());
        }
        let enforce_error =
            |error: RulesetError| format!("failed to enforce Landlock {}: {error}", jail.landlock);
        // The error itself is only a list of all access rights.
        let unsupported = |_| format!("the kernel does not support Landlock {}", jail.landlock);
        let mut rules = Rules { ruleset: deny_all(jail, abi).map_err(unsupported)?, abi };
        rules.allow(dir, private_dir_access(abi))?;
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
        let status = rules.ruleset.restrict_self().map_err(enforce_error)?;
        match status.ruleset {
            RulesetStatus::FullyEnforced => Ok(()),
            other => Err(format!("failed to enforce Landlock {}: {other:?}", jail.landlock)),
        }
    }

    /// Denies all access that this version handles. It is a hard requirement: a right that the kernel does not support is
    /// an error, and must never be skipped.
    fn deny_all(jail: &JailRules, abi: ABI) -> Result<RulesetCreated, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))?;
        if abi >= ABI::V4 {
            // With the grant, a program may open connections but not accept them.
            let denied = if jail.network { AccessNet::BindTcp.into() } else { AccessNet::from_all(abi) };
            ruleset = ruleset.handle_access(denied)?;
        }
        if abi >= ABI::V6 {
            ruleset = ruleset.scope(Scope::from_all(ABI::V6))?;
        }
        ruleset.create()
    }

    /// Returns the access to the private directory: files and folders. Devices, sockets, pipes, and execution stay denied.
    fn private_dir_access(abi: ABI) -> BitFlags<AccessFs> {
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

    /// The rules that were added so far.
    struct Rules {
        ruleset: RulesetCreated,
        abi: ABI,
    }

    impl Rules {
        fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), String> {
            let grant_error = |error: &dyn std::fmt::Display| {
                format!("failed to grant access to {}: {error}", path.display())
            };
            let descriptor = match PathFd::new(path) {
                Ok(descriptor) => descriptor,
                Err(PathFdError::OpenCall { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Ok(());
                }
                Err(error) => return Err(grant_error(&error)),
            };
            let stat = rustix::fs::fstat(&descriptor).map_err(|error| grant_error(&error))?;
            let is_folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
            let access = if is_folder { access } else { access & AccessFs::from_file(self.abi) };
            let rule = PathBeneath::new(descriptor, access);
            (&mut self.ruleset).add_rule(rule).map(drop).map_err(|error| grant_error(&error))
        }
    }
}
