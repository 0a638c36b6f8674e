//! Tests of the strategy's side of the protocol, in memory.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{self, Write};

use jp_compact_strategy::schema::{
    CompactRequest, Description, EventLine, Events, Kinds, Level, Reply, to_line,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, Verb, converse, options, testing};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A strategy that declines. The reason has the events that it read: all, or as many as the option `read` says.
struct Witness;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    read: Option<usize>,
}

impl Strategy for Witness {
    fn describe(&self) -> Description {
        Description::new("witness", "1.0.0", "see")
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let Options { read } = options(request)?;
        let mut seen = Vec::new();
        while read.is_none_or(|read| seen.len() < read) {
            let Some(event) = exchange.next_event()? else { break };
            exchange.progress(event.seq, None, "")?;
            seen.push(event.event.get().to_owned());
        }
        exchange.log(Level::Debug, "seen")?;
        Ok(Outcome::Decline(seen.join(",")))
    }
}

fn header(id: &str, read: Option<usize>, events: Option<u64>) -> String {
    let mut request = testing::request(0, 0, &[Kinds::default()]);
    request.id = id.to_owned();
    request.events = events.map(|count| Events::Inline { count });
    request.options.extend(read.map(|read| ("read".to_owned(), read.into())));
    String::from_utf8(to_line(&request).unwrap()).unwrap()
}

fn events(id: &str, texts: &[&str]) -> String {
    let mut lines = String::new();
    for (seq, text) in (0..).zip(texts) {
        let event = EventLine::new(seq, 0, 1, RawValue::from_string((*text).to_owned()).unwrap());
        lines.push_str(&String::from_utf8(to_line(&event).unwrap()).unwrap());
    }
    lines + &format!("{{\"type\":\"events_end\",\"id\":\"{id}\",\"count\":{}}}\n", texts.len())
}

fn talk(verb: Verb, input: &str) -> (io::Result<()>, Vec<Reply>) {
    let mut output = Vec::new();
    let ended = converse(&Witness, verb, input.as_bytes(), &mut output);
    let replies = str::from_utf8(&output).unwrap().lines().map(|line| Reply::parse(line).unwrap()).collect();
    (ended, replies)
}

/// Returns the terminal lines as `id: reason` or `id: code`.
fn verdicts(replies: &[Reply]) -> Vec<String> {
    let terminal = replies.iter().filter(|reply| reply.is_terminal());
    terminal
        .map(|reply| match reply {
            Reply::Decline(decline) => format!("{}: {}", decline.id, decline.reason),
            Reply::Error(error) => format!("{}: {}", error.id, error.code),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[track_caller]
fn check(verb: Verb, input: &str, expect: &[&str]) {
    let (ended, replies) = talk(verb, input);
    ended.unwrap();
    assert_eq!(verdicts(&replies), expect);
}

#[test]
fn describe_writes_one_line_and_ignores_input() {
    let mut output = Vec::new();
    converse(&Witness, Verb::Describe, &b"not a message"[..], &mut output).unwrap();
    assert_eq!(output, to_line(&Witness.describe()).unwrap());
}

#[test]
fn run_replies_to_one_request() {
    check(Verb::Run, &(header("a", None, None) + &header("b", None, None)), &["a: "]);
}

#[test]
fn worker_replies_in_order_until_the_input_ends() {
    check(Verb::Worker, &(header("a", None, None) + &header("b", None, None)), &["a: ", "b: "]);
}

#[test]
fn empty_input_has_no_reply() {
    check(Verb::Run, "", &[]);
    check(Verb::Worker, "", &[]);
}

#[test]
fn events_keep_their_bytes() {
    let input = header("a", None, Some(2)) + &events("a", &[r#"{"n": 1.0}"#, r#"{"t":"\u00e9"}"#]);
    check(Verb::Run, &input, &[r#"a: {"n": 1.0},{"t":"\u00e9"}"#]);
}

#[test]
fn unread_events_are_skipped() {
    let texts = ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"];
    let input = header("a", Some(1), Some(3)) + &events("a", &texts) + &header("b", Some(0), Some(3));
    let input = input + &events("b", &texts) + &header("c", None, None);
    check(Verb::Worker, &input, &["a: {\"n\":1}", "b: ", "c: "]);
}

#[test]
fn ignores_blank_lines_and_unknown_messages() {
    let strange = "\n  \r\n{\"type\":\"weather\",\"sun\":true}\n";
    let input = format!("{strange}{}{strange}{}", header("a", None, Some(1)), events("a", &["{}"]));
    check(Verb::Worker, &input, &["a: {}"]);
}

#[test]
fn progress_and_log_precede_the_reply_with_its_id() {
    let (_, replies) = talk(Verb::Run, &(header("a", None, Some(1)) + &events("a", &["{}"])));
    assert!(matches!(replies[..], [Reply::Progress(_), Reply::Log(_), Reply::Decline(_)]), "{replies:?}");
    assert!(replies.iter().all(|reply| reply.id() == Some("a")));
}

#[test]
fn worker_continues_after_invalid_options() {
    let bad = header("a", None, None).replace("\"options\":{}", "\"options\":{\"red\":1}");
    check(Verb::Worker, &(bad + &header("b", None, None)), &["a: options_invalid", "b: "]);
}

#[test]
fn invalid_request_gets_an_error_reply() {
    check(Verb::Worker, "{\"type\":\"compact\",\"id\":\"a\",\"protocol\":1}\n", &["a: request_invalid"]);
    check(Verb::Worker, "{\"type\":\"compact\",\"id\":\"a\",\"protocol\":2}\n", &["a: protocol_unsupported"]);
}

#[test]
fn incomplete_events_are_an_error() {
    let cut =
        header("a", None, Some(2)) + "{\"type\":\"event\",\"seq\":0,\"turn\":0,\"tokens\":1,\"event\":{}}\n";
    check(Verb::Run, &cut, &["a: request_invalid"]);
    let miscounted = header("a", None, Some(1)) + &events("a", &["{}"]).replace("\"count\":1", "\"count\":2");
    check(Verb::Run, &miscounted, &["a: request_invalid"]);
    let foreign = header("a", None, Some(1)) + &events("b", &["{}"]);
    check(Verb::Run, &foreign, &["a: request_invalid"]);
}

#[test]
fn invalid_line_ends_the_exchange() {
    for input in ["hello\n", "[]\n", "{\"type\":\"compact\"}\n", "{\"id\":\"a\"}\n"] {
        let (ended, replies) = talk(Verb::Worker, input);
        assert!(ended.is_err(), "{input}");
        assert_eq!(replies, []);
    }
}

/// An output that records whether it is flushed.
struct Pipe<'a> {
    flushed: &'a std::cell::Cell<bool>,
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flushed.set(false);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed.set(true);
        Ok(())
    }
}

struct Host<'a> {
    flushed: &'a std::cell::Cell<bool>,
    lines: Vec<String>,
}

impl io::Read for Host<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(self.flushed.get(), "the strategy reads input before it flushes its reply");
        let Some(line) = self.lines.pop() else { return Ok(0) };
        buffer[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

#[test]
fn reply_is_flushed_before_the_next_read() {
    let flushed = std::cell::Cell::new(true);
    let host = Host { flushed: &flushed, lines: vec![header("b", None, None), header("a", None, None)] };
    converse(&Witness, Verb::Worker, host, Pipe { flushed: &flushed }).unwrap();
}

#[test]
fn reads_events_from_a_file() {
    let path = std::env::temp_dir().join(format!("jp-compact-sdk-{}", std::process::id()));
    let lines = events("a", &["{\"n\":1}", "{\"n\":2}"]);
    let (lines, _end) = lines.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(&path, lines).unwrap();
    let mut request = testing::request(0, 0, &[Kinds::default()]);
    request.events = Some(Events::File {
        path: path.to_str().unwrap().to_owned(),
        bytes: lines.len() as u64,
        sha256: String::new(),
    });
    let outcome = testing::ask(&Witness, &request, &[]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(outcome, Ok(Outcome::decline("{\"n\":1},{\"n\":2}")));
}
