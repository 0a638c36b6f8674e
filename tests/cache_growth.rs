//! The two predictions for the cost of a compaction, compared with the usage that an agent recorded for each
//! request. One is the growth of the prompt from one request to the next. The other is whether the provider still had
//! the prompt in its cache.
//!
//! The sessions are outside of the repository. Without them, nothing is checked.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stdout, reason = "`--nocapture` prints the tables")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jp_compact_core::estimate::{Estimate, Estimator, tokens};
use jp_compact_evidence::prices::Prices;
use jp_compact_evidence::prompt_cache::CacheAge;
use jp_compact_transcripts::{self as transcripts, Transcript};
use serde_json::Value;

/// The largest median error of the growth, in percent.
const ERROR_MAX: f64 = 10.0;
/// The minimum part of the requests whose cache state is predicted correctly, in percent. An agent can also change the
/// beginning of its prompt, so that the provider has to read all of it again.
const STATES_MIN: f64 = 90.0;
/// A cache that has at least this part of the last prompt counts as warm.
const WARM_PART: f64 = 0.95;

/// A session of an agent with the usage of its requests.
struct Session {
    name: String,
    transcript: Transcript,
    /// One value for each line of the file.
    lines: Vec<Value>,
    requests: Vec<Request>,
}

/// A request, by the response that the session recorded. A response with several records is one request.
struct Request {
    /// The line of the first record of the response.
    line: usize,
    /// The first element of the response.
    element: usize,
    /// The tokens that were read from the cache.
    cached: u64,
    /// The tokens of the prompt: those that were read from the cache, and those that were written into it.
    prompt: u64,
}

/// The agents, with the members of `usage` for tokens that were read from the cache, and written into it.
const AGENTS: [(&str, [&str; 2]); 2] = [
    ("claude-code", ["cache_read_input_tokens", "cache_creation_input_tokens"]),
    ("pi", ["cacheRead", "cacheWrite"]),
];

/// Returns the sessions of an agent that recorded usage.
fn sessions((agent, members): (&str, [&str; 2])) -> Vec<Session> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/transcripts").join(agent);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let sessions = paths.iter().map(|path| Session::read(path, members));
    sessions.filter(|session| session.requests.len() > 1).collect()
}

impl Session {
    fn read(path: &Path, [read, written]: [&str; 2]) -> Self {
        let bytes = fs::read(path).unwrap();
        let line_starts: Vec<usize> =
            std::iter::once(0).chain((1..bytes.len()).filter(|index| bytes[index - 1] == b'\n')).collect();
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap_or_default()).collect();
        let transcript = transcripts::read(transcripts::detect(&bytes).unwrap(), bytes.into()).unwrap();
        let mut seen = HashSet::new();
        let mut requests = Vec::new();
        for (element, event) in transcript.events().iter().enumerate() {
            let line = line_starts.partition_point(|start| *start <= event.span.start) - 1;
            let message = &lines[line]["message"];
            let usage = |member: &str| message["usage"][member].as_u64().unwrap_or_default();
            let (cached, prompt) = (usage(read), usage(read) + usage(written));
            // Without an id, each record is a response. A failed request has no usage.
            let id = message["id"].as_str().map_or_else(|| line.to_string(), str::to_owned);
            if prompt > 0 && seen.insert(id) {
                requests.push(Request { line, element, cached, prompt });
            }
        }
        let name = path.file_stem().unwrap().to_string_lossy()[..8].to_owned();
        Self { name, transcript, lines, requests }
    }

    /// Returns the predicted and the recorded growth of the prompt from each request to the next.
    fn growth(&self) -> Vec<(u64, i64)> {
        let estimate = Estimate::new(&self.transcript, Estimator::Pieces);
        let pairs = self.requests.windows(2);
        let growth = pairs.map(|pair| {
            let added = pair[0].element..pair[1].element;
            let recorded = pair[1].prompt.cast_signed() - pair[0].prompt.cast_signed();
            (tokens(added.map(|element| estimate.weight(element)).sum()), recorded)
        });
        growth.collect()
    }

    /// Returns for each request whether the cache is predicted to be warm, and whether it was.
    fn cache_states(&self) -> Vec<(bool, bool)> {
        let prices = Prices::built_in();
        let family = prices.family_of(self.transcript.model());
        let time = |line: &Value| line["timestamp"].as_str()?.parse::<Timestamp>().ok();
        let states = self.requests.windows(2).map(|pair| {
            let earlier = &self.lines[..pair[1].line];
            let of_model = earlier.iter().filter(|line| is_of_model(line));
            // The last record before the response was written when the request was sent.
            let sent = earlier.iter().rev().find_map(time).unwrap();
            let is_fresh = CacheAge::new(of_model.filter_map(time).max(), sent, family) == CacheAge::Fresh;
            (is_fresh, pair[1].cached as f64 >= WARM_PART * pair[0].prompt as f64)
        });
        states.collect()
    }
}

fn is_of_model(line: &Value) -> bool {
    line["message"]["role"] == "assistant"
}

/// Returns the error of a prediction in percent.
fn error((predicted, recorded): &(u64, i64)) -> f64 {
    (*predicted as f64 - *recorded as f64).abs() * 100.0 / (*recorded as f64).abs().max(1.0)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[test]
fn growth_of_the_prompt_is_predicted_from_the_transcript() {
    for agent in AGENTS {
        let mut all = Vec::new();
        for session in sessions(agent) {
            let growth = session.growth();
            let recorded: i64 = growth.iter().map(|(_, recorded)| recorded).sum();
            let predicted: u64 = growth.iter().map(|(predicted, _)| predicted).sum();
            println!(
                "{} {:<8} {:>4} requests, recorded {recorded:>7}, predicted {predicted:>7} ({:>+5.1} %), median error {:>4.1} %",
                agent.0,
                session.name,
                session.requests.len(),
                (predicted as f64 / recorded as f64 - 1.0) * 100.0,
                median(growth.iter().map(error).collect())
            );
            all.extend(growth);
        }
        if all.is_empty() {
            println!("skipped: there are no sessions of {} with recorded usage", agent.0);
            continue;
        }
        let error = median(all.iter().map(error).collect());
        println!("{}: {} pairs of requests, {error:.1} % in the median", agent.0, all.len());
        assert!(error <= ERROR_MAX, "{}: {error:.1} % is more than {ERROR_MAX} %", agent.0);
    }
}

#[test]
fn state_of_the_cache_is_predicted_from_the_times() {
    for agent in AGENTS {
        let mut counts = [[0_u32; 2]; 2];
        for (predicted, recorded) in sessions(agent).iter().flat_map(Session::cache_states) {
            counts[usize::from(predicted)][usize::from(recorded)] += 1;
        }
        let [[cold, not_cold], [not_warm, warm]] = counts;
        let all = cold + not_cold + not_warm + warm;
        if all == 0 {
            println!("skipped: there are no sessions of {} with recorded usage", agent.0);
            continue;
        }
        println!("{}, predicted warm: {warm} were warm, {not_warm} cold", agent.0);
        println!("{}, predicted cold: {cold} were cold, {not_cold} warm", agent.0);
        let right = f64::from(warm + cold) * 100.0 / f64::from(all);
        assert!(right >= STATES_MIN, "{}: {right:.1} % is less than {STATES_MIN} %", agent.0);
        assert!(cold >= not_cold, "{}: fewer than half of the caches predicted as cold were cold", agent.0);
    }
}
