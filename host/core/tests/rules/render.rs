//! Rendered request bodies: each duty of the renderer as a view and the resulting body.

use jp_compact_core::projection::project;
use jp_compact_core::render::{Provider, Rendered, ViewPosition, render};
use serde_json::{Value, json};

use crate::build::{Build, compaction};

fn rendered(build: &Build, provider: Provider) -> Rendered {
    let stream = build.stream();
    render(&stream, &project(&stream), provider)
}

#[track_caller]
fn check(build: &Build, provider: Provider, expected: &Value) {
    let rendered = rendered(build, provider);
    assert_eq!(rendered.body, json!({ provider.conversation(): expected }));
    assert_eq!(rendered.positions.len(), expected.as_array().unwrap().len());
}

/// Returns a turn with two parallel calls, answered in reverse order.
fn parallel() -> Build {
    Build::default()
        .turn()
        .ask("q")
        .say("I look.")
        .call("a", "read")
        .call("b", "grep")
        .answer_error("b", "none")
        .answer("a", "body")
}

#[test]
fn anthropic_orders_results_by_call_and_before_text() {
    check(
        &parallel().ask("hurry"),
        Provider::Anthropic,
        &json!([
            {"role": "user", "content": [{"type": "text", "text": "q"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "read", "input": {"of": "a"}},
                {"type": "tool_use", "id": "b", "name": "grep", "input": {"of": "b"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "body"},
                {"type": "tool_result", "tool_use_id": "b", "content": "none", "is_error": true},
                {"type": "text", "text": "hurry"},
            ]},
        ]),
    );
}

#[test]
fn openai_gets_a_message_per_response_and_text_arguments() {
    check(
        &parallel().ask("hurry"),
        Provider::Openai,
        &json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"of\":\"a\"}"}},
                {"id": "b", "type": "function", "function": {"name": "grep", "arguments": "{\"of\":\"b\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "body"},
            {"role": "tool", "tool_call_id": "b", "content": "none"},
            {"role": "user", "content": "hurry"},
        ]),
    );
}

#[test]
fn openai_responses_gets_flat_items() {
    check(
        &parallel(),
        Provider::OpenaiResponses,
        &json!([
            {"type": "message", "role": "user", "content": "q"},
            {"type": "message", "role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{\"of\":\"a\"}"},
            {"type": "function_call", "call_id": "b", "name": "grep", "arguments": "{\"of\":\"b\"}"},
            {"type": "function_call_output", "call_id": "a", "output": "body"},
            {"type": "function_call_output", "call_id": "b", "output": "none"},
        ]),
    );
}

#[test]
fn gemini_gets_one_response_per_call() {
    check(
        &parallel(),
        Provider::Gemini,
        &json!([
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [
                {"text": "I look."},
                {"functionCall": {"id": "a", "name": "read", "args": {"of": "a"}}},
                {"functionCall": {"id": "b", "name": "grep", "args": {"of": "b"}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "a", "name": "read", "response": {"output": "body"}}},
                {"functionResponse": {"id": "b", "name": "grep", "response": {"error": "none"}}},
            ]},
        ]),
    );
}

#[test]
fn ollama_gets_thoughts_and_object_arguments() {
    check(
        &Build::default().turn().ask("q").think("hm").call("a", "read").answer("a", "body"),
        Provider::Ollama,
        &json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "thinking": "hm",
             "tool_calls": [{"function": {"name": "read", "arguments": {"of": "a"}}}]},
            {"role": "tool", "tool_name": "read", "content": "body"},
        ]),
    );
}

/// Formats the texts of an Anthropic body, one word per block: `?user`, `=assistant`, `~thought`, `>call`, `<result`.
fn format_body(build: &Build) -> String {
    let rendered = rendered(build, Provider::Anthropic);
    let messages = rendered.body["messages"].as_array().unwrap().clone();
    let formatted = messages.iter().map(|message| {
        let text = |block: &Value, name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let blocks =
            message["content"].as_array().unwrap().iter().map(|block| match text(block, "type").as_str() {
                "text" if message["role"] == "user" => format!("?{}", text(block, "text")),
                "text" => format!("={}", text(block, "text")),
                "thinking" => format!("~{}", text(block, "thinking")),
                "redacted_thinking" => format!("~~{}", text(block, "data")),
                "tool_use" => format!(">{}{}", text(block, "id"), block["input"]),
                _ => format!("<{}:{}", text(block, "tool_use_id"), text(block, "content")),
            });
        blocks.collect::<Vec<_>>().join(" ")
    });
    formatted.collect::<Vec<_>>().join(" | ")
}

/// Adds a thought with Anthropic's signature.
fn signed(build: Build, text: &str) -> Build {
    build.element(json!({
        "type": "chat_response", "timestamp": "2026-04-02 10:00:00.0", "reasoning": text,
        "metadata": {"anthropic_thinking_signature": "c2ln"},
    }))
}

#[test]
fn summary_renders_as_a_pair() {
    let build = Build::turns(3).element(compaction(50, 0, 1, json!({"summary": {"summary": "S"}})));
    let expected = "?[Summary of previous conversation] | =S | ?ask2 | >c2{\"of\":\"c2\"} | <c2:body2 | =say2 | ?[Continue]";
    assert_eq!(format_body(&build), expected);
}

#[test]
fn merges_turn_without_answer_into_next_request() {
    let build = Build::default().turn().ask("q").call("a", "read").answer("a", "x").turn().ask("r").say("m");
    let omitted = build.element(compaction(50, 0, 0, json!({"tool_calls": {"policy": "omit"}})));
    assert_eq!(format_body(&omitted), "?q ?r | =m | ?[Continue]");
    let only_reasoning = Build::default().turn().think("hm");
    for provider in Provider::ALL {
        let body = rendered(&only_reasoning, provider).body;
        if provider != Provider::Ollama {
            assert_eq!(body, json!({ provider.conversation(): [] }), "{provider}");
        }
    }
}

#[test]
fn adds_user_messages_at_both_ends() {
    let build = Build::default().say("Hello.").ask("").say("Well?");
    assert_eq!(format_body(&build), "?[Beginning of conversation] | =Hello. =Well? | ?[Continue]");
}

#[test]
fn adds_missing_responses() {
    let build = Build::default().turn().ask("q").call("a", "read").answer("z", "x").ask("r").say(" ");
    let expected = "?q | >a{\"of\":\"a\"} | <a:[This call was not answered] ?r";
    assert_eq!(format_body(&build), expected);
    let late_response =
        Build::default().turn().ask("q").call("a", "read").ask("r").say("m").answer("a", "x").say("n");
    assert_eq!(format_body(&late_response), "?q | >a{\"of\":\"a\"} | <a:x ?r | =m =n | ?[Continue]");
}

#[test]
fn renames_reused_ids() {
    let add_call = |build: Build, text: &str| build.call("a", "read").answer("a", text);
    let build = add_call(add_call(Build::default().turn().ask("q"), "1"), "2");
    assert_eq!(format_body(&build), "?q | >a{\"of\":\"a\"} | <a:1 | >a_2{\"of\":\"a\"} | <a_2:2");
}

#[test]
fn sends_back_only_signed_thoughts() {
    let build = signed(Build::default().turn().ask("q").think("unsigned"), "why").say("m").turn().ask("r");
    assert_eq!(format_body(&build), "?q | ~why =m | ?r");
    assert_eq!(
        rendered(&build, Provider::Anthropic).body["messages"][1]["content"][0],
        json!({"type": "thinking", "thinking": "why", "signature": "sig"})
    );
    let without_message = signed(Build::default().turn().ask("q"), "why").turn().ask("r");
    assert_eq!(format_body(&without_message), "?q ?r");
    let body = rendered(&build, Provider::Openai).body.to_string();
    assert!(!body.contains("why"), "{body}");
}

#[test]
fn drops_old_signed_thoughts_after_changed_content() {
    let add_turn = |build: Build, turn: usize| {
        signed(build.turn().ask(&format!("q{turn}")), &format!("t{turn}"))
            .call(&format!("c{turn}"), "read")
            .answer(&format!("c{turn}"), "x")
    };
    let one_turn = add_turn(Build::default(), 0).say("m");
    let build = add_turn(add_turn(one_turn, 1).say("m"), 2);
    let (c0, c1, c2) = (">c0{\"of\":\"c0\"}", ">c1{\"of\":\"c1\"}", ">c2{\"of\":\"c2\"}");
    let unchanged =
        format!("?q0 | ~t0 {c0} | <c0:x | =m | ?q1 | ~t1 {c1} | <c1:x | =m | ?q2 | ~t2 {c2} | <c2:x");
    assert_eq!(format_body(&build), unchanged);
    let strip = json!({"tool_calls": {"policy": "strip", "request": false, "response": true}});
    let changed = build.element(compaction(50, 1, 1, strip));
    let expected = unchanged.replace("~t1 ", "").replace("<c1:x", "<c1:[compacted] read: success");
    assert_eq!(format_body(&changed), expected, "turn 0 precedes the change, and turn 2 is open");
}

/// Without a call before it, a result is not sent. So the request after it begins the open turn.
#[test]
fn result_before_its_call_does_not_keep_old_thoughts() {
    let old = signed(Build::turns(1).turn(), "t").say("m").answer("c", "x");
    let build =
        old.ask("q").call("c", "read").element(compaction(50, 0, 0, json!({"summary": {"summary": "S"}})));
    let expected = "?[Summary of previous conversation] | =S =m | ?q | >c{\"of\":\"c\"} | <c:[This call was not answered]";
    assert_eq!(format_body(&build), expected);
}

#[test]
fn sends_signatures_only_to_their_provider() {
    let with_metadata = |metadata: Value| {
        Build::default()
            .turn()
            .ask("q")
            .element(json!({"type": "chat_response", "timestamp": "2026-04-02 10:00:00.0", "reasoning": "t", "metadata": metadata}))
            .call("a", "read")
            .answer("a", "x")
    };
    let google = with_metadata(json!({"google_thought_signature": "c2ln"}));
    assert_eq!(
        rendered(&google, Provider::Gemini).body["contents"][1]["parts"][0],
        json!({"text": "t", "thought": true, "thoughtSignature": "sig"})
    );
    let openai = with_metadata(json!({"openai_item_id": "cnNfMQ==", "openai_encrypted_content": "c2ln"}));
    assert_eq!(
        rendered(&openai, Provider::OpenaiResponses).body["input"][1],
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}],
               "encrypted_content": "sig"})
    );
    assert_eq!(
        format_body(&with_metadata(json!({"anthropic_redacted_thinking": "c2ln"}))),
        "?q | ~~sig >a{\"of\":\"a\"} | <a:x"
    );
    for build in [google, openai] {
        assert_eq!(format_body(&build), "?q | >a{\"of\":\"a\"} | <a:x");
    }
}

#[test]
fn messages_have_positions_in_the_stream() {
    let build = Build::turns(2).element(compaction(50, 0, 0, json!({"summary": {"summary": "S"}})));
    let rendered = rendered(&build, Provider::Openai);
    let position = |turn, event| ViewPosition { turn: Some(turn), event };
    assert_eq!(
        rendered.positions,
        [
            position(0, None),
            position(0, None),
            position(1, Some(7)),
            position(1, Some(9)),
            position(1, Some(10)),
            position(1, Some(11)),
            ViewPosition::default()
        ]
    );
    assert_eq!(rendered.first_changed_message, Some(0));
}

#[test]
fn parses_provider_names() {
    for provider in Provider::ALL {
        assert_eq!(provider.to_string().parse(), Ok(provider));
    }
    let error = "llama".parse::<Provider>().unwrap_err();
    assert_eq!(
        error,
        "expected one of `anthropic`, `openai`, `openai-responses`, `gemini`, `ollama`, not `llama`"
    );
}
