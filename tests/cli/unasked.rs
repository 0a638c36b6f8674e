//! What a model costs: when one is asked, when not, and what becomes of a conversation whose summary failed.

use serde_json::json;
use wiremock::ResponseTemplate;

use crate::support::{Conversation, Model, Ran, Transcript, World};

struct Scene {
    world: World,
    transcript: Transcript,
    model: Model,
}

impl Scene {
    fn new(model: Model) -> Self {
        Self::with(model, &Conversation::of(10))
    }

    fn with(model: Model, conversation: &Conversation) -> Self {
        let world = World::new();
        let transcript = world.conversation("conversation", conversation);
        Self { world, transcript, model }
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.world.command(&[arguments, &["--model", "openai/g"]].concat());
        self.world.finish(self.model.of(&mut command))
    }

    /// What is always due, by a summary.
    #[track_caller]
    fn auto(&self, more: &[&str]) -> Ran {
        let due = "--set=conversation.compaction.auto.token_threshold=1";
        self.run(&[&["auto", "conversation", "--profile=heavy", due], more].concat())
    }

    /// A summary of these turns, by hand.
    #[track_caller]
    fn summarize(&self, from: &str, to: &str, more: &[&str]) -> Ran {
        self.run(&[&["conversation", "--profile=heavy", "--from", from, "--to", to], more].concat())
    }

    #[track_caller]
    fn asked(&self, times: usize) {
        assert_eq!(self.model.asked().len(), times);
    }
}

#[test]
fn ten_runs_ask_a_model_once() {
    let scene = Scene::new(Model::saying("They read files."));
    scene.auto(&[]).exits(0);
    scene.asked(1);
    let once = scene.transcript.now();
    assert_eq!(scene.transcript.overlays().len(), 1);
    for least in ["0", "0.01", "0", "0.01", "0", "0.01", "0", "0.01", "0"] {
        scene.auto(&[&format!("--set=conversation.compaction.min_saving={least}")]).exits(0);
    }
    assert!(scene.transcript.now() == once);
    scene.asked(1);
}

#[test]
fn a_summary_that_failed_leaves_the_conversation_as_it_was() {
    let scene = Scene::new(Model::answering(ResponseTemplate::new(401)));
    let ran = scene.auto(&[]).exits(0);
    insta::assert_snapshot!(ran.stderr, @r"
    warning: conversation/events.json: nothing was compacted: strategy `summarize` got no answer from a model

    Caused by:
      openai/g: the provider answered with HTTP 401: it does not take the key (llm_unavailable)

    hint: nothing was appended
    ");
    let line = scene.auto(&["--json"]).exits(0).line();
    assert!(line["warning"].as_str().unwrap().starts_with("strategy `summarize` got no answer from a model"));
    assert_eq!((&line["due"], &line["report"]), (&json!(true), &json!(null)));
    scene.transcript.assert_untouched();
}

#[test]
fn a_summary_that_failed_is_a_failure_where_that_is_asked_for() {
    let fail = "--set=conversation.compaction.auto.on_failure=fail";
    for response in [ResponseTemplate::new(401), Model::says("half of", "length")] {
        let scene = Scene::new(Model::answering(response));
        scene.auto(&[fail]).exits(18);
        let line = scene.auto(&[fail, "--json"]).exits(18).line();
        assert_eq!(line["error"]["code"], 18);
        scene.transcript.assert_untouched();
    }
}

#[test]
fn what_always_runs_fails_as_gently() {
    let scene = Scene::new(Model::answering(ResponseTemplate::new(401)));
    let always = "--set=conversation.compaction.auto.always=[\"heavy\"]";
    let ran = scene.auto(&[always]);
    ran.exits(0).says("warning: conversation/events.json: profile `heavy` did nothing: strategy `summarize`");
    scene.transcript.assert_untouched();
}

#[test]
fn a_dry_run_of_auto_asks_nobody() {
    let scene = Scene::new(Model::saying("They read files."));
    scene.auto(&["--dry-run"]).exits(0).says("would summarize turns 0-6 using openai/g");
    scene.asked(0);
    scene.transcript.assert_untouched();
}

#[test]
fn a_model_is_not_asked_for_what_could_save_too_little() {
    let scene = Scene::new(Model::saying("They read files."));
    let ran = scene.summarize("0", "1", &["--set=conversation.compaction.min_saving=0.3"]).exits(0);
    insta::assert_snapshot!(ran.stderr, @r"
    conversation/events.json: nothing to append
      -  summarize [version]  declined: no model was asked: a summary of turns 0-1 could save 70 of the view's 347 tokens at most, and 30 % is the least (min_saving)
      JP sends a model about 347 tokens, was 347 (unchanged, chars/4)
    ");
    scene.asked(0);
    scene.transcript.assert_untouched();
    scene.summarize("0", "1", &["--set=conversation.compaction.min_saving=0.1"]).exits(0);
    scene.asked(1);
}

#[test]
fn a_model_is_asked_again_only_for_newer_turns() {
    let scene = Scene::new(Model::saying("They read files."));
    scene.summarize("0", "4", &[]).exits(0);
    scene.asked(1);
    let ran = scene.summarize("0", "4", &[]).exits(0);
    insta::assert_snapshot!(ran.stderr, @r"
    conversation/events.json: nothing to append
      -  summarize [version]  declined: turns 0-4 are summarised already: overlay 1 is a summary of turns 0-4, and nothing asked for is newer; `--reset=1` removes it
      JP sends a model about 186 tokens, was 186 (unchanged, chars/4)
    ");
    scene.summarize("2", "4", &[]).exits(0).says("summarised already");
    scene.summarize("4", "4", &[]).exits(0).says("turn 4 is summarised already");
    scene.asked(1);
    assert_eq!(scene.transcript.overlays().len(), 1);
    scene.summarize("0", "6", &[]).exits(0);
    scene.asked(2);
    assert_eq!(scene.transcript.overlays().len(), 2);
}

#[test]
fn a_part_of_an_older_summary_is_made_and_warned_of() {
    let scene = Scene::new(Model::saying("They read files."));
    scene.summarize("0", "6", &[]).exits(0);
    let ran = scene.summarize("2", "4", &[]).exits(0);
    insta::assert_snapshot!(ran.stderr, @r"
    conversation/events.json: 1 overlay appended
      2  summarize [version]  turns 2-4: summary
         summarize [version]: info: how much the model reads is not known: it was sent the range in one part
      note: the summary of turns 2-4 lies inside that of turns 0-6: the view shows the older one around it; `--overlap union` writes one summary of both
      note: the view did not become smaller; `--reset=N` removes overlay N again
      JP sends a model about 141 tokens, was 117 (+21 %, chars/4)
    ");
    scene.asked(2);
    assert_eq!(scene.transcript.overlays()[1]["to_turn"], 4);
    scene.summarize("2", "4", &[]).exits(0).says("turns 2-4 are summarised already: overlay 2 is");
    scene.asked(2);
}

#[test]
fn a_part_of_an_older_summary_becomes_one_with_it_where_that_is_asked_for() {
    let scene = Scene::new(Model::saying("They read files."));
    scene.summarize("0", "6", &[]).exits(0);
    scene.summarize("2", "4", &["--overlap=union"]).exits(0);
    scene.asked(2);
    let overlay = &scene.transcript.overlays()[1];
    assert_eq!((&overlay["from_turn"], &overlay["to_turn"]), (&json!(0), &json!(6)));
}

#[test]
fn what_was_refused_is_paid_for_once_and_again_only_by_whoever_asks() {
    let scene = Scene::new(Model::saying(&"word ".repeat(4_000)));
    scene.auto(&[]).exits(0).says("characters for events of ");
    scene.asked(1);
    let again = scene.auto(&[]).exits(0);
    again.says("no model was asked again for what was refused before: a summary of ");
    scene.auto(&["--set=conversation.compaction.auto.on_failure=fail"]).exits(18);
    scene.asked(1);
    scene.transcript.assert_untouched();
    scene.run(&["conversation", "--profile=heavy"]).exits(17);
    scene.asked(2);
    // Other turns are another question.
    scene.auto(&["--set=conversation.compaction.keep_last=1"]).exits(0);
    scene.asked(3);
}

#[test]
fn what_saved_too_little_is_paid_for_once() {
    let scene = Scene::with(Model::saying(&"word ".repeat(30)), &Conversation::of(10));
    let least = "--set=conversation.compaction.min_saving=0.85";
    let keep = "--set=conversation.compaction.keep_last=1";
    scene.auto(&[least, keep]).exits(0).says("it would save ");
    scene.asked(1);
    scene.auto(&[least, keep]).exits(0).says("no model was asked again: it would save ");
    scene.asked(1);
    scene.transcript.assert_untouched();
    scene.auto(&["--set=conversation.compaction.min_saving=0.01", keep]).exits(0);
    scene.asked(2);
    assert_eq!(scene.transcript.overlays().len(), 1);
}
