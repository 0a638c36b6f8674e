//! Invalid streams: each error names the byte and, if it is in an element, the element.

use bytes::Bytes;
use jp_compact_core::Stream;
use jp_compact_core::event::Kind;
use jp_compact_core::index::{Unreadable, index};
use serde_json::{Value, json};

use crate::build::{Build, timestamp_text};

#[track_caller]
fn error(bytes: &[u8]) -> Unreadable {
    let error = index(Bytes::copy_from_slice(bytes)).unwrap_err();
    assert!(error.offset <= bytes.len(), "{error}");
    error
}

#[track_caller]
fn check_error(bytes: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(error(bytes.as_ref()).to_string(), expected);
}

#[test]
fn rejects_input_that_is_not_an_array() {
    check_error("", "byte 0: the file is empty, expected a JSON array");
    check_error(" \n", "byte 0: the file is empty, expected a JSON array");
    check_error("hello", "byte 0: not a JSON value");
    check_error("{}", "byte 0: expected a JSON array of events");
    check_error("\n {\"type\":\"turn_start\"}", "byte 2: expected a JSON array of events");
    check_error("null", "byte 0: expected a JSON array of events");
    check_error("\"[]\"", "byte 0: expected a JSON array of events");
    check_error("{\"a\":}", "byte 5: not a JSON value");
    check_error("\u{feff}[]", "byte 0: not a JSON value");
    check_error("[]x", "byte 2: text after the closing `]`");
    check_error("[] []", "byte 3: text after the closing `]`");
    check_error("[\0]", "element 0 (byte 1): not a JSON value");
    check_error("[{}{}]", "byte 3: expected `,` or `]` between events");
    check_error("[{},]", "element 1 (byte 4): not a JSON value");
    check_error("[{}", "byte 3: the input ends in the middle of a value");
}

#[test]
fn reports_position_of_invalid_utf8() {
    check_error(b"[{\"a\":\"x\xff\"}]", "element 0 (byte 8): invalid UTF-8");
    check_error(b"[{},{\"\xc3\":1}]", "element 1 (byte 6): invalid UTF-8");
    check_error(b"[{}\xff]", "byte 3: expected `,` or `]` between events");
    check_error(b"\xff\xfe[\0]\0", "byte 0: not a JSON value");
}

#[test]
fn rejects_stream_truncated_anywhere_but_at_final_newline() {
    let complete = Build::turns(1)
        .say("\n")
        .unknown()
        .element(crate::build::compaction(60, 0, 0, json!({"reasoning": "strip"})))
        .bytes();
    assert!(Stream::parse(complete.clone()).is_ok());
    for end in 0..complete.len() - 1 {
        let error = error(&complete[..end]);
        assert!(
            error.offset == end || (error.offset == 0 && complete[..end].is_empty()),
            "cut at {end}: {error}"
        );
    }
    assert!(Stream::parse(complete.slice(..complete.len() - 1)).is_ok());
}

#[test]
fn has_nesting_limit_of_jp() {
    let prefix = format!(r#"[{{"type":"x","timestamp":"{}","v":"#, timestamp_text(0));
    let nested = |depth: usize| format!("{prefix}{}{}}}]", "[".repeat(depth), "]".repeat(depth));
    assert!(Stream::parse(nested(125).into()).is_ok());
    check_error(
        nested(126),
        &format!("element 0 (byte {}): values nest deeper than 127 levels", prefix.len() + 125),
    );
    for depth in [200, 100_000] {
        assert_eq!(error(nested(depth).as_bytes()).element, Some(0));
    }
    check_error("[".repeat(200), "element 0 (byte 127): values nest deeper than 127 levels");
    let value: Value = serde_json::from_str(&nested(125)).unwrap();
    assert!(value.is_array(), "values within the limit can be read");
}

/// Checks an element without a member, or with an invalid member, after two valid elements.
#[track_caller]
fn check_member(kind: &str, members: Value, expected: &str) {
    let mut element = json!({"type": kind, "timestamp": timestamp_text(0)});
    element.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let bytes = Build::default().turn().unknown().element(element).bytes();
    let error = error(&bytes);
    assert_eq!((error.element, error.reason.as_str()), (Some(2), expected));
    assert!(bytes[error.offset..].starts_with(b"{"), "{error}");
}

#[test]
fn missing_or_wrong_members_name_element_and_field() {
    check_member("chat_request", json!({}), "the `content` of the `chat_request` is missing");
    check_member(
        "chat_request",
        json!({"content": 5}),
        "the `content` of the `chat_request` must be a string",
    );
    check_member("chat_response", json!({}), "a `chat_response` has no `message`, `reasoning` or `data`");
    check_member(
        "chat_response",
        json!({"message": 5}),
        "a `chat_response` has no `message`, `reasoning` or `data`",
    );
    let (call, response) = ("tool_call_request", "tool_call_response");
    check_member(call, json!({"name": "t"}), "the `id` of the `tool_call_request` is missing");
    check_member(call, json!({"id": "a"}), "the `name` of the `tool_call_request` is missing");
    check_member(call, json!({"id": 1, "name": "t"}), "the `id` of the `tool_call_request` must be a string");
    check_member(
        call,
        json!({"id": "a", "name": "t", "arguments": "{}"}),
        "the `arguments` of the `tool_call_request` must be an object",
    );
    check_member(
        response,
        json!({"content": "", "is_error": true}),
        "the `id` of the `tool_call_response` is missing",
    );
    check_member(
        response,
        json!({"id": "a", "is_error": true}),
        "the `content` of the `tool_call_response` is missing",
    );
    check_member(
        response,
        json!({"id": "a", "content": ""}),
        "the `is_error` of the `tool_call_response` is missing",
    );
    check_member(
        response,
        json!({"id": "a", "content": "", "is_error": "no"}),
        "the `is_error` of the `tool_call_response` must be true or false",
    );
    check_member(
        "inquiry_request",
        json!({"source": 1, "question": 1}),
        "the `id` of the `inquiry_request` is missing",
    );
    check_member(
        "inquiry_request",
        json!({"id": "a", "question": 1}),
        "the `source` of the `inquiry_request` is missing",
    );
    check_member(
        "inquiry_request",
        json!({"id": "a", "source": 1}),
        "the `question` of the `inquiry_request` is missing",
    );
    check_member("inquiry_response", json!({"answer": 1}), "the `id` of the `inquiry_response` is missing");
    check_member("inquiry_response", json!({"id": "a"}), "the `answer` of the `inquiry_response` is missing");
    check_member(
        "turn_start",
        json!({"metadata": []}),
        "the `metadata` of the `turn_start` must be an object",
    );
    for kind in ["turn_start", "config_delta", "compaction", "jp_compact_overlay", "jp_compact_receipt"] {
        check_member(
            kind,
            json!({"timestamp": "yesterday"}),
            &format!("the `timestamp` of the `{kind}` is not a valid time: `yesterday`"),
        );
    }
}

#[test]
fn last_of_duplicate_members_counts() {
    let element = format!(
        r#"[{{"type":"x","type":"chat_request","timestamp":"{}","content":5,"content":"a","c\u006fntent":"b"}}]"#,
        timestamp_text(0)
    );
    let stream = Stream::parse(element.into()).unwrap();
    assert_eq!(stream.events()[0].kind, Kind::ChatRequest);
    assert_eq!(stream.text(stream.events()[0].body), "b");
}

/// Checks that an element is kept and makes no turn. See `append` for elements that prevent an append.
#[track_caller]
fn check_unknown(element: Value) {
    let stream = Build::default().element(element.clone()).ask("").stream();
    let event = stream.events()[0];
    assert_eq!(
        (event.kind, event.turn, event.seq, stream.turns()),
        (Kind::Unknown, 0, Some(0), 1),
        "{element}"
    );
    assert_eq!(stream.value(event.span), Some(element));
}

#[test]
fn keeps_elements_without_type_or_timestamp_as_unknown() {
    check_unknown(json!({"note": 1}));
    check_unknown(json!({"timestamp": timestamp_text(0)}));
    check_unknown(json!({"type": "bookmark"}));
    check_unknown(json!({"type": null, "timestamp": timestamp_text(0)}));
    check_unknown(json!({"type": "chat_request", "content": "no time"}));
    check_unknown(json!({"type": "turn_start"}));
    check_unknown(json!({"type": "compaction", "from_turn": "x"}));
    check_unknown(json!({"type": "tool_call_request", "timestamp": null}));
    check_unknown(json!({"type": "bookmark", "timestamp": "yesterday"}));
    check_unknown(json!("text"));
    check_unknown(json!([1]));
    check_unknown(json!(null));
}

#[test]
fn accepts_old_config_delta_without_timestamp() {
    let stream = Build::default().element(json!({"type": "config_delta", "delta": {}})).ask("").stream();
    let event = stream.events()[0];
    assert_eq!((event.kind, event.seq, event.timestamp), (Kind::ConfigDelta, None, None));
    assert!(jp_compact_core::append::check_loadable(&stream).is_err());
}

#[test]
fn accepts_empty_array_and_single_line() {
    let empty = Stream::parse(Bytes::from_static(b"[]")).unwrap();
    assert_eq!((empty.turns(), empty.events().len()), (0, 0));
    let text = "\u{e9}\\n".repeat(1 << 20);
    let source =
        format!(r#"[{{"type":"chat_request","timestamp":"{}","content":"{text}"}}]"#, timestamp_text(0));
    let stream = Stream::parse(source.into()).unwrap();
    assert_eq!(stream.text(stream.events()[0].body).chars().count(), 2 << 20);
}
