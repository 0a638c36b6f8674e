//! The error of the token estimate against the tokenizer `o200k`, on whole request bodies. The weights of the estimate
//! are in `host/tokens/src/weights.rs`; the ignored test `fits_the_weights` computes them again.
//!
//! The corpus is outside of the repository. Without it, only conversations about our own files are checked.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stdout, reason = "`--nocapture` prints the table")]

#[path = "token_estimate/fit.rs"]
mod fit;

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jp_compact_core::estimate::{Estimate, Estimator, tokens_outside_text};
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::{project, project_with_overlays};
use jp_compact_core::render::{Provider, ViewPosition, render};
use jp_compact_core::{Pairs, Stream, View};
use jp_compact_schema::Reasoning;
use jp_compact_transcripts::{self as transcripts, Format, Transcript};
use serde_json::{Value, json};

/// The largest accepted errors in percent: their median, and their 95th percentile.
const ERROR_MAX: (f64, f64) = (5.0, 12.0);
/// The size of the smallest body that is compared.
const BODY_TOKENS_MIN: u64 = 200;
/// The members that only their provider can read. Their size does not determine their number of tokens.
const OPAQUE: [&str; 4] = ["signature", "thoughtSignature", "encrypted_content", "data"];

pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) transcript: Transcript,
}

pub(crate) fn o200k(text: &str) -> u64 {
    tiktoken_rs::o200k_base_singleton().count_ordinary(text) as u64
}

/// Returns the sessions of the corpus, in the order of their names.
pub(crate) fn corpus() -> Vec<Session> {
    sessions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/transcripts"))
}

/// Returns the readable sessions of a folder, in the order of their paths.
fn sessions(folder: &Path) -> Vec<Session> {
    let mut paths = files(folder);
    paths.sort();
    let sessions = paths.iter().filter_map(|path| {
        let bytes = fs::read(path).unwrap();
        let transcript = transcripts::read(transcripts::detect(&bytes)?, bytes.into()).ok()?;
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Session { name, transcript })
    });
    sessions.collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns the body that a view is sent as, with empty opaque members and without messages that the renderer added. The
/// added messages are in no event, and can be a tenth of a tiny body.
pub(crate) fn body(session: &Session, view: &View, provider: Provider) -> String {
    let mut rendered = render(session.transcript.stream(), view, provider);
    let positions = std::mem::take(&mut rendered.positions);
    if let Some(messages) = rendered.body[provider.conversation()].as_array_mut() {
        let mut positions = positions.into_iter();
        messages.retain(|_| positions.next() != Some(ViewPosition::default()));
    }
    empty_opaque(&mut rendered.body);
    rendered.body.to_string()
}

/// Returns whether the error of the estimate can be measured with the session's body. The body of a tiny session is
/// mostly the JSON of its provider. A result without a call is not sent.
pub(crate) fn is_comparable(session: &Session) -> bool {
    let (stream, pairs) = (session.transcript.stream(), Pairs::new(session.transcript.stream()));
    let is_sent = |(element, event): (usize, &Event)| {
        !matches!(event.kind, Kind::ToolResponse { .. }) || pairs.partner(element).is_some()
    };
    let tokens = o200k(&body(session, &project(stream), Provider::Anthropic));
    tokens >= BODY_TOKENS_MIN && stream.events().iter().enumerate().all(is_sent)
}

/// Returns the part of a session that a provider receives. Most providers do not receive the reasoning of other
/// providers.
pub(crate) fn sent_view(session: &Session, provider: Provider) -> View {
    let stream = session.transcript.stream();
    let whole = project(stream);
    let without_reasoning = project_with_overlays(stream, &[strip_reasoning(stream)]);
    if body(session, &whole, provider) == body(session, &without_reasoning, provider) {
        return without_reasoning;
    }
    whole
}

fn strip_reasoning(stream: &Stream) -> Overlay {
    Overlay {
        element: usize::MAX,
        stamp: Timestamp::UNIX_EPOCH,
        from_turn: 0,
        to_turn: stream.turns().saturating_sub(1),
        from_step: None,
        to_step: None,
        summary: None,
        reasoning: Some(Reasoning::Strip),
        tool_calls: None,
        applied_by_jp: false,
        not_applied: Vec::new(),
        stale: false,
    }
}

fn empty_opaque(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(empty_opaque),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if OPAQUE.contains(&name.as_str()) => text.clear(),
                    value => empty_opaque(value),
                }
            }
        }
        _ => {}
    }
}

/// Returns the error of the estimate in percent, and prints it.
fn error(session: &Session, provider: Provider) -> f64 {
    let (stream, view) = (session.transcript.stream(), sent_view(session, provider));
    let exact = o200k(&body(session, &view, provider)) + tokens_outside_text(stream, &view);
    let estimate = Estimate::new(stream, Estimator::Pieces).view_tokens(&view);
    let error = (estimate as f64 / exact as f64 - 1.0) * 100.0;
    println!("{estimate:>8} {exact:>8} {error:>+7.1} %  {provider} {}", session.name);
    error
}

/// Returns the median and the 95th percentile of the absolute errors. `errors` must not be empty.
pub(crate) fn quantiles(errors: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let mut errors: Vec<f64> = errors.into_iter().map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    let at = |percent: usize| errors[(errors.len() * percent / 100).min(errors.len() - 1)];
    (at(50), at(95))
}

#[test]
fn estimate_of_corpus_is_within_5_and_12_percent() {
    let sessions: Vec<Session> = corpus().into_iter().filter(is_comparable).collect();
    if sessions.is_empty() {
        println!("the corpus is missing; only our own files are checked");
        return;
    }
    let (median, p95) = quantiles(sessions.iter().map(|session| error(session, Provider::Anthropic)));
    println!("{} sessions: median {median:.1} %, 95th percentile {p95:.1} %", sessions.len());
    assert!(median <= ERROR_MAX.0 && p95 <= ERROR_MAX.1, "{median:.1} % {p95:.1} %");
}

/// `JP_COMPACT_TEST_SESSIONS` is a folder with sessions that were not used to choose the weights.
#[test]
fn estimate_of_other_sessions_is_within_5_and_12_percent() {
    let Some(folder) = std::env::var_os("JP_COMPACT_TEST_SESSIONS").filter(|path| !path.is_empty()) else {
        println!("JP_COMPACT_TEST_SESSIONS is not set: no other sessions were estimated");
        return;
    };
    let known: Vec<String> = corpus().into_iter().map(|session| session.name).collect();
    let others = sessions(Path::new(&folder)).into_iter().filter(|session| !known.contains(&session.name));
    let others: Vec<Session> = others.filter(is_comparable).collect();
    assert!(!others.is_empty(), "JP_COMPACT_TEST_SESSIONS has no other sessions");
    let (median, p95) = quantiles(others.iter().map(|session| error(session, Provider::Anthropic)));
    println!("{} other sessions: median {median:.1} %, 95th percentile {p95:.1} %", others.len());
    assert!(median <= ERROR_MAX.0 && p95 <= ERROR_MAX.1, "{median:.1} % {p95:.1} %");
}

#[test]
#[ignore = "takes minutes"]
fn prints_the_error_for_each_provider() {
    for provider in Provider::ALL {
        for tokens_min in [0, BODY_TOKENS_MIN, 2_000] {
            let is_large = |session: &Session| {
                o200k(&body(session, &sent_view(session, provider), provider)) >= tokens_min
            };
            let sessions: Vec<Session> = corpus().into_iter().filter(is_large).collect();
            if sessions.is_empty() {
                println!("{provider}: no bodies of {tokens_min} tokens or more");
                continue;
            }
            let (median, p95) = quantiles(sessions.iter().map(|session| error(session, provider)));
            let number = sessions.len();
            println!("{provider}: {number} bodies of {tokens_min} tokens or more: {median:.1} %, {p95:.1} %");
        }
    }
}

/// Returns a conversation in which the assistant reads a file of this repository.
fn session_about(file: &str) -> Session {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let messages = json!([
        {"role": "user", "content": format!("Read {file}, and explain each part of it in one sentence.")},
        {"role": "assistant", "content": [
            {"type": "text", "text": "I read the file first."},
            {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "read_file", "input": {"path": file}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_01A09q90qw90lq917835lq9", "content": text}]},
        {"role": "assistant", "content": "The file is short. Its parts are in the order in which they are used."},
    ]);
    let transcript = transcripts::read(Format::Anthropic, messages.to_string().into_bytes().into()).unwrap();
    Session { name: file.to_owned(), transcript }
}

#[test]
fn estimate_of_own_files_is_within_5_and_12_percent() {
    let files = [
        "README.md",
        "ARCHITECTURE.md",
        "docs/reference/lint-rules.md",
        "clippy.toml",
        "docs/decisions/0001-short-results-stay.md",
        "docs/reference/json.md",
        "host/core/src/estimate.rs",
        "host/cli/main.rs",
        "host/json/src/string.rs",
        "schema/PROTOCOL.md",
        "tests/fuzz/corpus.py",
    ];
    let (median, p95) = quantiles(files.map(|file| error(&session_about(file), Provider::Anthropic)));
    assert!(median <= ERROR_MAX.0 && p95 <= ERROR_MAX.1, "{median:.1} % {p95:.1} %");
}
