//! Division of a transcript into parts that fit the model's window.
//!
//! A part ends if the next event does not fit, or if a turn begins and the part is at least half full. Therefore, the
//! end of a part depends only on the events up to the next event, and stays the same while the conversation grows. A
//! turn of at most half a part is never split. A longer turn may be split between its events. An event that does not
//! fit in one part is split at line ends if possible. Every text is in exactly one part.

use super::transcript::TranscriptPiece;

/// The maximum size of a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartSize {
    pub(crate) tokens: u64,
    pub(crate) bytes: usize,
}

/// The parts of a division to keep. The other parts are only counted, because all parts together may exceed the
/// strategy's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedParts {
    /// The number of the first part to keep.
    pub(crate) first: usize,
    /// Parts are kept until they have this many bytes.
    pub(crate) bytes: usize,
}

/// Counts the parts of a transcript.
pub(crate) fn count(pieces: &[TranscriptPiece], max: PartSize) -> usize {
    cut(pieces, max, WantedParts { first: usize::MAX, bytes: 0 }).0
}

/// Splits a transcript into parts of at most this size. Returns the number of parts, and the wanted ones.
pub(crate) fn cut(pieces: &[TranscriptPiece], max: PartSize, wanted: WantedParts) -> (usize, Vec<String>) {
    let mut parts = Parts { count: 0, kept: Vec::new(), wanted, text: String::new(), tokens: 0, max };
    for turn in pieces.chunk_by(|left, right| left.turn == right.turn) {
        if parts.tokens >= max.tokens / 2 || parts.text.len() >= max.bytes / 2 {
            parts.end();
        }
        for piece in turn {
            parts.add(piece);
        }
    }
    parts.end();
    (parts.count, parts.kept)
}

struct Parts {
    /// The number of parts so far.
    count: usize,
    kept: Vec<String>,
    /// The parts that are still to be kept.
    wanted: WantedParts,
    text: String,
    tokens: u64,
    max: PartSize,
}

impl Parts {
    fn fits(&self, piece: &TranscriptPiece) -> bool {
        self.tokens.saturating_add(piece.tokens) <= self.max.tokens
            && self.text.len().saturating_add(piece.bytes()) <= self.max.bytes
    }

    fn end(&mut self) {
        if !self.text.is_empty() {
            if self.count >= self.wanted.first && self.wanted.bytes > 0 {
                self.wanted.bytes = self.wanted.bytes.saturating_sub(self.text.len());
                self.kept.push(std::mem::take(&mut self.text));
            }
            self.text.clear();
            self.count += 1;
        }
        self.tokens = 0;
    }

    fn add(&mut self, piece: &TranscriptPiece) {
        if !self.fits(piece) {
            self.end();
        }
        if self.fits(piece) {
            self.text.push_str(&piece.label);
            self.text.push_str(&piece.body);
            self.tokens += piece.tokens;
            return;
        }
        for (number, chunk) in chunks(piece, self.max).into_iter().enumerate() {
            self.end();
            let label = piece.label.trim_end().trim_end_matches(':');
            let mark = if number > 0 { " (continued)" } else { "" };
            self.text = format!("{label}{mark}:\n{chunk}");
            self.tokens = part_tokens(piece, &self.text);
        }
    }
}

/// Estimates the tokens of a part of a piece, in proportion to its characters.
fn part_tokens(piece: &TranscriptPiece, text: &str) -> u64 {
    let whole = (piece.label.chars().count() + piece.body.chars().count()) as u64;
    (piece.tokens * text.chars().count() as u64).div_ceil(whole.max(1))
}

/// Splits the body of a piece into chunks that fit, at line ends if possible. Every chunk begins indented.
fn chunks(piece: &TranscriptPiece, max: PartSize) -> Vec<String> {
    let whole = (piece.label.chars().count() + piece.body.chars().count()) as u64;
    // Each chunk has a label, and the rest of a split line is indented again.
    let label = piece.label.chars().count() + " (continued)".len() + 4;
    let chars_max =
        usize::try_from(max.tokens.saturating_mul(whole) / piece.tokens.max(1)).unwrap_or(usize::MAX);
    // A character has at most four bytes.
    let chars_max = chars_max.min(max.bytes / 4);
    let chars_max = chars_max.saturating_sub(label).max(16);
    let (mut chunks, mut chunk, mut chunk_chars) = (Vec::new(), String::new(), 0);
    for line in piece.body.split_inclusive('\n') {
        let mut rest = line;
        while !rest.is_empty() {
            let chars = rest.chars().count();
            if chunk_chars > 0 && chunk_chars + chars > chars_max {
                chunks.push(std::mem::take(&mut chunk));
                chunk_chars = 0;
            }
            let end = rest.char_indices().nth(chars_max).map_or(rest.len(), |(byte, _)| byte);
            let (head, tail) = rest.split_at(end);
            if !head.starts_with(' ') && !head.trim().is_empty() {
                chunk.push_str("  ");
            }
            chunk.push_str(head);
            if !head.ends_with('\n') {
                chunk.push('\n');
            }
            chunk_chars += chars.min(chars_max);
            rest = tail;
        }
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}
