//! What is granted, what is not, and what a failure says of it.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::house::{House, text};
use crate::{folder, jailed, obey};

#[test]
fn a_bare_script_asks_for_its_interpreter_and_trust_grants_that_alone() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    let record = house.json(&["strategy", "trust", "./plugin", "--json"]);
    let none = json!({
        "llm": false, "network": false, "subprocess": false, "env": [], "read": [], "runtime": "sh"
    });
    assert_eq!(record["permissions"], none);
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    assert_eq!(record["interpreter"], &*shell.to_string_lossy());
}

#[test]
fn a_variable_is_seen_when_it_is_granted() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    for (grant, expect) in [("subprocess", "unset"), ("subprocess,env:GRANTED", "seen")] {
        house.ok(&["strategy", "trust", "./plugin", "--grant", grant]);
        let mut command = house.command(&house.compact("./plugin", &["--dry-run"]));
        assert!(command.env("GRANTED", "seen").output().unwrap().status.success());
        assert_eq!(house.diary().pop().unwrap()[2], expect);
    }
    house.fails(&["strategy", "trust", "./plugin", "--grant", "everything"], 2);
}

#[test]
fn a_need_that_was_not_granted_is_refused_before_it_runs_with_the_command() {
    let house = House::new();
    house.install("plugin", &house.script("plugin", r#","needs":["llm"]"#));
    house.ok(&["strategy", "trust", "./plugin"]);
    let compact = house.compact("./plugin", &["--dry-run", "--model", "openai/g"]);
    let stderr = house.fails(&compact, 11);
    let path = house.path("plugin");
    let command = format!("jp-compact strategy trust {} --grant llm,runtime:sh", path.display());
    assert!(
        stderr.contains("it needs `llm`, which was not granted") && stderr.contains(&command),
        "{stderr}"
    );
    assert_eq!(house.verbs(), Vec::<String>::new());
    house.ok(&["strategy", "trust", "./plugin", "--grant", "llm"]);
    house.ok(&compact);
}

#[test]
fn what_a_manifest_asks_for_is_not_granted_by_trust() {
    let house = House::new();
    folder(&house, "llm = true\nenv = [\"GRANTED\"]");
    let record = house.json(&["strategy", "trust", "./folder", "--json"]);
    assert_eq!(record["permissions"]["llm"], false);
    assert_eq!(record["not_granted"], json!(["llm", "env:GRANTED"]));
    let output = house.run(&["strategy", "trust", "./folder", "--grant", "llm"]);
    assert!(text(&output.stderr).contains("it asks for env:GRANTED too"), "{}", text(&output.stderr));
}

#[test]
fn a_failure_that_a_missing_grant_may_explain_says_which() {
    let house = House::new();
    folder(&house, "env = [\"GRANTED\"]");
    let script = house.script("inner", "").replace("case", "[ \"${GRANTED-}\" ] || exit 3\ncase");
    house.install("folder/main.sh", &script);
    house.ok(&["strategy", "trust", "./folder"]);
    let compact = house.compact("./folder", &["--dry-run"]);
    let stderr = house.fails(&compact, 13);
    assert!(stderr.contains("it asked for env:GRANTED, which was not granted"), "{stderr}");
    let command = format!("strategy trust {} --grant env:GRANTED", house.path("folder").display());
    assert!(stderr.contains(&command), "{stderr}");
    // Without anything missing, nothing is said of grants.
    house.ok(&["strategy", "trust", "./folder", "--grant", "env:GRANTED"]);
    let stderr = house.fails(&compact, 13);
    assert!(!stderr.contains("grant"), "{stderr}");
}

/// A jailed strategy that fails at this step of its work says which grant that takes; the command that it ends
/// with gives it, and then it works.
#[track_caller]
fn mended(step: &str, grant: &str, says: &str) {
    let house = House::new();
    fs::write(house.path("secret"), "x\n").unwrap();
    let step = step.replace("SECRET", house.path("secret").to_str().unwrap());
    let answer = r#"echo '{"type":"decline","id":"c1","reason":"done"}'"#;
    let script =
        house.script("plugin", "").replace("run) sed", &format!("run) {step}\n{answer};;\nnever) sed"));
    house.install("plugin", &script);
    house.ok(&["strategy", "trust", "./plugin"]);
    let stderr = house.fails(&jailed("./plugin", &[]), 13);
    let grant = grant.replace("SECRET", house.path("secret").to_str().unwrap());
    assert!(stderr.contains(says) && stderr.contains(&format!("`{grant}` was not granted")), "{stderr}");
    obey(&house, &stderr);
    let report = house.json(&jailed("./plugin", &["--json"]));
    assert_eq!(report["declines"][0]["reason"], "done", "{report}");
}

#[test]
fn a_script_that_starts_a_process_is_told_of_subprocess() {
    mended("/bin/true | /bin/true", "subprocess", "start another process");
    mended("x=$(/bin/true)", "subprocess", "`exec` before a program starts none");
}

#[test]
fn a_script_that_reads_a_file_is_told_of_read() {
    mended("while read -r x; do :; done < SECRET || exit 3", "read:SECRET", "read what it may not");
}

#[test]
fn a_program_that_is_denied_the_network_or_a_process_is_told_of_them() {
    if !Path::new("/usr/bin/python3").exists() {
        assert!(std::env::var_os("JP_COMPACT_TEST_ALL").is_none(), "python3 is missing");
        return;
    }
    for (line, grant) in [
        ("__import__('socket').socket()", "network"),
        ("__import__('subprocess').run(['/bin/true'])", "subprocess"),
        ("__import__('os').fork() or __import__('os')._exit(0)", "subprocess"),
        ("open('SECRET')", "read:SECRET"),
    ] {
        let house = House::new();
        fs::write(house.path("secret"), "x\n").unwrap();
        let real = |text: &str| text.replace("SECRET", house.path("secret").to_str().unwrap());
        let described = r#"{"type":"describe","protocols":[1],"name":"plugin","version":"1","description":"d","produces":["tool_calls"],"input":"none"}"#;
        let declined = r#"{"type":"decline","id":"c1","reason":"done"}"#;
        let script = format!(
            "#!/usr/bin/python3\nimport sys\nif sys.argv[1] == 'describe':\n    print('{described}')\nelse:\n    \
             {}\n    print('{declined}')\n",
            real(line)
        );
        house.install("plugin", &script);
        house.ok(&["strategy", "trust", "./plugin"]);
        let stderr = house.fails(&jailed("./plugin", &[]), 13);
        assert!(stderr.contains(&format!("`{}` was not granted", real(grant))), "{line}: {stderr}");
        obey(&house, &stderr);
        house.ok(&jailed("./plugin", &[]));
    }
}

#[test]
fn a_folder_without_its_interpreter_is_told_of_runtime() {
    let house = House::new();
    folder(&house, "");
    let answer = r#"echo '{"type":"decline","id":"c1","reason":"done"}'"#;
    let script = house.script("inner", "").replace("run) sed", &format!("run) {answer};;\nnever) sed"));
    house.install("folder/main.sh", &script);
    house.ok(&["strategy", "trust", "./folder"]);
    let stderr = house.fails(&jailed("./folder", &[]), 13);
    assert!(stderr.contains("start its interpreter, and `runtime:sh` was not granted"), "{stderr}");
    obey(&house, &stderr);
    house.ok(&jailed("./folder", &[]));
}

#[test]
fn the_command_that_grants_names_the_lock_file_that_was_named() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    let lock = ["--trust-lock", "plugins.lock"];
    house.ok(&[&["strategy", "trust", "./plugin"], &lock[..]].concat());
    let stderr = house.fails(&jailed("./plugin", &lock), 13);
    obey(&house, &stderr);
    house.ok(&jailed("./plugin", &lock));
}

#[test]
fn without_a_jail_nothing_is_said_of_grants() {
    let house = House::new();
    house.install(
        "plugin",
        &house.script("plugin", "").replace("run) sed", "run) echo Cannot fork >&2; exit 2; sed"),
    );
    house.ok(&["strategy", "trust", "./plugin"]);
    let stderr = house.fails(&house.compact("./plugin", &[]), 13);
    assert!(!stderr.contains("granted"), "{stderr}");
}
