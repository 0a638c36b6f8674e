//! The help of the command line: the short help, manual pages, completions in shells, and suggestions for mistyped names.
//!
//! The interface is not stable. It exists so that the command line only parses and prints. Nothing here may execute a
//! strategy or another program: help must be quick and harmless.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

pub mod completion;
mod examples;
mod layout;
pub mod manual;
mod nearest;
mod overview;
mod texts;

pub use layout::{with_layout, with_long_layout};
pub use nearest::{hint_for, nearest};
pub use overview::overview;
