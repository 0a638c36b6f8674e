//! `jp-compact query`: the request to the model, the appended turn, and failures. The model is a server on loopback
//! that implements OpenAI's chat API.

use std::fs;

use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use crate::llm::{KEY, completion};
use crate::support::{CommandOutput, Conversation, Transcript, World, append_event};

const NOW: [&str; 2] = ["--now", "2026-11-21T07:40:00Z"];

/// A conversation and a model.
struct Scene {
    world: World,
    transcript: Transcript,
    server: MockServer,
    runtime: tokio::runtime::Runtime,
}

impl Scene {
    fn new(conversation: &Conversation) -> Self {
        let world = World::new();
        let transcript = world.write_conversation("conversation", conversation);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(MockServer::start());
        Self { world, transcript, server, runtime }
    }

    /// Returns a scene whose model sends this answer to every request.
    fn with_answer(conversation: &Conversation, text: &str) -> Self {
        let scene = Self::new(conversation);
        scene.respond_with(completion(text, "stop"));
        scene
    }

    fn respond_with(&self, response: impl Respond + 'static) {
        self.runtime.block_on(Mock::given(method("POST")).respond_with(response).mount(&self.server));
    }

    fn requests(&self) -> Vec<Value> {
        let requests = self.runtime.block_on(self.server.received_requests()).unwrap();
        let prompts = requests.iter().filter(|request| request.method == "POST");
        prompts.map(|request| request.body_json().unwrap()).collect()
    }

    #[track_caller]
    fn run(&self, extra: &[&str]) -> CommandOutput {
        let arguments =
            [&["query", "conversation", "--model", "openai/g"], &NOW[..], extra, &["--", "And now?"]];
        let mut command = self.world.command(&arguments.concat());
        command.env("OPENAI_BASE_URL", self.server.uri()).env("OPENAI_API_KEY", KEY);
        self.world.finish(&mut command)
    }

    /// Returns the appended elements. Asserts that the older elements keep their bytes.
    #[track_caller]
    fn appended(&self) -> Vec<Value> {
        let old: Vec<Value> = serde_json::from_slice(self.transcript.original_bytes()).unwrap();
        let new: Vec<Value> = serde_json::from_slice(&self.transcript.current_bytes()).unwrap();
        let body = self.transcript.original_bytes().strip_suffix(b"\n]\n").unwrap();
        assert!(self.transcript.current_bytes().starts_with(body), "history changed");
        new[old.len()..].to_vec()
    }
}

fn turn_elements(answer: &str) -> [Value; 3] {
    let timestamp = "2026-11-21 07:40:00.0";
    [
        json!({"timestamp": timestamp, "type": "turn_start"}),
        json!({"timestamp": timestamp, "type": "chat_request", "content": "And now?"}),
        json!({"timestamp": timestamp, "type": "chat_response", "message": answer}),
    ]
}

fn types(elements: &[Value]) -> Vec<&str> {
    elements.iter().map(|element| element["type"].as_str().unwrap()).collect()
}

#[test]
fn appends_turn_after_unchanged_history() {
    let scene = Scene::with_answer(&Conversation::with_turns(1), "It ends.");
    let output = scene.run(&[]).exits(0);
    assert_eq!((output.text(), output.stderr.as_str()), ("It ends.\n", ""));
    let expected = turn_elements("It ends.")
        .iter()
        .fold(scene.transcript.original_bytes().to_vec(), |bytes, event| append_event(&bytes, event));
    assert!(scene.transcript.current_bytes() == expected, "the turn must be appended in JP's layout");
    let request = &scene.requests()[0];
    assert_eq!(request["tools"], Value::Null);
    assert_eq!(
        request["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "user", "content": "What does the file say?"}),
            json!({"role": "assistant", "content": "[Call of fs_read_file: {\"path\":\"src/main.rs\"}]"}),
            json!({"role": "user", "content": "[Answer of fs_read_file: fn main() { println!(\"hello\"); }]"}),
            json!({"role": "assistant", "content": "It prints a greeting."}),
            json!({"role": "user", "content": "And now?"}),
        ]
    );
}

#[test]
fn sends_the_view() {
    let summary = json!({"from_turn": 0, "to_turn": 1, "summary": {"summary": "They said hello."}});
    let scene = Scene::with_answer(&Conversation::with_turns(2).compaction(summary), "Goodbye.");
    scene.run(&[]).exits(0);
    let messages = scene.requests()[0]["messages"].clone();
    let contents: Vec<_> =
        messages.as_array().unwrap()[1..].iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, ["[Summary of previous conversation]", "They said hello.", "And now?"]);
}

#[test]
fn compact_option_compacts_before_request() {
    let scene = Scene::with_answer(&Conversation::with_turns(6), "Done.");
    let line = scene.run(&["--compact=t=omit", "--json"]).exits(0).line();
    let elements = scene.appended();
    let expected = ["compaction", "jp_compact_receipt", "turn_start", "chat_request", "chat_response"];
    assert_eq!(types(&elements), expected);
    assert_eq!(elements[2..], turn_elements("Done."));
    assert_eq!(
        (&line["turn"], &line["answer"], &line["model"]),
        (&json!(6), &json!("Done."), &json!("openai/g-1"))
    );
    assert_eq!(line["usage"], json!({"input_tokens": 30, "output_tokens": 5}));
    assert_eq!(line["compaction"]["overlays"][0]["strategy"], "strip-tools");
    let messages = scene.requests()[0]["messages"].to_string();
    assert!(messages.matches("[Call of").count() < 6, "{messages}");
}

#[test]
fn skips_compaction_with_small_saving() {
    let scene = Scene::with_answer(&Conversation::with_turns(6), "Done.");
    let output = scene.run(&["--compact=r", "--set", "conversation.compaction.min_saving=0.9"]).exits(0);
    output.reports("nothing to append").reports("the minimum is 90 %");
    assert_eq!(scene.appended(), turn_elements("Done."));
}

#[test]
fn model_failure_keeps_compaction_and_appends_no_turn() {
    let scene = Scene::new(&Conversation::with_turns(6));
    scene.respond_with(ResponseTemplate::new(401));
    let line = scene.run(&["--compact=r", "--json"]).exits(18).line();
    assert_eq!(types(&scene.appended()), ["compaction", "jp_compact_receipt"]);
    assert_eq!((&line["turn"], &line["error"]["code"]), (&Value::Null, &json!(18)));
    assert_eq!(line["compaction"]["overlays"].as_array().map(Vec::len), Some(1));
}

#[test]
fn incomplete_answer_appends_no_turn() {
    for response in [completion("", "stop"), completion("half", "length"), completion("no", "content_filter")]
    {
        let scene = Scene::new(&Conversation::with_turns(2));
        scene.respond_with(response);
        assert_eq!(scene.run(&[]).exits(18).text(), "");
        scene.transcript.assert_untouched();
    }
    let scene = Scene::new(&Conversation::with_turns(2));
    scene.run(&["--llm-budget-tokens", "1"]).exits(18);
    scene.transcript.assert_untouched();
    assert_eq!(scene.requests().len(), 0);
}

#[test]
fn replays_recorded_answer_without_model() {
    let scene = Scene::with_answer(&Conversation::with_turns(2), "Done.");
    scene.run(&["--llm-record", "answers.json"]).exits(0);
    let other = scene.world.write_conversation("other", &Conversation::with_turns(2));
    let arguments = ["query", "other", "And now?", "--llm-replay", "answers.json"];
    let output = scene.world.run(&[&arguments[..], &NOW].concat()).exits(0);
    assert_eq!(output.text(), "Done.\n");
    assert_eq!(other.current_bytes(), scene.transcript.current_bytes());
    scene.world.run(&["query", "other", "Something else", "--llm-replay", "answers.json"]).exits(18);
    assert_eq!(scene.requests().len(), 1);
}

#[test]
fn auto_compacts_after_turn_when_enabled() {
    let auto_settings = |extra: &[&str]| -> Vec<String> {
        let settings = extra.iter().map(|extra| format!("conversation.compaction.auto.{extra}"));
        settings.flat_map(|setting| ["--set".to_owned(), setting]).collect()
    };
    let run_with_auto = |extra: &[&str]| {
        let scene = Scene::with_answer(&Conversation::with_turns(8), "Done.");
        let extra = auto_settings(&[&["profile=default"], extra].concat());
        let output = scene.run(&extra.iter().map(String::as_str).collect::<Vec<_>>()).exits(0);
        (scene, output)
    };
    let (scene, output) = run_with_auto(&["enabled=true", "token_threshold=100"]);
    output.reports("auto compacted turns 0-5 with profile `default`");
    let elements = scene.appended();
    assert_eq!(elements[..3], turn_elements("Done."));
    assert_eq!(elements[3]["type"], "compaction");
    for settings in [["enabled=false", "token_threshold=100"], ["enabled=true", "token_threshold=9000"]] {
        let (scene, output) = run_with_auto(&settings);
        assert_eq!(output.stderr, "");
        assert_eq!(scene.appended(), turn_elements("Done."));
    }
}

#[test]
fn rejects_a_focus_without_effect() {
    let auto = |pair: &str| format!("--set=conversation.compaction.auto.{pair}");
    let (enabled, heavy) = (auto("enabled=true"), auto("profile=heavy"));
    let scene = Scene::with_answer(&Conversation::with_turns(8), "Done.");
    for (extra, cause) in [
        (&["--compact=default"][..], "have no option `focus`"),
        (&["--compact=default", &heavy], "have no option `focus`"),
        (&[&enabled], "have no option `focus`"),
        (&[], "no strategy runs"),
    ] {
        scene.run(&[&["--focus=x"], extra].concat()).exits(2).reports(cause);
        assert_eq!((scene.requests().len(), scene.appended().len()), (0, 0));
    }
    // One of the two profiles is enough.
    scene.run(&["--focus=x", "-n", "--compact=default", &enabled, &heavy]).exits(0);
    let due = [&enabled, &auto("token_threshold=100")];
    scene.run(&["--focus=x", "--compact=heavy", due[0], due[1]]).exits(0);
}

/// Appends an event to the transcript during the request to the model.
struct AppendDuringRequest {
    path: std::path::PathBuf,
    event: Value,
}

impl Respond for AppendDuringRequest {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        fs::write(&self.path, append_event(&fs::read(&self.path).unwrap(), &self.event)).unwrap();
        completion("Done.", "stop")
    }
}

#[test]
fn concurrent_turn_is_a_conflict_and_answer_is_printed() {
    let scene = Scene::new(&Conversation::with_turns(2));
    let event = json!({"timestamp": "2026-11-21 07:39:59.0", "type": "turn_start"});
    scene.respond_with(AppendDuringRequest { path: scene.transcript.path.clone(), event: event.clone() });
    let output = scene.run(&[]).exits(5);
    assert_eq!(output.text(), "Done.\n");
    output.reports("conversation/events.json: it grew while the model answered");
    assert_eq!(scene.appended(), [event]);
}

#[test]
fn concurrent_overlay_is_not_a_conflict() {
    let scene = Scene::new(&Conversation::with_turns(2));
    let event = json!({"timestamp": "2026-11-21 07:39:59.0", "type": "compaction", "from_turn": 0, "to_turn": 0,
                       "reasoning": "strip"});
    scene.respond_with(AppendDuringRequest { path: scene.transcript.path.clone(), event: event.clone() });
    scene.run(&[]).exits(0);
    assert_eq!(scene.appended(), [&[event][..], &turn_elements("Done.")].concat());
}

#[test]
fn sends_no_request_for_invalid_query() {
    let scene = Scene::with_answer(&Conversation::with_turns(6), "Done.");
    let output = scene.run(&["--dry-run", "--compact=r"]).exits(0);
    assert_eq!(output.text(), "");
    output.reports("1 overlay would be appended").reports("dry run, no model was called");
    scene.world.run(&["query", "conversation", " "]).exits(2);
    scene.world.run(&["query", "conversation"]).exits(2);
    scene.world.run(&["query", "conversation", "And now?"]).exits(18).reports("no model is configured");
    scene.run(&["--compact=nothing"]).exits(2);
    scene.world.write_events("unloadable", b"[{\"type\": \"turn_start\"}]\n");
    scene.world.run(&["query", "unloadable", "And now?", "--model", "openai/g"]).exits(4);
    scene.transcript.assert_untouched();
    assert_eq!(scene.requests().len(), 0);
}
