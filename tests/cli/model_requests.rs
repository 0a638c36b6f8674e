//! Requests to a model: when they are sent and when they are avoided, and the effect of a failed summary.

use serde_json::json;
use wiremock::ResponseTemplate;

use crate::support::{CommandOutput, Conversation, DECLINE, Model, Transcript, World, plugin_script};

/// A conversation and a model.
struct Scene {
    world: World,
    transcript: Transcript,
    model: Model,
}

impl Scene {
    fn new(model: Model) -> Self {
        Self::with_conversation(model, &Conversation::with_turns(10))
    }

    fn with_conversation(model: Model, conversation: &Conversation) -> Self {
        let world = World::new();
        let transcript = world.write_conversation("conversation", conversation);
        Self { world, transcript, model }
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.world.command(&[arguments, &["--model", "openai/g"]].concat());
        self.world.finish(self.model.configure(&mut command))
    }

    /// Runs `auto` with the profile `heavy`, and with a threshold that every conversation exceeds.
    #[track_caller]
    fn auto(&self, extra: &[&str]) -> CommandOutput {
        let threshold = "--set=conversation.compaction.auto.token_threshold=1";
        self.run(&[&["auto", "conversation", "--profile=heavy", threshold], extra].concat())
    }

    /// Summarizes these turns with the profile `heavy`.
    #[track_caller]
    fn summarize(&self, from: &str, to: &str, extra: &[&str]) -> CommandOutput {
        self.run(&[&["conversation", "--profile=heavy", "--from", from, "--to", to], extra].concat())
    }

    /// Asserts the number of requests to the model so far.
    #[track_caller]
    fn assert_requests(&self, count: usize) {
        assert_eq!(self.model.requests().len(), count);
    }
}

#[test]
fn repeated_runs_send_one_request() {
    let scene = Scene::new(Model::with_answer("They read files."));
    scene.auto(&[]).exits(0);
    scene.assert_requests(1);
    let after_first_run = scene.transcript.current_bytes();
    assert_eq!(scene.transcript.overlays().len(), 1);
    for min_saving in ["0", "0.01", "0", "0.01", "0", "0.01", "0", "0.01", "0"] {
        scene.auto(&[&format!("--set=conversation.compaction.min_saving={min_saving}")]).exits(0);
    }
    assert!(scene.transcript.current_bytes() == after_first_run);
    scene.assert_requests(1);
}

#[test]
fn failed_summary_leaves_conversation_untouched() {
    let scene = Scene::new(Model::with_response(ResponseTemplate::new(401)));
    let output = scene.auto(&[]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    warning: conversation/events.json: still too large: the view has about 1,431 tokens, more than 1
    warning: conversation/events.json: nothing was compacted: strategy `summarize` got no answer from a model

    Caused by:
      openai/g: the provider answered with HTTP 401: it rejected the key (llm_unavailable)

    hint: nothing was appended
    ");
    let line = scene.auto(&["--json"]).exits(0).line();
    assert!(
        line["warning"]["message"]
            .as_str()
            .unwrap()
            .starts_with("strategy `summarize` got no answer from a model")
    );
    assert_eq!((&line["due"], &line["report"]), (&json!(true), &json!(null)));
    // The view is measured, also if the fallback fails.
    scene.auto(&["--strict"]).exits(3);
    scene.transcript.assert_untouched();
    let fallback = "--set=conversation.compaction.auto.fallback_profile=heavy";
    let threshold = "--set=conversation.compaction.auto.token_threshold=1";
    let arguments = ["auto", "conversation", "--profile=light", threshold, fallback, "--strict"];
    scene.run(&arguments).exits(3).reports("`heavy` changed nothing");
}

#[test]
fn on_failure_fail_turns_warning_into_error() {
    let on_failure = "--set=conversation.compaction.auto.on_failure=fail";
    for response in [ResponseTemplate::new(401), Model::completion("half of", "length")] {
        let scene = Scene::new(Model::with_response(response));
        scene.auto(&[on_failure]).exits(18);
        let line = scene.auto(&[on_failure, "--json"]).exits(18).line();
        assert_eq!(line["error"]["code"], 18);
        scene.transcript.assert_untouched();
    }
}

#[test]
fn failing_always_profile_is_a_warning() {
    let scene = Scene::new(Model::with_response(ResponseTemplate::new(401)));
    let always = "--set=conversation.compaction.auto.always=[\"heavy\"]";
    let output = scene.auto(&[always]);
    output
        .exits(0)
        .reports("warning: conversation/events.json: profile `heavy` changed nothing: strategy `summarize`");
    scene.transcript.assert_untouched();
}

#[test]
fn auto_dry_run_sends_no_request() {
    let scene = Scene::new(Model::with_answer("They read files."));
    scene.auto(&["--dry-run"]).exits(0).reports("would summarize turns 0-6 using openai/g");
    scene.assert_requests(0);
    scene.transcript.assert_untouched();
}

#[test]
fn sends_no_request_when_saving_is_too_small() {
    let scene = Scene::new(Model::with_answer("They read files."));
    let output = scene.summarize("0", "1", &["--set=conversation.compaction.min_saving=0.3"]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: nothing to append
      -  summarize [version]  declined: no model was asked: a summary of turns 0-1 could save at most 288 of the view's 1431 tokens; the minimum is 30 % (min_saving)
      JP sends about 1,431 tokens, as before (estimated)
    ");
    scene.assert_requests(0);
    scene.transcript.assert_untouched();
    scene.summarize("0", "1", &["--set=conversation.compaction.min_saving=0.1"]).exits(0);
    scene.assert_requests(1);
}

#[test]
fn sends_new_request_only_for_newer_turns() {
    let scene = Scene::new(Model::with_answer("They read files."));
    scene.summarize("0", "4", &[]).exits(0);
    scene.assert_requests(1);
    let output = scene.summarize("0", "4", &[]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: nothing to append
      -  summarize [version]  declined: turns 0-4 are summarized already: overlay 1 is a summary of turns 0-4; remove it with `--reset=1`
      JP sends about 775 tokens, as before (estimated)
    ");
    scene.summarize("2", "4", &[]).exits(0).reports("summarized already");
    scene.summarize("4", "4", &[]).exits(0).reports("turn 4 is summarized already");
    scene.assert_requests(1);
    assert_eq!(scene.transcript.overlays().len(), 1);
    scene.summarize("0", "6", &[]).exits(0);
    scene.assert_requests(2);
    assert_eq!(scene.transcript.overlays().len(), 2);
}

#[test]
fn warns_about_summary_inside_older_summary() {
    let scene = Scene::new(Model::with_answer("They read files."));
    scene.summarize("0", "6", &[]).exits(0);
    let output = scene.summarize("2", "4", &[]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: 1 overlay appended
      2  summarize [version]  turns 2-4: summary
         summarize [version]: info: the model's window is unknown, so the range was sent in one part, with at most 16000 characters of each output
         summarize [version]: info: appended 1 path that the summary lacked
      note: the summary of turns 2-4 is inside the summary of turns 0-6: the view shows the older summary for the rest of its range; `--overlap union` writes one summary for both
      note: the view did not shrink; `--reset=N` removes overlay N
      JP sends about 607 tokens instead of 489 (+24 %, estimated)
    ");
    scene.assert_requests(2);
    assert_eq!(scene.transcript.overlays()[1]["to_turn"], 4);
    scene.summarize("2", "4", &[]).exits(0).reports("turns 2-4 are summarized already: overlay 2 is");
    scene.assert_requests(2);
}

#[test]
fn overlap_union_extends_to_older_summary() {
    let scene = Scene::new(Model::with_answer("They read files."));
    scene.summarize("0", "6", &[]).exits(0);
    scene.summarize("2", "4", &["--overlap=union"]).exits(0);
    scene.assert_requests(2);
    let overlay = &scene.transcript.overlays()[1];
    assert_eq!((&overlay["from_turn"], &overlay["to_turn"]), (&json!(0), &json!(6)));
}

#[test]
fn auto_does_not_repeat_rejected_request() {
    let scene = Scene::new(Model::with_answer(&"word ".repeat(4_000)));
    scene.auto(&[]).exits(0).reports("characters, and must be shorter than its events");
    scene.assert_requests(1);
    let second_run = scene.auto(&[]).exits(0);
    second_run.reports(
        "no model was asked, because an earlier answer to this request was rejected: the summary has ",
    );
    scene.auto(&["--set=conversation.compaction.auto.on_failure=fail"]).exits(18);
    scene.assert_requests(1);
    scene.transcript.assert_untouched();
    scene.run(&["conversation", "--profile=heavy"]).exits(17);
    scene.assert_requests(2);
    // A different range is a new request.
    scene.auto(&["--set=conversation.compaction.keep_last=1"]).exits(0);
    scene.assert_requests(3);
}

#[test]
fn auto_does_not_repeat_request_with_small_saving() {
    let scene =
        Scene::with_conversation(Model::with_answer(&"word ".repeat(30)), &Conversation::with_turns(10));
    let min_saving = "--set=conversation.compaction.min_saving=0.9";
    let keep_last = "--set=conversation.compaction.keep_last=1";
    let declined = scene.auto(&[min_saving, keep_last]).exits(0);
    declined.reports("it would save ").reports("the text of the declined summary:\n     | word word ");
    scene.assert_requests(1);
    scene.auto(&[min_saving, keep_last]).exits(0).reports("no model was asked again: it would save ");
    scene.assert_requests(1);
    scene.transcript.assert_untouched();
    scene.auto(&["--set=conversation.compaction.min_saving=0.01", keep_last]).exits(0);
    scene.assert_requests(2);
    assert_eq!(scene.transcript.overlays().len(), 1);
}

/// Returns a scene whose view is much smaller than the raw events.
fn stripped_scene(answer: &str) -> Scene {
    let scene = Scene::with_conversation(Model::with_answer(answer), &Conversation::bulky(8));
    scene.run(&["conversation", "--strategy=strip-tools", "--keep-last=0"]).exits(0);
    scene
}

#[test]
fn auto_does_not_repeat_request_that_makes_the_view_larger() {
    let scene = stripped_scene(&"word ".repeat(1200));
    let declined = scene.auto(&[]).exits(0);
    declined
        .reports("declined: it would make the view larger by ")
        .reports("; only a command without `auto` may do that (`jp-compact TRANSCRIPT --profile NAME`)");
    scene.auto(&[]).exits(0).reports("no model was asked again: it would make the view larger by ");
    scene.assert_requests(1);
    assert_eq!(scene.transcript.overlays().len(), 1);
}

#[test]
fn small_saving_counts_only_for_the_same_view() {
    let scene = stripped_scene(&"word ".repeat(400));
    let min_saving = "--set=conversation.compaction.min_saving=0.3";
    scene.auto(&[min_saving]).exits(0).reports("declined: it would save ");
    scene.assert_requests(1);
    scene.world.run(&["conversation", "--reset"]).exits(0);
    scene.auto(&[min_saving]).exits(0).reports("1 overlay appended");
    scene.assert_requests(2);
}

/// Returns a script that asks a model, and then runs `with_answer`.
fn asking_script(with_answer: &str) -> String {
    let needs = json!({"type": "needs", "id": "c1", "requests": {"s0": {
        "kind": "llm.complete", "messages": [{"role": "user", "content": "Sum up."}], "max_tokens": 50,
    }}});
    let run = format!(
        "read -r header\ncase \"$header\" in\n*'\"answers\":{{}}'*) echo '{needs}' ;;\n*) {with_answer} ;;\nesac"
    );
    plugin_script("asks", &json!({"needs": ["llm"], "produces": ["summary"]}), &run)
}

#[test]
fn auto_does_not_repeat_request_whose_answer_is_not_used() {
    let scene = Scene::new(Model::with_answer("They read files."));
    scene.world.write_script("plugins/asks/asks", &asking_script(DECLINE));
    let manifest = "manifest = 1\nname = \"asks\"\nversion = \"1.0.0\"\ndescription = \"a test\"\nprotocols = [1]\n\
                    [run]\ncommand = [\"./asks\"]\n[permissions]\nllm = true\n";
    scene.world.write_file("plugins/asks/plugin.toml", manifest.as_bytes());
    let asks = [
        "--set=conversation.compaction.profiles.asks.strategies=[\"asks\"]",
        "--profile=asks",
        "--trust-dir=plugins",
        "--sandbox=contained",
    ];
    let threshold = "--set=conversation.compaction.auto.token_threshold=1";
    let auto = || scene.run(&[&["auto", "conversation", threshold], &asks[..]].concat()).exits(0);
    auto().reports("declined: not today");
    auto().reports("declined: no model was asked again: not today");
    scene.assert_requests(1);
    scene.transcript.assert_untouched();
}

#[test]
fn small_saving_declines_the_other_strategies_in_each_run() {
    let scene = Scene::with_conversation(Model::with_answer(&"word ".repeat(1500)), &Conversation::bulky(8));
    let both = "--set=conversation.compaction.profiles.heavy.strategies=[\"strip-tools\", \"summarize\"]";
    let min_saving = "--set=conversation.compaction.min_saving=0.4";
    for _ in 0..2 {
        scene.auto(&[both, min_saving]).exits(0).reports("strip-tools [version]  declined: it would save ");
        scene.assert_requests(1);
        scene.transcript.assert_untouched();
    }
}
