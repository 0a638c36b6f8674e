//! The choice of lines: a greedy cover of the names that the view does not show elsewhere.
//!
//! The gain of a line is the weight of its new names, per byte. The best line is chosen first. The gains of the other
//! lines then decrease. Equal gains are ordered by position. All arithmetic is on whole numbers, so equal input gives
//! equal output.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use jp_compact_strategy::calls::CallHistory;

use crate::Options;
use crate::anchors::{NameKind, for_each_name};
use crate::candidates::CallCandidate;
use crate::lines::{LineRole, split};
use crate::prose::{ShownLines, choose_prose};

/// The weight of names in the oldest candidate. It grows to almost 1.5 times this value in the newest candidate,
/// because new names are needed more often.
const OLDEST_WEIGHT: u64 = 1_000;

/// All names, with a mark for each name that the view shows.
#[derive(Default)]
struct Names<'a> {
    indexes: HashMap<&'a str, usize>,
    is_shown: Vec<bool>,
    kinds: Vec<NameKind>,
}

impl<'a> Names<'a> {
    fn index(&mut self, kind: NameKind, name: &'a str) -> usize {
        let next = self.is_shown.len();
        let index = *self.indexes.entry(name).or_insert(next);
        if index == next {
            self.is_shown.push(false);
            self.kinds.push(kind);
        }
        index
    }

    fn show(&mut self, text: &'a str) {
        for_each_name(text, |kind, name| {
            let index = self.index(kind, name);
            self.is_shown[index] = true;
        });
    }
}

/// A part of a candidate that can be kept: a line, or one name of a long line.
struct Piece<'a> {
    candidate: usize,
    /// The line within the candidate.
    line: usize,
    text: &'a str,
    /// The indexes of its names.
    names: Vec<usize>,
}

impl Piece<'_> {
    fn bytes(&self) -> usize {
        self.text.len() + 1
    }
}

/// An entry of the heap: a piece, ordered by the gain that was last computed for it.
struct Ranked {
    gain: u64,
    bytes: u64,
    piece: usize,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        // Compares gain per byte. If it is equal, the first piece is greater, so the heap returns it first.
        let (left, right) = (self.gain * other.bytes, other.gain * self.bytes);
        left.cmp(&right).then(other.piece.cmp(&self.piece))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

/// The lines of one candidate.
#[derive(Default)]
struct Parts<'a> {
    arguments: Vec<KeptLine<'a>>,
    output: Vec<KeptLine<'a>>,
}

impl<'a> Parts<'a> {
    fn lines(&self) -> impl Iterator<Item = &KeptLine<'a>> {
        self.arguments.iter().chain(&self.output)
    }
}

/// A line, and its kept parts.
struct KeptLine<'a> {
    text: &'a str,
    role: LineRole,
    is_kept: bool,
    /// The kept names of a long line.
    names: Vec<&'a str>,
}

/// Returns the text that replaces each group of candidates.
pub(crate) fn extract(
    conversation: &CallHistory,
    candidates: &[CallCandidate<'_>],
    options: &Options,
) -> Vec<String> {
    let argument_texts = arguments_that_stay(conversation, candidates);
    let mut names = Names::default();
    show_texts_that_stay(conversation, candidates, &argument_texts, &mut names);
    let mut parts: Vec<Parts<'_>> = candidates.iter().map(|candidate| parts(candidate, options)).collect();
    let bytes: usize = candidates.iter().map(CallCandidate::bytes).sum();
    let mut budget = share_of(bytes, options.budget);
    for line in parts.iter().flat_map(Parts::lines).filter(|line| line.is_kept) {
        names.show(line.text);
        budget = budget.saturating_sub(line.text.len() + 1);
    }
    let mut pieces = pieces(&parts, &mut names);
    let without_prose = names.is_shown.clone();
    let mut chosen = choose(&pieces, &mut names, candidates.len(), budget);
    // Names have priority: prose gets the rest of the budget. A name in a line of prose then needs no other line, so
    // the choice is repeated.
    let left = budget.saturating_sub(chosen.iter().map(|&piece| pieces[piece].bytes()).sum());
    let prose = keep_prose(conversation, &mut parts, left.min(share_of(bytes, options.prose)));
    if !prose.is_empty() {
        names.is_shown = without_prose;
        prose.iter().for_each(|line| names.show(line));
        let prose_bytes: usize = prose.iter().map(|line| line.len() + 1).sum();
        pieces = self::pieces(&parts, &mut names);
        chosen = choose(&pieces, &mut names, candidates.len(), budget.saturating_sub(prose_bytes));
    }
    for piece in chosen {
        let Piece { candidate, line, text, .. } = pieces[piece];
        let parts = &mut parts[candidate];
        let arguments = parts.arguments.len();
        let line = match line.checked_sub(arguments) {
            None => &mut parts.arguments[line],
            Some(line) => &mut parts.output[line],
        };
        if line.role == LineRole::Names { line.names.push(text) } else { line.is_kept = true }
    }
    let mut parts = parts.into_iter();
    candidates
        .chunk_by(|left, right| left.group == right.group)
        .map(|group| match group {
            [candidate] => render(candidate, parts.next().unwrap_or_default()),
            _ => render_merged(group, parts.by_ref().take(group.len())),
        })
        .collect()
}

/// Keeps whole lines of prose that no message and no other kept line shows, and returns them.
fn keep_prose<'a>(conversation: &CallHistory, parts: &mut [Parts<'a>], budget: usize) -> Vec<&'a str> {
    if budget == 0 {
        return Vec::new();
    }
    let mut shown = ShownLines::default();
    let messages = conversation.messages.iter().filter(|message| !message.hidden);
    messages.for_each(|message| shown.add_all(&message.text));
    let kept = parts.iter().flat_map(Parts::lines).filter(|line| line.is_kept);
    kept.for_each(|line| {
        shown.add(line.text);
    });
    let lines = parts.iter().flat_map(Parts::lines).enumerate();
    let open = lines.filter(|(_, line)| !line.is_kept).map(|(index, line)| (index, line.text));
    let mut chosen = choose_prose(open, &mut shown, budget);
    chosen.sort_unstable();
    let mut chosen = chosen.into_iter().peekable();
    let lines = parts.iter_mut().flat_map(|parts| parts.arguments.iter_mut().chain(&mut parts.output));
    let mut texts = Vec::new();
    for (index, line) in lines.enumerate() {
        if chosen.next_if_eq(&index).is_some() {
            line.role = LineRole::Whole;
            line.is_kept = true;
            texts.push(line.text);
        }
    }
    texts
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share of a size in memory, rounded down"
)]
fn share_of(bytes: usize, share: f64) -> usize {
    (bytes as f64 * share) as usize
}

/// Returns the text of the arguments that each call keeps in the view. The text is empty if the arguments are hidden or
/// shortened.
fn arguments_that_stay(conversation: &CallHistory, candidates: &[CallCandidate<'_>]) -> Vec<String> {
    let mut texts: Vec<String> = conversation
        .calls
        .iter()
        .map(|call| if call.hidden { String::new() } else { call.argument_text() })
        .collect();
    for candidate in candidates.iter().filter(|candidate| candidate.arguments.is_some()) {
        texts[candidate.call].clear();
    }
    texts
}

/// Marks the names of all texts that stay in the view.
fn show_texts_that_stay<'a>(
    conversation: &'a CallHistory,
    candidates: &[CallCandidate<'_>],
    argument_texts: &'a [String],
    names: &mut Names<'a>,
) {
    let mut shortens_output = vec![false; conversation.calls.len()];
    for candidate in candidates {
        shortens_output[candidate.call] = candidate.shortens_output;
    }
    conversation
        .messages
        .iter()
        .filter(|message| !message.hidden)
        .for_each(|message| names.show(&message.text));
    argument_texts.iter().for_each(|text| names.show(text));
    for (call, shortens_output) in conversation.calls.iter().zip(shortens_output) {
        if let Some(result) = call.result.as_ref().filter(|result| !shortens_output && !result.hidden) {
            names.show(&result.content);
        }
    }
}

fn parts<'a>(candidate: &'a CallCandidate<'_>, options: &Options) -> Parts<'a> {
    let kept_lines = |text: &'a str, edge_lines, is_output| {
        // All lines of a short text stay. It is a candidate only because it is merged.
        let is_short = text.len() <= options.min_bytes;
        let (line_bytes, edge_lines, is_output) = match is_short {
            true => (options.min_bytes, 0, false),
            false => (options.line_bytes, edge_lines, is_output),
        };
        let lines = split(text, line_bytes, edge_lines, is_output).into_iter();
        lines
            .map(|line| KeptLine {
                text: line.text,
                role: line.role,
                is_kept: is_short || line.role == LineRole::Fixed,
                names: Vec::new(),
            })
            .collect()
    };
    Parts {
        arguments: candidate.arguments.as_deref().map(|text| kept_lines(text, 0, false)).unwrap_or_default(),
        output: if candidate.shortens_output {
            kept_lines(candidate.output, options.edge_lines, true)
        } else {
            Vec::new()
        },
    }
}

/// Returns the lines and single names that can be kept and that add at least one name to the view.
fn pieces<'a>(parts: &[Parts<'a>], names: &mut Names<'a>) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for (candidate, parts) in parts.iter().enumerate() {
        for (number, line) in parts.lines().enumerate() {
            let piece = |text, names| Piece { candidate, line: number, text, names };
            match line.role {
                _ if line.is_kept => {}
                LineRole::Fixed => {}
                LineRole::Whole => {
                    let mut new = Vec::new();
                    for_each_name(line.text, |kind, name| new.push(names.index(kind, name)));
                    new.sort_unstable();
                    new.dedup();
                    new.retain(|&name| !names.is_shown[name]);
                    if !new.is_empty() {
                        pieces.push(piece(line.text, new));
                    }
                }
                LineRole::Names => for_each_name(line.text, |kind, name| {
                    let index = names.index(kind, name);
                    if !names.is_shown[index] {
                        pieces.push(piece(name, vec![index]));
                    }
                }),
            }
        }
    }
    pieces
}

/// Chooses pieces until no other one fits into the budget, and returns their indexes in order.
fn choose(pieces: &[Piece<'_>], names: &mut Names<'_>, candidates: usize, mut budget: usize) -> Vec<usize> {
    let gain = |piece: usize, names: &Names<'_>| {
        let new = pieces[piece].names.iter().filter(|&&name| !names.is_shown[name]);
        let weights: u64 = new.map(|&name| kind_weight(names.kinds[name])).sum();
        weights * age_weight(pieces[piece].candidate, candidates)
    };
    let rank = |piece: usize, gain| Ranked { gain, bytes: pieces[piece].bytes() as u64, piece };
    let mut heap: BinaryHeap<Ranked> =
        (0..pieces.len()).map(|piece| rank(piece, gain(piece, names))).collect();
    let mut chosen = Vec::new();
    while let Some(best) = heap.pop() {
        let current = gain(best.piece, names);
        let bytes = pieces[best.piece].bytes();
        if current == 0 || bytes > budget {
            continue;
        }
        // Gains only decrease, so the piece is still the best one if its gain has not changed.
        if current < best.gain {
            heap.push(rank(best.piece, current));
            continue;
        }
        budget -= bytes;
        pieces[best.piece].names.iter().for_each(|&name| names.is_shown[name] = true);
        chosen.push(best.piece);
    }
    chosen.sort_unstable();
    chosen
}

fn age_weight(candidate: usize, candidates: usize) -> u64 {
    OLDEST_WEIGHT + OLDEST_WEIGHT * candidate as u64 / (2 * candidates.max(1) as u64)
}

fn kind_weight(kind: NameKind) -> u64 {
    match kind {
        NameKind::Path => 3,
        NameKind::Number | NameKind::Identifier => 2,
    }
}

fn render(candidate: &CallCandidate<'_>, parts: Parts<'_>) -> String {
    let mut text = String::new();
    let arguments = kept_texts(&parts.arguments);
    // The call already shows that its arguments are missing, so a mark without lines adds no information.
    if !arguments.is_empty() {
        text.push_str(&format!("[arguments: {}/{} lines]\n", arguments.len(), parts.arguments.len()));
        arguments.iter().for_each(|line| push_line(&mut text, line));
    }
    if candidate.shortens_output {
        let kept = kept_texts(&parts.output);
        text.push_str(&format!("[{}/{} lines]\n", kept.len(), parts.output.len()));
        kept.iter().for_each(|line| push_line(&mut text, line));
    } else {
        if !arguments.is_empty() {
            text.push_str("[output]\n");
        }
        text.push_str(candidate.output);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Renders the lines of several calls, each with the name of its tool. A call without kept lines is only counted,
/// unless it failed.
fn render_merged<'a>(group: &[CallCandidate<'_>], parts: impl Iterator<Item = Parts<'a>>) -> String {
    let (mut lines, mut kept_lines) = (0, 0);
    let mut text = String::new();
    for (call, parts) in group.iter().zip(parts) {
        lines += parts.arguments.len() + parts.output.len();
        let mut kept = kept_texts(&parts.arguments);
        kept.extend(kept_texts(&parts.output));
        kept_lines += kept.len();
        if !kept.is_empty() || call.is_error {
            let outcome = if call.is_error { " failed" } else { "" };
            text.push_str(&format!("[{}{outcome}]\n", call.tool));
            kept.iter().for_each(|line| push_line(&mut text, line));
        }
    }
    text.truncate(text.trim_end_matches('\n').len());
    format!("[{} calls, {kept_lines}/{lines} lines]\n{text}", group.len()).trim_end().to_owned()
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Returns the text of each kept line: the whole line, or its kept names.
fn kept_texts(lines: &[KeptLine<'_>]) -> Vec<String> {
    let kept = |line: &KeptLine<'_>| match line.role {
        LineRole::Names => (!line.names.is_empty()).then(|| line.names.join(" ")),
        _ => line.is_kept.then(|| line.text.to_owned()),
    };
    lines.iter().filter_map(kept).collect()
}
