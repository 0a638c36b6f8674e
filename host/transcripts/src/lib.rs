//! Transcripts of other agents, such as Claude Code, Codex, and OpenCode, and the request bodies of providers.
//!
//! A reader turns a file into a [`Transcript`]: a [`Stream`](jp_compact_core::Stream) of events, and a map from each
//! event to its bytes in the file. [`render`] writes a view in the format of the file, and copies the bytes of
//! unchanged events. Overlays of such a transcript are in a [`sidecar`].
//!
//! A transcript without overlays is written back byte for byte. Like the core, this crate does no input or output.
//!
//! The interface is not stable. The crate is published because `cargo install jp-compact` needs it.

#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

mod builder;
mod coverage;
mod disposition;
mod edit;
mod event_draft;
mod examine;
pub mod format;
pub mod import;
mod lines;
mod model_provider;
mod reader;
mod readers;
pub mod record;
mod responses;
mod sample;
pub mod sidecar;
mod source;
mod source_map;
mod title;
mod transcript;
mod unsupported;

pub use edit::render;
pub use examine::{NotUnderstood, examine};
pub use format::Format;
pub use jp_compact_condensed::can_be_condensed;
pub use readers::{
    condense, detect, detect_beginning, is_request_body, is_surely_j_cli, read, read_in_windows,
};
pub use sample::malformed;
pub use source::WindowedFile;
pub use title::title as title_of;
pub use transcript::Transcript;
pub use unsupported::program;
