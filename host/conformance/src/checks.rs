//! The conformance checks: the rules of PROTOCOL.md that a strategy can break, with the request and the
//! expectation of each. This module contains only data.

use serde::Serialize;

/// The set of checks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckLevel {
    /// Rules that every host relies on for every request.
    Core,
    /// Also rules for unusual requests, newer hosts, and workers.
    Full,
}

/// A rule of the protocol.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The public id. It never changes and is never used again.
    pub id: &'static str,
    /// The lowest level that includes the check.
    pub level: CheckLevel,
    /// The input of the strategy.
    pub sent: &'static str,
    /// The required behavior. It is also printed when the check fails.
    pub expected: &'static str,
}

const fn core(id: &'static str, sent: &'static str, expected: &'static str) -> Check {
    Check { id, level: CheckLevel::Core, sent, expected }
}

const fn full(id: &'static str, sent: &'static str, expected: &'static str) -> Check {
    Check { id, level: CheckLevel::Full, sent, expected }
}

const WITHOUT_VARIABLE: &str = "no JP_COMPACT_PROTOCOL";
const DESCRIBE: &str = "describe";
const RUN: &str = "requests of many kinds, each to its own process";
const WORKER: &str = "requests to one worker";

/// Every check, in the order of the report.
pub const CHECKS: [Check; 63] = [
    core("S01", DESCRIBE, "it can be started"),
    core("S02", WITHOUT_VARIABLE, "without JP_COMPACT_PROTOCOL it writes nothing to stdout and exits 64"),
    core("S03", "an unknown verb", "it exits 64 for an unknown verb"),
    core("S04", "a terminal on stdin", "with a terminal on stdin it writes nothing to stdout and exits 64"),
    core("D01", DESCRIBE, "it describes itself within 2 s or a longer `--deadline`, and exits 0"),
    core("D02", DESCRIBE, "its description is one line with all required fields"),
    core("D03", DESCRIBE, "its name is valid and matches its manifest or file"),
    core("D04", DESCRIBE, "it supports a protocol version of the host"),
    core("D05", DESCRIBE, "`produces` is not empty"),
    core("D06", DESCRIBE, "its `options_schema` is a JSON Schema that accepts its own defaults"),
    core("D07", DESCRIBE, "its manifest has the same version and protocols"),
    core("D08", "describe, twice", "it returns the same description each time"),
    full("D09", "describe with unknown keys", "unknown keys in the request are ignored"),
    core("D10", DESCRIBE, "its manifest asks for everything in `needs` of its description"),
    core("R01", RUN, "it answers before its deadline"),
    core("R02", RUN, "it exits 0 after its answer, unless the answer is `error`"),
    core("R03", RUN, "no process that it started keeps its pipes open after its exit"),
    core("R04", RUN, "the whole reply is at most 8 MiB"),
    core("R05", RUN, "exactly one line ends the reply: result, decline, needs or error"),
    core("R06", RUN, "nothing follows the line that ends the reply"),
    core("R07", RUN, "stdout is UTF-8"),
    core("R08", RUN, "every line on stdout is a message: a JSON object with a `type`"),
    core("R09", RUN, "every known message has its fields, each once and with the right type"),
    core("R10", "an id with unusual characters", "every reply echoes the id of its request"),
    core("R11", RUN, "a valid request is not answered with `error`"),
    core(
        "P01",
        "nothing to compact",
        "a `result` has at least one compaction; the reply without any is `decline`",
    ),
    core("P02", RUN, "a compaction has only keys and policies of the protocol"),
    core("P03", RUN, "the range of a compaction does not end before it starts"),
    core("P04", RUN, "a compaction with a summary is within `range`, any other within `requested_range`"),
    core("P05", RUN, "a compaction has a policy"),
    core("P06", RUN, "`produces` lists the kind of each policy"),
    core("P07", RUN, "the range of a compaction splits no tool call"),
    core(
        "P08",
        RUN,
        "a `selective` list is not empty; its entries name different tool events in range, each with its own half",
    ),
    core("P09", RUN, "a summary is not blank, contains no NUL, and is at most 256 KiB"),
    core("P10", RUN, "two summaries of one reply do not overlap"),
    core(
        "P11",
        "older summaries",
        "a summary does not partially overlap an older one, at the latest when asked again with `range_exact`",
    ),
    core("P12", "`range_exact`", "with `range_exact`, a summary covers exactly `range`"),
    core("P13", RUN, "a result has at most 1,024 compactions"),
    core(
        "P14",
        "a range that ends inside a turn",
        "with `steps`, a compaction names existing steps, and a summary begins with a turn or its first step",
    ),
    core("N01", RUN, "it asks only for needs that its description lists"),
    core("N02", RUN, "`needs` has requests, and no key of an earlier round"),
    core("N03", RUN, "it asks in at most 8 rounds and makes at most 256 requests"),
    core("N04", RUN, "its `state` is at most 64 KiB"),
    full("N05", "errors as answers", "it handles an error as an answer"),
    full("F01", "unknown keys", "unknown keys are ignored"),
    full("F02", "unknown messages", "unknown message types are ignored"),
    full("F03", "blank lines, and lines that end in CRLF", "blank lines are ignored, and CRLF ends a line"),
    full("F04", "a line of 3 MiB", "a long event is read as one line"),
    full("F05", "U+2028, U+0085 and escapes in strings", "only a newline ends a line"),
    full("F06", "`dry_run`", "the answer to a dry run is the same"),
    full("F07", "the same request again", "a `pure` strategy gives equal answers to equal requests"),
    full("F08", "a request without its last newline", "the last newline may be missing"),
    full("F09", "an unknown option", "an unknown option is ignored, or answered with `options_invalid`"),
    full("F10", "an empty turn", "an empty range is accepted"),
    full("F11", "events of a later version", "unknown event types are ignored"),
    full("F12", "the events in a file", "with `events.file`, the answer is the same as for events in lines"),
    full("W01", WORKER, "a worker answers all requests in order, with the answers of single runs"),
    full("W02", WORKER, "a worker flushes its answer before it waits for stdin"),
    full("W03", "the end of stdin", "a worker exits 0 within 5 s when stdin closes"),
    full("W04", "64 requests or 1 MiB at once", "with `pipeline`, it answers all requests in order"),
    full(
        "W05",
        "a long request, then another",
        "a worker reads a request to its end even after answering it",
    ),
    full(
        "W06",
        "events in a file, then in lines",
        "a worker with `events.file` does not wait for `events_end` after a file",
    ),
    full(
        "W07",
        "unknown keys and messages, and blank lines",
        "a worker ignores the same input as a single run",
    ),
];

/// Returns the check with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        for (index, check) in CHECKS.iter().enumerate() {
            assert!(CHECKS[..index].iter().all(|other| other.id != check.id), "{}", check.id);
        }
    }
}
