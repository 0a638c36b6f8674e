//! The strategy `summarize`: a model writes what stands for the range (RFD 064, "`summarize`"). It reads raw
//! events and nothing else, asks through the host's `needs`, and proposes the model's text as it is. A range that
//! is larger than the model's window is done in parts, and their notes are merged: those are notes of this very
//! run on raw events, and never an older summary of the stream, which nobody is sent ("Raw-Stream Invariant").

mod fence;
mod parts;
mod prompt;
mod transcript;
mod window;

use std::collections::BTreeMap;
use std::process::ExitCode;

use jp_compact_strategy::schema::{
    CompactRequest, Completion, ContentKind, Description, Determinism, Diagnostic, Input, Message,
    NeedRequest, Payload, Role, Severity, Summary,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, options, serve};
use prompt::Prompt;
use serde::Deserialize;
use serde_json::json;
use window::Window;

const MAX_TOKENS: u64 = 4096;
/// The host plays 8 rounds of `needs`; the first is that of the parts.
const MERGES_MAX: usize = 7;
/// It fulfils 256 requests. Each merge at least halves what is left, so that all merges are fewer than the parts.
const PARTS_MAX: usize = 128;

/// What a reply holds beside its requests.
const REPLY_REST_BYTES: usize = 1024;

struct Summarize;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    model: Option<String>,
    instructions: Option<String>,
    focus: Option<String>,
    max_tokens: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { model: None, instructions: None, focus: None, max_tokens: MAX_TOKENS }
    }
}

impl Strategy for Summarize {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::Summary],
            input: Input::Full,
            determinism: Determinism::Stochastic,
            features: vec!["worker".to_owned(), "events.file".to_owned()],
            needs: vec!["llm".to_owned()],
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "model": {
                        "description": "who writes: provider/name [default: the host's model]",
                        "type": "string",
                        "minLength": 1,
                    },
                    "instructions": {
                        "description": "what the summary is to hold, in place of the built-in points",
                        "type": "string",
                        "minLength": 1,
                    },
                    "focus": {
                        "description": "what to pay attention to beside that",
                        "type": "string",
                        "minLength": 1,
                    },
                    "max_tokens": {
                        "description": "the longest text that the model may write",
                        "type": "integer",
                        "minimum": 64,
                        "default": MAX_TOKENS,
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new(
                "summarize",
                env!("CARGO_PKG_VERSION"),
                "Let a model write a summary that stands for the turns",
            )
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let options: Options = options(request)?;
        let prompt =
            Prompt { instructions: options.instructions.as_deref(), focus: options.focus.as_deref() };
        let window = Window::of(request, &options, &prompt)?;
        let asking = Asking { request, options: &options, prompt, window };
        // The number of parts is all that a later round has to know; it need not read the events again.
        let Some(state) = &request.state else { return asking.parts(exchange) };
        let parts = state.parse().map_err(|_| {
            StrategyError::new("request_invalid", format_args!("a state that is not ours: `{state}`"))
        })?;
        asking.merge(parts)
    }
}

/// One request while it is being answered.
struct Asking<'a> {
    request: &'a CompactRequest,
    options: &'a Options,
    prompt: Prompt<'a>,
    window: Window,
}

impl Asking<'_> {
    /// The first round: every part at once.
    fn parts(&self, exchange: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
        let pieces = transcript::read(exchange)?;
        // Before it is copied: a range may be larger than the memory that a strategy is given.
        self.fits_a_reply(pieces.iter().map(|piece| piece.label.len() + piece.body.len()).sum())?;
        let parts = parts::cut(pieces, self.window.room);
        if parts.is_empty() {
            return Ok(Outcome::decline("nothing is said in range"));
        }
        let count = parts.len();
        // Before the first is paid for.
        if count > PARTS_MAX {
            return Err(too_many(count));
        }
        let asked = parts.iter().enumerate().map(|(number, part)| self.prompt.part(part, number, count));
        let needs = self.needs(0, asked.collect(), count);
        if let Outcome::Needs { requests, .. } = &needs {
            let written = serde_json::to_vec(requests)
                .map_err(|error| StrategyError::new("range_unwritable", error))?;
            self.fits_a_reply(written.len() + REPLY_REST_BYTES)?;
        }
        Ok(needs)
    }

    /// What is asked is a reply of this strategy's, and the host reads no longer one.
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
    fn merge(&self, parts: usize) -> Result<Outcome, StrategyError> {
        let mut level = 0;
        let Some(mut notes) = self.texts(level, parts)? else {
            return Err(StrategyError::new("request_invalid", "an answer is missing"));
        };
        while notes.len() > 1 {
            level += 1;
            if level > MERGES_MAX {
                return Err(too_many(parts));
            }
            let groups = parts::group(&notes, self.window.room);
            match self.texts(level, groups.len())? {
                Some(merged) => notes = merged,
                None => {
                    let asked = groups.iter().map(|group| self.prompt.merge(group));
                    return Ok(self.needs(level, asked.collect(), parts));
                }
            }
        }
        let summary = notes.pop().map(|summary| Summary { summary });
        Ok(Outcome::Result {
            compactions: vec![Payload { summary, ..Payload::of(self.request.range) }],
            diagnostics: self.remarks(parts),
        })
    }

    fn needs(&self, level: usize, asked: Vec<prompt::Asked>, parts: usize) -> Outcome {
        let max_tokens = self.window.max_tokens(asked.len());
        let need = |asked: prompt::Asked| NeedRequest::LlmComplete {
            model: self.options.model.clone(),
            system: Some(asked.system),
            messages: vec![Message { role: Role::User, content: asked.content }],
            max_tokens: Some(max_tokens),
        };
        let requests = asked.into_iter().enumerate().map(|(number, asked)| (key(level, number), need(asked)));
        Outcome::Needs { requests: requests.collect::<BTreeMap<_, _>>(), state: Some(parts.to_string()) }
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

    fn remarks(&self, parts: usize) -> Vec<Diagnostic> {
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
}

/// Under which key a text is asked for: `s0`, `s1`, ... the parts, `m1.0` the first merge.
fn key(level: usize, number: usize) -> String {
    if level == 0 { format!("s{number}") } else { format!("m{level}.{number}") }
}

fn too_many(parts: usize) -> StrategyError {
    let message = format!("{parts} parts are too many to be merged");
    StrategyError::new("range_too_large", message)
        .with_hint("take fewer turns, or a model with a larger window")
}

fn main() -> ExitCode {
    serve(Summarize)
}

#[cfg(test)]
mod tests;
