//! The results of commands, as JSON documents and as text for people. Commands and MCP tools share them.

pub(crate) mod compaction;
pub(crate) mod conversation;
pub(crate) mod overlays;
