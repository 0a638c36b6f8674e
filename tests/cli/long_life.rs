//! Automatic compaction of one conversation over many cycles. A model on loopback refuses every request that exceeds
//! its window. The conversation grows by one turn in each cycle. The figures are printed with `--nocapture`.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use crate::support::{Conversation, World};

/// What the model was sent since the last call of `take`.
#[derive(Debug, Default, Clone, Copy)]
struct Sent {
    requests: u64,
    /// The tokens of the prompts.
    read: u64,
    /// The largest request, with the output that it allows.
    largest: u64,
    /// The requests above the window.
    refused: u64,
}

/// A model with a hard window. It writes a third of the tokens that it may, and at most a sixth of what it reads.
#[derive(Clone)]
struct HardWindow {
    window: u64,
    sent: Arc<Mutex<Sent>>,
}

/// The model's own count of tokens. It differs from the host's estimate of four characters for each.
fn tokens(chars: usize) -> u64 {
    (chars as u64 * 10).div_ceil(37)
}

impl Respond for HardWindow {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = request.body_json().unwrap();
        let messages = body["messages"].as_array().unwrap();
        let text = |message: &Value| message["content"].as_str().unwrap().chars().count();
        let read = tokens(messages.iter().map(text).sum());
        let limit = ["max_tokens", "max_completion_tokens"].iter().find_map(|key| body[*key].as_u64());
        let limit = limit.unwrap_or(self.window);
        let mut sent = self.sent.lock().unwrap();
        sent.requests += 1;
        sent.largest = sent.largest.max(read + limit);
        if read + limit > self.window {
            sent.refused += 1;
            let what = format!("{} tokens exceed the window of {}", read + limit, self.window);
            return ResponseTemplate::new(400).set_body_json(json!({"error": {"message": what}}));
        }
        sent.read += read;
        let words = (limit / 3).min(read / 6).max(8);
        let answer = format!("Part {read}. {}", "note ".repeat(usize::try_from(words * 4 / 5).unwrap()));
        let usage = json!({"prompt_tokens": read, "completion_tokens": words, "total_tokens": read + words});
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

/// A turn of 1 to 60 calls with about this many tokens.
fn turn(number: usize, tokens: u64, numbers: &mut Numbers) -> Conversation {
    let steps = numbers.next(1, 60).min(tokens / 40).max(1);
    let chars = usize::try_from(tokens * 4 / steps).unwrap().saturating_sub(60).max(20);
    let base = Conversation::new().turn(&format!("Request {number}."));
    (0..steps)
        .fold(base, |turn, step| {
            let output = format!("{number}.{step} {}", "a line of it\n".repeat(chars / 13));
            turn.call("read", json!({"path": format!("{number}.rs")}), &output)
        })
        .message(&format!("Answer {number}."))
}

/// Appends events to a conversation in JP's layout.
fn append(bytes: &[u8], more: &Conversation) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    let Some(body) = text.strip_suffix("\n]\n") else { return more.bytes() };
    let more = String::from_utf8(more.bytes()).unwrap();
    format!("{body},{}", more.strip_prefix('[').unwrap()).into_bytes()
}

/// The number of summaries that the view shows.
fn pairs(events: &[u8]) -> usize {
    let events: Vec<Value> = serde_json::from_slice(events).unwrap();
    let turns = events.iter().filter(|event| event["type"] == "turn_start").count();
    let mut shown = vec![None; turns];
    let summaries =
        events.iter().filter(|event| event["type"] == "compaction" && event["summary"].is_object());
    for (number, summary) in summaries.enumerate() {
        let end = |key: &str| usize::try_from(summary[key].as_u64().unwrap()).unwrap();
        shown[end("from_turn")..=end("to_turn")].fill(Some(number));
    }
    shown.into_iter().flatten().collect::<BTreeSet<_>>().len()
}

/// The parameters of one simulation.
struct Life {
    profile: &'static str,
    window: u64,
    cycles: usize,
    /// The size of a turn, in thousandths of the window.
    turn: (u64, u64),
}

/// The figures of one simulation.
#[derive(Debug, Default)]
struct Figures {
    /// The view above the threshold after a cycle.
    above: usize,
    failed: usize,
    pairs_max: usize,
    largest: u64,
    refused: u64,
    /// For each cycle in which the model was asked: the cycle, and the tokens that it read.
    read: Vec<(usize, u64)>,
    /// The share of the window that is in use after each compaction, in percent.
    used: Vec<u64>,
}

impl Figures {
    /// The median of the tokens that were read in these cycles.
    fn median(&self, cycles: std::ops::RangeInclusive<usize>) -> u64 {
        let mut read: Vec<u64> =
            self.read.iter().filter(|(cycle, _)| cycles.contains(cycle)).map(|(_, read)| *read).collect();
        read.sort_unstable();
        read.get(read.len() / 2).copied().unwrap_or(0)
    }

    fn row(&self, life: &Life) -> String {
        let (least, most) = (self.used.iter().min(), self.used.iter().max());
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {}-{} % |",
            life.profile,
            life.window,
            self.read.len(),
            self.failed,
            self.above,
            self.pairs_max,
            self.median(11..=60),
            self.median(151..=200),
            self.largest,
            self.refused,
            least.copied().unwrap_or(0),
            most.copied().unwrap_or(0),
        )
    }
}

const HEAD: &str = "| profile | window | compactions | failed | above | pairs | median 11-60 | median 151-200 | largest | refused | in use |";

fn live(life: &Life) -> Figures {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let sent = Arc::new(Mutex::new(Sent::default()));
    let model = HardWindow { window: life.window, sent: Arc::clone(&sent) };
    let server = runtime.block_on(MockServer::builder().disable_request_recording().start());
    runtime.block_on(Mock::given(any()).respond_with(model).mount(&server));
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::new());
    let (mut raw, mut numbers, mut figures) = (Vec::new(), Numbers(life.window), Figures::default());
    for cycle in 1..=life.cycles {
        let tokens = life.window * numbers.next(life.turn.0, life.turn.1) / 1000;
        let more = turn(cycle, tokens, &mut numbers);
        raw = append(&raw, &more);
        fs::write(&transcript.path, append(&transcript.current_bytes(), &more)).unwrap();
        let window = life.window.to_string();
        let mut command = world.command(&["auto", "conversation", "--json"]);
        command.args(["--profile", life.profile, "--model", "openai/g", "--context-window", &window]);
        command.args(["--llm-budget-tokens", "1000000000", "--llm-budget-requests", "1000000"]);
        command.env("OPENAI_BASE_URL", server.uri()).env("OPENAI_API_KEY", "sk-0123456789");
        let line = world.finish(&mut command).exits(0).line();
        let now = std::mem::take(&mut *sent.lock().unwrap());
        figures.largest = figures.largest.max(now.largest);
        figures.refused += now.refused;
        if now.requests > 0 {
            figures.read.push((cycle, now.read));
        }
        if !line["warning"].is_null() {
            figures.failed += 1;
            if figures.failed == 1 {
                eprintln!("cycle {cycle}: {}", line["warning"]);
            }
        }
        if line["due"] == true {
            let trigger = if life.profile == "collapse" { 85 } else { 75 };
            let after = line["report"]["tokens"]["view_after"].as_u64();
            match after {
                Some(after) if after <= life.window * trigger / 100 => {
                    figures.used.push(after * 100 / life.window);
                }
                Some(_) | None => figures.above += 1,
            }
            figures.pairs_max = figures.pairs_max.max(pairs(&transcript.current_bytes()));
        }
    }
    world.run(&["conversation", "--reset"]).exits(0);
    assert!(transcript.current_bytes() == raw, "events were lost");
    figures
}

/// Runs a simulation, and prints its figures.
#[track_caller]
fn check(life: &Life) {
    let figures = live(life);
    eprintln!("{HEAD}\n{}", figures.row(life));
    assert!(figures.read.len() >= life.cycles / 15, "too few compactions: {}", figures.read.len());
    assert_eq!((figures.above, figures.failed, figures.refused), (0, 0, 0));
    assert_eq!(figures.pairs_max, 1);
    assert!(figures.largest <= life.window);
    if life.profile == "collapse" {
        assert!(figures.used.iter().all(|used| (15..=35).contains(used)), "{:?}", figures.used);
    }
    if life.cycles >= 200 {
        let (early, late) = (figures.median(11..=60), figures.median(151..=200));
        assert!(late * 100 <= early * 125, "{early} -> {late}");
    }
}

const AUTO_SUMMARIZE: Life = Life { profile: "auto-summarize", window: 6_000, cycles: 40, turn: (80, 300) };
const HEAVY: Life = Life { profile: "heavy", window: 6_000, cycles: 40, turn: (60, 200) };
const COLLAPSE: Life = Life { profile: "collapse", window: 6_000, cycles: 40, turn: (40, 100) };

#[test]
fn a_small_window_holds_for_40_cycles() {
    [AUTO_SUMMARIZE, HEAVY, COLLAPSE].iter().for_each(check);
}

/// Runs 200 cycles with each window. `.ci/nightly` does it.
#[track_caller]
fn check_windows(life: &Life) {
    for window in [6_000, 32_000, 200_000] {
        check(&Life { window, cycles: 200, ..*life });
    }
}

#[test]
#[ignore = "200 cycles with each window take minutes"]
fn auto_summarize_holds_for_200_cycles() {
    check_windows(&AUTO_SUMMARIZE);
}

#[test]
#[ignore = "200 cycles with each window take minutes"]
fn heavy_holds_for_200_cycles() {
    check_windows(&HEAVY);
}

#[test]
#[ignore = "200 cycles with each window take minutes"]
fn collapse_holds_for_200_cycles() {
    check_windows(&COLLAPSE);
}
