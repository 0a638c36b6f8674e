//! Tables of accepted and rejected values per schema. The types and the schema must agree. The few rules that
//! JSON Schema cannot express have a separate test (`types_reject`).

mod both;

use both::{accepts, through_schema, through_types};
use serde_json::Value;

#[track_caller]
fn rejects(name: &str, text: &str) {
    let value: Value = serde_json::from_str(text).expect("a rejected value is JSON");
    assert!(through_types(name, text).is_err(), "the types accept {text}");
    assert!(through_schema(name, &value).is_err(), "the schema accepts {text}");
}

/// Checks an error that JSON Schema cannot detect: the spelling of a number, or a duplicate key.
#[track_caller]
fn types_reject(name: &str, text: &str, reason: &str) {
    let error = through_types(name, text).expect_err(text);
    assert!(error.contains(reason), "{error}");
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
fn rejects_payload(policies: &str) {
    rejects("compaction", &payload(policies));
    rejects("reply", &format!(r#"{{"type":"result","id":"c","compactions":[{}]}}"#, payload(policies)));
}

#[test]
fn accepts_compactions() {
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
fn rejects_misspelled_compactions() {
    rejects_payload(r#""reasoning":"delete""#);
    rejects_payload(r#""reasoning":{"strip":null}"#);
    rejects_payload(r#""reasoning":0"#);
    rejects_payload(r#""reasoning":["strip"]"#);
    rejects_payload(r#""reasoning":"strip","evil":1"#);
    rejects_payload(r#""reasoning":"strip","timestamp":"9999-12-31T23:59:59Z""#);
    rejects_payload(r#""summary":"text""#);
    rejects_payload(r#""summary":["text"]"#);
    rejects_payload(r#""summary":{}"#);
    rejects_payload(r#""summary":{"summary":"s","model":"m"}"#);
    rejects_payload(r#""tool_calls":"strip""#);
    rejects_payload(r#""tool_calls":{"policy":"delete"}"#);
    rejects_payload(r#""tool_calls":{"policy":0,"request":true,"response":true}"#);
    rejects_payload(r#""tool_calls":{"request":true,"response":true}"#);
    rejects_payload(r#""tool_calls":{"policy":"strip","response":true}"#);
    rejects_payload(r#""tool_calls":{"policy":"strip","request":1,"response":true}"#);
    rejects_payload(r#""tool_calls":{"policy":"strip","request":true,"response":true,"x":1}"#);
    rejects_payload(r#""tool_calls":{"policy":"omit","request":true}"#);
    rejects_payload(r#""tool_calls":["omit"]"#);
}

#[test]
fn rejects_misspelled_selective_calls() {
    let selective = |call: &str| format!(r#""tool_calls":{{"policy":"selective","calls":[{call}]}}"#);
    rejects_payload(&selective(r#"{"request":"strip"}"#));
    rejects_payload(&selective(r#"{"seq":-1,"request":"strip"}"#));
    rejects_payload(&selective(r#"{"seq":"1","request":"strip"}"#));
    rejects_payload(&selective(r#"{"seq":1,"request":{"strip":null}}"#));
    rejects_payload(&selective(r#"{"seq":1,"request":{"replace":"x"}}"#));
    rejects_payload(&selective(r#"{"seq":1,"response":{"strip":null}}"#));
    rejects_payload(&selective(r#"{"seq":1,"response":{"replace":1}}"#));
    rejects_payload(&selective(r#"{"seq":1,"response":{}}"#));
    rejects_payload(&selective(r#"{"seq":1,"response":{"replace":"x","y":1}}"#));
    rejects_payload(&selective(r#"{"seq":1,"omit":"yes"}"#));
    rejects_payload(&selective(r#"{"seq":1,"drop":true}"#));
    rejects_payload(&selective(r#"[1,"strip",null,false]"#));
    rejects_payload(r#""tool_calls":{"policy":"selective"}"#);
}

#[test]
fn rejects_turns_that_are_not_natural_numbers() {
    for turn in ["-1", "0.5", "\"0\"", "null", "true", "[0]", "{}"] {
        rejects("compaction", &format!(r#"{{"from_turn":{turn},"to_turn":1,"reasoning":"strip"}}"#));
    }
    rejects("compaction", r#"{"to_turn":1,"reasoning":"strip"}"#);
    rejects("compaction", r#"{"from_turn":1,"reasoning":"strip"}"#);
    rejects("compaction", r#"[0,1,null,"strip",null]"#);
}

#[test]
fn accepts_replies() {
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
fn rejects_malformed_replies() {
    rejects("reply", "{}");
    rejects("reply", r#"[{"type":"decline","id":"c","reason":"r"}]"#);
    rejects("reply", r#"["decline","c","r"]"#);
    rejects("reply", r#"{"type":2,"id":"c","compactions":[]}"#);
    rejects("reply", r#"{"type":null}"#);
    rejects("reply", r#"{"type":"result","compactions":[]}"#);
    rejects("reply", r#"{"type":"result","id":1,"compactions":[]}"#);
    rejects("reply", r#"{"type":"result","id":"c"}"#);
    rejects("reply", r#"{"type":"result","id":"c","compactions":{}}"#);
    rejects("reply", r#"{"type":"result","id":"c","compactions":[[0,1,null,"strip",null]]}"#);
    rejects("reply", r#"{"type":"result","id":"c","compactions":[],"diagnostics":[["info","c","m"]]}"#);
    rejects("reply", r#"{"type":"decline","id":"c"}"#);
    rejects("reply", r#"{"type":"log","id":"c","level":"loud","message":"m"}"#);
    rejects("reply", r#"{"type":"log","id":"c","level":{"info":null},"message":"m"}"#);
    rejects("reply", r#"{"type":"progress","id":"c","done":-1}"#);
    rejects("reply", r#"{"type":"error","id":"c","code":"x"}"#);
    rejects("reply", r#"{"type":"needs","id":"c","requests":[]}"#);
    rejects("reply", r#"{"type":"needs","id":"c","requests":{"a":["tokens.count","t"]}}"#);
    rejects("reply", r#"{"type":"needs","id":"c","requests":{"a":{"kind":"llm.complete"}}}"#);
    rejects(
        "reply",
        r#"{"type":"needs","id":"c","requests":{"a":{"kind":"llm.complete","messages":[{"role":"system","content":""}]}}}"#,
    );
}

const DESCRIPTION: &str = r#"{"type":"describe","protocols":[1],"name":"a","version":"1","description":"d","produces":[],"input":"none"}"#;

#[test]
fn checks_descriptions() {
    let with_fields = |fields: &str| DESCRIPTION.replace('}', &format!(",{fields}}}"));
    accepts("description", DESCRIPTION);
    accepts("description", &with_fields(r#""wants":["moon"],"features":["warp"],"needs":["luck"]"#));
    accepts(
        "description",
        &with_fields(r#""scope":"conversation","determinism":"pure","options_schema":{}"#),
    );
    accepts("description", &DESCRIPTION.replace("[]", r#"["summary","reasoning","tool_calls"]"#));
    rejects("description", &DESCRIPTION.replace("[]", r#"["images"]"#));
    rejects("description", &DESCRIPTION.replace("[]", r#"[{"summary":null}]"#));
    rejects("description", &DESCRIPTION.replace("none", "some"));
    rejects("description", &DESCRIPTION.replace("describe\"", "description\""));
    rejects("description", &DESCRIPTION.replace("[1]", "1"));
    rejects("description", &DESCRIPTION.replace("[1]", "[-1]"));
    rejects("description", &with_fields(r#""scope":"world""#));
    rejects("description", &with_fields(r#""determinism":"mostly""#));
    rejects("description", &with_fields(r#""features":"worker""#));
    for field in ["type", "protocols", "name", "version", "description", "produces", "input"] {
        rejects("description", &DESCRIPTION.replace(&format!("\"{field}\":"), "\"other\":"));
    }
}

#[test]
fn checks_messages_from_the_host() {
    accepts(
        "describe-request",
        r#"{"type":"describe","protocol":1,"host":{"name":"h","version":"1","features":[]}}"#,
    );
    rejects(
        "describe-request",
        r#"{"type":"compact","protocol":1,"host":{"name":"h","version":"1","features":[]}}"#,
    );
    rejects("describe-request", r#"{"type":"describe","protocol":1}"#);
    accepts("event", r#"{"type":"event","seq":0,"turn":0,"tokens":1,"event":{"type":"x","n":1.0}}"#);
    rejects("event", r#"{"type":"event","turn":0,"tokens":1,"event":{}}"#);
    rejects("event", r#"{"type":"events_end","seq":0,"turn":0,"tokens":1,"event":{}}"#);
    accepts("events-end", r#"{"type":"events_end","id":"c","count":0}"#);
    rejects("events-end", r#"{"type":"event","id":"c","count":0}"#);
    rejects("events-end", r#"{"type":"events_end","count":0}"#);
}

#[test]
fn checks_manifests() {
    let manifest = |name: &str, run: &str, more_fields: &str| {
        format!(
            r#"{{"manifest":1,"name":"{name}","version":"1","description":"d","protocols":[1],"run":{run}{more_fields}}}"#
        )
    };
    let with_run = |run: &str| manifest("a", run, "");
    let with_permissions =
        |permissions: &str| manifest("a", r#"{"dylib":"x"}"#, &format!(r#","permissions":{permissions}"#));
    accepts("manifest", &with_run(r#"{"command":["./a","-x",""]}"#));
    accepts("manifest", &with_run(r#"{"dylib":"./a.so","mode":"one-shot","timeout":"1500ms"}"#));
    rejects("manifest", &with_run("{}"));
    rejects("manifest", &with_run(r#"{"command":["a"],"dylib":"b"}"#));
    rejects("manifest", &with_run(r#"{"command":[]}"#));
    rejects("manifest", &with_run(r#"{"command":[""]}"#));
    rejects("manifest", &with_run(r#"{"command":"a"}"#));
    rejects("manifest", &with_run(r#"{"dylib":""}"#));
    rejects("manifest", &with_run(r#"{"dylib":"a","shell":true}"#));
    rejects("manifest", &with_run(r#"{"dylib":"a","mode":"one_shot"}"#));
    for timeout in ["60", "0s", "1h", "-1s", "1.5s", "s", "", "1 s", "\u{661}s", "9999999999s"] {
        rejects("manifest", &with_run(&format!(r#"{{"dylib":"a","timeout":"{timeout}"}}"#)));
    }
    for timeout in ["1ms", "999999999ms", "1000001s", "999999999s", "999999999m"] {
        accepts("manifest", &with_run(&format!(r#"{{"dylib":"a","timeout":"{timeout}"}}"#)));
    }
    accepts(
        "manifest",
        &with_permissions(r#"{"llm":true,"env":["A_1"],"read":["/etc"],"runtime":"python"}"#),
    );
    rejects("manifest", &with_permissions(r#"{"llm":"yes"}"#));
    rejects("manifest", &with_permissions(r#"{"nework":false}"#));
    rejects("manifest", &with_permissions(r#"{"env":["A=B"]}"#));
    rejects("manifest", &with_permissions(r#"{"env":[""]}"#));
    rejects("manifest", &with_permissions(r#"{"env":["1A"]}"#));
    rejects("manifest", &with_permissions(r#"{"read":["etc"]}"#));
    rejects("manifest", &with_permissions(r#"{"runtime":"perl"}"#));
    for name in ["", "A", "a_b", "a--b", "-a", "a-", "jp-x", "1a", &"a".repeat(65)] {
        rejects("manifest", &manifest(name, r#"{"dylib":"x"}"#, ""));
    }
    rejects("manifest", &with_run(r#"{"dylib":"x"}"#).replace("\"manifest\":1", "\"manifest\":2"));
    rejects("manifest", &manifest("a", r#"{"dylib":"x"}"#, r#","licence":"MIT""#));
}

#[test]
fn types_reject_errors_that_the_schema_cannot_express() {
    let from_turn = |text: &str| format!(r#"{{"from_turn":{text},"to_turn":1,"reasoning":"strip"}}"#);
    types_reject("compaction", &from_turn("1.0"), "floating point");
    types_reject("compaction", &from_turn("1e0"), "floating point");
    types_reject("compaction", &from_turn("-0"), "floating point");
    types_reject("compaction", &from_turn("18446744073709551616"), "floating point");
    types_reject("compaction", &from_turn(r#"0,"from_turn":1"#), "duplicate field `from_turn`");
    types_reject(
        "reply",
        r#"{"type":"decline","type":"decline","id":"c","reason":"r"}"#,
        "duplicate field `type`",
    );
    types_reject("reply", r#"{"type":"decline","id":"c","id":"d","reason":"r"}"#, "duplicate field `id`");
    let duplicate_need = r#"{"type":"needs","id":"c","requests":{"a":{"kind":"x"},"a":{"kind":"y"}}}"#;
    types_reject("reply", duplicate_need, "duplicate key `a`");
}

#[test]
fn checks_batch_reports() {
    let sizes = concat!(
        r#""tokens":{"raw":0,"view_before":0,"view_after":0,"jp":null},"bytes":{"raw":0,"view_after":0},"#,
        r#""by_type":{},"by_tool":{},"#
    );
    let transcripts = [
        r#"{"path":"c/events.json","status":"failed","elapsed_ms":0.5,"#,
        sizes,
        r#""saved":{"tokens":0,"percent":0.0,"of":"view_before"},"error":{"code":4,"kind":"transcript_invalid","#,
        r#""message":"failed to read","causes":["the file is empty"],"hint":null,"retryable":false}}"#,
    ]
    .concat();
    let total = [
        r#"{"transcripts":1,"compacted":0,"unchanged":0,"skipped":0,"failed":1,"resumed":0,"overlays":0,"#,
        r#""violations":0,"#,
        sizes,
        r#""saved":{"tokens":0,"percent":0.0,"of":"raw"},"elapsed_ms":1.5}"#,
    ]
    .concat();
    let gate = r#"{"gate":"max-failures","wanted":"0","met":false,"found":"1 transcript failed"}"#;
    let report = |shard: &str| {
        format!(
            r#"{{"jp_compact_report":1,"jp_compact":"0.1.0","dry_run":true,"estimator":"pieces",{shard}"transcripts":[{transcripts}],"total":{total},"gates":[{gate}],"complete":true}}"#
        )
    };
    accepts("batch-report", &report(""));
    accepts("batch-report", &report(r#""shard":{"index":0,"of":4},"#));
    rejects("batch-report", &report("").replace("\"failed\",\"elapsed", "\"odd\",\"elapsed"));
    rejects("batch-report", &report("").replace(r#","complete":true"#, ""));
}

#[test]
fn checks_batch_answers() {
    let report = concat!(
        r#""estimator":"pieces","tokens":{"raw":12,"view_before":9,"view_after":4,"jp":null},"#,
        r#""saved":{"tokens":5,"percent":55.6,"of":"view_before"},"new_overlays":1"#
    );
    let success = |fields: &str| format!(r#"{{"id":[1],"ok":true,"format":"pi",{fields}{report}}}"#);
    accepts("batch-answer", &success(""));
    accepts("batch-answer", &success(r#""transcript":"t","overlays":[{"from_turn":0}],"#));
    accepts(
        "batch-answer",
        &success(
            r#""view":[],"declines":[{"strategy":"s","version":"1","reason":"r"}],"nothing":"n","warnings":["w"],"#,
        ),
    );
    rejects("batch-answer", &success(r#""view":7,"overlays":7,"#));
    rejects("batch-answer", &success("").replace("true", "false"));
    rejects("batch-answer", &success("").replace(r#""tokens""#, r#""tokes""#));
    let failure = concat!(
        r#"{"id":null,"ok":false,"error":{"code":14,"kind":"deadline","message":"m","causes":[],"#,
        r#""hint":null,"retryable":true}}"#
    );
    accepts("batch-answer", failure);
    rejects("batch-answer", &failure.replace("false", "true"));
    rejects("batch-answer", &failure.replace("deadline", "late"));
    rejects("batch-answer", &failure.replace(r#""message":"m","#, ""));
}

#[test]
fn each_published_schema_is_json_with_its_title() {
    for schema in jp_compact_schema::catalog::all() {
        assert!(schema.json()["title"].is_string(), "{}", schema.name);
    }
}
