//! The lint rules: the conditions under which providers accept a view or a request body
//! (docs/reference/lint-rules.md). The SDKs of the providers do not check them.

mod anthropic;
mod gemini;
mod openai;
mod responses;
mod shared;
mod view;

use serde::Serialize;
use serde_json::Value;

use crate::render::{Provider, Rendered, ViewPosition};

pub use view::{check_view, check_view_with_pairs};

/// A rule, by its id in docs/reference/lint-rules.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Rule {
    /// Exactly one response follows each tool request.
    G1,
    /// The requests of one assistant message are all answered before the next message.
    G2,
    /// No overlay splits a call, or covers the open turn.
    G3,
    /// A synthetic pair is only at the start of a turn.
    G4,
    /// No message is empty.
    G5,
    /// The conversation ends with a user message.
    G6,
    /// No assistant message consists only of thoughts.
    G7,
    /// Call ids and tool names have a form that the provider accepts.
    G8,
    /// Consecutive messages of one role are merged.
    A1,
    /// The first message is a user message.
    A2,
    /// The next user message answers each call, with results before text.
    A3,
    /// Text is neither empty nor blank.
    A4,
    /// The last message is not an assistant message.
    A5,
    /// Thoughts are returned unmodified and in order, or are left out completely.
    A6,
    /// After earlier content has changed, signed thoughts of older turns are left out.
    A7,
    /// Tool input is an object.
    A10,
    /// A tool message follows an assistant message with that call.
    C1,
    /// Every call is answered before the next message that is not a tool message.
    C2,
    /// Arguments are a JSON string.
    C4,
    /// Reasoning is not sent back.
    C5,
    /// Each call has an output, and each output has a call.
    R1,
    /// A reasoning item stays with the item after it.
    R2,
    /// A compaction item has its encrypted content.
    R3,
    /// The roles `user` and `model` alternate, and the first is `user`.
    M1,
    /// A call directly follows a user message, and its response directly follows the call.
    M2,
    /// There are as many responses as calls.
    M3,
    /// The signatures of the current turn are kept.
    M5,
    /// The view fits the context window. A warning only.
    O1,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{self:?}")
    }
}

/// A violation of a rule, with its position in the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub rule: Rule,
    /// The provider whose request body breaks the rule. `None` if the view itself breaks it.
    pub provider: Option<Provider>,
    /// The turn of the stream. For a summary, the first turn that it replaces.
    pub turn: Option<usize>,
    /// The event's number.
    pub event: Option<u64>,
    /// The description of the violation.
    pub message: String,
}

impl Violation {
    fn new(rule: Rule, position: ViewPosition, message: impl Into<String>) -> Self {
        Self { rule, provider: None, turn: position.turn, event: position.event, message: message.into() }
    }

    /// Returns whether `other` is the same violation in another body or view. The texts of violations in bodies may differ,
    /// because a change may renumber the messages.
    fn is_same(&self, other: &Self) -> bool {
        let key = |violation: &Self| (violation.rule, violation.provider, violation.turn, violation.event);
        key(self) == key(other) && (self.provider.is_some() || self.message == other.message)
    }

    /// Returns whether the provider accepts the body despite the violation.
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

/// Checks a request body against the provider's rules. The body may come from a view or from another program.
#[must_use]
pub fn check_body(provider: Provider, rendered: &Rendered) -> Vec<Violation> {
    let mut linter = BodyLinter { provider, rendered, violations: Vec::new() };
    match provider {
        Provider::Anthropic => anthropic::check(&mut linter),
        Provider::Openai => openai::check(&mut linter),
        Provider::OpenaiResponses => responses::check(&mut linter),
        Provider::Gemini => gemini::check(&mut linter),
        // Ollama rejects no body. See `check_window` for its only rule.
        Provider::Ollama => {}
    }
    shared::check(&mut linter);
    linter.violations
}

/// Checks that a conversation fits Ollama's context window. Ollama silently drops the oldest messages that do not fit.
#[must_use]
pub fn check_window(tokens: u64, num_ctx: u64) -> Option<Violation> {
    let message = format!(
        "the view has about {tokens} tokens, but the context window has {num_ctx}: Ollama drops the oldest messages"
    );
    let violation = Violation::new(Rule::O1, ViewPosition::default(), message);
    (tokens > num_ctx).then_some(Violation { provider: Some(Provider::Ollama), ..violation })
}

/// Splits the violations after a change into those that the change caused, and those that existed before.
#[must_use]
pub fn split_introduced(before: &[Violation], after: Vec<Violation>) -> (Vec<Violation>, Vec<Violation>) {
    after.into_iter().partition(|violation| !before.iter().any(|existing| existing.is_same(violation)))
}

/// Collects the violations of one body.
struct BodyLinter<'a> {
    provider: Provider,
    rendered: &'a Rendered,
    violations: Vec<Violation>,
}

impl<'a> BodyLinter<'a> {
    fn messages(&self) -> &'a [Value] {
        let messages = self.rendered.body.get(self.provider.conversation()).and_then(Value::as_array);
        messages.map(Vec::as_slice).unwrap_or_default()
    }

    /// Records that the message at `index` breaks a rule. `problem` continues a text that begins with the message's number.
    fn report(&mut self, rule: Rule, index: usize, problem: impl std::fmt::Display) {
        let position = self.rendered.position(index);
        let violation = Violation::new(rule, position, format!("message {index} {problem}"));
        self.violations.push(Violation { provider: Some(self.provider), ..violation });
    }
}

/// Returns the value of a string member, or an empty text.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a message's content is missing, empty, or blank.
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
