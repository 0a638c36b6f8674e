//! Strategies and options as the user types them.

use jp_compact_core::spec::{Options, Spec, parse_object, parse_values};
use serde_json::{Value, json};

#[track_caller]
fn check_pairs(text: &str, name: &str, expected: &[(&str, &str)]) {
    let expected = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(text.parse(), Ok(Spec { name: name.into(), options: Options::Pairs(expected) }));
}

#[test]
fn parses_name_with_and_without_pairs() {
    check_pairs("strip-tools", "strip-tools", &[]);
    check_pairs("s:a=1", "s", &[("a", "1")]);
    check_pairs("s:a=1,b=two", "s", &[("a", "1"), ("b", "two")]);
    check_pairs("s:a=x=y", "s", &[("a", "x=y")]);
    check_pairs("s:a=", "s", &[("a", "")]);
    check_pairs("s:url=http://host:1/", "s", &[("url", "http://host:1/")]);
}

#[test]
fn splits_at_commas_outside_quotes_and_brackets() {
    check_pairs(r#"s:a=["x","y"],b=2"#, "s", &[("a", r#"["x","y"]"#), ("b", "2")]);
    check_pairs(r#"s:a={"x":1,"y":[2,3]},b=2"#, "s", &[("a", r#"{"x":1,"y":[2,3]}"#), ("b", "2")]);
    check_pairs(r#"s:a="x,y",b=2"#, "s", &[("a", r#""x,y""#), ("b", "2")]);
    check_pairs(r#"s:a="x\",y",b=2"#, "s", &[("a", r#""x\",y""#), ("b", "2")]);
    check_pairs("s:a=f(1,2),b=2", "s", &[("a", "f(1,2)"), ("b", "2")]);
    check_pairs("s:a=],b=2", "s", &[("a", "]"), ("b", "2")]);
    check_pairs("s:a=\u{e9},b=\u{1f600}", "s", &[("a", "\u{e9}"), ("b", "\u{1f600}")]);
}

#[test]
fn parses_json_objects_and_files() {
    let options = |text: &str| text.parse::<Spec>().unwrap().options;
    let Value::Object(map) = json!({"a": 1, "b": [2]}) else { unreachable!() };
    assert_eq!(options(r#"s:{"a": 1, "b": [2]}"#), Options::Object(map));
    assert_eq!(options("s:@options.json"), Options::File("options.json".into()));
    assert_eq!(options("s:@/a:b,c=d"), Options::File("/a:b,c=d".into()));
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = text.parse::<Spec>().unwrap_err();
    assert!(error.starts_with(expected), "{text}: {error}");
}

#[test]
fn rejects_invalid_specs() {
    check_error("", "expected NAME");
    check_error(":a=1", "expected NAME");
    check_error("s:", "expected `key=value`, not ``");
    check_error("s:a", "expected `key=value`, not `a`");
    check_error("s:a=1,", "expected `key=value`, not ``");
    check_error("s:a=1,a=2", "option `a` is given twice");
    check_error("s:@", "expected a file name after `@`");
    check_error(r#"s:{"a":1,"a":2}"#, "option `a` is given twice");
    check_error(r#"s:{"a":1"#, "EOF");
    check_error(r#"s:{"a":1} x"#, "trailing characters");
    assert!(parse_object("[1]").is_err());
}

fn schema() -> Value {
    json!({"properties": {
        "text": {"type": "string"}, "count": {"type": "integer"}, "on": {"type": "boolean"},
        "mode": {"enum": ["strip", "omit"]}, "fixed": {"const": "x"}, "mixed": {"enum": ["a", 1]},
        "either": {"anyOf": [{"type": "string"}, {"const": "y"}]}, "or_null": {"oneOf": [{"type": "string"}, {"type": "null"}]},
        "several": {"type": ["string", "null"]}, "list": {"type": "array"}, "any": {},
    }})
}

#[track_caller]
fn check_typed(key: &str, text: &str, expected: Value) {
    let options = parse_values(&[(key.into(), text.into())], Some(&schema())).unwrap();
    assert_eq!(options[key], expected, "{key}={text}");
}

#[test]
fn keeps_text_for_string_options() {
    check_typed("text", "5", json!("5"));
    check_typed("text", r#""5""#, json!(r#""5""#));
    check_typed("mode", "strip", json!("strip"));
    check_typed("fixed", "x", json!("x"));
    check_typed("either", "z", json!("z"));
}

#[test]
fn parses_json_for_other_options() {
    check_typed("count", "5", json!(5));
    check_typed("on", "true", json!(true));
    check_typed("list", "[1,\"a\"]", json!([1, "a"]));
    check_typed("mixed", "1", json!(1));
    check_typed("several", "null", json!(null));
    check_typed("or_null", r#""z""#, json!("z"));
    check_typed("any", "{}", json!({}));
}

#[track_caller]
fn check_option_error(key: &str, text: &str, schema: Option<&Value>, expected: &str) {
    let error = parse_values(&[(key.into(), text.into())], schema).unwrap_err();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn rejects_unknown_options_and_invalid_json() {
    check_option_error("count", "five", Some(&schema()), "option `/count`: expected JSON, not `five`: ");
    check_option_error(
        "cuont",
        "5",
        Some(&schema()),
        "option `cuont` is unknown; known options: `text`, `count`, `on`, ",
    );
    check_option_error("a", "5", None, "option `a` is unknown; the strategy has no options");
    check_option_error("a", "5", Some(&json!({})), "option `a` is unknown; the strategy has no options");
}
