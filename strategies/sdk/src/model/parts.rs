//! Division of a transcript into parts that fit the model's window.
//!
//! A part ends where the next event does not fit, or where a turn begins and the part is at least half full. So the end of
//! a part depends only on the events up to the next one, and stays the same while the conversation grows. A turn of at most
//! half a part is never split. A longer turn is split between its events, and a longer event inside. Every text is in
//! exactly one part.

use super::transcript::TranscriptPiece;

/// The maximum size of a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartSize {
    pub(crate) tokens: u64,
    pub(crate) bytes: usize,
}

/// Splits a transcript into parts of at most this size.
pub(crate) fn cut(pieces: &[TranscriptPiece], max: PartSize) -> Vec<String> {
    let mut parts = Parts { done: Vec::new(), text: String::new(), tokens: 0, max };
    for turn in pieces.chunk_by(|left, right| left.turn == right.turn) {
        if parts.tokens >= max.tokens / 2 || parts.text.len() >= max.bytes / 2 {
            parts.end();
        }
        for piece in turn {
            parts.add(piece);
        }
    }
    parts.end();
    parts.done
}

struct Parts {
    done: Vec<String>,
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
            self.done.push(std::mem::take(&mut self.text));
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
            let more = if number > 0 { " (continued)" } else { "" };
            self.text = format!("{label}{more}:\n{chunk}");
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
    let (mut chunks, mut chunk, mut held) = (Vec::new(), String::new(), 0);
    for line in piece.body.split_inclusive('\n') {
        let mut rest = line;
        while !rest.is_empty() {
            let chars = rest.chars().count();
            if held > 0 && held + chars > chars_max {
                chunks.push(std::mem::take(&mut chunk));
                held = 0;
            }
            let end = rest.char_indices().nth(chars_max).map_or(rest.len(), |(place, _)| place);
            let (piece, more) = rest.split_at(end);
            if !piece.starts_with(' ') && !piece.trim().is_empty() {
                chunk.push_str("  ");
            }
            chunk.push_str(piece);
            if !piece.ends_with('\n') {
                chunk.push('\n');
            }
            held += chars.min(chars_max);
            rest = more;
        }
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}
