//! The core of `jp-compact`: streams, turns, ranges, overlays, and the projection. Everything here is a function of its
//! arguments. There must be no access to files, processes, the clock, or the environment: `now` is an argument.
//!
//! The data flow: bytes become a [`Stream`], and bounds resolve to a [`TurnRange`]. Requests are made from the stream.
//! The payloads in a strategy's reply are validated. The resulting compactions are appended after the raw events. The
//! projection makes a [`View`] of the stream.
//!
//! The interface is not stable. The crate is published because `cargo install jp-compact` needs it.
//!
//! # The raw-stream invariant
//!
//! A request to a strategy is made from a [`Survey`], and a survey from a [`Stream`] alone:
//!
//! ```
//! use jp_compact_core::{Stream, Survey};
//! fn survey(history: &Stream) -> Survey<'_> {
//!     Survey::new(history)
//! }
//! ```
//!
//! A [`View`] cannot be used as history. This example differs in one type, and does not compile:
//!
//! ```compile_fail,E0308
//! use jp_compact_core::{View, Survey};
//! fn survey(history: &View) -> Survey<'_> {
//!     Survey::new(history)
//! }
//! ```
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

pub mod append;
pub mod auto;
pub mod bound;
pub mod bounded;
pub mod decode;
pub mod estimate;
pub mod event;
pub mod external;
pub mod fork;
pub mod halves;
pub mod hints;
pub mod index;
mod jp_policy;
pub mod jp_view;
mod keep;
pub mod lint;
pub mod open;
pub mod overlap;
pub mod overlay;
pub mod pairs;
pub mod position;
pub mod projection;
pub mod receipts;
pub mod render;
pub mod reply;
pub mod request;
pub mod select;
mod slots;
pub mod source;
pub mod spec;
pub mod splice;
pub mod stale;
pub mod stats;
pub mod steps;
pub mod stream;
pub mod summary_range;
pub mod survey;
pub mod text;
pub mod time;
pub mod turn;
pub mod validate;
pub mod view;

pub use bound::Bound;
pub use overlap::Overlap;
pub use pairs::Pairs;
pub use position::Position;
pub use stream::Stream;
pub use survey::Survey;
pub use turn::TurnRange;
pub use view::View;
