//! The cost of a compaction in the provider's prompt cache, in dry runs and in `auto`.

use serde_json::{Value, json};

use crate::support::{Conversation, Model, World};

/// 20 seconds after the last event of [`world`].
const NOW: &str = "--now=2026-03-18T11:59:00Z";
/// A time at which the cache has expired.
const LATER: &str = "--now=2026-03-18T12:10:00Z";

/// Returns a test environment with a conversation of eight turns, each with a long output.
fn world() -> World {
    let world = World::new();
    world.write_conversation("talk", &Conversation::bulky(8));
    world
}

#[track_caller]
fn cost(world: &World, extra: &[&str]) -> Value {
    let line = world.run(&[&["talk", "-n", "--json"], extra].concat()).exits(0).line();
    line["cache_cost"].clone()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} is not a number: {value}"))
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 0.06, "{found} is not {expected}");
}

#[test]
fn dry_run_reports_cost_of_warm_cache() {
    let world = world();
    let line = world.run(&["talk", "-n", "--json", "-s", "strip-tools", NOW]).exits(0).line();
    let (cost, tokens) = (&line["cache_cost"], &line["tokens"]);
    assert_eq!((&cost["family"], &cost["state"]), (&json!("anthropic"), &json!("warm")));
    assert_eq!(cost["last_request"], "2026-03-18 11:58:40.0");
    let (before, after) = (number(tokens, "view_before"), number(tokens, "view_after"));
    let prefix = number(cost, "prefix_tokens");
    assert!(prefix > 0.0 && prefix < 50.0, "the first prompt stays in the cache: {prefix}");
    assert_close(number(cost, "rewritten_tokens"), after - prefix);
    let one_time = (after - prefix) * 1.25 + prefix * 0.05 - before * 0.05;
    assert_close(number(cost, "one_time"), one_time);
    assert_close(number(cost, "one_time_warm"), one_time);
    assert_close(number(cost, "one_time_cold"), 0.0);
    assert_close(number(cost, "per_request_before"), before * 0.05);
    assert_close(number(cost, "per_request_after"), after * 0.05);
    assert_close(number(cost, "break_even_requests"), one_time / ((before - after) * 0.05));
}

#[test]
fn later_range_keeps_more_of_the_cache() {
    let world = world();
    let prefix = |extra: &[&str]| {
        let strategy = ["-s", "strip-tools", "--keep-last=1", NOW];
        number(&cost(&world, &[&strategy, extra].concat()), "prefix_tokens")
    };
    let (first, second, last) = (prefix(&[]), prefix(&["--from=1"]), prefix(&["--from=6"]));
    assert!(first < 50.0 && first + 200.0 < second && second + 1000.0 < last, "{first} {second} {last}");
}

#[test]
fn cache_is_kept_up_to_the_end_of_a_request() {
    let world = world();
    let prefix = |strategy: &str| number(&cost(&world, &["-s", strategy, NOW]), "prefix_tokens");
    // The call before the first changed result is in the answer of the model, not in the cached request.
    assert_close(prefix("strip-tools:mode=strip-responses"), prefix("strip-tools"));
    let blocks =
        "source = 's'\ndate = 'd'\n[[families]]\nname = 'blocks'\nread = 0.1\nwrite = 1\nblock = 1\n";
    world.write_file("blocks.toml", blocks.as_bytes());
    let with_blocks = |strategy: &str| {
        number(&cost(&world, &["-s", strategy, NOW, "--prices=blocks.toml"]), "prefix_tokens")
    };
    assert!(with_blocks("strip-tools:mode=strip-responses") > with_blocks("strip-tools") + 10.0);
}

#[test]
fn cold_cache_costs_nothing() {
    let world = world();
    let later = cost(&world, &["-s", "strip-tools", LATER]);
    assert_eq!(later["state"], "cold");
    assert_eq!((number(&later, "one_time"), number(&later, "break_even_requests")), (0.0, 0.0));
    assert!(number(&later, "one_time_warm") > 100.0, "{later}");
    // The system's clock is later than the conversation, too.
    assert_eq!(cost(&world, &["-s", "strip-tools"])["state"], "cold");
    let output = world.run(&["talk", "-n", "-s", "strip-tools", LATER]).exits(0);
    output.reports("  prompt cache (anthropic, cold): the compaction would cost nothing\n");
}

#[test]
fn clock_that_runs_backwards_means_warm() {
    let world = world();
    for now in ["2026-03-18T11:58:20Z", "2020-01-01T00:00:00Z", "-009999-01-02T01:59:59Z"] {
        let cost = cost(&world, &["-s", "strip-tools", &format!("--now={now}")]);
        assert_eq!(cost["state"], "warm", "{now}");
    }
}

#[test]
fn transcript_without_times_counts_as_warm() {
    let world = World::new();
    let mut messages = vec![json!({"role": "user", "content": "Read it."})];
    for call in 0..8 {
        let input = json!({"path": "src/main.rs"});
        let id = format!("toolu_{call}");
        let call = json!({"type": "tool_use", "id": id, "name": "read", "input": input});
        messages.push(json!({"role": "assistant", "content": [call]}));
        let content = "a line of no importance\n".repeat(100);
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        messages.push(json!({"role": "user", "content": [result]}));
    }
    messages.push(json!({"role": "assistant", "content": "It is read."}));
    let body = json!({"model": "claude-opus-9", "max_tokens": 10, "messages": messages});
    world.write_file("body.json", body.to_string().as_bytes());
    let run = ["body.json", "-s", "strip-tools", "--keep-last=0", "-n"];
    let line = world.run(&[&run[..], &["--json"]].concat()).exits(0).line();
    let cost = &line["cache_cost"];
    assert_eq!((&cost["state"], &cost["last_request"]), (&json!("unknown"), &Value::Null));
    assert_eq!(cost["one_time"], cost["one_time_warm"]);
    assert!(number(cost, "one_time") > 0.0, "{cost}");
    world.run(&run).exits(0).reports("prompt cache (anthropic, state unknown): ");
}

#[test]
fn prices_follow_the_model_of_the_conversation() {
    let world = world();
    let settings = |provider: &str| {
        let model = json!({"assistant": {"model": {"id": {"provider": provider, "name": "any"}}}});
        world.write_file("talk/base_config.json", model.to_string().as_bytes());
    };
    let strategy = ["-s", "strip-tools", "--from=1", NOW];
    for (provider, family) in [("anthropic", "anthropic"), ("openai", "openai"), ("google", "gemini")] {
        settings(provider);
        assert_eq!(cost(&world, &strategy)["family"], family);
    }
    settings("openai");
    let cached = cost(&world, &strategy)["prefix_tokens"].as_u64().unwrap();
    assert!(cached > 0 && cached.is_multiple_of(128), "the cache has whole blocks: {cached}");
}

#[test]
fn prices_of_a_file_are_used() {
    let world = world();
    let prices =
        "source = 's'\ndate = 'd'\n[[families]]\nname = 'mine'\nread = 0.5\nwrite = 2\nttl_minutes = 60\n";
    world.write_file("prices.toml", prices.as_bytes());
    let found = cost(&world, &["-s", "strip-tools", LATER, "--prices=prices.toml"]);
    assert_eq!((&found["family"], &found["state"]), (&json!("mine"), &json!("warm")));
    assert_eq!(found["ttl_minutes"], 60);
    let later = "--now=2026-03-18T13:10:00Z";
    assert_eq!(cost(&world, &["-s", "strip-tools", later, "--prices=prices.toml"])["state"], "cold");
    world.run(&["talk", "-n", "--prices=missing.toml"]).exits(2).reports("failed to read the prices");
}

#[test]
fn long_cache_costs_more_and_is_warm_for_longer() {
    let world = world();
    let at = |time: &str, options: &[&str]| {
        let now = format!("--now=2026-03-18T{time}Z");
        cost(&world, &[&["-s", "strip-tools", &now], options].concat())
    };
    let (short, long) = (at("12:00:00", &[]), at("12:00:00", &["--long-cache"]));
    assert_eq!((&short["ttl_minutes"], &long["ttl_minutes"]), (&json!(5), &json!(60)));
    assert!(number(&long, "one_time_warm") > number(&short, "one_time_warm"), "{short} {long}");
    let state = |options: &[&str]| at("12:30:00", options)["state"].clone();
    assert_eq!((state(&[]), state(&["--long-cache"])), (json!("cold"), json!("warm")));
    // A family without a longer time to live keeps the normal one.
    world.write_file(
        "plain.toml",
        b"source = 's'\ndate = 'd'\n[[families]]\nname = 'x'\nread = 1\nwrite = 1\n",
    );
    assert_eq!(at("12:00:00", &["--prices=plain.toml", "--long-cache"])["ttl_minutes"], 5);
}

#[test]
fn only_dry_runs_and_auto_report_the_cost() {
    let world = world();
    let run = ["talk", "-s", "strip-tools", "--json", NOW];
    assert_eq!(world.run(&run).exits(0).line()["cache_cost"], Value::Null);
    assert_eq!(cost(&world, &["-s", "strip-tools", NOW]), Value::Null, "nothing is left to strip");
    let text = world.run(&["talk", "-s", "strip-reasoning", NOW]).exits(0).stderr;
    assert!(!text.contains("prompt cache"), "{text}");
    let auto = ["auto", "talk", "--context-window=2000", NOW];
    let world = self::world();
    let line = world.run(&[&auto[..], &["--json"]].concat()).exits(0).line();
    assert_eq!(line["report"]["cache_cost"]["state"], "warm");
    let world = self::world();
    let text = world.run(&auto).exits(0).stderr;
    assert!(text.contains("  prompt cache (anthropic, warm): "), "{text}");
    assert!(text.contains(" tokens are written again for the price of "), "{text}");
}

#[test]
fn summary_of_a_model_is_part_of_the_cost() {
    let (world, model) = (world(), Model::with_answer("Everything was read."));
    let arguments = [
        "auto",
        "talk",
        "--json",
        "--profile=heavy",
        "--model=openai/g",
        "--context-window=2000",
        "--sandbox=contained",
    ];
    let run = |now: &str| {
        let mut command = world.command(&[&arguments[..], &[now]].concat());
        world.finish(model.configure(&mut command)).exits(0).line()
    };
    let line = run(LATER);
    let cost = &line["report"]["cache_cost"];
    let summary = number(cost, "summary");
    assert!(summary > 1000.0, "the model read the turns: {cost}");
    assert_eq!(cost["state"], "cold");
    assert_close(number(cost, "one_time"), summary);
    assert!(number(cost, "one_time_warm") > summary, "{cost}");
}

const PREFER_COLD: &str = "--set=conversation.compaction.auto.cost=prefer-cold";

/// Runs `auto` as a dry run, with a limit that the conversation exceeds.
#[track_caller]
fn auto(world: &World, extra: &[&str]) -> Value {
    auto_with_window(
        world,
        7000,
        &[&["--set=conversation.compaction.auto.trigger_ratio=0.1"], extra].concat(),
    )
}

#[track_caller]
fn auto_with_window(world: &World, window: u64, extra: &[&str]) -> Value {
    let window = format!("--context-window={window}");
    let run = ["auto", "talk", "--json", "-n", "--profile=default", &window];
    world.run(&[&run[..], extra].concat()).exits(0).line()
}

fn has_overlays(report: &Value) -> bool {
    !report["report"]["overlays"].as_array().unwrap().is_empty()
}

#[test]
fn compaction_that_pays_back_too_late_waits_for_a_cold_cache() {
    let world = world();
    let waiting = auto(&world, &[PREFER_COLD, NOW]);
    let wait = &waiting["wait"];
    assert_eq!((&waiting["due"], &wait["reason"]), (&json!(true), &json!("pays_back_too_late")));
    assert!(!has_overlays(&waiting), "{waiting}");
    assert_eq!((&wait["view_max"], &waiting["still_due"]), (&json!(6300), &Value::Null));
    let (break_even, left) = (number(wait, "break_even_requests"), number(wait, "requests_left"));
    assert!(break_even > left && left > 0.0, "{wait}");
    // The conversation grew to its size in sixteen requests.
    let tokens = number(&waiting["report"]["tokens"], "raw");
    assert_close(left, (6300.0 - tokens) / (tokens / 16.0));
    assert_eq!(wait["break_even_requests"], waiting["report"]["cache_cost"]["break_even_requests"]);
    assert!(waiting["reason"].as_str().unwrap().contains("; the compaction waits for a cold prompt cache: "));
    // Without the setting, or with a cold cache, it compacts.
    for extra in [&[NOW][..], &[PREFER_COLD, LATER]] {
        let report = auto(&world, extra);
        assert!(has_overlays(&report) && report["wait"].is_null(), "{extra:?}: {report}");
    }
    assert_eq!(number(&auto(&world, &[PREFER_COLD, LATER])["report"]["cache_cost"], "one_time"), 0.0);
}

#[test]
fn compaction_that_pays_back_in_time_does_not_wait() {
    let world = world();
    let ratio = "--set=conversation.compaction.auto.trigger_ratio=0.001";
    let report = auto_with_window(&world, 400_000, &[PREFER_COLD, NOW, ratio]);
    assert!(has_overlays(&report) && report["wait"].is_null(), "{report}");
}

#[test]
fn full_window_does_not_wait() {
    let world = world();
    let tokens = auto(&world, &[NOW])["report"]["tokens"]["view_before"].as_u64().unwrap();
    let waits = |window: u64| {
        let ratio = "--set=conversation.compaction.auto.trigger_ratio=0.1";
        let report = auto_with_window(&world, window, &[PREFER_COLD, NOW, ratio]);
        assert_eq!(has_overlays(&report), report["wait"].is_null(), "{report}");
        !report["wait"].is_null()
    };
    // The view fills about 90 % of this window.
    let window = tokens * 10 / 9;
    assert!(window * 9 / 10 <= tokens && (window + 2) * 9 / 10 >= tokens);
    assert_eq!((waits(window + 2), waits(window - 2), waits(tokens / 2)), (true, false, false));
}

#[test]
fn waiting_writes_nothing_and_asks_no_model() {
    let (world, model) = (World::new(), Model::with_answer("Everything was read."));
    let transcript = world.write_conversation("talk", &Conversation::bulky(8));
    let arguments = [
        "auto",
        "talk",
        "--model=openai/g",
        "--context-window=7000",
        PREFER_COLD,
        "--strict",
        "--sandbox=contained",
        "--set=conversation.compaction.auto.trigger_ratio=0.1",
        "--set=conversation.compaction.auto.fallback_profile=heavy",
    ];
    let run = |extra: &[&str]| {
        let mut command = world.command(&[&arguments[..], extra].concat());
        world.finish(model.configure(&mut command))
    };
    for profile in ["--profile=heavy", "--profile=default"] {
        let output = run(&[profile, NOW]).exits(0);
        assert!(
            output.stderr.contains("; the compaction waits for a cold prompt cache: it would"),
            "{}",
            output.stderr
        );
        transcript.assert_untouched();
    }
    assert!(model.requests().is_empty(), "no model was asked");
    let output = run(&["--profile=heavy", LATER]).exits(3).reports("still too large");
    output.reports("prompt cache (anthropic, cold): the summary costs as much as");
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn request_whose_answer_waits_is_repeated_with_a_cold_cache() {
    let (world, model) = (World::new(), Model::with_answer(&"word ".repeat(400)));
    let transcript = world.write_conversation("talk", &Conversation::bulky(8));
    let arguments = [
        "auto",
        "talk",
        "--profile=heavy",
        "--model=openai/g",
        "--context-window=20000",
        PREFER_COLD,
        "--sandbox=contained",
        "--set=conversation.compaction.auto.trigger_ratio=0.05",
    ];
    let run = |now: &str| {
        let mut command = world.command(&[&arguments[..], &[now]].concat());
        world.finish(model.configure(&mut command)).exits(0)
    };
    for now in [NOW, "--now=2026-03-18T11:59:30Z"] {
        run(now)
            .reports("; the compaction waits for a cold prompt cache: it would pay back after 54 requests");
        assert_eq!(model.requests().len(), 1);
        transcript.assert_untouched();
    }
    run(LATER);
    assert_eq!((model.requests().len(), transcript.overlays().len()), (2, 1));
}

#[test]
fn strategy_without_a_model_is_reported_if_a_summary_waits() {
    let (world, model) = (World::new(), Model::with_answer("Everything was read."));
    let with_reasoning =
        Conversation::bulky(8).turn("And?").reasoning(&"I think so. ".repeat(200)).message("Done.");
    let transcript = world.write_conversation("talk", &with_reasoning);
    let arguments = [
        "auto",
        "talk",
        "--model=openai/g",
        "--context-window=8000",
        "--keep-last=0",
        PREFER_COLD,
        "--sandbox=contained",
        NOW,
        "--set=conversation.compaction.auto.trigger_ratio=0.1",
        "--set=conversation.compaction.profiles.both.strategies=[\"strip-reasoning\", \"summarize\"]",
        "--profile=both",
        "--set=conversation.compaction.auto.fallback_profile=rest",
        "--set=conversation.compaction.profiles.rest.strategies=[\"strip-tools\"]",
        "--strict",
    ];
    let run = |extra: &[&str]| {
        let mut command = world.command(&[&arguments[..], extra].concat());
        world.finish(model.configure(&mut command)).exits(0)
    };
    for (extra, result) in [(&["-n"][..], "1 overlay would be appended"), (&[], "1 overlay appended")] {
        let output = run(extra).reports(result).reports("; a summary waits for a cold prompt cache: ");
        // A summary that waits needs no fallback, and is not a failure.
        assert!(!output.stderr.contains("`rest`"), "{}", output.stderr);
        assert!(!output.stderr.contains("still too large"), "{}", output.stderr);
    }
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn fallback_that_waits_is_not_a_failure() {
    let run = |window: &str, extra: &[&str]| {
        let world = world();
        let fallback = "--set=conversation.compaction.auto.fallback_profile=default";
        let ratio = "--set=conversation.compaction.auto.trigger_ratio=0.1";
        let options = ["auto", "talk", "--profile=light", window, "--strict", fallback, ratio];
        let line = world.run(&[&options[..], &["--json", NOW], extra].concat()).exits(0).line();
        (line["fallback"]["report"]["overlays"].as_array().unwrap().len(), line["still_due"].clone())
    };
    assert_eq!(run("--context-window=7000", &[PREFER_COLD]), (0, Value::Null));
    assert_eq!(run("--context-window=30000", &[]), (1, Value::Null));
}

#[test]
fn answer_that_waits_declines_the_other_strategies_in_each_run() {
    let (world, model) = (World::new(), Model::with_answer(&"word ".repeat(400)));
    let transcript = world.write_conversation("talk", &Conversation::bulky(8));
    let arguments = [
        "auto",
        "talk",
        "--model=openai/g",
        PREFER_COLD,
        "--sandbox=contained",
        "--set=conversation.compaction.auto.trigger_ratio=0.05",
        "--set=conversation.compaction.profiles.both.strategies=[\"strip-tools\", \"summarize\"]",
        "--profile=both",
        "--context-window=20000",
        NOW,
    ];
    for _ in 0..2 {
        let mut command = world.command(&arguments);
        let output = world.finish(model.configure(&mut command)).exits(0);
        output.reports("; the compaction waits for a cold prompt cache: ");
        assert_eq!(model.requests().len(), 1);
        transcript.assert_untouched();
    }
}
