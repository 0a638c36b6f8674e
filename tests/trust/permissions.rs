//! Granted and missing permissions, and the hints in errors.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::home::{Home, text};
use crate::{install_folder, jailed_arguments, run_suggested_command};

#[test]
fn trust_grants_a_bare_script_only_its_interpreter() {
    let home = Home::new();
    home.install_strategy("plugin", "plugin");
    let record = home.json(&["strategy", "trust", "./plugin", "--json"]);
    let only_interpreter = json!({
        "llm": false, "network": false, "subprocess": false, "env": [], "read": [], "runtime": "sh"
    });
    assert_eq!(record["permissions"], only_interpreter);
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    assert_eq!(record["interpreter"], &*shell.to_string_lossy());
}

#[test]
fn granted_variable_is_visible() {
    let home = Home::new();
    home.install_strategy("plugin", "plugin");
    for (grant, expect) in [("subprocess", "unset"), ("subprocess,env:GRANTED", "seen")] {
        home.ok(&["strategy", "trust", "./plugin", "--grant", grant]);
        let mut command = home.command(&home.compact("./plugin", &["--dry-run"]));
        assert!(command.env("GRANTED", "seen").output().unwrap().status.success());
        assert_eq!(home.diary().pop().unwrap()[2], expect);
    }
    home.fails(&["strategy", "trust", "./plugin", "--grant", "everything"], 2);
}

#[test]
fn missing_permission_for_a_need_is_an_error_before_the_run() {
    let home = Home::new();
    home.install("plugin", &home.script("plugin", r#","needs":["llm"]"#));
    home.ok(&["strategy", "trust", "./plugin"]);
    let compact = home.compact("./plugin", &["--dry-run", "--model", "openai/g"]);
    let stderr = home.fails(&compact, 11);
    let path = home.path("plugin");
    let command = format!("jp-compact strategy trust {} --grant llm,runtime:sh", path.display());
    assert!(
        stderr.contains("it needs `llm`, which was not granted") && stderr.contains(&command),
        "{stderr}"
    );
    assert_eq!(home.verbs(), Vec::<String>::new());
    home.ok(&["strategy", "trust", "./plugin", "--grant", "llm"]);
    home.ok(&compact);
}

#[test]
fn trust_does_not_grant_the_permissions_of_a_manifest() {
    let home = Home::new();
    install_folder(&home, "llm = true\nenv = [\"GRANTED\"]");
    let record = home.json(&["strategy", "trust", "./folder", "--json"]);
    assert_eq!(record["permissions"]["llm"], false);
    assert_eq!(record["not_granted"], json!(["llm", "env:GRANTED"]));
    let output = home.run(&["strategy", "trust", "./folder", "--grant", "llm"]);
    assert!(text(&output.stderr).contains("it also asks for env:GRANTED"), "{}", text(&output.stderr));
}

#[test]
fn variable_of_the_dynamic_loader_is_never_granted() {
    let home = Home::new();
    install_folder(&home, "env = [\"LD_DEBUG\"]");
    for args in [
        vec!["strategy", "trust", "./folder"],
        home.compact("./folder", &[]),
        home.compact("inner", &["--trust-dir", "."]),
        vec!["strategy", "test", "./folder"],
    ] {
        let output = home.command(&args).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(!output.status.success(), "{args:?}: {stderr}");
        assert!(stderr.contains("`LD_DEBUG` cannot be granted"), "{args:?}: {stderr}");
    }
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn failure_reports_permissions_that_may_be_missing() {
    let home = Home::new();
    install_folder(&home, "env = [\"GRANTED\"]");
    let script = home.script("inner", "").replace("case", "[ \"${GRANTED-}\" ] || exit 3\ncase");
    home.install("folder/main.sh", &script);
    home.ok(&["strategy", "trust", "./folder"]);
    let compact = home.compact("./folder", &["--dry-run"]);
    let stderr = home.fails(&compact, 13);
    assert!(stderr.contains("these permissions were not granted: env:GRANTED"), "{stderr}");
    let command = format!("strategy trust {} --grant env:GRANTED", home.path("folder").display());
    assert!(stderr.contains(&command), "{stderr}");
    // Without missing permissions the error does not mention them.
    home.ok(&["strategy", "trust", "./folder", "--grant", "env:GRANTED"]);
    let stderr = home.fails(&compact, 13);
    assert!(!stderr.contains("grant"), "{stderr}");
}

/// Checks that a jailed strategy fails at `step` with a hint about the missing permission, and works after
/// the hinted command.
#[track_caller]
fn check_hint(step: &str, grant: &str, message: &str) {
    let home = Home::new();
    fs::write(home.path("secret"), "x\n").unwrap();
    let step = step.replace("SECRET", home.path("secret").to_str().unwrap());
    let answer = r#"echo '{"type":"decline","id":"c1","reason":"done"}'"#;
    let script =
        home.script("plugin", "").replace("run) sed", &format!("run) {step}\n{answer};;\nnever) sed"));
    home.install("plugin", &script);
    home.ok(&["strategy", "trust", "./plugin"]);
    let stderr = home.fails(&jailed_arguments("./plugin", &[]), 13);
    let grant = grant.replace("SECRET", home.path("secret").to_str().unwrap());
    assert!(stderr.contains(message) && stderr.contains(&format!("`{grant}` was not granted")), "{stderr}");
    run_suggested_command(&home, &stderr);
    let report = home.json(&jailed_arguments("./plugin", &["--json"]));
    assert_eq!(report["declines"][0]["reason"], "done", "{report}");
}

#[test]
fn script_that_starts_a_process_gets_a_hint_about_subprocess() {
    check_hint("/bin/true | /bin/true", "subprocess", "start another process");
    check_hint("x=$(/bin/true)", "subprocess", "`exec PROGRAM` avoids that");
}

#[test]
fn script_that_reads_a_file_gets_a_hint_about_read() {
    check_hint(
        "while read -r x; do :; done < SECRET || exit 3",
        "read:SECRET",
        "read a file without permission",
    );
}

#[test]
fn program_with_denied_access_gets_a_hint_about_the_permission() {
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
        let home = Home::new();
        fs::write(home.path("secret"), "x\n").unwrap();
        let with_secret_path = |text: &str| text.replace("SECRET", home.path("secret").to_str().unwrap());
        let description = r#"{"type":"describe","protocols":[1],"name":"plugin","version":"1","description":"d","produces":["tool_calls"],"input":"none"}"#;
        let decline = r#"{"type":"decline","id":"c1","reason":"done"}"#;
        let script = format!(
            "#!/usr/bin/python3\nimport sys\nif sys.argv[1] == 'describe':\n    print('{description}')\nelse:\n    \
             {}\n    print('{decline}')\n",
            with_secret_path(line)
        );
        home.install("plugin", &script);
        home.ok(&["strategy", "trust", "./plugin"]);
        let stderr = home.fails(&jailed_arguments("./plugin", &[]), 13);
        assert!(
            stderr.contains(&format!("`{}` was not granted", with_secret_path(grant))),
            "{line}: {stderr}"
        );
        run_suggested_command(&home, &stderr);
        home.ok(&jailed_arguments("./plugin", &[]));
    }
}

#[test]
fn folder_without_its_interpreter_gets_a_hint_about_runtime() {
    let home = Home::new();
    install_folder(&home, "");
    let answer = r#"echo '{"type":"decline","id":"c1","reason":"done"}'"#;
    let script = home.script("inner", "").replace("run) sed", &format!("run) {answer};;\nnever) sed"));
    home.install("folder/main.sh", &script);
    home.ok(&["strategy", "trust", "./folder"]);
    let stderr = home.fails(&jailed_arguments("./folder", &[]), 13);
    assert!(stderr.contains("start its interpreter, and `runtime:sh` was not granted"), "{stderr}");
    run_suggested_command(&home, &stderr);
    home.ok(&jailed_arguments("./folder", &[]));
}

#[test]
fn hint_contains_the_given_lock_file() {
    let home = Home::new();
    home.install_strategy("plugin", "plugin");
    let lock = ["--trust-lock", "plugins.lock"];
    home.ok(&[&["strategy", "trust", "./plugin"], &lock[..]].concat());
    let stderr = home.fails(&jailed_arguments("./plugin", &lock), 13);
    run_suggested_command(&home, &stderr);
    home.ok(&jailed_arguments("./plugin", &lock));
}

#[test]
fn error_without_a_jail_does_not_mention_permissions() {
    let home = Home::new();
    home.install(
        "plugin",
        &home.script("plugin", "").replace("run) sed", "run) echo Cannot fork >&2; exit 2; sed"),
    );
    home.ok(&["strategy", "trust", "./plugin"]);
    let stderr = home.fails(&home.compact("./plugin", &[]), 13);
    assert!(!stderr.contains("granted"), "{stderr}");
}
