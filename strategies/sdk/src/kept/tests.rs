//! Tests of the facts of a range, and of the section "Kept verbatim" of a summary.

use serde_json::json;

use super::*;

/// Returns the facts of events of turn 0.
fn facts(events: &[Value]) -> KeptFacts {
    let mut facts = KeptFacts::new(Range::turns(0, 0));
    for (seq, event) in (0..).zip(events) {
        let raw = serde_json::value::to_raw_value(event).unwrap();
        let line = EventLine::new(seq, 0, 1, raw);
        facts.add(&line, &EventBody::parse(&line));
    }
    facts
}

fn user(text: &str) -> Value {
    json!({"type": "chat_request", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"type": "chat_response", "message": text})
}

fn call(arguments: &Value) -> Value {
    json!({"type": "tool_call_request", "id": "1", "name": "bash", "arguments": arguments})
}

fn output(content: &str) -> Value {
    json!({"type": "tool_call_response", "id": "1", "content": content})
}

/// Returns an event that is long enough for a summary with a section.
fn filler() -> Value {
    assistant(&"They talked. ".repeat(400))
}

const LIMIT: SectionLimit = SectionLimit { bytes: 2_000, other_bytes: 2_000 };

#[track_caller]
fn check(events: &[Value], summary: &str, limit: SectionLimit, expected: &str, message: Option<&str>) {
    let events = [events, &[filler()]].concat();
    let SummaryWithFacts { text, diagnostic } = facts(&events).append_to(summary, limit);
    assert_eq!(text, expected);
    assert_eq!(diagnostic.map(|diagnostic| diagnostic.message).as_deref(), message);
}

fn work() -> Vec<Value> {
    vec![
        user("Never touch vendor/. See doc/a.md. Only use cargo!"),
        call(&json!({"command": "cd src\ncargo test"})),
        output("error[E0308]: mismatched types in src/lib.rs"),
        call(&json!({"command": ["bash", "-lc", "cargo check -p a"]})),
        call(&json!({"command": "view", "path": "src/b.rs"})),
    ]
}

#[test]
fn appends_facts_that_the_summary_lacks() {
    let expected = "They fixed it.\n\n## Kept verbatim\n\nConstraints of the user, the latest last:\n- Never touch vendor/.\n\
                    - Only use cargo!\n\nCommands:\n- cd src\n- cargo check -p a\n\nError codes:\n- E0308\n\nPaths:\n- doc/a.md\n\
                    - src/lib.rs\n- src/b.rs";
    let message = "appended 2 constraints, 2 commands, 1 error code, 3 paths that the summary lacked";
    check(&work(), "They fixed it. \n", LIMIT, expected, Some(message));
    let whole =
        "Never touch vendor/. Only use cargo! doc/a.md `src/lib.rs` src/b.rs E0308: cd src; cargo check -p a";
    check(&work(), whole, LIMIT, whole, None);
}

#[test]
fn part_of_a_name_is_not_the_name() {
    let expected = "E03081 and xsrc/b.rs\n\n## Kept verbatim\n\nError codes:\n- E0308\n\nPaths:\n- src/b.rs";
    let events = [call(&json!({"path": "src/b.rs"})), output("error: E0308")];
    let message = "appended 1 error code, 1 path that the summary lacked";
    check(&events, "E03081 and xsrc/b.rs", LIMIT, expected, Some(message));
}

#[test]
fn constraints_precede_newer_facts() {
    let limit = SectionLimit { bytes: 95, other_bytes: 95 };
    let expected =
        "S\n\n## Kept verbatim\n\nConstraints of the user, the latest last:\n- Always test.\n- Never push.";
    let events = [user("Always test."), user("Never push."), call(&json!({"command": "make"}))];
    let message = "appended 2 constraints that the summary lacked; left out 1 command for lack of room";
    check(&events, "S", limit, expected, Some(message));
}

#[test]
fn newest_facts_are_kept() {
    let limit = SectionLimit { bytes: 81, other_bytes: 81 };
    let reads: Vec<Value> = (0..9).map(|n| call(&json!({"path": format!("src/{n}.rs")}))).collect();
    let again = [&reads[..], &reads[2..3]].concat();
    let expected = "S\n\n## Kept verbatim\n\nPaths:\n- src/8.rs\n- src/2.rs";
    let message = "appended 2 paths that the summary lacked; left out 7 paths for lack of room";
    check(&again, "S", limit, expected, Some(message));
    // The output of a tool names a path that was not used.
    let listed = [&reads[..2], &[output("src/x.rs src/y.rs")]].concat();
    let expected = "S\n\n## Kept verbatim\n\nPaths:\n- src/0.rs\n- src/1.rs";
    let message = "appended 2 paths that the summary lacked; left out 2 paths for lack of room";
    check(&listed, "S", limit, expected, Some(message));
}

#[test]
fn long_command_leaves_room_for_other_facts() {
    let limit = SectionLimit { bytes: 400, other_bytes: 400 };
    let events = [call(&json!({"command": "x ".repeat(150)})), call(&json!({"path": "src/a.rs"}))];
    let expected = "S\n\n## Kept verbatim\n\nPaths:\n- src/a.rs";
    let message = "appended 1 path that the summary lacked; left out 1 command for lack of room";
    check(&events, "S", limit, expected, Some(message));
}

#[test]
fn lost_constraint_is_a_warning() {
    let limit = SectionLimit { bytes: 10, other_bytes: 10 };
    let diagnostic = facts(&[user("Never push."), filler()]).append_to("S", limit).diagnostic.unwrap();
    assert_eq!(
        (diagnostic.severity, &*diagnostic.code),
        (jp_compact_schema::Severity::Warning, "kept_verbatim")
    );
    assert_eq!(diagnostic.message, "left out 1 constraint for lack of room");
}

#[test]
fn summary_stays_shorter_than_its_events() {
    let facts = facts(&[user("Never push. Always pull."), assistant(&"x".repeat(70))]);
    let text = facts.append_to("They talked.", LIMIT).text;
    assert!(text.contains("Always pull.") && !text.contains("Never push."), "{text}");
    assert!(text.chars().count() < 94, "{text}");
}

#[test]
fn blank_summary_stays_blank() {
    for blank in ["", " \n", "## Kept verbatim\n\nPaths:\n- src/b.rs"] {
        let text = facts(&[&work()[..], &[filler()]].concat()).append_to(blank, LIMIT).text;
        assert_eq!(text, blank);
    }
}

#[test]
fn section_of_a_model_is_replaced() {
    let facts = facts(&[&work()[..], &[filler()]].concat());
    let expected = facts.append_to("They fixed it.\n\n- own.rs", LIMIT).text;
    for heading in ["## Kept verbatim", "**Kept verbatim:**", "# KEPT VERBATIM"] {
        let copied = format!(
            "They fixed it.\n\n{heading}\n\nPaths:\n- src/b.rs\n- own.rs\n\n  - doc/a.md\n**Error codes**\n- E0308\n"
        );
        assert_eq!(facts.append_to(&copied, LIMIT).text, expected);
    }
    let between = "A\n## Kept verbatim\nPaths:\n- src/b.rs\n## Next\nPaths:\n- src/b.rs";
    assert_eq!(without_section(between), "A\n## Next\nPaths:\n- src/b.rs");
    assert_eq!(without_section("Kept verbatim\nPaths:"), "Kept verbatim\nPaths:", "not a heading");
}

#[test]
fn result_with_its_section_is_unchanged() {
    let facts = facts(&[&work()[..], &[filler()]].concat());
    let once = facts.append_to("They fixed it.", LIMIT);
    assert_eq!(facts.append_to(&once.text, LIMIT), once);
}

#[test]
fn section_in_a_copy_of_a_transcript_is_read_again() {
    let section = facts(&[&work()[..], &[filler()]].concat()).append_to("They fixed it.", LIMIT).text;
    let indented: String = section.lines().map(|line| format!("\n    {line}")).collect();
    let note = format!("{}{indented}", jp_compact_schema::SUMMARY_NOTE);
    // Some agents store a summary as a message of the user.
    for copy in [assistant(&section), user(&note), user(&section)] {
        let text = facts(&[copy, filler()]).append_to("Later.", LIMIT).text;
        assert_eq!(text, section.replace("They fixed it.", "Later."));
    }
}

#[test]
fn attachments_and_tool_results_are_not_constraints() {
    let attached =
        json!({"type": "chat_request", "content": "Never push.", "metadata": {"attachment": "a.md"}});
    let events = [attached, output("You must never stop."), assistant("I must not push.")];
    let expected = "S\n\n## Kept verbatim\n\nPaths:\n- a.md";
    check(&events, "S", LIMIT, expected, Some("appended 1 path that the summary lacked"));
}

#[test]
fn events_outside_the_range_are_skipped() {
    let mut facts = KeptFacts::new(Range { to_step: Some(1), ..Range::turns(0, 0) });
    for (step, event) in [
        (None, user("Never push.")),
        (Some(0), call(&json!({"path": "a.rs"}))),
        (Some(1), filler()),
        (Some(2), call(&json!({"path": "b.rs"}))),
    ] {
        let raw = serde_json::value::to_raw_value(&event).unwrap();
        let line = EventLine { step, ..EventLine::new(0, 0, 1, raw) };
        facts.add(&line, &EventBody::parse(&line));
    }
    assert_eq!(facts.append_to("S", LIMIT).text, "S\n\n## Kept verbatim\n\nPaths:\n- a.rs");
}
