//! How much a request to the model may hold: its window, less what it writes, what it is told, and a margin,
//! for the host's tokens are an estimate.

use crate::StrategyError;
use jp_compact_schema::CompactRequest;

use super::prompt::Prompt;

/// One part of this of a window stays empty.
const MARGIN: u64 = 8;
/// Less than this is no room to summarize in.
const ROOM_MIN: u64 = 512;

/// How many tokens the model reads that will be asked, `model` or the host's own. The host tells it of its own; of
/// another it says nothing.
#[must_use]
pub fn tokens_of(request: &CompactRequest, model: Option<&str>) -> Option<u64> {
    let llm = request.context.llm.as_ref();
    llm.filter(|llm| model.is_none_or(|model| model == llm.model))?.context_window
}

/// What fits into one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The tokens of transcript, or of notes. None where nobody knows the model's window: it gets one part.
    pub(crate) room: Option<u64>,
    max_tokens: u64,
}

impl Window {
    /// The window of the model that will be asked.
    pub(crate) fn of(
        request: &CompactRequest,
        model: Option<&str>,
        max_tokens: u64,
        prompt: &Prompt<'_>,
    ) -> Result<Self, StrategyError> {
        let Some(window) = tokens_of(request, model) else {
            return Ok(Self { room: None, max_tokens });
        };
        let taken = max_tokens + prompt.tokens() + window / MARGIN;
        match window.checked_sub(taken).filter(|room| *room >= ROOM_MIN) {
            Some(room) => Ok(Self { room: Some(room), max_tokens }),
            None => {
                let message = format!(
                    "the model reads {window} tokens: beside {max_tokens} to write there is no room for a transcript"
                );
                Err(StrategyError::new("window_too_small", message)
                    .with_hint("lower `max_tokens`, or take a model with a larger window"))
            }
        }
    }

    /// How much the model may write in each of so many requests. Notes are merged two at a time at least.
    pub(crate) fn max_tokens(self, requests: usize) -> u64 {
        match self.room {
            Some(room) if requests > 1 => self.max_tokens.min(room / 2),
            _ => self.max_tokens,
        }
    }
}
