//! Large transcripts with the profile `heavy` and a model on loopback. With a sufficient budget, any number of parts is
//! sent, each fits the context window, and the peak memory is at most 64 MiB above the size of the file. With the
//! default budget, the run stops before the first request. `JP_COMPACT_TEST_MEGABYTES` sets the size.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wait4::Wait4 as _;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer};

use crate::long_life::{HardWindow, Usage};
use crate::support::{Conversation, World};

const WINDOW: u64 = 200_000;
const MEMORY_ABOVE_FILE: u64 = 64 << 20;

/// Writes a conversation of at least this many bytes, one turn at a time. The process of the test must stay small,
/// because the kernel adds its memory to the memory of its child processes.
fn write_conversation(path: &Path, bytes: u64) -> u64 {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = BufWriter::new(File::create(path).unwrap());
    let mut written = 0;
    for turn in 0.. {
        let mut conversation = Conversation::new().turn(&format!("Request {turn}: fix the parser."));
        for call in 0..10 {
            let line = |number| format!("{turn}.{call}.{number} let value = compute({number});\n");
            let output: String = (0..100).map(line).collect();
            conversation = conversation.call("read", json!({"path": format!("src/{turn}.rs")}), &output);
        }
        let text = String::from_utf8(conversation.message("It is fixed.").bytes()).unwrap();
        let elements = text.strip_prefix('[').unwrap().strip_suffix("\n]\n").unwrap();
        let separator = if turn == 0 { "[" } else { "," };
        file.write_all(separator.as_bytes()).unwrap();
        file.write_all(elements.as_bytes()).unwrap();
        written += elements.len() as u64 + 1;
        if written > bytes {
            break;
        }
    }
    file.write_all(b"\n]\n").unwrap();
    file.flush().unwrap();
    written + 3
}

/// The result of a run.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// The peak memory of the host or of a strategy.
    peak_bytes: u64,
    usage: Usage,
}

fn run(world: &World, model: &HardWindow, address: &str, budget: &[&str]) -> Run {
    let [out, err] = ["out", "err"].map(|name| world.path(name));
    let mut command = world.command(&["conversation", "--profile", "heavy", "--model", "openai/g", "--json"]);
    command.args(["--context-window", &WINDOW.to_string()]).args(budget);
    command.env("OPENAI_BASE_URL", address).env("OPENAI_API_KEY", "sk-0123456789");
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let ended = world.spawn(&mut command).wait4().unwrap();
    let [stdout, stderr] = [out, err].map(|path| fs::read_to_string(path).unwrap());
    let usage = std::mem::take(&mut *model.usage.lock().unwrap());
    Run { code: ended.status.code(), stdout, stderr, peak_bytes: ended.rusage.maxrss, usage }
}

#[test]
#[ignore = "16 MB take a minute; `.ci/nightly` runs it"]
fn heavy_compacts_a_large_transcript_within_its_budget() {
    let megabytes = std::env::var("JP_COMPACT_TEST_MEGABYTES").unwrap_or_else(|_| "16".to_owned());
    let megabytes: u64 = megabytes.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let model = HardWindow { window: WINDOW, usage: Arc::new(Mutex::new(Usage::default())) };
    let server = runtime.block_on(MockServer::builder().disable_request_recording().start());
    runtime.block_on(Mock::given(any()).respond_with(model.clone()).mount(&server));
    let world = World::new();
    let file_bytes = write_conversation(&world.path("conversation/events.json"), megabytes * 1_000_000);

    let stopped = run(&world, &model, &server.uri(), &[]);
    assert_eq!((stopped.code, stopped.usage.requests), (Some(18), 0), "{}", stopped.stderr);
    // Which of the two budgets is exceeded first depends on the size.
    let estimates = ["the budget of 2000000 has 2000000 left", "the budget of 500 has 500 left"];
    assert!(estimates.iter().any(|part| stopped.stderr.contains(part)), "{}", stopped.stderr);
    let options = "raise the budget with `--llm-budget-tokens N` or `--llm-budget-requests N`";
    assert!(stopped.stderr.contains(options), "{}", stopped.stderr);

    let budget = ["--llm-budget-tokens", "1000000000", "--llm-budget-requests", "1000000"];
    let done = run(&world, &model, &server.uri(), &budget);
    eprintln!(
        "{} MB: {} requests, {} tokens of prompts, largest {}, peak memory {} MiB, file {} MiB",
        megabytes,
        done.usage.requests,
        done.usage.prompt_tokens,
        done.usage.largest_request,
        done.peak_bytes >> 20,
        file_bytes >> 20,
    );
    eprintln!("without a budget: {}", stopped.stderr);
    assert_eq!((done.code, done.usage.refused), (Some(0), 0), "{}", done.stderr);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report["overlays"].as_array().map(Vec::len), Some(1));
    assert!(done.usage.largest_request <= WINDOW);
    assert!(
        done.peak_bytes <= file_bytes + MEMORY_ABOVE_FILE,
        "{} bytes for {file_bytes} bytes",
        done.peak_bytes
    );
}
