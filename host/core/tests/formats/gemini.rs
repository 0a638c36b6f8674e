//! Google's contents, closely.

use jp_compact_core::formats::{self, Format};

use crate::check_format;
use crate::shape::{
    events, metadata, new_lines, sample, stripped, summarised, without_calls, without_reasoning,
};

#[test]
fn every_sample() {
    check_format(Format::Gemini, "google-contents");
}

#[test]
fn calls_and_answers_are_paired_by_name_and_in_order() {
    let stream = sample(Format::Gemini, "gemini.json");
    let expected = "\
0 asks Why does the tap drip? The log says “ö”./[image]
0 thinks Look at the log first.
0 says I look at the \"log\".
0 calls read {\"path\":\"tap.log\"}
0 calls list {}
0 calls read {\"path\":\"other.log\"}
0 fails no such folder
0 answers 1\tdrip ö
0 answers {\"lines\": 2, \"text\": \"drip and drip\"}
0 says print(12)
0 says 12/
0 says The washer is worn.
1 asks Measure it./Twice.
1 calls measure {\"what\":\"washer\"}
1 answers 12 mm
1 calls measure {\"what\":\"washer\",\"again\":true}
1 answers
1 asks (It is still wet.)
1 says About 12 mm.
2 asks [image]
2 calls cut {\"what\":\"rose\"}
3 asks And the hedge?
3 calls cut {\"what\":\"hedge\"}
3 answers cut
3 says [image]
3 says Cut in May.
4 asks And the lawn?
4 says In April.";
    assert_eq!(events(&stream), expected);
    let pairs = jp_compact_core::Pairs::of(&stream);
    let calls = stream.events().iter().enumerate().filter(|(_, event)| !event.name.is_empty());
    let answers =
        calls.map(|(call, _)| pairs.partner(call).map(|answer| stream.text(stream.events()[answer].body)));
    let expected = [
        Some("1\tdrip ö"),
        Some("no such folder"),
        Some("{\"lines\": 2, \"text\": \"drip and drip\"}"),
        Some("12 mm"),
        Some(""),
        None,
        Some("cut"),
    ];
    assert!(answers.map(|answer| answer.map(Into::into)).eq(expected.map(|text| text.map(String::from))));
}

#[test]
fn an_answer_that_never_came_says_nothing_and_stays() {
    let stream = sample(Format::Gemini, "gemini-checkpoint.json");
    assert!(events(&stream).ends_with("1 says Done.\n2 asks Thanks."));
    assert!(
        stripped(&stream)
            .ends_with("[{\"text\":\"Thanks.\"}]},{\"role\":\"model\"}],\"authType\":\"oauth-personal\"}\n")
    );
}

#[test]
fn what_is_no_content_is_refused_where_it_stands() {
    for (text, at, what) in [
        ("{\"contents\": 3}", 13, "the contents are no array"),
        ("{\"contents\": [3]}", 14, "a content that is no object"),
        ("{\"contents\": []}\n{\"a\": 1}\n", 17, "line 2: no transcript of Google's contents"),
    ] {
        let wrong = formats::read(Format::Gemini, text.as_bytes().to_vec().into()).unwrap_err();
        assert!(wrong.at == at && wrong.what.contains(what), "{wrong}");
    }
}

#[test]
fn a_signature_is_kept_with_the_part_that_bore_it() {
    for (name, expected) in [
        ("gemini.json", vec!["c2lnbmF0dXJlLW9uZQ==", "bWVhc3VyZQ=="]),
        ("gemini-checkpoint.json", vec!["Y2Fu"]),
        ("gemini-bare.json", vec!["c293"]),
    ] {
        let expected = expected.iter().map(|text| format!("{{\"google_thought_signature\":\"{text}\"}}"));
        assert!(metadata(&sample(Format::Gemini, name)).into_iter().eq(expected), "{name}");
    }
}

#[test]
fn a_stripped_thought_takes_its_signature_from_what_it_led_to() {
    let stream = sample(Format::Gemini, "gemini.json");
    let fresh = new_lines(&without_reasoning(&stream), &stream);
    assert_eq!(fresh, [r#"      {"functionCall": {"name": "read", "args": {"path": "tap.log"}}},"#]);
}

#[test]
fn what_is_stripped_is_an_answer_of_the_same_kind() {
    let stream = sample(Format::Gemini, "gemini.json");
    let expected = [
        r#"      {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "c2lnbmF0dXJlLW9uZQ=="},"#,
        r#"      {"functionCall": {"name": "read", "args": {}}}"#,
        r#"      {"functionResponse": {"name": "list", "response": {"error":"[compacted] list: error"}}},"#,
        r#"      {"functionResponse": {"name": "read", "response": {"output":"[compacted] read: success"}}},"#,
        r#"      {"functionResponse": {"name": "read", "response": {"output":"[compacted] read: success"}, "parts": []}}"#,
    ];
    assert_eq!(new_lines(&stripped(&stream), &stream)[..5], expected);
    let bare = sample(Format::Gemini, "gemini-bare.json");
    let expected = [
        r#"      { "function_call": { "name": "sow", "args": {} }, "thought_signature": "c293" }"#,
        r#"    "parts": [{ "function_response": { "name": "sow", "response": {"output":"[compacted] sow: success"} } }],"#,
    ];
    assert_eq!(new_lines(&stripped(&bare), &bare), expected);
}

#[test]
fn a_content_of_which_nothing_is_left_goes_and_neighbours_of_one_role_become_one() {
    let stream = sample(Format::Gemini, "gemini.json");
    let expected = [
        r#"      {"text": "I look at the \"log\"."}, {"executableCode": {"language": "PYTHON", "code": "print(12)"}},"#,
        r#"    {"role": "user", "parts": [{"text": "Measure it."}, {"text": "Twice."}, {"text": "(It is still wet.)"}]},"#,
        r#"    {"role": "user", "parts": [{"fileData": {"mimeType": "application/pdf", "fileUri": "gs://garden/rose.pdf"}}, {"text": "And the hedge?"}]},"#,
    ];
    assert_eq!(new_lines(&without_calls(&stream), &stream), expected);
}

#[test]
fn what_the_model_is_told_of_its_part_is_found() {
    let imported = jp_compact_core::import::import(&sample(Format::Gemini, "gemini.json"));
    assert!(String::from_utf8(imported.base_config).unwrap().contains("You tend a garden."));
}

#[test]
fn what_googles_own_tools_did_and_thoughts_that_are_pictures_are_read() {
    let stream = sample(Format::Gemini, "gemini-own-tools.json");
    let expected = [
        "0 asks Draw a dry bed.",
        "0 thinks [image]",
        "0 thinks Too wet still.",
        "0 says [image]",
        "1 asks Is it dry today?",
        "1 says [toolCall]",
        "1 says [toolResponse]",
        "2 asks And the hose?",
        "2 calls hose {\"on\":true}",
        "2 calls tap {}",
        "2 answers",
        "2 answers null",
        "2 says",
        "3 asks Well?",
        "3 says It is on.",
    ];
    assert_eq!(events(&stream), expected.join("\n"));
    let text = without_reasoning(&stream);
    assert!(!text.contains("aGFsZg==") && !text.contains("c2ln\"") && text.contains("iVBORw0K"), "{text}");
    let text = summarised(&stream, 1, 2);
    assert!(!text.contains("GOOGLE") && !text.contains("c2lnMw=="), "{text}");
    assert!(stripped(&stream).contains("\"response\": {\"output\":\"[compacted] hose: success\"}"));
}
