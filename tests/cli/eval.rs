//! `jp-compact eval`: the counts, the table, gates, and failures, with the bundled strategies. A Python program with
//! its own implementation of the definitions must get the same counts.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::json_documents::check_schema;
use crate::support::{Conversation, Model, World};

const CLASSES: [&str; 8] =
    ["path", "number", "identifier", "word", "command", "error", "quote", "constraint"];
const WORDS: [&str; 12] = [
    "boundary",
    "checker",
    "pipeline",
    "observer",
    "transport",
    "scheduler",
    "workspace",
    "manifest",
    "resolver",
    "snapshot",
    "compiler",
    "fragment",
];

/// A generator of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Returns a session of an agent with this many calls. Its assistant uses names from earlier results.
fn session(seed: u64, calls: usize) -> Conversation {
    let mut random = Random(seed);
    let mut session = Conversation::new().turn("Find the bug. Never edit generated files! Thanks.");
    for call in 0..calls {
        if call > 0 && call % 9 == 0 {
            session = session
                .message(&format!("Done with part {call}."))
                .turn(&format!("Continue. You must keep src/api_{}.rs as it is.", random.below(calls)));
        }
        let mut old = || Name { call: random.below(call + 1), line: random.below(LINES) };
        if call % 3 == 0 {
            session = session.reasoning(&format!("Not sure. {} matters.", old().text()));
        }
        let uses: Vec<_> = (0..4).map(|_| old().text()).collect();
        session = session.message(&format!("I saw {}. It said: {}", uses.join(" and "), quote(old().call)));
        let name = old();
        session = match call % 4 {
            0 => session.call("fs_read_file", json!({"path": name.path()}), &output(call, &name)),
            1 => {
                let command = format!("grep -n code_{} src\nls", name.call % 3);
                session.call("bash", json!({ "command": command }), &output(call, &name))
            }
            2 => {
                let edit = json!({"path": name.path(), "old": quote(name.call), "line": name.number()});
                session.call("fs_edit", json!({"edits": [edit], "all": true}), "ok")
            }
            _ => session.failing_call("bash", json!({"command": "cargo test"}), &output(call, &name)),
        };
    }
    session.message("Everything is done.")
}

/// The number of lines of a result that introduce names.
const LINES: usize = 12;

/// The names in one line of one result.
struct Name {
    call: usize,
    line: usize,
}

impl Name {
    fn number(&self) -> usize {
        10_000 + self.call * 100 + self.line
    }

    fn path(&self) -> String {
        format!("src/mod_{}/part_{}.rs", self.call, self.line)
    }

    fn text(&self) -> String {
        let Self { call, line } = self;
        let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
        let word: String = [call / 26, *call, *line].map(letter).iter().collect();
        format!(
            "{}: handler_c{call}_{line} {} {word}{}",
            self.path(),
            self.number(),
            WORDS[line % WORDS.len()]
        )
    }
}

/// Returns a passage. Of all results, only the result of this call has it. Later messages and edits quote it.
fn quote(call: usize) -> String {
    let words: Vec<_> = (0..10).map(|word| format!("{}{call}", WORDS[(call * 7 + word * 5) % 12])).collect();
    words.join(" ")
}

/// Returns the result of a call. It repeats a name of this or an earlier result.
fn output(call: usize, repeated: &Name) -> String {
    let mut lines: Vec<_> = (0..LINES).map(|line| Name { call, line }.text()).collect();
    lines.push(quote(call));
    lines.push(repeated.text());
    if call % 4 == 3 {
        lines.push(format!("  error: test {call} failed at 12:34  "));
    }
    lines.join("\n")
}

/// Returns the row with this label.
#[track_caller]
fn row<'a>(report: &'a Value, label: &str) -> &'a Value {
    let mut rows = report["strategies"].as_array().unwrap().iter();
    rows.find(|row| row["label"] == label).unwrap_or_else(|| panic!("no row {label}: {report:#}"))
}

/// Runs `eval --json` with these arguments, checks its report, and returns it.
#[track_caller]
fn evaluate(world: &World, arguments: &[&str], exit: i32) -> Value {
    let arguments: Vec<&str> = ["eval", "--json"].iter().chain(arguments).copied().collect();
    let report = world.run(&arguments).exits(exit).line();
    check_schema("eval-report", &report);
    report
}

/// Returns a world with a session in `talk`.
fn world() -> World {
    let world = World::new();
    world.write_conversation("talk", &session(1, 48));
    world
}

#[test]
fn counts_equal_the_counts_of_an_independent_program() {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("no python3: the counts of `eval` are not compared");
        return;
    }
    let world = World::new();
    for seed in [1, 2] {
        let session = session(seed, 60);
        world.write_conversation("talk", &session);
        for strategy in ["strip-tools", "strip-tools:mode=strip-responses"] {
            compare_with_python(&world, &session, strategy);
        }
    }
}

#[track_caller]
fn compare_with_python(world: &World, session: &Conversation, strategy: &str) {
    let report = evaluate(world, &["talk", "--cut=62", "-s", strategy], 0);
    let print = |folder: &str, view: &[&str]| {
        let arguments: Vec<_> = ["print", folder, "--json"].iter().chain(view).copied().collect();
        let file = format!("{folder}.json");
        world.write_file(&file, &world.run(&arguments).exits(0).stdout);
        file
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evidence/check.py");
    let python = |arguments: &[&str]| {
        let mut command = Command::new("/usr/bin/python3");
        world.isolate(&mut command).arg(script).args(arguments);
        let output = world.finish(&mut command).exits(0);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let whole = print("talk", &[]);
    let cut = python(&["cut", &whole, "62"]);
    assert_eq!(report["transcripts"][0]["cut_points"][0]["events"], cut);
    // The prefix as a separate conversation, compacted by the strategy.
    let mut left = cut.as_u64().unwrap();
    let is_visible = |element: &Value| element["type"] != "turn_start";
    let elements = session.elements().iter().take_while(|element| {
        let is_first = left > 0;
        left -= u64::from(is_visible(element) && is_first);
        is_first
    });
    let prefix: Vec<&Value> = elements.collect();
    world.write_events("prefix", &serde_json::to_vec(&prefix).unwrap());
    world.run(&["prefix", "-s", strategy, "--keep-last=0"]).exits(0);
    let view = print("prefix", &["--compacted"]);
    let counts = python(&["recall", &whole, &cut.to_string(), &view]);
    let recall = &row(&report, strategy)["recall"];
    for class in CLASSES {
        let counted = json!([recall[class]["kept"], recall[class]["at_risk"]]);
        assert_eq!(counted, counts[class], "{class} of {strategy}");
    }
    // Without data, the comparison above would prove nothing.
    for class in ["path", "number", "identifier", "word", "quote"] {
        let (kept, at_risk) = (&counts[class][0], counts[class][1].as_u64().unwrap());
        assert!(at_risk >= 5 && kept.as_u64().unwrap() < at_risk, "{class} of {strategy}: {counts}");
    }
    assert!(counts["command"][1].as_u64().unwrap() > 0 && counts["constraint"][1].as_u64().unwrap() > 2);
}

#[test]
fn none_keeps_everything_and_drop_all_keeps_nothing() {
    let world = world();
    let report = evaluate(&world, &["talk", "-s", "strip-tools"], 0);
    let (none, all, strip) = (row(&report, "none"), row(&report, "drop-all"), row(&report, "strip-tools"));
    assert_eq!((&none["saved"]["percent"], &all["saved"]["percent"]), (&json!(0.0), &json!(100.0)));
    for class in CLASSES {
        let at_risk = &none["recall"][class]["at_risk"];
        assert_eq!(&none["recall"][class]["kept"], at_risk, "{class}");
        assert_eq!(all["recall"][class]["kept"], 0, "{class}");
        assert_eq!(&strip["recall"][class]["at_risk"], at_risk, "{class}");
    }
    assert!(none["cache"]["break_even_requests"].is_null());
    assert_eq!(none["cache"]["prefix_kept_percent"], 100.0);
    assert_eq!(report["transcripts"][0]["cuts"], 3);
    let tokens = strip["tokens"]["view_after"].as_u64().unwrap();
    for control in ["newest", "random"] {
        let used = strip["controls"][control]["tokens"].as_u64().unwrap();
        assert!(used <= tokens && used * 10 > tokens * 9, "{control}: {used} of {tokens}");
    }
}

#[test]
fn output_does_not_depend_on_threads_or_overlays() {
    let world = World::new();
    for (folder, seed) in [("a", 3), ("b", 4), ("c", 5)] {
        world.write_conversation(&format!("all/{folder}"), &session(seed, 40));
    }
    let arguments = ["eval", "all", "--json", "-s", "strip-tools", "-s", "micro:keep_recent=2"];
    let run = |jobs: &'static str| world.run(&[arguments.as_slice(), &[jobs]].concat()).exits(0).stdout;
    let first = run("-j1");
    assert_eq!(first, run("-j3"));
    let before = std::fs::read(world.path("all/a/events.json")).unwrap();
    // The digest differs after a compaction, but the counts do not.
    world.run(&["all/a", "-s", "strip-tools", "--keep-last=0"]).exits(0);
    let with_overlays: Value = serde_json::from_slice(&run("-j2")).unwrap();
    let without: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(with_overlays["strategies"], without["strategies"]);
    world.run(&["all/a", "--reset"]).exits(0);
    assert_eq!(run("-j2"), first);
    assert_eq!(std::fs::read(world.path("all/a/events.json")).unwrap(), before);
}

#[test]
fn table_fits_80_columns() {
    let world = world();
    let long = "micro:keep_recent=2,min_bytes=100";
    let output = world.run(&["eval", "talk", "--rounds", "-s", "strip-tools", "-s", long]).exits(0);
    let lines: Vec<&str> = output.text().lines().collect();
    for line in lines.iter().filter(|line| !line.starts_with("  declined")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(lines.iter().any(|line| line.starts_with("micro:keep_recent=2,mi~ ")), "{}", output.text());
    assert!(output.text().contains(" of "), "both counts are printed");
}

#[track_caller]
fn check_gate(arguments: &[&str], exit: i32, reason: &str) {
    let world = world();
    let arguments: Vec<&str> = ["talk", "-s", "strip-tools"].iter().chain(arguments).copied().collect();
    let report = evaluate(&world, &arguments, exit);
    let gate = &report["gates"][0];
    assert_eq!(gate["met"], exit == 0);
    let text = gate["failures"].to_string();
    assert!(if exit == 0 { text == "[]" } else { text.contains(reason) }, "{text}");
}

#[test]
fn gates_are_checked_for_every_strategy() {
    check_gate(&["--require-recall=0"], 0, "");
    check_gate(&["--require-recall=100"], 3, "path: ");
    check_gate(&["--require-recall=100:quote"], 3, "quote: ");
    check_gate(&["--require-recall=50:error"], 3, "error: not enough data (0 at risk)");
    check_gate(&["--require-saving=10"], 0, "");
    check_gate(&["--require-saving=99.9"], 3, "saves ");
    check_gate(&["--require-break-even=1000"], 0, "");
    check_gate(&["--require-break-even=0"], 3, "pays back after ");
}

#[test]
fn gates_do_not_round() {
    let world = world();
    let arguments = ["talk", "-s", "strip-tools"];
    let row = evaluate(&world, &arguments, 0)["strategies"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "strip-tools")
        .unwrap()
        .clone();
    let percent = |part: &Value, whole: &Value| part.as_f64().unwrap() * 100.0 / whole.as_f64().unwrap();
    let saved = percent(&row["saved"]["tokens"], &row["tokens"]["view_before"]);
    let quotes = &row["recall"]["quote"];
    let recall = percent(&quotes["kept"], &quotes["at_risk"]);
    for (gate, exact, class) in [("--require-saving", saved, ""), ("--require-recall", recall, ":quote")] {
        for (minimum, exit) in [((exact - 1e-5).max(0.0), 0), (exact + 1e-5, 3)] {
            evaluate(&world, &[&arguments[..], &[&format!("{gate}={minimum:.6}{class}")]].concat(), exit);
        }
    }
}

#[test]
fn gate_is_not_met_if_one_row_misses_it() {
    let world = world();
    let gate = "--require-saving=50";
    evaluate(&world, &["talk", "-s", "strip-tools", gate], 0);
    let report = evaluate(&world, &["talk", "-s", "strip-tools", "-s", "strip-reasoning", gate], 3);
    let failures = report["gates"][0]["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0]["strategy"], "strip-reasoning");
}

#[test]
fn short_transcripts_are_not_enough_data() {
    let world = World::new();
    world.write_conversation("short", &Conversation::with_turns(4));
    let report = evaluate(&world, &["short", "-s", "strip-tools"], 0);
    let reason = "cut at 80 %: 4 tool results before the cut; at least 12 are needed";
    assert_eq!(report["transcripts"][0]["not_enough_data"], reason);
    assert_eq!(report["transcripts"][0]["results"], 4);
    assert_eq!(row(&report, "strip-tools")["status"], "not_enough_data");
    let report = evaluate(&world, &["short", "-s", "strip-tools", "--require-saving=0"], 3);
    assert_eq!(report["gates"][0]["met"], false);
    let text = world.run(&["eval", "short", "-s", "strip-tools"]).exits(0);
    assert!(text.text().contains("not enough data: no transcript has a cut point"), "{}", text.text());
}

#[test]
fn percent_needs_twenty_anchors_at_risk() {
    let world = World::new();
    world.write_conversation("talk", &session(1, 16));
    let report = evaluate(&world, &["talk", "--cut=80", "-s", "strip-tools"], 0);
    for class in CLASSES {
        let count = &row(&report, "none")["recall"][class];
        let is_enough = count["at_risk"].as_u64().unwrap() >= 20;
        assert_eq!(count["percent"].is_null(), !is_enough, "{class}: {count}");
        assert_eq!(count["interval"].is_null(), !is_enough, "{class}: {count}");
    }
    assert!(row(&report, "none")["recall"]["path"]["percent"].is_null());
}

#[test]
fn row_of_a_failing_strategy_has_its_error() {
    let world = world();
    world.write_plugin("broken", "echo 'no result' >&2; exit 7");
    let trusted = ["--trust-dir=plugins", "--sandbox=contained"];
    let arguments = [["talk", "-s", "broken"].as_slice(), &["-s", "strip-tools"], &trusted].concat();
    let report = evaluate(&world, &arguments, 19);
    let broken = row(&report, "broken");
    assert_eq!((&broken["status"], &broken["failed_on"]), (&json!("failed"), &json!("talk/events.json")));
    assert_eq!(broken["error"]["kind"], "strategy_crashed");
    assert_eq!(row(&report, "strip-tools")["status"], "ok");
    // A gate that only the failed row misses does not hide the failure.
    let with_gate = [arguments.as_slice(), &["--require-saving=10"]].concat();
    evaluate(&world, &with_gate, 19);
    let missed = [arguments.as_slice(), &["--require-saving=100"]].concat();
    evaluate(&world, &missed, 3);
    let text = world.run(&[["eval"].as_slice(), &arguments].concat()).exits(19).reports("1 strategy failed");
    assert!(text.text().contains("broken                  failed: "), "{}", text.text());
}

#[test]
fn any_executable_can_be_evaluated() {
    let world = world();
    let strip = r#"sed -En 's/.*"id":"([^"]*)".*"requested_range":\{([^}]*)\}.*/{"type":"result","id":"\1","compactions":[{\2,"tool_calls":{"policy":"strip","request":true,"response":true}}]}/p'"#;
    world.write_plugin("mine", strip);
    let arguments = ["talk", "-s", "mine", "-s", "strip-tools", "--trust-dir=plugins", "--sandbox=contained"];
    let report = evaluate(&world, &arguments, 0);
    let (mine, bundled) = (row(&report, "mine"), row(&report, "strip-tools"));
    assert_eq!(mine["recall"], bundled["recall"]);
    assert_eq!(mine["tokens"], bundled["tokens"]);
    assert_eq!(mine["rules_broken"], 0);
}

#[test]
fn recorded_answers_make_a_summary_row() {
    let world = world();
    let model = Model::with_answer("The user never wants generated files edited. See src/mod_1/lib.rs.");
    let mut record = world.command(&[
        "eval",
        "talk",
        "--json",
        "--cut=60",
        "-s",
        "summarize",
        "--model=openai/g",
        "--llm-record=answers.jsonl",
    ]);
    let recorded = world.finish(model.configure(&mut record)).exits(0).line();
    let asked = model.requests().len();
    assert!(asked > 0);
    let replayed = evaluate(&world, &["talk", "--cut=60", "-s", "summarize@answers.jsonl"], 0);
    assert_eq!(model.requests().len(), asked, "no model is asked again");
    let (recorded, replayed) = (row(&recorded, "summarize"), row(&replayed, "summarize@answers.jsonl"));
    assert_eq!(recorded["recall"], replayed["recall"]);
    assert_eq!(replayed["answers"], "answers.jsonl");
    let cost = &replayed["cache"]["families"][0];
    assert!(cost["summary"].as_f64().unwrap() > 0.0, "a summary has a price: {cost}");
    assert_eq!(cost["summary"], cost["one_time_cold"]);
}

#[test]
fn recall_of_strategies_without_a_model_is_the_same_after_ten_rounds() {
    let world = world();
    let report = evaluate(&world, &["talk", "--rounds", "-s", "strip-tools:mode=strip-responses"], 0);
    let rounds = row(&report, "strip-tools:mode=strip-responses")["rounds"].as_array().unwrap();
    let numbers: Vec<_> = rounds.iter().map(|round| round["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 5, 10]);
    assert!(rounds.iter().all(|round| round["recall"] == rounds[0]["recall"]), "{rounds:#?}");
    assert!(rounds[0]["recall"]["path"]["at_risk"].as_u64().unwrap() > 0);
    assert_eq!(row(&report, "none")["rounds"], json!([]));
}

#[test]
fn replay_compacts_above_the_threshold() {
    let world = world();
    let report = evaluate(&world, &["talk", "-s", "strip-tools", "--window=4000", "--threshold=50"], 0);
    let replay = |label| &row(&report, label)["replay"];
    let number = |label, key: &str| replay(label)[key].as_u64().unwrap();
    assert_eq!(number("none", "compactions"), 0);
    assert!(number("none", "above_window") > 0);
    assert!(number("strip-tools", "compactions") > 1);
    assert_eq!(number("strip-tools", "requests"), number("none", "requests"));
    assert!(number("strip-tools", "largest_context") < number("none", "largest_context"));
    assert!(number("drop-all", "largest_context") <= 2000);
    let large = evaluate(&world, &["talk", "-s", "strip-tools"], 0);
    assert_eq!(row(&large, "strip-tools")["replay"], row(&large, "none")["replay"]);
}

/// Each summary replaces the earlier ones, so the model reads the raw events again, not the smaller view.
#[test]
fn replay_counts_raw_events_that_each_summary_reads() {
    let world = world();
    let model = Model::with_answer("They read files.");
    let prices = "source = 's'\ndate = 'd'\n[[families]]\nname = 'input'\nread = 0\nwrite = 0\noutput = 0\n";
    world.write_file("prices.toml", prices.as_bytes());
    let arguments = ["eval", "talk", "--json", "-s", "summarize", "--model=openai/g"];
    let options = ["--window=4000", "--threshold=50", "--prices=prices.toml"];
    let mut command = world.command(&[&arguments[..], &options].concat());
    let report = world.finish(model.configure(&mut command)).exits(0).line();
    let replay = &row(&report, "summarize")["replay"];
    let compactions = replay["compactions"].as_f64().unwrap();
    assert!(compactions >= 3.0, "{replay}");
    // A view has about 2,000 tokens before each compaction. The raw events have 2,000 before the first one.
    assert!(replay["cost"].as_f64().unwrap() > compactions * 3000.0, "{replay}");
}

#[test]
fn prices_can_be_replaced() {
    let world = world();
    let prices = "source = 's'\ndate = 'd'\n[[families]]\nname = 'free'\nread = 0.5\nwrite = 0\n";
    world.write_file("prices.toml", prices.as_bytes());
    world.write_file("bad.toml", b"source = 1");
    let report = evaluate(&world, &["talk", "-s", "strip-tools", "--prices=prices.toml"], 0);
    assert_eq!(report["prices"]["families"][0]["name"], "free");
    assert_eq!(row(&report, "strip-tools")["cache"]["break_even_requests"], 0.0);
    let bad = ["eval", "talk", "-s", "strip-tools", "--prices=bad.toml"];
    world.run(&bad).exits(2).reports("failed to read the prices");
}

#[test]
fn time_is_reported_on_request_only() {
    let world = world();
    let report = evaluate(&world, &["talk", "-s", "strip-tools"], 0);
    assert!(row(&report, "strip-tools").get("milliseconds").is_none());
    let report = evaluate(&world, &["talk", "-s", "strip-tools", "--timings"], 0);
    assert!(row(&report, "strip-tools")["milliseconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn rejects_invalid_arguments() {
    let world = world();
    for (arguments, exit, message) in [
        (["talk", "-s=strip-tools", "--cut=100"].as_slice(), 2, "above 0 and below 100"),
        (&["talk", "-s=strip-tools", "--require-recall=101"], 2, "a number from 0 to 100"),
        (&["talk", "-s=strip-tools", "--require-recall=90:size"], 2, "unknown class `size`"),
        (&["talk", "-s=strip-tools", "--window=0"], 2, "--window"),
        (&["talk"], 2, "--strategy"),
        (&["talk", "-s=unknown"], 10, "unknown"),
        (&["talk", "-s=strip-tools:mode=x"], 2, "mode"),
        (&["missing", "-s=strip-tools"], 4, "missing"),
        (&["talk", "-s=summarize@missing.jsonl"], 2, "missing.jsonl"),
    ] {
        let arguments: Vec<_> = ["eval"].iter().chain(arguments).copied().collect();
        world.run(&arguments).exits(exit).reports(message);
    }
}

#[test]
fn answers_to_records_have_the_same_rows() {
    let world = world();
    let expected = evaluate(&world, &["talk", "-s", "strip-tools"], 0);
    let record = json!({"id": 1, "path": "talk/events.json"}).to_string();
    let arguments = ["batch", "--ndjson", "--eval", "-s", "strip-tools", "--keep-last=1"];
    let answer = world.run_with_stdin(&arguments, record.as_bytes()).exits(0).line();
    check_schema("batch-answer", &answer);
    assert_eq!(answer["eval"]["strategies"], expected["strategies"]);
    assert_eq!(answer["eval"]["transcripts"][0]["sha256"], expected["transcripts"][0]["sha256"]);
    assert!(answer["new_overlays"].as_u64().unwrap() > 0, "the record is compacted, too");
    let without: Vec<_> = arguments.into_iter().filter(|argument| *argument != "--eval").collect();
    let answer = world.run_with_stdin(&without, record.as_bytes()).exits(0).line();
    assert!(answer.get("eval").is_none());
}

/// An overlay for a whole turn would also apply to later events of the turn.
#[test]
fn replay_compacts_again_in_the_same_turn() {
    let world = World::new();
    let mut talk = Conversation::new().turn("Read it.");
    for call in 0..60 {
        talk = talk.call("read", json!({"path": format!("src/{call}.rs")}), &"some text here ".repeat(60));
    }
    world.write_conversation("talk", &talk.message("Done."));
    let report = evaluate(&world, &["talk", "-s", "strip-tools", "--window=4000", "--threshold=50"], 0);
    let replay = &row(&report, "strip-tools")["replay"];
    assert!(replay["compactions"].as_u64().unwrap() > 3, "{replay}");
    assert_eq!(replay["above_window"], 0, "{replay}");
}

#[test]
fn unreadable_transcript_fails_and_others_continue() {
    let world = world();
    world.write_events("bad", b"{");
    let report = evaluate(&world, &["talk", "bad", "-s", "strip-tools"], 19);
    assert_eq!(report["transcripts"][1]["error"]["kind"], "transcript_invalid");
    assert_eq!(row(&report, "strip-tools")["status"], "ok");
}

/// Only calls can be stripped, so the messages alone exceed the window soon. Each attempt reads the whole prefix.
#[test]
fn replay_does_not_compact_before_each_request_above_the_window() {
    let world = World::new();
    let mut talk = Conversation::new();
    for turn in 0..150 {
        talk = talk.turn(&"some words of the user ".repeat(30));
        talk = talk.call("read", json!({"path": format!("src/{turn}.rs")}), &"some text here ".repeat(20));
    }
    world.write_conversation("talk", &talk.message("Done."));
    let report = evaluate(&world, &["talk", "-s", "strip-tools", "--window=4000", "--threshold=50"], 0);
    let replay = &row(&report, "strip-tools")["replay"];
    assert!(replay["requests"].as_u64().unwrap() > 150, "{replay}");
    assert!((2..40).contains(&replay["compactions"].as_u64().unwrap()), "{replay}");
    assert!(replay["above_window"].as_u64().unwrap() > 50, "{replay}");
}

#[test]
fn order_of_the_cuts_does_not_matter() {
    let world = world();
    let evaluate = |cuts: [&str; 2]| {
        let cuts = cuts.map(|cut| format!("--cut={cut}"));
        self::evaluate(&world, &["talk", "--rounds", "-s", "strip-tools", &cuts[0], &cuts[1]], 0)
    };
    assert_eq!(evaluate(["80", "60"]), evaluate(["60", "80"]));
}
