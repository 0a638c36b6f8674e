//! A client of `jp-compact mcp`: it writes and reads one line of JSON-RPC at a time.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{CommandOutput, Model, World, close_schema};

/// A connected client and its server process.
pub(crate) struct Agent<'a> {
    world: &'a World,
    pub(crate) server: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Lines<BufReader<ChildStdout>>,
    last_id: u64,
    /// The published schemas of results, by the names of tools. Empty before the first call.
    schemas: BTreeMap<String, Validator>,
}

impl<'a> Agent<'a> {
    /// Starts a server for the folder `project`, and initializes the session.
    pub(crate) fn connect(world: &'a World, extra: &[&str]) -> Self {
        Self::connect_command(world, world.command(&[&["mcp", "project"], extra].concat()))
    }

    /// Like `connect`, with a server that may send requests to `model`.
    pub(crate) fn connect_with_model(world: &'a World, model: &Model, extra: &[&str]) -> Self {
        let mut command =
            world.command(&[&["mcp", "project", "--allow-model", "--model", "openai/g"], extra].concat());
        model.configure(&mut command);
        Self::connect_command(world, command)
    }

    /// Starts a server with this command, and initializes the session.
    pub(crate) fn connect_command(world: &'a World, command: Command) -> Self {
        let mut agent = Self::start(world, command);
        let answer = agent.request(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "a test", "version": "1"},
            }),
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "jp-compact", "{answer}");
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    /// Starts a server without initializing the session.
    pub(crate) fn start(world: &'a World, mut command: Command) -> Self {
        let mut server = world.spawn(command.stdin(Stdio::piped()));
        let stdout = BufReader::new(server.stdout.take().unwrap()).lines();
        Self { world, stdin: server.stdin.take(), stdout, server, last_id: 0, schemas: BTreeMap::new() }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Reads the next line of stdout, which carries only protocol messages.
    pub(crate) fn receive(&mut self) -> Value {
        let line = self.stdout.next().expect("the server has exited").unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Sends a request without waiting for the answer. Returns its id.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}));
        self.last_id
    }

    /// Sends a request, and returns the answer.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool, and returns its result. Each structured result must match the schema that the server published.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> ToolResult {
        if self.schemas.is_empty() {
            self.schemas = self.published_schemas();
        }
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["error"].is_null(), "a failing tool must not be a protocol error: {answer}");
        let result = answer["result"].clone();
        let validator = self.schemas.get(tool);
        assert!(validator.is_none() || result["structuredContent"].is_object(), "{tool}: {result}");
        let errors =
            validator.iter().flat_map(|validator| validator.iter_errors(&result["structuredContent"]));
        let errors: Vec<String> = errors.map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{tool}: {errors:#?}\n{result:#}");
        ToolResult(result)
    }

    /// Returns the schemas of results. A member that a schema does not name is an error.
    fn published_schemas(&mut self) -> BTreeMap<String, Validator> {
        let answer = self.request("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        let validators = tools.map(|tool| {
            let mut schema = tool["outputSchema"].clone();
            close_schema(&mut schema);
            (tool["name"].as_str().unwrap().to_owned(), jsonschema::draft202012::new(&schema).unwrap())
        });
        validators.collect()
    }

    /// Closes stdin, and waits for the server to exit.
    #[track_caller]
    pub(crate) fn close(mut self) -> CommandOutput {
        drop(self.stdin.take());
        assert!(self.stdout.next().is_none(), "output after the last answer");
        wait_for_exit(self.world, self.server)
    }
}

/// Waits for the server to exit. It must leave no temporary files.
#[track_caller]
pub(crate) fn wait_for_exit(world: &World, server: Child) -> CommandOutput {
    let output = CommandOutput::new(world, server.wait_with_output().unwrap());
    world.assert_no_temp_files();
    output
}

/// The result of a tool call.
pub(crate) struct ToolResult(pub(crate) Value);

impl ToolResult {
    /// Returns the text of the result.
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.0["content"].as_array().map(Vec::len), Some(1), "{}", self.0);
        self.0["content"][0]["text"].as_str().unwrap()
    }

    /// Asserts that the tool succeeded.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        assert_eq!(self.0["isError"], false, "{}", self.0);
        self
    }

    /// Asserts that the tool failed with this exit code.
    #[track_caller]
    pub(crate) fn fails(self, code: u8) -> Self {
        assert_eq!(self.0["isError"], true, "{}", self.0);
        assert_eq!(self.0["structuredContent"]["error"]["code"], code, "{}", self.0);
        assert!(self.text().ends_with(&format!("exit code: {code}\n")), "{}", self.text());
        self
    }

    /// Asserts that the text contains this part.
    #[track_caller]
    pub(crate) fn reports(self, part: &str) -> Self {
        assert!(self.text().contains(part), "`{part}` is not in:\n{}", self.text());
        self
    }
}
