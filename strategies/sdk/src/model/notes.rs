//! The notes of one text, and their order. Every eight notes of one level are merged into a note of the next level,
//! from the left. So a merged note depends only on the events before its end, and stays the same while the conversation
//! grows.
//!
//! The state between two rounds holds these notes. There must never be more than three merges between a text and the
//! raw events.

use jp_compact_schema::{CompactRequest, Completion, RemainingNeeds};
use serde::{Deserialize, Serialize};

use super::shown::ShownSize;

use crate::outcome::StrategyError;

/// The number of notes that are merged into one.
const FAN_IN: usize = 8;
/// The greatest level of a note. The last merge is one more.
const LEVEL_MAX: u8 = 2;

/// The state of a text between two rounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextState {
    /// The number of parts of the range.
    pub(super) parts: usize,
    /// The number of parts that the model was asked about so far.
    pub(super) asked: usize,
    /// The number of merges so far. It makes keys unique.
    pub(super) merged: usize,
    /// The notes in the order of the events. Their levels never increase.
    pub(super) notes: Vec<Note>,
    /// Whether the model was asked for the text itself.
    pub(super) is_last: bool,
    /// The tokens of the range, as the model sees them.
    #[serde(default)]
    pub(super) tokens: u64,
    /// The size of the range, and how much of it the model sees.
    #[serde(default)]
    pub(super) size: ShownSize,
}

/// One note, or the key of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The number of merges between the note and a note on raw events.
    pub(super) level: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Note {
    pub(super) fn asked(level: u8, key: &str) -> Self {
        Self { level, key: Some(key.to_owned()), text: None }
    }

    /// Returns the text, which may be in the answers of an earlier round.
    pub(super) fn text(&self, request: &CompactRequest) -> Result<String, StrategyError> {
        if let Some(text) = &self.text {
            return Ok(text.clone());
        }
        answer(request, self.key.as_deref().unwrap_or_default())
    }
}

/// Returns the text of an answer.
pub(super) fn answer(request: &CompactRequest, key: &str) -> Result<String, StrategyError> {
    let Some(answer) = request.answers.get(key) else {
        return Err(StrategyError::new("request_invalid", format_args!("the answer `{key}` is missing")));
    };
    let Completion { text, .. } = answer.as_type()?;
    Ok(text.trim().to_owned())
}

impl TextState {
    /// Returns whether a later round needs the transcript.
    #[must_use]
    pub fn needs_pieces(&self) -> bool {
        self.asked < self.parts
    }

    /// Returns whether the model was asked for the text itself, so that the next answer is the text.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Estimates the needs of later rounds, with notes and prompts of these sizes. `None` if this round is the last.
    pub(super) fn remaining(&self, note_tokens: u64, prompt_tokens: u64) -> Option<RemainingNeeds> {
        if self.is_last {
            return None;
        }
        let (parts, left) = (self.parts as u64, self.parts.saturating_sub(self.asked) as u64);
        let fan_in = FAN_IN as u64;
        // Groups of notes, groups of the merged notes, and the last merge.
        let merges = left / fan_in + left / (fan_in * fan_in) + 1;
        let transcript = u128::from(self.tokens) * u128::from(left) / u128::from(parts.max(1));
        let each = prompt_tokens + note_tokens;
        let tokens = u64::try_from(transcript).unwrap_or(u64::MAX);
        let tokens = tokens.saturating_add((left + merges) * each + merges * fan_in * note_tokens);
        Some(RemainingNeeds { requests: left + merges, tokens })
    }

    /// Keeps the texts of the answers, because the host will not send these answers again.
    pub(super) fn keep_texts(&mut self, request: &CompactRequest) -> Result<(), StrategyError> {
        for note in &mut self.notes {
            *note = Note { text: Some(note.text(request)?), key: None, level: note.level };
        }
        Ok(())
    }

    /// Returns a key for the next merge.
    pub(super) fn merge_key(&mut self, level: u8) -> String {
        self.merged += 1;
        format!("m{level}.{}", self.merged - 1)
    }

    /// Returns the ranges of complete groups of notes, the last group first. A group with the newest part is not
    /// complete, because the part may grow.
    pub(super) fn groups(&self) -> Vec<std::ops::Range<usize>> {
        let stable = self.notes.len() - usize::from(self.asked == self.parts && !self.notes.is_empty());
        let (mut groups, mut start) = (Vec::new(), 0);
        for level in self.notes[..stable].chunk_by(|left, right| left.level == right.level) {
            if level[0].level < LEVEL_MAX {
                let complete = level.len() / FAN_IN;
                groups.extend((0..complete).map(|group| {
                    let from = start + group * FAN_IN;
                    from..from + FAN_IN
                }));
            }
            start += level.len();
        }
        groups.reverse();
        groups
    }

    /// Returns the newest notes of the lowest levels, at least two. They are merged if the last merge has no room for
    /// all notes.
    pub(super) fn newest(&self) -> Option<std::ops::Range<usize>> {
        (0..LEVEL_MAX).find_map(|level| {
            let older = self.notes.iter().take_while(|note| note.level > level).count();
            (self.notes.len() - older >= 2).then_some(older..self.notes.len())
        })
    }

    /// Returns the number of merges between the text and the raw events.
    pub(super) fn merges(&self) -> u32 {
        self.notes.iter().map(|note| u32::from(note.level) + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a group is a range")]
mod tests {
    use super::*;

    fn state(levels: &[u8]) -> TextState {
        let notes = levels.iter().map(|level| Note::asked(*level, "k")).collect();
        TextState { parts: 99, asked: 99, notes, ..TextState::default() }
    }

    #[test]
    fn complete_groups_are_merged_from_the_left() {
        assert_eq!(state(&[0; 8]).groups(), []);
        assert_eq!(state(&[0; 9]).groups(), [0..8]);
        assert_eq!(state(&[0; 17]).groups(), [8..16, 0..8]);
        let levels = [&[2; 9][..], &[1; 9], &[0; 9]].concat();
        assert_eq!(state(&levels).groups(), [18..26, 9..17]);
        assert_eq!(state(&[2; 20]).groups(), []);
    }

    #[test]
    fn estimates_the_needs_of_later_rounds() {
        let state = TextState { parts: 80, asked: 16, tokens: 8_000, ..TextState::default() };
        // 64 parts of 100 tokens, 8 + 1 + 1 merges of 8 notes, and 74 prompts with their answers.
        let tokens = 64 * 100 + 10 * 8 * 5 + 74 * (5 + 7);
        assert_eq!(state.remaining(5, 7), Some(RemainingNeeds { requests: 74, tokens }));
        assert_eq!(TextState { is_last: true, ..state }.remaining(5, 7), None);
    }

    #[test]
    fn group_before_the_newest_part_is_not_complete() {
        let more = TextState { asked: 8, ..state(&[0; 8]) };
        assert_eq!(more.groups(), [0..8]);
    }

    #[test]
    fn newest_notes_are_merged_by_level() {
        assert_eq!(state(&[2, 1, 0, 0]).newest(), Some(2..4));
        assert_eq!(state(&[2, 1, 0]).newest(), Some(1..3));
        assert_eq!(state(&[2, 2, 1]).newest(), None);
        assert_eq!(state(&[0]).newest(), None);
    }

    #[test]
    fn text_is_at_most_three_merges_away_from_events() {
        assert_eq!(
            [state(&[]), state(&[0]), state(&[1, 0]), state(&[2, 1])].map(|state| state.merges()),
            [0, 1, 2, 3]
        );
    }
}
