//! Values that are taken and values that are refused, per schema; the types and the schema must agree. The
//! few rules that JSON Schema cannot say are at the end, by their own function.

mod both;

use both::{accepts, through_schema, through_types};
use serde_json::Value;

#[track_caller]
fn refuses(name: &str, text: &str) {
    let value: Value = serde_json::from_str(text).expect("a refused value is JSON");
    assert!(through_types(name, text).is_err(), "the types take {text}");
    assert!(through_schema(name, &value).is_err(), "the schema takes {text}");
}

/// For what no JSON Schema sees: how a number was spelled, and whether a key stands twice.
#[track_caller]
fn types_refuse(name: &str, text: &str, why: &str) {
    let error = through_types(name, text).expect_err(text);
    assert!(error.contains(why), "{error}");
}

#[track_caller]
fn payload(policies: &str) -> String {
    format!(r#"{{"from_turn":0,"to_turn":1,{policies}}}"#)
}

#[track_caller]
fn accepts_payload(policies: &str) {
    accepts("compaction", &payload(policies));
    accepts("reply", &format!(r#"{{"type":"result","id":"c","compactions":[{}]}}"#, payload(policies)));
}

#[track_caller]
fn refuses_payload(policies: &str) {
    refuses("compaction", &payload(policies));
    refuses("reply", &format!(r#"{{"type":"result","id":"c","compactions":[{}]}}"#, payload(policies)));
}

#[test]
fn compactions_taken() {
    accepts_payload(r#""reasoning":"strip""#);
    accepts_payload(r#""reasoning":null,"summary":{"summary":"s"}"#);
    accepts_payload(r#""summary":{"summary":"a \u0007 \u001b[2J"}"#);
    accepts_payload(r#""tool_calls":{"policy":"omit"}"#);
    accepts_payload(r#""tool_calls":{"policy":"strip","request":false,"response":false}"#);
    accepts_payload(r#""tool_calls":{"response":true,"request":true,"policy":"strip"}"#);
    accepts_payload(r#""tool_calls":{"policy":"selective","calls":[{"seq":1,"request":"strip"}]}"#);
    accepts_payload(r#""tool_calls":{"policy":"selective","calls":[{"seq":1,"response":"strip"}]}"#);
    accepts_payload(r#""tool_calls":{"policy":"selective","calls":[{"seq":1,"response":{"replace":"x"}}]}"#);
    accepts_payload(r#""tool_calls":{"policy":"selective","calls":[{"seq":1,"omit":true}]}"#);
}

#[test]
fn a_compaction_is_spelled_exactly() {
    refuses_payload(r#""reasoning":"delete""#);
    refuses_payload(r#""reasoning":{"strip":null}"#);
    refuses_payload(r#""reasoning":0"#);
    refuses_payload(r#""reasoning":["strip"]"#);
    refuses_payload(r#""reasoning":"strip","evil":1"#);
    refuses_payload(r#""reasoning":"strip","timestamp":"9999-12-31T23:59:59Z""#);
    refuses_payload(r#""summary":"text""#);
    refuses_payload(r#""summary":["text"]"#);
    refuses_payload(r#""summary":{}"#);
    refuses_payload(r#""summary":{"summary":"s","model":"m"}"#);
    refuses_payload(r#""tool_calls":"strip""#);
    refuses_payload(r#""tool_calls":{"policy":"delete"}"#);
    refuses_payload(r#""tool_calls":{"policy":0,"request":true,"response":true}"#);
    refuses_payload(r#""tool_calls":{"request":true,"response":true}"#);
    refuses_payload(r#""tool_calls":{"policy":"strip","response":true}"#);
    refuses_payload(r#""tool_calls":{"policy":"strip","request":1,"response":true}"#);
    refuses_payload(r#""tool_calls":{"policy":"strip","request":true,"response":true,"x":1}"#);
    refuses_payload(r#""tool_calls":{"policy":"omit","request":true}"#);
    refuses_payload(r#""tool_calls":["omit"]"#);
}

#[test]
fn a_selective_call_is_spelled_exactly() {
    let call = |call: &str| format!(r#""tool_calls":{{"policy":"selective","calls":[{call}]}}"#);
    refuses_payload(&call(r#"{"request":"strip"}"#));
    refuses_payload(&call(r#"{"seq":-1,"request":"strip"}"#));
    refuses_payload(&call(r#"{"seq":"1","request":"strip"}"#));
    refuses_payload(&call(r#"{"seq":1,"request":{"strip":null}}"#));
    refuses_payload(&call(r#"{"seq":1,"request":{"replace":"x"}}"#));
    refuses_payload(&call(r#"{"seq":1,"response":{"strip":null}}"#));
    refuses_payload(&call(r#"{"seq":1,"response":{"replace":1}}"#));
    refuses_payload(&call(r#"{"seq":1,"response":{}}"#));
    refuses_payload(&call(r#"{"seq":1,"response":{"replace":"x","y":1}}"#));
    refuses_payload(&call(r#"{"seq":1,"omit":"yes"}"#));
    refuses_payload(&call(r#"{"seq":1,"drop":true}"#));
    refuses_payload(&call(r#"[1,"strip",null,false]"#));
    refuses_payload(r#""tool_calls":{"policy":"selective"}"#);
}

#[test]
fn a_turn_is_a_whole_number_from_zero() {
    for turn in ["-1", "0.5", "\"0\"", "null", "true", "[0]", "{}"] {
        refuses("compaction", &format!(r#"{{"from_turn":{turn},"to_turn":1,"reasoning":"strip"}}"#));
    }
    refuses("compaction", r#"{"to_turn":1,"reasoning":"strip"}"#);
    refuses("compaction", r#"{"from_turn":1,"reasoning":"strip"}"#);
    refuses("compaction", r#"[0,1,null,"strip",null]"#);
}

#[test]
fn replies_taken() {
    accepts("reply", r#"{"type":"progress","id":"c","done":1}"#);
    accepts("reply", r#"{"type":"log","id":"c","level":"warn","message":"m","extra":{"deep":[1]}}"#);
    accepts("reply", r#"{"type":"result","id":"c","compactions":[],"unknown":true}"#);
    accepts("reply", r#"{"type":"decline","id":"c","reason":"r"}"#);
    accepts("reply", r#"{"type":"error","id":"c","code":"x","message":"m","transient":true}"#);
    accepts("reply", r#"{"type":"needs","id":"c","requests":{"a":{"kind":"tokens.count","text":"t"}}}"#);
    accepts("reply", r#"{"type":"needs","id":"c","requests":{"a":{"kind":"image.caption","x":1}}}"#);
    accepts("reply", r#"{"type":"telemetry"}"#);
    accepts("reply", r#"{"x":1,"id":7,"type":"telemetry"}"#);
}

#[test]
fn replies_refused() {
    refuses("reply", "{}");
    refuses("reply", r#"[{"type":"decline","id":"c","reason":"r"}]"#);
    refuses("reply", r#"["decline","c","r"]"#);
    refuses("reply", r#"{"type":2,"id":"c","compactions":[]}"#);
    refuses("reply", r#"{"type":null}"#);
    refuses("reply", r#"{"type":"result","compactions":[]}"#);
    refuses("reply", r#"{"type":"result","id":1,"compactions":[]}"#);
    refuses("reply", r#"{"type":"result","id":"c"}"#);
    refuses("reply", r#"{"type":"result","id":"c","compactions":{}}"#);
    refuses("reply", r#"{"type":"result","id":"c","compactions":[[0,1,null,"strip",null]]}"#);
    refuses("reply", r#"{"type":"result","id":"c","compactions":[],"diagnostics":[["info","c","m"]]}"#);
    refuses("reply", r#"{"type":"decline","id":"c"}"#);
    refuses("reply", r#"{"type":"log","id":"c","level":"loud","message":"m"}"#);
    refuses("reply", r#"{"type":"log","id":"c","level":{"info":null},"message":"m"}"#);
    refuses("reply", r#"{"type":"progress","id":"c","done":-1}"#);
    refuses("reply", r#"{"type":"error","id":"c","code":"x"}"#);
    refuses("reply", r#"{"type":"needs","id":"c","requests":[]}"#);
    refuses("reply", r#"{"type":"needs","id":"c","requests":{"a":["tokens.count","t"]}}"#);
    refuses("reply", r#"{"type":"needs","id":"c","requests":{"a":{"kind":"llm.complete"}}}"#);
    refuses(
        "reply",
        r#"{"type":"needs","id":"c","requests":{"a":{"kind":"llm.complete","messages":[{"role":"system","content":""}]}}}"#,
    );
}

const DESCRIPTION: &str = r#"{"type":"describe","protocols":[1],"name":"a","version":"1","description":"d","produces":[],"input":"none"}"#;

#[test]
fn descriptions() {
    let with = |fields: &str| DESCRIPTION.replace('}', &format!(",{fields}}}"));
    accepts("description", DESCRIPTION);
    accepts("description", &with(r#""wants":["moon"],"features":["warp"],"needs":["luck"]"#));
    accepts("description", &with(r#""scope":"conversation","determinism":"pure","options_schema":{}"#));
    accepts("description", &DESCRIPTION.replace("[]", r#"["summary","reasoning","tool_calls"]"#));
    refuses("description", &DESCRIPTION.replace("[]", r#"["images"]"#));
    refuses("description", &DESCRIPTION.replace("[]", r#"[{"summary":null}]"#));
    refuses("description", &DESCRIPTION.replace("none", "some"));
    refuses("description", &DESCRIPTION.replace("describe\"", "description\""));
    refuses("description", &DESCRIPTION.replace("[1]", "1"));
    refuses("description", &DESCRIPTION.replace("[1]", "[-1]"));
    refuses("description", &with(r#""scope":"world""#));
    refuses("description", &with(r#""determinism":"mostly""#));
    refuses("description", &with(r#""features":"worker""#));
    for field in ["type", "protocols", "name", "version", "description", "produces", "input"] {
        refuses("description", &DESCRIPTION.replace(&format!("\"{field}\":"), "\"other\":"));
    }
}

#[test]
fn what_the_host_sends() {
    accepts(
        "describe-request",
        r#"{"type":"describe","protocol":1,"host":{"name":"h","version":"1","features":[]}}"#,
    );
    refuses(
        "describe-request",
        r#"{"type":"compact","protocol":1,"host":{"name":"h","version":"1","features":[]}}"#,
    );
    refuses("describe-request", r#"{"type":"describe","protocol":1}"#);
    accepts("event", r#"{"type":"event","seq":0,"turn":0,"tokens":1,"event":{"type":"x","n":1.0}}"#);
    refuses("event", r#"{"type":"event","turn":0,"tokens":1,"event":{}}"#);
    refuses("event", r#"{"type":"events_end","seq":0,"turn":0,"tokens":1,"event":{}}"#);
    accepts("events-end", r#"{"type":"events_end","id":"c","count":0}"#);
    refuses("events-end", r#"{"type":"event","id":"c","count":0}"#);
    refuses("events-end", r#"{"type":"events_end","count":0}"#);
}

#[test]
fn manifests() {
    let manifest = |name: &str, run: &str, rest: &str| {
        format!(
            r#"{{"manifest":1,"name":"{name}","version":"1","description":"d","protocols":[1],"run":{run}{rest}}}"#
        )
    };
    let run = |run: &str| manifest("a", run, "");
    let permissions = |text: &str| manifest("a", r#"{"dylib":"x"}"#, &format!(r#","permissions":{text}"#));
    accepts("manifest", &run(r#"{"command":["./a","-x",""]}"#));
    accepts("manifest", &run(r#"{"dylib":"./a.so","mode":"one-shot","timeout":"1500ms"}"#));
    refuses("manifest", &run("{}"));
    refuses("manifest", &run(r#"{"command":["a"],"dylib":"b"}"#));
    refuses("manifest", &run(r#"{"command":[]}"#));
    refuses("manifest", &run(r#"{"command":[""]}"#));
    refuses("manifest", &run(r#"{"command":"a"}"#));
    refuses("manifest", &run(r#"{"dylib":""}"#));
    refuses("manifest", &run(r#"{"dylib":"a","shell":true}"#));
    refuses("manifest", &run(r#"{"dylib":"a","mode":"one_shot"}"#));
    for timeout in ["60", "0s", "1h", "-1s", "1.5s", "s", "", "1 s", "\u{661}s", "9999999999s"] {
        refuses("manifest", &run(&format!(r#"{{"dylib":"a","timeout":"{timeout}"}}"#)));
    }
    for timeout in ["1ms", "999999999ms", "1000001s", "999999999s", "999999999m"] {
        accepts("manifest", &run(&format!(r#"{{"dylib":"a","timeout":"{timeout}"}}"#)));
    }
    accepts("manifest", &permissions(r#"{"llm":true,"env":["A_1"],"read":["/etc"],"runtime":"python"}"#));
    refuses("manifest", &permissions(r#"{"llm":"yes"}"#));
    refuses("manifest", &permissions(r#"{"nework":false}"#));
    refuses("manifest", &permissions(r#"{"env":["A=B"]}"#));
    refuses("manifest", &permissions(r#"{"env":[""]}"#));
    refuses("manifest", &permissions(r#"{"env":["1A"]}"#));
    refuses("manifest", &permissions(r#"{"read":["etc"]}"#));
    refuses("manifest", &permissions(r#"{"runtime":"perl"}"#));
    for name in ["", "A", "a_b", "a--b", "-a", "a-", "jp-x", "1a", &"a".repeat(65)] {
        refuses("manifest", &manifest(name, r#"{"dylib":"x"}"#, ""));
    }
    refuses("manifest", &run(r#"{"dylib":"x"}"#).replace("\"manifest\":1", "\"manifest\":2"));
    refuses("manifest", &manifest("a", r#"{"dylib":"x"}"#, r#","licence":"MIT""#));
}

#[test]
fn what_only_the_types_see() {
    let turn = |text: &str| format!(r#"{{"from_turn":{text},"to_turn":1,"reasoning":"strip"}}"#);
    types_refuse("compaction", &turn("1.0"), "floating point");
    types_refuse("compaction", &turn("1e0"), "floating point");
    types_refuse("compaction", &turn("-0"), "floating point");
    types_refuse("compaction", &turn("18446744073709551616"), "floating point");
    types_refuse("compaction", &turn(r#"0,"from_turn":1"#), "duplicate field `from_turn`");
    types_refuse(
        "reply",
        r#"{"type":"decline","type":"decline","id":"c","reason":"r"}"#,
        "duplicate field `type`",
    );
    types_refuse("reply", r#"{"type":"decline","id":"c","id":"d","reason":"r"}"#, "duplicate field `id`");
    let twice = r#"{"type":"needs","id":"c","requests":{"a":{"kind":"x"},"a":{"kind":"y"}}}"#;
    types_refuse("reply", twice, "duplicate key `a`");
}

#[test]
fn reports_taken() {
    let transcripts = [
        r#"{"path":"c/events.json","status":"failed","elapsed_ms":0.5,"view_tokens_before":0,"#.to_owned(),
        r#""tokens":{"before":0,"after":0},"bytes":{"before":0,"after":0},"by_type":{},"by_tool":{},"#
            .to_owned(),
        r#""error":{"code":4,"message":"failed to read","causes":["the file is empty"]}}"#.to_owned(),
    ]
    .concat();
    let total = [
        r#"{"transcripts":1,"compacted":0,"unchanged":0,"skipped":0,"failed":1,"resumed":0,"overlays":0,"#,
        r#""violations":0,"view_tokens_before":0,"tokens":{"before":0,"after":0},"bytes":{"before":0,"after":0},"#,
        r#""by_type":{},"by_tool":{},"saved_percent":0.0,"elapsed_ms":1.5}"#,
    ]
    .concat();
    let gate = r#"{"gate":"max-failures","wanted":"0","met":false,"found":"1 transcript failed"}"#;
    let report = |shard: &str| {
        format!(
            r#"{{"jp_compact_report":1,"jp_compact":"0.1.0","dry_run":true,"estimator":"chars/4",{shard}"transcripts":[{transcripts}],"total":{total},"gates":[{gate}],"complete":true}}"#
        )
    };
    accepts("batch-report", &report(""));
    accepts("batch-report", &report(r#""shard":{"index":0,"of":4},"#));
    refuses("batch-report", &report("").replace("\"failed\",\"elapsed", "\"odd\",\"elapsed"));
    refuses("batch-report", &report("").replace(r#","complete":true"#, ""));
}

#[test]
fn answers_to_records() {
    let saved = r#""saved":{"tokens":{"before":9,"after":4},"percent":55.6,"overlays":1}"#;
    let good = |more: &str| format!(r#"{{"id":[1],"ok":true,"format":"pi",{more}{saved}}}"#);
    accepts("batch-answer", &good(""));
    accepts("batch-answer", &good(r#""transcript":"t","overlays":[{"from_turn":0}],"#));
    accepts(
        "batch-answer",
        &good(r#""view":[],"declines":[{"strategy":null,"reason":"r"}],"warnings":["w"],"#),
    );
    refuses("batch-answer", &good(r#""view":7,"overlays":7,"#));
    refuses("batch-answer", &good("").replace("true", "false"));
    refuses("batch-answer", &good("").replace(r#""tokens""#, r#""tokes""#));
    let bad = r#"{"id":null,"ok":false,"error":{"code":"deadline","message":"m","retryable":true}}"#;
    accepts("batch-answer", bad);
    refuses("batch-answer", &bad.replace("false", "true"));
    refuses("batch-answer", &bad.replace("deadline", "late"));
    refuses("batch-answer", &bad.replace(r#""message":"m","#, ""));
}
