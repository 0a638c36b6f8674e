//! The side of a plugin in JP's plugin protocol: JSON lines on stdin and stdout. JP starts `jp-compact` for
//! `jp compact [ARGS]`, and prints what the plugin sends. This crate knows the messages, how output becomes messages,
//! and which conversation is JP's current one.
//!
//! A line of stdout that is not a message must never be written: JP stops at the first one.
//!
//! The interface is not stable.

mod connection;
mod current;
mod message;

pub use connection::{Connection, MessageLevel};
pub use current::{CurrentConversation, current_conversation};
pub use message::{HostMessage, Init, PROTOCOL_VERSION, PluginDescription, PluginMessage};
