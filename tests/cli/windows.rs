//! Context windows, end to end: families, requests to providers, and the models of other agents' transcripts. The
//! answers of each provider are tested in `host/llm`.

use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::agent_formats::sample;
use crate::llm::{REPORT_ERROR, completion, strategy_command, summary_strategy};
use crate::support::{CommandOutput, Conversation, World};

fn conversation_world() -> World {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(8));
    world
}

#[track_caller]
fn auto(world: &World, extra: &[&str]) -> CommandOutput {
    world.run(&[&["auto", "conversation"], extra].concat())
}

/// A server that reports the window of the model `m`, and answers prompts.
struct Server {
    server: MockServer,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(MockServer::start());
        let list = json!({"object": "list", "data": [{"id": "m", "max_model_len": 32768}, {"id": "n"}]});
        let list = ResponseTemplate::new(200).set_body_json(list);
        let mount = |mock: Mock| runtime.block_on(mock.mount(&server));
        mount(Mock::given(method("GET")).and(path("/v1/models")).respond_with(list));
        mount(Mock::given(method("POST")).respond_with(completion("They talked.", "stop")));
        Self { server, runtime }
    }

    /// Returns the settings that name this server as a provider.
    fn settings(&self) -> String {
        format!("[llm.providers.lab]\nkind = \"openai\"\nbase_url = \"{}/v1\"\n", self.server.uri())
    }

    /// Returns the paths of the requests so far.
    fn asked(&self) -> Vec<String> {
        let requests = self.runtime.block_on(self.server.received_requests()).unwrap();
        requests.iter().map(|request| request.url.path().to_owned()).collect()
    }
}

#[test]
fn strict_auto_fails_without_window() {
    let world = conversation_world();
    world.write_conversation("other", &Conversation::with_turns(8));
    world.write_events("bad", b"{}");
    let warning = "warning: conversation/events.json: skipped: the context window is unknown";
    for extra in [&[][..], &["-q"], &["--json"], &["-q", "--json"]] {
        let run = |strict: &[&str]| auto(&world, &[extra, strict].concat());
        run(&[]).exits(0).reports(warning);
        let output = run(&["--strict"]).exits(3).reports(warning);
        assert_eq!(output.stderr.matches("skipped").count(), 1, "{}", output.stderr);
    }
    let line = auto(&world, &["--json", "--strict"]).exits(3).line();
    assert_eq!(line["trigger"]["result"], "unknown_window");
    assert_eq!(
        (&line["trigger"]["context_window"], &line["trigger"]["window_origin"]),
        (&Value::Null, &Value::Null)
    );
    auto(&world, &["--strict", "--context-window", "100000"]).exits(0);
    world.run(&["auto", "conversation", "other", "--strict"]).exits(3);
    // A failure takes precedence over a skipped conversation.
    world.run(&["auto", "conversation", "bad", "--strict"]).exits(19);
    let output = auto(&world, &["-q", "--log-format", "json"]).exits(0);
    let logged: Value = serde_json::from_str(output.stderr.trim()).unwrap();
    assert_eq!((&logged["level"], &logged["fields"]["message"]), (&json!("WARN"), &json!("warning")));
}

#[test]
fn auto_assumes_window_of_family_with_warning() {
    let world = conversation_world();
    let model = ["--model", "openai/gpt-9"];
    let output = auto(&world, &model).exits(0);
    insta::assert_snapshot!(output.stderr, @r#"
    warning: conversation/events.json: the context window of `openai/gpt-9` is not known; 128000 tokens are assumed, the smallest window of similar models. Set `llm.models."openai/gpt-9".context_window`
    conversation/events.json: not due: JP sends about 1,145 tokens (estimated), and 96,000 are allowed
    "#);
    assert_eq!(auto(&world, &["--model", "openai/gpt-9", "-q"]).exits(0).stderr, "");
    let line = auto(&world, &["--model", "openai/gpt-9", "--json"]).exits(0).line();
    assert_eq!(line["trigger"]["context_window"], 128_000);
    assert_eq!(
        (&line["trigger"]["window_origin"], &line["trigger"]["threshold"]),
        (&json!("family"), &json!(96_000))
    );
    // A threshold in tokens needs no window, so nothing is assumed.
    let threshold = "--set=conversation.compaction.auto.token_threshold=90000";
    let output = auto(&world, &["--model", "openai/gpt-9", threshold]).exits(0);
    assert!(!output.stderr.contains("assumed"), "{}", output.stderr);
}

#[test]
fn auto_asks_configured_provider_once() {
    let (world, server) = (conversation_world(), Server::start());
    world.write_file("lab.toml", (server.settings() + "[llm]\nmodel = \"lab/m\"\n").as_bytes());
    let trigger = |extra: &[&str]| {
        let output = auto(&world, &[&["--config", "lab.toml", "--json"], extra].concat()).exits(0);
        output.line()["trigger"].clone()
    };
    assert_eq!(trigger(&["--dry-run"])["result"], "unknown_window");
    assert_eq!(server.asked(), Vec::<String>::new());
    for extra in [&[][..], &[], &["--dry-run"]] {
        let trigger = trigger(extra);
        assert_eq!(
            (&trigger["context_window"], &trigger["window_origin"]),
            (&json!(32768), &json!("provider"))
        );
        assert_eq!(server.asked(), ["/v1/models"]);
    }
    let threshold = "--set=conversation.compaction.auto.token_threshold=90000";
    assert_eq!(trigger(&[threshold])["threshold"], 90_000);
}

#[test]
fn conversation_does_not_choose_which_provider_is_asked() {
    let (world, server) = (conversation_world(), Server::start());
    let model = br#"{"assistant":{"model":{"id":{"provider":"openai","name":"m"}}}}"#;
    world.write_file("conversation/base_config.json", model);
    let run = |extra: &[&str]| {
        let mut command = world.command(&[&["auto", "conversation", "--json"], extra].concat());
        command.env("OPENAI_BASE_URL", format!("{}/v1", server.server.uri()));
        world.finish(&mut command).exits(0).line()["trigger"].clone()
    };
    assert_eq!(run(&[])["result"], "unknown_window");
    assert_eq!(server.asked(), Vec::<String>::new());
    // The user's own configuration names the provider.
    world.write_file("mine.toml", b"[llm.providers.openai]\nkind = \"openai\"\n");
    assert_eq!(run(&["--config", "mine.toml"])["context_window"], 32768);
    assert_eq!(server.asked(), ["/v1/models"]);
    world.write_file(".jp-compact.toml", b"[llm.providers.openai]\nkind = \"openai\"\n");
    auto(&world, &[]).exits(2).reports("is not allowed in a workspace file");
}

#[test]
fn strategy_receives_reported_or_assumed_window() {
    let server = Server::start();
    for (model, window, warnings) in [("lab/m", 32768, 0), ("lab/gpt-9", 128_000, 1)] {
        let (world, _) = summary_strategy(REPORT_ERROR);
        world.write_file("lab.toml", server.settings().as_bytes());
        let run = |extra: &[&str]| {
            let extra = [&["--config", "lab.toml", "--model", model], extra].concat();
            world.finish(&mut strategy_command(&world, "asks", &extra)).exits(0)
        };
        let output = run(&[]);
        let message = format!("the context window of `{model}` is not known; 128000 tokens are assumed");
        assert_eq!(output.stderr.matches(&message).count(), warnings, "{}", output.stderr);
        let headers = std::fs::read_to_string(world.path("seen")).unwrap();
        let header: Value = serde_json::from_str(headers.lines().next().unwrap()).unwrap();
        assert_eq!(header["context"]["llm"]["context_window"], window);
        let before = server.asked().len();
        world.run(&["conversation", "--reset"]).exits(0);
        run(&["--dry-run"]);
        assert_eq!(server.asked().len(), before, "a dry run sends nothing");
    }
}

/// Checks the model and the window that commands find in a sample of another agent's transcript.
#[track_caller]
fn check_sample(name: &str, model: &str, window: u64, origin: &str) {
    let world = World::new();
    let file = format!("session.{}", name.rsplit('.').next().unwrap());
    world.write_file(&file, &sample(name));
    // JP's configuration of the workspace has another model.
    world.write_file(".jp/config.toml", b"assistant.model.id = \"openai/gpt-4o\"\n");
    let trigger = world.run(&["auto", &file, "--json"]).exits(0).line()["trigger"].clone();
    let found = ["model", "context_window", "window_origin"].map(|key| trigger[key].clone());
    assert_eq!(found, [json!(model), json!(window), json!(origin)], "{name}");
    let trigger = world.run(&["auto", &file, "--json", "--model", "openai/gpt-5"]).exits(0).line();
    assert_eq!(trigger["trigger"]["model"], "openai/gpt-5", "a typed model takes precedence");
    let shown = world.run(&["show", &file, "--json"]).exits(0).line();
    assert_eq!((&shown["model"], &shown["context_window"]), (&json!(model), &json!(window)), "{name}");
    let output = world.run(&["show", &file]).exits(0);
    let assumed = if origin == "family" { "assumed " } else { "" };
    let line = format!("  model {model}, {assumed}context window {} tokens\n", grouped(window));
    assert!(output.text().contains(&line), "{}", output.text());
}

/// Separates thousands by commas.
fn grouped(tokens: u64) -> String {
    let (millions, thousands, rest) = (tokens / 1_000_000, tokens / 1_000 % 1_000, tokens % 1_000);
    match millions {
        0 => format!("{thousands},{rest:03}"),
        _ => format!("{millions},{thousands:03},{rest:03}"),
    }
}

#[test]
fn model_of_foreign_transcript_decides_window() {
    check_sample("claude-code.jsonl", "anthropic/claude-sonnet-4-5", 200_000, "built_in");
    check_sample("codex.jsonl", "openai/gpt-5", 400_000, "built_in");
    check_sample("codex-before-tasks.jsonl", "openai/gpt-5-codex", 128_000, "family");
    check_sample("opencode-partless.json", "anthropic/claude-sonnet-4-5", 200_000, "built_in");
    check_sample("pi.jsonl", "google/gemini-3-pro", 1_048_576, "family");
    check_sample("gemini-cli.jsonl", "google/gemini-2.5-flash", 1_048_576, "built_in");
}

#[test]
fn model_of_foreign_transcript_is_not_asked() {
    let world = World::new();
    world.write_file("session.jsonl", &sample("claude-code.jsonl"));
    let output = world.run(&["session.jsonl", "--strategy", "summarize", "--keep-last", "0"]).exits(18);
    output.reports("none is configured");
}

#[test]
fn each_round_is_checked_before_it_is_sent() {
    let server = Server::start();
    let (world, transcript) = summary_strategy(REPORT_ERROR);
    let request = |text: &str, max_tokens: u64| json!({"kind": "llm.complete", "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens});
    let round = |requests: Value| json!({"type": "needs", "id": "c1", "requests": requests});
    let first = round(json!({"a": request("one", 50)}));
    // Each request fits into the rest of the budget. Both together do not.
    let second = round(json!({"b": request("two", 50), "c": request("three", 50)}));
    let run = format!(
        "read -r header\ncase \"$header\" in\n*'\"answers\":{{}}'*) cat <<'END'\n{first}\nEND\n;;\n\
         *'\"a\":'*) cat <<'END'\n{second}\nEND\n;;\n*) {REPORT_ERROR} ;;\nesac"
    );
    let members = json!({"needs": ["llm"], "produces": ["summary"], "features": ["needs.many"]});
    world.write_script("plugins/asks/asks", &crate::support::plugin_script("asks", &members, &run));
    world.write_file("lab.toml", server.settings().as_bytes());
    let run = |extra: &[&str]| {
        let extra = [&["--config", "lab.toml", "--model", "lab/m"], extra].concat();
        world.finish(&mut strategy_command(&world, "asks", &extra))
    };
    let prompts = || server.asked().iter().filter(|path| path.ends_with("/chat/completions")).count();
    // The first answer costs 35 tokens.
    let output = run(&["--llm-budget-tokens", "120"]).exits(18).reports("(budget_exhausted)");
    let output = output.reports("about 102 tokens are needed, and the budget of 120 has 85 left");
    output.reports("raise the budget with `--llm-budget-tokens N` or `--llm-budget-requests N`");
    assert_eq!(prompts(), 1, "the second round is not sent in part");
    let output = run(&["--llm-budget-requests", "2"]).exits(18);
    output
        .reports("2 requests are needed, and the budget of 2 has 1 left")
        .reports("--llm-budget-requests N");
    assert_eq!(prompts(), 2);
    run(&["--llm-budget-tokens", "200"]).exits(16).reports("no summary");
    assert_eq!(prompts(), 5);
    transcript.assert_untouched();
}
