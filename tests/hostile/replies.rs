//! Whole replies, sent to the host byte for byte, with the expected verdicts. They come from the shared
//! collection, where that exists, and from the list below. The request has two turns.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::world::{World, has_compiler};

/// The expected result of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The overlay is appended.
    Accepted,
    /// Nothing is appended, without an error.
    Declined,
    /// The output is not a valid reply.
    Violation,
    /// The strategy reports an error.
    StrategyError,
    /// The reply is valid, but its payload is not.
    Rejected,
}

const RESULT: &str = r#"{"type":"result","id":"c1","compactions":["#;
const STRIP: &str =
    r#"{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":1,"reasoning":"strip"}]}"#;
const LOG: &str = r#"{"type":"log","id":"c1","level":"info","message":"m"}"#;
const DECLINE: &str = r#"{"type":"decline","id":"c1","reason":"no"}"#;

/// Replies that are not in the shared collection. Marks such as `@STRIP@` represent the texts above.
const OWN_REPLIES: [(Verdict, &[u8]); 49] = [
    // One terminal line, with insignificant lines or white space around it.
    (Verdict::Accepted, b"@STRIP@\r\n\r\n"),
    (Verdict::Accepted, b" \t@STRIP@ \t\n"),
    (Verdict::Accepted, b"@LOG@\n@LOG@\n\n@STRIP@\n\n\n"),
    (Verdict::Accepted, b"{\"type\":\"telemetry\",\"x\":[[]]}\n@STRIP@\n"),
    (Verdict::Accepted, b"{\"type\":\"progress\",\"id\":\"c1\",\"done\":18446744073709551615}\n@STRIP@\n"),
    (Verdict::Accepted, b"{\"compactions\":[{\"to_turn\":1,\"reasoning\":\"strip\",\"from_turn\":0}],\"id\":\"c1\",\"type\":\"result\"}"),
    (Verdict::Accepted, b"{\"ty\\u0070e\":\"result\",\"id\":\"\\u00631\",\"compactions\":[{\"from_turn\":0,\"to_turn\":1,\"reasoning\":\"strip\"}]}"),
    (Verdict::Accepted, b"@RESULT@{\"from_turn\":1,\"to_turn\":1,\"tool_calls\":{\"policy\":\"omit\"}}],\"later\":{\"a\":[1e300]}}"),
    (Verdict::Accepted, b"@RESULT@{\"from_turn\":0,\"to_turn\":0,\"summary\":{\"summary\":\"\xf0\x9f\x98\x80 \\ud83d\\ude00 \xe2\x80\xa8\"}}]}"),
    (Verdict::Accepted, b"@RESULT@{\"from_turn\":0,\"to_turn\":0,\"tool_calls\":{\"policy\":\"selective\",\"calls\":[{\"seq\":2,\"request\":\"strip\"},{\"seq\":3,\"response\":{\"replace\":\"\\u001b[2J\"}}]}}]}"),
    (Verdict::Declined, b"@DECLINE@"),
    (Verdict::Declined, b"{\"type\":\"decline\",\"id\":\"c1\",\"reason\":\"\\u001b]0;title\\u0007\\r\\u202e\"}\n"),
    (Verdict::StrategyError, b"{\"type\":\"error\",\"id\":\"c1\",\"code\":\"x\",\"message\":\"\\u001b[31mred\\u009b\"}\n"),
    // No line, or no terminal line.
    (Verdict::Violation, b""),
    (Verdict::Violation, b"\n\n\n"),
    (Verdict::Violation, b"@LOG@\n@LOG@\n"),
    (Verdict::Violation, b"{\"type\":\"telemetry\",\"id\":\"c1\"}\n"),
    // Too many lines.
    (Verdict::Violation, b"@DECLINE@\n@DECLINE@\n"),
    (Verdict::Violation, b"@STRIP@\n@LOG@\n"),
    (Verdict::Violation, b"@STRIP@\n{\"type\":\"telemetry\"}\n"),
    (Verdict::Violation, b"@STRIP@@STRIP@\n"),
    (Verdict::Violation, b"@STRIP@,\n"),
    (Verdict::Violation, b"@STRIP@\n\x00"),
    (Verdict::Violation, b"@STRIP@\n\xff"),
    // Lines that are not messages.
    (Verdict::Violation, b"null\n@STRIP@"),
    (Verdict::Violation, b"{\"type\":\"telemetry\",\"x\":1e400}\n@STRIP@"),
    (Verdict::Violation, b"\"result\"\n"),
    (Verdict::Violation, b"42\n"),
    (Verdict::Violation, b"{}\n"),
    (Verdict::Violation, b"{\"type\":null,\"id\":\"c1\"}\n"),
    (Verdict::Violation, b"{\"type\":[\"result\"],\"id\":\"c1\"}\n"),
    (Verdict::Violation, b"{\"type\":\"result\",\"id\":1,\"compactions\":[]}\n"),
    (Verdict::Violation, b"{\"type\":\"result\",\"id\":\"C1\",\"compactions\":[]}\n"),
    (Verdict::Violation, b"{\"type\":\"result\",\"id\":\"c1\",\"compactions\":{}}\n"),
    (Verdict::Violation, b"{\"type\":\"result\",\"id\":\"c1\",\"compactions\":[null]}\n"),
    (Verdict::Violation, b"{\"type\":\"result\",\"type\":\"result\",\"id\":\"c1\",\"compactions\":[]}\n"),
    (Verdict::Violation, b"// a comment\n@STRIP@"),
    (Verdict::Violation, b"\xef\xbb\xbf@STRIP@"),
    (Verdict::Violation, b"@RESULT@{\"from_turn\":0,\"to_turn\":1,\"reasoning\":\"strip\"},]}"),
    (Verdict::Violation, b"@RESULT@{\"from_turn\":00,\"to_turn\":1,\"reasoning\":\"strip\"}]}"),
    (Verdict::Violation, b"@RESULT@{\"from_turn\":-0,\"to_turn\":1,\"reasoning\":\"strip\"}]}"),
    (Verdict::Violation, b"@RESULT@{\"from_turn\":0,\"to_turn\":1,\"reasoning\":{\"strip\":null}}]}"),
    (Verdict::Violation, b"@RESULT@{\"from_turn\":0,\"to_turn\":1,\"summary\":\"text\"}]}"),
    (Verdict::Violation, b"@RESULT@{\"from_turn\":0,\"to_turn\":1,\"tool_calls\":{\"policy\":\"strip\",\"request\":1,\"response\":0}}]}"),
    (Verdict::Violation, b"@RESULT@{\"from_turn\":0,\"to_turn\":1,\"summary\":{\"summary\":\"a\nb\"}}]}"),
    // Invalid payloads.
    (Verdict::Rejected, b"@RESULT@]}"),
    (Verdict::Rejected, b"@RESULT@{\"from_turn\":0,\"to_turn\":1,\"summary\":{\"summary\":\"a\"}},{\"from_turn\":1,\"to_turn\":1,\"summary\":{\"summary\":\"b\"}}]}"),
    (Verdict::Rejected, b"@RESULT@{\"from_turn\":0,\"to_turn\":0,\"tool_calls\":{\"policy\":\"selective\",\"calls\":[{\"seq\":2,\"request\":\"strip\"},{\"seq\":2,\"request\":\"strip\"}]}}]}"),
    (Verdict::Rejected, b"@RESULT@{\"from_turn\":1,\"to_turn\":1,\"tool_calls\":{\"policy\":\"selective\",\"calls\":[{\"seq\":2,\"omit\":true}]}}]}"),
];

/// Sends a reply and checks its verdict. Returns the error.
fn check_reply(reply: &[u8], is_expected: impl Fn(Verdict) -> bool) -> Result<(), String> {
    let world = World::new(1);
    let output = world.run_reply(reply);
    let verdict = match (output.code, world.appended() + world.unchanged()) {
        (Some(0), 1) if world.unchanged() == 1 => Verdict::Declined,
        (Some(0), _) => Verdict::Accepted,
        (Some(15), 1) => Verdict::Violation,
        (Some(16), 1) => Verdict::StrategyError,
        (Some(17), 1) => Verdict::Rejected,
        other => return Err(format!("{other:?}: {}", output.stderr)),
    };
    let errors = output.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    let is_failure = !matches!(verdict, Verdict::Accepted | Verdict::Declined);
    if !is_expected(verdict) || errors != usize::from(is_failure) || is_failure && world.unchanged() != 1 {
        return Err(format!("{verdict:?}: {}", output.stderr));
    }
    // Text for a terminal must be escaped in any case.
    for text in [output.stderr, world.output_of(&["show"]), world.output_of(&["print", "--compacted"])] {
        let is_harmful = |c: char| {
            c.is_control() && c != '\n' && c != '\t'
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        if text.chars().any(is_harmful) {
            return Err(format!("not escaped: {text:?}"));
        }
    }
    Ok(())
}

fn replace(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let (from, mut rest, mut output) = (from.as_bytes(), bytes, Vec::with_capacity(bytes.len()));
    while let Some(index) = rest.windows(from.len()).position(|window| window == from) {
        output.extend_from_slice(&rest[..index]);
        output.extend_from_slice(to.as_bytes());
        rest = &rest[index + from.len()..];
    }
    output.extend_from_slice(rest);
    output
}

#[test]
fn own_replies_get_their_verdicts() {
    if !has_compiler() {
        return;
    }
    let texts = [("@STRIP@", STRIP), ("@LOG@", LOG), ("@DECLINE@", DECLINE), ("@RESULT@", RESULT)];
    let fill_in =
        |reply: &[u8]| texts.iter().fold(reply.to_vec(), |bytes, (from, to)| replace(&bytes, from, to));
    let failures: Vec<_> = OWN_REPLIES
        .iter()
        .filter_map(|(verdict, reply)| {
            let error = check_reply(&fill_in(reply), |actual| actual == *verdict).err()?;
            Some(format!("{} should be {verdict:?}: {error}", String::from_utf8_lossy(reply)))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[derive(Deserialize)]
struct Expected {
    verdict: String,
    why: String,
}

#[test]
fn shared_replies_get_their_verdicts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/replies");
    let Ok(verdicts) = fs::read(folder.join("verdicts.json")) else {
        #[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
        {
            eprintln!("skipped: the shared collection of replies is missing");
        }
        return;
    };
    if !has_compiler() {
        return;
    }
    let verdicts: BTreeMap<String, Expected> = serde_json::from_slice(&verdicts).unwrap();
    let mut failures = Vec::new();
    for (name, Expected { verdict, why }) in &verdicts {
        let reply = replace(&fs::read(folder.join(name)).unwrap(), "@ID@", "c1");
        let is_expected = |actual| (verdict == "reject") == (actual != Verdict::Accepted);
        if let Err(error) = check_reply(&reply, is_expected) {
            failures.push(format!("{name} should be {verdict}, {why}: {error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
