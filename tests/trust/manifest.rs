//! What a manifest says of how its strategy is started, and that it is followed.

use std::fs;

use serde_json::{Value, json};

use crate::house::House;
use crate::{jailed, manifest};

/// A folder whose strategy answers one request or many, and says so; its manifest has these lines more.
fn folder(house: &House, run: &str) {
    let script = house.script("inner", r#","features":["worker"]"#).replace("run) sed", "run|worker) sed -u");
    house.install("folder/main.sh", &script);
    let text = manifest("inner", "\"./main.sh\"", "runtime = \"sh\"");
    fs::write(
        house.path("folder/plugin.toml"),
        text.replace("[permissions]", &format!("{run}\n[permissions]")),
    )
    .unwrap();
    house.ok(&["strategy", "trust", "./folder", "--grant", "runtime:sh"]);
}

/// What its processes were started as, for one conversation or for two.
#[track_caller]
fn starts(run: &str, conversations: usize, expect: &str) {
    let house = House::new();
    folder(&house, run);
    fs::create_dir(house.path("another")).unwrap();
    fs::copy(house.path("conversation/events.json"), house.path("another/events.json")).unwrap();
    let another = &["another"][..conversations - 1];
    house.ok(&house.compact("./folder", another));
    let mut verbs = house.verbs();
    verbs.dedup();
    assert_eq!(verbs, [expect], "{run}, {conversations}");
}

#[test]
fn the_mode_says_for_how_many_requests_a_process_is_started() {
    starts("", 1, "run");
    starts("", 2, "worker");
    starts("mode = \"auto\"", 1, "run");
    starts("mode = \"worker\"", 1, "worker");
    starts("mode = \"one-shot\"", 2, "run");
    starts("mode = \"worker\"", 2, "worker");
}

#[test]
fn a_worker_by_its_manifest_alone_is_exit_12() {
    let house = House::new();
    house.install("folder/main.sh", &house.script("inner", ""));
    let text = manifest("inner", "\"./main.sh\"", "runtime = \"sh\"");
    let text = text.replace("[permissions]", "mode = \"worker\"\n[permissions]");
    fs::write(house.path("folder/plugin.toml"), text).unwrap();
    for words in [vec!["strategy", "trust", "./folder"], house.compact("inner", &["--trust-dir", "."])] {
        let stderr = house.fails(&words, 12);
        assert!(stderr.contains("does not name the feature `worker`"), "{stderr}");
    }
}

/// The deadline that a strategy is told.
#[track_caller]
fn told(timeout: &str, typed: &[&str], expect_ms: u64) {
    let house = House::new();
    folder(&house, timeout);
    let script = fs::read_to_string(house.path("folder/main.sh")).unwrap();
    let asked = format!("tee {} | sed", house.path("asked").display());
    house.install("folder/main.sh", &script.replace("sed -u", &asked));
    let words = [&["--trust-dir", "."], typed].concat();
    house.ok(&house.compact("inner", &words));
    let asked: Value = serde_json::from_slice(&fs::read(house.path("asked")).unwrap()).unwrap();
    assert_eq!(asked["limits"]["deadline_ms"], expect_ms);
}

#[test]
fn the_timeout_is_the_deadline_unless_one_is_typed() {
    told("", &[], 60_000);
    told("timeout = \"90s\"", &[], 90_000);
    told("timeout = \"5m\"", &["--deadline", "20s"], 20_000);
}

#[test]
fn a_strategy_has_no_longer_than_its_timeout() {
    let house = House::new();
    folder(&house, "timeout = \"300ms\"");
    let script = fs::read_to_string(house.path("folder/main.sh")).unwrap();
    house.install("folder/main.sh", &script.replace("sed -u", "exec sleep 1000 #"));
    let stderr = house.fails(&house.compact("inner", &["--trust-dir", "."]), 14);
    assert!(stderr.contains("it did not end within 300ms"), "{stderr}");
}

#[test]
fn protocols_without_a_common_one_stop_a_strategy_before_it_is_started() {
    let house = House::new();
    for (protocols, code, says) in
        [("[0]", 20, "too old"), ("[]", 20, "names no protocol"), ("[2, 3]", 21, "too new")]
    {
        house.install("folder/main.sh", &house.script("inner", ""));
        let text = manifest("inner", "\"./main.sh\"", "runtime = \"sh\"");
        let text = text.replace("protocols = [1]", &format!("protocols = {protocols}"));
        fs::write(house.path("folder/plugin.toml"), text).unwrap();
        for words in [
            vec!["strategy", "trust", "./folder"],
            house.compact("./folder", &[]),
            house.compact("inner", &["--trust-dir", "."]),
            jailed("inner", &["--trust-dir", "."]),
        ] {
            let stderr = house.fails(&words, code);
            assert!(stderr.contains(says), "{stderr}");
        }
    }
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());
    let list = house.json(&["strategy", "list", "--json", "--plugin-dir", "."]);
    let row = list["strategies"].as_array().unwrap().iter().find(|row| row["name"] == "inner").unwrap();
    assert_eq!(row["trust"], json!("untrusted"));
}
