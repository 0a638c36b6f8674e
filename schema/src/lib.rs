//! The protocol of `jp-compact` as types and JSON Schemas. Nothing here reads, writes, or starts anything.
//!
#![doc = include_str!("../README.md")]
//! ## Example
//!
//! ```
#![doc = include_str!("../examples/read_a_reply.rs")]
//! ```
#![warn(missing_docs)]

pub mod answer;
pub mod catalog;
pub mod compaction;
pub mod constraint;
pub mod context;
pub mod describe;
pub mod document;
pub mod event;
#[cfg(feature = "generate")]
mod generate;
pub mod line;
pub mod manifest;
pub mod name;
pub mod needs;
pub mod outline;
pub mod range;
pub mod record;
pub mod reply;
pub mod report;
pub mod request;
mod strict;
pub mod version;

pub use answer::{Answer, AnswerError, Completion, TokenCount, Usage};
pub use compaction::{Payload, Reasoning, RequestAction, ResponseAction, SelectiveCall, Summary, ToolCalls};
pub use constraint::constraints;
pub use context::{
    CompactionRef, Context, Hint, Kinds, Llm, PreviousSummary, Tokens, ToolCallsRef, ToolHint, Turn,
};
pub use describe::{
    ContentKind, DescribeRequest, DescribeTag, Description, Determinism, HIDDEN, Host, Input, STEPS, Scope,
};
pub use event::{
    EventLine, EventTag, EventsEnd, EventsEndTag, SUMMARY_NOTE, SUMMARY_REQUEST, has_summary_note,
};
pub use line::{from_line, to_line};
pub use manifest::{Manifest, Mode, Permissions, Program, Run, Runtime};
pub use name::{NameError, StrategyName};
pub use needs::{Message, NeedRequest, Needs, RemainingNeeds, Role};
pub use outline::Outline;
pub use range::Range;
pub use reply::{
    ANSWER_REFUSED, Decline, Diagnostic, ErrorReply, Level, Log, Progress, Reply, ResultReply, Severity,
};
pub use request::{CompactRequest, CompactTag, Conversation, Events, Limits, RequestReason};
pub use version::{Mismatch, PROTOCOL, agree};

/// The C declarations that a strategy in a shared library includes as `jp_compact_strategy.h`.
pub const C_HEADER: &str = include_str!("../jp_compact_strategy.h");
