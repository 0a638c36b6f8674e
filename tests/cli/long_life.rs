//! Automatic compaction of one conversation over many cycles. A model on loopback refuses every request that exceeds
//! its window. The conversation grows by one turn in each cycle. The figures are printed with `--nocapture`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use crate::steps::line as session_line;
use crate::support::{Conversation, World};

/// The requests to the model in one cycle.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) requests: u64,
    /// The tokens of all accepted prompts.
    pub(crate) prompt_tokens: u64,
    /// The size of the largest request, in tokens, with the output that it allows.
    pub(crate) largest_request: u64,
    /// The number of requests above the window.
    pub(crate) refused: u64,
}

/// A model with a hard window. It writes a third of the allowed tokens, and at most a sixth of its prompt.
#[derive(Clone)]
pub(crate) struct HardWindow {
    pub(crate) window: u64,
    pub(crate) usage: Arc<Mutex<Usage>>,
}

/// Returns the model's own count of tokens. It differs from the host's estimate.
fn count_tokens(chars: usize) -> u64 {
    (chars as u64 * 10).div_ceil(37)
}

impl Respond for HardWindow {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = request.body_json().unwrap();
        let messages = body["messages"].as_array().unwrap();
        let length = |message: &Value| message["content"].as_str().unwrap().chars().count();
        let prompt_tokens = count_tokens(messages.iter().map(length).sum());
        let max_tokens = ["max_tokens", "max_completion_tokens"].iter().find_map(|key| body[*key].as_u64());
        let max_tokens = max_tokens.unwrap_or(self.window);
        let request_tokens = prompt_tokens + max_tokens;
        let mut usage = self.usage.lock().unwrap();
        usage.requests += 1;
        usage.largest_request = usage.largest_request.max(request_tokens);
        if request_tokens > self.window {
            usage.refused += 1;
            let message = format!("{request_tokens} tokens exceed the window of {}", self.window);
            return ResponseTemplate::new(400).set_body_json(json!({"error": {"message": message}}));
        }
        usage.prompt_tokens += prompt_tokens;
        let answer_tokens = (max_tokens / 3).min(prompt_tokens / 6).max(8);
        let words = usize::try_from(answer_tokens * 4 / 5).unwrap();
        let answer = format!("Part {prompt_tokens}. {}", "note ".repeat(words));
        let usage = json!({
            "prompt_tokens": prompt_tokens, "completion_tokens": answer_tokens,
            "total_tokens": prompt_tokens + answer_tokens,
        });
        ResponseTemplate::new(200).set_body_json(json!({
            "id": "x", "object": "chat.completion", "created": 1, "model": "g", "usage": usage,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}],
        }))
    }
}

/// A deterministic sequence of numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, min: u64, max: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        min + (self.0 >> 33) % (max - min + 1)
    }
}

/// Returns the outputs of 1 to 60 calls. A turn with these calls has about `tokens` tokens.
fn outputs(number: usize, tokens: u64, numbers: &mut Numbers) -> Vec<String> {
    // A call and its result have about 65 tokens without the output, and a line of output has 5.
    let calls = numbers.next(1, 60).min(tokens / 100).max(1);
    let chars = usize::try_from(tokens / calls * 13 / 5).unwrap().saturating_sub(170).max(20);
    let output = |call| format!("{number}.{call} {}", "a line of it\n".repeat(chars / 13));
    (0..calls).map(output).collect()
}

/// Returns a turn of a conversation of JP.
fn turn(number: usize, outputs: &[String]) -> Conversation {
    let request = Conversation::new().turn(&format!("Request {number}."));
    let call = |turn: Conversation, output: &String| {
        turn.call("read", json!({"path": format!("{number}.rs")}), output)
    };
    outputs.iter().fold(request, call).message(&format!("Answer {number}."))
}

/// Returns the lines of a turn of Claude Code. The session has `lines` lines before it.
fn session_turn(number: usize, outputs: &[String], mut lines: usize) -> String {
    let mut text = String::new();
    let mut add = |kind: &str, message: Value| {
        text += &format!("{}\n", session_line(lines, kind, message));
        lines += 1;
    };
    let answer = |id: &str, block: Value| json!({"id": id, "role": "assistant", "content": [block]});
    add("user", json!({"role": "user", "content": format!("Request {number}.")}));
    for (call, output) in outputs.iter().enumerate() {
        let id = format!("toolu_{number}_{call}");
        let input = json!({"path": format!("{number}.rs")});
        let tool = json!({"type": "tool_use", "id": id, "name": "Read", "input": input});
        add("assistant", answer(&format!("msg_{number}_{call}"), tool));
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": output});
        add("user", json!({"role": "user", "content": [result]}));
    }
    let text_block = json!({"type": "text", "text": format!("Answer {number}.")});
    add("assistant", answer(&format!("msg_{number}"), text_block));
    text
}

/// Appends events to a conversation in JP's layout.
fn append(bytes: &[u8], turn: &Conversation) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    let Some(body) = text.strip_suffix("\n]\n") else { return turn.bytes() };
    let turn = String::from_utf8(turn.bytes()).unwrap();
    format!("{body},{}", turn.strip_prefix('[').unwrap()).into_bytes()
}

/// Returns the number of summaries that the view of a conversation with this many turns shows.
fn shown_summaries(elements: &[Value], turns: usize) -> usize {
    let mut summary_of_turn = vec![None; turns];
    let summaries =
        elements.iter().filter(|element| element["type"] == "compaction" && element["summary"].is_object());
    for (number, summary) in summaries.enumerate() {
        let turn = |key: &str| usize::try_from(summary[key].as_u64().unwrap()).unwrap();
        summary_of_turn[turn("from_turn")..=turn("to_turn")].fill(Some(number));
    }
    summary_of_turn.into_iter().flatten().collect::<BTreeSet<_>>().len()
}

/// The transcript of a simulation. Its turns are added in the form that its program writes.
struct Growing {
    world: World,
    /// The name of a session of Claude Code, or of a conversation of JP.
    name: &'static str,
    is_session: bool,
    /// The bytes without the overlays.
    raw: Vec<u8>,
    turns: usize,
}

impl Growing {
    fn new(profile: &str) -> Self {
        // `agent` is the default for the transcripts of other programs.
        let is_session = profile == "agent";
        let name = if is_session { "s.jsonl" } else { "conversation" };
        let (world, raw) = (World::new(), Vec::new());
        if !is_session {
            world.write_conversation(name, &Conversation::new());
        }
        Self { world, name, is_session, raw, turns: 0 }
    }

    fn path(&self) -> PathBuf {
        self.world.path(if self.is_session { self.name } else { "conversation/events.json" })
    }

    fn current_bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn add_turn(&mut self, outputs: &[String]) {
        self.turns += 1;
        if self.is_session {
            let lines = self.raw.iter().filter(|byte| **byte == b'\n').count();
            self.raw.extend(session_turn(self.turns, outputs, lines).into_bytes());
            fs::write(self.path(), &self.raw).unwrap();
        } else {
            let turn = turn(self.turns, outputs);
            fs::write(self.path(), append(&self.current_bytes(), &turn)).unwrap();
            self.raw = append(&self.raw, &turn);
        }
    }

    /// Returns the elements of the conversation, or the overlays in the sidecar of the session.
    fn elements(&self) -> Vec<Value> {
        if !self.is_session {
            return serde_json::from_slice(&self.current_bytes()).unwrap();
        }
        let Ok(bytes) = fs::read(self.world.path(".s.jsonl.jp-compact")) else { return Vec::new() };
        let sidecar: Value = serde_json::from_slice(&bytes).unwrap();
        sidecar["overlays"].as_array().unwrap().clone()
    }
}

/// The parameters of one simulation.
struct Simulation {
    profile: &'static str,
    window: u64,
    cycles: usize,
    /// The minimum and the maximum size of a turn, in thousandths of the window.
    turn_size: (u64, u64),
}

/// The figures of one simulation.
#[derive(Debug, Default)]
struct Figures {
    /// The number of cycles after which the view was above the threshold.
    above_threshold: usize,
    failed: usize,
    shown_summaries_max: usize,
    largest_request: u64,
    refused: u64,
    /// For each cycle with a request: the cycle, and the tokens of its prompts.
    prompt_tokens: Vec<(usize, u64)>,
    /// The share of the window that is in use after each compaction, in percent.
    used_percent: Vec<u64>,
}

impl Figures {
    /// Returns the median of the prompt tokens in these cycles.
    fn median(&self, cycles: std::ops::RangeInclusive<usize>) -> u64 {
        let selected = self.prompt_tokens.iter().filter(|(cycle, _)| cycles.contains(cycle));
        let mut tokens: Vec<u64> = selected.map(|(_, tokens)| *tokens).collect();
        tokens.sort_unstable();
        tokens.get(tokens.len() / 2).copied().unwrap_or(0)
    }

    fn row(&self, simulation: &Simulation) -> String {
        let (min, max) = (self.used_percent.iter().min(), self.used_percent.iter().max());
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {}-{} % |",
            simulation.profile,
            simulation.window,
            self.used_percent.len(),
            self.prompt_tokens.len(),
            self.failed,
            self.above_threshold,
            self.shown_summaries_max,
            self.median(11..=60),
            self.median(151..=200),
            self.largest_request,
            self.refused,
            min.copied().unwrap_or(0),
            max.copied().unwrap_or(0),
        )
    }
}

const TABLE_HEAD: &str = "| profile | window | compactions | with a model | failed | above | pairs | median 11-60 | median 151-200 | largest | refused | in use |";

fn simulate(simulation: &Simulation) -> Figures {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let usage = Arc::new(Mutex::new(Usage::default()));
    let model = HardWindow { window: simulation.window, usage: Arc::clone(&usage) };
    let server = runtime.block_on(MockServer::builder().disable_request_recording().start());
    runtime.block_on(Mock::given(method("POST")).respond_with(model).mount(&server));
    let mut growing = Growing::new(simulation.profile);
    let (mut numbers, mut figures) = (Numbers(simulation.window), Figures::default());
    for cycle in 1..=simulation.cycles {
        let tokens = simulation.window * numbers.next(simulation.turn_size.0, simulation.turn_size.1) / 1000;
        growing.add_turn(&outputs(cycle, tokens, &mut numbers));
        let window = simulation.window.to_string();
        let mut command = growing.world.command(&["auto", growing.name, "--json"]);
        command.args(["--profile", simulation.profile, "--model", "openai/g", "--context-window", &window]);
        if simulation.profile == "agent" {
            // A profile without a model cannot keep a conversation small forever.
            command.arg("--set=conversation.compaction.auto.fallback_profile=auto-summarize");
        }
        command.args(["--llm-budget-tokens", "1000000000", "--llm-budget-requests", "1000000"]);
        command.env("OPENAI_BASE_URL", server.uri()).env("OPENAI_API_KEY", "sk-0123456789");
        let line = growing.world.finish(&mut command).exits(0).line();
        let cycle_usage = std::mem::take(&mut *usage.lock().unwrap());
        figures.largest_request = figures.largest_request.max(cycle_usage.largest_request);
        figures.refused += cycle_usage.refused;
        if cycle_usage.requests > 0 {
            figures.prompt_tokens.push((cycle, cycle_usage.prompt_tokens));
        }
        if !line["warning"].is_null() {
            figures.failed += 1;
            if figures.failed == 1 {
                eprintln!("cycle {cycle}: {}", line["warning"]);
            }
        }
        if line["due"] == true {
            let threshold_percent = if simulation.profile == "collapse" { 85 } else { 75 };
            let last_run = if line["fallback"].is_null() { &line } else { &line["fallback"] };
            let after = last_run["report"]["tokens"]["view_after"].as_u64();
            match after {
                Some(after) if after <= simulation.window * threshold_percent / 100 => {
                    figures.used_percent.push(after * 100 / simulation.window);
                }
                Some(_) | None => figures.above_threshold += 1,
            }
            let shown_summaries = shown_summaries(&growing.elements(), growing.turns);
            figures.shown_summaries_max = figures.shown_summaries_max.max(shown_summaries);
        }
    }
    growing.world.run(&[growing.name, "--reset"]).exits(0);
    assert!(growing.current_bytes() == growing.raw, "events were lost");
    figures
}

/// Runs a simulation, and prints its figures.
#[track_caller]
fn check(simulation: &Simulation) {
    let figures = simulate(simulation);
    eprintln!("{TABLE_HEAD}\n{}", figures.row(simulation));
    let compactions = figures.used_percent.len();
    assert!(compactions >= simulation.cycles / 15, "too few compactions: {compactions}");
    assert_eq!((figures.above_threshold, figures.failed, figures.refused), (0, 0, 0));
    assert!(figures.shown_summaries_max <= 1, "{} summaries", figures.shown_summaries_max);
    assert!(figures.largest_request <= simulation.window);
    if simulation.profile == "collapse" {
        assert!(
            figures.used_percent.iter().all(|percent| (15..=35).contains(percent)),
            "{:?}",
            figures.used_percent
        );
    }
    if simulation.cycles >= 200 {
        // A profile that seldom needs a model may have no request in the early cycles. Its first
        // request is used in their place.
        let first = figures.prompt_tokens.first().map_or(0, |(_, tokens)| *tokens);
        let early = Some(figures.median(11..=60)).filter(|tokens| *tokens > 0).unwrap_or(first);
        let late = figures.median(151..=200);
        eprintln!("requests by cycle: {:?}", figures.prompt_tokens);
        assert!(late * 100 <= early * 125, "{early} -> {late}");
    }
}

const AUTO_SUMMARIZE: Simulation =
    Simulation { profile: "auto-summarize", window: 6_000, cycles: 40, turn_size: (80, 300) };
const HEAVY: Simulation = Simulation { profile: "heavy", window: 6_000, cycles: 40, turn_size: (60, 200) };
const COLLAPSE: Simulation =
    Simulation { profile: "collapse", window: 6_000, cycles: 40, turn_size: (40, 100) };
const AGENT: Simulation = Simulation { profile: "agent", window: 32_000, cycles: 40, turn_size: (80, 300) };

#[test]
fn auto_summarize_keeps_the_view_small_for_40_cycles_with_small_window() {
    check(&AUTO_SUMMARIZE);
}

#[test]
fn heavy_keeps_the_view_small_for_40_cycles_with_small_window() {
    check(&HEAVY);
}

#[test]
fn collapse_keeps_the_view_small_for_40_cycles_with_small_window() {
    check(&COLLAPSE);
}

#[test]
fn agent_keeps_the_view_small_for_40_cycles() {
    check(&AGENT);
}

/// Runs 200 cycles with this window. `.ci/nightly` runs the tests that call this function.
#[track_caller]
fn check_window(simulation: &Simulation, window: u64) {
    check(&Simulation { window, cycles: 200, ..*simulation });
}

#[test]
#[ignore = "200 cycles take minutes"]
fn auto_summarize_keeps_the_view_small_for_200_cycles() {
    [6_000, 32_000].into_iter().for_each(|window| check_window(&AUTO_SUMMARIZE, window));
}

#[test]
#[ignore = "200 cycles take minutes"]
fn auto_summarize_keeps_the_view_small_for_200_cycles_with_large_window() {
    check_window(&AUTO_SUMMARIZE, 200_000);
}

#[test]
#[ignore = "200 cycles take minutes"]
fn heavy_keeps_the_view_small_for_200_cycles() {
    [6_000, 32_000].into_iter().for_each(|window| check_window(&HEAVY, window));
}

#[test]
#[ignore = "200 cycles take minutes"]
fn heavy_keeps_the_view_small_for_200_cycles_with_large_window() {
    check_window(&HEAVY, 200_000);
}

#[test]
#[ignore = "200 cycles take minutes"]
fn collapse_keeps_the_view_small_for_200_cycles() {
    [6_000, 32_000].into_iter().for_each(|window| check_window(&COLLAPSE, window));
}

#[test]
#[ignore = "200 cycles take minutes"]
fn collapse_keeps_the_view_small_for_200_cycles_with_large_window() {
    check_window(&COLLAPSE, 200_000);
}

#[test]
#[ignore = "200 cycles take minutes"]
fn agent_keeps_the_view_small_for_200_cycles() {
    [6_000, 32_000].into_iter().for_each(|window| check_window(&AGENT, window));
}

#[test]
#[ignore = "200 cycles take minutes"]
fn agent_keeps_the_view_small_for_200_cycles_with_large_window() {
    check_window(&AGENT, 200_000);
}
