//! Transcripts of other agents: detection of their format, printing, import, and rejected files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

/// Reads a sample of a format.
pub(crate) fn sample(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/transcripts/tests/formats/samples");
    fs::read(folder.join(name)).unwrap()
}

pub(crate) fn session() -> (World, Transcript) {
    let world = World::new();
    let path = world.write_file("s.jsonl", &sample("claude-code.jsonl"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    (world, Transcript::capture(path))
}

pub(crate) fn strip_tools(world: &World) {
    world.run(&["s.jsonl", "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
}

#[test]
fn prints_view_in_source_format() {
    let (world, transcript) = session();
    strip_tools(&world);
    let output =
        world.run(&["print", "s.jsonl", "--compacted", "--as", "source", "-o", "small.jsonl"]).exits(0);
    assert_eq!((output.text(), output.stderr.as_str()), ("", ""));
    let compacted = fs::read_to_string(world.path("small.jsonl")).unwrap();
    assert_eq!(fs::metadata(world.path("small.jsonl")).unwrap().permissions().mode() & 0o777, 0o640);
    let before = String::from_utf8(transcript.original_bytes().to_vec()).unwrap();
    // Signed thinking is left out, and the lines after it have new links.
    let without_link = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("parentUuid");
        line
    };
    let before: Vec<&str> = before.lines().filter(|line| !line.contains(r#"thinking","#)).collect();
    assert_eq!(compacted.lines().count(), before.len());
    let changed: Vec<_> = compacted
        .lines()
        .zip(before)
        .filter(|(new, old)| new != old && without_link(new) != without_link(old))
        .collect();
    assert!(!changed.is_empty());
    for (new, old) in changed {
        assert!(old.contains("tool_use") || old.contains("tool_result"), "{old}");
        assert!(new.contains("\"input\":{}") || new.contains("[compacted] "), "{new}");
    }
    // The output is a valid transcript.
    world.run(&["lint", "small.jsonl", "--provider", "all"]).exits(0);
    world
        .run(&["print", "s.jsonl", "--compacted", "--as", "source", "-o", "small.jsonl"])
        .exits(4)
        .reports("/here/small.jsonl already exists");
    assert_eq!(fs::read_to_string(world.path("small.jsonl")).unwrap(), compacted);
    world
        .run(&["print", "s.jsonl", "--as", "source", "-o", "no/such.jsonl"])
        .exits(4)
        .reports("failed to write");
    assert!(!world.path("no").exists());
}

#[test]
fn unknown_format_error_lists_known_formats() {
    let world = World::new();
    let truncated = "Caused by:\n  byte 19: the input ends in the middle of a value";
    for (name, bytes, cause) in [
        ("a.json", &b"{\"a\": 1}"[..], ""),
        (
            "a.jsonl",
            b"{\"a\": 1}\n{\"a\"",
            "Caused by:\n  byte 13: line 2: the input ends in the middle of a value",
        ),
        ("b.bin", b"\x7fELF\x02\x01", "Caused by:\n  byte 0: not a JSON value"),
        ("c.txt", b"hello", "Caused by:\n  byte 0: not a JSON value"),
        ("d.jsonl", b"{\"type\":\"summary\", ", truncated),
    ] {
        world.write_file(name, bytes);
        let output = world
            .run(&["show", name])
            .exits(4)
            .reports(&format!("failed to detect the format of /here/{name}"));
        let output = output.reports("claude-code").reports("--format NAME").reports(cause);
        assert_eq!(output.stderr.contains("Caused by"), !cause.is_empty(), "{}", output.stderr);
    }
    world.write_file("empty", b"");
    world.run(&["show", "empty"]).exits(4).reports("failed to read /here/empty");
}

#[test]
fn reports_position_when_truncated_before_detection() {
    let world = World::new();
    for (name, bytes, message) in [
        ("a.json", &b"{\"messages\": [{\"role\": \"user\", "[..], "byte 31: "),
        ("b.jsonl", b"{\"a\": 1}\n{\"a\": \n{\"a\": 1}\n", "byte 16: line 2: "),
        ("c.json", b"\xef\xbb\xbf{\"a\": nul}", "byte 12: "),
    ] {
        world.write_file(name, bytes);
        world
            .run(&["show", name])
            .exits(4)
            .reports(&format!("failed to detect the format of /here/{name}"))
            .reports(message);
    }
}

#[test]
fn format_option_overrides_detection_but_is_validated() {
    let (world, transcript) = session();
    world.run(&["show", "s.jsonl", "--format", "claude-code"]).exits(0);
    let output = world.run(&["show", "s.jsonl", "--format", "openai-chat"]).exits(4);
    output
        .reports("failed to read /here/s.jsonl")
        .reports("byte 0: line 1: not a transcript of the OpenAI chat API");
    world.run(&["show", "s.jsonl", "--format", "cobol"]).exits(2).reports("claude-code");
    // The file name `events.json` takes precedence over the content.
    world.write_file("odd/events.json", transcript.original_bytes());
    world.run(&["show", "odd"]).exits(4);
    world.run(&["show", "odd", "--format", "claude-code"]).exits(0);
}

#[test]
fn warns_about_incomplete_last_line() {
    let (world, transcript) = session();
    let truncated = &transcript.original_bytes()[..transcript.original_bytes().len() - 20];
    world.write_file("s.jsonl", truncated);
    let output = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert_eq!(output.stdout, truncated);
    assert!(
        output.stderr.contains("is cut off and was skipped: the program may still be writing it"),
        "{}",
        output.stderr
    );
    strip_tools(&world);
    let output = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert!(
        output.stdout.len() < truncated.len() && output.stdout.ends_with(&truncated[truncated.len() - 100..])
    );
}

#[test]
fn reads_any_format_from_stdin() {
    let world = World::new();
    let bytes = sample("openai-chat.json");
    let output = world.run_with_stdin(&["print", "-", "--as", "source"], &bytes).exits(0);
    assert_eq!(output.stdout, bytes);
    assert_eq!(
        world.run_with_stdin(&["show", "-", "--json"], &bytes).exits(0).line()["format"],
        "openai-chat"
    );
}

#[test]
fn strategy_receives_format_and_normalized_events() {
    let (world, _) = session();
    let save_request = "cat > seen; echo '{\"type\":\"decline\",\"id\":\"1\",\"reason\":\"seen\"}'";
    let save_request = save_request.replace("seen;", &format!("{};", world.path("seen").display()));
    let script = crate::support::plugin_script("look", &json!({ "input": "full" }), &save_request);
    world.write_script("plugins/look", &script);
    world.run(&[
        "s.jsonl",
        "--strategy",
        "look",
        "--trust-dir",
        "plugins",
        "--sandbox=contained",
        "--keep-last",
        "0",
    ]);
    let request = fs::read_to_string(world.path("seen")).unwrap();
    let mut lines = request.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(lines.next().unwrap()["conversation"]["format"], "claude-code");
    let events: Vec<Value> =
        lines.filter(|line| line["type"] == "event").map(|mut line| line["event"].take()).collect();
    let call = events.iter().find(|event| event["type"] == "tool_call_request").unwrap();
    assert_eq!(call["arguments"], json!({ "file_path": "/home/ada/garden/tap.log" }));
    let response = events.iter().find(|event| event["is_error"] == true).unwrap();
    assert_eq!(response["content"], "ls: no such file");
}

#[test]
fn fork_rejects_formats_without_sessions() {
    let world = World::new();
    let transcript = Transcript::capture(world.write_file("body.json", &sample("anthropic.json")));
    let output = world.run(&["fork", "body.json", "copy"]).exits(4);
    output.reports("failed to fork body.json: anthropic has no sessions").reports("--compacted --as source");
    transcript.assert_untouched();
}

#[test]
fn import_creates_jp_conversation_with_overlays() {
    let (world, _) = session();
    // JP also strips short results. Make them all long, so that both views are equal.
    let mut text = String::from_utf8(sample("claude-code.jsonl")).unwrap();
    let long_text = "This text is removed when the call is stripped";
    for short_text in [r"1\tdrip\n2\tdrip ö", "ls: no such file", "12 mm", ""] {
        for prefix in [r#""content":"#, r#""text":"#] {
            text = text.replace(&format!(r#"{prefix}"{short_text}""#), &format!(r#"{prefix}"{long_text}""#));
        }
    }
    let transcript = Transcript::capture(world.write_file("s.jsonl", text.as_bytes()));
    strip_tools(&world);
    let output = world.run(&["import", "s.jsonl", "--to", "imported", "--json"]).exits(0).line();
    assert_eq!(output["overlays"], 1);
    let imported = Transcript::capture(world.path("imported/events.json"));
    let elements: Vec<Value> = serde_json::from_slice(imported.original_bytes()).unwrap();
    assert!(elements.iter().all(|element| element["timestamp"].is_string() && element["type"].is_string()));
    let view = |transcript: &str| {
        let events = world.run(&["print", transcript, "--compacted", "--json"]).exits(0);
        serde_json::from_slice::<Value>(&events.stdout).unwrap()
    };
    assert_eq!(view("imported"), view("s.jsonl"));
    let base: Value =
        serde_json::from_slice(&fs::read(world.path("imported/base_config.json")).unwrap()).unwrap();
    assert_eq!(
        base["assistant"]["model"]["id"],
        json!({ "provider": "anthropic", "name": "claude-sonnet-4-5" })
    );
    world.run(&["imported", "--strategy", "strip-reasoning", "--keep-last", "0"]).exits(0);
    assert_eq!(imported.overlays().len(), 1);
    world.run(&["import", "s.jsonl", "--to", "imported"]).exits(4).reports("already exists");
    world
        .run(&["import", "imported/events.json", "--to", "other"])
        .exits(2)
        .reports("is already a JP conversation");
    assert_eq!(transcript.current_bytes(), transcript.original_bytes());
}

#[test]
fn print_preserves_request_body_of_same_provider() {
    let world = World::new();
    let bytes = sample("openai-chat.json");
    world.write_file("body.json", &bytes);
    assert_eq!(world.run(&["print", "body.json", "--as", "openai"]).exits(0).stdout, bytes);
    world.run(&["body.json", "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
    let source = world.run(&["print", "body.json", "--compacted", "--as", "source"]).exits(0).stdout;
    let same_provider = world.run(&["print", "body.json", "--compacted", "--as", "openai"]).exits(0).stdout;
    assert!(same_provider == source && same_provider != bytes);
    let body: Value = serde_json::from_slice(&same_provider).unwrap();
    assert_eq!(body["model"], "gpt-5");
    // A body for another provider is rendered. A list of messages without a body is rendered too.
    let other_provider =
        world.run(&["print", "body.json", "--compacted", "--as", "anthropic"]).exits(0).stdout;
    assert!(serde_json::from_slice::<Value>(&other_provider).unwrap()["model"].is_null());
    let list = sample("openai-chat.json");
    let list = serde_json::from_slice::<Value>(&list).unwrap()["messages"].to_string();
    world.write_file("list.json", list.as_bytes());
    let body = world.run(&["print", "list.json", "--as", "openai"]).exits(0).stdout;
    assert!(serde_json::from_slice::<Value>(&body).unwrap()["messages"].is_array());
}

#[test]
fn unsupported_format_error_names_the_program() {
    let world = World::new();
    for (name, program) in [
        ("cursor.jsonl", "Cursor"),
        ("copilot-cli.jsonl", "GitHub Copilot CLI"),
        ("factory-droid.jsonl", "Factory Droid"),
        ("vercel-ai-sdk.json", "the Vercel AI SDK"),
        ("vercel-ai-sdk-chat.json", "the Vercel AI SDK"),
        ("opentelemetry-genai.json", "OpenTelemetry GenAI"),
        ("langchain.json", "LangChain"),
        ("sharegpt.json", "ShareGPT"),
        ("sharegpt.jsonl", "ShareGPT"),
        ("cline-ui.json", "Cline"),
    ] {
        world.write_file(name, &sample(&format!("../unsupported/{name}")));
        for command in [&["show", name][..], &["stats", name], &[name, "--strategy", "strip-tools"]] {
            let output = world.run(command).exits(4);
            output
                .reports(&format!("looks like a transcript of {program}"))
                .reports("which is not supported yet");
        }
        // The same content in a file named `events.json` is rejected as well.
        world.write_file("jp/events.json", &sample(&format!("../unsupported/{name}")));
        world.run(&["show", "jp/events.json"]).exits(4);
    }
    world.write_file("numbers.json", b"[1,2,3]");
    world.run(&["show", "numbers.json"]).exits(4).reports("failed to detect the format of");
    world.write_file("jp/events.json", b"[1,2,3]");
    world.run(&["show", "jp/events.json"]).exits(4).reports("found no messages in the transcript");
}

#[test]
fn wrong_format_option_suggests_detected_program() {
    let world = World::new();
    world.write_file("s.jsonl", &sample("../unsupported/cursor.jsonl"));
    let output = world.run(&["show", "s.jsonl", "--format", "j-cli"]).exits(4);
    output.reports("the reader of `j-cli` understands only ").reports("it looks like a transcript of Cursor");
}

#[test]
fn one_conversation_per_line_suggests_batch_ndjson() {
    let world = World::new();
    world.write_file("rows.jsonl", &sample("../several/openai-chat-tuning.jsonl"));
    let output = world.run(&["show", "rows.jsonl"]).exits(4);
    output
        .reports("line 2: a second conversation begins")
        .reports("`jp-compact batch --ndjson` reads one conversation per line");
}

#[test]
fn keeps_malformed_line_and_warns() {
    let world = World::new();
    let text = String::from_utf8(sample("claude-code.jsonl")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(5, "{\"type\":\"user\",\"uuid");
    let truncated = lines.join("\n") + "\n";
    world.write_file("s.jsonl", truncated.as_bytes());
    let output = world.run(&["print", "s.jsonl", "--as", "source"]).exits(0);
    assert_eq!(output.text(), truncated);
    output.reports("line 6 is not JSON").reports("was skipped");
    strip_tools(&world);
    let output = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert!(output.text().lines().any(|line| line == lines[5]), "{}", output.text());
}

/// If `--format` names a wrong format and the file can be read without it, the hint is to leave the option out.
#[test]
fn wrong_format_hint_names_detected_format() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::new().whole_turn());
    let hint = "hint: this file is in the format jp; leave --format out";
    for transcript in ["conversation", "conversation/events.json"] {
        let output = world.run(&["print", transcript, "--format", "codex"]).exits(4).reports(hint);
        assert!(!output.stderr.contains("a transcript is JP's events.json"), "{}", output.stderr);
    }
    world.run(&["conversation", "--format", "codex"]).exits(4).reports(hint);
}
