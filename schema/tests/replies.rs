//! Replies that a host must accept or reject. Only the results of parsing are checked here. The data folder is outside
//! of the repository. Without it, the test is skipped with a message.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use jp_compact_schema::Reply;
use serde::Deserialize;

/// Replies that parse. They are rejected because of the request, or by a rule outside of the types.
const WELL_FORMED: [&str; 8] = [
    "431_out_of_stream",
    "432_usize_max",
    "54_no_policy",
    "59_selective_bad_seq",
    "5a_selective_empty",
    "80_empty_summary",
    "81_blank_summary",
    "82_summary_1MiB",
];

#[derive(Deserialize)]
struct Expected {
    verdict: String,
}

/// Parses a reply: any number of messages, and exactly one terminal message.
fn parse_reply(bytes: &[u8]) -> Result<Reply, String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut terminal = None;
    for line in text.lines().filter(|line| !line.trim_ascii().is_empty()) {
        let reply = Reply::parse(line).map_err(|error| error.to_string())?;
        if reply.id().is_some_and(|id| id != "c1") {
            return Err("another id".into());
        }
        if reply.is_terminal() && terminal.replace(reply).is_some() {
            return Err("two terminal lines".into());
        }
    }
    terminal.ok_or_else(|| "no terminal line".into())
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn parsing_reaches_every_expected_verdict() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/replies");
    let Ok(verdicts) = fs::read(folder.join("verdicts.json")) else {
        eprintln!("skipped: {} is missing", folder.display());
        return;
    };
    let verdicts: BTreeMap<String, Expected> = serde_json::from_slice(&verdicts).unwrap();
    let mut failures = Vec::new();
    for (name, expected) in &verdicts {
        let bytes = fs::read(folder.join(name)).unwrap();
        let bytes = replace(&bytes, b"@ID@", b"c1");
        let must_parse = expected.verdict != "reject" || WELL_FORMED.contains(&name.as_str());
        let parsed = parse_reply(&bytes);
        if parsed.is_ok() != must_parse {
            failures.push(format!("{name}: {:?}", parsed.err()));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(index) = rest.windows(from.len()).position(|window| window == from) {
        replaced.extend_from_slice(&rest[..index]);
        replaced.extend_from_slice(to);
        rest = &rest[index + from.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}

#[test]
fn deeply_nested_ignored_value_does_not_overflow_the_stack() {
    let deep = format!(r#"{{"type":"telemetry","x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(Reply::parse(&deep).unwrap(), Reply::Unknown);
    assert!(Reply::parse(&"[".repeat(100_000)).is_err());
    assert!(Reply::parse(&r#"{"a":"#.repeat(100_000)).is_err());
}
