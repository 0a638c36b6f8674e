//! Permissions of a strategy under `strategy run` and `strategy test`: only typed or confirmed
//! permissions are granted. The permissions of its manifest are not.

use std::fs;
use std::io::Write as _;

use crate::home::{Home, text};
use crate::manifest;
use crate::prompt::run_on_terminal;

/// Installs a folder that requests several permissions. Its strategy declines with the file and the variable
/// that it could read.
fn install_greedy_folder(home: &Home, command: &str) {
    let secret = home.path("secret").display().to_string();
    fs::write(&secret, "the key\n").unwrap();
    let script = format!(
        r#"#!/bin/sh
case "$1" in
describe) echo '{{"type":"describe","protocols":[1],"name":"greedy","version":"1.0.0","description":"d","produces":["tool_calls"],"input":"none"}}' ;;
run) seen=blind; {{ read -r seen < {secret}; }} 2>/dev/null
  echo "{{\"type\":\"decline\",\"id\":\"c1\",\"reason\":\"$seen, ${{GRANTED-unset}}\"}}" ;;
esac
"#
    );
    home.install("greedy/main.sh", &script);
    let permissions = format!("runtime = \"sh\"\nnetwork = true\nenv = [\"GRANTED\"]\nread = [\"{secret}\"]");
    fs::write(home.path("greedy/plugin.toml"), manifest("greedy", command, &permissions)).unwrap();
}

/// Checks the reason with which the strategy declines, for additional arguments.
#[track_caller]
fn check_reason(home: &Home, extra: &[&str], expect: &str) {
    let mut command =
        home.command(&[&["strategy", "run", "./greedy", "conversation", "--keep-last", "1"], extra].concat());
    let output = command.env("GRANTED", "the variable").output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains(&format!("\"reason\":\"{expect}\"")), "{stdout}");
}

#[test]
fn manifest_alone_grants_no_permission() {
    for command in ["\"./main.sh\"", "\"sh\", \"main.sh\""] {
        let home = Home::new();
        install_greedy_folder(&home, command);
        let read = format!("read:{}", home.path("secret").display());
        check_reason(&home, &[], "blind, unset");
        check_reason(&home, &["--grant", &read], "the key, unset");
        check_reason(&home, &["--grant", "env:GRANTED"], "blind, the variable");
        check_reason(&home, &["--grant", &format!("{read},env:GRANTED")], "the key, the variable");
    }
}

#[test]
fn terminal_prompt_lists_permissions_and_grants_them_on_yes() {
    let home = Home::new();
    install_greedy_folder(&home, "\"./main.sh\"");
    let record = home.path("record");
    let args = ["strategy", "run", "./greedy", "conversation", "--keep-last", "1", "--record", "record"];
    for (answer, expect) in [("n\n", "blind"), ("\n", "blind"), ("y\n", "the key")] {
        let (code, screen) = run_on_terminal(&home, &args, answer);
        assert_eq!(code, Some(0), "{screen}");
        for permission in ["network", "env:GRANTED", "read:/"] {
            assert!(screen.contains(&format!("  asks      {permission}")), "{screen}");
        }
        assert!(!screen.contains("runtime"), "{screen}");
        assert!(fs::read_to_string(&record).unwrap().contains(expect), "{expect}: {screen}");
        fs::remove_file(&record).unwrap();
    }
}

#[test]
fn strategy_test_grants_no_permission_of_the_manifest() {
    let home = Home::new();
    install_greedy_folder(&home, "\"./main.sh\"");
    let script = fs::read_to_string(home.path("greedy/main.sh")).unwrap();
    // The strategy fails unless it can read the file.
    let script =
        script.replace("echo \"{", "[ \"$seen\" = 'the key' ] || { cat /none; exit 3; }\n  echo \"{");
    home.install("greedy/main.sh", &script);
    let args = ["strategy", "test", "./greedy", "--only", "R02"];
    let output = home.run(&args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(15), "{stderr}");
    let secret = home.path("secret").display().to_string();
    assert!(
        stderr.contains(&format!("these permissions were not granted: network,env:GRANTED,read:{secret}")),
        "{stderr}"
    );
    assert!(stderr.contains("jp-compact strategy test ./greedy --grant network,"), "{stderr}");
    home.ok(&[&args[..], &["--grant", &format!("read:{secret}")]].concat());
}

#[test]
fn error_suggests_the_missing_permission() {
    let home = Home::new();
    install_greedy_folder(&home, "\"./main.sh\"");
    let script = fs::read_to_string(home.path("greedy/main.sh")).unwrap();
    home.install("greedy/main.sh", &script.replace("2>/dev/null", "|| exit 3"));
    let secret = home.path("secret").display().to_string();
    let stderr = home.fails(&["strategy", "run", "./greedy", "conversation", "--keep-last", "1"], 13);
    assert!(stderr.contains(&format!("`read:{secret}` was not granted")), "{stderr}");
    let command =
        format!("jp-compact strategy run ./greedy conversation --grant network,env:GRANTED,read:{secret}");
    assert!(stderr.contains(&command), "{stderr}");
}

#[test]
fn interpreter_outside_of_the_system_needs_a_permission() {
    let home = Home::new();
    fs::copy("/bin/sh", home.path("dash")).unwrap();
    install_greedy_folder(&home, &format!("\"{}\", \"main.sh\"", home.path("dash").display()));
    let args = ["strategy", "run", "./greedy", "conversation", "--keep-last", "1"];
    let stderr = home.fails(&args, 13);
    assert!(stderr.contains("`runtime:sh` was not granted"), "{stderr}");
    check_reason(&home, &["--grant", "runtime:sh"], "blind, unset");
}

#[test]
fn prompt_escapes_invisible_characters() {
    let home = Home::new();
    install_greedy_folder(&home, "\"./main.sh\"");
    let description = "a\u{200b}b\u{fe0f}c\u{e0101}d \u{2764}\u{fe0f} \u{645}\u{6cc}\u{200c}\u{62e}";
    let text = fs::read_to_string(home.path("greedy/plugin.toml")).unwrap();
    let mut file = fs::File::create(home.path("greedy/plugin.toml")).unwrap();
    file.write_all(text.replace("From a folder", description).as_bytes()).unwrap();
    let (_, screen) = run_on_terminal(&home, &home.compact("./greedy", &[]), "n\n");
    let escaped = "a\\u{200b}b\\u{fe0f}c\\u{e0101}d \u{2764}\\u{fe0f} \u{645}\u{6cc}\\u{200c}\u{62e}";
    assert!(screen.contains(escaped), "{screen}");
}
