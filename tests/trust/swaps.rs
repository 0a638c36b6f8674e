//! Files that are swapped under the host's eyes.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jp_compact_engine::environment::Environment;
use jp_compact_engine::jail::Confinement;
use jp_compact_engine::process::{self, GRACE, Launch};
use jp_compact_engine::registry::{Registry, Wanted};
use jp_compact_engine::trust::{Trust, Word};

use crate::STORE;
use crate::house::{House, text};

#[test]
fn a_swap_between_check_and_start_never_runs_the_swapped_file() {
    let house = House::new();
    house.install("plugin", "#!/bin/sh\necho good\n");
    house.install("good", "#!/bin/sh\necho good\n");
    house.install("evil", "#!/bin/sh\necho evil\n");
    house.ok(&["strategy", "trust", "./plugin"]);

    let (registry, trust) = engine(&house);
    let found = registry.find("./plugin").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut ran, mut refused) = (0, 0);
    for number in 0..1_000 {
        // Now and then it is swapped before the check, too, and the check sees that.
        swap(&house, if number % 10 == 0 { "evil" } else { "good" });
        let Ok(cleared) = trust.clear(&found) else {
            refused += 1;
            continue;
        };
        swap(&house, "evil");
        let launch = Launch {
            runner: registry.runner(),
            program: &cleared.program,
            confinement: Confinement::Contained,
            args: &["run"],
            stdin: Vec::new(),
            env: &[],
            temp_dir: &house.path("tmp"),
            private_bytes_max: process::PRIVATE_BYTES_MAX,
            deadline: Duration::from_secs(60),
            grace: GRACE,
            stdout_bytes_max: 100,
        };
        let ended = runtime.block_on(process::run(launch)).unwrap();
        assert_eq!(text(&ended.stdout), "good\n", "try {number}");
        ran += 1;
    }
    assert_eq!((ran, refused), (900, 100));
}

#[test]
fn a_swap_while_it_is_copied_never_puts_the_swapped_file_into_the_store() {
    let house = House::new();
    let (good, _) =
        (house.install("good", "#!/bin/sh\necho good\n"), house.install("evil", "#!/bin/sh\necho evil\n"));
    house.install("plugin", "#!/bin/sh\necho good\n");
    house.ok(&["strategy", "trust", "./plugin"]);
    let (registry, trust) = engine(&house);
    let found = registry.find("./plugin").unwrap();
    let good = fs::read(good).unwrap();
    let over = AtomicBool::new(false);
    let kept = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                swap(&house, "evil");
                swap(&house, "good");
            }
        });
        let mut kept = 0;
        for _ in 0..1_000 {
            fs::remove_dir_all(house.path(STORE)).unwrap();
            fs::create_dir(house.path(STORE)).unwrap();
            if let Ok(cleared) = trust.clear(&found) {
                kept += usize::from(fs::read(&cleared.program).unwrap() == good);
            } else {
                let left = fs::read_dir(house.path(STORE))
                    .unwrap()
                    .flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
                assert_eq!(left.count(), 0);
                kept += 1;
            }
        }
        over.store(true, Ordering::Relaxed);
        kept
    });
    assert_eq!(kept, 1_000);
}

/// The engine as the executable sees it in this house.
fn engine(house: &House) -> (Registry, Trust) {
    let environment = Environment {
        home: Some(house.root.clone()),
        exe: Some(env!("CARGO_BIN_EXE_jp-compact").into()),
        ..Environment::bare(&house.root)
    };
    let registry = Registry::discover(&environment, &Wanted::default()).unwrap();
    (registry, Trust::open(&environment, &Word::default()).unwrap())
}

/// Puts a copy of a file in the plugin's place.
fn swap(house: &House, with: &str) {
    fs::copy(house.path(with), house.path("next")).unwrap();
    fs::rename(house.path("next"), house.path("plugin")).unwrap();
}
