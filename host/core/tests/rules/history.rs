//! The tokens of the view after each overlay. They must equal the tokens of views that are made separately. The work
//! must not grow quadratically with the number of overlays.

use std::sync::atomic::{AtomicUsize, Ordering};

use jp_compact_core::estimate::Estimator;
use jp_compact_core::projection::{project_with_overlays, view_tokens_after_each};
use jp_compact_core::{Stream, Survey};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::transcript;

fn tokens_after_each(stream: &Stream, estimator: Estimator) -> Vec<u64> {
    let survey = Survey::with_estimator(stream, estimator);
    view_tokens_after_each(stream, &survey.pairs, &survey.estimate)
}

proptest! {
    #[test]
    fn each_count_equals_the_count_of_a_separate_view(bytes in transcript()) {
        let stream = Stream::parse(bytes).unwrap();
        let survey = Survey::new(&stream);
        let overlays = stream.overlays();
        let views = (0..=overlays.len()).map(|count| project_with_overlays(&stream, &overlays[..count]));
        let expected: Vec<_> = views.map(|view| survey.estimate.view_tokens(&view)).collect();
        prop_assert_eq!(tokens_after_each(&stream, Estimator::Pieces), expected);
    }
}

/// Returns a conversation of four turns with `count` overlays. Their policies alternate.
fn with_overlays(count: usize) -> Stream {
    let time = |second: usize| {
        format!("2026-01-01 {:02}:{:02}:{:02}.0", second / 3600, second / 60 % 60, second % 60)
    };
    let mut events = Vec::new();
    for turn in 0..4 {
        let id = format!("c{turn}");
        for mut event in [
            json!({"type": "turn_start"}),
            json!({"type": "chat_request", "content": "What is in the file?"}),
            json!({"type": "chat_response", "reasoning": "I should look."}),
            json!({"type": "tool_call_request", "id": id, "name": "read", "arguments": {"path": "YQ=="}}),
            json!({"type": "tool_call_response", "id": id, "content": "bGluZSBvbmUgYW5kIGxpbmUgdHdvIGFuZCBsaW5lIHRocmVl", "is_error": false}),
            json!({"type": "chat_response", "message": "Three lines."}),
        ] {
            event["timestamp"] = json!(time(turn));
            events.push(event);
        }
    }
    for number in 0..count {
        let (from, to) = (number % 3, 3);
        let policy = match number % 4 {
            0 => json!({"reasoning": "strip"}),
            1 => json!({"tool_calls": {"policy": "strip", "request": true, "response": true}}),
            2 => json!({"tool_calls": {"policy": "omit"}}),
            _ => json!({"tool_calls": {"policy": "strip", "request": false, "response": true}}),
        };
        let mut overlay = json!({"timestamp": time(10 + number % 80_000), "type": "compaction", "from_turn": from, "to_turn": to});
        overlay.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
        events.push(overlay);
    }
    Stream::parse(Value::from(events).to_string().into_bytes().into()).unwrap()
}

/// The number of measured texts.
static MEASURED: AtomicUsize = AtomicUsize::new(0);

fn count_bytes(text: &str) -> u64 {
    MEASURED.fetch_add(1, Ordering::Relaxed);
    text.len() as u64
}

#[test]
fn work_is_not_quadratic_in_overlays() {
    let mut measured = Vec::new();
    for overlays in [1_200, 24_000] {
        let stream = with_overlays(overlays);
        let previous = MEASURED.load(Ordering::Relaxed);
        let tokens = tokens_after_each(&stream, Estimator::Exact(count_bytes));
        measured.push(MEASURED.load(Ordering::Relaxed) - previous);
        assert_eq!(tokens.len(), overlays + 1);
    }
    // The turns have the same few combinations of policies.
    assert_eq!(measured[0], measured[1]);
}
