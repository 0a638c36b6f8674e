//! The plugin's side of JP's plugin protocol: JSON lines on stdin and stdout. JP starts `jp-compact` for `jp compact
//! [ARGS]`, and prints the plugin's messages. This crate has the messages, the conversion of output to messages, and
//! the search for JP's current conversation.
//!
//! Every line of stdout must be a message: JP stops at the first other line.
//!
//! The interface is not stable.

mod connection;
mod current;
mod message;

pub use connection::{Connection, MessageLevel};
pub use current::{CurrentConversation, current_conversation};
pub use message::{HostMessage, Init, PROTOCOL_VERSION, PluginDescription, PluginMessage};
