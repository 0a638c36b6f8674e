//! The strip strategies on JP's golden cases, if the folder `../shared` has them, and on the sample. A reset restores
//! the original bytes, and the printed view equals JP's.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use serde_json::Value;

use crate::support::World;

/// The strip strategies, in every mode.
const STRATEGIES: [&str; 5] = [
    "strip-reasoning",
    "strip-tools",
    "strip-tools:mode=strip-requests",
    "strip-tools:mode=strip-responses",
    "strip-tools:mode=omit",
];

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = fs::read_dir(root.join("../shared/data/jp-golden"));
    if shared.is_err() {
        eprintln!("JP's golden cases are missing; only the sample is checked");
    }
    let mut cases: Vec<_> = shared.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    cases.push(root.join("tests/sample"));
    cases.retain(|case| case.join("events.json").is_file());
    cases.sort();
    cases
}

/// Runs a check on every case, in as many threads as there are processors.
#[track_caller]
pub(crate) fn each_case(check: impl Fn(&Path) + Sync) {
    let cases = cases();
    let next = AtomicUsize::new(0);
    let check_cases = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            check(case);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(check_cases);
        }
    });
}

#[test]
fn reset_restores_original_bytes_after_every_strategy() {
    each_case(|case| {
        let name = case.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(case.join("events.json")).unwrap();
        let older_overlays = String::from_utf8_lossy(&bytes).matches("\"compaction\"").count();
        let world = World::new();
        let mut appended = 0;
        let transcript = world.write_events("conversation", &bytes);
        for strategy in STRATEGIES {
            let run = world.run(&["conversation", "--strategy", strategy, "--keep-last", "0", "--json"]);
            if run.stderr.contains("so JP would move the conversation to its trash") {
                assert_eq!(run.code, Some(4));
                return transcript.assert_untouched();
            }
            assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
            appended += run.line()["overlays"].as_array().unwrap().len();
        }
        assert_eq!(transcript.overlays().len(), appended, "{name}");
        if older_overlays == 0 {
            world.run(&["conversation", "--reset"]).exits(0);
        } else {
            // Remove only the new overlays, which are the last ones.
            let show_report = world.run(&["show", "conversation", "--json"]).exits(0).line();
            let overlay_count = show_report["overlays"].as_array().unwrap().len();
            for number in (overlay_count + 1 - appended..=overlay_count).rev() {
                world.run(&["conversation", &format!("--reset={number}")]).exits(0);
            }
        }
        transcript.assert_same_bytes();
    });
}

#[test]
fn printed_view_matches_jp() {
    each_case(|case| {
        let Ok(expect) = fs::read(case.join("projected.json")) else { return };
        let world = World::new();
        let path = case.join("events.json");
        let printed = world.run(&["print", path.to_str().unwrap(), "--compacted", "--json"]).exits(0);
        let expect: Value = serde_json::from_slice(&expect).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).unwrap(), expect, "{}", case.display());
    });
}
