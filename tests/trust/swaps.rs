//! Files that are replaced while the host checks or copies them.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Confinement;
use jp_compact_runtime::process::{self, GRACE, Launch};
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_runtime::trust::{Trust, TrustOverrides};

use crate::STORE;
use crate::home::{Home, text};

#[test]
fn file_replaced_after_the_check_is_never_run() {
    // Most of the time is spent on starting processes, so the threads work in parallel.
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(replace_after_the_check))));
}

/// Checks and starts a plugin 250 times. Its file is replaced after the check, or in every tenth attempt before it.
fn replace_after_the_check() {
    let home = Home::new();
    home.install("plugin", "#!/bin/sh\necho good\n");
    home.install("good", "#!/bin/sh\necho good\n");
    home.install("evil", "#!/bin/sh\necho evil\n");
    home.ok(&["strategy", "trust", "./plugin"]);

    let (registry, trust) = registry_and_trust(&home);
    let plugin = registry.find("./plugin").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut good_runs, mut rejected) = (0, 0);
    for attempt in 0..250 {
        // Every tenth time the file is replaced before the check, and the check must fail.
        replace_plugin(&home, if attempt % 10 == 0 { "evil" } else { "good" });
        let Ok(cleared) = trust.clear(&plugin) else {
            rejected += 1;
            continue;
        };
        replace_plugin(&home, "evil");
        let launch = Launch {
            runner: registry.runner(),
            program: &cleared.program,
            confinement: Confinement::Contained,
            args: &["run"],
            stdin: Vec::new(),
            env: &[],
            temp_dir: &home.path("tmp"),
            private_bytes_max: process::PRIVATE_BYTES_MAX,
            deadline: Duration::from_secs(60),
            grace: GRACE,
            stdout_bytes_max: 100,
        };
        let output = runtime.block_on(process::run(launch)).unwrap();
        assert_eq!(text(&output.stdout), "good\n", "attempt {attempt}");
        good_runs += 1;
    }
    assert_eq!((good_runs, rejected), (225, 25));
}

#[test]
fn file_replaced_during_the_copy_never_reaches_the_store() {
    let home = Home::new();
    let (good_plugin, _) =
        (home.install("good", "#!/bin/sh\necho good\n"), home.install("evil", "#!/bin/sh\necho evil\n"));
    home.install("plugin", "#!/bin/sh\necho good\n");
    home.ok(&["strategy", "trust", "./plugin"]);
    let (registry, trust) = registry_and_trust(&home);
    let plugin = registry.find("./plugin").unwrap();
    let good_bytes = fs::read(good_plugin).unwrap();
    let is_done = AtomicBool::new(false);
    let intact = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                replace_plugin(&home, "evil");
                replace_plugin(&home, "good");
            }
        });
        let mut intact = 0;
        for _ in 0..1_000 {
            fs::remove_dir_all(home.path(STORE)).unwrap();
            fs::create_dir(home.path(STORE)).unwrap();
            if let Ok(cleared) = trust.clear(&plugin) {
                intact += usize::from(fs::read(&cleared.program).unwrap() == good_bytes);
            } else {
                let leftovers = fs::read_dir(home.path(STORE))
                    .unwrap()
                    .flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
                // A panic here would not stop the other thread, and the scope waits for that thread.
                intact += usize::from(leftovers.count() == 0);
            }
        }
        is_done.store(true, Ordering::Relaxed);
        intact
    });
    assert_eq!(intact, 1_000);
}

/// Opens the registry and the trust store as the executable does in this home.
fn registry_and_trust(home: &Home) -> (Registry, Trust) {
    let environment = Environment {
        home: Some(home.root.clone()),
        exe: Some(env!("CARGO_BIN_EXE_jp-compact").into()),
        ..Environment::bare(&home.root)
    };
    let registry = Registry::discover(&environment, &ExtraFolders::default()).unwrap();
    (registry, Trust::open(&environment, &TrustOverrides::default()).unwrap())
}

/// Replaces the plugin with a copy of another file.
fn replace_plugin(home: &Home, source: &str) {
    fs::copy(home.path(source), home.path("next")).unwrap();
    fs::rename(home.path("next"), home.path("plugin")).unwrap();
}
