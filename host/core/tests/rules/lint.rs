//! The rules of docs/reference/lint-rules.md, with valid and invalid views or bodies. Most tests of G7 and G8 are in
//! the transcripts crate.

use jp_compact_core::lint::{self, Rule, Violation};
use jp_compact_core::projection::project;
use jp_compact_core::render::{Provider, Rendered, ViewPosition};
use serde_json::{Value, json};

use crate::build::{Build, compaction, own_overlay};

/// Checks the rules that a view breaks, with turn and event.
#[track_caller]
fn check_view(build: &Build, expected: &[(Rule, usize, Option<u64>)]) {
    let stream = build.stream();
    let violations = lint::check_view(&stream, stream.overlays(), &project(&stream));
    let violations: Vec<_> = violations
        .iter()
        .map(|violation| (violation.rule, violation.turn.unwrap(), violation.event))
        .collect();
    assert_eq!(violations, expected);
}

/// Checks the rules that a body's messages break, with the index of the message.
#[track_caller]
fn check_body(provider: Provider, messages: Value, expected: &[(Rule, u64)]) {
    check_rendered(&Rendered::from_body(json!({ provider.conversation(): messages })), provider, expected);
}

#[track_caller]
fn check_rendered(rendered: &Rendered, provider: Provider, expected: &[(Rule, u64)]) {
    let messages = rendered.body[provider.conversation()].as_array().unwrap().len() as u64;
    let positions = (0..messages).map(|message| ViewPosition { turn: None, event: Some(message) }).collect();
    let rendered = Rendered { positions, ..rendered.clone() };
    let violations = lint::check_body(provider, &rendered);
    let rule_and_event = |violation: &Violation| (violation.rule, violation.event.unwrap());
    assert_eq!(violations.iter().map(rule_and_event).collect::<Vec<_>>(), expected, "{violations:?}");
    assert!(violations.iter().all(|violation| violation.provider == Some(provider)));
}

#[test]
fn g1_request_has_exactly_one_later_response() {
    check_view(&Build::turns(2), &[]);
    check_view(&Build::default().turn().ask("q").call("a", "read").say("m"), &[(Rule::G1, 0, Some(2))]);
    check_view(&Build::default().turn().ask("q").answer("a", "body").say("m"), &[(Rule::G1, 0, Some(2))]);
    let answered_twice =
        Build::default().turn().ask("q").call("a", "read").answer("a", "1").answer("a", "2").say("m");
    check_view(&answered_twice, &[(Rule::G1, 0, Some(4))]);
    let answered_before = Build::default().turn().ask("q").answer("a", "1").call("a", "read").say("m");
    check_view(&answered_before, &[(Rule::G1, 0, Some(2)), (Rule::G1, 0, Some(3))]);
    // If an overlay removes one half, the other half breaks the rule. A reused id does not.
    let across = Build::default().turn().ask("q").call("a", "read").turn().answer("a", "b").say("m");
    let split = across.clone().element(compaction(50, 0, 0, json!({"tool_calls": {"policy": "omit"}})));
    check_view(&across, &[]);
    check_view(&split, &[(Rule::G1, 1, Some(4)), (Rule::G3, 0, None)]);
    let reused_id =
        Build::default().turn().ask("q").call("a", "x").answer("a", "1").call("a", "x").answer("a", "2");
    check_view(&reused_id.say("m"), &[]);
}

#[test]
fn g2_requests_of_one_message_stay_with_responses() {
    let parallel = Build::default().turn().ask("q").call("a", "x").call("b", "x");
    check_view(&parallel.clone().answer("b", "1").answer("a", "2").say("m"), &[]);
    check_view(&parallel.clone().say("I called").answer("a", "1").answer("b", "2").say("m"), &[]);
    check_view(&parallel.clone().answer("a", "1").say("m").answer("b", "2"), &[(Rule::G2, 0, Some(3))]);
    check_view(
        &parallel.ask("are you there?").answer("a", "1").answer("b", "2"),
        &[(Rule::G2, 0, Some(2)), (Rule::G2, 0, Some(3))],
    );
}

#[test]
fn g3_no_overlay_splits_a_call_or_covers_the_open_turn() {
    let across = Build::default().turn().ask("q").call("a", "x").turn().answer("a", "b").say("m");
    let strip = json!({"tool_calls": {"policy": "strip", "request": true, "response": true}});
    check_view(&across.clone().element(compaction(50, 1, 1, strip.clone())), &[(Rule::G3, 0, None)]);
    check_view(&across.element(compaction(50, 0, 1, strip.clone())), &[]);
    let open = Build::turns(1).turn().ask("q").call("b", "x").answer("b", "1").call("a", "x");
    let unanswered = (Rule::G1, 1, Some(10));
    check_view(&open.clone().element(compaction(50, 0, 0, strip.clone())), &[unanswered]);
    check_view(&open.clone().element(compaction(50, 0, 1, strip)), &[unanswered, (Rule::G3, 1, None)]);
    let omit_closed_call =
        json!({"tool_calls": {"policy": "selective", "calls": [{"seq": 8, "id": "b", "omit": true}]}});
    check_view(&open.element(own_overlay(50, 1, 1, omit_closed_call)), &[unanswered]);
    // For a summary, a turn is open until an assistant message.
    let without_answer = Build::turns(1).turn().ask("q");
    let summary = json!({"summary": {"summary": "S"}});
    check_view(&without_answer.clone().element(compaction(50, 0, 0, summary.clone())), &[]);
    check_view(&without_answer.element(compaction(50, 0, 1, summary)), &[(Rule::G3, 1, None)]);
}

// G4 cannot be broken from outside, because the projection makes every view. See `lint::view`.

#[test]
fn g5_messages_are_not_empty() {
    check_view(
        &Build::default().turn().ask("").say(" \n"),
        &[(Rule::G5, 0, Some(1)), (Rule::G5, 0, Some(2))],
    );
    // An empty response of the tool itself is valid.
    check_view(&Build::default().turn().ask("q").call("a", "x").answer("a", "").say("m"), &[]);
    let replaced = |text: &str| {
        let calls = json!([{"seq": 4, "id": "c0", "response": {"replace": text}}]);
        let policy = json!({"tool_calls": {"policy": "selective", "calls": calls}});
        Build::turns(1).element(own_overlay(50, 0, 0, policy))
    };
    check_view(&replaced("less"), &[]);
    check_view(&replaced(" \n "), &[(Rule::G5, 0, Some(4))]);
    let summary =
        |text: &str| Build::turns(2).element(compaction(50, 1, 1, json!({"summary": {"summary": text}})));
    check_view(&summary("S"), &[]);
    check_view(&summary(""), &[(Rule::G5, 1, None)]);
}

#[test]
fn g6_conversation_ends_with_user() {
    let (user, assistant) =
        (json!({"role": "user", "content": "q"}), json!({"role": "assistant", "content": "m"}));
    let messages = json!([user, assistant]);
    let model =
        json!([{"role": "user", "parts": [{"text": "q"}]}, {"role": "model", "parts": [{"text": "m"}]}]);
    check_body(Provider::Openai, json!([user, assistant, user]), &[]);
    check_body(Provider::Openai, messages.clone(), &[(Rule::G6, 1)]);
    check_body(Provider::OpenaiResponses, messages, &[(Rule::G6, 1)]);
    check_body(Provider::Gemini, model, &[(Rule::G6, 1)]);
    // A view may end with the assistant, because the user may write again later.
    check_view(&Build::turns(1), &[]);
}

fn message(role: &str, content: Value) -> Value {
    json!({"role": role, "content": content})
}

fn check_anthropic(messages: &[Value], expected: &[(Rule, u64)]) {
    check_body(Provider::Anthropic, messages.into(), expected);
}

fn tool_use(id: &str) -> Value {
    message("assistant", json!([{"type": "tool_use", "id": id, "name": "read", "input": {}}]))
}

fn tool_result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": ""})
}

#[test]
fn a1_consecutive_messages_of_one_role_are_merged() {
    let [user, assistant] = [message("user", json!("q")), message("assistant", json!("m"))];
    check_anthropic(&[user.clone(), assistant.clone(), user.clone()], &[]);
    check_anthropic(
        &[user.clone(), assistant.clone(), assistant, user.clone(), user],
        &[(Rule::A1, 2), (Rule::A1, 4)],
    );
}

#[test]
fn a2_first_message_is_from_user() {
    check_anthropic(&[message("assistant", json!("m")), message("user", json!("q"))], &[(Rule::A2, 0)]);
    check_anthropic(&[message("user", json!("q"))], &[]);
}

#[test]
fn a3_next_message_answers_calls_with_results_first() {
    let user = || message("user", json!("q"));
    let text = json!({"type": "text", "text": "and"});
    check_anthropic(&[user(), tool_use("a"), message("user", json!([tool_result("a"), text]))], &[]);
    check_anthropic(
        &[user(), tool_use("a"), message("user", json!([text, tool_result("a")]))],
        &[(Rule::A3, 2)],
    );
    check_anthropic(&[user(), tool_use("a"), user()], &[(Rule::A3, 1)]);
    check_anthropic(&[user(), tool_use("a")], &[(Rule::A3, 1), (Rule::A5, 1)]);
    check_anthropic(&[message("user", json!([tool_result("a")]))], &[(Rule::A3, 0)]);
    check_anthropic(
        &[user(), tool_use("a"), message("user", json!([tool_result("a"), tool_result("a")]))],
        &[(Rule::A3, 2)],
    );
    let late_result = [
        user(),
        tool_use("a"),
        user(),
        message("assistant", json!("m")),
        message("user", json!([tool_result("a")])),
    ];
    check_anthropic(&late_result, &[(Rule::A3, 1), (Rule::A3, 4)]);
}

#[test]
fn a4_text_is_neither_empty_nor_blank() {
    for blank in [json!(""), json!(" \n"), json!([]), json!([{"type": "text", "text": " "}]), Value::Null] {
        check_anthropic(&[message("user", blank)], &[(Rule::A4, 0)]);
    }
    check_anthropic(&[message("user", json!([{"type": "text", "text": "q"}]))], &[]);
    check_anthropic(
        &[message("user", json!("q")), tool_use("a"), message("user", json!([tool_result("a")]))],
        &[],
    );
}

#[test]
fn a5_last_message_is_not_from_assistant() {
    let user = message("user", json!("q"));
    check_anthropic(&[user.clone(), message("assistant", json!("m"))], &[(Rule::A5, 1)]);
    let with_white_space =
        Rendered::from_body(json!({"messages": [user, message("assistant", json!("m "))]}));
    let violations = lint::check_body(Provider::Anthropic, &with_white_space);
    assert!(violations[0].message.contains("is the assistant's and ends with white space"), "{violations:?}");
}

#[test]
fn a6_thoughts_are_complete_and_stay_in_open_loop() {
    let messages_with = |thought: Value| {
        let text = json!({"type": "text", "text": "m"});
        [
            message("user", json!("q")),
            message("assistant", json!([thought, text])),
            message("user", json!("q")),
        ]
    };
    check_anthropic(&messages_with(json!({"type": "thinking", "thinking": "t", "signature": "s"})), &[]);
    check_anthropic(&messages_with(json!({"type": "thinking", "thinking": "t"})), &[(Rule::A6, 1)]);
    check_anthropic(&messages_with(json!({"type": "thinking", "signature": "s"})), &[(Rule::A6, 1)]);
    check_anthropic(&messages_with(json!({"type": "redacted_thinking", "data": "d"})), &[]);
    check_anthropic(&messages_with(json!({"type": "redacted_thinking"})), &[(Rule::A6, 1)]);
    let open_loop = |used: Value| {
        let messages = [message("user", json!("q")), used, message("user", json!([tool_result("a")]))];
        Rendered::from_body(json!({"messages": messages, "thinking": {"type": "enabled"}}))
    };
    let mut thought = tool_use("a");
    let block = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    thought["content"].as_array_mut().unwrap().insert(0, block);
    check_rendered(&open_loop(thought), Provider::Anthropic, &[]);
    check_rendered(&open_loop(tool_use("a")), Provider::Anthropic, &[(Rule::A6, 1)]);
}

#[test]
fn a7_signed_thoughts_after_changed_content_are_rejected() {
    let thought = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let mut used = tool_use("a");
    used["content"].as_array_mut().unwrap().insert(0, thought.clone());
    let response = message("assistant", json!([thought, {"type": "text", "text": "m"}]));
    let user = || message("user", json!("q"));
    let messages =
        json!([user(), response, user(), response, user(), used, message("user", json!([tool_result("a")]))]);
    let mut rendered = Rendered::from_body(json!({ "messages": messages }));
    check_rendered(&rendered, Provider::Anthropic, &[]);
    rendered.first_changed_message = Some(2);
    check_rendered(&rendered, Provider::Anthropic, &[(Rule::A7, 3)]);
}

#[test]
fn a10_tool_input_is_an_object() {
    let messages_with = |input: Value| {
        let mut used = tool_use("a");
        used["content"][0]["input"] = input;
        [message("user", json!("q")), used, message("user", json!([tool_result("a")]))]
    };
    check_anthropic(&messages_with(json!({})), &[]);
    for input in [json!("{}"), json!([]), Value::Null] {
        check_anthropic(&messages_with(input), &[(Rule::A10, 1)]);
    }
}

fn tool_calls(ids: &[&str]) -> Value {
    let function = json!({"name": "read", "arguments": "{}"});
    let calls: Vec<_> =
        ids.iter().map(|id| json!({"id": id, "type": "function", "function": function})).collect();
    json!({"role": "assistant", "tool_calls": calls})
}

fn tool_message(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": ""})
}

#[test]
fn c1_tool_message_follows_its_call() {
    check_body(Provider::Openai, json!([tool_calls(&["a", "b"]), tool_message("b"), tool_message("a")]), &[]);
    check_body(
        Provider::Openai,
        json!([tool_message("a"), {"role": "user", "content": "q"}]),
        &[(Rule::C1, 0)],
    );
    check_body(
        Provider::Openai,
        json!([tool_calls(&["a"]), tool_message("a"), tool_message("a")]),
        &[(Rule::C1, 2)],
    );
    let late_response =
        json!([tool_calls(&["a"]), tool_message("a"), {"role": "user", "content": "q"}, tool_message("a")]);
    check_body(Provider::Openai, late_response, &[(Rule::C1, 3)]);
}

#[test]
fn c2_calls_are_answered_before_next_message() {
    let user = json!({"role": "user", "content": "q"});
    check_body(Provider::Openai, json!([tool_calls(&["a"]), tool_message("a"), user]), &[]);
    check_body(Provider::Openai, json!([tool_calls(&["a", "b"]), tool_message("a"), user]), &[(Rule::C2, 0)]);
    check_body(Provider::Openai, json!([user, tool_calls(&["a"])]), &[(Rule::C2, 1)]);
    check_body(
        Provider::Openai,
        json!([user, tool_calls(&["a"]), user, tool_message("a")]),
        &[(Rule::C2, 1), (Rule::C1, 3)],
    );
}

#[test]
fn c4_arguments_are_a_json_string() {
    let messages_with = |arguments: Value| {
        let mut called = tool_calls(&["a"]);
        called["tool_calls"][0]["function"]["arguments"] = arguments;
        json!([called, tool_message("a")])
    };
    check_body(Provider::Openai, messages_with(json!("{\"a\": 1}")), &[]);
    for arguments in [json!({}), json!("{"), Value::Null] {
        check_body(Provider::Openai, messages_with(arguments.clone()), &[(Rule::C4, 0)]);
        let call = json!({"type": "function_call", "call_id": "a", "name": "read", "arguments": arguments});
        let output = json!({"type": "function_call_output", "call_id": "a", "output": ""});
        check_body(Provider::OpenaiResponses, json!([call, output]), &[(Rule::C4, 0)]);
    }
}

#[test]
fn c5_reasoning_is_not_sent_back() {
    let user = json!({"role": "user", "content": "q"});
    check_body(
        Provider::Openai,
        json!([{"role": "assistant", "content": "m", "reasoning_content": null}, user]),
        &[],
    );
    let message = json!({"role": "assistant", "content": "m", "reasoning_content": "t"});
    check_body(Provider::Openai, json!([message, user]), &[(Rule::C5, 0)]);
}

#[test]
fn g5_messages_of_bodies_are_not_empty() {
    let user = json!({"role": "user", "content": "q"});
    check_body(Provider::Openai, json!([{"role": "assistant", "content": " "}, user]), &[(Rule::G5, 0)]);
    check_body(
        Provider::OpenaiResponses,
        json!([{"role": "assistant", "content": ""}, user]),
        &[(Rule::G5, 0)],
    );
    check_body(Provider::Gemini, json!([{"role": "user", "parts": []}]), &[(Rule::G5, 0)]);
    check_body(Provider::Gemini, json!([{"role": "user", "parts": [{"text": " "}]}]), &[(Rule::G5, 0)]);
}

fn check_responses(items: &[Value], expected: &[(Rule, u64)]) {
    check_body(Provider::OpenaiResponses, items.into(), expected);
}

#[test]
fn r1_calls_and_outputs_pair_both_ways() {
    let call = json!({"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": ""});
    check_responses(&[call.clone(), output.clone()], &[]);
    check_responses(&[call.clone(), output.clone(), call.clone(), output.clone()], &[]);
    check_responses(std::slice::from_ref(&call), &[(Rule::R1, 0)]);
    check_responses(std::slice::from_ref(&output), &[(Rule::R1, 0)]);
    check_responses(&[output, call], &[(Rule::R1, 0), (Rule::R1, 1)]);
}

#[test]
fn r2_reasoning_item_stays_with_next_item() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let [response, user] = ["assistant", "user"].map(|role| json!({"role": role, "content": "text"}));
    check_responses(&[reasoning.clone(), response, user.clone()], &[]);
    check_responses(&[reasoning.clone(), user.clone()], &[(Rule::R2, 0)]);
    check_responses(&[user, reasoning], &[(Rule::R2, 1)]);
}

#[test]
fn r3_compaction_items_are_opaque() {
    let user = json!({"role": "user", "content": "text"});
    check_responses(&[json!({"type": "compaction", "encrypted_content": "x"}), user.clone()], &[]);
    check_responses(&[json!({"type": "compaction", "summary": "we did things"}), user], &[(Rule::R3, 0)]);
}

fn content(role: &str, parts: Value) -> Value {
    json!({"role": role, "parts": parts})
}

fn check_gemini(contents: &[Value], expected: &[(Rule, u64)]) {
    check_body(Provider::Gemini, contents.into(), expected);
}

fn function_part(name: &str, member: &str) -> Value {
    json!({member: {"name": name}})
}

#[test]
fn m1_roles_are_merged_and_user_is_first() {
    let [user, model] = ["user", "model"].map(|role| content(role, json!([{"text": "text"}])));
    check_gemini(&[user.clone(), model.clone(), user.clone()], &[]);
    check_gemini(&[model.clone(), user.clone()], &[(Rule::M1, 0)]);
    check_gemini(&[user.clone(), user.clone()], &[(Rule::M1, 1)]);
    check_gemini(&[user.clone(), content("assistant", json!([{"text": "m"}])), user], &[(Rule::M1, 1)]);
}

#[test]
fn m2_call_follows_user_and_response_follows_call() {
    let [user, model] = ["user", "model"].map(|role| content(role, json!([{"text": "text"}])));
    let call = content("model", json!([function_part("f", "functionCall")]));
    let answer = |name| content("user", json!([function_part(name, "functionResponse")]));
    check_gemini(&[user.clone(), call.clone(), answer("f"), call.clone(), answer("f")], &[]);
    check_gemini(&[user.clone(), model, call.clone(), answer("f")], &[(Rule::M1, 2), (Rule::M2, 2)]);
    check_gemini(&[user.clone(), call.clone(), user.clone()], &[(Rule::M2, 1)]);
    check_gemini(&[user.clone(), call.clone(), answer("g")], &[(Rule::M2, 1)]);
    check_gemini(&[answer("f")], &[(Rule::M2, 0)]);
    check_gemini(&[user, content("model", json!([{"function_call": {"name": "f"}}])), answer("f")], &[]);
}

#[test]
fn g7_and_g8_accept_both_spellings_of_gemini() {
    for [call, response] in [["functionCall", "functionResponse"], ["function_call", "function_response"]] {
        let body = |call: Value, name| {
            let user = content("user", json!([{"text": "q"}]));
            [user, content("model", json!([call])), content("user", json!([function_part(name, response)]))]
        };
        check_gemini(&body(function_part("größe", call), "größe"), &[(Rule::G8, 1), (Rule::G8, 2)]);
        let mut thought = function_part("f", call);
        thought["thought"] = true.into();
        thought["thoughtSignature"] = "s".into();
        check_gemini(&body(thought, "f"), &[]);
    }
}

#[test]
fn m3_each_call_has_one_response() {
    let user = content("user", json!([{"text": "q"}]));
    let calls =
        content("model", json!([function_part("f", "functionCall"), function_part("g", "functionCall")]));
    let answer = |name| function_part(name, "functionResponse");
    check_gemini(&[user.clone(), calls.clone(), content("user", json!([answer("g"), answer("f")]))], &[]);
    check_gemini(&[user, calls, content("user", json!([answer("f")]))], &[(Rule::M3, 1)]);
}

#[test]
fn m5_signatures_of_the_current_turn_are_kept() {
    let user = content("user", json!([{"text": "q"}]));
    let answer = content("user", json!([function_part("f", "functionResponse")]));
    let call_after = |thought: Value| {
        [user.clone(), content("model", json!([thought, function_part("f", "functionCall")]))]
    };
    let open_loop = |thought: Value| [call_after(thought).to_vec(), vec![answer.clone()]].concat();
    check_gemini(&open_loop(json!({"text": "t", "thought": true, "thoughtSignature": "s"})), &[]);
    check_gemini(&open_loop(json!({"text": "t", "thought": true})), &[(Rule::M5, 1)]);
    check_gemini(&open_loop(json!({"text": "t", "thoughtSignature": ""})), &[(Rule::M5, 1)]);
    let closed_loop = [
        open_loop(json!({"text": "t", "thought": true})),
        vec![content("model", json!([{"text": "m"}])), user.clone()],
    ];
    check_gemini(&closed_loop.concat(), &[]);
}

#[test]
fn o1_view_larger_than_window_is_a_warning() {
    assert_eq!(lint::check_window(4096, 4096), None);
    let warning = lint::check_window(4097, 4096).unwrap();
    assert_eq!((warning.rule, warning.provider), (Rule::O1, Some(Provider::Ollama)));
    assert!(warning.is_warning());
    let orphaned_response = json!([{"role": "tool", "content": ""}, {"role": "assistant", "content": ""}]);
    check_body(Provider::Ollama, orphaned_response, &[]);
}

#[test]
fn separates_new_violations_from_old_ones() {
    let build = Build::default().turn().ask("").call("a", "read").answer("a", "body").say("m");
    let calls = json!([{"seq": 3, "id": "a", "response": {"replace": ""}}]);
    let overlay = own_overlay(50, 0, 0, json!({"tool_calls": {"policy": "selective", "calls": calls}}));
    let violations_of = |build: Build| {
        let stream = build.stream();
        lint::check_view(&stream, stream.overlays(), &project(&stream))
    };
    let (before, after) = (violations_of(build.clone()), violations_of(build.element(overlay)));
    let (new, old) = lint::split_introduced(&before, after);
    assert_eq!(old, before);
    assert_eq!(new.iter().map(|new| (new.rule, new.event)).collect::<Vec<_>>(), [(Rule::G5, Some(3))]);
    assert_eq!(new[0].to_string(), "G5 turn 0 event 3: the tool's response is blank");
}

#[test]
fn renumbered_messages_have_the_same_violation() {
    let violations_of = |messages: Value, positions: &[u64]| {
        let position = |event: &u64| ViewPosition { turn: Some(0), event: Some(*event) };
        let positions = positions.iter().map(position).collect();
        let body = json!({ "messages": messages });
        lint::check_body(Provider::Openai, &Rendered { positions, ..Rendered::from_body(body) })
    };
    let user = json!({"role": "user", "content": "q"});
    let before = violations_of(json!([user, user, tool_message("a"), user]), &[1, 2, 3, 4]);
    let after = violations_of(json!([user, tool_message("a"), tool_message("b")]), &[1, 3, 4]);
    let (new, old) = lint::split_introduced(&before, after);
    assert_eq!(
        [new, old].map(|violations| violations.iter().map(|violation| violation.event).collect::<Vec<_>>()),
        [[Some(4)], [Some(3)]]
    );
}
