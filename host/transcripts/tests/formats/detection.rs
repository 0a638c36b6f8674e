//! Detection of a format in short transcripts that several formats could contain.

use jp_compact_core::render::Provider;
use jp_compact_transcripts::{self as transcripts, Format};

#[test]
fn chats_are_detected_by_properties_of_one_format() {
    let hi = r#"{"role":"user","content":"hi"}"#;
    let system = r#"{"role":"system","content":"be"}"#;
    let called = |arguments: &str| {
        format!(
            r#"{{"role":"assistant","content":"","tool_calls":[{{"id":"c","type":"function","function":{{"name":"n","arguments":{arguments}}}}}]}}"#
        )
    };
    let (object, string) = (called("{}"), called(r#""{}""#));
    let parts = r#"{"role":"assistant","content":[{"type":"text","text":"ho"}]}"#;
    let image = |kind: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"{kind}","{kind}":{{"url":"x"}},"source":{{"type":"url"}}}}]}}"#
        )
    };
    let cases = [
        (format!("[{hi}]"), Format::OpenaiChat),
        (format!(r#"{{"model":"gpt-4o","messages":[{hi}]}}"#), Format::OpenaiChat),
        (format!(r#"{{"model":"ft:gpt-4o:x","messages":[{hi}]}}"#), Format::OpenaiChat),
        (
            format!(r#"{{"model":"claude-haiku-4-5","messages":[{system},{hi},{string}]}}"#),
            Format::OpenaiChat,
        ),
        (format!("[{system},{hi},{parts}]"), Format::OpenaiChat),
        (format!("[{}]", image("image_url")), Format::OpenaiChat),
        (format!(r#"{{"model":"gpt-4o","messages":[{hi},{parts}]}}"#), Format::OpenaiChat),
        (
            format!(r#"{{"model":"glm-4.6","thinking":{{"type":"enabled"}},"messages":[{hi}]}}"#),
            Format::OpenaiChat,
        ),
        (format!(r#"{{"model":"m","messages":[{hi}],"options":null}}"#), Format::OpenaiChat),
        (format!(r#"[{hi},{{"role":"critic","content":"bad"}}]"#), Format::OpenaiChat),
        (format!("{{\"messages\":[{hi}]}}\n{{\"messages\":[{hi}]}}\n"), Format::OpenaiChat),
        (format!(r#"{{"model":"claude-haiku-4-5","max_tokens":9,"messages":[{hi}]}}"#), Format::Anthropic),
        (format!(r#"{{"system":"be","messages":[{hi}]}}"#), Format::Anthropic),
        (format!("[{hi},{parts}]"), Format::Anthropic),
        (
            format!("[{hi},{parts}]").replace(r#""content""#, r#""tool_calls":null,"content""#),
            Format::Anthropic,
        ),
        (
            format!(
                r#"{{"model":"glm","thinking":{{"type":"enabled","budget_tokens":9}},"messages":[{hi}]}}"#
            ),
            Format::Anthropic,
        ),
        (format!("[{}]", image("image")), Format::Anthropic),
        (format!(r#"{{"model":"llama3.2:3b","messages":[{system},{hi}]}}"#), Format::Ollama),
        (format!(r#"{{"model":"m","messages":[{hi}],"keep_alive":"5m"}}"#), Format::Ollama),
        (format!("[{hi},{object}]"), Format::Ollama),
        (format!(r#"[{hi},{string},{{"role":"tool","tool_name":"n","content":"r"}}]"#), Format::Ollama),
        (r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#.to_owned(), Format::Gemini),
        (
            r#"[{"role":"system","parts":[{"text":"be"}]},{"role":"user","parts":[{"text":"hi"}]}]"#
                .to_owned(),
            Format::Gemini,
        ),
        (format!("[{hi},{string}]"), Format::OpenaiChat),
        (format!(r#"{{"model":"gpt-5","input":[{hi}]}}"#), Format::OpenaiResponses),
        (
            format!(r#"[{hi},{{"type":"function_call","call_id":"c","name":"n","arguments":"{{}}"}}]"#),
            Format::OpenaiResponses,
        ),
        (r#"{"model":"gpt-5","input":"hi"}"#.to_owned(), Format::OpenaiResponses),
        (format!(r#"{{"model":"gpt-5","input":[{{"id":"msg_1"}},{hi}]}}"#), Format::OpenaiResponses),
        (
            format!("[{hi},{parts}]").replace(r#""type":"text""#, r#""type":"output_text""#),
            Format::OpenaiResponses,
        ),
        (format!(r#"{{"model":"claude-haiku-4-5","messages":[{hi},{system}]}}"#), Format::Anthropic),
        (format!("{hi}\n{parts}\n{hi}\n").replace(parts, &string), Format::JCli),
        (hi.to_owned(), Format::JCli),
        (r#"{"type":"msg","role":"user","content":"hi"}"#.to_owned(), Format::JCli),
    ];
    for (text, expected) in cases {
        assert_eq!(transcripts::detect(text.as_bytes()), Some(expected), "{text}");
    }
}

#[test]
fn session_is_detected_after_many_titles() {
    let title =
        r#"{"type":"summary","summary":"Watering","leafUuid":"00000000-0000-4000-8000-000000000009"}"#;
    let line = r#"{"parentUuid":null,"isSidechain":false,"sessionId":"s","type":"user","message":{"role":"user","content":"hi"},"uuid":"u","timestamp":"2026-03-01T09:00:00.000Z"}"#;
    let session = format!("{}{line}\n", format!("{title}\n").repeat(60));
    assert_eq!(transcripts::detect(session.as_bytes()), Some(Format::ClaudeCode));
    let stream = transcripts::read(Format::ClaudeCode, session.into_bytes().into()).unwrap();
    assert_eq!(stream.turns(), 1);
}

#[test]
fn malformed_line_does_not_prevent_the_detection() {
    let note = "{\"type\":\"note\",\"of\":\"nothing\"}\n";
    let line = r#"{"parentUuid":null,"isSidechain":false,"sessionId":"s","type":"user","message":{"role":"user","content":"hi"},"uuid":"u","timestamp":"2026-03-01T09:00:00.000Z"}"#;
    for malformed in ["", "{\"type\";\"note\"}\n"] {
        let session = format!("{}{malformed}{}{line}\n", note.repeat(10), note.repeat(40));
        assert_eq!(transcripts::detect(session.as_bytes()), Some(Format::ClaudeCode), "{malformed}");
    }
}

#[test]
fn request_bodies_are_distinguished_from_other_documents() {
    let hi = r#"{"role":"user","content":"hi"}"#;
    let reply = r#"{"type":"message","role":"assistant","content":"hi"}"#;
    let part = r#"{"role":"user","parts":[{"text":"hi"}]}"#;
    let cases = [
        (format!(r#"{{"model":"gpt-5","messages":[{hi}]}}"#), Provider::Openai, true),
        (format!(r#"{{"model":"gpt-5","messages":[{hi}]}}"#), Provider::Anthropic, false),
        (format!("[{hi}]"), Provider::Openai, false),
        (format!(r#"{{"model":"gpt-5","input":[{reply}]}}"#), Provider::OpenaiResponses, true),
        (format!(r#"{{"object":"response","output":[{reply}]}}"#), Provider::OpenaiResponses, false),
        (format!(r#"{{"contents":[{part}]}}"#), Provider::Gemini, true),
        (format!(r#"{{"history":[{part}]}}"#), Provider::Gemini, false),
        (format!(r#"{{"key":"k","request":{{"contents":[{part}]}}}}"#), Provider::Gemini, false),
    ];
    for (text, provider, is_body) in cases {
        let format = transcripts::detect(text.as_bytes()).unwrap();
        let stream = transcripts::read(format, text.clone().into()).unwrap();
        assert_eq!(transcripts::is_request_body(&stream, provider), is_body, "{provider} {text}");
    }
}
