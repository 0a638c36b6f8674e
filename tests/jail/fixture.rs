//! Test fixture: a folder outside of the jail, and attempts that the probe makes inside.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jp_compact_runtime::jail::{Abilities, Confinement, Jail, Tier};
use jp_compact_runtime::process::{self, Ended, Launch, ProcessError};
use jp_compact_schema::Permissions;

use crate::{PROBE, RUNNER};

/// A temporary folder outside of the jail. It contains a transcript and the private directories.
pub(crate) struct Fixture {
    pub(crate) base: tempfile::TempDir,
    pub(crate) granted: Permissions,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_permissions(Permissions::default())
    }

    pub(crate) fn with_permissions(granted: Permissions) -> Self {
        let fixture = Self { base: tempfile::tempdir().unwrap(), granted };
        fs::write(fixture.base.path().join("events.json"), "[]").unwrap();
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.base.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn transcript(&self) -> String {
        self.path("events.json")
    }

    pub(crate) fn jail(&self, landlock: u8) -> Jail {
        Jail::new(Abilities { landlock, seccomp: true }, &PROBE, &self.granted, None).unwrap()
    }

    pub(crate) fn run(&self, confinement: Confinement<'_>, args: &[&str]) -> Result<Ended, ProcessError> {
        self.launch(&RUNNER, confinement, &PROBE, args)
    }

    pub(crate) fn launch(
        &self,
        runner: &Path,
        confinement: Confinement<'_>,
        program: &Path,
        args: &[&str],
    ) -> Result<Ended, ProcessError> {
        let launch = Launch {
            runner,
            program,
            confinement,
            args,
            stdin: Vec::new(),
            env: &[],
            temp_dir: self.base.path(),
            private_bytes_max: process::PRIVATE_BYTES_MAX,
            deadline: Duration::from_secs(60),
            grace: process::GRACE,
            stdout_bytes_max: 1 << 20,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(process::run(launch))
    }

    /// Runs the probe and returns the result of its attempt.
    #[track_caller]
    pub(crate) fn outcome(&self, confinement: Confinement<'_>, args: &[&str]) -> String {
        let output = self.run(confinement, args).unwrap();
        assert_eq!(output.tier, confinement.tier());
        let result = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "{args:?}: {code:?} {result} {}", output.stderr.text());
        assert_eq!(code == Some(0), result == "allowed", "{args:?}: {code:?} {result}");
        result
    }

    /// Checks that the jail denies an attempt. Without the jail the result depends on the machine.
    #[track_caller]
    pub(crate) fn check_denied_in_jail(&self, args: &[&str], error: &str) {
        for landlock in versions() {
            let jail = self.jail(landlock);
            let result = self.outcome(Confinement::Isolated(&jail), args);
            assert_eq!(result, error, "{args:?} with Landlock {landlock}");
        }
    }

    /// Checks that an attempt is denied in the jail and succeeds without it.
    #[track_caller]
    pub(crate) fn check_denied(&self, args: &[&str], error: &str) {
        self.check_denied_in_jail(args, error);
        assert_eq!(self.outcome(Confinement::Contained, args), "allowed", "{args:?} without a jail");
    }

    #[track_caller]
    pub(crate) fn check_allowed(&self, args: &[&str]) {
        for landlock in versions() {
            let jail = self.jail(landlock);
            let result = self.outcome(Confinement::Isolated(&jail), args);
            assert_eq!(result, "allowed", "{args:?} with Landlock {landlock}");
        }
    }
}

/// Returns the oldest and the newest Landlock version that this machine can use.
pub(crate) fn versions() -> [u8; 2] {
    let abilities = Abilities::detect();
    assert!(abilities.tier() > Tier::Contained, "these tests need a machine that can jail: {abilities:?}");
    [1, abilities.landlock]
}

pub(crate) fn subprocess() -> Permissions {
    Permissions { subprocess: true, ..Permissions::default() }
}

pub(crate) fn network() -> Permissions {
    Permissions { network: true, ..Permissions::default() }
}
