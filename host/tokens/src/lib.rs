//! The estimator of tokens. It counts the pieces of a text, and weighs them. A tokenizer is too slow and too large for
//! the default path (docs/decisions/0024-pieces.md). The counts are sums, so the estimate of a conversation is the sum
//! of the estimates of its texts. Nothing is allocated, and the same text always has the same pieces.
//!
//! The interface is not stable. The crate is published because `cargo install jp-compact` needs it.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

mod byte_classes;
mod counter;
mod json_string;
mod weights;

pub use counter::PieceCounts;
pub use weights::{Frames, PIECE_NAMES, PIECE_WEIGHTS, WEIGHT_PER_TOKEN};

/// The name of the estimator in requests and reports.
pub const NAME: &str = "pieces";
