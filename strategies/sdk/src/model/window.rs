//! The capacity of a request to the model: its window minus the output, the prompt, and a margin. The margin is needed,
//! because the host's token counts are estimates.

use jp_compact_schema::CompactRequest;

use super::prompt::Prompt;
use crate::outcome::StrategyError;

/// The margin is the window divided by this.
const MARGIN: u64 = 8;
/// The minimum capacity for a transcript.
const ROOM_MIN: u64 = 512;

/// Returns the window of the model that will be asked, in tokens: of `model` or of the host's model. The window of other
/// models than the host's is unknown.
#[must_use]
pub fn context_window(request: &CompactRequest, model: Option<&str>) -> Option<u64> {
    let llm = request.context.llm.as_ref();
    llm.filter(|llm| model.is_none_or(|model| model == llm.model))?.context_window
}

/// The capacity of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The tokens available for transcript or notes. `None` if the window is unknown; then there is only one part.
    pub(crate) room: Option<u64>,
    max_tokens: u64,
}

impl Window {
    /// Computes the capacity for the model that will be asked.
    pub(crate) fn new(
        request: &CompactRequest,
        model: Option<&str>,
        max_tokens: u64,
        prompt: &Prompt<'_>,
    ) -> Result<Self, StrategyError> {
        let Some(window) = context_window(request, model) else {
            return Ok(Self { room: None, max_tokens });
        };
        let taken = max_tokens + prompt.tokens() + window / MARGIN;
        match window.checked_sub(taken).filter(|room| *room >= ROOM_MIN) {
            Some(room) => Ok(Self { room: Some(room), max_tokens }),
            None => {
                let message = format!(
                    "the model's window of {window} tokens has no room for a transcript and {max_tokens} tokens of output"
                );
                Err(StrategyError::new("window_too_small", message)
                    .with_hint("lower `max_tokens`, or select a model with a larger window"))
            }
        }
    }

    /// Returns the maximum output of each of these requests. At least two notes must fit into one merge.
    pub(crate) fn max_tokens(self, requests: usize) -> u64 {
        match self.room {
            Some(room) if requests > 1 => self.max_tokens.min(room / 2),
            _ => self.max_tokens,
        }
    }
}
