//! Tests of the README: its commands run, its tables match the executable, and its strategy works.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and runs what users run"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn readme() -> String {
    fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap()
}

/// Returns the fenced block after a mark.
fn block(mark: &str) -> String {
    let readme = readme();
    let (_, rest) = readme.split_once(&format!("<!-- {mark} -->\n```")).unwrap();
    let (_, block) = rest.split_once('\n').unwrap();
    block.split_once("\n```").unwrap().0.to_owned() + "\n"
}

/// Returns the first two columns of the table under a heading, without code marks.
fn table(heading: &str) -> Vec<(String, String)> {
    let readme = readme();
    let section = readme.split_once(&format!("\n## {heading}\n")).unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', ""));
        (cells.next().unwrap(), cells.next().unwrap())
    })
    .collect()
}

fn jp_compact(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("jp-compact"));
    command.env_clear().env("HOME", folder).current_dir(folder).args(arguments).output().unwrap()
}

/// Joins the lines of a text.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn first_command_prints_the_shown_output() {
    let folder = tempfile::tempdir().unwrap();
    let line = block("run");
    let mut commands = line.trim().split(" && ");
    assert_eq!(commands.next(), Some("cargo build --release"), "every executable is built first");
    assert_eq!(commands.next(), Some("cp -r tests/sample target/"));
    let target = folder.path().join("target/sample");
    fs::create_dir_all(&target).unwrap();
    for file in ["events.json", "base_config.json", "metadata.json"] {
        fs::copy(Path::new(ROOT).join("tests/sample").join(file), target.join(file)).unwrap();
    }
    let mut actual = String::new();
    for command in commands {
        let arguments: Vec<_> = command.split(' ').collect();
        assert_eq!(arguments[0], "target/release/jp-compact");
        let output = jp_compact(folder.path(), &arguments[1..]);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        actual += &(text(&output.stderr) + &text(&output.stdout));
    }
    let expected = block("output");
    let expected = expected.strip_suffix("...\n").unwrap();
    assert!(actual.starts_with(expected), "expected\n{expected}\nbut the output is\n{actual}");
}

#[test]
fn ci_runs_the_test_command() {
    let ci = fs::read_to_string(Path::new(ROOT).join(".ci/run")).unwrap();
    assert!(ci.contains("run \"$(line test)\"") && ci.contains("run \"$(line run)\""));
    assert!(block("test").starts_with("cargo test"));
}

#[test]
fn exit_codes_match_the_help() {
    let help = text(&jp_compact(Path::new("/"), &["--help"]).stdout);
    let codes = help.split_once("Exit codes:\n").unwrap().1;
    let codes: Vec<_> = codes
        .lines()
        .filter_map(|line| line.trim().split_once("  "))
        .map(|(code, meaning)| (code.to_owned(), meaning.to_owned()))
        .collect();
    let page = fs::read_to_string(Path::new(ROOT).join("docs/reference/json.md")).unwrap();
    let listed_codes = page.split_once("\n## Exit codes\n").unwrap().1.split("\n## ").next().unwrap();
    let listed_codes = listed_codes.split_whitespace().collect::<Vec<_>>().join(" ");
    let listed_codes: Vec<_> = listed_codes
        .split(" · ")
        .filter_map(|code| code.strip_prefix('`')?.split_once("` "))
        .map(|(code, meaning)| (code.to_owned(), meaning.to_owned()))
        .collect();
    assert_eq!(listed_codes, codes);
}

#[test]
fn commands_match_the_help() {
    let help = text(&jp_compact(Path::new("/"), &["-h"]).stdout);
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let mut commands: Vec<_> = commands
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    commands.insert(0, "TRANSCRIPT...");
    let listed_names: Vec<_> = table("Commands")
        .iter()
        .map(|(command, _)| command.split_whitespace().nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(listed_names, commands);
}

#[test]
fn formats_match_the_help() {
    let readme = readme();
    let help = text(&jp_compact(Path::new("/"), &["show", "--help"]).stdout);
    let formats = help.split_once("--format").unwrap().1.split_once("[possible values: ").unwrap().1;
    let formats = one_line(formats.split_once(']').unwrap().0).split(", ").count();
    let listed_names = readme.split_once("The other formats are ").unwrap().1.split_once(". ").unwrap().0;
    // `OpenAI (chat, responses)` has a comma, so it counts as two. JP's own format is not in the list.
    assert_eq!(one_line(listed_names).split(", ").count() + 1, formats, "{listed_names}");
}

#[test]
fn strategies_match_the_bundled_ones() {
    let bundled = text(&jp_compact(Path::new("/"), &["strategy", "list"]).stdout);
    let bundled: Vec<_> =
        bundled.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    let listed_names: Vec<_> = table("Strategies").into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed_names, bundled);
}

/// Writes the README's strategy as an executable file.
fn write_strategy(folder: &Path) {
    let plugin = folder.join("strip-all");
    // Another process makes the copy. If this process had the file open for writing while another test starts a
    // process, the file could not be executed.
    let text = folder.join("strip-all.txt");
    fs::write(&text, block("strategy")).unwrap();
    assert!(std::process::Command::new("cp").arg(&text).arg(&plugin).status().unwrap().success());
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn strategy_passes_the_conformance_checks() {
    let folder = tempfile::tempdir().unwrap();
    write_strategy(folder.path());
    assert!(readme().contains("`jp-compact strategy test ./strip-all`"));
    let output = jp_compact(folder.path(), &["strategy", "test", "./strip-all"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn strategy_in_the_plugin_folder_is_found_by_name() {
    let home = tempfile::tempdir().unwrap();
    let folder = ".local/share/jp-compact/plugins";
    assert!(readme().contains(&format!("`~/{folder}`")));
    fs::create_dir_all(home.path().join(folder)).unwrap();
    write_strategy(&home.path().join(folder));
    let listed_names = text(&jp_compact(home.path(), &["strategy", "list"]).stdout);
    assert!(listed_names.lines().any(|line| line.starts_with("strip-all ")), "{listed_names}");
}

#[test]
fn strategy_compacts_a_conversation() {
    let folder = tempfile::tempdir().unwrap();
    write_strategy(folder.path());
    // The conversation has an id, which must not be confused with the id of the request.
    let conversation = folder.path().join("17738399468-sample");
    fs::create_dir(&conversation).unwrap();
    fs::copy(Path::new(ROOT).join("tests/sample/events.json"), conversation.join("events.json")).unwrap();
    assert!(readme().contains("`jp-compact strategy trust ./strip-all`"));
    assert!(jp_compact(folder.path(), &["strategy", "trust", "./strip-all"]).status.success());
    let arguments = ["--strategy", "./strip-all", "--sandbox=require", "17738399468-sample"];
    let output = jp_compact(folder.path(), &[&arguments[..], &["--keep-last", "1", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["overlays"][0]["strategy"], "strip-all");
    assert_eq!(report["overlays"][0]["to_turn"], 2);
}

/// Returns the integrations, each with its commands without code marks. An item has two lines.
fn integrations() -> Vec<(String, Vec<String>)> {
    let readme = readme();
    let section =
        readme.split_once("\n## Integrations\n").unwrap().1.split("\n## ").next().unwrap().to_owned();
    let lines: Vec<&str> = section.trim().lines().collect();
    let items = lines.chunks(2).map(|item| {
        let [first, second] = item else { panic!("{item:?}") };
        assert!(first.starts_with("- ") && second.starts_with("  `"), "{item:?}");
        let commands = second.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        ((*first).to_owned(), commands)
    });
    items.collect()
}

/// Writes a session of Claude Code with a large result, and a `claude` that prints its arguments.
fn write_session(home: &Path) {
    let record = |kind: &str, uuid: &str, parent: serde_json::Value, content: serde_json::Value| {
        let message = serde_json::json!({"role": kind, "content": content});
        serde_json::json!({"type": kind, "sessionId": SESSION, "cwd": home, "version": "2.1.330", "uuid": uuid,
                           "parentUuid": parent, "timestamp": "2026-11-23T05:00:00Z", "message": message})
    };
    let call =
        serde_json::json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]);
    let result =
        serde_json::json!([{"type": "tool_result", "tool_use_id": "t1", "content": "a line\n".repeat(800)}]);
    let said = serde_json::json!([{"type": "text", "text": "Done."}]);
    let mut lines = Vec::new();
    for (turn, first) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        let uuid = |number: usize| format!("{first}{number}");
        let parent = if turn == 0 { serde_json::Value::Null } else { lines_uuid(&lines) };
        lines.push(record("user", &uuid(0), parent, "Build it.".into()));
        if turn == 0 {
            lines.push(record("assistant", &uuid(1), uuid(0).into(), call.clone()));
            lines.push(record("user", &uuid(2), uuid(1).into(), result.clone()));
        }
        let parent = lines_uuid(&lines);
        lines.push(record("assistant", &uuid(3), parent, said.clone()));
    }
    let folder = home.join(".claude/projects/p");
    fs::create_dir_all(&folder).unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join(format!("{SESSION}.jsonl")), text).unwrap();
    fs::create_dir(home.join("bin")).unwrap();
    // Another process writes the file, for the same reason as in `write_strategy`.
    let script = "cat > bin/claude && chmod +x bin/claude";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script]).current_dir(home).write_stdin("#!/bin/sh\necho \"claude $*\"\n");
    assert!(shell.output().unwrap().status.success());
}

/// Returns the id of the last record.
fn lines_uuid(lines: &[serde_json::Value]) -> serde_json::Value {
    lines.last().unwrap()["uuid"].clone()
}

const SESSION: &str = "3dee0fbb-c3af-4b3b-a570-dde5a25a4336";

/// Runs a command of an integration in a home folder with a session. Returns its output.
fn run_integration(home: &Path, command: &str, stdin: &str) -> String {
    let programs = cargo_bin("jp-compact").parent().unwrap().to_owned();
    let path = format!("{}:{}:/usr/bin:/bin", home.join("bin").display(), programs.display());
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().env("HOME", home).env("PATH", path).current_dir(home);
    let output = shell.args(["-c", command]).write_stdin(stdin).output().unwrap();
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn each_integration_works() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    write_session(&home);
    fs::create_dir_all(home.join("plugins")).unwrap();
    for folder in [".pi/agent/extensions", ".codex", "logs"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    fs::copy(Path::new(ROOT).join("tests/sample/events.json"), home.join("logs/events.json")).unwrap();
    let read = |file: &str| fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
    let mut checked = 0;
    for (item, commands) in integrations() {
        for command in &commands {
            checked += 1;
            match command.split(' ').next().unwrap() {
                "/plugin" => {
                    assert!(read("plugins/claude-code/README.md").contains(command), "{command}");
                    assert!(read(".claude-plugin/marketplace.json").contains("\"name\": \"jp-compact\""));
                }
                "cp" => {
                    let command = command.replace("plugins/", &format!("{ROOT}/plugins/"));
                    run_integration(&home, &command, "");
                }
                "create_agent(...," => {
                    assert!(read("plugins/python/README.md").contains(command), "{command}");
                }
                "jp" => {
                    let described = run_integration(&home, "jp-compact", "{\"type\":\"describe\"}\n");
                    assert!(described.contains("\"command\":[\"compact\"]"), "{described}");
                }
                "claude" => {
                    assert_eq!(run_integration(&home, command, ""), format!("{command}\n"));
                    let server = command.split_once(" -- ").unwrap().1;
                    let initialize = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
                    let answer = run_integration(&home, server, &format!("{initialize}\n"));
                    assert!(answer.contains("\"name\":\"jp-compact\""), "{answer}");
                }
                "jp-compact" => {
                    let input =
                        serde_json::json!({"session_id": SESSION, "hook_event_name": "Stop"}).to_string();
                    let stdin = if command.contains("--hook") { &*input } else { "" };
                    let typed = command.replace("SESSION", SESSION).replace("FOLDER", "logs");
                    let output = run_integration(&home, &typed, stdin);
                    match command.split(' ').nth(1).unwrap() {
                        "resume" => assert!(output.starts_with("claude --resume "), "{output}"),
                        "fork" => assert!(output.starts_with("claude --resume "), "{output}"),
                        "auto" => assert_eq!(output, "", "an agent would take it for an answer"),
                        "batch" => assert!(home.join("report.json").is_file()),
                        other => panic!("{other} is not tested"),
                    }
                }
                other => panic!("{other} is not tested: {item}"),
            }
        }
        assert!(!commands.is_empty(), "{item}");
    }
    assert!(checked >= 11, "only {checked} commands");
    assert!(
        home.join(".pi/agent/extensions/jp-compact.ts").is_file() && home.join(".codex/hooks.json").is_file()
    );
}

#[test]
fn readme_is_short() {
    assert!(readme().lines().count() <= 130);
}
