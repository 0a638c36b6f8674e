//! Streams, turns, ranges, overlays and the projection of `jp-compact`. Everything here is a function of its
//! arguments: no file, no process, no clock, no environment. `now` is an argument.
//!
//! The way through: bytes make a [`Stream`]; bounds resolve to a [`TurnRange`]; a request is made from the
//! stream; a strategy's payloads are validated into compactions; those are spliced behind the raw events; the
//! projection makes a [`View`] of the stream.
//!
//! # The raw-stream invariant
//!
//! A request to a strategy is made from a [`Survey`], and that from a [`Stream`] and from nothing else:
//!
//! ```
//! use jp_compact_core::{Stream, Survey};
//! fn survey(history: &Stream) -> Survey<'_> {
//!     Survey::of(history)
//! }
//! ```
//!
//! A [`View`] cannot stand for history; this is the same but for one word, and does not compile:
//!
//! ```compile_fail,E0308
//! use jp_compact_core::{View, Survey};
//! fn survey(history: &View) -> Survey<'_> {
//!     Survey::of(history)
//! }
//! ```

pub mod append;
pub mod auto;
pub mod bound;
pub mod bounded;
pub mod call;
pub mod copies;
mod decode;
pub mod estimate;
pub mod event;
pub mod fork;
pub mod formats;
pub mod halves;
pub mod import;
pub mod inline;
pub mod jp_view;
mod json;
pub mod lint;
pub mod open;
pub mod overlap;
pub mod overlay;
pub mod pairs;
mod plain;
pub mod projection;
pub mod receipts;
pub mod record;
pub mod render;
pub mod reply;
pub mod request;
pub mod select;
pub mod sidecar;
pub mod source;
pub mod spec;
pub mod splice;
pub mod stats;
pub mod stream;
pub mod survey;
mod text;
pub mod time;
pub mod turn;
pub mod validate;
pub mod view;

pub use bound::Bound;
pub use call::Call;
pub use json::Span;
pub use overlap::Overlap;
pub use pairs::Pairs;
pub use stream::Stream;
pub use survey::Survey;
pub use turn::TurnRange;
pub use view::View;
