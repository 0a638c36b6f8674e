//! The capacity of a request to the model: its window minus the output, the prompt, and a margin. The margin is needed,
//! because the host's token counts are estimates.
//!
//! The sizes of notes and parts depend on the window and the instructions alone, never on the conversation. Otherwise a
//! note could not be used again when the conversation has grown.

use jp_compact_schema::{CompactRequest, Limits};

use super::prompt::Prompt;
use crate::kept::SectionLimit;
use crate::outcome::StrategyError;

/// The margin is the window divided by this.
const MARGIN_DIVISOR: u64 = 8;
/// The output of one request is at most the window divided by this number, so a summary leaves room for the
/// conversation.
const OUTPUT_DIVISOR: u64 = 8;
/// Each background is at most the window divided by this.
const BACKGROUND_DIVISOR: u64 = 12;
/// The description and the tags of a background take at most this many tokens.
const BACKGROUND_TOKENS: u64 = 136;
/// The minimum capacity for a transcript.
const ROOM_TOKENS_MIN: u64 = 512;
/// The last merge has room for this many notes.
const NOTES_IN_LAST_MERGE: u64 = 12;
/// The maximum length of a note. Longer notes would not fit into the `state` of a reply.
const NOTE_TOKENS_MAX: u64 = 4_096;
/// The note about the newest part is this many times as long as another note.
const TAIL_NOTE_FACTOR: u64 = 2;
/// A part takes at most the room divided by this. Smaller parts make better notes, and the newest part, which is read
/// in each run, is smaller too.
const PART_DIVISOR: u64 = 2;
/// An event that is not a message has at most this many characters for each token of a part: three quarters of the
/// part. The rest is for labels and indentation. Longer events are shortened, because one event could fill several
/// requests.
const EVENT_CHARS_PER_TOKEN: u64 = 3;
/// The characters of an event if the window is unknown.
const EVENT_CHARS_UNKNOWN: usize = 16_000;
/// A part takes at most the size limit of a reply divided by this. JSON escapes can double a text.
const REPLY_DIVISOR: u64 = 4;

/// Returns the context window, in tokens, of the model that will be asked: `model`, or else the host's model. Only the
/// window of the host's model is known.
#[must_use]
pub fn context_window(request: &CompactRequest, model: Option<&str>) -> Option<u64> {
    let llm = request.context.llm.as_ref();
    llm.filter(|llm| model.is_none_or(|model| model == llm.model))?.context_window
}

/// Returns the maximum tokens of one background for this model. There is no limit if its window is unknown.
#[must_use]
pub fn background_tokens_max(request: &CompactRequest, model: Option<&str>) -> u64 {
    context_window(request, model).map_or(u64::MAX, |window| window / BACKGROUND_DIVISOR)
}

/// The capacity of the requests for one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The window of the model. `None` if it is unknown; then there is only one part.
    pub(crate) window: Option<u64>,
    /// The tokens available for the transcript or the notes in the last request.
    pub(crate) last_room: u64,
    /// The maximum tokens of a part.
    pub(crate) part_tokens: u64,
    /// The maximum bytes of a transcript that is not split into parts.
    pub(crate) whole_bytes_max: usize,
    /// The maximum bytes of a part.
    pub(crate) part_bytes_max: usize,
    /// The maximum characters of an event that is not a message.
    pub(crate) event_chars_max: usize,
    /// The maximum length of the summary: the output of the last request, and the section of kept facts.
    pub(crate) summary_tokens: u64,
    /// The maximum output of the last request.
    pub(crate) last_output_tokens: u64,
    /// The maximum length of a note.
    pub(crate) note_tokens: u64,
    /// The maximum length of the note about the newest part.
    pub(crate) tail_tokens: u64,
    /// The output that the options allow.
    pub(crate) allowed_tokens: u64,
}

impl Window {
    /// Computes the capacity for the model that will be asked. The last request also holds these `backgrounds`.
    pub(crate) fn new(
        request: &CompactRequest,
        model: Option<&str>,
        max_tokens: u64,
        prompt: &Prompt<'_>,
        backgrounds: u64,
    ) -> Result<Self, StrategyError> {
        let Limits { result_bytes_max, .. } = request.limits;
        let part_bytes_max = usize::try_from(result_bytes_max / REPLY_DIVISOR).unwrap_or(usize::MAX);
        let unlimited = Self {
            window: None,
            last_room: u64::MAX,
            part_tokens: u64::MAX,
            whole_bytes_max: usize::MAX,
            part_bytes_max: usize::MAX,
            event_chars_max: EVENT_CHARS_UNKNOWN,
            summary_tokens: max_tokens,
            last_output_tokens: max_tokens - SectionLimit::reserved_tokens(max_tokens),
            note_tokens: max_tokens,
            tail_tokens: max_tokens,
            allowed_tokens: max_tokens,
        };
        let Some(window) = context_window(request, model) else { return Ok(unlimited) };
        let summary_tokens = max_tokens.min(window / OUTPUT_DIVISOR);
        let last_output_tokens = summary_tokens - SectionLimit::reserved_tokens(summary_tokens);
        let taken = prompt.fixed_tokens() + window / MARGIN_DIVISOR;
        let background = backgrounds * (window / BACKGROUND_DIVISOR + BACKGROUND_TOKENS);
        let room = |more: u64| window.checked_sub(taken + more).filter(|room| *room >= ROOM_TOKENS_MIN);
        let Some(last_room) = room(last_output_tokens + background) else {
            let message = format!(
                "the model's window of {window} tokens has no room for a transcript, {last_output_tokens} tokens of \
                 output, and the instructions"
            );
            return Err(StrategyError::new("window_too_small", message)
                .with_hint("select a model with a larger window, or shorten the instructions"));
        };
        let note_tokens = max_tokens.min(last_room / NOTES_IN_LAST_MERGE).min(NOTE_TOKENS_MAX);
        let tail_tokens = max_tokens.min(note_tokens * TAIL_NOTE_FACTOR);
        let part_tokens = room(tail_tokens).unwrap_or(last_room) / PART_DIVISOR;
        Ok(Self {
            window: Some(window),
            last_room,
            part_tokens,
            whole_bytes_max: 2 * part_bytes_max,
            part_bytes_max,
            event_chars_max: usize::try_from(part_tokens * EVENT_CHARS_PER_TOKEN).unwrap_or(usize::MAX),
            summary_tokens,
            last_output_tokens,
            note_tokens,
            tail_tokens,
            allowed_tokens: max_tokens,
        })
    }

    /// Returns whether a request with this many tokens fits into the window, the output included.
    pub(crate) fn fits(self, tokens: u64) -> bool {
        self.window.is_none_or(|window| tokens <= window - window / MARGIN_DIVISOR)
    }
}
