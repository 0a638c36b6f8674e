//! What a view, and a request body, must satisfy before a provider takes it (PROVIDER-RULES). The providers'
//! own typed SDKs check none of this.

mod anthropic;
mod gemini;
mod openai;
mod responses;
mod shared;
mod view;

use serde::Serialize;
use serde_json::Value;

use crate::render::{Place, Provider, Rendered};

pub use view::{view, view_of};

/// A rule, by the number that PROVIDER-RULES gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Rule {
    /// Every tool request has exactly one response, later.
    G1,
    /// The requests of one assistant message stay together with all their responses.
    G2,
    /// No overlay begins or ends between a request and its response, or covers the open turn.
    G3,
    /// A synthetic pair stands only at a turn's start.
    G4,
    /// No message is left empty.
    G5,
    /// What is sent ends with the user's side.
    G6,
    /// No message of the assistant holds thoughts alone.
    G7,
    /// Ids of calls and names of tools are ones that the provider takes.
    G8,
    /// Consecutive messages of one role are merged.
    A1,
    /// The first message is the user's.
    A2,
    /// Each call is answered in the very next user message, results before text.
    A3,
    /// Text is neither empty nor blank.
    A4,
    /// No assistant message last, no trailing space in one.
    A5,
    /// Thoughts are returned unmodified and in order, or left out whole.
    A6,
    /// Once earlier content has changed, signed thoughts of older turns are left out.
    A7,
    /// Tool input is an object.
    A10,
    /// A tool's message follows an assistant message with that call.
    C1,
    /// Every call is answered before the next message that is not a tool's.
    C2,
    /// Arguments are a JSON string.
    C4,
    /// Reasoning is not sent back.
    C5,
    /// Calls and outputs pair both ways.
    R1,
    /// A reasoning item stays with the item after it.
    R2,
    /// Compaction items are opaque.
    R3,
    /// Roles are user and model, merged, the user first.
    M1,
    /// A call comes right after the user's side, its response right after it.
    M2,
    /// As many responses as calls.
    M3,
    /// The signatures of the current turn are kept.
    M5,
    /// The view fits the window. A warning: nothing is refused.
    O1,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{self:?}")
    }
}

/// A rule that is broken, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Whose request body breaks it; none for the view itself.
    pub provider: Option<Provider>,
    /// The turn of the stream; for a summary the first that it stands for.
    pub turn: Option<usize>,
    /// The event's number.
    pub event: Option<u64>,
    /// What is wrong there.
    pub message: String,
}

impl Violation {
    fn of(rule: Rule, place: Place, message: impl Into<String>) -> Self {
        Self { rule, provider: None, turn: place.turn, event: place.event, message: message.into() }
    }

    /// Whether it is the same in another body or view. The messages of a body are numbered anew by a change.
    fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.rule, it.provider, it.turn, it.event);
        key(self) == key(other) && (self.provider.is_some() || self.message == other.message)
    }

    /// Whether a provider takes it all the same.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.rule == Rule::O1
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.rule)?;
        if let Some(provider) = self.provider {
            write!(out, " ({provider})")?;
        }
        if let Some(turn) = self.turn {
            write!(out, " turn {turn}")?;
        }
        if let Some(event) = self.event {
            write!(out, " event {event}")?;
        }
        write!(out, ": {}", self.message)
    }
}

/// The rules of a provider over a request body, whoever made it.
#[must_use]
pub fn body(provider: Provider, rendered: &Rendered) -> Vec<Violation> {
    let mut found = Found { provider, rendered, violations: Vec::new() };
    match provider {
        Provider::Anthropic => anthropic::check(&mut found),
        Provider::Openai => openai::check(&mut found),
        Provider::OpenaiResponses => responses::check(&mut found),
        Provider::Gemini => gemini::check(&mut found),
        // It takes anything; see `window`.
        Provider::Ollama => {}
    }
    shared::check(&mut found);
    found.violations
}

/// Ollama's one rule: it drops from the front, unasked, what its window (`num_ctx`) does not hold.
#[must_use]
pub fn window(tokens: u64, num_ctx: u64) -> Option<Violation> {
    let message =
        format!("about {tokens} tokens do not fit a window of {num_ctx}: Ollama drops the oldest messages");
    let violation = Violation::of(Rule::O1, Place::default(), message);
    (tokens > num_ctx).then_some(Violation { provider: Some(Provider::Ollama), ..violation })
}

/// Parts the violations `after` a change into those that it brought and those that were there `before` it.
#[must_use]
pub fn introduced(before: &[Violation], after: Vec<Violation>) -> (Vec<Violation>, Vec<Violation>) {
    after.into_iter().partition(|violation| !before.iter().any(|other| other.is_same(violation)))
}

/// What was found in one body.
struct Found<'a> {
    provider: Provider,
    rendered: &'a Rendered,
    violations: Vec<Violation>,
}

impl<'a> Found<'a> {
    /// The conversation in the body.
    fn messages(&self) -> &'a [Value] {
        let messages = self.rendered.body.get(self.provider.conversation()).and_then(Value::as_array);
        messages.map(Vec::as_slice).unwrap_or_default()
    }

    /// Notes that the message with this number breaks a rule.
    fn add(&mut self, rule: Rule, message: usize, what: impl std::fmt::Display) {
        let place = self.rendered.place(message);
        let violation = Violation::of(rule, place, format!("message {message} {what}"));
        self.violations.push(Violation { provider: Some(self.provider), ..violation });
    }
}

/// A member that is text.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a message's content is nothing, or text that is nothing.
fn is_blank(content: Option<&Value>) -> bool {
    match content {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(Value::Array(parts)) => {
            parts.iter().all(|part| part.get("text").is_some_and(|text| is_blank(Some(text))))
        }
        Some(_) => false,
    }
}
