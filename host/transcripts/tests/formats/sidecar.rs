//! Overlays of a sidecar. They are not part of the conversation, and change neither the open turn nor the lint result.

use bytes::Bytes;
use jp_compact_core::event::Kind;
use jp_compact_core::open::{OpenReason, open_reason};
use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::{Pairs, lint};
use jp_compact_transcripts::Format;
use jp_compact_transcripts::Transcript;
use jp_compact_transcripts::sidecar::Sidecar;
use serde_json::json;

use crate::check::read;
use crate::samples::{self, Sample};

/// Returns a sidecar with two overlays that are newer than all samples.
fn sidecar(format: Format, turns: usize) -> Sidecar {
    let last = turns - 1;
    let overlays = [
        json!({"from_turn": 0, "to_turn": last, "reasoning": "strip"}),
        json!({"from_turn": last, "to_turn": last, "tool_calls": {"policy": "strip", "request": true, "response": true}}),
    ];
    let overlays = overlays.map(|mut overlay| {
        overlay["type"] = "compaction".into();
        overlay["timestamp"] = "2030-01-01 00:00:00.0".into();
        overlay
    });
    let file = json!({
        "jp_compact_sidecar": 1,
        "format": format.as_str(),
        "source": {"bytes": 0, "sha256": ""},
        "overlays": overlays,
    });
    Sidecar::read(Bytes::from(file.to_string())).unwrap()
}

fn open_states(stream: &Transcript) -> [Option<OpenReason>; 2] {
    let pairs = Pairs::new(stream);
    [false, true].map(|for_summary| open_reason(stream, &pairs, for_summary))
}

/// Returns the transcript up to its last call, if it can be cut there. The call has no result yet.
fn cut_after_last_call(format: Format, sample: &Sample) -> Option<Transcript> {
    let text = String::from_utf8(sample.bytes.clone()).ok()?;
    let lines: Vec<&str> = text.lines().collect();
    let cut = (1..=lines.len()).rev().filter_map(|end| {
        let bytes = Bytes::from(format!("{}\n", lines[..end].join("\n")));
        jp_compact_transcripts::read(format, bytes).ok()
    });
    let has_open_call = |stream: &Transcript| {
        let last = stream.events().iter().rfind(|event| event.kind.is_conversation());
        last.is_some_and(|event| event.kind == Kind::ToolRequest)
    };
    cut.take(60).find(has_open_call)
}

#[track_caller]
fn check(name: &str, bare: &Transcript) -> [Option<OpenReason>; 2] {
    let with_overlays = bare.clone().with_sidecar(sidecar(bare.format(), bare.turns())).unwrap();
    assert_eq!(with_overlays.overlays().len(), 2, "{name}");
    assert_eq!(open_states(&with_overlays), open_states(bare), "{name}: the sidecar changes the open turn");
    let overlays = with_overlays.overlays();
    let view =
        |stream: &Transcript| lint::check_view(stream, overlays, &project_with_overlays(stream, overlays));
    assert_eq!(view(&with_overlays), view(bare), "{name}: the sidecar changes the lint result");
    open_states(bare)
}

#[test]
fn sidecar_changes_neither_open_turn_nor_lint_result() {
    let mut with_open_call = Vec::new();
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Jp) {
        for sample in samples::project_samples(format) {
            let stream = read(format, &sample.name, &sample.bytes);
            check(&sample.name, &stream);
            if let Some(stream) = cut_after_last_call(format, &sample) {
                let name = format!("{}, cut after a call", sample.name);
                if check(&name, &stream)[0] == Some(OpenReason::ToolCall) {
                    with_open_call.push(format);
                }
            }
        }
    }
    for format in [Format::ClaudeCode, Format::Codex, Format::Pi, Format::OpenHands, Format::JCli] {
        assert!(with_open_call.contains(&format), "no sample of {format} has a call without a result");
    }
}

#[test]
fn call_without_result_is_open_with_a_sidecar_too() {
    let bodies = [
        (
            Format::OpenaiChat,
            r#"[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]"#,
        ),
        (
            Format::Anthropic,
            r#"[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}]"#,
        ),
        (
            Format::OpenaiResponses,
            r#"[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]"#,
        ),
        (
            Format::Gemini,
            r#"[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}]"#,
        ),
        (
            Format::Ollama,
            r#"[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]"#,
        ),
        (
            Format::GeminiCli,
            r#"{"sessionId":"s","projectHash":"h","messages":[{"id":"1","type":"user","content":"q"},{"id":"2","type":"gemini","content":"a"},{"id":"3","type":"user","content":"q"},{"id":"4","type":"gemini","content":"","toolCalls":[{"id":"c","name":"f","args":{}}]}]}"#,
        ),
        (
            Format::Opencode,
            r#"{"info":{},"messages":[{"info":{"id":"m1","role":"user"},"parts":[{"type":"text","text":"q"}]},{"info":{"id":"m2","role":"assistant","parentID":"m1"},"parts":[{"type":"text","text":"a"}]},{"info":{"id":"m3","role":"user"},"parts":[{"type":"text","text":"q"}]},{"info":{"id":"m4","role":"assistant","parentID":"m3"},"parts":[{"type":"tool","callID":"c","tool":"f","state":{"status":"running","input":{}}}]}]}"#,
        ),
        (
            Format::Atif,
            r#"{"schema_version":"ATIF-v1.8","agent":{"name":"x","version":"1"},"steps":[{"step_id":1,"source":"user","message":"q"},{"step_id":2,"source":"agent","message":"a"},{"step_id":3,"source":"user","message":"q"},{"step_id":4,"source":"agent","message":"","tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":{}}]}]}"#,
        ),
        (
            Format::SweAgent,
            r#"{"trajectory_format":"mini-swe-agent-1.1","info":{},"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]}"#,
        ),
    ];
    for (format, body) in bodies {
        let stream = read(format, format.as_str(), body.as_bytes());
        assert_eq!(check(format.as_str(), &stream)[0], Some(OpenReason::ToolCall), "{format}");
    }
}
