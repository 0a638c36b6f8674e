//! The rules of PROTOCOL.md that a strategy can break, one check each: what is sent, what is expected. Data only;
//! how a check is made is in its neighbours.

use serde::Serialize;

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What every host relies on at every request.
    Core,
    /// Also what only an odd request, a newer host or a worker brings to light.
    Full,
}

/// One rule.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its number. It never changes, and is never used again.
    pub id: &'static str,
    /// From which level on it is made.
    pub level: Level,
    /// What the strategy is sent.
    pub sent: &'static str,
    /// What it must do; also the sentence for its failure.
    pub expected: &'static str,
}

const fn core(id: &'static str, sent: &'static str, expected: &'static str) -> Check {
    Check { id, level: Level::Core, sent, expected }
}

const fn full(id: &'static str, sent: &'static str, expected: &'static str) -> Check {
    Check { id, level: Level::Full, sent, expected }
}

const HAND: &str = "no JP_COMPACT_PROTOCOL";
const DESCRIBE: &str = "describe";
const RUN: &str = "requests of many kinds, one process each";
const WORKER: &str = "requests to one worker";

/// Every check, in the order in which they are reported.
pub const CHECKS: [Check; 62] = [
    core("S01", DESCRIBE, "it can be started"),
    core("S02", HAND, "without JP_COMPACT_PROTOCOL it writes nothing to stdout and exits 64"),
    core("S03", "an unknown verb", "for a verb that it does not know it exits 64"),
    core("S04", "a terminal on stdin", "at a terminal it writes nothing to stdout and exits 64"),
    core("D01", DESCRIBE, "it describes itself within 2 s, and exits 0"),
    core("D02", DESCRIBE, "its description is one line, and every required field is there and readable"),
    core("D03", DESCRIBE, "its name follows the grammar, and is that of its manifest or file"),
    core("D04", DESCRIBE, "it speaks a version of the protocol that the host speaks"),
    core("D05", DESCRIBE, "it produces something"),
    core("D06", DESCRIBE, "its `options_schema` is a JSON Schema, and takes its own defaults"),
    core("D07", DESCRIBE, "its manifest says the same version and protocols"),
    core("D08", "describe, twice", "it describes itself in the same words each time"),
    full("D09", "describe with keys that nobody knows", "unknown keys in the question are ignored"),
    core("D10", DESCRIBE, "what its description needs, its manifest asks for"),
    core("R01", RUN, "it answers before its deadline"),
    core("R02", RUN, "it exits 0 after its answer, or says `error` first"),
    core("R03", RUN, "nothing that it started holds its pipes open after its exit"),
    core("R04", RUN, "the whole reply is 8 MiB at most"),
    core("R05", RUN, "one line ends the reply: result, decline, needs or error"),
    core("R06", RUN, "nothing follows the line that ends the reply"),
    core("R07", RUN, "stdout is UTF-8"),
    core("R08", RUN, "every line on stdout is a message: a JSON object with a `type`"),
    core("R09", RUN, "every message that the protocol knows has its fields, each once and of its type"),
    core("R10", "an id of odd characters", "every reply echoes the id of its request"),
    core("R11", RUN, "a request that is valid is not answered with `error`"),
    core("P01", "nothing to compact", "a result has compactions; nothing to do is a `decline`"),
    core("P02", RUN, "a compaction holds no key but those of the protocol, and no unknown policy"),
    core("P03", RUN, "its range does not end before it starts"),
    core("P04", RUN, "its range lies in `range` with a summary, else in `requested_range`"),
    core("P05", RUN, "it has a policy"),
    core("P06", RUN, "each policy is of a kind that `produces` names"),
    core("P07", RUN, "its range splits no tool call"),
    core(
        "P08",
        RUN,
        "a `selective` list is not empty, and names tool events in range, each once, by their half",
    ),
    core("P09", RUN, "a summary is not blank, holds no NUL, and is 256 KiB at most"),
    core("P10", RUN, "two summaries of one reply do not overlap"),
    core(
        "P11",
        "older summaries",
        "a summary does not cut an older one in two, or not when asked again with `range_exact`",
    ),
    core("P12", "`range_exact`", "asked with `range_exact`, a summary is of exactly `range`"),
    core("P13", RUN, "a result has 1,024 compactions at most"),
    core("N01", RUN, "it asks only for what `needs` of its description names"),
    core("N02", RUN, "`needs` has requests, each under a key that no earlier round used"),
    core("N03", RUN, "it asks in 8 rounds at most, and for 256 things at most"),
    core("N04", RUN, "its `state` is 64 KiB at most"),
    full("N05", "errors as answers", "an answer that is an error does not break it"),
    full("F01", "keys that nobody knows", "unknown keys are ignored"),
    full("F02", "messages that nobody knows", "unknown message types are ignored"),
    full("F03", "blank lines, and lines that end in CRLF", "blank lines mean nothing, and CRLF ends a line"),
    full("F04", "a line of 3 MiB", "a line may be as long as an event is"),
    full("F05", "U+2028, U+0085 and escapes in strings", "only a newline ends a line"),
    full("F06", "`dry_run`", "the answer to a dry run is the same"),
    full("F07", "the same request again", "a `pure` strategy gives equal answers to equal requests"),
    full("F08", "a request whose last line has no end", "the last line may lack its end"),
    full("F09", "an option that nobody knows", "options that it cannot use are an `error`, and no crash"),
    full("F10", "a turn in which nothing was said", "a range may hold nothing"),
    full("F11", "events of a later version", "event types that it does not know are ignored"),
    full("F12", "the events in a file", "with `events.file` the answer is that to the same events in lines"),
    full(
        "W01",
        WORKER,
        "a worker answers every request, in order, and gives the answer that a single run gives",
    ),
    full("W02", WORKER, "a worker flushes its answer before it waits for stdin"),
    full("W03", "the end of stdin", "a worker exits 0 within 5 s when stdin closes"),
    full("W04", "64 requests or 1 MiB at once", "with `pipeline` it answers all in order"),
    full(
        "W05",
        "a long request, and one more",
        "a worker reads a request to its end, also when it has answered already",
    ),
    full(
        "W06",
        "events in a file, then in lines",
        "a worker with `events.file` waits for no `events_end` of a file",
    ),
    full("W07", "what nobody knows, and blank lines", "a worker ignores what a single run ignores"),
];

/// The check of that number.
#[must_use]
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_stands_once() {
        for (place, check) in CHECKS.iter().enumerate() {
            assert!(CHECKS[..place].iter().all(|other| other.id != check.id), "{}", check.id);
        }
    }
}
