//! Generation of one text about many events by a model. `summarize` and `collapse` share this module. They differ in the
//! contents of the text and in its turns.
//!
//! The events are quoted as data, so the model does not follow instructions in them. If they exceed the model's window,
//! the model writes notes on parts, and then merges the notes.

mod fence;
mod parts;
mod prompt;
mod transcript;
mod window;

use std::collections::BTreeMap;

use jp_compact_schema::version::NEEDS_ROUNDS_MAX;
use jp_compact_schema::{CompactRequest, Completion, Diagnostic, Message, NeedRequest, Role, Severity};

use crate::outcome::StrategyError;
use prompt::ModelRequest;
pub use prompt::{Background, LIST_HEADER, Prompt};
pub use transcript::{TranscriptFormatter, TranscriptPiece, read_pieces};
use window::Window;
pub use window::context_window;

/// The maximum number of parts. A host fulfills 256 needs. Each merge at least halves the number of texts, so there are
/// fewer merges than parts.
const PARTS_MAX: usize = 128;
/// The size of a reply without its needs.
const REPLY_REST_BYTES: usize = 1024;

/// Writes one text in several rounds. Between the rounds, only the number of parts has to be kept, in the `state` of the
/// `needs`.
#[derive(Debug)]
pub struct TextWriter<'a> {
    request: &'a CompactRequest,
    model: Option<&'a str>,
    prompt: &'a Prompt<'a>,
    window: Window,
    merges_max: usize,
}

/// The result of one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextStep {
    /// The text is complete. It can be blank.
    Written(String),
    /// The model must be asked again.
    Needs(BTreeMap<String, NeedRequest>),
}

impl<'a> TextWriter<'a> {
    /// Creates a writer for a text of at most `max_tokens`, by this model or the host's model. `rounds_after` is the number
    /// of later rounds of `needs` that the strategy uses itself.
    ///
    /// # Errors
    ///
    /// The model's window is too small (code `window_too_small`).
    pub fn new(
        request: &'a CompactRequest,
        model: Option<&'a str>,
        max_tokens: u64,
        prompt: &'a Prompt<'a>,
        rounds_after: usize,
    ) -> Result<Self, StrategyError> {
        let window = Window::new(request, model, max_tokens, prompt)?;
        // The first round asks for the parts.
        let merges_max = (NEEDS_ROUNDS_MAX as usize).saturating_sub(1 + rounds_after);
        Ok(Self { request, model, prompt, window, merges_max })
    }

    /// Returns the needs of the first round, one for each part, and the number of parts.
    ///
    /// # Errors
    ///
    /// The parts exceed the size of a reply, or are too many to merge (code `range_too_large`).
    pub fn begin(
        &self,
        pieces: Vec<TranscriptPiece>,
    ) -> Result<(BTreeMap<String, NeedRequest>, usize), StrategyError> {
        // Checked before the text is copied, because a range can be larger than the strategy's memory limit.
        self.fits_a_reply(pieces.iter().map(TranscriptPiece::bytes).sum())?;
        let parts = parts::cut(pieces, self.window.room);
        let count = parts.len();
        if count > PARTS_MAX {
            return Err(too_many(count));
        }
        let asked = parts.iter().enumerate().map(|(number, part)| self.prompt.part(part, number, count));
        let needs = self.needs(0, asked.collect());
        let written =
            serde_json::to_vec(&needs).map_err(|error| StrategyError::new("range_unwritable", error))?;
        self.fits_a_reply(written.len() + REPLY_REST_BYTES)?;
        Ok((needs, count))
    }

    /// Checks the size against the host's limit for a reply.
    fn fits_a_reply(&self, bytes: usize) -> Result<(), StrategyError> {
        let max = self.request.limits.result_bytes_max;
        if bytes as u64 <= max {
            return Ok(());
        }
        let message = format!("the turns have {bytes} bytes for the model, at most {max} can be sent");
        Err(StrategyError::new("range_too_large", message)
            .with_hint("select fewer turns with `--from` and `--to`"))
    }

    /// Continues in a later round: merges the notes until one text is left.
    ///
    /// # Errors
    ///
    /// An answer is missing, or there are too many parts.
    pub fn resume(&self, parts: usize) -> Result<TextStep, StrategyError> {
        let mut level = 0;
        let Some(mut notes) = self.texts(level, parts)? else {
            return Err(StrategyError::new("request_invalid", "an answer is missing"));
        };
        while notes.len() > 1 {
            level += 1;
            if level > self.merges_max {
                return Err(too_many(parts));
            }
            let groups = parts::group(&notes, self.window.room);
            match self.texts(level, groups.len())? {
                Some(merged) => notes = merged,
                None => {
                    let asked = groups.iter().map(|group| self.prompt.merge(group));
                    return Ok(TextStep::Needs(self.needs(level, asked.collect())));
                }
            }
        }
        Ok(TextStep::Written(notes.pop().unwrap_or_default()))
    }

    /// Returns a need that asks for the text again. It contains the last prompt, the `written` text, and its problem.
    #[must_use]
    pub fn retry(
        &self,
        pieces: Vec<TranscriptPiece>,
        parts: usize,
        written: &str,
        wrong: &str,
    ) -> NeedRequest {
        let asked = match parts {
            0 | 1 => {
                let text = parts::cut(pieces, self.window.room).concat();
                self.prompt.part(&text, 0, 1)
            }
            _ => {
                let (mut level, mut notes) = (0, Vec::new());
                let mut count = parts;
                while let Ok(Some(texts)) = self.texts(level, count)
                    && texts.len() > 1
                {
                    count = parts::group(&texts, self.window.room).len();
                    notes = texts;
                    level += 1;
                }
                self.prompt.merge(&notes.iter().map(String::as_str).collect::<Vec<_>>())
            }
        };
        let mut need = self.need(asked, self.window.max_tokens(1));
        if let NeedRequest::LlmComplete { messages, .. } = &mut need {
            messages.push(Message { role: Role::Assistant, content: written.to_owned() });
            messages.push(Message { role: Role::User, content: wrong.to_owned() });
        }
        need
    }

    /// Returns remarks for the user about how the text was written.
    #[must_use]
    pub fn diagnostics(&self, parts: usize) -> Vec<Diagnostic> {
        let remark = |code: &str, message: String| Diagnostic {
            severity: Severity::Info,
            code: code.to_owned(),
            message,
            turn: None,
            seq: None,
        };
        match self.window.room {
            None => vec![remark(
                "window_unknown",
                "the model's window is unknown, so the range was sent in one part".to_owned(),
            )],
            Some(_) if parts > 1 => vec![remark(
                "in_parts",
                format!("the range exceeds the model's window, so {parts} parts were merged"),
            )],
            Some(_) => Vec::new(),
        }
    }

    fn needs(&self, level: usize, asked: Vec<ModelRequest>) -> BTreeMap<String, NeedRequest> {
        let max_tokens = self.window.max_tokens(asked.len());
        let requests = asked.into_iter().enumerate();
        requests.map(|(number, asked)| (key(level, number), self.need(asked, max_tokens))).collect()
    }

    fn need(&self, asked: ModelRequest, max_tokens: u64) -> NeedRequest {
        NeedRequest::LlmComplete {
            model: self.model.map(str::to_owned),
            system: Some(asked.system),
            messages: vec![Message { role: Role::User, content: asked.content }],
            max_tokens: Some(max_tokens),
        }
    }

    /// Returns the texts of a level, or `None` if the model was not asked yet.
    fn texts(&self, level: usize, count: usize) -> Result<Option<Vec<String>>, StrategyError> {
        let mut texts = Vec::with_capacity(count);
        for number in 0..count {
            let Some(answer) = self.request.answers.get(&key(level, number)) else { return Ok(None) };
            let Completion { text, .. } = answer.as_type()?;
            if text.trim().is_empty() {
                // A blank note would be lost among the others, and the summary would lack a part of the range. Returned
                // alone, the host rejects it.
                return Ok(Some(vec![text]));
            }
            texts.push(text.trim().to_owned());
        }
        Ok(Some(texts))
    }
}

fn too_many(parts: usize) -> StrategyError {
    let message = format!("the range has {parts} parts, which are too many to merge");
    StrategyError::new("range_too_large", message)
        .with_hint("select fewer turns, or a model with a larger window")
}

/// Returns the key of a need: `s0`, `s1`, ... for the parts, and `m1.0` for the first merge.
fn key(level: usize, number: usize) -> String {
    if level == 0 { format!("s{number}") } else { format!("m{level}.{number}") }
}
