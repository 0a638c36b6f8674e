//! The fit of the weights: weighted least squares, on the texts and the bodies of the corpus and on the files of this
//! repository. It reproduces the constants of `host/tokens/src/weights.rs`, except the frames of messages and calls.

use std::path::Path;

use jp_compact_core::projection::project;
use jp_compact_core::render::Provider;
use jp_compact_tokens::{Frames, PIECE_NAMES, PIECE_WEIGHTS, PieceCounts, WEIGHT_PER_TOKEN};
use serde_json::Value;

use crate::{ERROR_MAX, Session, body, corpus, files, is_comparable, o200k, quantiles, sent_view};

/// The number of columns: the pieces, then arguments and bytes of ids.
const COLUMNS: usize = PIECE_NAMES.len() + 2;
const ARGUMENT: usize = PIECE_NAMES.len();
const ID_BYTE: usize = ARGUMENT + 1;
/// The number of characters that are used of each file of the repository.
const FILE_CHARS: usize = 4_000;
/// The influence of a body, in tokens of text. The estimate is for bodies, but the texts are the larger sample.
const BODY_INFLUENCE: f64 = 10_000.0;

/// The counts of a text or of several, and the exact number of tokens.
#[derive(Debug, Clone, Default)]
struct Row {
    counts: [f64; COLUMNS],
    /// The tokens of frames, which are not fitted.
    frames: f64,
    tokens: f64,
}

impl Row {
    fn add_text(&mut self, text: &str) {
        for (count, piece) in self.counts.iter_mut().zip(PieceCounts::of_text(text.as_bytes()).counts()) {
            *count += piece as f64;
        }
    }

    fn add_arguments(&mut self, value: &Value) {
        let mut add = |text: &str| {
            self.add_text(text);
            self.counts[ARGUMENT] += 1.0;
        };
        match value {
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) => add(&value.to_string()),
            Value::String(text) => add(text),
            Value::Array(items) => items.iter().for_each(|item| self.add_arguments(item)),
            Value::Object(members) => {
                for (key, value) in members {
                    self.add_text(key);
                    self.counts[ARGUMENT] += 1.0;
                    self.add_arguments(value);
                }
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, other)| *count += other);
        self.frames += other.frames;
        self.tokens += other.tokens;
    }

    fn estimate(&self, weights: &[f64; COLUMNS]) -> f64 {
        let pieces: f64 = self.counts.iter().zip(weights).map(|(count, weight)| count * weight).sum();
        pieces + self.frames
    }

    /// Returns the error of the estimate in percent.
    fn error(&self, weights: &[f64; COLUMNS]) -> f64 {
        (self.estimate(weights) / self.tokens - 1.0) * 100.0
    }
}

/// Returns the number of tokens of a text as a JSON string.
fn exact(text: &str) -> f64 {
    let json = Value::from(text).to_string();
    o200k(&json[1..json.len() - 1]) as f64
}

/// The rows of a session: its texts by kind, and its body.
struct SessionRows {
    name: String,
    texts: Vec<Row>,
    body: Row,
}

fn session_rows(session: &Session) -> SessionRows {
    let (stream, provider) = (session.transcript.stream(), Provider::Anthropic);
    let (mut texts, mut whole) = (vec![Row::default(); 6], Row::default());
    for event in sent_view(session, provider).events(stream) {
        let event = event.event;
        let mut rows = Vec::new();
        for (kind, name) in ["content", "message", "reasoning", "name", "id"].into_iter().enumerate() {
            let Some(text) = event.get(name).and_then(Value::as_str) else { continue };
            let mut row = Row { tokens: exact(text), ..Row::default() };
            row.add_text(text);
            row.counts[ID_BYTE] += if name == "id" { text.len() as f64 } else { 0.0 };
            rows.push((kind, row));
        }
        if let Some(arguments) = event.get("arguments") {
            let mut row = Row { tokens: o200k(&arguments.to_string()) as f64, ..Row::default() };
            row.add_arguments(arguments);
            rows.push((5, row));
        }
        let frame = if event.contains_key("id") { Frames::CALL } else { Frames::MESSAGE };
        whole.frames += frame as f64 / WEIGHT_PER_TOKEN as f64;
        for (kind, row) in rows {
            whole.add(&row);
            texts[kind].add(&row);
        }
    }
    whole.tokens = o200k(&body(session, &project(stream), provider)) as f64;
    texts.retain(|row| row.tokens > 0.0);
    SessionRows { name: session.name.clone(), texts, body: whole }
}

/// Returns the rows of this repository's files.
fn own_rows() -> Vec<Row> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> =
        ["docs", "host", "plugins"].iter().flat_map(|folder| files(&root.join(folder))).collect();
    paths.sort();
    let texts = paths.iter().step_by(5).filter_map(|path| std::fs::read_to_string(path).ok());
    let rows = texts.map(|text| {
        let text: String = text.chars().take(FILE_CHARS).collect();
        let mut row = Row { tokens: exact(&text), ..Row::default() };
        row.add_text(&text);
        row
    });
    rows.filter(|row| row.tokens > 100.0).collect()
}

/// Returns the weights with the smallest sum of squared errors. Each error is divided by the root of its row's tokens.
fn fit<'a>(rows: impl Iterator<Item = (&'a Row, f64)>) -> [f64; COLUMNS] {
    // The normal equations, with a small ridge. They are positive definite, so no pivot is needed.
    let mut matrix = [[0.0; COLUMNS + 1]; COLUMNS];
    for (index, line) in matrix.iter_mut().enumerate() {
        line[index] = 1e-6;
    }
    for (row, influence) in rows {
        let importance = influence / (row.tokens + 20.0);
        for (line, left) in matrix.iter_mut().zip(row.counts) {
            for (cell, right) in line.iter_mut().zip(row.counts) {
                *cell += importance * left * right;
            }
            line[COLUMNS] += importance * left * (row.tokens - row.frames);
        }
    }
    for pivot in 0..COLUMNS {
        let line = matrix[pivot];
        for other in
            matrix.iter_mut().enumerate().filter(|(index, _)| *index != pivot).map(|(_, other)| other)
        {
            let factor = other[pivot] / line[pivot];
            other.iter_mut().zip(line).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    std::array::from_fn(|column| matrix[column][COLUMNS] / matrix[column][column])
}

/// Fits the weights to the repository's files and to some of the sessions.
fn fit_to(sessions: &[SessionRows], own: &[Row], includes: impl Fn(usize) -> bool) -> [f64; COLUMNS] {
    let sessions = sessions.iter().enumerate().filter(|(index, _)| includes(*index));
    let rows = sessions.flat_map(|(_, session)| {
        let influence = BODY_INFLUENCE / (session.body.tokens + 20.0);
        session.texts.iter().map(|row| (row, 1.0)).chain([(&session.body, influence)])
    });
    fit(rows.chain(own.iter().map(|row| (row, 1.0))))
}

/// Splits the sessions in halves by a hash of their number.
fn half(index: usize) -> usize {
    (((index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) & 1) as usize
}

#[test]
#[ignore = "takes minutes"]
fn fits_the_weights() {
    let comparable = corpus().into_iter().filter(is_comparable);
    let sessions: Vec<SessionRows> = comparable.map(|session| session_rows(&session)).collect();
    if sessions.is_empty() {
        println!("the corpus is missing; the weights were not fitted");
        return;
    }
    let own = own_rows();
    let fitted = fit_to(&sessions, &own, |_| true);
    let published = PIECE_WEIGHTS.into_iter().chain([Frames::ARGUMENT, Frames::ID_BYTE]);
    let published: Vec<f64> = published.map(|weight| weight as f64 / WEIGHT_PER_TOKEN as f64).collect();
    let published: [f64; COLUMNS] = published.try_into().unwrap();
    let names = PIECE_NAMES.into_iter().chain(["argument", "byte of an id"]);
    for (name, (fitted, published)) in names.zip(fitted.into_iter().zip(published)) {
        println!("{name}: fitted {fitted:.3}, published {published:.3}");
    }
    let (median, p95) = quantiles(own.iter().map(|row| row.error(&fitted)));
    println!("{} files of this repository: median {median:.1} %, 95th percentile {p95:.1} %", own.len());
    let (median, p95) = quantiles(sessions.iter().map(|session| session.body.error(&fitted)));
    println!("{} sessions: median {median:.1} %, 95th percentile {p95:.1} %", sessions.len());

    // Each half of the sessions is estimated with the weights that were fitted to the other half.
    let halves = [0, 1].map(|part| fit_to(&sessions, &own, |index| half(index) != part));
    let held_out = sessions.iter().enumerate().map(|(index, session)| {
        let error = session.body.error(&halves[half(index)]);
        println!("{error:>+7.1} %  {}", session.name);
        error
    });
    let (median, p95) = quantiles(held_out);
    println!("held out: median {median:.1} %, 95th percentile {p95:.1} %");
    assert!(median <= ERROR_MAX.0 && p95 <= ERROR_MAX.1);
    for (fitted, published) in fitted.into_iter().zip(published) {
        assert!((fitted - published).abs() <= 0.1, "fitted {fitted:.3}, published {published:.3}");
    }
}
