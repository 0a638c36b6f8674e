//! The description of a plugin that is printed before it is trusted, and the prompt on a terminal.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use rustix::pty::OpenptFlags;
use serde_json::json;

use crate::home::{Home, text};
use crate::{RECORDS, install_folder, run_suggested_command};

/// Runs the executable on a pseudo-terminal and types an answer. Returns the exit code and the text on the
/// terminal.
pub(crate) fn run_on_terminal(home: &Home, args: &[&str], answer: &str) -> (Option<i32>, String) {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || fs::File::options().read(true).write(true).open(&name).unwrap();
    let mut command = home.command(args);
    command.stdin(terminal()).stdout(Stdio::null()).stderr(terminal());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut master = fs::File::from(master);
    // The terminal buffers input until it is read.
    master.write_all(answer.as_bytes()).unwrap();
    let (mut screen, mut buffer) = (Vec::new(), [0; 4096]);
    // Reading fails after the last process has closed the other side.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        screen.extend_from_slice(&buffer[..read]);
    }
    (child.wait().unwrap().code(), text(&screen))
}

#[test]
fn terminal_prompt_trusts_a_strategy_for_later_runs() {
    let home = Home::new();
    home.install_strategy("strip-all", "strip-all");
    let compact = home.compact("./strip-all", &[]);
    let (code, screen) = run_on_terminal(&home, &compact, "y\n");
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("Strategy `strip-all` is not trusted yet."), "{screen}");
    assert!(screen.contains("asks      no permission") && screen.contains("1 overlay appended"), "{screen}");
    // The second run must not prompt.
    let (code, screen) = run_on_terminal(&home, &compact, "");
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("trust"), "{screen}");
}

#[test]
fn terminal_prompt_shows_and_approves_a_configuration() {
    let home = Home::new();
    let file = "[conversation.compaction]\ndefault_profile = \"team\"\n[conversation.compaction.profiles.team.summary]\n\
                instructions = \"one\\nerror: forged\\u001b[2J\\u200d\"\nmodel = \"openai/theirs\"\n";
    fs::write(home.path(".jp-compact.toml"), file).unwrap();
    for answer in ["n\n", "\n", "maybe\n", "\u{4}"] {
        let (code, screen) = run_on_terminal(&home, &["config", "trust"], answer);
        assert_eq!(code, Some(11), "{screen}");
        for part in [
            "| one",
            "      | error: forged\\u{1b}[2J\\u{200d}",
            "openai",
            "theirs",
            "Approve these settings? [y/N]",
        ] {
            assert!(screen.contains(part), "`{part}` is not in:\n{screen}");
        }
    }
    let (code, screen) = run_on_terminal(&home, &["config", "trust"], "yes\n");
    assert!(code == Some(0) && screen.contains("approved; `jp-compact config untrust "), "{screen}");
    let (code, screen) = run_on_terminal(&home, &["config", "trust"], "");
    assert!(code == Some(0) && screen.contains("already approved"), "{screen}");
}

#[test]
fn terminal_prompt_grants_requested_permissions_only_on_yes() {
    let home = Home::new();
    install_folder(&home, "env = [\"GRANTED\"]\nruntime = \"sh\"");
    let compact = home.compact("./folder", &[]);
    for answer in ["n\n", "\n", "maybe\n", "\u{4}"] {
        let (code, screen) = run_on_terminal(&home, &compact, answer);
        assert_eq!(code, Some(11), "{screen}");
        assert!(screen.contains("From a folder") && screen.contains("--grant env:GRANTED\r\n"), "{screen}");
    }
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());
    let (code, screen) = run_on_terminal(&home, &compact, "YES\n");
    assert_eq!(code, Some(0), "{screen}");
    fs::write(home.path("folder/deep/table"), "2").unwrap();
    let (_, screen) = run_on_terminal(&home, &compact, "n\n");
    assert!(screen.contains("has changed since it was trusted"), "{screen}");
}

#[test]
fn mcp_server_never_prompts_on_a_terminal() {
    let home = Home::new();
    home.install_strategy("plugins/strip-all", "strip-all");
    let config = "[conversation.compaction.profiles.theirs]\nstrategies = [\"strip-all\"]\n";
    fs::write(home.path(".jp-compact.toml"), config).unwrap();
    let initialize = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let arguments = json!({"transcript": "conversation", "profile": "theirs"});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "compact", "arguments": arguments}}),
    ];
    let input = lines.map(|line| format!("{line}\n")).concat() + "\u{4}";
    let (code, screen) =
        run_on_terminal(&home, &["mcp", "--plugin-dir", "plugins", "--sandbox=contained"], &input);
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("Trust this plugin"), "{screen}");
}

/// Creates a folder whose strategy tries to read `secret` while it describes itself. Its description contains
/// the result.
fn install_reading_folder(home: &Home, permissions: &str, extra: &str) {
    install_folder(home, permissions);
    fs::write(home.path("secret"), "x\n").unwrap();
    let read_secret =
        format!("seen=blind; {{ read -r x < {}; }} 2>/dev/null && seen=sees", home.path("secret").display());
    let script = home.script("inner", extra).replace("case", &format!("{read_secret}\ncase"));
    home.install("folder/main.sh", &script.replace("Strips all of it", "'\"$seen\"'"));
}

#[test]
fn trust_prints_described_requested_and_granted_permissions() {
    let home = Home::new();
    let secret = home.path("secret").display().to_string();
    install_reading_folder(&home, &format!("runtime = \"sh\"\nread = [\"{secret}\"]"), r#","needs":["llm"]"#);
    let args = ["strategy", "trust", "./folder"];
    let report = home.json(&[&args[..], &["--json"]].concat());
    assert_eq!(report["manifest"]["description"], "From a folder");
    let description = &report["description"];
    assert_eq!(
        [&description["name"], &description["version"], &description["needs"][0]],
        ["inner", "1.0.0", "llm"]
    );
    assert_eq!(description["produces"], serde_json::json!(["tool_calls"]));
    // The strategy described itself in a jail with its interpreter, but without the other permissions that it
    // requests.
    assert_eq!(description["description"], "blind");
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());
    let read = format!("read:{secret}");
    assert_eq!(report["asked"], serde_json::json!(["llm", read, "runtime:sh"]));
    assert_eq!(report["granted"], serde_json::json!(["runtime:sh"]));
    assert_eq!(report["not_granted"], serde_json::json!(["llm", read]));

    let screen = text(&home.run(&args).stderr);
    for line in [
        "  manifest  inner 1.0.0: From a folder".into(),
        "  describe  inner 1.0.0: blind".into(),
        "  produces  tool_calls".into(),
        "  needs     llm".into(),
        format!("  asks      llm,read:{secret}"),
        "  granted   runtime:sh".into(),
    ] {
        assert!(screen.contains(&format!("{line}\n")), "{line}\n\n{screen}");
    }
    // The hinted command grants the remaining permissions.
    run_suggested_command(&home, &screen);
    assert_eq!(
        home.json(&home.compact("./folder", &["--json", "--dry-run", "--model", "openai/g"]))["tier"],
        "contained"
    );
}

#[test]
fn mismatched_name_is_exit_12_and_grants_no_trust() {
    let home = Home::new();
    home.install_strategy("plugin", "other");
    for args in [&["strategy", "trust", "./plugin"][..], &["strategy", "trust", "./plugin", "--json"]] {
        let stderr = home.fails(args, 12);
        assert!(stderr.contains("it describes itself as `other`, but its file is `plugin`"), "{stderr}");
    }
    assert!(!home.path(RECORDS).exists());
    let (code, screen) = run_on_terminal(&home, &home.compact("./plugin", &[]), "y\n");
    assert_eq!(code, Some(12), "{screen}");
    assert!(!screen.contains("Trust this plugin"), "{screen}");
    home.fails(&home.compact("./plugin", &[]), 11);
}

#[test]
fn only_the_manifest_is_printed_without_a_jail() {
    let home = Home::new();
    install_folder(&home, "runtime = \"sh\"");
    let mut command = home.command(&["strategy", "trust", "./folder", "--sandbox=contained"]);
    let output = command.env("JP_COMPACT_TEST_LANDLOCK", "0").output().unwrap();
    let screen = text(&output.stderr);
    assert!(output.status.success(), "{screen}");
    assert!(screen.contains("  manifest  inner 1.0.0: From a folder\n"), "{screen}");
    assert!(screen.contains("  describe  failed: it cannot run in a jail: this machine lacks"), "{screen}");
    let mut command = home.command(&["strategy", "trust", "./folder", "--json"]);
    let output = command.env("JP_COMPACT_TEST_LANDLOCK", "0").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["description"], serde_json::Value::Null);
    assert!(report["not_described"].as_str().unwrap().contains("cannot run in a jail"), "{report}");
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn strategy_that_fails_to_describe_itself_can_be_trusted() {
    let home = Home::new();
    home.install("plugin", "#!/bin/sh\necho no luck today >&2\nexit 3\n");
    let screen = text(&home.run(&["strategy", "trust", "./plugin"]).stderr);
    assert!(screen.starts_with("strategy `plugin` is trusted\n"), "{screen}");
    assert!(
        screen.contains("  describe  failed: it ended with exit code 3 without an answer: no luck today\n"),
        "{screen}"
    );
}

#[test]
fn terminal_prompt_grants_the_needs_of_a_bare_file() {
    let home = Home::new();
    home.install("plugin", &home.script("plugin", r#","needs":["llm"]"#));
    let (code, screen) = run_on_terminal(&home, &home.compact("./plugin", &["--model", "openai/g"]), "y\n");
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("  asks      llm\r\n"), "{screen}");
}

#[test]
fn shell_script_with_a_pipe_runs_after_one_question() {
    let home = Home::new();
    let script = home.script("piped", "");
    // The description needs a second process, too.
    let piped = script.replacen("\n", "\nprintf '' | cat\n", 1);
    home.install("piped", &piped);
    let compact = home.compact("./piped", &[]);
    let (code, screen) = run_on_terminal(&home, &compact, "y\n");
    assert!(screen.contains("asks      subprocess"), "{screen}");
    assert_eq!(screen.matches("[y/N]").count(), 1, "{screen}");
    assert_eq!(code, Some(0), "{screen}");
}
