//! J-CLI's three layers as one configuration, with its own numbers: micro at every loop, a summary above 204,800
//! tokens of what is left, and a conversation that goes on behind it. The third layer is in `mcp.rs`.

use std::fs;

use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::support::{Conversation, Model, Transcript, World};

/// What J-CLI's own `[compact]` says, in ours. It counts no turns.
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

/// An agent's loop.
struct Loop {
    world: World,
    model: Model,
}

impl Loop {
    fn asking(model: Model) -> Self {
        let world = World::new();
        let own = world.home(".config/jp-compact/config.toml");
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(own, CONFIG).unwrap();
        Self { world, model }
    }

    /// One iteration with the conversation as it is: steps 2 to 4 of the flow.
    #[track_caller]
    fn iterate(&self) -> Value {
        let mut command = self.world.command(&["auto", "conversation", "--json", "--model", "openai/g"]);
        self.world.finish(self.model.of(&mut command)).exits(0).line()
    }

    /// The events that a model is sent.
    fn sent(&self) -> Vec<Value> {
        let ran = self.world.run(&["print", "conversation", "--compacted", "--json"]).exits(0);
        let view: Vec<Value> = serde_json::from_str(ran.text()).unwrap();
        view.into_iter().map(|item| item["event"].clone()).collect()
    }

    fn results(&self) -> Vec<usize> {
        let sent = self.sent();
        let results = sent.iter().filter(|event| event["type"] == "tool_call_response");
        results.map(|event| event["content"].as_str().unwrap().len()).collect()
    }

    /// The transcript, gone on with.
    fn continued(
        &self,
        transcript: &Transcript,
        go_on: impl FnOnce(Conversation) -> Conversation,
    ) -> Transcript {
        let elements: Vec<Value> = serde_json::from_slice(&transcript.now()).unwrap();
        let conversation = elements.into_iter().fold(Conversation::new(), Conversation::element);
        self.world.conversation("conversation", &go_on(conversation))
    }
}

fn reads(conversation: Conversation, calls: usize, bytes: usize) -> Conversation {
    (0..calls).fold(conversation, |conversation, call| {
        conversation.call("Read", json!({"path": format!("src/{call}.rs")}), &"x".repeat(bytes))
    })
}

#[test]
fn micro_goes_first_then_204800_tokens_of_what_is_left_decide_then_one_pair_goes_on() {
    let looped = Loop::asking(Model::saying(SUMMARY));
    // 250,000 tokens of results, and 125,000 when the older ten of them are placeholders.
    let conversation = reads(Conversation::new().turn("FIRST: follow the skill."), 20, 50_000);
    let transcript = looped.world.conversation("conversation", &conversation.message("Step 1 is done."));
    let said = looped.iterate();
    assert_eq!((&said["due"], looped.model.asked().len()), (&json!(false), 0), "{said}");
    assert_eq!(looped.results(), [[21; 10], [50_000; 10]].concat());

    // Ten more of 900,000 bytes in all are 225,000 tokens when ten older ones have become placeholders.
    let transcript = looped.continued(&transcript, |talk| {
        reads(talk.turn("Go on."), 10, 90_000).message("LAST: step 3 of 5 is done.")
    });
    let said = looped.iterate();
    assert_eq!(said["due"], true, "{said}");
    let [asked] = &looped.model.asked()[..] else { panic!("{}", looped.model.asked().len()) };
    let text = asked.to_string();
    assert!(
        text.contains("FIRST: follow") && text.contains("LAST: step 3"),
        "nothing is cut off at 80,000 characters"
    );
    let said_so = ["tools", "stream", "max_tokens"].map(|key| asked[key].clone());
    assert_eq!(said_so, [json!(null), json!(false), json!(20_000)]);
    assert_eq!(transcript.overlays().len(), 2, "the placeholders, then the summary");
    let kinds: Vec<_> = looped.sent().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["chat_request", "chat_response"], "two messages are left");
    assert_eq!(looped.sent()[1]["message"], SUMMARY);

    // The next results are fresh, and nothing is due.
    looped.continued(&transcript, |talk| reads(talk.turn("Step 4."), 3, 5000).message("Done."));
    let said = looped.iterate();
    assert_eq!(
        (&said["due"], &said["always"][0]["report"]["overlays"]),
        (&json!(false), &json!([])),
        "{said}"
    );
    assert_eq!(looped.results(), [5000; 3]);
    assert_eq!(looped.sent()[1]["message"], SUMMARY);
}

#[test]
fn the_threshold_is_exceeded_and_not_reached() {
    let looped = Loop::asking(Model::saying(SUMMARY));
    let exactly = |tokens: usize| {
        let request = "x".repeat(4 * tokens);
        looped.world.conversation("conversation", &Conversation::new().turn(&request));
        looped.iterate()["due"].clone()
    };
    assert_eq!([exactly(204_800), exactly(204_801)], [false, true]);
}

#[test]
fn a_provider_that_fails_is_told_of_and_the_conversation_goes_on() {
    let looped = Loop::asking(Model::answering(ResponseTemplate::new(401)));
    let conversation = reads(Conversation::new().turn("Look."), 12, 90_000).message("Done.");
    let transcript = looped.world.conversation("conversation", &conversation);
    let said = looped.iterate();
    assert_eq!(said["due"], true, "{said}");
    assert!(said["warning"].as_str().unwrap().contains("HTTP 401"), "{said}");
    // The first layer asks nobody, and stands; all else is as it was.
    assert_eq!(transcript.overlays().len(), 1);
    assert_eq!(looped.results(), [vec![21; 2], vec![90_000; 10]].concat());
}
