//! A strategy that is only tried out (`strategy run`, `strategy test`) is granted what was typed or confirmed, and
//! nothing that its manifest asks for.

use std::fs;
use std::io::Write as _;

use crate::house::{House, text};
use crate::introduced::on_a_terminal;
use crate::manifest;

/// A folder that asks for all, and declines with what it could read and see.
fn greedy(house: &House, command: &str) {
    let secret = house.path("secret").display().to_string();
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
    house.install("greedy/main.sh", &script);
    let permissions = format!("runtime = \"sh\"\nnetwork = true\nenv = [\"GRANTED\"]\nread = [\"{secret}\"]");
    fs::write(house.path("greedy/plugin.toml"), manifest("greedy", command, &permissions)).unwrap();
}

/// What it declines with when it is tried out with these words more.
#[track_caller]
fn declines(house: &House, more: &[&str], expect: &str) {
    let mut command =
        house.command(&[&["strategy", "run", "./greedy", "conversation", "--keep-last", "1"], more].concat());
    let ran = command.env("GRANTED", "the variable").output().unwrap();
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{stderr}");
    assert!(stdout.contains(&format!("\"reason\":\"{expect}\"")), "{stdout}");
}

#[test]
fn a_manifest_alone_grants_nothing() {
    for command in ["\"./main.sh\"", "\"sh\", \"main.sh\""] {
        let house = House::new();
        greedy(&house, command);
        let read = format!("read:{}", house.path("secret").display());
        declines(&house, &[], "blind, unset");
        declines(&house, &["--grant", &read], "the key, unset");
        declines(&house, &["--grant", "env:GRANTED"], "blind, the variable");
        declines(&house, &["--grant", &format!("{read},env:GRANTED")], "the key, the variable");
    }
}

#[test]
fn on_a_terminal_what_is_asked_for_is_listed_and_granted_by_a_yes() {
    let house = House::new();
    greedy(&house, "\"./main.sh\"");
    let record = house.path("record");
    let words = ["strategy", "run", "./greedy", "conversation", "--keep-last", "1", "--record", "record"];
    for (answer, expect) in [("n\n", "blind"), ("\n", "blind"), ("y\n", "the key")] {
        let (code, shown) = on_a_terminal(&house, &words, answer);
        assert_eq!(code, Some(0), "{shown}");
        for asked in ["network", "env:GRANTED", "read:/"] {
            assert!(shown.contains(&format!("  asks      {asked}")), "{shown}");
        }
        assert!(!shown.contains("runtime"), "{shown}");
        assert!(fs::read_to_string(&record).unwrap().contains(expect), "{expect}: {shown}");
        fs::remove_file(&record).unwrap();
    }
}

#[test]
fn the_checks_grant_nothing_either() {
    let house = House::new();
    greedy(&house, "\"./main.sh\"");
    let script = fs::read_to_string(house.path("greedy/main.sh")).unwrap();
    // One that is only good where it can read.
    let script =
        script.replace("echo \"{", "[ \"$seen\" = 'the key' ] || { cat /none; exit 3; }\n  echo \"{");
    house.install("greedy/main.sh", &script);
    let test = ["strategy", "test", "./greedy", "--only", "R02"];
    let ran = house.run(&test);
    let stderr = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(15), "{stderr}");
    let secret = house.path("secret").display().to_string();
    assert!(
        stderr.contains(&format!("it asked for network,env:GRANTED,read:{secret}, which was not granted")),
        "{stderr}"
    );
    assert!(stderr.contains("jp-compact strategy test ./greedy --grant network,"), "{stderr}");
    house.ok(&[&test[..], &["--grant", &format!("read:{secret}")]].concat());
}

#[test]
fn a_failure_that_a_grant_explains_names_it() {
    let house = House::new();
    greedy(&house, "\"./main.sh\"");
    let script = fs::read_to_string(house.path("greedy/main.sh")).unwrap();
    house.install("greedy/main.sh", &script.replace("2>/dev/null", "|| exit 3"));
    let secret = house.path("secret").display().to_string();
    let stderr = house.fails(&["strategy", "run", "./greedy", "conversation", "--keep-last", "1"], 13);
    assert!(stderr.contains(&format!("`read:{secret}` was not granted")), "{stderr}");
    let command =
        format!("jp-compact strategy run ./greedy conversation --grant network,env:GRANTED,read:{secret}");
    assert!(stderr.contains(&command), "{stderr}");
}

#[test]
fn an_interpreter_elsewhere_needs_a_grant() {
    let house = House::new();
    fs::copy("/bin/sh", house.path("dash")).unwrap();
    greedy(&house, &format!("\"{}\", \"main.sh\"", house.path("dash").display()));
    let words = ["strategy", "run", "./greedy", "conversation", "--keep-last", "1"];
    let stderr = house.fails(&words, 13);
    assert!(stderr.contains("`runtime:sh` was not granted"), "{stderr}");
    declines(&house, &["--grant", "runtime:sh"], "blind, unset");
}

#[test]
fn a_prompt_shows_every_character_that_hides_another() {
    let house = House::new();
    greedy(&house, "\"./main.sh\"");
    let odd = "a\u{200b}b\u{fe0f}c\u{e0101}d \u{2764}\u{fe0f} \u{645}\u{6cc}\u{200c}\u{62e}";
    let text = fs::read_to_string(house.path("greedy/plugin.toml")).unwrap();
    let mut file = fs::File::create(house.path("greedy/plugin.toml")).unwrap();
    file.write_all(text.replace("From a folder", odd).as_bytes()).unwrap();
    let (_, shown) = on_a_terminal(&house, &house.compact("./greedy", &[]), "n\n");
    let escaped = "a\\u{200b}b\\u{fe0f}c\\u{e0101}d \u{2764}\\u{fe0f} \u{645}\u{6cc}\\u{200c}\u{62e}";
    assert!(shown.contains(escaped), "{shown}");
}
