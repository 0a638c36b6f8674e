//! An agent that speaks the Model Context Protocol to the executable, a line of JSON-RPC at a time.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::{Model, Ran, World};

/// An agent's side.
pub(crate) struct Agent<'a> {
    world: &'a World,
    pub(crate) server: Child,
    pub(crate) to: Option<ChildStdin>,
    pub(crate) from: Lines<BufReader<ChildStdout>>,
    asked: u64,
}

impl<'a> Agent<'a> {
    /// A server for the folder `house`, introduced.
    pub(crate) fn of(world: &'a World, more: &[&str]) -> Self {
        Self::of_command(world, world.command(&[&["mcp", "house"], more].concat()))
    }

    /// One that asks this model.
    pub(crate) fn asking(world: &'a World, model: &Model, more: &[&str]) -> Self {
        let mut command =
            world.command(&[&["mcp", "house", "--allow-model", "--model", "openai/g"], more].concat());
        model.of(&mut command);
        Self::of_command(world, command)
    }

    pub(crate) fn of_command(world: &'a World, command: Command) -> Self {
        let mut agent = Self::silent(world, command);
        let told = agent.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "a test", "version": "1"},
            }),
        );
        assert_eq!(told["result"]["serverInfo"]["name"], "jp-compact", "{told}");
        agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    pub(crate) fn silent(world: &'a World, mut command: Command) -> Self {
        let mut server = world.spawn(command.stdin(Stdio::piped()));
        let from = BufReader::new(server.stdout.take().unwrap()).lines();
        Self { world, to: server.stdin.take(), from, server, asked: 0 }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next line of stdout, where there is nothing but protocol.
    pub(crate) fn hear(&mut self) -> Value {
        let line = self.from.next().expect("the server is gone").unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Asks, and is not answered yet.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        self.asked
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The result of a tool.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Called {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["error"].is_null(), "no call is an error of the protocol: {answer}");
        Called(answer["result"].clone())
    }

    /// Goes, and sees the server go.
    #[track_caller]
    pub(crate) fn leave(mut self) -> Ran {
        drop(self.to.take());
        assert!(self.from.next().is_none(), "it says no more");
        ended(self.world, self.server)
    }
}

/// How a server ended, which leaves nothing behind.
#[track_caller]
pub(crate) fn ended(world: &World, server: Child) -> Ran {
    let ran = Ran::of(world, server.wait_with_output().unwrap());
    world.assert_tidy();
    ran
}

/// What a tool answered.
pub(crate) struct Called(pub(crate) Value);

impl Called {
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.0["content"].as_array().map(Vec::len), Some(1), "{}", self.0);
        self.0["content"][0]["text"].as_str().unwrap()
    }

    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.0["isError"], false, "{}", self.0);
        self
    }

    /// It failed with this exit code.
    #[track_caller]
    pub(crate) fn fails(self, code: u8) -> Self {
        assert_eq!(self.0["isError"], true, "{}", self.0);
        assert_eq!(self.0["structuredContent"]["error"]["code"], code, "{}", self.0);
        assert!(self.text().ends_with(&format!("exit code: {code}\n")), "{}", self.text());
        self
    }

    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        assert!(self.text().contains(part), "`{part}` is not in:\n{}", self.text());
        self
    }
}
