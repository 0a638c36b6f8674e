//! `jp compact` as a plugin of JP. The tests act as JP in the protocol: they write `init`, keep stdin open, and read
//! messages until `exit`. Nothing here needs JP's executable.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World, hourly_turns};

const OLD: &str = "17738399468";
const NEW: &str = "17738399475";
/// The name that JP gives to the session `test` in `JP_SESSION`.
const SESSION_FILE: &str = "env-JP_SESSION-9f86d081884c7d65.json";

/// A workspace of JP with two conversations. The old one was activated last.
struct Jp {
    world: World,
    old: Transcript,
    new: Transcript,
}

/// The messages that the plugin wrote in one run.
#[derive(Debug)]
struct Messages(Vec<Value>);

impl Messages {
    /// Returns the printed text.
    fn printed(&self) -> String {
        let texts = self.0.iter().filter(|message| message["type"] == "print");
        texts.map(|message| message["text"].as_str().unwrap()).collect()
    }

    fn logged(&self) -> Vec<&str> {
        let logs = self.0.iter().filter(|message| message["type"] == "log");
        logs.map(|message| message["message"].as_str().unwrap()).collect()
    }

    /// Asserts the exit code, and returns the reason.
    #[track_caller]
    fn exits(&self, code: u8) -> &str {
        assert_eq!(self.0[0], json!({"type": "ready"}), "{self:#?}");
        let exit = self.0.last().unwrap();
        assert_eq!((&exit["type"], &exit["code"]), (&json!("exit"), &json!(code)), "{self:#?}");
        exit["reason"].as_str().unwrap_or_default()
    }
}

impl Jp {
    fn new() -> Self {
        let world = World::new();
        world.write_file(".jp/.id", b"otvo8\n");
        let folder = |id: &str| format!(".jp/conversations/{id}-a");
        let write = |id: &str, conversation: &Conversation, title: &str, activated: &str| {
            let metadata = json!({"title": title, "last_activated_at": activated});
            world.write_file(&format!("{}/metadata.json", folder(id)), metadata.to_string().as_bytes());
            world.write_conversation(&folder(id), conversation)
        };
        let old = write(OLD, &hourly_turns(), "Fix the tests", "2026-03-19 12:00:00.0");
        let new = write(NEW, &Conversation::bulky(5), "Review", "2026-03-18 12:00:00.0");
        Self { world, old, new }
    }

    /// Records that the new conversation is active in the terminal.
    fn activate_new(&self) {
        let session = json!({
            "history": [{"id": 17_738_399_475_u64, "activated_at": "2026-03-18T12:00:00Z"}],
            "id": "test", "source": {"type": "env", "key": "JP_SESSION"},
        });
        self.world.write_file(&format!("user/sessions/{SESSION_FILE}"), session.to_string().as_bytes());
    }

    /// Returns the `init` message that JP sends.
    fn init(&self, arguments: &[&str]) -> Value {
        let root = self.world.path("");
        json!({
            "type": "init", "version": 1,
            "workspace": {"root": root, "storage": root.join(".jp"), "id": "otvo8"},
            "paths": {"user_data": "/nowhere", "user_workspace": root.join("user")},
            "config": {}, "args": arguments, "log_level": 0,
        })
    }

    /// Returns the command that starts the plugin. JP can start it in any folder of the workspace.
    fn plugin(&self) -> Command {
        let mut command = self.world.command::<&str>(&[]);
        command.env("JP_SESSION", "test").current_dir(self.world.path(".jp")).stdin(Stdio::piped());
        command
    }

    /// Runs `jp compact` with these arguments, as JP does.
    fn run(&self, arguments: &[&str]) -> Messages {
        self.run_init(&self.init(arguments))
    }

    fn run_init(&self, init: &Value) -> Messages {
        let mut child = self.world.spawn(&mut self.plugin());
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{init}").unwrap();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "JP does not show stderr");
        let lines = String::from_utf8(output.stdout).unwrap();
        Messages(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

const STRIP_TOOLS: [&str; 4] = ["--strategy", "strip-tools", "--keep-last", "1"];

#[test]
fn compacts_given_conversation() {
    let jp = Jp::new();
    let messages = jp.run(&[&[NEW][..], &STRIP_TOOLS].concat());
    assert_eq!(messages.exits(0), "");
    assert!(messages.printed().contains("1 overlay appended"), "{}", messages.printed());
    assert_eq!(jp.new.overlays().len(), 1);
    jp.old.assert_untouched();
}

#[test]
fn current_conversation_of_terminal_is_the_default() {
    let jp = Jp::new();
    jp.activate_new();
    let messages = jp.run(&STRIP_TOOLS);
    messages.exits(0);
    let choice = format!("conversation jp-c{NEW} \"Review\", active in this terminal\n");
    assert!(messages.printed().starts_with(&choice), "{}", messages.printed());
    assert_eq!(jp.new.overlays().len(), 1);
    jp.old.assert_untouched();
}

#[test]
fn last_activated_conversation_is_the_default_elsewhere() {
    let jp = Jp::new();
    let messages = jp.run(&STRIP_TOOLS);
    messages.exits(0);
    let choice = format!("conversation jp-c{OLD} \"Fix the tests\", activated last\n");
    assert!(messages.printed().starts_with(&choice), "{}", messages.printed());
    jp.new.assert_untouched();
}

#[test]
fn dot_title_and_beginning_of_id_name_a_conversation() {
    let jp = Jp::new();
    jp.activate_new();
    for (name, id) in [(".", NEW), ("fix the tests", OLD), ("1773839946", OLD), ("jp-c17738399475", NEW)] {
        let messages = jp.run(&["show", name, "--json"]);
        messages.exits(0);
        let document: Value = serde_json::from_str(&messages.printed()).unwrap();
        assert_eq!(document["conversation_id"], id, "{name}");
    }
    assert!(jp.run(&["show", "177383"]).exits(5).contains("matches several conversations"));
    let messages = jp.run(&["show", "177383", "--json"]);
    messages.exits(5);
    let failure: Value = serde_json::from_str(&messages.printed()).unwrap();
    assert_eq!(failure["error"]["retryable"], false, "the same text matches both later too");
    assert!(jp.run(&["show", "No such title"]).exits(4).contains("failed to find a transcript"));
}

#[test]
fn commands_use_the_current_conversation() {
    let jp = Jp::new();
    for command in [&["show"][..], &["stats"], &["lint"], &["print", "--compacted"], &["-q", "show"]] {
        let messages = jp.run(command);
        messages.exits(0);
        let choice = format!("conversation jp-c{OLD} \"Fix the tests\", activated last");
        let is_data = command[0] == "print";
        assert_eq!(messages.logged(), if is_data { vec![&*choice] } else { vec![] }, "{command:?}");
        assert_eq!(messages.printed().contains(&choice), !is_data, "{command:?}");
    }
    jp.run(&STRIP_TOOLS).exits(0);
    assert_eq!(jp.run(&["--reset"]).exits(0), "");
    jp.old.assert_same_bytes();
}

#[test]
fn turns_of_jp_count_from_1() {
    let jp = Jp::new();
    let range = |from: &str, to: &str| {
        let selection = ["--strategy", "strip-tools", "--from", from, "--to", to, "--dry-run", "--json"];
        let messages = jp.run(&selection);
        messages.exits(0);
        let report: Value = serde_json::from_str(&messages.printed()).unwrap();
        (report["overlays"][0]["from_turn"].clone(), report["overlays"][0]["to_turn"].clone())
    };
    assert_eq!(range("@2", "@4"), (json!(1), json!(3)));
    assert_eq!(range("@2", "@4"), range("1", "3"));
    assert!(jp.run(&["--from", "@0"]).exits(2).contains("the first turn is `@1`, or `0` without `@`"));
}

#[test]
fn json_is_not_mixed_with_messages() {
    let jp = Jp::new();
    let messages = jp.run(&[&STRIP_TOOLS[..], &["--json"]].concat());
    messages.exits(0);
    let document: Value = serde_json::from_str(&messages.printed()).unwrap();
    assert_eq!(document["overlays"].as_array().unwrap().len(), 1);
    assert_eq!(messages.logged().len(), 1, "{messages:?}");
}

#[test]
fn messages_of_a_change_of_settings_are_printed() {
    let jp = Jp::new();
    let setting = "conversation.compaction.keep_last=5";
    let messages = jp.run(&["config", "set", "--conversation", ".", setting]);
    messages.exits(0);
    assert!(messages.printed().contains("\nwrote "), "{messages:?}");
}

#[test]
fn quiet_wins_over_the_log_level() {
    let jp = Jp::new();
    let mut init = jp.init(&[&STRIP_TOOLS[..], &["--quiet", "--dry-run"]].concat());
    init["log_level"] = json!(2);
    let messages = jp.run_init(&init);
    messages.exits(0);
    assert!(!messages.printed().contains("overlay"), "{messages:?}");
}

#[test]
fn question_is_refused_with_the_command_that_answers_it() {
    let jp = Jp::new();
    jp.world.write_plugin("mine", "exit 0");
    let messages = jp.run(&["--strategy", "./plugins/mine"]);
    let reason = messages.exits(11);
    assert!(reason.contains("is not trusted") && reason.contains("jp-compact strategy trust"), "{reason}");
    assert!(!reason.starts_with("error"), "JP adds the word: {reason}");
    jp.old.assert_untouched();
}

#[test]
fn stdin_of_the_protocol_is_refused_for_other_uses() {
    let jp = Jp::new();
    for (arguments, reader) in [
        (&["print", "-"][..], "-"),
        (&["batch", "--ndjson"], "--ndjson"),
        (&["-q", "batch", "--ndjson", "--keep-last", "1"], "--ndjson"),
        (&["auto", "--hook"], "--hook"),
    ] {
        let message = format!("stdin (`{reader}`) cannot be read inside of JP");
        let reason = jp.run(arguments);
        assert!(reason.exits(2).contains(&message), "{reason:?}");
    }
    assert!(jp.run(&["mcp"]).exits(2).contains("`jp compact mcp` cannot run inside of JP"));
    assert!(jp.run(&["resume", "x"]).exits(2).contains("`jp compact resume` cannot run inside of JP"));
}

#[test]
fn invalid_usage_and_other_protocols_are_reported() {
    let jp = Jp::new();
    assert!(jp.run(&["--no-such-option"]).exits(2).contains("--no-such-option"));
    let mut init = jp.init(&[]);
    init["version"] = json!(2);
    assert!(jp.run_init(&init).exits(2).contains("JP's plugin protocol 2 is not supported"));
    let mut init = jp.init(&[]);
    init["workspace"]["root"] = json!("/no/such/folder");
    assert!(jp.run_init(&init).exits(4).contains("failed to enter JP's workspace"));
}

#[test]
fn workspace_without_conversations_is_reported() {
    let jp = Jp::new();
    fs::remove_dir_all(jp.world.path(".jp/conversations")).unwrap();
    assert!(jp.run(&[]).exits(4).contains("this workspace of JP has no conversation"));
}

/// Starts a strategy that never ends, calls `act` with stdin when the strategy runs, and returns the messages.
#[track_caller]
fn interrupt(
    jp: &Jp,
    command: &[&str],
    act: impl FnOnce(std::process::ChildStdin) -> Option<std::process::ChildStdin>,
) -> Messages {
    let pipe = jp.world.path("started");
    assert!(Command::new("/bin/mkfifo").arg(&pipe).status().unwrap().success());
    jp.world.write_plugin("endless", &format!("echo started > {}\nexec sleep 1000", pipe.display()));
    let mut child = jp.world.spawn(&mut jp.plugin());
    let mut stdin = child.stdin.take().unwrap();
    let arguments = ["--strategy", "endless", "--trust-dir", "plugins", "--sandbox=contained"];
    writeln!(stdin, "{}", jp.init(&[command, &arguments].concat())).unwrap();
    let (sender, receiver) = mpsc::channel();
    // Opening a named pipe blocks until the other end is open.
    std::thread::spawn(move || sender.send(fs::read(pipe).unwrap()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("the strategy did not start");
    let stdin = act(stdin);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let messages = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(child.wait().unwrap().success());
    drop(stdin);
    jp.old.assert_untouched();
    Messages(messages)
}

#[test]
fn shutdown_is_answered_and_nothing_is_written() {
    for command in [&[][..], &["batch", ".jp/conversations"]] {
        let messages = interrupt(&Jp::new(), command, |mut stdin| {
            writeln!(stdin, "{}", json!({"type": "shutdown"})).unwrap();
            Some(stdin)
        });
        assert!(messages.exits(130).contains("interrupted"), "{messages:?}");
    }
}

#[test]
fn closed_stdin_ends_the_work_because_jp_is_gone() {
    let messages = interrupt(&Jp::new(), &[], |stdin| {
        drop(stdin);
        None
    });
    assert!(messages.exits(130).starts_with("interrupted"), "{messages:?}");
}

#[test]
fn dot_as_the_value_of_an_option_is_a_folder() {
    for folder in [&["--plugin-dir", "."][..], &["--trust-dir", "."], &["--plugin-dir=."]] {
        let jp = Jp::new();
        let messages = jp.run(&[folder, &STRIP_TOOLS, &["--sandbox=contained"]].concat());
        assert_eq!(messages.exits(0), "", "{messages:?}");
        assert_eq!(jp.old.overlays().len(), 1);
        let messages = jp.run(&[folder, &STRIP_TOOLS, &["--sandbox=contained", "."]].concat());
        assert_eq!(messages.exits(0), "", "{messages:?}");
    }
}

#[test]
fn command_after_an_option_with_a_value_is_refused() {
    for option in [&["--color", "never"][..], &["--log-format", "text", "-q"], &[]] {
        let reason = Jp::new().run(&[option, &["mcp"]].concat());
        assert!(reason.exits(2).contains("`jp compact mcp` cannot run inside of JP"), "{reason:?}");
    }
}

#[test]
fn current_conversation_is_not_an_argument_of_other_commands() {
    let jp = Jp::new();
    for arguments in [&["strategy", "show"][..], &["schema", "show", "x"], &["config", "get"]] {
        let reason = jp.run(arguments);
        assert!(reason.exits(2).contains("Usage: "), "{reason:?}");
    }
    jp.run(&["--color", "never", "show"]).exits(0);
}

#[test]
fn title_after_compact_is_ambiguous() {
    let messages = Jp::new().run(&["Review", "--compact"]);
    let error = messages.exits(2);
    assert!(error.contains("`Review` may be a conversation or a value of `--compact`"), "{error}");
    assert!(error.contains(&format!("`{NEW}` is the conversation")), "{error}");
}
