//! The help of the command line: the short help, manual pages, completions in shells, suggestions for mistyped names, and
//! the progress on a terminal.
//!
//! The interface is not stable. It exists so that the command line only parses and prints. Nothing here may execute a
//! strategy or another program: help must be quick and harmless.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

pub mod completion;
pub mod deferred;
mod examples;
pub mod exit;
pub mod init;
mod intended;
mod layout;
pub mod manual;
mod nearest;
mod overview;
pub mod progress;
pub mod strategies;
mod texts;

pub use intended::{COMMANDS_OF_CONVERSATION, intended_command};
pub use layout::{typed_color, with_layout, with_long_layout};
pub use nearest::{KEYS_HINT, hint_for, hint_for_key, intended_field, nearest};
pub use overview::overview;
