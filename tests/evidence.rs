//! Tests that the tables of `docs/evidence.md` are current: sessions are generated and evaluated, and the results are
//! compared with the page. With `UPDATE_EVIDENCE=1` the tests write the tables.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may panic, and starts processes")]

#[path = "evidence/formats.rs"]
mod formats;
#[path = "evidence/session.rs"]
mod session;
#[path = "examples/world.rs"]
#[expect(dead_code, reason = "other test crates use the rest")]
mod world;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/evidence.md");
const BEGIN: &str = "<!-- generated sessions -->\n";
const END: &str = "<!-- end -->\n";
/// The rows of the table, as they are written on the command line.
const STRATEGIES: [&str; 17] = [
    "strip-tools",
    "strip-tools:mode=strip-responses",
    "micro",
    "digest",
    "extract",
    "extract:keep_steps=0",
    "extract:keep_steps=0,merge=8",
    "extract:keep_steps=0,budget=0.25,prose=0,edge_lines=7",
    "extract:keep_steps=0,merge=8,budget=1,line_bytes=10,edge_lines=0,min_bytes=0,exempt=[]",
    "extract:keep_steps=0,merge=16,budget=1,prose=1,line_bytes=10,edge_lines=0,min_bytes=0,exempt=[]",
    "trim",
    "trim:preset=clear-tool-uses",
    "trim:preset=opencode-prune",
    "trim:preset=gemini-mask",
    "trim:preset=mask-10",
    "trim:preset=head-300",
    "trim:preset=cap-8000",
];
const CLASSES: [&str; 6] = ["path", "number", "identifier", "word", "quote", "constraint"];

/// Writes six sessions in two formats.
fn write_sessions(folder: &Path) {
    for seed in 0..3 {
        let claude_code = formats::claude_code(&session::generate(seed, 24));
        fs::write(folder.join(format!("claude-code-{seed}.jsonl")), claude_code).unwrap();
        let openai_chat = formats::openai_chat(&session::generate(seed + 3, 24));
        fs::write(folder.join(format!("openai-chat-{}.json", seed + 3)), openai_chat).unwrap();
    }
}

/// Evaluates all rows on the sessions.
fn evaluate() -> Value {
    let temp = tempfile::tempdir().unwrap();
    let sessions = temp.path().join("sessions");
    fs::create_dir(&sessions).unwrap();
    write_sessions(&sessions);
    let mut command = Command::new(cargo_bin!("jp-compact"));
    command.env_clear().env("HOME", temp.path()).env("PATH", "/usr/bin:/bin").current_dir(temp.path());
    command.args(["eval", "sessions", "--json", "--sandbox=contained"]);
    for strategy in STRATEGIES {
        command.args(["--strategy", strategy]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the table of a report in Markdown.
fn table(report: &Value) -> String {
    let mut text = String::from(
        "| strategy | saved | paths | numbers | identifiers | words | quotes | constraints | break-even |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for row in report["strategies"].as_array().unwrap() {
        assert_eq!(row["status"], "ok", "{row}");
        let percent = |value: &Value| value.as_f64().map_or("–".into(), |percent| format!("{percent:.1}"));
        write!(text, "| `{}` | {}", row["label"].as_str().unwrap(), percent(&row["saved"]["percent"]))
            .unwrap();
        for class in CLASSES {
            write!(text, " | {}", percent(&row["recall"][class]["percent"])).unwrap();
        }
        writeln!(text, " | {} |", percent(&row["cache"]["break_even_requests"])).unwrap();
    }
    text
}

/// Held while a test reads and writes the page, because two tests write it.
static PAGE_ACCESS: Mutex<()> = Mutex::new(());

fn page_access() -> MutexGuard<'static, ()> {
    PAGE_ACCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn table_of_generated_sessions_is_current() {
    let report = evaluate();
    let _access = page_access();
    let cuts: u64 =
        report["transcripts"].as_array().unwrap().iter().map(|one| one["cuts"].as_u64().unwrap()).sum();
    assert_eq!(cuts, 18, "three cuts for each session");
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (current, after) = rest.split_once(END).unwrap();
    let table = table(&report);
    if std::env::var_os("UPDATE_EVIDENCE").is_some() {
        fs::write(PAGE, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
        return;
    }
    assert_eq!(current.trim(), table.trim(), "run `UPDATE_EVIDENCE=1 cargo test --test evidence`");
}

/// The folder with public sessions. They are not in the repository.
const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/transcripts");

/// `JP_COMPACT_TEST_SESSIONS` is the folder that `tests/evidence/public.py` gets as `--checkout`.
/// Without it, three tables are not compared.
#[test]
#[ignore = "needs public sessions and a release build; `.ci/nightly` runs it"]
fn tables_of_public_sessions_are_current() {
    if !Path::new(SESSIONS).is_dir() {
        #[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
        {
            eprintln!("{SESSIONS} is missing: the tables of public sessions were not compared");
        }
        return;
    }
    let plugins = tempfile::tempdir().unwrap();
    for name in world::EXAMPLES {
        let installed = world::Installed::new(name).unwrap();
        fs::rename(installed.folder(), plugins.path().join(name)).unwrap();
    }
    let mut command = std::process::Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evidence/public.py")).arg(PAGE);
    command.arg("--jp-compact").arg(cargo_bin!("jp-compact")).arg("--plugins").arg(plugins.path());
    command.args(["--sessions", SESSIONS]);
    // An empty variable counts as unset.
    if let Some(checkout) = std::env::var_os("JP_COMPACT_TEST_SESSIONS").filter(|path| !path.is_empty()) {
        command.arg("--checkout").arg(checkout);
    }
    if std::env::var_os("UPDATE_EVIDENCE").is_some() {
        command.arg("--write");
    }
    let _access = page_access();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_seed_gives_the_same_session() {
    let session = |seed| formats::claude_code(&session::generate(seed, 6));
    assert_eq!(session(1), session(1));
    assert_ne!(session(1), session(2));
}
