//! A place outside the jail, and what becomes of an attempt that is made from inside.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jp_compact_engine::jail::{Abilities, Confinement, Jail, Tier};
use jp_compact_engine::process::{self, Ended, Launch, ProcessError};
use jp_compact_schema::Permissions;

use crate::{PROBE, RUNNER};

/// A place outside the jail: a transcript, and room for private directories.
pub(crate) struct Place {
    pub(crate) base: tempfile::TempDir,
    pub(crate) granted: Permissions,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::granting(Permissions::default())
    }

    pub(crate) fn granting(granted: Permissions) -> Self {
        let place = Self { base: tempfile::tempdir().unwrap(), granted };
        fs::write(place.base.path().join("events.json"), "[]").unwrap();
        place
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

    /// What became of an attempt.
    #[track_caller]
    pub(crate) fn outcome(&self, confinement: Confinement<'_>, args: &[&str]) -> String {
        let ended = self.run(confinement, args).unwrap();
        assert_eq!(ended.tier, confinement.tier());
        let said = String::from_utf8(ended.stdout).unwrap().trim_end().to_owned();
        let code = ended.status.code();
        assert!(matches!(code, Some(0 | 1)), "{args:?}: {code:?} {said} {}", ended.stderr.text());
        assert_eq!(code == Some(0), said == "let through", "{args:?}: {code:?} {said}");
        said
    }

    /// Denied in the jail, whatever the machine would have said without.
    #[track_caller]
    pub(crate) fn denied_here(&self, args: &[&str], error: &str) {
        for landlock in versions() {
            let jail = self.jail(landlock);
            let said = self.outcome(Confinement::Isolated(&jail), args);
            assert_eq!(said, error, "{args:?} with Landlock {landlock}");
        }
    }

    /// Denied in the jail, and let through without it.
    #[track_caller]
    pub(crate) fn denied(&self, args: &[&str], error: &str) {
        self.denied_here(args, error);
        assert_eq!(self.outcome(Confinement::Contained, args), "let through", "{args:?} without a jail");
    }

    #[track_caller]
    pub(crate) fn allowed(&self, args: &[&str]) {
        for landlock in versions() {
            let jail = self.jail(landlock);
            let said = self.outcome(Confinement::Isolated(&jail), args);
            assert_eq!(said, "let through", "{args:?} with Landlock {landlock}");
        }
    }
}

/// The oldest version and the newest of this machine.
pub(crate) fn versions() -> [u8; 2] {
    let abilities = Abilities::of_machine();
    assert!(abilities.tier() > Tier::Contained, "these tests need a machine that can jail: {abilities:?}");
    [1, abilities.landlock]
}

pub(crate) fn subprocess() -> Permissions {
    Permissions { subprocess: true, ..Permissions::default() }
}

pub(crate) fn network() -> Permissions {
    Permissions { network: true, ..Permissions::default() }
}
