//! J-CLI's three layers as one configuration, with J-CLI's own numbers. `micro` runs in every iteration of an agent's
//! loop. A summary follows if the view still has more than 204,800 tokens. The third layer is tested in `mcp.rs`, and
//! together with `micro` and a real MCP client in `mcp_client_loop.rs`.

use std::fs;

use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::support::{Conversation, Model, Transcript, World, without_facts};

/// The equivalent of J-CLI's `[compact]` section. J-CLI has no minimum number of turns.
const CONFIG: &str = "\
[conversation.compaction.auto]
enabled = true
token_threshold = 204_800
profile = \"auto-summarize\"
always = [\"micro\"]
min_turns = 0

[conversation.compaction.profiles.micro]
strategies = [{ name = \"micro\", options = { keep_recent = 10 } }]
";
const SUMMARY: &str = "1. The parser was read. 2. Step 3 of 5 of the skill is done. 3. Nothing was decided.";

struct AgentLoop {
    world: World,
    model: Model,
}

impl AgentLoop {
    fn with_model(model: Model) -> Self {
        let world = World::new();
        let config = world.home(".config/jp-compact/config.toml");
        fs::create_dir_all(config.parent().unwrap()).unwrap();
        fs::write(config, CONFIG).unwrap();
        Self { world, model }
    }

    /// Runs one iteration: steps 2 to 4 of J-CLI's flow.
    #[track_caller]
    fn iterate(&self) -> Value {
        let mut command = self.world.command(&["auto", "conversation", "--json", "--model", "openai/g"]);
        self.world.finish(self.model.configure(&mut command)).exits(0).line()
    }

    /// Returns the events of the view.
    fn view(&self) -> Vec<Value> {
        let output = self.world.run(&["print", "conversation", "--compacted", "--json"]).exits(0);
        let view: Vec<Value> = serde_json::from_str(output.text()).unwrap();
        view.into_iter().map(|item| item["event"].clone()).collect()
    }

    /// Returns the lengths of the tool results in the view.
    fn result_lengths(&self) -> Vec<usize> {
        let view = self.view();
        let results = view.iter().filter(|event| event["type"] == "tool_call_response");
        results.map(|event| event["content"].as_str().unwrap().len()).collect()
    }

    /// Adds events to the transcript.
    fn extend(&self, transcript: &Transcript, add: impl FnOnce(Conversation) -> Conversation) -> Transcript {
        let elements: Vec<Value> = serde_json::from_slice(&transcript.current_bytes()).unwrap();
        let conversation = elements.into_iter().fold(Conversation::new(), Conversation::element);
        self.world.write_conversation("conversation", &add(conversation))
    }
}

/// Adds this many calls of `Read`, each with a result of this many bytes.
fn add_reads(conversation: Conversation, calls: usize, bytes: usize) -> Conversation {
    (0..calls).fold(conversation, |conversation, call| {
        conversation.call("Read", json!({"path": format!("src/{call}.rs")}), &"x".repeat(bytes))
    })
}

#[test]
fn micro_runs_first_then_threshold_triggers_summary() {
    let agent = AgentLoop::with_model(Model::with_answer(SUMMARY));
    // The results have 306,000 tokens, or 153,000 with placeholders for the ten older ones.
    let conversation = add_reads(Conversation::new().turn("FIRST: follow the skill."), 20, 30_000);
    let transcript = agent.world.write_conversation("conversation", &conversation.message("Step 1 is done."));
    let report = agent.iterate();
    assert_eq!((&report["due"], agent.model.requests().len()), (&json!(false), 0), "{report}");
    assert_eq!(agent.result_lengths(), [[21; 10], [30_000; 10]].concat());

    // Ten more results have 450,000 bytes together. With placeholders for the 20 older ones, the
    // view has 229,500 tokens.
    let transcript = agent.extend(&transcript, |conversation| {
        add_reads(conversation.turn("Go on."), 10, 45_000).message("LAST: step 3 of 5 is done.")
    });
    let report = agent.iterate();
    assert_eq!(report["due"], true, "{report}");
    let [request] = &agent.model.requests()[..] else { panic!("{}", agent.model.requests().len()) };
    let text = request.to_string();
    assert!(
        text.contains("FIRST: follow") && text.contains("LAST: step 3"),
        "the request must not be truncated at 80,000 characters"
    );
    let parameters = ["tools", "stream", "max_tokens"].map(|key| request[key].clone());
    assert_eq!(parameters, [json!(null), json!(false), json!(18_000)], "a tenth of 20,000 is reserved");
    assert_eq!(transcript.overlays().len(), 2, "expected the placeholders and the summary");
    let kinds: Vec<_> = agent.view().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["chat_request", "chat_response"], "the view must have two messages");
    assert_eq!(without_facts(agent.view()[1]["message"].as_str().unwrap()), SUMMARY);

    // The next results are recent, and nothing is due.
    agent.extend(&transcript, |conversation| {
        add_reads(conversation.turn("Step 4."), 3, 5000).message("Done.")
    });
    let report = agent.iterate();
    assert_eq!(
        (&report["due"], &report["always"][0]["report"]["overlays"]),
        (&json!(false), &json!([])),
        "{report}"
    );
    assert_eq!(agent.result_lengths(), [5000; 3]);
    assert_eq!(without_facts(agent.view()[1]["message"].as_str().unwrap()), SUMMARY);
}

#[test]
fn triggers_above_threshold_not_at_it() {
    let agent = AgentLoop::with_model(Model::with_answer(SUMMARY));
    // A word has 0.885 tokens, and the message around the words has 15.
    let is_due_at = |words: usize| {
        let request = "word ".repeat(words);
        agent.world.write_conversation("conversation", &Conversation::new().turn(&request));
        agent.iterate()["due"].clone()
    };
    assert_eq!([is_due_at(231_395), is_due_at(231_396)], [false, true]);
}

#[test]
fn provider_failure_is_a_warning() {
    let agent = AgentLoop::with_model(Model::with_response(ResponseTemplate::new(401)));
    let conversation = add_reads(Conversation::new().turn("Look."), 12, 90_000).message("Done.");
    let transcript = agent.world.write_conversation("conversation", &conversation);
    let report = agent.iterate();
    assert_eq!(report["due"], true, "{report}");
    assert!(report["warning"].to_string().contains("HTTP 401"), "{report}");
    // The overlay of the first layer, which needs no model, is kept. Nothing else changed.
    assert_eq!(transcript.overlays().len(), 1);
    assert_eq!(agent.result_lengths(), [vec![21; 2], vec![90_000; 10]].concat());
}
