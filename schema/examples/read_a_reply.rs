//! A host that reads the reply of a strategy line by line.

use jp_compact_schema::{Reply, ResultReply, from_line};

const REPLY: &str = r#"
{"type":"progress","id":"c1","done":120,"total":612}
{"type":"a_later_type","id":"c1"}
{"type":"result","id":"c1","compactions":[{"from_turn":5,"to_turn":37,"reasoning":"strip"}]}
"#;

fn main() -> Result<(), serde_json::Error> {
    let mut result: Option<ResultReply> = None;
    for line in REPLY.lines().filter(|line| !line.is_empty()) {
        match from_line(line.as_bytes())? {
            Reply::Result(reply) => result = Some(reply),
            // A host ignores messages of unknown types.
            Reply::Progress(_) | Reply::Unknown => {}
            other => panic!("unexpected reply: {other:?}"),
        }
    }
    let result = result.expect("a reply ends with a terminal line");
    assert_eq!(result.compactions[0].to_turn, 37);

    // A misspelled key in a compaction is an error, not a no-op.
    let misspelled = REPLY.replace("reasoning", "reasonning");
    assert!(Reply::parse(misspelled.lines().last().unwrap_or_default()).is_err());
    Ok(())
}
