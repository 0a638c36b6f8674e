//! Renders a view as the conversation of a request body, in a form that the provider accepts. The repairs are made
//! here, and never in the stream: roles are merged, results follow their calls, blank texts are removed, and unpaired
//! halves get a partner (docs/reference/lint-rules.md). For `lint` a view is rendered without these repairs.

mod anthropic;
mod gemini;
mod names;
mod ollama;
mod openai;
mod responses;
mod spoken;
mod talk;

use std::str::FromStr;

use jp_compact_schema::{Message, Role};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode;
use crate::stream::Stream;
use crate::view::View;
pub(crate) use names::NameRules;
use talk::{Manner, Talk};

/// The recipient of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// Anthropic's messages.
    Anthropic,
    /// `OpenAI`'s chat completions.
    Openai,
    /// `OpenAI`'s responses.
    OpenaiResponses,
    /// Google's contents.
    Gemini,
    /// Ollama's chat.
    Ollama,
}

impl Provider {
    pub const ALL: [Self; 5] =
        [Self::Anthropic, Self::Openai, Self::OpenaiResponses, Self::Gemini, Self::Ollama];

    /// Returns the name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::OpenaiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the name of the member with the conversation.
    #[must_use]
    pub fn conversation(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Openai | Self::Ollama => "messages",
            Self::OpenaiResponses => "input",
            Self::Gemini => "contents",
        }
    }
}

impl std::fmt::Display for Provider {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(|provider| format!("`{provider}`"));
            format!("expected one of {}, not `{text}`", names.join(", "))
        })
    }
}

/// A position in the stream. Both parts are unknown for messages that the renderer added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ViewPosition {
    /// The turn. For a summary, the first turn that it replaces.
    pub turn: Option<usize>,
    /// The event's number. Summaries have none.
    pub event: Option<u64>,
}

/// A request body's conversation, and the sources of its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The body with the conversation only, because a view has no tools, model, or system prompt.
    pub body: Value,
    /// The start of each message in the stream. May be shorter: bodies of other origin have none.
    pub places: Vec<ViewPosition>,
    /// The first message that differs from the history.
    pub changed: Option<usize>,
}

impl Rendered {
    /// Wraps a body of another origin.
    #[must_use]
    pub fn of_body(body: Value) -> Self {
        Self { body, places: Vec::new(), changed: None }
    }

    /// Returns the source of a message.
    #[must_use]
    pub fn place(&self, message: usize) -> ViewPosition {
        self.places.get(message).copied().unwrap_or_default()
    }
}

/// Renders a view in a form that the provider accepts.
#[must_use]
pub fn render(stream: &Stream, view: &View, provider: Provider) -> Rendered {
    rendered(stream, view, provider, true)
}

/// Renders a view as texts for a model without tools, followed by the user's `request`.
#[must_use]
pub fn spoken(stream: &Stream, view: &View, request: &str) -> Vec<Message> {
    let talk = Talk::new(stream, view, Manner { takes_thought: |_| false, mends: true, provider: None });
    let mut messages = spoken::render(&talk);
    spoken::say(&mut messages, Role::User, request);
    messages
}

/// Renders a view for `lint`: merged and ready to be sent (A1, A5, A7, G6), but without repairs.
#[must_use]
pub fn as_is(stream: &Stream, view: &View, provider: Provider) -> Rendered {
    rendered(stream, view, provider, false)
}

fn rendered(stream: &Stream, view: &View, provider: Provider, mends: bool) -> Rendered {
    let takes_thought = match provider {
        Provider::Anthropic => anthropic::takes_thought,
        Provider::Openai => |_: &talk::Block| false,
        Provider::OpenaiResponses => responses::takes_thought,
        Provider::Gemini => gemini::takes_thought,
        Provider::Ollama => ollama::takes_thought,
    };
    let talk = Talk::new(stream, view, Manner { takes_thought, mends, provider: Some(provider) });
    let messages = match provider {
        Provider::Anthropic => anthropic::render(&talk),
        Provider::Openai => openai::render(&talk),
        Provider::OpenaiResponses => responses::render(&talk),
        Provider::Gemini => gemini::render(&talk),
        Provider::Ollama => ollama::render(&talk),
    };
    let (places, messages): (Vec<ViewPosition>, Vec<Value>) = messages.into_iter().unzip();
    // A response may follow turns after its call, so the last unchanged message counts.
    let changed = talk.changed.map(|changed| {
        let unchanged = places.iter().rposition(|place| place.turn.is_some_and(|turn| turn < changed));
        unchanged.map_or(0, |last| last + 1)
    });
    let mut body = Map::new();
    body.insert(provider.conversation().into(), messages.into());
    Rendered { body: body.into(), places, changed }
}

/// Returns whether a provider wants a thought back as it was, because it has a signature or is encrypted.
#[must_use]
pub fn is_signed(stream: &Stream, element: usize) -> bool {
    let members = decode::raw(stream, element);
    let metadata = members.as_ref().and_then(|members| members.get("metadata"));
    let signatures = [anthropic::SIGNATURE, anthropic::REDACTED, gemini::SIGNATURE, responses::ENCRYPTED];
    let text = |name| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_str);
    signatures.into_iter().any(|name| text(name).is_some_and(|text| !text.is_empty()))
}

/// Appends blocks. Consecutive messages of one role are merged.
fn merge(
    messages: &mut Vec<(ViewPosition, Value)>,
    role: &str,
    content: &str,
    blocks: impl IntoIterator<Item = (ViewPosition, Value)>,
) {
    for (place, block) in blocks {
        let last = messages.last_mut().map(|(_, message)| message);
        match last.filter(|last| last["role"] == role).and_then(|last| last[content].as_array_mut()) {
            Some(blocks) => blocks.push(block),
            None => {
                let mut message = Map::new();
                message.insert("role".into(), role.into());
                message.insert(content.into(), Value::Array(vec![block]));
                messages.push((place, message.into()));
            }
        }
    }
}
