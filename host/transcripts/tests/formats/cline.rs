//! Cline's sessions: messages in Anthropic's form, whose tool results are JSON values and not blocks.

use jp_compact_transcripts::{self as transcripts, Format};

use crate::check_format;
use crate::event_text::{events, sample, stripped, summarized};

#[test]
fn all_samples_round_trip() {
    check_format(Format::Cline, "cline");
}

#[test]
fn messages_are_events_and_displayed_ones_are_not() {
    let expected = "\
0 asks <user_input mode=\"act\">Why does the tap drip? “ö”<
0 thinks Look at the log first.
0 says I look.
0 calls run_commands {\"commands\":[\"cat tap.log\"]}
0 answers [{\"query\":\"cat tap.log\",\"result\":\"drip ö\\ndrip\",\"s
0 says The washer is worn.
1 asks <user_input mode=\"act\">And the rose?</user_input>
1 says Roses bloom.";
    assert_eq!(events(&sample(Format::Cline, "cline.json")), expected);
}

#[test]
fn result_is_replaced_as_a_whole() {
    let stream = sample(Format::Cline, "cline.json");
    let text = stripped(&stream);
    assert!(text.contains(r#""content": "[compacted] run_commands: success""#), "{text}");
    let reread = transcripts::read(Format::Cline, summarized(&stream, 0, 0).into_bytes().into()).unwrap();
    assert!(
        events(&reread)
            .starts_with("0 asks [Summary of previous conversation]\n0 says In short.\n1 asks <user")
    );
}
