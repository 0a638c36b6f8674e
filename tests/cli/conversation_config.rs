//! The settings of one conversation: `config set` and `config unset` change them, and they are a layer of its
//! configuration. The transcript is never written to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::agent_formats::session;
use crate::consent::Scene;
use crate::profiles::receipts;
use crate::support::{CommandOutput, Conversation, Transcript, World, file_names, hourly_turns};

/// The file with the settings, next to `events.json`.
const SETTINGS: &str = ".events.json.jp-compact.toml";
const KEEP_LAST: &str = "conversation.compaction.keep_last";

fn write_conversation(world: &World) -> Transcript {
    world.write_conversation("conversation", &hourly_turns())
}

#[track_caller]
fn set(world: &World, transcript: &str, pairs: &[&str]) -> CommandOutput {
    world.run(&[&["config", "set", "--conversation", transcript], pairs].concat())
}

#[track_caller]
fn unset(world: &World, transcript: &str, keys: &[&str]) -> CommandOutput {
    world.run(&[&["config", "unset", "--conversation", transcript], keys].concat())
}

/// Returns the value of `keep_last`, and its origin.
#[track_caller]
fn keep_last(world: &World, arguments: &[&str]) -> (Value, String) {
    let line = world.run(&[&["config", "--json"], arguments].concat()).exits(0).line();
    let origin = world.normalize(line["origins"][KEEP_LAST].as_str().unwrap());
    (line.pointer("/config/conversation/compaction/keep_last").unwrap().clone(), origin)
}

#[test]
fn changes_the_turns_of_a_run_and_leaves_the_transcript_untouched() {
    let world = World::new();
    let other = world.write_conversation("other", &hourly_turns());
    let transcript = write_conversation(&world);
    let output = set(&world, "conversation", &["conversation.compaction.keep_last=1"]).exits(0);
    assert_eq!(output.text(), "");
    assert_eq!(output.stderr, format!("wrote /here/conversation/{SETTINGS}\n"));
    assert_eq!(transcript.current_bytes(), transcript.original_bytes());
    assert_eq!(
        file_names(transcript.folder()),
        [SETTINGS, "base_config.json", "events.json"],
        "only the settings are new"
    );
    let transcript = Transcript::capture(transcript.path);
    for folder in ["conversation", "other"] {
        world.run(&[folder, "--profile", "light"]).exits(0);
    }
    assert_eq!(receipts(&transcript), ["strip-reasoning {} 0-4"]);
    assert_eq!(receipts(&other), ["strip-reasoning {} 0-2"]);
}

#[test]
fn conversation_settings_are_a_layer_between_workspace_and_command_line() {
    let world = World::new();
    write_conversation(&world);
    world.write_file(".jp-compact.toml", b"conversation.compaction.keep_last = 5\n");
    set(&world, "conversation", &["conversation.compaction.keep_last=6"]).exits(0);
    let origin = format!("/here/conversation/{SETTINGS}:3");
    assert_eq!(keep_last(&world, &["conversation"]), (json!(6), origin.clone()));
    assert_eq!(keep_last(&world, &[]), (json!(5), "/here/.jp-compact.toml:1".into()));
    world.write_file("mine.toml", b"conversation.compaction.keep_last = 7\n");
    let typed = keep_last(&world, &["conversation", "--config", "mine.toml"]);
    assert_eq!(typed, (json!(7), "/here/mine.toml:1".into()));
    let typed = keep_last(&world, &["conversation", "--set", "conversation.compaction.keep_last=8"]);
    assert_eq!(typed.0, json!(8));
    let output = world.run(&["config", "conversation", "--explain"]).exits(0);
    assert!(world.normalize(output.text()).contains(&format!("keep_last = 6  # {origin}\n")), "{output:?}");
}

#[test]
fn later_commands_add_keys_and_replace_values() {
    let world = World::new();
    write_conversation(&world);
    let file = world.path(&format!("conversation/{SETTINGS}"));
    set(&world, "conversation", &["conversation.compaction.keep_last=6", "llm.model=openai/m"]).exits(0);
    let again = ["conversation.compaction.keep_last=7", "conversation.tools.read.compaction=strip-responses"];
    set(&world, "conversation", &again).exits(0);
    insta::assert_snapshot!(fs::read_to_string(&file).unwrap(), @r#"
    # Settings of one conversation, written by `jp-compact config set`.
    [conversation.compaction]
    keep_last = 7

    [conversation.tools.read.compaction]
    request = "keep"
    response = "strip"

    [llm]
    model = "openai/m"
    "#);
    // `keep_last`, `keep_steps`, and `keep_tokens` are one decision: setting one of them removes the others, as in any
    // layer.
    set(&world, "conversation", &["conversation.compaction.keep_steps=9"]).exits(0);
    unset(&world, "conversation", &["conversation.tools", "llm.model"]).exits(0);
    insta::assert_snapshot!(fs::read_to_string(&file).unwrap(), @r"
    # Settings of one conversation, written by `jp-compact config set`.
    [conversation.compaction]
    keep_steps = 9
    ");
}

#[test]
fn unset_of_the_last_key_removes_the_file() {
    let world = World::new();
    let transcript = write_conversation(&world);
    set(&world, "conversation", &["conversation.compaction.keep_last=6"]).exits(0);
    unset(&world, "conversation", &["conversation.compaction.keep_first"])
        .exits(2)
        .reports("failed to unset `conversation.compaction.keep_first`: the conversation does not set it");
    let output = unset(&world, "conversation", &[KEEP_LAST]).exits(0);
    assert_eq!(output.stderr, format!("removed /here/conversation/{SETTINGS}\n"));
    transcript.assert_untouched();
    unset(&world, "conversation", &["no key"]).exits(2).reports("failed to unset `no key`");
}

#[test]
fn invalid_settings_are_rejected_and_nothing_is_written() {
    let world = World::new();
    let transcript = write_conversation(&world);
    for (pair, message) in [
        ("conversation.compaction.keep_lost=1", "unknown field `keep_lost`"),
        ("conversation.compaction.keep_last=many", "invalid type"),
        ("conversation.compaction.default_profile=none", "there is no profile `none`"),
        ("conversation.compaction.profiles.p={from=1}", "a profile cannot set a range"),
        ("keep_last", "expected `key=value`"),
        ("limits.private_dir_bytes=1", "`limits` is not allowed for one conversation"),
        ("llm.budget_tokens=1", "`llm.budget_tokens` is not allowed for one conversation"),
        ("llm.providers.openai.base_url=http://x", "`llm.providers` is not allowed for one conversation"),
    ] {
        let pairs = ["conversation.compaction.keep_first=1", pair];
        set(&world, "conversation", &pairs).exits(2).reports(message);
        transcript.assert_untouched();
    }
}

#[test]
fn file_of_a_cloned_repository_has_the_limits_of_a_workspace_file() {
    let world = World::new();
    let transcript = write_conversation(&world);
    let settings = format!("conversation/{SETTINGS}");
    world.write_file(&settings, b"[llm.providers.openai]\nbase_url = \"http://127.0.0.1:9/v1\"\n");
    let message = "`llm.providers` is not allowed for one conversation";
    world.run(&["conversation"]).exits(2).reports(&format!("/here/conversation/{SETTINGS}")).reports(message);
    assert_eq!(transcript.current_bytes(), transcript.original_bytes());
    fs::remove_file(world.path(&settings)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", world.path(&settings)).unwrap();
    world.run(&["conversation"]).exits(2).reports("symbolic link");
}

#[test]
fn model_and_profile_need_approval() {
    let scene = Scene::with_config("");
    let conversation = crate::consent::CONVERSATION;
    let set = |pair: &str| scene.run(&["config", "set", "--conversation", conversation, pair]);
    set("conversation.compaction.default_profile=heavy").exits(0).reports(&format!(
        "note: with these settings, a model is asked only after `jp-compact config trust /here/{conversation}`"
    ));
    let arguments = [conversation, "--model=openai/mine"];
    let trust = format!("jp-compact config trust /here/{conversation}");
    scene.run(&arguments).exits(11).reports("chooses profile `heavy`").reports(&trust);
    let batch = ["batch", ".", "--model=openai/mine"];
    scene.run(&batch).exits(11).reports("chooses profile `heavy`");
    scene.assert_requests(0);
    scene.trust(conversation);
    scene.run(&arguments).exits(0);
    scene.assert_requests(1);
    // An approval is for exactly these values.
    scene.run(&[conversation, "--reset"]).exits(0);
    set("conversation.compaction.profiles.heavy.summary.instructions=Mallory").exits(0);
    scene.run(&arguments).exits(11).reports("defines or changes profile `heavy`");
    scene.assert_requests(1);
}

#[test]
fn settings_of_workspace_and_conversation_are_approved_together() {
    let scene = Scene::with_config(crate::consent::TEAM);
    let conversation = crate::consent::CONVERSATION;
    let settings = format!("{conversation}/{SETTINGS}");
    scene.world.write_file(&settings, b"[conversation.compaction]\ndefault_profile = \"heavy\"\n");
    let output = scene.trust(conversation);
    output
        .reports("defines or changes profile `team`")
        .reports("chooses profile `heavy`")
        .reports("\napproved; `jp-compact config untrust /here/project` withdraws the approval\n");
    let arguments = [conversation, "--model=openai/mine"];
    scene.run(&arguments).exits(0);
    scene.run(&[conversation, "--reset"]).exits(0);
    scene.run(&["config", "untrust", "project"]).exits(0);
    scene.run(&arguments).exits(11).reports("chooses profile `heavy`");
}

#[test]
fn belongs_to_one_transcript_of_another_agent() {
    let (world, transcript) = session();
    fs::copy(&transcript.path, world.path("other.jsonl")).unwrap();
    let output = set(&world, "s.jsonl", &["conversation.compaction.keep_last=0"]).exits(0);
    assert_eq!(output.stderr, "wrote /here/.s.jsonl.jp-compact.toml\n");
    assert_eq!(transcript.current_bytes(), transcript.original_bytes());
    let settings = world.path(".s.jsonl.jp-compact.toml");
    assert_eq!(fs::metadata(settings).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(keep_last(&world, &["s.jsonl"]), (json!(0), "/here/.s.jsonl.jp-compact.toml:3".into()));
    assert_eq!(keep_last(&world, &["other.jsonl"]), (json!(3), "built in".into()));
    set(&world, "s.jsonl", &["conversation.compaction.default_profile=heavy"])
        .exits(0)
        .reports("`jp-compact config trust /here/s.jsonl`");
    let heavy = ["s.jsonl", "--model=openai/m"];
    world.run(&heavy).exits(11).reports("jp-compact config trust /here/s.jsonl");
    world.run(&["config", "trust", "s.jsonl", "--yes"]).exits(0).reports("chooses profile `heavy`");
    world.run(&[&heavy[..], &["--dry-run"]].concat()).exits(0).reports("using openai/m");
    // A search for transcripts does not find the settings.
    let found = world.run(&["batch", ".", "--strategy", "strip-tools", "--dry-run", "--json"]).exits(0);
    assert!(!found.text().contains(".toml"), "{}", found.text());
    world.run(&[".s.jsonl.jp-compact.toml"]).exits(4).reports("is a sidecar file, not a transcript");
}

#[test]
fn batch_uses_the_settings_of_each_conversation() {
    let world = World::new();
    // A batch starts several transcripts at the same time. There are 40 here, so that the last one starts after the
    // plan of the first one was cached.
    let transcripts: Vec<Transcript> = (10..50)
        .map(|name| {
            let folder = format!("all/{name}");
            let transcript = world.write_conversation(&folder, &hourly_turns());
            if name == 49 {
                set(&world, &folder, &["conversation.compaction.keep_last=1"]).exits(0);
            }
            Transcript::capture(transcript.path)
        })
        .collect();
    world.run(&["batch", "all", "--profile", "light", "--jobs=1"]).exits(0);
    for transcript in &transcripts[..39] {
        assert_eq!(receipts(transcript), ["strip-reasoning {} 0-2"]);
    }
    assert_eq!(receipts(&transcripts[39]), ["strip-reasoning {} 0-4"]);
}

#[test]
fn both_copies_of_a_conversation_get_the_file() {
    const ID: &str = "17738399468";
    let world = World::new();
    world.write_file(".jp/.id", b"otvo8\n");
    let conversation = Conversation::with_turns(6);
    let workspace = world.write_conversation(&format!(".jp/conversations/{ID}-a"), &conversation);
    let user = world.home(&format!(".local/share/jp/workspace/here-otvo8/conversations/{ID}-a"));
    fs::create_dir_all(&user).unwrap();
    fs::write(user.join("events.json"), conversation.bytes()).unwrap();
    let files = [user.join(SETTINGS), workspace.folder().join(SETTINGS)];
    let output = set(&world, ID, &["conversation.compaction.keep_last=1"]).exits(0);
    assert_eq!(output.stderr.lines().count(), 2, "{}", output.stderr);
    let [first, second] = files.each_ref().map(|file| fs::read_to_string(file).unwrap());
    assert_eq!(first, second);
    assert_eq!(keep_last(&world, &[ID]).0, json!(1));
    // JP can create a copy without the file. The other copy still has it.
    for file in &files {
        let text = fs::read(file).unwrap();
        fs::remove_file(file).unwrap();
        assert_eq!(keep_last(&world, &[ID]).0, json!(1));
        fs::write(file, text).unwrap();
    }
    unset(&world, ID, &[KEEP_LAST]).exits(0);
    assert!(files.iter().all(|file| !file.exists()));
    assert_eq!(keep_last(&world, &[ID]).0, json!(3));
}

#[test]
fn fork_copies_the_file() {
    let world = World::new();
    write_conversation(&world);
    set(&world, "conversation", &["conversation.compaction.keep_last=1"]).exits(0);
    world.run(&["fork", "conversation", "copy", "--compact=light"]).exits(0);
    let text = |folder: &str| fs::read_to_string(world.path(&format!("{folder}/{SETTINGS}"))).unwrap();
    assert_eq!(text("copy"), text("conversation"));
    let line = world.run(&["show", "copy", "--json"]).exits(0).line();
    assert_eq!(line["overlays"][0]["to_turn"], 4, "{line}");
    // The copy has its own settings.
    set(&world, "copy", &["conversation.compaction.keep_last=2"]).exits(0);
    assert_ne!(text("copy"), text("conversation"));
}
