//! Strategies that need a model. The model is a server on loopback that implements OpenAI's chat API.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{CommandOutput, Conversation, Transcript, World, plugin_script};

pub(crate) const KEY: &str = "sk-sekret-0123456789";
/// Shell code that requests a summary of all turns from a model. `ON_FAILURE` runs if the request fails.
const SUMMARIZE: &str = r#"read -r header
echo "$header" >> SEEN
case "$header" in
*'"answers":{}'*) echo '{"type":"needs","id":"c1","requests":{"s0":{"kind":"llm.complete","messages":[{"role":"user","content":"sum up"}],"max_tokens":50}}}' ;;
*'"err":'*) ON_FAILURE ;;
*) text=$(printf %s "$header" | sed 's/.*"text":"\([^"]*\)".*/\1/')
   echo "{\"type\":\"result\",\"id\":\"c1\",\"compactions\":[{\"from_turn\":0,\"to_turn\":4,\"summary\":{\"summary\":\"$text\"}}]}" ;;
esac"#;
pub(crate) const REPORT_ERROR: &str =
    r#"echo '{"type":"error","id":"c1","code":"no_summary","message":"no summary"}'"#;
const DECLINE_WITHOUT_SUMMARY: &str = r#"echo '{"type":"decline","id":"c1","reason":"no summary"}'"#;

/// A conversation, a strategy and a model.
struct Scene {
    world: World,
    transcript: Transcript,
    server: MockServer,
    runtime: tokio::runtime::Runtime,
}

/// Returns a conversation, and writes a strategy that may send requests to a model. It runs `on_failure` if its request
/// fails.
pub(crate) fn summary_strategy(on_failure: &str) -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    let members = json!({"needs": ["llm"], "produces": ["summary"], "options_schema": {
        "type": "object", "properties": {"model": {"type": "string"}}, "additionalProperties": false,
    }});
    let headers_path = world.path("seen");
    let run = SUMMARIZE.replace("ON_FAILURE", on_failure).replace("SEEN", headers_path.to_str().unwrap());
    world.write_script("plugins/asks/asks", &plugin_script("asks", &members, &run));
    grant(&world, "llm = true");
    (world, transcript)
}

fn grant(world: &World, permissions: &str) {
    let manifest = format!(
        "manifest = 1\nname = \"asks\"\nversion = \"1.0.0\"\ndescription = \"a test\"\nprotocols = [1]\n\
         [run]\ncommand = [\"./asks\"]\n[permissions]\n{permissions}\n"
    );
    world.write_file("plugins/asks/plugin.toml", manifest.as_bytes());
}

/// Returns a command that runs this strategy on the conversation of `summary_strategy`.
pub(crate) fn strategy_command(world: &World, spec: &str, extra: &[&str]) -> Command {
    let options = ["conversation", "--strategy", spec, "--trust-dir", "plugins", "--sandbox=contained"];
    let bounds = ["--keep-last", "0", "--now", "2026-11-21T07:40:00Z"];
    world.command(&[&options[..], &bounds, extra].concat())
}

impl Scene {
    fn new() -> Self {
        Self::with_failure_handler(REPORT_ERROR)
    }

    fn with_failure_handler(on_failure: &str) -> Self {
        let (world, transcript) = summary_strategy(on_failure);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(MockServer::start());
        Self { world, transcript, server, runtime }
    }

    /// Sends this response to every request.
    fn respond_with(&self, response: ResponseTemplate) {
        self.runtime.block_on(Mock::given(method("POST")).respond_with(response).mount(&self.server));
    }

    /// Returns the prompts so far, without the requests that only ask about a model.
    fn requests(&self) -> Vec<Value> {
        let requests = self.runtime.block_on(self.server.received_requests()).unwrap();
        let prompts = requests.iter().filter(|request| request.method == "POST");
        prompts.map(|request| request.body_json().unwrap()).collect()
    }

    /// Runs the strategy. The environment of the host has the address and the key of the model.
    #[track_caller]
    fn run(&self, extra: &[&str]) -> CommandOutput {
        let output = self.run_unset(&[&["--model", "openai/g"], extra].concat(), &[]);
        assert!(!format!("{output:?}").contains("sekret"), "{output:?}");
        output
    }

    /// Like `run`, but without a default model and without these environment variables.
    #[track_caller]
    fn run_unset(&self, extra: &[&str], unset: &[&str]) -> CommandOutput {
        self.run_spec("asks", extra, unset)
    }

    #[track_caller]
    fn run_spec(&self, spec: &str, extra: &[&str], unset: &[&str]) -> CommandOutput {
        let mut command = strategy_command(&self.world, spec, extra);
        command.env("OPENAI_BASE_URL", self.server.uri()).env("OPENAI_API_KEY", KEY);
        for name in unset {
            command.env_remove(name);
        }
        self.world.finish(&mut command)
    }

    /// Returns the headers that the strategy received.
    fn headers(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.world.path("seen")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Returns a chat completion with this text and `finish_reason`.
pub(crate) fn completion(text: &str, finish_reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "g-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35},
    }))
}

/// Such a daemon is the agent of a keyring, which later commands also need.
#[test]
fn daemon_of_the_key_command_is_not_killed_as_an_orphan() {
    let scene = Scene::new();
    scene.respond_with(completion("S", "stop"));
    let pid_file = scene.world.path("pid");
    let path = pid_file.to_str().unwrap();
    let script = format!(
        "#!/bin/sh\n\
         setsid -f sh -c 'echo $$ > {path}; exec sleep 300' < /dev/null > /dev/null 2>&1\n\
         while [ ! -s {path} ]; do :; done\n\
         echo {KEY}\n"
    );
    let script = scene.world.write_script("key", &script);
    let config = format!("[llm.providers.openai]\napi_key_command = [{script:?}]\n");
    scene.world.write_file("../home/.config/jp-compact/config.toml", config.as_bytes());
    scene.run_unset(&["--model", "openai/g"], &["OPENAI_API_KEY"]).exits(0);
    let pid = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn appends_summary_written_by_model() {
    let scene = Scene::new();
    scene.respond_with(completion("They talked.", "stop"));
    scene.run(&[]).exits(0);
    assert_eq!(scene.transcript.overlays()[0]["summary"]["summary"], "They talked.");
    assert_eq!(scene.requests()[0]["messages"], json!([{"role": "user", "content": "sum up"}]));
}

#[test]
fn rejects_summary_longer_than_its_turns() {
    let scene = Scene::new();
    scene.respond_with(completion(&"word ".repeat(1_000), "stop"));
    scene.run(&[]).exits(17).reports("characters, and must be shorter than its events");
    scene.transcript.assert_untouched();
}

#[test]
fn strategy_receives_model_and_context_window() {
    let scene = Scene::new();
    scene.respond_with(completion("They talked.", "stop"));
    scene.run_spec("asks:model=openai/gpt-5", &["--model", "openai/other"], &[]).exits(0);
    scene.world.run(&["conversation", "--reset"]).exits(0);
    scene.run_spec("asks", &["--model", "openai/other"], &[]).exits(0);
    let models: Vec<_> = scene.headers().iter().map(|header| header["context"]["llm"].clone()).collect();
    let gpt_5 = json!({"model": "openai/gpt-5", "context_window": 400_000});
    let other = json!({"model": "openai/other"});
    assert_eq!(models, [gpt_5.clone(), gpt_5, other.clone(), other]);
    let requested: Vec<_> = scene.requests().iter().map(|body| body["model"].clone()).collect();
    assert_eq!(requested, ["gpt-5", "other"]);
}

#[test]
fn rejects_truncated_or_filtered_answer() {
    for (finish_reason, message) in
        [("length", "cut off"), ("content_filter", "stopped with the reason `content_filter`")]
    {
        for on_failure in [REPORT_ERROR, DECLINE_WITHOUT_SUMMARY] {
            let scene = Scene::with_failure_handler(on_failure);
            scene.respond_with(completion("They tal", finish_reason));
            scene.run(&[]).exits(17).reports(message).reports("the strategy reported: no summary");
            scene.transcript.assert_untouched();
        }
    }
}

#[test]
fn failed_request_appends_nothing() {
    let scene = Scene::new();
    scene.respond_with(ResponseTemplate::new(401).set_body_json(json!({"error": {"message": KEY}})));
    let output = scene.run(&["-vvv"]).exits(18);
    assert!(output.stderr.contains("it rejected the key (llm_unavailable)"), "{}", output.stderr);
    scene.transcript.assert_untouched();
    let output = scene.run(&[]).exits(18);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `asks` got no answer from a model

    Caused by:
      openai/g: the provider answered with HTTP 401: it rejected the key (llm_unavailable); the strategy reported: no summary

    hint: nothing was appended
    ");
}

#[test]
fn accepts_result_made_without_answer() {
    let result = r#"echo '{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":4,"summary":{"summary":"by hand"}}]}'"#;
    let scene = Scene::with_failure_handler(result);
    scene.respond_with(ResponseTemplate::new(400));
    scene.run(&[]).exits(0);
    assert_eq!(scene.transcript.overlays()[0]["summary"]["summary"], "by hand");
}

#[test]
fn retries_rate_limited_request() {
    let scene = Scene::new();
    let response = ResponseTemplate::new(429).insert_header("retry-after", "0");
    let mock = Mock::given(method("POST")).respond_with(response).up_to_n_times(2);
    scene.runtime.block_on(mock.mount(&scene.server));
    scene.respond_with(completion("They talked.", "stop"));
    scene.run(&[]).exits(0);
    assert_eq!(scene.requests().len(), 3);
}

#[test]
fn requires_configured_model_and_key() {
    let scene = Scene::new();
    let output = scene.run_unset(&[], &[]).exits(18);
    insta::assert_snapshot!(output.stderr, @r#"
    error: strategy `asks` needs a model, and none is configured

    Caused by:
      no model is set by its options, the command line, the settings, or the conversation

    hint: give `--model PROVIDER/NAME`, or add these lines to your configuration
      [llm]
      model = "anthropic/claude-haiku-4-5"
      providers.anthropic.api_key_env = "ANTHROPIC_API_KEY"
    "#);
    let output = scene.run_unset(&["--model", "openai/g"], &["OPENAI_BASE_URL", "OPENAI_API_KEY"]).exits(18);
    assert!(
        output.stderr.contains("failed to find a key for `openai`: set OPENAI_API_KEY"),
        "{}",
        output.stderr
    );
    scene.run_unset(&["--model", "gpt-5"], &[]).exits(2).reports("expected a model as `provider/name`");
    assert_eq!(scene.requests(), Vec::<Value>::new());
    scene.transcript.assert_untouched();
}

#[test]
fn model_requires_grant() {
    let scene = Scene::new();
    grant(&scene.world, "llm = false");
    scene.run(&[]).exits(11).reports("it needs `llm`, which was not granted");
    assert_eq!(scene.requests(), Vec::<Value>::new());
}

#[test]
fn dry_run_sends_no_request() {
    let scene = Scene::new();
    let output = scene.run(&["--dry-run"]).exits(0);
    let requests = "would summarize turns 0-4 using openai/g: 5 turns and 10 steps; 1 request, about ";
    assert!(output.stderr.contains(requests), "{}", output.stderr);
    assert_eq!(scene.requests(), Vec::<Value>::new());
    scene.transcript.assert_untouched();
}

#[test]
fn respects_token_budget() {
    let scene = Scene::new();
    scene.respond_with(completion("They talked.", "stop"));
    let output = scene.run(&["--llm-budget-tokens", "51"]).exits(18);
    assert!(output.stderr.contains("the budget of 51 has 51 left (budget_exhausted)"), "{}", output.stderr);
    assert_eq!(scene.requests(), Vec::<Value>::new());
    scene.transcript.assert_untouched();
    scene.run(&["--llm-budget-tokens", "52"]).exits(0);
}

/// Writes a strategy that sends these requests, and declines after the answers.
fn write_strategy_with_requests(world: &World, requests: &Value) {
    let needs = json!({"type": "needs", "id": "c1", "requests": requests});
    let run = format!(
        "read -r header\ncase \"$header\" in\n*'\"answers\":{{}}'*) cat <<'END'\n{needs}\nEND\n;;\n*) {DECLINE_WITHOUT_SUMMARY} ;;\nesac"
    );
    let members = json!({"needs": ["llm"], "produces": ["summary"]});
    world.write_script("plugins/asks/asks", &plugin_script("asks", &members, &run));
}

fn completion_request(text: &str, max_tokens: u64) -> Value {
    json!({"kind": "llm.complete", "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens})
}

/// Checks that a run exceeds its budget before it sends a request.
#[track_caller]
fn check_over_budget(requests: &Value, extra: &[&str], message: &str) {
    let scene = Scene::new();
    scene.respond_with(short_answer());
    write_strategy_with_requests(&scene.world, requests);
    let output = scene.run(extra).exits(18).reports(message).reports("(budget_exhausted)");
    assert_eq!(scene.requests(), Vec::<Value>::new());
    output.reports("hint: nothing was appended; raise the budget with `--llm-budget-tokens N` or `--llm-budget-requests N`");
}

fn short_answer() -> ResponseTemplate {
    completion("Nothing.", "stop")
}

#[test]
fn default_budget_limits_each_run() {
    let large = json!({"a": completion_request("sum up", 2_000_000)});
    check_over_budget(
        &large,
        &[],
        "about 2000002 tokens are needed, and the budget of 2000000 has 2000000 left",
    );
    // The requests of one round are counted together before the first one is sent.
    let halves =
        json!({"a": completion_request("sum up", 1_000_000), "b": completion_request("sum up", 1_000_000)});
    check_over_budget(&halves, &[], "about 2000004 tokens are needed");
    let two_requests = json!({"a": completion_request("one", 1), "b": completion_request("two", 1)});
    check_over_budget(
        &two_requests,
        &["--llm-budget-requests", "1"],
        "2 requests are needed, and the budget of 1 has 1 left",
    );
}

#[test]
fn user_sets_budget_and_workspace_cannot() {
    let scene = Scene::new();
    scene.respond_with(short_answer());
    write_strategy_with_requests(&scene.world, &json!({"a": completion_request("sum up", 2_000_000)}));
    let config = b"[llm]\nbudget_tokens = 3000000\n";
    scene.world.write_file(".jp-compact.toml", config);
    scene.run(&[]).exits(2).reports("`llm.budget_tokens` is not allowed in a workspace file");
    fs::rename(scene.world.path(".jp-compact.toml"), scene.world.path("mine.toml")).unwrap();
    scene.run(&["--config", "mine.toml"]).exits(0).reports("declined: no summary");
    assert_eq!(scene.requests().len(), 1);
    scene.run(&["--set", "llm.budget_requests=0"]).exits(18).reports("budget of 0");
    assert_eq!(scene.requests().len(), 1);
}

#[test]
fn rejects_path_traversal_in_model_name() {
    const EVIL: &str = "gemini/../../../evil";
    let scene = Scene::new();
    scene.respond_with(short_answer());
    let mut command = strategy_command(&scene.world, &format!("asks:model={EVIL}"), &[]);
    command.env("GOOGLE_GEMINI_BASE_URL", scene.server.uri()).env("GEMINI_API_KEY", KEY);
    scene.world.finish(&mut command).exits(2).reports(EVIL);
    for extra in [&["--model", EVIL][..], &["--set", &format!("llm.model={EVIL}")]] {
        let mut command = strategy_command(&scene.world, "asks", extra);
        command.env("GOOGLE_GEMINI_BASE_URL", scene.server.uri()).env("GEMINI_API_KEY", KEY);
        scene.world.finish(&mut command).exits(2).reports("expected a model as `provider/name`");
    }
    let delta = json!({"delta": {"assistant": {"model": {"id": EVIL}}}});
    scene.world.write_conversation("conversation", &Conversation::with_turns(5).event("config_delta", delta));
    let mut command = strategy_command(&scene.world, "asks", &[]);
    command.env("GOOGLE_GEMINI_BASE_URL", scene.server.uri()).env("GEMINI_API_KEY", KEY);
    scene.world.finish(&mut command).exits(18).reports("none is configured");
    assert_eq!(scene.requests(), Vec::<Value>::new());
}

#[test]
fn replay_reproduces_recorded_run() {
    let scene = Scene::new();
    scene.respond_with(completion("They talked.", "stop"));
    let before = scene.transcript.current_bytes();
    scene.run(&["--llm-record", "answers.json"]).exits(0);
    let recorded = scene.transcript.current_bytes();
    let file = scene.world.path("answers.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&scene.transcript.path, &before).unwrap();
    // A replay needs neither a server, nor a model name, nor a key.
    let unset = ["OPENAI_BASE_URL", "OPENAI_API_KEY"];
    scene.run_unset(&["--llm-replay", "answers.json"], &unset).exits(0);
    assert!(scene.transcript.current_bytes() == recorded);
    assert_eq!(scene.requests().len(), 1);
}

#[test]
fn replay_fails_for_unrecorded_request() {
    let scene = Scene::new();
    scene.world.write_file("answers.json", b"{}");
    let output = scene.run(&["--llm-replay", "answers.json"]).exits(18);
    assert!(output.stderr.contains("no answer was recorded for the request "), "{}", output.stderr);
    scene.run(&["--llm-replay", "nowhere.json"]).exits(2).reports("there is no such file");
    scene
        .run(&["--llm-record", "conversation/events.json"])
        .exits(2)
        .reports("not a file of recorded answers");
    scene.run(&["--llm-replay", "answers.json", "--llm-record", "answers.json"]).exits(2);
    assert_eq!(scene.requests(), Vec::<Value>::new());
    scene.transcript.assert_untouched();
}
