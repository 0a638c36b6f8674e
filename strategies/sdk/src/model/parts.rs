//! Division of a transcript into parts that fit the model's window.
//!
//! Turns stay together if possible. A longer turn is split between its events, and a longer event inside. Every text is in
//! exactly one part.

use super::transcript::TranscriptPiece;

/// Splits a transcript into parts of at most `room` tokens. Without a limit, returns one part.
pub(crate) fn cut(pieces: Vec<TranscriptPiece>, room: Option<u64>) -> Vec<String> {
    let room = room.unwrap_or(u64::MAX);
    let mut parts = Parts { done: Vec::new(), text: String::new(), tokens: 0, room };
    for turn in pieces.chunk_by(|left, right| left.turn == right.turn) {
        let tokens = turn.iter().map(|piece| piece.tokens).sum::<u64>();
        if !parts.fits(tokens) {
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
    room: u64,
}

impl Parts {
    fn fits(&self, tokens: u64) -> bool {
        self.tokens.saturating_add(tokens) <= self.room
    }

    fn end(&mut self) {
        if !self.text.is_empty() {
            self.done.push(std::mem::take(&mut self.text));
        }
        self.tokens = 0;
    }

    fn add(&mut self, piece: &TranscriptPiece) {
        if !self.fits(piece.tokens) {
            self.end();
        }
        if self.fits(piece.tokens) {
            self.text.push_str(&piece.label);
            self.text.push_str(&piece.body);
            self.tokens += piece.tokens;
            return;
        }
        for (number, chunk) in chunks(piece, self.room).into_iter().enumerate() {
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
fn chunks(piece: &TranscriptPiece, room: u64) -> Vec<String> {
    let whole = (piece.label.chars().count() + piece.body.chars().count()) as u64;
    // Each chunk has a label, and the rest of a split line is indented again.
    let label = piece.label.chars().count() + " (continued)".len() + 4;
    let chars_max = usize::try_from(room.saturating_mul(whole) / piece.tokens.max(1)).unwrap_or(usize::MAX);
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

/// Groups adjacent notes, as many as fit into one request. A group has at least two notes, so every merge reduces their
/// number.
pub(crate) fn group(notes: &[String], room: Option<u64>) -> Vec<Vec<&str>> {
    let room = room.unwrap_or(u64::MAX);
    let mut groups: Vec<Vec<&str>> = Vec::new();
    let mut held = 0;
    for note in notes {
        let tokens = (note.chars().count() as u64).div_ceil(4) + 16;
        match groups.last_mut() {
            Some(group) if group.len() < 2 || held + tokens <= room => {
                group.push(note);
                held += tokens;
            }
            _ => {
                groups.push(vec![note]);
                held = tokens;
            }
        }
    }
    groups
}
