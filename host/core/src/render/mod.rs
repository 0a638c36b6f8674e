//! The rendering of a view as the conversation of a request body, in a form that the provider accepts. All repairs are
//! made here, and never in the stream: consecutive messages of one role are merged, results follow their calls, blank
//! texts are removed, and calls without a response get a response. `lint` checks an unrepaired view. Ids such as A3 are
//! rules of docs/reference/lint-rules.md.

mod anthropic;
mod conversation;
mod gemini;
mod names;
mod ollama;
mod openai;
mod responses;
mod texts;

use std::str::FromStr;

use jp_compact_schema::{Message, Role};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode;
use crate::stream::Stream;
use crate::view::View;
use conversation::{Conversation, Requirements};
pub(crate) use names::NameRules;

/// A provider, by the form of its request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// `OpenAI`'s Chat Completions API.
    Openai,
    /// `OpenAI`'s Responses API.
    OpenaiResponses,
    /// Google's Gemini API.
    Gemini,
    /// Ollama's chat API.
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

    /// Returns the name of the body's member with the conversation.
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

/// The position of a message in the stream. For a user message that the renderer added, both members are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ViewPosition {
    /// The turn. For a summary, the first turn that it replaces.
    pub turn: Option<usize>,
    /// The number of the event. `None` for a summary.
    pub event: Option<u64>,
}

/// A request body with a conversation, and the positions of its messages in the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The body. It has no tools, model, or system prompt, because a view does not have them.
    pub body: Value,
    /// The position of the start of each message. Empty for a body that was not rendered from a view.
    pub positions: Vec<ViewPosition>,
    /// The index of the first message that differs from the raw history.
    pub first_changed_message: Option<usize>,
}

impl Rendered {
    /// Wraps a body that was not rendered from a view.
    #[must_use]
    pub fn from_body(body: Value) -> Self {
        Self { body, positions: Vec::new(), first_changed_message: None }
    }

    /// Returns the position of the message with this index.
    #[must_use]
    pub fn position(&self, message: usize) -> ViewPosition {
        self.positions.get(message).copied().unwrap_or_default()
    }
}

/// Renders a view in a form that the provider accepts.
#[must_use]
pub fn render(stream: &Stream, view: &View, provider: Provider) -> Rendered {
    render_for(stream, view, provider, true)
}

/// Renders a view as plain texts for a model without tools, and appends the user's `request`.
#[must_use]
pub fn render_as_texts(stream: &Stream, view: &View, request: &str) -> Vec<Message> {
    let requirements = Requirements { accepts_thought: |_| false, is_repaired: true, provider: None };
    let mut messages = texts::render(&Conversation::new(stream, view, requirements));
    texts::push_text(&mut messages, Role::User, request);
    messages
}

/// Renders a view for `lint`: without repairs, but merged, and with a user message at the end (A1, A5, A7, G6). Of texts
/// and arguments, only enough to check them is copied, because they may be as large as the transcript.
#[must_use]
pub fn render_unrepaired(stream: &Stream, view: &View, provider: Provider) -> Rendered {
    render_for(stream, view, provider, false)
}

fn render_for(stream: &Stream, view: &View, provider: Provider, is_repaired: bool) -> Rendered {
    let accepts_thought = match provider {
        Provider::Anthropic => anthropic::accepts_thought,
        Provider::Openai => |_: &conversation::Block| false,
        Provider::OpenaiResponses => responses::accepts_thought,
        Provider::Gemini => gemini::accepts_thought,
        Provider::Ollama => ollama::accepts_thought,
    };
    let requirements = Requirements { accepts_thought, is_repaired, provider: Some(provider) };
    // Each renderer consumes the messages, so that their texts are not in memory twice.
    let Conversation { messages, first_changed_turn } = Conversation::new(stream, view, requirements);
    let messages = match provider {
        Provider::Anthropic => anthropic::render(messages),
        Provider::Openai => openai::render(messages),
        Provider::OpenaiResponses => responses::render(messages),
        Provider::Gemini => gemini::render(messages),
        Provider::Ollama => ollama::render(messages),
    };
    let (positions, messages): (Vec<ViewPosition>, Vec<Value>) = messages.into_iter().unzip();
    // A response follows its call, so its turn can be later than those of the next messages. Search from the end.
    let first_changed_message = first_changed_turn.map(|changed| {
        let unchanged =
            positions.iter().rposition(|position| position.turn.is_some_and(|turn| turn < changed));
        unchanged.map_or(0, |last| last + 1)
    });
    let mut body = Map::new();
    body.insert(provider.conversation().into(), messages.into());
    Rendered { body: body.into(), positions, first_changed_message }
}

/// Returns whether a thought has a signature or is encrypted. Providers accept such a thought only unmodified.
#[must_use]
pub fn is_signed(stream: &Stream, element: usize) -> bool {
    let names = [anthropic::SIGNATURE, anthropic::REDACTED, gemini::SIGNATURE, responses::ENCRYPTED];
    // The signature is a JSON string. It is not decoded, because nearly every thought has a signature.
    let external = stream.external().and_then(|external| external.events.get(element));
    if let Some((name, text)) = external.and_then(|external| external.signature.as_deref())
        && names.contains(name)
        && text.len() > 2
    {
        return true;
    }
    let members = decode::raw(stream, element);
    let Some(metadata) = members.as_ref().and_then(|members| members.get("metadata")) else { return false };
    names
        .into_iter()
        .any(|name| metadata.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty()))
}

/// Appends blocks to the last message if it has this role, otherwise as a new message. `content` is the member with
/// blocks.
fn merge(
    messages: &mut Vec<(ViewPosition, Value)>,
    role: &str,
    content: &str,
    blocks: impl IntoIterator<Item = (ViewPosition, Value)>,
) {
    for (position, block) in blocks {
        let last = messages.last_mut().map(|(_, message)| message);
        match last.filter(|last| last["role"] == role).and_then(|last| last[content].as_array_mut()) {
            Some(blocks) => blocks.push(block),
            None => {
                let mut message = Map::new();
                message.insert("role".into(), role.into());
                message.insert(content.into(), Value::Array(vec![block]));
                messages.push((position, message.into()));
            }
        }
    }
}
