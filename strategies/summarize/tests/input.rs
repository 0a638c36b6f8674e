//! The part of the transcript that the model sees: long texts are shortened to the budget of the window, and a range of
//! steps begins with the user's message.

use super::*;

#[test]
fn long_output_and_arguments_are_shortened() {
    let [request, response] = call(
        json!({"patch": "p".repeat(50_000), "path": "src/a.rs"}),
        &format!("HEAD{}TAIL", "o".repeat(100_000)),
        false,
    );
    let thought = json!({"type": "chat_response", "reasoning": format!("T1{}T2", "t".repeat(50_000))});
    let long = user(&"u".repeat(50_000));
    let content =
        only(&asked(0, None), &events(&[(0, request), (0, response), (0, thought), (0, long)])).content;
    for kept in [
        "  HEADooo",
        "oooTAIL\n",
        "[... 84008 characters left out ...]",
        "\"path\":\"src/a.rs\"",
        "  T1ttt",
        "tttT2\n",
    ] {
        assert!(content.contains(kept), "{kept}");
    }
    assert!(content.contains(&"u".repeat(50_000)), "a message of the user must not be shortened");
    assert!(content.len() < 105_000, "{}", content.len());
}

#[test]
fn a_large_window_shows_long_output_completely() {
    let output = |chars: usize| {
        let [request, response] = call(json!({}), &"o".repeat(chars), false);
        let mut events = events(&[(0, user("Go on.")), (0, request), (0, response)]);
        events[2].tokens = chars as u64 / 4;
        events
    };
    let diagnostics = |window: u64, chars: usize| {
        let (rounds, outcome) = play(&asked(0, Some(window)), &output(chars), |_| ok("S"));
        let shown: usize = rounds[0].iter().map(|need| need.content.matches('o').count()).sum();
        let found: Vec<_> = summary(outcome).1.into_iter().map(|found| (found.code, found.message)).collect();
        (shown >= chars, found)
    };
    assert_eq!(diagnostics(200_000, 100_000), (true, Vec::new()));
    let (is_complete, found) = diagnostics(32_000, 100_000);
    assert!(!is_complete);
    assert_eq!(found[0].0, "input_shortened");
    let message = &found[0].1;
    assert!(
        message.starts_with("1 long event was shortened: ") && message.ends_with(" of 100 KB shown"),
        "{message}"
    );
}

#[test]
fn range_of_steps_begins_with_the_users_messages() {
    let mut events = events(&[
        (0, user("Fix it.")),
        (0, assistant("STEP-0")),
        (0, user("And this.")),
        (0, assistant("STEP-1")),
        (0, user("Now that.")),
        (0, assistant("STEP-2")),
    ]);
    for (event, step) in events.iter_mut().zip([None, Some(0), None, Some(1), None, Some(2)]) {
        event.step = step;
    }
    let mut request = asked(0, Some(100_000));
    request.range = Range { from_turn: 0, from_step: Some(0), to_turn: 0, to_step: Some(1) };
    let content = only(&request, &events).content;
    for (text, is_shown) in [
        ("Fix it.", true),
        ("STEP-0", true),
        ("And this.", true),
        ("STEP-1", true),
        ("Now that.", false),
        ("STEP-2", false),
    ] {
        assert_eq!(content.contains(text), is_shown, "{text}");
    }
    let (_, outcome) = play(&request, &events, |_| ok("S"));
    let payload = summary(outcome).0;
    assert_eq!((payload.from_step, payload.to_step), (Some(0), Some(1)));
}
