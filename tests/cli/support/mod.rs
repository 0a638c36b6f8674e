//! Support for tests of the executable: an isolated environment, generated conversations, strategies written in
//! shell, a model server, and assertions on the bytes of a transcript.

mod agent;
mod conversation;
mod model;
mod plugin;
mod schema;
mod terminal;
mod transcript;
mod world;

pub(crate) use agent::{Agent, wait_for_exit};
pub(crate) use conversation::{Conversation, append_event, hourly_turns};
pub(crate) use model::{Model, without_facts};
pub(crate) use plugin::{DECLINE, STRIP, plugin_script};
pub(crate) use schema::close_schema;
pub(crate) use terminal::TerminalSession;
pub(crate) use transcript::{Transcript, file_names};
pub(crate) use world::{CommandOutput, World, is_root};
