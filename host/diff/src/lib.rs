//! The comparison of two views of one stream: the events that overlays remove, shorten, replace, or summarize, and the
//! overlay that changed each of them. Reports and printed views use the comparison to show the effect of a compaction.
//!
//! A comparison refers to the events of the stream and holds none of their text. Texts, sizes, and hunks are computed
//! for one event at a time, so that a large transcript is never in memory twice. The crate must do no input or output.
//!
//! The interface is not stable.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

mod compare;
mod document;
mod hunks;
mod report;
mod selection;
mod text;

pub use compare::{Comparison, DiffEntry, EntryPlace};
pub use document::{EntrySize, SizedChange, SizedChanges, StreamedChanges, entry_sizes};
pub use hunks::hunks;
pub use report::{overlay_origins, view_tokens};
pub use selection::{NoSuchOverlay, OverlayChoice};
