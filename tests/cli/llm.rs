//! Strategies that need a model, and the model: a server on loopback that speaks as OpenAI's does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{Conversation, Ran, Transcript, World, described};

pub(crate) const KEY: &str = "sk-sekret-0123456789";
/// Asks a model for a summary of all turns, and reports an error when none answers.
const ASKS: &str = r#"read -r header
echo "$header" >> SEEN
case "$header" in
*'"answers":{}'*) echo '{"type":"needs","id":"c1","requests":{"s0":{"kind":"llm.complete","messages":[{"role":"user","content":"sum up"}],"max_tokens":50}}}' ;;
*'"err":'*) UNANSWERED ;;
*) text=$(printf %s "$header" | sed 's/.*"text":"\([^"]*\)".*/\1/')
   echo "{\"type\":\"result\",\"id\":\"c1\",\"compactions\":[{\"from_turn\":0,\"to_turn\":4,\"summary\":{\"summary\":\"$text\"}}]}" ;;
esac"#;
pub(crate) const REPORTS: &str =
    r#"echo '{"type":"error","id":"c1","code":"no_summary","message":"no summary"}'"#;
const GIVES_UP: &str = r#"echo '{"type":"decline","id":"c1","reason":"no summary"}'"#;

/// A conversation, a strategy, and a model.
struct Scene {
    world: World,
    transcript: Transcript,
    server: MockServer,
    runtime: tokio::runtime::Runtime,
}

/// A conversation, and a strategy that was granted a model and asks it for a summary.
pub(crate) fn asking(unanswered: &str) -> (World, Transcript) {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(5));
    let more = json!({"needs": ["llm"], "produces": ["summary"], "options_schema": {
        "type": "object", "properties": {"model": {"type": "string"}}, "additionalProperties": false,
    }});
    let seen = world.path("seen");
    let run = ASKS.replace("UNANSWERED", unanswered).replace("SEEN", seen.to_str().unwrap());
    world.script("plugins/asks/asks", &described("asks", &more, &run));
    grant(&world, "llm = true");
    (world, transcript)
}

fn grant(world: &World, permissions: &str) {
    let manifest = format!(
        "manifest = 1\nname = \"asks\"\nversion = \"1.0.0\"\ndescription = \"a test\"\nprotocols = [1]\n\
         [run]\ncommand = [\"./asks\"]\n[permissions]\n{permissions}\n"
    );
    world.file("plugins/asks/plugin.toml", manifest.as_bytes());
}

/// A run of that strategy, not yet started.
pub(crate) fn command(world: &World, spec: &str, more: &[&str]) -> Command {
    let all = ["conversation", "--strategy", spec, "--trust-dir", "plugins", "--sandbox=contained"];
    let fixed = ["--keep-last", "0", "--now", "2026-11-21T07:40:00Z"];
    world.command(&[&all[..], &fixed, more].concat())
}

impl Scene {
    fn new() -> Self {
        Self::whose_strategy(REPORTS)
    }

    fn whose_strategy(unanswered: &str) -> Self {
        let (world, transcript) = asking(unanswered);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(MockServer::start());
        Self { world, transcript, server, runtime }
    }

    fn answers(&self, response: ResponseTemplate) {
        self.runtime.block_on(Mock::given(any()).respond_with(response).mount(&self.server));
    }

    fn asked(&self) -> Vec<Value> {
        let requests = self.runtime.block_on(self.server.received_requests()).unwrap();
        requests.iter().map(|request| request.body_json().unwrap()).collect()
    }

    /// Runs the strategy, with the address and the key of the model in the environment.
    #[track_caller]
    fn run(&self, more: &[&str]) -> Ran {
        let ran = self.run_unset(&[&["--model", "openai/g"], more].concat(), &[]);
        assert!(!format!("{ran:?}").contains("sekret"), "{ran:?}");
        ran
    }

    #[track_caller]
    fn run_unset(&self, more: &[&str], unset: &[&str]) -> Ran {
        self.run_spec("asks", more, unset)
    }

    #[track_caller]
    fn run_spec(&self, spec: &str, more: &[&str], unset: &[&str]) -> Ran {
        let mut command = command(&self.world, spec, more);
        command.env("OPENAI_BASE_URL", self.server.uri()).env("OPENAI_API_KEY", KEY);
        for name in unset {
            command.env_remove(name);
        }
        self.world.finish(&mut command)
    }

    /// The headers that the strategy was sent.
    fn seen(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.world.path("seen")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(crate) fn says(text: &str, finish: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "g-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35},
    }))
}

#[test]
fn a_model_writes_a_summary() {
    let scene = Scene::new();
    scene.answers(says("They talked.", "stop"));
    scene.run(&[]).exits(0);
    assert_eq!(scene.transcript.overlays()[0]["summary"]["summary"], "They talked.");
    assert_eq!(scene.asked()[0]["messages"], json!([{"role": "user", "content": "sum up"}]));
}

#[test]
fn a_models_summary_that_is_longer_than_its_turns_is_refused() {
    let scene = Scene::new();
    scene.answers(says(&"word ".repeat(1_000), "stop"));
    scene.run(&[]).exits(17).says("characters for events of ");
    scene.transcript.assert_untouched();
}

#[test]
fn a_strategy_is_told_of_the_model_that_it_gets() {
    let scene = Scene::new();
    scene.answers(says("They talked.", "stop"));
    scene.run_spec("asks:model=openai/gpt-5", &["--model", "openai/other"], &[]).exits(0);
    scene.world.run(&["conversation", "--reset"]).exits(0);
    scene.run_spec("asks", &["--model", "openai/other"], &[]).exits(0);
    let told: Vec<_> = scene.seen().iter().map(|header| header["context"]["llm"].clone()).collect();
    let known = json!({"model": "openai/gpt-5", "context_window": 400_000});
    let other = json!({"model": "openai/other"});
    assert_eq!(told, [known.clone(), known, other.clone(), other]);
    let asked: Vec<_> = scene.asked().iter().map(|body| body["model"].clone()).collect();
    assert_eq!(asked, ["gpt-5", "other"]);
}

#[test]
fn a_summary_that_was_cut_off_or_refused_is_refused() {
    for (finish, words) in [("length", "cut off"), ("content_filter", "stopped for `content_filter`")] {
        for unanswered in [REPORTS, GIVES_UP] {
            let scene = Scene::whose_strategy(unanswered);
            scene.answers(says("They tal", finish));
            scene.run(&[]).exits(17).says(words).says("it said: no summary");
            scene.transcript.assert_untouched();
        }
    }
}

#[test]
fn without_an_answer_nothing_is_appended() {
    let scene = Scene::new();
    scene.answers(ResponseTemplate::new(401).set_body_json(json!({"error": {"message": KEY}})));
    let ran = scene.run(&["-vvv"]).exits(18);
    assert!(ran.stderr.contains("it does not take the key (llm_unavailable)"), "{}", ran.stderr);
    scene.transcript.assert_untouched();
    let ran = scene.run(&[]).exits(18);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `asks` got no answer from a model

    Caused by:
      openai/g: the provider answered with HTTP 401: it does not take the key (llm_unavailable); it said: no summary

    hint: nothing was appended
    ");
}

#[test]
fn a_strategy_that_goes_on_without_an_answer_is_heard() {
    let result = r#"echo '{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":4,"summary":{"summary":"by hand"}}]}'"#;
    let scene = Scene::whose_strategy(result);
    scene.answers(ResponseTemplate::new(400));
    scene.run(&[]).exits(0);
    assert_eq!(scene.transcript.overlays()[0]["summary"]["summary"], "by hand");
}

#[test]
fn a_model_that_is_busy_is_asked_again() {
    let scene = Scene::new();
    let busy = ResponseTemplate::new(429).insert_header("retry-after", "0");
    let mock = Mock::given(any()).respond_with(busy).up_to_n_times(2);
    scene.runtime.block_on(mock.mount(&scene.server));
    scene.answers(says("They talked.", "stop"));
    scene.run(&[]).exits(0);
    assert_eq!(scene.asked().len(), 3);
}

#[test]
fn no_model_is_asked_that_nobody_names() {
    let scene = Scene::new();
    let ran = scene.run_unset(&[], &[]).exits(18);
    insta::assert_snapshot!(ran.stderr, @r#"
    error: strategy `asks` needs a model, and none is configured

    Caused by:
      nobody names one: not its options, the command line, the settings or the conversation

    hint: give `--model PROVIDER/NAME`, or add these lines to the configuration
      [llm]
      model = "anthropic/claude-haiku-4-5"
      providers.anthropic.api_key_env = "ANTHROPIC_API_KEY"
    "#);
    let ran = scene.run_unset(&["--model", "openai/g"], &["OPENAI_BASE_URL", "OPENAI_API_KEY"]).exits(18);
    assert!(ran.stderr.contains("there is no key for `openai`: set OPENAI_API_KEY"), "{}", ran.stderr);
    scene.run_unset(&["--model", "gpt-5"], &[]).exits(2).says("expected a model as `provider/name`");
    assert_eq!(scene.asked(), Vec::<Value>::new());
    scene.transcript.assert_untouched();
}

#[test]
fn a_strategy_gets_no_model_that_it_was_not_granted() {
    let scene = Scene::new();
    grant(&scene.world, "llm = false");
    scene.run(&[]).exits(11).says("it needs `llm`, which was not granted");
    assert_eq!(scene.asked(), Vec::<Value>::new());
}

#[test]
fn a_dry_run_asks_nobody() {
    let scene = Scene::new();
    let ran = scene.run(&["--dry-run"]).exits(0);
    assert!(ran.stderr.contains("1.0.0  would summarize turns 0-4 using openai/g\n"), "{}", ran.stderr);
    assert_eq!(scene.asked(), Vec::<Value>::new());
    scene.transcript.assert_untouched();
}

#[test]
fn a_budget_is_kept() {
    let scene = Scene::new();
    scene.answers(says("They talked.", "stop"));
    let ran = scene.run(&["--llm-budget-tokens", "51"]).exits(18);
    assert!(ran.stderr.contains("are left of the budget of 51 (budget_exhausted)"), "{}", ran.stderr);
    assert_eq!(scene.asked(), Vec::<Value>::new());
    scene.transcript.assert_untouched();
    scene.run(&["--llm-budget-tokens", "52"]).exits(0);
}

/// A strategy that asks for this, and answers nothing.
fn needs(world: &World, requests: &Value) {
    let needs = json!({"type": "needs", "id": "c1", "requests": requests});
    let run = format!(
        "read -r header\ncase \"$header\" in\n*'\"answers\":{{}}'*) cat <<'END'\n{needs}\nEND\n;;\n*) {GIVES_UP} ;;\nesac"
    );
    let more = json!({"needs": ["llm"], "produces": ["summary"]});
    world.script("plugins/asks/asks", &described("asks", &more, &run));
}

fn complete(text: &str, max_tokens: u64) -> Value {
    json!({"kind": "llm.complete", "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens})
}

/// What a run is refused for before anything is sent.
#[track_caller]
fn over_budget(requests: &Value, more: &[&str], says: &str) {
    let scene = Scene::new();
    scene.answers(says_nothing());
    needs(&scene.world, requests);
    let ran = scene.run(more).exits(18).says(says).says("(budget_exhausted)");
    assert_eq!(scene.asked(), Vec::<Value>::new());
    ran.says("hint: nothing was appended; `--llm-budget-tokens N` and `--llm-budget-requests N` allow more");
}

fn says_nothing() -> ResponseTemplate {
    says("Nothing.", "stop")
}

#[test]
fn a_run_has_a_ceiling_that_nobody_had_to_set() {
    let large = json!({"a": complete("sum up", 2_000_000)});
    over_budget(
        &large,
        &[],
        "about 2000002 tokens are needed, and 2000000 are left of the budget of 2000000",
    );
    // What is asked in one round is counted together, before the first of it is sent.
    let halves = json!({"a": complete("sum up", 1_000_000), "b": complete("sum up", 1_000_000)});
    over_budget(&halves, &[], "about 2000004 tokens are needed");
    let two = json!({"a": complete("one", 1), "b": complete("two", 1)});
    over_budget(
        &two,
        &["--llm-budget-requests", "1"],
        "2 requests are needed, and 1 are left of the budget of 1",
    );
}

#[test]
fn the_ceiling_is_configured_by_the_user_and_not_by_a_workspace() {
    let scene = Scene::new();
    scene.answers(says_nothing());
    needs(&scene.world, &json!({"a": complete("sum up", 2_000_000)}));
    let more = b"[llm]\nbudget_tokens = 3000000\n";
    scene.world.file(".jp-compact.toml", more);
    scene.run(&[]).exits(2).says("`llm.budget_tokens` may not stand in a workspace's file");
    fs::rename(scene.world.path(".jp-compact.toml"), scene.world.path("mine.toml")).unwrap();
    scene.run(&["--config", "mine.toml"]).exits(0).says("declined: no summary");
    assert_eq!(scene.asked().len(), 1);
    scene.run(&["--set", "llm.budget_requests=0"]).exits(18).says("budget of 0");
    assert_eq!(scene.asked().len(), 1);
}

#[test]
fn a_name_that_leads_to_another_address_is_not_the_name_of_a_model() {
    const EVIL: &str = "gemini/../../../evil";
    let scene = Scene::new();
    scene.answers(says_nothing());
    let mut command = command(&scene.world, &format!("asks:model={EVIL}"), &[]);
    command.env("GOOGLE_GEMINI_BASE_URL", scene.server.uri()).env("GEMINI_API_KEY", KEY);
    scene.world.finish(&mut command).exits(2).says(EVIL);
    for more in [&["--model", EVIL][..], &["--set", &format!("llm.model={EVIL}")]] {
        let mut command = super::llm::command(&scene.world, "asks", more);
        command.env("GOOGLE_GEMINI_BASE_URL", scene.server.uri()).env("GEMINI_API_KEY", KEY);
        scene.world.finish(&mut command).exits(2).says("expected a model as `provider/name`");
    }
    let delta = json!({"delta": {"assistant": {"model": {"id": EVIL}}}});
    scene.world.conversation("conversation", &Conversation::of(5).event("config_delta", delta));
    let mut command = super::llm::command(&scene.world, "asks", &[]);
    command.env("GOOGLE_GEMINI_BASE_URL", scene.server.uri()).env("GEMINI_API_KEY", KEY);
    scene.world.finish(&mut command).exits(18).says("none is configured");
    assert_eq!(scene.asked(), Vec::<Value>::new());
}

#[test]
fn what_was_recorded_is_replayed_to_the_byte() {
    let scene = Scene::new();
    scene.answers(says("They talked.", "stop"));
    let before = scene.transcript.now();
    scene.run(&["--llm-record", "answers.json"]).exits(0);
    let recorded = scene.transcript.now();
    let file = scene.world.path("answers.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&scene.transcript.path, &before).unwrap();
    // Nobody is there any more, and nobody's name or key is needed.
    let gone = ["OPENAI_BASE_URL", "OPENAI_API_KEY"];
    scene.run_unset(&["--llm-replay", "answers.json"], &gone).exits(0);
    assert!(scene.transcript.now() == recorded);
    assert_eq!(scene.asked().len(), 1);
}

#[test]
fn what_was_not_recorded_is_not_answered() {
    let scene = Scene::new();
    scene.world.file("answers.json", b"{}");
    let ran = scene.run(&["--llm-replay", "answers.json"]).exits(18);
    assert!(ran.stderr.contains("no answer was recorded for the request "), "{}", ran.stderr);
    scene.run(&["--llm-replay", "nowhere.json"]).exits(2).says("there is no such file");
    scene.run(&["--llm-record", "conversation/events.json"]).exits(2).says("it holds no answers");
    scene.run(&["--llm-replay", "answers.json", "--llm-record", "answers.json"]).exits(2);
    assert_eq!(scene.asked(), Vec::<Value>::new());
    scene.transcript.assert_untouched();
}
