//! Every rule of docs/reference/lint-rules.md: a view or a body that breaks it, and a valid one.

use jp_compact_core::lint::{self, Rule, Violation};
use jp_compact_core::projection::project;
use jp_compact_core::render::{Provider, Rendered, ViewPosition};
use serde_json::{Value, json};

use crate::build::{Build, jp, own};

/// Checks the rules that a view breaks, with turn and event.
#[track_caller]
fn view(build: &Build, expected: &[(Rule, usize, Option<u64>)]) {
    let stream = build.stream();
    let found = lint::view(&stream, stream.overlays(), &project(&stream));
    let found: Vec<_> = found.iter().map(|found| (found.rule, found.turn.unwrap(), found.event)).collect();
    assert_eq!(found, expected);
}

/// Checks the rules that a body's messages break, with the message.
#[track_caller]
fn body(provider: Provider, messages: Value, expected: &[(Rule, u64)]) {
    breaks(&Rendered::of_body(json!({ provider.conversation(): messages })), provider, expected);
}

#[track_caller]
fn breaks(rendered: &Rendered, provider: Provider, expected: &[(Rule, u64)]) {
    let messages = rendered.body[provider.conversation()].as_array().unwrap().len() as u64;
    let places = (0..messages).map(|message| ViewPosition { turn: None, event: Some(message) }).collect();
    let rendered = Rendered { places, ..rendered.clone() };
    let found = lint::body(provider, &rendered);
    let named = |found: &Violation| (found.rule, found.event.unwrap());
    assert_eq!(found.iter().map(named).collect::<Vec<_>>(), expected, "{found:?}");
    assert!(found.iter().all(|found| found.provider == Some(provider)));
}

#[test]
fn g1_request_has_exactly_one_later_response() {
    view(&Build::turns(2), &[]);
    view(&Build::default().turn().ask("q").call("a", "read").say("m"), &[(Rule::G1, 0, Some(2))]);
    view(&Build::default().turn().ask("q").answer("a", "body").say("m"), &[(Rule::G1, 0, Some(2))]);
    let twice = Build::default().turn().ask("q").call("a", "read").answer("a", "1").answer("a", "2").say("m");
    view(&twice, &[(Rule::G1, 0, Some(4))]);
    let before = Build::default().turn().ask("q").answer("a", "1").call("a", "read").say("m");
    view(&before, &[(Rule::G1, 0, Some(2)), (Rule::G1, 0, Some(3))]);
    // A half removed by an overlay counts. A reused id does not.
    let across = Build::default().turn().ask("q").call("a", "read").turn().answer("a", "b").say("m");
    let split = across.clone().raw(jp(50, 0, 0, json!({"tool_calls": {"policy": "omit"}})));
    view(&across, &[]);
    view(&split, &[(Rule::G1, 1, Some(4)), (Rule::G3, 0, None)]);
    let again =
        Build::default().turn().ask("q").call("a", "x").answer("a", "1").call("a", "x").answer("a", "2");
    view(&again.say("m"), &[]);
}

#[test]
fn g2_requests_of_one_message_stay_with_responses() {
    let parallel = Build::default().turn().ask("q").call("a", "x").call("b", "x");
    view(&parallel.clone().answer("b", "1").answer("a", "2").say("m"), &[]);
    view(&parallel.clone().say("I called").answer("a", "1").answer("b", "2").say("m"), &[]);
    view(&parallel.clone().answer("a", "1").say("m").answer("b", "2"), &[(Rule::G2, 0, Some(3))]);
    view(
        &parallel.ask("are you there?").answer("a", "1").answer("b", "2"),
        &[(Rule::G2, 0, Some(2)), (Rule::G2, 0, Some(3))],
    );
}

#[test]
fn g3_no_overlay_splits_a_call_or_covers_the_open_turn() {
    let across = Build::default().turn().ask("q").call("a", "x").turn().answer("a", "b").say("m");
    let strip = json!({"tool_calls": {"policy": "strip", "request": true, "response": true}});
    view(&across.clone().raw(jp(50, 1, 1, strip.clone())), &[(Rule::G3, 0, None)]);
    view(&across.raw(jp(50, 0, 1, strip.clone())), &[]);
    let open = Build::turns(1).turn().ask("q").call("b", "x").answer("b", "1").call("a", "x");
    let waits = (Rule::G1, 1, Some(10));
    view(&open.clone().raw(jp(50, 0, 0, strip.clone())), &[waits]);
    view(&open.clone().raw(jp(50, 0, 1, strip)), &[waits, (Rule::G3, 1, None)]);
    let named =
        json!({"tool_calls": {"policy": "selective", "calls": [{"seq": 8, "id": "b", "omit": true}]}});
    view(&open.raw(own(50, 1, 1, named)), &[waits]);
    // For a summary, a turn is open until an assistant message.
    let asked = Build::turns(1).turn().ask("q");
    let summary = json!({"summary": {"summary": "S"}});
    view(&asked.clone().raw(jp(50, 0, 0, summary.clone())), &[]);
    view(&asked.raw(jp(50, 0, 1, summary)), &[(Rule::G3, 1, None)]);
}

// G4 cannot be broken from outside, because the projection makes every view. See `lint::view`.

#[test]
fn g5_messages_are_not_empty() {
    view(&Build::default().turn().ask("").say(" \n"), &[(Rule::G5, 0, Some(1)), (Rule::G5, 0, Some(2))]);
    // An empty response of the tool itself is valid.
    view(&Build::default().turn().ask("q").call("a", "x").answer("a", "").say("m"), &[]);
    let replaced = |text: &str| {
        let calls = json!([{"seq": 4, "id": "c0", "response": {"replace": text}}]);
        let policy = json!({"tool_calls": {"policy": "selective", "calls": calls}});
        Build::turns(1).raw(own(50, 0, 0, policy))
    };
    view(&replaced("less"), &[]);
    view(&replaced(" \n "), &[(Rule::G5, 0, Some(4))]);
    let summary = |text: &str| Build::turns(2).raw(jp(50, 1, 1, json!({"summary": {"summary": text}})));
    view(&summary("S"), &[]);
    view(&summary(""), &[(Rule::G5, 1, None)]);
}

#[test]
fn g6_conversation_ends_with_user() {
    let (user, assistant) =
        (json!({"role": "user", "content": "q"}), json!({"role": "assistant", "content": "m"}));
    let said = json!([user, assistant]);
    let model =
        json!([{"role": "user", "parts": [{"text": "q"}]}, {"role": "model", "parts": [{"text": "m"}]}]);
    body(Provider::Openai, json!([user, assistant, user]), &[]);
    body(Provider::Openai, said.clone(), &[(Rule::G6, 1)]);
    body(Provider::OpenaiResponses, said, &[(Rule::G6, 1)]);
    body(Provider::Gemini, model, &[(Rule::G6, 1)]);
    // A stored view need not be ready to be sent.
    view(&Build::turns(1), &[]);
}

fn message(role: &str, content: Value) -> Value {
    json!({"role": role, "content": content})
}

fn anthropic(messages: &[Value], expected: &[(Rule, u64)]) {
    body(Provider::Anthropic, messages.into(), expected);
}

fn used(id: &str) -> Value {
    message("assistant", json!([{"type": "tool_use", "id": id, "name": "read", "input": {}}]))
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": ""})
}

#[test]
fn a1_consecutive_messages_of_one_role_are_merged() {
    let [q, m] = [message("user", json!("q")), message("assistant", json!("m"))];
    anthropic(&[q.clone(), m.clone(), q.clone()], &[]);
    anthropic(&[q.clone(), m.clone(), m, q.clone(), q], &[(Rule::A1, 2), (Rule::A1, 4)]);
}

#[test]
fn a2_first_message_is_from_user() {
    anthropic(&[message("assistant", json!("m")), message("user", json!("q"))], &[(Rule::A2, 0)]);
    anthropic(&[message("user", json!("q"))], &[]);
}

#[test]
fn a3_next_message_answers_calls_with_results_first() {
    let q = || message("user", json!("q"));
    let text = json!({"type": "text", "text": "and"});
    anthropic(&[q(), used("a"), message("user", json!([result("a"), text]))], &[]);
    anthropic(&[q(), used("a"), message("user", json!([text, result("a")]))], &[(Rule::A3, 2)]);
    anthropic(&[q(), used("a"), q()], &[(Rule::A3, 1)]);
    anthropic(&[q(), used("a")], &[(Rule::A3, 1), (Rule::A5, 1)]);
    anthropic(&[message("user", json!([result("a")]))], &[(Rule::A3, 0)]);
    anthropic(&[q(), used("a"), message("user", json!([result("a"), result("a")]))], &[(Rule::A3, 2)]);
    let late = [q(), used("a"), q(), message("assistant", json!("m")), message("user", json!([result("a")]))];
    anthropic(&late, &[(Rule::A3, 1), (Rule::A3, 4)]);
}

#[test]
fn a4_text_is_neither_empty_nor_blank() {
    for blank in [json!(""), json!(" \n"), json!([]), json!([{"type": "text", "text": " "}]), Value::Null] {
        anthropic(&[message("user", blank)], &[(Rule::A4, 0)]);
    }
    anthropic(&[message("user", json!([{"type": "text", "text": "q"}]))], &[]);
    anthropic(&[message("user", json!("q")), used("a"), message("user", json!([result("a")]))], &[]);
}

#[test]
fn a5_last_message_is_not_from_assistant() {
    let q = message("user", json!("q"));
    anthropic(&[q.clone(), message("assistant", json!("m"))], &[(Rule::A5, 1)]);
    let spaced = Rendered::of_body(json!({"messages": [q, message("assistant", json!("m "))]}));
    let found = lint::body(Provider::Anthropic, &spaced);
    assert!(found[0].message.ends_with("an assistant message, and ends with white space"), "{found:?}");
}

#[test]
fn a6_thoughts_are_complete_and_stay_in_open_loop() {
    let with = |thought: Value| {
        let text = json!({"type": "text", "text": "m"});
        [
            message("user", json!("q")),
            message("assistant", json!([thought, text])),
            message("user", json!("q")),
        ]
    };
    anthropic(&with(json!({"type": "thinking", "thinking": "t", "signature": "s"})), &[]);
    anthropic(&with(json!({"type": "thinking", "thinking": "t"})), &[(Rule::A6, 1)]);
    anthropic(&with(json!({"type": "thinking", "signature": "s"})), &[(Rule::A6, 1)]);
    anthropic(&with(json!({"type": "redacted_thinking", "data": "d"})), &[]);
    anthropic(&with(json!({"type": "redacted_thinking"})), &[(Rule::A6, 1)]);
    let open = |used: Value| {
        let messages = [message("user", json!("q")), used, message("user", json!([result("a")]))];
        Rendered::of_body(json!({"messages": messages, "thinking": {"type": "enabled"}}))
    };
    let mut thought = used("a");
    let block = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    thought["content"].as_array_mut().unwrap().insert(0, block);
    breaks(&open(thought), Provider::Anthropic, &[]);
    breaks(&open(used("a")), Provider::Anthropic, &[(Rule::A6, 1)]);
}

#[test]
fn a7_no_signed_thoughts_after_changed_content() {
    let thought = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let mut used = used("a");
    used["content"].as_array_mut().unwrap().insert(0, thought.clone());
    let said = message("assistant", json!([thought, {"type": "text", "text": "m"}]));
    let q = || message("user", json!("q"));
    let messages = json!([q(), said, q(), said, q(), used, message("user", json!([result("a")]))]);
    let mut rendered = Rendered::of_body(json!({ "messages": messages }));
    breaks(&rendered, Provider::Anthropic, &[]);
    rendered.changed = Some(2);
    breaks(&rendered, Provider::Anthropic, &[(Rule::A7, 3)]);
}

#[test]
fn a10_tool_input_is_an_object() {
    let with = |input: Value| {
        let mut used = used("a");
        used["content"][0]["input"] = input;
        [message("user", json!("q")), used, message("user", json!([result("a")]))]
    };
    anthropic(&with(json!({})), &[]);
    for input in [json!("{}"), json!([]), Value::Null] {
        anthropic(&with(input), &[(Rule::A10, 1)]);
    }
}

fn called(ids: &[&str]) -> Value {
    let function = json!({"name": "read", "arguments": "{}"});
    let calls: Vec<_> =
        ids.iter().map(|id| json!({"id": id, "type": "function", "function": function})).collect();
    json!({"role": "assistant", "tool_calls": calls})
}

fn tool(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": ""})
}

#[test]
fn c1_tool_message_follows_its_call() {
    body(Provider::Openai, json!([called(&["a", "b"]), tool("b"), tool("a")]), &[]);
    body(Provider::Openai, json!([tool("a"), {"role": "user", "content": "q"}]), &[(Rule::C1, 0)]);
    body(Provider::Openai, json!([called(&["a"]), tool("a"), tool("a")]), &[(Rule::C1, 2)]);
    let late = json!([called(&["a"]), tool("a"), {"role": "user", "content": "q"}, tool("a")]);
    body(Provider::Openai, late, &[(Rule::C1, 3)]);
}

#[test]
fn c2_calls_are_answered_before_next_message() {
    let q = json!({"role": "user", "content": "q"});
    body(Provider::Openai, json!([called(&["a"]), tool("a"), q]), &[]);
    body(Provider::Openai, json!([called(&["a", "b"]), tool("a"), q]), &[(Rule::C2, 0)]);
    body(Provider::Openai, json!([q, called(&["a"])]), &[(Rule::C2, 1)]);
    body(Provider::Openai, json!([q, called(&["a"]), q, tool("a")]), &[(Rule::C2, 1), (Rule::C1, 3)]);
}

#[test]
fn c4_arguments_are_a_json_string() {
    let with = |arguments: Value| {
        let mut called = called(&["a"]);
        called["tool_calls"][0]["function"]["arguments"] = arguments;
        json!([called, tool("a")])
    };
    body(Provider::Openai, with(json!("{\"a\": 1}")), &[]);
    for arguments in [json!({}), json!("{"), Value::Null] {
        body(Provider::Openai, with(arguments.clone()), &[(Rule::C4, 0)]);
        let call = json!({"type": "function_call", "call_id": "a", "name": "read", "arguments": arguments});
        let output = json!({"type": "function_call_output", "call_id": "a", "output": ""});
        body(Provider::OpenaiResponses, json!([call, output]), &[(Rule::C4, 0)]);
    }
}

#[test]
fn c5_reasoning_is_not_sent_back() {
    let q = json!({"role": "user", "content": "q"});
    body(Provider::Openai, json!([{"role": "assistant", "content": "m", "reasoning_content": null}, q]), &[]);
    let said = json!({"role": "assistant", "content": "m", "reasoning_content": "t"});
    body(Provider::Openai, json!([said, q]), &[(Rule::C5, 0)]);
}

#[test]
fn g5_messages_of_bodies_are_not_empty() {
    let q = json!({"role": "user", "content": "q"});
    body(Provider::Openai, json!([{"role": "assistant", "content": " "}, q]), &[(Rule::G5, 0)]);
    body(Provider::OpenaiResponses, json!([{"role": "assistant", "content": ""}, q]), &[(Rule::G5, 0)]);
    body(Provider::Gemini, json!([{"role": "user", "parts": []}]), &[(Rule::G5, 0)]);
    body(Provider::Gemini, json!([{"role": "user", "parts": [{"text": " "}]}]), &[(Rule::G5, 0)]);
}

fn responses(items: &[Value], expected: &[(Rule, u64)]) {
    body(Provider::OpenaiResponses, items.into(), expected);
}

#[test]
fn r1_calls_and_outputs_pair_both_ways() {
    let call = json!({"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": ""});
    responses(&[call.clone(), output.clone()], &[]);
    responses(&[call.clone(), output.clone(), call.clone(), output.clone()], &[]);
    responses(std::slice::from_ref(&call), &[(Rule::R1, 0)]);
    responses(std::slice::from_ref(&output), &[(Rule::R1, 0)]);
    responses(&[output, call], &[(Rule::R1, 0), (Rule::R1, 1)]);
}

#[test]
fn r2_reasoning_item_stays_with_next_item() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let [said, q] = ["assistant", "user"].map(|role| json!({"role": role, "content": "text"}));
    responses(&[reasoning.clone(), said, q.clone()], &[]);
    responses(&[reasoning.clone(), q.clone()], &[(Rule::R2, 0)]);
    responses(&[q, reasoning], &[(Rule::R2, 1)]);
}

#[test]
fn r3_compaction_items_are_opaque() {
    let q = json!({"role": "user", "content": "text"});
    responses(&[json!({"type": "compaction", "encrypted_content": "x"}), q.clone()], &[]);
    responses(&[json!({"type": "compaction", "summary": "we did things"}), q], &[(Rule::R3, 0)]);
}

fn parts(role: &str, parts: Value) -> Value {
    json!({"role": role, "parts": parts})
}

fn gemini(contents: &[Value], expected: &[(Rule, u64)]) {
    body(Provider::Gemini, contents.into(), expected);
}

fn function(name: &str, member: &str) -> Value {
    json!({member: {"name": name}})
}

#[test]
fn m1_roles_are_merged_and_user_is_first() {
    let [q, m] = ["user", "model"].map(|role| parts(role, json!([{"text": "text"}])));
    gemini(&[q.clone(), m.clone(), q.clone()], &[]);
    gemini(&[m.clone(), q.clone()], &[(Rule::M1, 0)]);
    gemini(&[q.clone(), q.clone()], &[(Rule::M1, 1)]);
    gemini(&[q.clone(), parts("assistant", json!([{"text": "m"}])), q], &[(Rule::M1, 1)]);
}

#[test]
fn m2_call_follows_user_and_response_follows_call() {
    let [q, m] = ["user", "model"].map(|role| parts(role, json!([{"text": "text"}])));
    let call = parts("model", json!([function("f", "functionCall")]));
    let answer = |name| parts("user", json!([function(name, "functionResponse")]));
    gemini(&[q.clone(), call.clone(), answer("f"), call.clone(), answer("f")], &[]);
    gemini(&[q.clone(), m, call.clone(), answer("f")], &[(Rule::M1, 2), (Rule::M2, 2)]);
    gemini(&[q.clone(), call.clone(), q.clone()], &[(Rule::M2, 1)]);
    gemini(&[q.clone(), call.clone(), answer("g")], &[(Rule::M2, 1)]);
    gemini(&[answer("f")], &[(Rule::M2, 0)]);
    gemini(&[q, parts("model", json!([{"function_call": {"name": "f"}}])), answer("f")], &[]);
}

#[test]
fn m3_as_many_responses_as_calls() {
    let q = parts("user", json!([{"text": "q"}]));
    let calls = parts("model", json!([function("f", "functionCall"), function("g", "functionCall")]));
    let answer = |name| function(name, "functionResponse");
    gemini(&[q.clone(), calls.clone(), parts("user", json!([answer("g"), answer("f")]))], &[]);
    gemini(&[q, calls, parts("user", json!([answer("f")]))], &[(Rule::M3, 1)]);
}

#[test]
fn m5_signatures_of_the_current_turn_are_kept() {
    let q = parts("user", json!([{"text": "q"}]));
    let answer = parts("user", json!([function("f", "functionResponse")]));
    let loops = |thought: Value| [q.clone(), parts("model", json!([thought, function("f", "functionCall")]))];
    let open = |thought: Value| [loops(thought).to_vec(), vec![answer.clone()]].concat();
    gemini(&open(json!({"text": "t", "thought": true, "thoughtSignature": "s"})), &[]);
    gemini(&open(json!({"text": "t", "thought": true})), &[(Rule::M5, 1)]);
    gemini(&open(json!({"text": "t", "thoughtSignature": ""})), &[(Rule::M5, 1)]);
    let older = [
        open(json!({"text": "t", "thought": true})),
        vec![parts("model", json!([{"text": "m"}])), q.clone()],
    ];
    gemini(&older.concat(), &[]);
}

#[test]
fn o1_view_larger_than_window_is_a_warning() {
    assert_eq!(lint::window(4096, 4096), None);
    let warning = lint::window(4097, 4096).unwrap();
    assert_eq!((warning.rule, warning.provider), (Rule::O1, Some(Provider::Ollama)));
    assert!(warning.is_warning());
    let orphan = json!([{"role": "tool", "content": ""}, {"role": "assistant", "content": ""}]);
    body(Provider::Ollama, orphan, &[]);
}

#[test]
fn separates_new_violations_from_old_ones() {
    let was = Build::default().turn().ask("").call("a", "read").answer("a", "body").say("m");
    let calls = json!([{"seq": 3, "id": "a", "response": {"replace": ""}}]);
    let overlay = own(50, 0, 0, json!({"tool_calls": {"policy": "selective", "calls": calls}}));
    let of = |build: Build| {
        let stream = build.stream();
        lint::view(&stream, stream.overlays(), &project(&stream))
    };
    let (before, after) = (of(was.clone()), of(was.raw(overlay)));
    let (new, old) = lint::introduced(&before, after);
    assert_eq!(old, before);
    assert_eq!(new.iter().map(|new| (new.rule, new.event)).collect::<Vec<_>>(), [(Rule::G5, Some(3))]);
    assert_eq!(new[0].to_string(), "G5 turn 0 event 3: the tool's response is blank");
}

#[test]
fn same_violation_despite_renumbered_messages() {
    let of = |messages: Value, places: &[u64]| {
        let place = |event: &u64| ViewPosition { turn: Some(0), event: Some(*event) };
        let places = places.iter().map(place).collect();
        let body = json!({ "messages": messages });
        lint::body(Provider::Openai, &Rendered { places, ..Rendered::of_body(body) })
    };
    let q = json!({"role": "user", "content": "q"});
    let before = of(json!([q, q, tool("a"), q]), &[1, 2, 3, 4]);
    let after = of(json!([q, tool("a"), tool("b")]), &[1, 3, 4]);
    let (new, old) = lint::introduced(&before, after);
    assert_eq!(
        [new, old].map(|found| found.iter().map(|it| it.event).collect::<Vec<_>>()),
        [[Some(4)], [Some(3)]]
    );
}
