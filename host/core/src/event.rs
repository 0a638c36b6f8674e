//! One element of a stream, as the index records it: its kind, its turn, and the spans of its parts. It holds no text.

use jiff::Timestamp;

use jp_compact_json::Span;

/// The kind of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Starts a turn if the current turn already has a conversation event.
    TurnStart,
    /// A user message.
    ChatRequest,
    /// An assistant message.
    Message,
    /// Reasoning of the assistant.
    Reasoning,
    /// An assistant answer that follows a schema.
    Data,
    /// A tool call.
    ToolRequest,
    /// A tool's response.
    ToolResponse { is_error: bool },
    /// A tool's question.
    InquiryRequest,
    /// The answer to a tool's question.
    InquiryResponse,
    /// A change of the configuration for the events after it.
    ConfigDelta,
    /// An overlay in JP's grammar.
    Compaction,
    /// An overlay in our own grammar, which JP ignores.
    Overlay,
    /// An overlay in our own grammar that begins or ends inside a turn.
    StepOverlay,
    /// The origin of an overlay.
    Receipt,
    /// Any other element. Kept byte for byte.
    Unknown,
}

impl Kind {
    /// Returns whether the kind is a conversation event of JP. Only conversation events make turns.
    #[must_use]
    pub fn is_conversation(self) -> bool {
        !matches!(self, Self::ConfigDelta | Self::Receipt | Self::Unknown) && !self.is_overlay()
    }

    /// Returns whether providers receive elements of this kind.
    #[must_use]
    pub fn is_provider_visible(self) -> bool {
        matches!(self, Self::ChatRequest) || self.is_chat_response() || self.is_tool()
    }

    /// Returns whether the kind is output of the assistant other than tool calls.
    #[must_use]
    pub fn is_chat_response(self) -> bool {
        matches!(self, Self::Message | Self::Reasoning | Self::Data)
    }

    /// Returns whether the kind is one half of a tool call.
    #[must_use]
    pub fn is_tool(self) -> bool {
        matches!(self, Self::ToolRequest | Self::ToolResponse { .. })
    }

    /// Returns whether the kind is an overlay, in either grammar.
    #[must_use]
    pub fn is_overlay(self) -> bool {
        matches!(self, Self::Compaction | Self::Overlay | Self::StepOverlay)
    }

    /// Returns whether elements of this kind have a number, by which strategies refer to them. Overlays, receipts and
    /// config deltas have none, so a reset or a change of config changes no number (PROTOCOL.md, "compact").
    #[must_use]
    pub fn is_numbered(self) -> bool {
        !matches!(self, Self::ConfigDelta | Self::Receipt) && !self.is_overlay()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// The span of the whole element.
    pub span: Span,
    pub kind: Kind,
    /// The turn, from 0. An element that is not a conversation event has the turn at its position.
    pub turn: usize,
    /// The number among the numbered elements, from 0.
    pub seq: Option<u64>,
    /// The time. `None` only for an unknown element without a valid time, or a config delta without a time.
    pub timestamp: Option<Timestamp>,
    /// The id of a tool call, as a JSON string.
    pub id: Span,
    /// The name of a requested tool, as a JSON string.
    pub name: Span,
    /// The value with the text: `content`, `message`, `reasoning`, `data`, or `arguments`.
    pub body: Span,
}
