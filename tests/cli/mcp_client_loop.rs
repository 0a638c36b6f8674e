//! The loop of J-CLI's agent, with an independent MCP client. The agent makes 30 calls in one turn, each after a signed
//! thought. `micro` runs before every request. Twice, the agent calls `compact` on its own session, in which that call
//! has no result yet. The test is ignored by default, like those in `mcp_client.rs`.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::mcp_client::{CLIENT, python};
use crate::steps::line;
use crate::support::World;

const CALLS: usize = 30;
/// The numbers of the calls that call `compact`.
const COMPACT_CALLS: [usize; 2] = [14, 24];
/// The number of newest finished steps that `compact` keeps, in addition to the step of its own call.
const KEEP_STEPS: usize = 4;
/// The number of newest results that `micro` keeps by default.
const KEEP_RECENT: usize = 10;
const CONFIG: &str = "\
[conversation.compaction.auto]
token_threshold = 204_800
profile = \"auto-summarize\"
always = [\"micro\"]
min_turns = 0
";

/// A session of the MCP client that makes one call at a time.
struct Client {
    process: Child,
    reports: std::io::Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(world: &World) -> Self {
        let mut client = Command::new(python());
        world.isolate(&mut client).args([CLIENT, "auto"]).arg(cargo_bin!("jp-compact"));
        client.args(["mcp", "project", "--sandbox=contained"]).stdin(Stdio::piped());
        let mut process = world.spawn(&mut client);
        let mut reports = BufReader::new(process.stdout.take().unwrap()).lines();
        let tools = reports.next().unwrap().unwrap();
        assert!(tools.contains("\"compact\""), "{tools}");
        Self { process, reports }
    }

    /// Calls a tool. Returns the text of its result.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: &Value) -> String {
        writeln!(self.process.stdin.as_mut().unwrap(), "{}", json!([tool, arguments])).unwrap();
        let report: Value = serde_json::from_str(&self.reports.next().unwrap().unwrap()).unwrap();
        assert_eq!(report["failed"], false, "{report}");
        report["text"].as_str().unwrap().to_owned()
    }
}

/// The agent's session.
struct Session<'a> {
    world: &'a World,
    lines: Vec<Value>,
}

impl Session<'_> {
    const PATH: &'static str = "project/s.jsonl";

    fn push(&mut self, kind: &str, message: Value) {
        self.lines.push(line(self.lines.len(), kind, message));
        self.world.write_file(Self::PATH, &self.bytes());
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
    }

    /// Adds a response of the model: a signed thought and a call.
    fn push_call(&mut self, call: usize, tool: &str, arguments: &Value) {
        let block =
            |block: Value| json!({"id": format!("msg_{call}"), "role": "assistant", "content": [block]});
        let signature = format!("signature {call}");
        self.push(
            "assistant",
            block(json!({"type": "thinking", "thinking": "I need this.", "signature": signature})),
        );
        let id = format!("toolu_{call}");
        self.push(
            "assistant",
            block(json!({"type": "tool_use", "id": id, "name": tool, "input": arguments})),
        );
    }

    fn push_result(&mut self, call: usize, text: &str) {
        let result = json!({"type": "tool_result", "tool_use_id": format!("toolu_{call}"), "content": text});
        self.push("user", json!({"role": "user", "content": [result]}));
    }

    /// Returns the messages of the next request to Anthropic.
    fn messages(&self) -> Vec<Value> {
        let output = self.world.run(&["print", Self::PATH, "--compacted", "--as", "anthropic"]).exits(0);
        let body: Value = serde_json::from_str(output.text()).unwrap();
        body["messages"].as_array().unwrap().clone()
    }

    /// Runs `micro`, as J-CLI does before every request. Returns the messages of the request, which must be valid.
    #[track_caller]
    fn next_request(&self) -> Vec<Value> {
        let line = self.world.run(&["auto", Self::PATH, "--json", "--provider", "anthropic"]).exits(0).line();
        assert_eq!((&line["due"], &line["warning"]), (&json!(false), &Value::Null), "{line}");
        self.world.run(&["lint", Self::PATH, "--provider", "anthropic"]).exits(0);
        self.messages()
    }
}

fn size(messages: &[Value]) -> usize {
    messages.iter().map(|message| message.to_string().len()).sum()
}

/// Returns the number of results that are shown in full.
fn full_results(messages: &[Value]) -> usize {
    messages.iter().filter(|message| message.to_string().contains("fn parse")).count()
}

/// Returns the number of signed thoughts.
fn signed_thoughts(messages: &[Value]) -> usize {
    messages.iter().filter(|message| message.to_string().contains("\"signature\":\"signature ")).count()
}

#[test]
#[ignore = "needs Python and the SDK; CI runs it"]
fn agent_compacts_its_own_turn_twice() {
    let world = World::new();
    let config = world.home(".config/jp-compact/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, CONFIG).unwrap();
    let mut session = Session { world: &world, lines: Vec::new() };
    session.push("user", json!({"role": "user", "content": "Fix the parser."}));
    let mut client = Client::start(&world);
    let mut sizes = Vec::new();
    for call in 0..CALLS {
        let request = session.next_request();
        assert_eq!(request.len(), 1 + 2 * call, "no message is lost");
        assert_eq!(signed_thoughts(&request), call, "signed thoughts stay in the open turn");
        assert!(full_results(&request) <= KEEP_RECENT, "`micro` ran before the request");
        sizes.push(size(&request));
        if COMPACT_CALLS.contains(&call) {
            let arguments =
                json!({"transcript": "s.jsonl", "profile": "default", "keep_steps": KEEP_STEPS + 1});
            session.push_call(call, "mcp__jp-compact__compact", &arguments);
            let before = session.messages();
            let text = client.call("compact", &arguments);
            let after = session.messages();
            assert!(size(&after) < size(&before), "{text}");
            // Two messages for each step. The host adds a placeholder for the missing result.
            let kept = after.len() - 2 * (KEEP_STEPS + 1);
            assert_eq!(after[kept..], before[kept..], "the newest steps and the open call are unchanged");
            assert!(after[after.len() - 2].to_string().contains("mcp__jp-compact__compact"), "{text}");
            session.push_result(call, &text);
        } else {
            session.push_call(call, "Read", &json!({"path": format!("src/{call}.rs")}));
            session.push_result(call, &format!("{call}: {}", "fn parse() {} ".repeat(100)));
        }
    }
    for call in COMPACT_CALLS {
        assert!(sizes[call + 1] < sizes[call] * 3 / 4, "the next request is smaller: {sizes:?}");
    }
    session.push(
        "assistant",
        json!({"id": "msg_end", "role": "assistant", "content": [{"type": "text", "text": "Done."}]}),
    );
    session.next_request();
    drop(client.process.stdin.take());
    assert!(client.process.wait().unwrap().success());
    assert_eq!(
        fs::read(world.path(Session::PATH)).unwrap(),
        session.bytes(),
        "the session is not written to"
    );
    world.run(&[Session::PATH, "--reset"]).exits(0);
    assert_eq!(full_results(&session.messages()), CALLS - COMPACT_CALLS.len(), "nothing is lost");
}
