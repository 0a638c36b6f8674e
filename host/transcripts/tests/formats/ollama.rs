//! Ollama's chat: calls without ids, and content as a string.

use jp_compact_transcripts::Format::Ollama;
use jp_compact_transcripts::examine;

use crate::event_kinds::Change::{Omit, Strip, StripReasoning, Summarize};
use crate::event_kinds::{ids, kinds, with_changes};

const BODY: &str = include_str!("samples/ollama.json");

#[test]
fn result_is_matched_to_a_call_by_order_and_name() {
    assert_eq!(
        kinds(Ollama, BODY),
        [
            "request thought call call call result result result thought message",
            "request message",
            "request message call call result",
            "request message",
        ]
    );
    let omitted = with_changes(Ollama, BODY, &[Omit]);
    assert!(!omitted.contains("tool_calls") && !omitted.contains(r#""role": "tool""#), "{omitted}");
    // A call without a result is deleted too.
    assert!(omitted.contains(r#"{"role": "assistant", "content": "I open them."},"#), "{omitted}");
    let ids = ids(Ollama, BODY);
    let [first, second, named, named_result, first_result, second_result, open, unanswered, open_result] =
        ids.as_slice()
    else {
        panic!("{ids:?}")
    };
    assert_eq!([named, first, second, open], [named_result, first_result, second_result, open_result]);
    assert!(first != second && open != unanswered, "{ids:?}");
}

#[test]
fn arguments_stay_objects_and_content_stays_a_string() {
    let stripped = with_changes(Ollama, BODY, &[Strip, StripReasoning]);
    for kept in [
        r#"{"role": "assistant", "content": "", "tool_calls": ["#,
        r#"{"function": {"index": 1, "name": "listen", "arguments": {}}},"#,
        r#"{"role": "tool", "tool_name": "listen", "content": "[compacted] listen: success"},"#,
        r#"{"role": "assistant", "content": "As you say.", "a_new_member": [1]}"#,
    ] {
        assert!(stripped.contains(kept), "{kept}\n{stripped}");
    }
    assert!(!stripped.contains("thinking"), "{stripped}");
    let summarized = with_changes(Ollama, BODY, &[Summarize(2, 2)]);
    let pair = "    {\"role\":\"user\",\"content\":\"[Summary of previous conversation]\"},\n    \
                {\"role\":\"assistant\",\"content\":\"In short.\"},\n    {\"role\": \"user\", \"content\": \"Only the first!\"},";
    assert!(summarized.contains(pair), "{summarized}");
}

#[test]
fn message_with_only_thinking_is_known() {
    let body = r#"{"model": "qwen3:8b", "messages": [{"role": "user", "content": "Hi"},
        {"role": "assistant", "thinking": "I am thinking of an answer to this."}]}"#;
    assert_eq!(kinds(Ollama, body), ["request thought"]);
    let stream = crate::check::read(Ollama, "thinking", body.as_bytes());
    assert_eq!(examine(&stream).unwrap(), None);
}
