//! The messages of JP's plugin protocol, version 1. Unknown members are ignored, because JP adds members without a new
//! version.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the protocol that this crate knows.
pub const PROTOCOL_VERSION: u32 = 1;

/// A message from JP to the plugin.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostMessage {
    /// JP asks for the description, and for nothing else.
    Describe,
    /// JP starts a command.
    Init(Init),
    /// JP was interrupted. It kills the plugin after five seconds.
    Shutdown,
    /// An answer to a request. This plugin sends no requests.
    #[serde(other)]
    Unknown,
}

impl HostMessage {
    /// Parses a line. Returns `None` if it is not a message.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        // serde also accepts a list for an enum with a tag, but a message is an object.
        let message: Value = serde_json::from_str(line).ok()?;
        if message.is_object() { serde_json::from_value(message).ok() } else { None }
    }
}

/// The start of a command.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Init {
    pub version: u32,
    pub workspace: WorkspaceInfo,
    #[serde(default)]
    pub paths: JpPaths,
    /// The options of this plugin in JP's configuration.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// The arguments after `jp compact`.
    #[serde(default)]
    pub args: Vec<String>,
    /// 0 is error, 1 warn, 2 info, 3 debug, 4 trace.
    #[serde(default)]
    pub log_level: u8,
}

/// JP's workspace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WorkspaceInfo {
    pub root: PathBuf,
}

/// JP's folders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct JpPaths {
    /// The user's storage of this workspace. It has the files of JP's terminal sessions.
    #[serde(default)]
    pub user_workspace: Option<PathBuf>,
}

/// A message from the plugin to JP.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PluginMessage {
    Describe(PluginDescription),
    Ready,
    /// Text that JP writes to its stdout as it is.
    Print {
        text: String,
        channel: &'static str,
        format: &'static str,
    },
    /// A line of JP's log.
    Log {
        level: &'static str,
        message: String,
    },
    /// The end of the command. JP prints the reason if the code is not 0.
    Exit {
        code: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// The description of the plugin. JP prints `help` for `jp compact --help`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluginDescription {
    pub name: &'static str,
    pub version: &'static str,
    pub description: &'static str,
    pub command: Vec<&'static str>,
    pub author: &'static str,
    pub help: String,
    pub repository: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_init_with_unknown_members() {
        let line = r#"{"type":"init","version":1,"workspace":{"root":"/w","storage":"/w/.jp","id":"otvo8"},
            "paths":{"user_data":"/d"},"config":{},"args":["--keep-last","1"],"log_level":2,"later":true}"#;
        let Some(HostMessage::Init(init)) = HostMessage::parse(line) else { panic!("not an init") };
        assert_eq!(init.workspace.root, PathBuf::from("/w"));
        assert_eq!((init.args.len(), init.log_level, init.paths.user_workspace), (2, 2, None));
    }

    #[test]
    fn reads_messages_without_members_and_unknown_ones() {
        let read = |line: &str| HostMessage::parse(line).unwrap();
        assert_eq!(read(r#"{"type":"describe"}"#), HostMessage::Describe);
        assert_eq!(read(r#"{"type":"shutdown"}"#), HostMessage::Shutdown);
        assert_eq!(read(r#"{"type":"conversations","data":[]}"#), HostMessage::Unknown);
        assert_eq!(HostMessage::parse(r#"["describe"]"#), None);
        assert_eq!(HostMessage::parse("hello"), None);
    }

    #[test]
    fn writes_the_members_that_jp_reads() {
        let write = |message: &PluginMessage| serde_json::to_string(message).unwrap();
        assert_eq!(write(&PluginMessage::Ready), r#"{"type":"ready"}"#);
        assert_eq!(write(&PluginMessage::Exit { code: 0, reason: None }), r#"{"type":"exit","code":0}"#);
        let print = PluginMessage::Print { text: "a\n".into(), channel: "content", format: "plain" };
        assert_eq!(write(&print), r#"{"type":"print","text":"a\n","channel":"content","format":"plain"}"#);
    }
}
