//! What a plugin says of itself before it is trusted, and the question on a terminal.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use rustix::pty::OpenptFlags;
use serde_json::json;

use crate::house::{House, text};
use crate::{RECORDS, folder, obey};

/// Runs the executable on a terminal, types an answer, and returns its exit code and what the terminal showed.
pub(crate) fn on_a_terminal(house: &House, words: &[&str], answer: &str) -> (Option<i32>, String) {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || fs::File::options().read(true).write(true).open(&name).unwrap();
    let mut command = house.command(words);
    command.stdin(terminal()).stdout(Stdio::null()).stderr(terminal());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut master = fs::File::from(master);
    // A terminal keeps what is typed before it is read.
    master.write_all(answer.as_bytes()).unwrap();
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    // When nobody has the other side open any more, reading fails.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..read]);
    }
    (child.wait().unwrap().code(), text(&shown))
}

#[test]
fn on_a_terminal_one_s_own_first_strategy_takes_two_steps() {
    let house = House::new();
    house.strategy("strip-all", "strip-all");
    let compact = house.compact("./strip-all", &[]);
    let (code, shown) = on_a_terminal(&house, &compact, "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Strategy `strip-all` is not trusted yet."), "{shown}");
    assert!(shown.contains("asks      no permission") && shown.contains("1 overlay appended"), "{shown}");
    // And is not asked again.
    let (code, shown) = on_a_terminal(&house, &compact, "");
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("trust"), "{shown}");
}

#[test]
fn on_a_terminal_a_configuration_is_shown_and_approved() {
    let house = House::new();
    let file = "[conversation.compaction]\ndefault_profile = \"team\"\n[conversation.compaction.profiles.team.summary]\n\
                instructions = \"one\\nerror: forged\\u001b[2J\\u200d\"\nmodel = \"openai/theirs\"\n";
    fs::write(house.path(".jp-compact.toml"), file).unwrap();
    for answer in ["n\n", "\n", "maybe\n", "\u{4}"] {
        let (code, shown) = on_a_terminal(&house, &["config", "trust"], answer);
        assert_eq!(code, Some(11), "{shown}");
        for part in
            ["| one", "      | error: forged\\u{1b}[2J\\u{200d}", "openai", "theirs", "Approve this? [y/N]"]
        {
            assert!(shown.contains(part), "`{part}` is not in:\n{shown}");
        }
    }
    let (code, shown) = on_a_terminal(&house, &["config", "trust"], "yes\n");
    assert!(code == Some(0) && shown.contains("approved; `jp-compact config untrust "), "{shown}");
    let (code, shown) = on_a_terminal(&house, &["config", "trust"], "");
    assert!(code == Some(0) && shown.contains("this was approved before"), "{shown}");
}

#[test]
fn on_a_terminal_yes_grants_what_was_asked_and_anything_else_nothing() {
    let house = House::new();
    folder(&house, "env = [\"GRANTED\"]\nruntime = \"sh\"");
    let compact = house.compact("./folder", &[]);
    for answer in ["n\n", "\n", "maybe\n", "\u{4}"] {
        let (code, shown) = on_a_terminal(&house, &compact, answer);
        assert_eq!(code, Some(11), "{shown}");
        assert!(shown.contains("From a folder") && shown.contains("--grant env:GRANTED\r\n"), "{shown}");
    }
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());
    let (code, shown) = on_a_terminal(&house, &compact, "YES\n");
    assert_eq!(code, Some(0), "{shown}");
    fs::write(house.path("folder/deep/table"), "2").unwrap();
    let (_, shown) = on_a_terminal(&house, &compact, "n\n");
    assert!(shown.contains("has changed since it was trusted"), "{shown}");
}

#[test]
fn a_server_asks_nobody_on_a_terminal_either() {
    let house = House::new();
    house.strategy("plugins/strip-all", "strip-all");
    let config = "[conversation.compaction.profiles.theirs]\nstrategies = [\"strip-all\"]\n";
    fs::write(house.path(".jp-compact.toml"), config).unwrap();
    let introduced = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let arguments = json!({"transcript": "conversation", "profile": "theirs"});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": introduced}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "compact", "arguments": arguments}}),
    ];
    let typed = lines.map(|line| format!("{line}\n")).concat() + "\u{4}";
    let (code, shown) =
        on_a_terminal(&house, &["mcp", "--plugin-dir", "plugins", "--sandbox=contained"], &typed);
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("Trust this plugin"), "{shown}");
}

/// A folder that asks for this, and whose strategy says whether it reads `secret` while it describes itself.
fn curious(house: &House, permissions: &str, more: &str) {
    folder(house, permissions);
    fs::write(house.path("secret"), "x\n").unwrap();
    let reads =
        format!("seen=blind; {{ read -r x < {}; }} 2>/dev/null && seen=sees", house.path("secret").display());
    let script = house.script("inner", more).replace("case", &format!("{reads}\ncase"));
    house.install("folder/main.sh", &script.replace("Strips all of it", "'\"$seen\"'"));
}

#[test]
fn trust_shows_what_is_said_asked_and_granted() {
    let house = House::new();
    let secret = house.path("secret").display().to_string();
    curious(&house, &format!("runtime = \"sh\"\nread = [\"{secret}\"]"), r#","needs":["llm"]"#);
    let words = ["strategy", "trust", "./folder"];
    let told = house.json(&[&words[..], &["--json"]].concat());
    assert_eq!(told["manifest"]["description"], "From a folder");
    let said = &told["description"];
    assert_eq!([&said["name"], &said["version"], &said["needs"][0]], ["inner", "1.0.0", "llm"]);
    assert_eq!(said["produces"], serde_json::json!(["tool_calls"]));
    // It described itself in a jail, with its interpreter and nothing else that it asks for.
    assert_eq!(said["description"], "blind");
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());
    let read = format!("read:{secret}");
    assert_eq!(told["asked"], serde_json::json!(["llm", read, "runtime:sh"]));
    assert_eq!(told["granted"], serde_json::json!(["runtime:sh"]));
    assert_eq!(told["not_granted"], serde_json::json!(["llm", read]));

    let shown = text(&house.run(&words).stderr);
    for line in [
        "  manifest  inner 1.0.0: From a folder".into(),
        "  says      inner 1.0.0: blind".into(),
        "  produces  tool_calls".into(),
        "  needs     llm".into(),
        format!("  asks      llm,read:{secret}"),
        "  granted   runtime:sh".into(),
    ] {
        assert!(shown.contains(&format!("{line}\n")), "{line}\n\n{shown}");
    }
    // The command that it ends with grants the rest.
    obey(&house, &shown);
    assert_eq!(
        house.json(&house.compact("./folder", &["--json", "--dry-run", "--model", "openai/g"]))["tier"],
        "contained"
    );
}

#[test]
fn a_name_of_its_own_is_exit_12_and_nothing_is_trusted() {
    let house = House::new();
    house.strategy("plugin", "other");
    for words in [&["strategy", "trust", "./plugin"][..], &["strategy", "trust", "./plugin", "--json"]] {
        let stderr = house.fails(words, 12);
        assert!(stderr.contains("it calls itself `other`, and its file is `plugin`"), "{stderr}");
    }
    assert!(!house.path(RECORDS).exists());
    let (code, shown) = on_a_terminal(&house, &house.compact("./plugin", &[]), "y\n");
    assert_eq!(code, Some(12), "{shown}");
    assert!(!shown.contains("Trust this plugin"), "{shown}");
    house.fails(&house.compact("./plugin", &[]), 11);
}

#[test]
fn without_a_jail_a_manifest_is_all_that_is_shown_and_that_is_said() {
    let house = House::new();
    folder(&house, "runtime = \"sh\"");
    let mut command = house.command(&["strategy", "trust", "./folder", "--sandbox=contained"]);
    let output = command.env("JP_COMPACT_TEST_LANDLOCK", "0").output().unwrap();
    let shown = text(&output.stderr);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("  manifest  inner 1.0.0: From a folder\n"), "{shown}");
    assert!(
        shown.contains("  says      nothing: there is no jail to ask it in: this machine lacks"),
        "{shown}"
    );
    let mut command = house.command(&["strategy", "trust", "./folder", "--json"]);
    let output = command.env("JP_COMPACT_TEST_LANDLOCK", "0").output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["description"], serde_json::Value::Null);
    assert!(told["not_described"].as_str().unwrap().contains("there is no jail"), "{told}");
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn one_that_does_not_describe_itself_is_trusted_and_that_is_said() {
    let house = House::new();
    house.install("plugin", "#!/bin/sh\necho no luck today >&2\nexit 3\n");
    let shown = text(&house.run(&["strategy", "trust", "./plugin"]).stderr);
    assert!(shown.starts_with("strategy `plugin` is trusted\n"), "{shown}");
    assert!(
        shown.contains("  says      nothing: it ended with exit code 3 and no answer: no luck today\n"),
        "{shown}"
    );
}

#[test]
fn on_a_terminal_yes_grants_what_a_bare_file_says_that_it_needs() {
    let house = House::new();
    house.install("plugin", &house.script("plugin", r#","needs":["llm"]"#));
    let (code, shown) = on_a_terminal(&house, &house.compact("./plugin", &["--model", "openai/g"]), "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("  asks      llm\r\n"), "{shown}");
}
