//! Lone surrogates, which programs write when they cut a text inside a character. serde and providers reject them.
//! Events contain U+FFFD in their place, and the source keeps its bytes.

use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::render::{self, Provider};
use jp_compact_transcripts::{self as transcripts, Format};

use crate::check::{overlay, read, written};
use crate::event_text::{events, stripped};

const SOURCES: [(Format, &str); 4] = [
    (
        Format::OpenaiChat,
        r#"[{"role":"user","content":"water \ud83c"},{"role":"assistant","content":null,"tool_calls":[{"id":"c\udc80","type":"function","function":{"name":"f","arguments":"{\"bed\":\"\ud83c\"}"}}]},{"role":"tool","tool_call_id":"c\udc80","content":"wet \udf31"}]"#,
    ),
    (
        Format::Anthropic,
        r#"[{"role":"user","content":"water \ud83c"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"bed":"\ud83c"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"wet \udf31"}]}]}]"#,
    ),
    (
        Format::JCli,
        "{\"role\":\"user\",\"content\":\"water \\ud83c\"}\n{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\",\"name\":\"f\",\"arguments\":\"{\\\"bed\\\":\\\"\\ud83c\\\"}\"}]}\n{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"wet \\udf31\"}\n",
    ),
    (
        Format::Atif,
        r#"{"schema_version":"ATIF-v1.4","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":"water \ud83c"},{"step_id":2,"source":"agent","message":"","tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":{"bed":"\ud83c"}}],"observation":{"results":[{"source_call_id":"c","content":"wet \udf31"}]}}]}"#,
    ),
];

#[test]
fn lone_surrogates_are_read_and_keep_their_bytes() {
    for (format, source) in SOURCES {
        assert_eq!(transcripts::detect(source.as_bytes()), Some(format), "{source}");
        let stream = read(format, "a lone surrogate", source.as_bytes());
        assert_eq!(
            events(&stream),
            "0 asks water \u{fffd}\n0 calls f {\"bed\":\"\u{fffd}\"}\n0 answers wet \u{fffd}",
            "{format}"
        );
        assert_eq!(written(&stream, &[]), source.as_bytes());
        let text = stripped(&stream);
        assert!(text.contains(r"water \ud83c") && !text.contains("wet") && !text.contains("bed"), "{text}");
        let view = project_with_overlays(&stream, &[overlay(0, 0)]);
        for provider in Provider::ALL {
            let body = render::render(&stream, &view, provider);
            assert!(format!("{body:?}").contains("water \u{fffd}"), "{format}, {provider}");
        }
    }
}
