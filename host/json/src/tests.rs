//! Tests of the scanner. It must accept exactly the input that `serde_json` accepts.

use super::*;
use proptest::prelude::*;

/// Returns whether the scanner accepts all of `bytes` as one value.
fn accepts(bytes: &[u8]) -> bool {
    let mut scanner = Scanner::at_byte(bytes, 0);
    scanner.value(0).is_ok() && scanner.peek().is_none()
}

#[track_caller]
fn check(json: &str) {
    let bytes = json.as_bytes();
    assert_eq!(accepts(bytes), serde_json::from_slice::<serde_json::Value>(bytes).is_ok(), "{json}");
}

#[test]
fn lenient_scanner_accepts_and_repairs() {
    for (input, expected) in [
        (r#""\uD83D""#, r#""\ufffd""#),
        (r#""a\udc00\ud83d\ude00b""#, r#""a\ufffd\ud83d\ude00b""#),
        (r#""\ud83d\ud83d\ude00\ud83d\u0041""#, r#""\ufffd\ud83d\ude00\ufffd\u0041""#),
        (
            r#"{"\ud83d": [1e400, -1E999, 5]}"#,
            r#"{"\ufffd": [1.7976931348623157e308, -1.7976931348623157e308, 5]}"#,
        ),
        (r#"[12345678901234567890123, "plain"]"#, r#"[12345678901234567890123, "plain"]"#),
    ] {
        let mut scanner = Scanner::lenient(input.as_bytes(), 0);
        assert!(scanner.value(0).is_ok() && scanner.peek().is_none(), "{input}");
        let repaired = String::from_utf8(repaired(input.as_bytes())).unwrap();
        assert_eq!(repaired, expected);
        check(&repaired);
        assert_eq!(accepts(input.as_bytes()), input == expected, "{input}");
    }
    assert!(Scanner::lenient(br#""\ud83d\u12""#, 0).value(0).is_err());
}

#[test]
fn agrees_with_serde_json_on_edge_cases() {
    for json in [
        "",
        " ",
        "null",
        "nul",
        "truefalse",
        "0",
        "-0",
        "-",
        "01",
        "-01",
        "1.",
        "1.5",
        ".5",
        "1e5",
        "1e",
        "1e+",
        "1E-7",
        "1e400",
        "-1e400",
        "123456789012345678901234567890",
        "\"",
        "\"a",
        "\"a\"",
        "\"\\\"",
        "\"\\n\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u0041\"",
        "\"\\uD800\"",
        "\"\\uDC00\"",
        "\"\\uD83D\\uDE00\"",
        "\"\\uD83D\\u0041\"",
        "\"\\uD83Dx\"",
        "\"\\u+123\"",
        "\"\n\"",
        "\"\u{7f}\"",
        "[",
        "]",
        "[]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{1:2}",
        "{\"a\":1 \"b\":2}",
        " [ 1 , 2 ] ",
        "[1]x",
        "\u{feff}[]",
        "NaN",
        "Infinity",
        "+1",
        "'a'",
        "[1]\n",
        "[\"\u{e9}\u{1F600}\"]",
    ] {
        check(json);
    }
}

#[test]
fn agrees_with_serde_json_on_escapes_at_any_position() {
    for before in (0..140).map(|length| "a".repeat(length)) {
        for escape in
            [r#"\""#, r"\\", r"\n\n", r"\u0041", r"\ud83d\ude00", r"\ud83d", r"\x", r"\", "\t", "\u{e9}"]
        {
            check(&format!("\"{before}{escape}\""));
            check(&format!("\"{before}{escape}b\""));
            check(&format!("[\"{before}{escape}\",\"{escape}\"]"));
        }
    }
}

#[test]
fn reports_whether_a_string_has_escapes() {
    for before in (0..140).map(|length| "a".repeat(length)) {
        for escape in ["", r#"\""#, r"\n", r"\u0041"] {
            for after in ["", "b", &"b".repeat(70)] {
                // The first string is in the same block as the beginning of the second one.
                for first in ["c", r"\n"] {
                    let json = format!("[\"{first}\",\"{before}{escape}{after}\"]");
                    let mut scanner = Scanner::at_byte(json.as_bytes(), 1);
                    let mut has_escapes = || scanner.value(0).map(|_| scanner.has_escapes());
                    assert_eq!(has_escapes(), Ok(first != "c"), "{json}");
                    assert!(scanner.take(b','));
                    let mut has_escapes = || scanner.value(0).map(|_| scanner.has_escapes());
                    assert_eq!(has_escapes(), Ok(!escape.is_empty()), "{json}");
                }
            }
        }
    }
}

#[test]
fn has_the_depth_limit_of_serde_json() {
    for depth in [1, 126, 127, 128, 200, 100_000] {
        check(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        check(&format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
    }
}

#[test]
fn reports_the_byte_of_the_error() {
    let mut scanner = Scanner::at_byte(b"[1, \"a\tb\"]", 0);
    assert_eq!(scanner.value(0), Err(Malformed { offset: 6, message: "a control character in a string" }));
    let mut scanner = Scanner::at_byte(b"[\"ab\xff\"]", 0);
    assert_eq!(scanner.value(0), Err(Malformed { offset: 4, message: "invalid UTF-8" }));
    let mut scanner = Scanner::at_byte(b"[\"\xc3\xa9\\n\xc3\\n\xff\"]", 0);
    assert_eq!(scanner.value(0), Err(Malformed { offset: 6, message: "invalid UTF-8" }));
}

/// Checks that `value`, which skips a container in a loop, finds the same end, error, and lenient spans as the
/// recursive `nested_value`.
#[track_caller]
fn check_loop(json: &str) {
    for new in [Scanner::at_byte, Scanner::lenient, Scanner::in_line] {
        let (mut by_loop, mut by_calls) = (new(json.as_bytes(), 0), new(json.as_bytes(), 0));
        let found = by_loop.value(0).map(drop);
        assert_eq!(found, by_calls.nested_value(0), "{json}");
        assert_eq!(by_loop.lenient_spans(), by_calls.lenient_spans(), "{json}");
        if found.is_ok() {
            assert_eq!(by_loop.at(), by_calls.at(), "{json}");
        }
    }
}

#[test]
fn loop_over_containers_agrees_with_calls() {
    for json in [
        r#"{"a": [1, {"b": {}}, []], "c": "d"} "#,
        r#"["\ud800", 1e999, {"\udc00": "#,
        r#"{"a": [1, 2}, "b"]"#,
        r#"[{"a": 1]}"#,
        r#"{"a" 1}"#,
        "{\"a\":\n1}",
        "[1,\n2]",
        "[1,]",
        "{,}",
    ] {
        check_loop(json);
    }
    for depth in [126, 127, 128] {
        check_loop(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth)));
        check_loop(&format!("{}[{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
    }
}

proptest! {
    #[test]
    fn loop_over_containers_agrees_with_calls_on_near_json(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", "[]", "{}", ",", ":", "\"a\":", "\"b\\n\"", "\"\\ud800\"", "1e999", "-1.5", "null", " ",
                "\n", "\"é\"", "\"",
            ]),
            0..24,
        ),
    ) {
        check_loop(&parts.concat());
    }

    #[test]
    fn agrees_with_serde_json_on_long_strings(
        text in prop::collection::vec(prop_oneof![200 => 0x20..=0x7Eu8, 1 => any::<u8>()], 0..400),
    ) {
        let bytes = [b"\"", &text[..], b"\""].concat();
        prop_assert_eq!(accepts(&bytes), serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
    }

    #[test]
    fn agrees_with_serde_json_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(accepts(&bytes), serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
    }

    #[test]
    fn agrees_with_serde_json_on_near_json(json in r#"[\[\]{}:,"\\ue0-9.+\-dDcC8atrfn lsu\n\x01é]{0,24}"#) {
        let is_json = serde_json::from_str::<serde_json::Value>(&json).is_ok();
        prop_assert_eq!(accepts(json.as_bytes()), is_json);
    }
}
