//! The Gemini API's contents: matching of calls, signatures, and alternating roles.

use jp_compact_transcripts::{self as transcripts, Format};

use serde_json::json;

use crate::check_format;
use crate::event_list::assistant;
use crate::event_text::{
    events, metadata, new_lines, sample, stripped, summarized, without_calls, without_reasoning,
};

#[test]
fn all_samples_round_trip() {
    check_format(Format::Gemini, "google-contents");
}

#[test]
fn calls_and_results_are_matched_by_name_in_order() {
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
    let pairs = jp_compact_core::Pairs::new(&stream);
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
fn content_without_parts_is_empty_and_kept() {
    let stream = sample(Format::Gemini, "gemini-checkpoint.json");
    assert!(events(&stream).ends_with("1 says Done.\n2 asks Thanks."));
    assert!(
        stripped(&stream)
            .ends_with("[{\"text\":\"Thanks.\"}]},{\"role\":\"model\"}],\"authType\":\"oauth-personal\"}\n")
    );
}

#[test]
fn invalid_content_is_refused_with_its_offset() {
    for (text, at, what) in [
        ("{\"contents\": 3}", 13, "the contents are not an array"),
        ("{\"contents\": [3]}", 14, "a content is not an object"),
        ("{\"contents\": []}\n{\"a\": 1}\n", 17, "line 2: not a transcript of the Gemini API"),
    ] {
        let error = transcripts::read(Format::Gemini, text.as_bytes().to_vec().into()).unwrap_err();
        assert!(error.offset == at && error.reason.contains(what), "{error}");
    }
}

#[test]
fn signature_is_metadata_of_its_part() {
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
fn stripped_reasoning_removes_the_signature_after_it() {
    let stream = sample(Format::Gemini, "gemini.json");
    let changed_lines = new_lines(&without_reasoning(&stream), &stream);
    assert_eq!(changed_lines, [r#"      {"functionCall": {"name": "read", "args": {"path": "tap.log"}}},"#]);
}

#[test]
fn stripped_result_keeps_its_kind() {
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
fn empty_contents_are_deleted_and_neighbors_merged() {
    let stream = sample(Format::Gemini, "gemini.json");
    let expected = [
        r#"      {"text": "I look at the \"log\"."}, {"executableCode": {"language": "PYTHON", "code": "print(12)"}},"#,
        r#"    {"role": "user", "parts": [{"text": "Measure it."}, {"text": "Twice."}, {"text": "(It is still wet.)"}]},"#,
        r#"    {"role": "user", "parts": [{"fileData": {"mimeType": "application/pdf", "fileUri": "gs://garden/rose.pdf"}}, {"text": "And the hedge?"}]},"#,
    ];
    assert_eq!(new_lines(&without_calls(&stream), &stream), expected);
}

#[test]
fn system_prompt_is_read() {
    let imported = jp_compact_transcripts::import::import(&sample(Format::Gemini, "gemini.json"));
    assert!(String::from_utf8(imported.base_config).unwrap().contains("You tend a garden."));
}

#[test]
fn model_and_system_prompt_of_a_batch_are_read() {
    let line = r#"{"key":"k","request":{"model":"models/gemini-9-pro","systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}}"#;
    for text in [line.to_owned(), format!("{line}\n"), format!("{line}\n{{\"cut")] {
        let stream = transcripts::read(Format::Gemini, text.into_bytes().into()).unwrap();
        let assistant = assistant(&stream);
        assert_eq!(assistant["model"]["id"], json!({"provider": "google", "name": "gemini-9-pro"}));
        assert_eq!(assistant["system_prompt"], "Be brief.");
    }
}

#[test]
fn hosted_tools_and_image_reasoning_are_read() {
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
    let text = summarized(&stream, 1, 2);
    assert!(!text.contains("GOOGLE") && !text.contains("c2lnMw=="), "{text}");
    assert!(stripped(&stream).contains("\"response\": {\"output\":\"[compacted] hose: success\"}"));
}
