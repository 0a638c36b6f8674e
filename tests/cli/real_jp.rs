//! Tests with the real `jp` executable on files that jp-compact writes. They are ignored by default. Set
//! `JP_COMPACT_TEST_JP` to the path of `jp`, and run `cargo test --test cli real_jp -- --ignored`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Conversation, World};

const ID: &str = "17738399468";
const CONFIG: &str = r#"
assistant.model.id = { provider = "anthropic", name = "claude-sonnet-4-5" }
conversation.title.generate.auto = false
conversation.tools."*".run = "ask"
"#;

/// A JP workspace that contains the sample.
struct Jp {
    world: World,
}

impl Jp {
    fn new() -> Self {
        let world = World::new();
        fs::create_dir(world.home("tmp")).unwrap();
        world.write_file(".jp/.id", b"otvo8\n");
        world.write_file(".jp/config.toml", CONFIG.as_bytes());
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample");
        for file in ["events.json", "base_config.json", "metadata.json"] {
            let bytes = fs::read(sample.join(file)).unwrap();
            world.write_file(&format!(".jp/conversations/{ID}-fix-the-tests-of-duration/{file}"), &bytes);
        }
        Self { world }
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env_clear().args(arguments).current_dir(self.world.path("."));
        command.env("HOME", self.world.home("")).env("TMPDIR", self.world.home("tmp"));
        command.env("JP_SESSION", "test").env("NO_COLOR", "1");
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(&program(), arguments).output().unwrap()
    }

    /// Runs JP successfully, and returns its stdout.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "jp {arguments:?}: {}\n{stderr}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the ids and titles that JP lists. Asserts that JP moved no conversation to its trash.
    #[track_caller]
    fn list(&self) -> Vec<(String, Value)> {
        let conversations: Vec<Value> = serde_json::from_str(&self.run(&["-F", "json", "c", "ls"])).unwrap();
        for storage in self.storages() {
            assert!(!storage.join(".trash").exists(), "JP moved a conversation to its trash");
        }
        conversations
            .iter()
            .map(|row| (row["ID"].as_str().unwrap().to_owned(), row["Title"].clone()))
            .collect()
    }

    /// Returns the conversation folders of the workspace and of the user.
    fn storages(&self) -> [PathBuf; 2] {
        let workspaces = self.world.home(".local/share/jp/workspace");
        let user_workspace = fs::read_dir(workspaces).unwrap().next().unwrap().unwrap().path();
        [self.world.path(".jp/conversations"), user_workspace.join("conversations")]
    }

    /// Returns the events files of both copies of a conversation.
    fn copies(&self, id: &str) -> [PathBuf; 2] {
        self.storages().map(|storage| {
            let folders = fs::read_dir(storage).unwrap().map(|entry| entry.unwrap().path());
            let has_id = |folder: &PathBuf| folder.file_name().unwrap().to_str().unwrap().starts_with(id);
            folders.into_iter().find(has_id).unwrap().join("events.json")
        })
    }

    /// Returns the number of elements of this type.
    fn elements(&self, kind: &str) -> usize {
        let [copy, _] = self.copies(ID);
        let elements: Vec<Value> = serde_json::from_slice(&fs::read(copy).unwrap()).unwrap();
        elements.iter().filter(|element| element["type"] == kind).count()
    }

    /// Makes JP save the conversation, with JP's own compaction.
    fn save(&self) {
        self.run(&["c", "compact", &format!("jp-c{ID}"), "-r", "--from", "1", "--to", "1"]);
    }
}

/// Removes the turn numbers from JP's output, because a view numbers its turns differently.
fn without_turns(printed: &str) -> Vec<&str> {
    printed.lines().map(|line| if line.starts_with("── user ─") { "── user" } else { line }).collect()
}

fn program() -> PathBuf {
    std::env::var_os("JP_COMPACT_TEST_JP").expect("JP_COMPACT_TEST_JP is not set to the path of jp").into()
}

#[test]
#[ignore = "needs the real JP; runs nightly"]
fn jp_lists_imported_and_forked_conversations() {
    let jp = Jp::new();
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/transcripts/tests/formats/samples");
    let mut expected = vec![(format!("jp-c{ID}"), json!("Fix the tests of duration"))];
    for (index, name) in ["claude-code.jsonl", "openai-chat.json", "codex.jsonl", "pi.jsonl", "opencode.json"]
        .into_iter()
        .enumerate()
        .filter(|(_, name)| sessions.join(name).exists())
    {
        let id = 17_738_399_470 + index;
        let source = sessions.join(name);
        jp.world
            .run(&["import", source.to_str().unwrap(), "--to", &format!(".jp/conversations/{id}")])
            .exits(0);
        expected.push((format!("jp-c{id}"), Value::Null));
    }
    jp.world.write_file("bare/events.json", &Conversation::with_turns(3).bytes());
    jp.world.run(&["fork", "bare", ".jp/conversations/17738399490-fork"]).exits(0);
    expected.push(("jp-c17738399490".into(), Value::Null));
    let listed = jp.list();
    let ids = |listed: &[(String, Value)]| {
        let mut ids: Vec<_> = listed.iter().map(|(id, _)| id.clone()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&listed), ids(&expected));
    assert!(listed.contains(&expected[0]));
    for (id, _) in expected {
        assert!(jp.run(&["c", "print", &id]).lines().count() > 3, "{id}");
    }
}

/// Compacts, and checks that JP prints our view and that its next save preserves our bytes.
#[track_caller]
fn check_view(jp: &Jp, round: usize, arguments: &[&str]) {
    jp.world.run(&[&[ID, "--keep-last", "1"][..], arguments].concat()).exits(0);
    let [copy, other] = jp.copies(ID);
    let written = fs::read(&copy).unwrap();
    assert_eq!(written, fs::read(other).unwrap());

    // Our view is stored as a separate conversation. JP prints it like its own compacted view.
    let view = jp.world.run(&["print", ID, "--compacted", "--as", "source"]).exits(0).stdout;
    let id = 17_738_399_480 + round;
    for name in ["base_config.json", "metadata.json"] {
        let bytes = fs::read(copy.with_file_name(name)).unwrap();
        jp.world.write_file(&format!(".jp/conversations/{id}/{name}"), &bytes);
    }
    jp.world.write_file(&format!(".jp/conversations/{id}/events.json"), &view);
    let compacted = jp.run(&["c", "print", &format!("jp-c{ID}"), "--compacted"]);
    let printed = jp.run(&["c", "print", &format!("jp-c{id}")]);
    assert_eq!(without_turns(&compacted), without_turns(&printed), "round {round}");

    jp.save();
    let [copy, other] = jp.copies(ID);
    let saved = fs::read(copy).unwrap();
    assert_eq!(saved, fs::read(other).unwrap());
    let history = written.strip_suffix(b"\n]\n").or(written.strip_suffix(b"\n]")).unwrap();
    assert!(saved.starts_with(history), "round {round}");
}

#[test]
#[ignore = "needs the real JP; runs nightly"]
fn jp_prints_our_view_and_saves_our_bytes() {
    let jp = Jp::new();
    // JP copies the conversation to its storage, and writes it in its own layout.
    jp.save();
    for (round, strategy) in ["strip-tools", "strip-reasoning", "digest"].into_iter().enumerate() {
        check_view(&jp, round, &["--strategy", strategy]);
    }
}

#[test]
#[ignore = "needs the real JP; runs nightly"]
fn jp_reads_an_overlay_that_strategies_share() {
    let jp = Jp::new();
    jp.save();
    check_view(&jp, 0, &["--strategy", "strip-tools", "--strategy", "strip-reasoning"]);
    // Of the three compactions, one is ours, and two are from JP's saves.
    assert_eq!((jp.elements("compaction"), jp.elements("jp_compact_receipt")), (3, 2));
    let elements: Vec<Value> = serde_json::from_slice(&fs::read(&jp.copies(ID)[0]).unwrap()).unwrap();
    let is_shared = |element: &&Value| element["tool_calls"].is_object() && element["reasoning"] == "strip";
    assert_eq!(elements.iter().filter(is_shared).count(), 1);
    assert_eq!(jp.list().iter().filter(|(id, _)| *id == format!("jp-c{ID}")).count(), 1);
}

#[test]
#[ignore = "needs the real JP; runs nightly"]
fn jp_ignores_and_preserves_step_overlays() {
    let jp = Jp::new();
    jp.save();
    let print = || jp.run(&["c", "print", &format!("jp-c{ID}"), "--compacted"]);
    let before = print();
    jp.world.run(&[ID, "--strategy", "strip-tools", "--from", "1", "--to", "1.0"]).exits(0);
    assert_eq!(jp.elements("jp_compact_step_overlay"), 1);
    assert_eq!(print(), before);

    let written = fs::read(&jp.copies(ID)[0]).unwrap();
    jp.save();
    let saved = fs::read(&jp.copies(ID)[0]).unwrap();
    assert!(saved.starts_with(written.trim_ascii_end().strip_suffix(b"\n]").unwrap()));
    assert_eq!(jp.elements("jp_compact_step_overlay"), 1);
    assert_eq!(jp.list().len(), 1);
}

#[test]
#[ignore = "needs the real JP; runs nightly"]
fn both_copies_stay_equal_through_jp_saves() {
    let jp = Jp::new();
    jp.save();
    for _ in 0..3 {
        jp.world.run(&[ID, "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
        jp.world.run(&[ID, "--reset"]).exits(0);
        let [copy, other] = jp.copies(ID);
        assert_eq!(fs::read(copy).unwrap(), fs::read(other).unwrap());
        assert_eq!(jp.elements("compaction") + jp.elements("jp_compact_receipt"), 0);
        assert_eq!(jp.list().len(), 1);
        jp.save();
    }
}

#[test]
#[ignore = "needs the real JP; runs nightly"]
fn jp_fork_drops_overlays() {
    let jp = Jp::new();
    jp.save();
    jp.world.run(&[ID, "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
    jp.run(&["c", "fork", &format!("jp-c{ID}")]);
    let fork = jp.list().into_iter().map(|(id, _)| id).find(|id| *id != format!("jp-c{ID}")).unwrap();
    let [copy, _] = jp.copies(fork.strip_prefix("jp-c").unwrap());
    let text = fs::read_to_string(copy).unwrap();
    assert!(!text.contains("\"compaction\"") && !text.contains("jp_compact_"), "{text}");
}

/// Checks that a rule selects the same turns in JP and in jp-compact.
#[track_caller]
fn check_rule(first: &str, last: &str) {
    let jp = Jp::new();
    let rule = format!("[[conversation.compaction.rules]]\nreasoning = \"strip\"\n{first}\n{last}\n");
    // The array of tables must come last, because it ends the section before it.
    jp.world.write_file(".jp/config.toml", format!("{CONFIG}\n{rule}").as_bytes());
    let output = jp.run(&["c", "compact", &format!("jp-c{ID}"), "--dry-run"]);
    let jp_range = output.lines().find_map(|line| {
        let range = line.strip_prefix("Would have compacted turns ")?.split(' ').next()?;
        let (from, to) = range.split_once("..")?;
        Some((from.parse::<u64>().ok()? - 1, to.parse::<u64>().ok()? - 1))
    });
    let line = jp.world.run(&[ID, "--profile", "rules", "--dry-run", "--json"]).exits(0).line();
    let our_range = line["overlays"]
        .as_array()
        .and_then(|overlays| overlays.first())
        .map(|overlay| (overlay["from_turn"].as_u64().unwrap(), overlay["to_turn"].as_u64().unwrap()));
    assert_eq!(our_range, jp_range, "{rule}\n{output}");
}

#[test]
#[ignore = "needs the real JP; runs nightly"]
fn rule_bounds_match_jp() {
    let bounds =
        ["", "0", "2", "\"1\"", "\"@1\"", "\"@3\"", "\"-1\"", "\"-9\"", "\"1m\"", "\"90s\"", "\"9days\""];
    let setting = |name: &str, bound: &str| match bound {
        "" => String::new(),
        bound => format!("{name} = {bound}"),
    };
    for bound in bounds.into_iter().chain(["\"last-compaction\"", "\"last\""]) {
        check_rule(&setting("keep_first", bound), "keep_last = 0");
        check_rule("keep_first = 0", &setting("keep_last", bound));
        check_rule(&setting("keep_first", bound), "");
    }
}

#[test]
#[ignore = "needs the real JP and strace; runs nightly"]
fn jp_save_race_loses_overlay_but_no_event() {
    let jp = Jp::new();
    jp.save();
    let lock = jp.storages()[1].with_file_name("locks").join(format!("jp-c{ID}.lock"));
    let _ = fs::remove_file(&lock);

    // `jp query` opens its lock file after it has loaded the conversation. strace delays the `flock` call. No server
    // listens at the model's address, so JP saves its configuration change and exits with an error.
    let program = program();
    let strace_options =
        ["-f", "-qq", "-e", "trace=flock", "-e", "inject=flock:delay_enter=10000000", "-o", "/dev/null"];
    let id = format!("jp-c{ID}");
    let query = [program.to_str().unwrap(), "query", "--id", &id, "-m", "llamacpp/x", "And now?"];
    let settings =
        ["-c", "assistant.request.max_retries=0", "-c", "providers.llm.llamacpp.base_url=http://127.0.0.1:9"];
    let arguments = [&strace_options[..], &query, &settings].concat();
    let mut command = jp.command(Path::new("/usr/bin/strace"), &arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut jp_query = command.spawn().unwrap();
    let started = Instant::now();
    while !lock.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "JP did not open its lock file");
        std::thread::yield_now();
    }
    jp.world.run(&[ID, "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
    assert_eq!((jp.elements("compaction"), jp.elements("jp_compact_receipt")), (2, 1));
    assert_eq!(jp_query.try_wait().unwrap(), None, "JP must not have saved yet");
    jp_query.wait().unwrap();
    assert_eq!(jp.elements("config_delta"), 1, "JP must have saved");
    let remaining = (jp.elements("compaction"), jp.elements("jp_compact_receipt"));
    assert_eq!(remaining, (1, 0), "expected the overlay to be lost");
    assert_eq!(jp.elements("chat_request"), 4, "an event was lost");
    jp.world.run(&[ID, "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
    assert_eq!(jp.elements("compaction"), 2, "the next run must append the overlay again");
}
