//! Asking a model for one text about many events: the events as text that cannot speak for itself, in parts where
//! the model's window is too small for them, and the notes on the parts merged. What the text is to hold, and which
//! events it is about, is a strategy's to say.

mod fence;
mod parts;
mod prompt;
mod transcript;
mod window;

use std::collections::BTreeMap;

use jp_compact_schema::version::NEEDS_ROUNDS_MAX;
use jp_compact_schema::{CompactRequest, Completion, Diagnostic, Message, NeedRequest, Role, Severity};

use crate::StrategyError;
use prompt::Asked;
pub use prompt::{Context, LIST, Prompt};
pub use transcript::{Piece, Scribe, pieces};
use window::Window;
pub use window::tokens_of;

/// A host fulfils 256 requests. Each merge at least halves what is left, so that all merges are fewer than the parts.
const PARTS_MAX: usize = 128;
/// What a reply holds beside its requests.
const REPLY_REST_BYTES: usize = 1024;

/// One text while it is being written. Nothing is kept between the rounds but how many parts there were: that
/// belongs into the `state` of the `needs`.
#[derive(Debug)]
pub struct Writing<'a> {
    request: &'a CompactRequest,
    model: Option<&'a str>,
    prompt: &'a Prompt<'a>,
    window: Window,
    merges_max: usize,
}

/// How far a text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It is written; as blank as the model left it.
    Written(String),
    /// The model has to be asked this.
    Needs(BTreeMap<String, NeedRequest>),
}

impl<'a> Writing<'a> {
    /// A text of at most `max_tokens`, by this model or the host's own. `rounds_after` is how many rounds of `needs`
    /// the strategy keeps for itself.
    ///
    /// # Errors
    ///
    /// The model's window has no room for it: `window_too_small`.
    pub fn new(
        request: &'a CompactRequest,
        model: Option<&'a str>,
        max_tokens: u64,
        prompt: &'a Prompt<'a>,
        rounds_after: usize,
    ) -> Result<Self, StrategyError> {
        let window = Window::of(request, model, max_tokens, prompt)?;
        // The first round is that of the parts.
        let merges_max = (NEEDS_ROUNDS_MAX as usize).saturating_sub(1 + rounds_after);
        Ok(Self { request, model, prompt, window, merges_max })
    }

    /// The first round: every part at once, and how many they are.
    ///
    /// # Errors
    ///
    /// More than can be asked at once, or merged later: `range_too_large`, before anything is paid for.
    pub fn begin(&self, pieces: Vec<Piece>) -> Result<(BTreeMap<String, NeedRequest>, usize), StrategyError> {
        // Before it is copied: a range may be larger than the memory that a strategy is given.
        self.fits_a_reply(pieces.iter().map(Piece::bytes).sum())?;
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

    /// What is asked is a reply of the strategy's, and the host reads no longer one.
    fn fits_a_reply(&self, bytes: usize) -> Result<(), StrategyError> {
        let max = self.request.limits.result_bytes_max;
        if bytes as u64 <= max {
            return Ok(());
        }
        let message =
            format!("the turns are {bytes} bytes to be read by a model, and {max} can be asked at once");
        Err(StrategyError::new("range_too_large", message).with_hint("take fewer turns: `--to`, `--from`"))
    }

    /// The later rounds: what the parts came to is merged until it is one text.
    ///
    /// # Errors
    ///
    /// A part is not answered, or there are too many.
    pub fn go_on(&self, parts: usize) -> Result<Step, StrategyError> {
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
                    return Ok(Step::Needs(self.needs(level, asked.collect())));
                }
            }
        }
        Ok(Step::Written(notes.pop().unwrap_or_default()))
    }

    /// Asks for a written text once more: the model is shown what it was asked last, what it wrote, and what is
    /// wrong with that.
    #[must_use]
    pub fn again(&self, pieces: Vec<Piece>, parts: usize, written: &str, wrong: &str) -> NeedRequest {
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

    /// What the user should know of how the text came about.
    #[must_use]
    pub fn remarks(&self, parts: usize) -> Vec<Diagnostic> {
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
                "how much the model reads is not known: it was sent the range in one part".to_owned(),
            )],
            Some(_) if parts > 1 => vec![remark(
                "in_parts",
                format!("the range is larger than the model's window: {parts} parts were merged"),
            )],
            Some(_) => Vec::new(),
        }
    }

    fn needs(&self, level: usize, asked: Vec<Asked>) -> BTreeMap<String, NeedRequest> {
        let max_tokens = self.window.max_tokens(asked.len());
        let requests = asked.into_iter().enumerate();
        requests.map(|(number, asked)| (key(level, number), self.need(asked, max_tokens))).collect()
    }

    fn need(&self, asked: Asked, max_tokens: u64) -> NeedRequest {
        NeedRequest::LlmComplete {
            model: self.model.map(str::to_owned),
            system: Some(asked.system),
            messages: vec![Message { role: Role::User, content: asked.content }],
            max_tokens: Some(max_tokens),
        }
    }

    /// What the model wrote at a level. None when it was not asked yet.
    fn texts(&self, level: usize, count: usize) -> Result<Option<Vec<String>>, StrategyError> {
        let mut texts = Vec::with_capacity(count);
        for number in 0..count {
            let Some(answer) = self.request.answers.get(&key(level, number)) else { return Ok(None) };
            let Completion { text, .. } = answer.as_type()?;
            if text.trim().is_empty() {
                // Among other notes it would not be missed, and the view would lack a part of its history. Alone it
                // is what the host refuses.
                return Ok(Some(vec![text]));
            }
            texts.push(text.trim().to_owned());
        }
        Ok(Some(texts))
    }
}

fn too_many(parts: usize) -> StrategyError {
    let message = format!("{parts} parts are too many to be merged");
    StrategyError::new("range_too_large", message)
        .with_hint("take fewer turns, or a model with a larger window")
}

/// Under which key a text is asked for: `s0`, `s1`, ... the parts, `m1.0` the first merge.
fn key(level: usize, number: usize) -> String {
    if level == 0 { format!("s{number}") } else { format!("m{level}.{number}") }
}
