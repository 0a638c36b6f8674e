//! Strategies and options as the user types them.

use jp_compact_core::spec::{Options, Spec, typed, whole};
use serde_json::{Value, json};

#[track_caller]
fn pairs(text: &str, name: &str, expected: &[(&str, &str)]) {
    let expected = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(text.parse(), Ok(Spec { name: name.into(), options: Options::Pairs(expected) }));
}

#[test]
fn parses_name_with_and_without_pairs() {
    pairs("strip-tools", "strip-tools", &[]);
    pairs("s:a=1", "s", &[("a", "1")]);
    pairs("s:a=1,b=two", "s", &[("a", "1"), ("b", "two")]);
    pairs("s:a=x=y", "s", &[("a", "x=y")]);
    pairs("s:a=", "s", &[("a", "")]);
    pairs("s:url=http://host:1/", "s", &[("url", "http://host:1/")]);
}

#[test]
fn splits_at_commas_outside_quotes_and_brackets() {
    pairs(r#"s:a=["x","y"],b=2"#, "s", &[("a", r#"["x","y"]"#), ("b", "2")]);
    pairs(r#"s:a={"x":1,"y":[2,3]},b=2"#, "s", &[("a", r#"{"x":1,"y":[2,3]}"#), ("b", "2")]);
    pairs(r#"s:a="x,y",b=2"#, "s", &[("a", r#""x,y""#), ("b", "2")]);
    pairs(r#"s:a="x\",y",b=2"#, "s", &[("a", r#""x\",y""#), ("b", "2")]);
    pairs("s:a=f(1,2),b=2", "s", &[("a", "f(1,2)"), ("b", "2")]);
    pairs("s:a=],b=2", "s", &[("a", "]"), ("b", "2")]);
    pairs("s:a=\u{e9},b=\u{1f600}", "s", &[("a", "\u{e9}"), ("b", "\u{1f600}")]);
}

#[test]
fn parses_json_objects_and_files() {
    let options = |text: &str| text.parse::<Spec>().unwrap().options;
    let Value::Object(map) = json!({"a": 1, "b": [2]}) else { unreachable!() };
    assert_eq!(options(r#"s:{"a": 1, "b": [2]}"#), Options::Whole(map));
    assert_eq!(options("s:@options.json"), Options::File("options.json".into()));
    assert_eq!(options("s:@/a:b,c=d"), Options::File("/a:b,c=d".into()));
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = text.parse::<Spec>().unwrap_err();
    assert!(error.starts_with(expected), "{text}: {error}");
}

#[test]
fn rejects_invalid_specs() {
    refused("", "expected NAME");
    refused(":a=1", "expected NAME");
    refused("s:", "expected `key=value`, not ``");
    refused("s:a", "expected `key=value`, not `a`");
    refused("s:a=1,", "expected `key=value`, not ``");
    refused("s:a=1,a=2", "option `a` is given twice");
    refused("s:@", "expected a file name after `@`");
    refused(r#"s:{"a":1,"a":2}"#, "option `a` is given twice");
    refused(r#"s:{"a":1"#, "EOF");
    refused(r#"s:{"a":1} x"#, "trailing characters");
    assert!(whole("[1]").is_err());
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
fn parses_to(key: &str, text: &str, expected: Value) {
    let options = typed(&[(key.into(), text.into())], Some(&schema())).unwrap();
    assert_eq!(options[key], expected, "{key}={text}");
}

#[test]
fn keeps_text_for_string_options() {
    parses_to("text", "5", json!("5"));
    parses_to("text", r#""5""#, json!(r#""5""#));
    parses_to("mode", "strip", json!("strip"));
    parses_to("fixed", "x", json!("x"));
    parses_to("either", "z", json!("z"));
}

#[test]
fn parses_json_for_other_options() {
    parses_to("count", "5", json!(5));
    parses_to("on", "true", json!(true));
    parses_to("list", "[1,\"a\"]", json!([1, "a"]));
    parses_to("mixed", "1", json!(1));
    parses_to("several", "null", json!(null));
    parses_to("or_null", r#""z""#, json!("z"));
    parses_to("any", "{}", json!({}));
}

#[track_caller]
fn rejects_option(key: &str, text: &str, schema: Option<&Value>, expected: &str) {
    let error = typed(&[(key.into(), text.into())], schema).unwrap_err();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn rejects_unknown_options_and_invalid_json() {
    rejects_option("count", "five", Some(&schema()), "option `/count`: expected JSON, not `five`: ");
    rejects_option(
        "cuont",
        "5",
        Some(&schema()),
        "option `cuont` is unknown; known options: `text`, `count`, `on`, ",
    );
    rejects_option("a", "5", None, "option `a` is unknown; the strategy has no options");
    rejects_option("a", "5", Some(&json!({})), "option `a` is unknown; the strategy has no options");
}
