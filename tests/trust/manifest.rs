//! The `mode` and `timeout` of a manifest's `[run]` section, and the `protocols` of the manifest.

use std::fs;

use serde_json::{Value, json};

use crate::home::Home;
use crate::{jailed_arguments, manifest};

/// Installs a trusted folder whose strategy supports one or many requests. `run` is added to its manifest.
fn install_folder(home: &Home, run: &str) {
    let script = home.script("inner", r#","features":["worker"]"#).replace("run) sed", "run|worker) sed -u");
    home.install("folder/main.sh", &script);
    let text = manifest("inner", "\"./main.sh\"", "runtime = \"sh\"");
    fs::write(
        home.path("folder/plugin.toml"),
        text.replace("[permissions]", &format!("{run}\n[permissions]")),
    )
    .unwrap();
    home.ok(&["strategy", "trust", "./folder", "--grant", "runtime:sh"]);
}

/// Checks the verb that the strategy is started with, for one conversation or two.
#[track_caller]
fn check_verb(run: &str, conversations: usize, expect: &str) {
    let home = Home::new();
    install_folder(&home, run);
    fs::create_dir(home.path("another")).unwrap();
    fs::copy(home.path("conversation/events.json"), home.path("another/events.json")).unwrap();
    let another = &["another"][..conversations - 1];
    home.ok(&home.compact("./folder", another));
    let mut verbs = home.verbs();
    verbs.dedup();
    assert_eq!(verbs, [expect], "{run}, {conversations}");
}

#[test]
fn mode_selects_processes_or_workers() {
    check_verb("", 1, "run");
    check_verb("", 2, "worker");
    check_verb("mode = \"auto\"", 1, "run");
    check_verb("mode = \"worker\"", 1, "worker");
    check_verb("mode = \"one-shot\"", 2, "run");
    check_verb("mode = \"worker\"", 2, "worker");
}

#[test]
fn worker_mode_without_the_feature_is_exit_12() {
    let home = Home::new();
    home.install("folder/main.sh", &home.script("inner", ""));
    let text = manifest("inner", "\"./main.sh\"", "runtime = \"sh\"");
    let text = text.replace("[permissions]", "mode = \"worker\"\n[permissions]");
    fs::write(home.path("folder/plugin.toml"), text).unwrap();
    for args in [vec!["strategy", "trust", "./folder"], home.compact("inner", &["--trust-dir", "."])] {
        let stderr = home.fails(&args, 12);
        assert!(stderr.contains("lacks the feature `worker`"), "{stderr}");
    }
}

/// Checks the deadline in the request to a strategy.
#[track_caller]
fn check_deadline(timeout: &str, options: &[&str], expect_ms: u64) {
    let home = Home::new();
    install_folder(&home, timeout);
    let script = fs::read_to_string(home.path("folder/main.sh")).unwrap();
    let request = format!("tee {} | sed", home.path("request").display());
    home.install("folder/main.sh", &script.replace("sed -u", &request));
    let args = [&["--trust-dir", "."], options].concat();
    home.ok(&home.compact("inner", &args));
    let request: Value = serde_json::from_slice(&fs::read(home.path("request")).unwrap()).unwrap();
    assert_eq!(request["limits"]["deadline_ms"], expect_ms);
}

#[test]
fn timeout_is_the_deadline_unless_the_user_gives_one() {
    check_deadline("", &[], 60_000);
    check_deadline("timeout = \"90s\"", &[], 90_000);
    check_deadline("timeout = \"5m\"", &["--deadline", "20s"], 20_000);
}

#[test]
fn timeout_limits_the_run() {
    let home = Home::new();
    install_folder(&home, "timeout = \"300ms\"");
    let script = fs::read_to_string(home.path("folder/main.sh")).unwrap();
    home.install("folder/main.sh", &script.replace("sed -u", "exec sleep 1000 #"));
    let stderr = home.fails(&home.compact("inner", &["--trust-dir", "."]), 14);
    assert!(stderr.contains("it did not end within 300ms"), "{stderr}");
}

#[test]
fn unsupported_protocols_are_an_error_before_the_start() {
    let home = Home::new();
    for (protocols, code, message) in
        [("[0]", 20, "too old"), ("[]", 20, "lists no protocol"), ("[2, 3]", 21, "too new")]
    {
        home.install("folder/main.sh", &home.script("inner", ""));
        let text = manifest("inner", "\"./main.sh\"", "runtime = \"sh\"");
        let text = text.replace("protocols = [1]", &format!("protocols = {protocols}"));
        fs::write(home.path("folder/plugin.toml"), text).unwrap();
        for args in [
            vec!["strategy", "trust", "./folder"],
            home.compact("./folder", &[]),
            home.compact("inner", &["--trust-dir", "."]),
            jailed_arguments("inner", &["--trust-dir", "."]),
        ] {
            let stderr = home.fails(&args, code);
            assert!(stderr.contains(message), "{stderr}");
        }
    }
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());
    let list = home.json(&["strategy", "list", "--json", "--plugin-dir", "."]);
    let row = list["strategies"].as_array().unwrap().iter().find(|row| row["name"] == "inner").unwrap();
    assert_eq!(row["trust"], json!("untrusted"));
}
