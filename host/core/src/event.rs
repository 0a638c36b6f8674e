//! One element of a stream, as the index knows it: what it is, to which turn it belongs, and where its
//! parts lie in the bytes. It holds no text of its own.

use jiff::Timestamp;

use crate::json::Span;

/// What an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Opens a turn, when the current one already holds a conversation event.
    TurnStart,
    /// What the user said.
    ChatRequest,
    /// What the assistant said.
    Message,
    /// What the assistant thought.
    Reasoning,
    /// What the assistant answered in the shape of a schema.
    Data,
    /// The assistant calls a tool.
    ToolRequest,
    /// The tool answers.
    ToolResponse {
        /// Whether the tool failed.
        is_error: bool,
    },
    /// A tool asks somebody.
    InquiryRequest,
    /// Somebody answers a tool.
    InquiryResponse,
    /// The configuration changes from here on.
    ConfigDelta,
    /// An overlay in JP's grammar.
    Compaction,
    /// An overlay in our own grammar, which JP leaves alone.
    Overlay,
    /// An overlay's origin.
    Receipt,
    /// Anything else: kept byte for byte.
    Unknown,
}

impl Kind {
    /// Whether it is one of JP's seven conversation events: those that make a turn.
    #[must_use]
    pub fn is_conversation(self) -> bool {
        !matches!(self, Self::ConfigDelta | Self::Compaction | Self::Overlay | Self::Receipt | Self::Unknown)
    }

    /// Whether a provider is sent it.
    #[must_use]
    pub fn is_provider_visible(self) -> bool {
        matches!(self, Self::ChatRequest) || self.is_chat_response() || self.is_tool()
    }

    /// Whether the assistant said, thought or answered it.
    #[must_use]
    pub fn is_chat_response(self) -> bool {
        matches!(self, Self::Message | Self::Reasoning | Self::Data)
    }

    /// Whether it is half of a tool call.
    #[must_use]
    pub fn is_tool(self) -> bool {
        matches!(self, Self::ToolRequest | Self::ToolResponse { .. })
    }

    /// Whether it is an overlay, in either grammar.
    #[must_use]
    pub fn is_overlay(self) -> bool {
        matches!(self, Self::Compaction | Self::Overlay)
    }

    /// Whether it carries a number that strategies name it by. Overlays, receipts and config deltas carry
    /// none, so that a reset or a change of config moves no other (PROTOCOL.md, "compact").
    #[must_use]
    pub fn is_numbered(self) -> bool {
        !matches!(self, Self::ConfigDelta | Self::Compaction | Self::Overlay | Self::Receipt)
    }
}

/// One element of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Where the element lies in the bytes.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
    /// Its turn, 0-based. What opens no turn has the index of the one it stands in.
    pub turn: usize,
    /// Its number among the numbered elements, from 0.
    pub seq: Option<u64>,
    /// When it happened. `None` only for an unknown element or a config delta without a readable one.
    pub timestamp: Option<Timestamp>,
    /// Where the id of a tool call lies, as a JSON string.
    pub id: Span,
    /// Where the name of a requested tool lies, as a JSON string.
    pub name: Span,
    /// Where the value lies that carries the weight: `content`, `message`, `reasoning`, `data`, `arguments`.
    pub body: Span,
}
