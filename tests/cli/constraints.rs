//! Constraints of the user survive a compaction: bundled strategies keep all of them, and `--require-constraints`
//! refuses the result of a strategy that does not. A model on loopback writes the summaries. It mentions no
//! constraint, or copies lines that it reads.

use std::fs;

use serde_json::{Value, json};
use wiremock::{Request, Respond, ResponseTemplate};

use crate::steps;
use crate::support::{Agent, CommandOutput, Conversation, Model, World, append_event, plugin_script};

const HEADING: &str = "## Kept verbatim";
const SUMMARY: &str = "They worked on the parser, and it is done.";

/// Returns 15 constraints, in four phrasings.
fn constraints() -> Vec<String> {
    let phrase = |number: usize| match number % 4 {
        0 => format!("Never change the folder vendor{number}."),
        1 => format!("From now on, run the tests of crate {number} first!"),
        2 => format!("The limit number {number} must stay as it is."),
        _ => format!("Do not push branch {number} without asking me."),
    };
    (0..15).map(phrase).collect()
}

/// Returns a message with a constraint: at its beginning, in the middle of a line, or at its end.
fn message(number: usize, constraint: &str) -> String {
    match number % 3 {
        0 => format!("{constraint} Then read the file {number}."),
        1 => format!("Hello. {constraint} Is that clear? Read on.\nThanks"),
        _ => format!("Read this:\n```\nfn f{number}() {{}}\n```\n{constraint}"),
    }
}

fn add_turn(conversation: Conversation, number: usize, request: &str, output_bytes: usize) -> Conversation {
    conversation
        .turn(request)
        .reasoning("The file has to be read first.")
        .call(
            "fs_read_file",
            json!({"path": format!("src/{number}.rs")}),
            &"an output \n".repeat(output_bytes / 11),
        )
        .message(&format!("It is read, turn {number}. {}", "And it is fine. ".repeat(20)))
}

/// Returns a conversation with the constraints, and two turns after them.
fn conversation(output_bytes: usize) -> Conversation {
    let with_constraints =
        constraints().iter().enumerate().fold(Conversation::new(), |before, (number, text)| {
            add_turn(before, number, &message(number, text), output_bytes)
        });
    (15..17).fold(with_constraints, |before, number| add_turn(before, number, "Go on.", output_bytes))
}

/// Returns the texts of the view.
fn view(world: &World, transcript: &str) -> Vec<String> {
    let output = world.run(&["print", transcript, "--compacted", "--json"]).exits(0);
    let events: Vec<Value> = serde_json::from_str(output.text()).unwrap();
    let text = |event: &Value| {
        let members = ["content", "message", "reasoning"].map(|name| event["event"][name].as_str());
        members.into_iter().flatten().collect::<String>()
    };
    events.iter().map(text).collect()
}

/// Checks that each constraint is whole in exactly one event of the view.
#[track_caller]
fn check_kept(world: &World, transcript: &str, constraints: &[String]) {
    let view = view(world, transcript);
    for constraint in constraints {
        let found: usize = view.iter().map(|text| text.matches(&**constraint).count()).sum();
        assert_eq!(found, 1, "{constraint}: {view:#?}");
    }
}

fn compact(world: &World, model: &Model, extra: &[&str]) -> CommandOutput {
    let arguments = ["conversation", "--require-constraints", "--model", "openai/g", "--sandbox=contained"];
    let mut command = world.command(&[&arguments[..], extra].concat());
    world.finish(model.configure(&mut command))
}

#[test]
fn every_bundled_strategy_keeps_15_constraints() {
    for strategy in
        ["strip-tools", "strip-reasoning", "micro", "extract", "trim", "digest", "summarize", "collapse"]
    {
        let (world, model) = (World::new(), Model::with_answer(SUMMARY));
        let transcript = world.write_conversation("conversation", &conversation(2_000));
        compact(&world, &model, &["--strategy", strategy, "--keep-last", "1"]).exits(0);
        assert_eq!(transcript.overlays().len(), 1, "{strategy}");
        check_kept(&world, "conversation", &constraints());
        let headings = view(&world, "conversation").concat().matches(HEADING).count();
        assert_eq!(headings, usize::from(["summarize", "collapse"].contains(&strategy)), "{strategy}");
    }
}

#[test]
fn summary_of_many_parts_keeps_15_constraints() {
    for strategy in ["summarize", "collapse:extract_ratio=1"] {
        let (world, model) = (World::new(), Model::with_answer(SUMMARY));
        world.write_conversation("conversation", &conversation(12_000));
        let window = ["--context-window", "32000", "--strategy", strategy, "--keep-last", "1"];
        compact(&world, &model, &window).exits(0).reports("parts were merged");
        assert!(model.requests().len() > 3, "{}", model.requests().len());
        check_kept(&world, "conversation", &constraints());
    }
}

/// A model that copies the first lines that it reads, and adds its own section.
struct Copier {
    lines: usize,
}

impl Respond for Copier {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = request.body_json().unwrap();
        let prompt = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let quoted = prompt.lines().filter_map(|line| line.strip_prefix("  "));
        // Collapse rejects a part of a code block, and a summary must be shorter than its events.
        let is_copied = |line: &&str| line.len() < 200 && !line.contains("```") && *line != "an output ";
        let copied: Vec<&str> = quoted.filter(is_copied).take(self.lines).collect();
        let text = format!(
            "{}\n\n**Kept verbatim**\n\nConstraints of the user, the latest last:\n- Never change the folder vendor0.\n",
            copied.join("\n")
        );
        Model::completion(&text, "stop")
    }
}

#[test]
fn ten_merges_neither_lose_nor_repeat_the_section() {
    for (strategy, model) in [
        ("collapse", Model::with_answer(SUMMARY)),
        ("collapse", Model::with_responder(Copier { lines: 40 })),
        ("summarize", Model::with_responder(Copier { lines: 40 })),
    ] {
        let world = World::new();
        let transcript = world.write_conversation("conversation", &conversation(2_000));
        for round in 0..10 {
            compact(&world, &model, &["--strategy", strategy, "--keep-last", "1"]).exits(0);
            let view = view(&world, "conversation");
            assert_eq!(view.concat().to_lowercase().matches("kept verbatim").count(), 1, "{view:#?}");
            for constraint in constraints() {
                let count = view.iter().filter(|text| text.contains(&constraint)).count();
                assert_eq!(count, 1, "{strategy}, round {round}: {constraint}: {view:#?}");
            }
            let turns =
                (0..6).fold(Conversation::new(), |before, _| add_turn(before, 20 + round, "Go on.", 2_000));
            let grow = |bytes: Vec<u8>, event| append_event(&bytes, event);
            let grown = turns.elements().iter().fold(transcript.current_bytes(), grow);
            fs::write(&transcript.path, grown).unwrap();
        }
        let events: Vec<Value> = serde_json::from_slice(&transcript.current_bytes()).unwrap();
        let summaries = events.iter().filter(|event| event["summary"].is_object() && event["from_turn"] == 0);
        assert_eq!(summaries.count(), 10);
    }
}

#[test]
fn summaries_of_an_open_turn_keep_one_section() {
    let (world, model) = (World::new(), Model::with_responder(Copier { lines: 8 }));
    world.write_file("conversation", &steps::session());
    for keep in ["20", "17", "14", "11", "8"] {
        compact(&world, &model, &["--strategy", "summarize", "--keep-steps", keep]).exits(0);
        let shown = steps::messages(&world, "conversation");
        let text = shown.iter().map(ToString::to_string).collect::<String>();
        assert_eq!(text.to_lowercase().matches("kept verbatim").count(), 1, "{text}");
        // The model copies the names of the first files. The others are in the section.
        let last = steps::CALLS - keep.parse::<usize>().unwrap();
        for call in 0..=last {
            assert!(text.contains(&format!("src/{call}.rs")), "{keep} {call}: {text}");
        }
    }
}

/// Writes a strategy whose summary of turns 0 to 15 has only one of the constraints.
fn write_lossy(world: &World, folder: &str) {
    let reply = r#"echo '{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":15,"summary":{"summary":"Done. Do not push branch 3 without asking me."}}]}'"#;
    let script = plugin_script("lossy", &json!({"produces": ["summary"]}), reply);
    world.write_script(&format!("{folder}/lossy"), &script);
}

#[test]
fn result_that_loses_a_constraint_is_refused() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &conversation(500));
    write_lossy(&world, "plugins");
    for extra in [&["--require-constraints"][..], &["--require-constraints", "--dry-run"]] {
        let refused = world.run_plugin("lossy", extra).exits(3);
        let refused = refused.reports("the view would lose 14 constraints of the user");
        let refused = refused.reports("turn 0: Never change the folder vendor0.").reports("and 4 more");
        refused.reports("hint: nothing was appended; ");
        transcript.assert_untouched();
    }
    let line = world.run_plugin("lossy", &["--require-constraints", "--json"]).exits(3).line();
    assert_eq!((&line["error"]["kind"], &line["error"]["code"]), (&json!("gate_not_met"), &json!(3)));
    world.run_plugin("lossy", &[]).exits(0);
    // The summary has already lost the constraints, so this result does not lose them.
    world.run(&["conversation", "--strategy", "strip-tools", "--require-constraints"]).exits(0);
}

#[test]
fn new_summary_must_have_constraints_that_an_older_one_lost() {
    let world = World::new();
    world.write_conversation("conversation", &conversation(2_000));
    write_lossy(&world, "plugins");
    world.run_plugin("lossy", &[]).exits(0);
    let model = Model::with_answer(SUMMARY);
    compact(&world, &model, &["--strategy", "summarize", "--keep-last", "0"]).exits(0);
    check_kept(&world, "conversation", &constraints());
}

#[test]
fn batch_refuses_and_reports_the_gate() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &conversation(500));
    write_lossy(&world, "plugins");
    let arguments =
        ["--strategy", "lossy", "--trust-dir", "plugins", "--sandbox=contained", "--keep-last", "0"];
    let arguments = [&arguments[..], &["--require-constraints"]].concat();
    let batch = world.run(&[&["batch", "conversation", "--json"], &arguments[..]].concat()).exits(3);
    let report: Value = serde_json::from_slice(&batch.stdout).unwrap();
    assert_eq!(report["gates"][0]["gate"], "require-constraints");
    assert_eq!(report["transcripts"][0]["error"]["kind"], "gate_not_met");
    let record = json!({"id": "a", "path": transcript.path}).to_string();
    let records = [&["batch", "--ndjson"], &arguments[..]].concat();
    let answer = world.run_with_stdin(&records, record.as_bytes()).line();
    assert_eq!((&answer["ok"], &answer["error"]["kind"]), (&json!(false), &json!("gate_not_met")));
    transcript.assert_untouched();
}

/// A profile with the lossy strategy.
const LOSSY_PROFILE: &str = "[conversation.compaction.profiles.lossy]\nstrategies = [\"lossy\"]\n";

#[test]
fn automatic_compaction_is_refused_too() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &conversation(500));
    write_lossy(&world, "plugins");
    world.write_file("own.toml", LOSSY_PROFILE.as_bytes());
    let options =
        ["--sandbox=contained", "--trust-dir", "plugins", "--config", "own.toml", "--keep-last", "0"];
    let auto = ["auto", "conversation", "--profile", "lossy", "--context-window", "1000"];
    let auto = [&auto[..], &options].concat();
    let refused = world.run(&[&auto[..], &["--require-constraints"]].concat()).exits(3);
    refused.reports("would lose 14 constraints of the user");
    transcript.assert_untouched();
    world.run(&auto).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn agent_can_require_constraints() {
    let world = World::new();
    let transcript = world.write_conversation("project/talk", &conversation(500));
    write_lossy(&world, "project/plugins");
    world.write_file("project/own.toml", LOSSY_PROFILE.as_bytes());
    let options = ["--sandbox=contained", "--trust-dir", "plugins", "--config", "own.toml"];
    let mut agent = Agent::connect(&world, &options);
    let call = |required: bool| json!({"transcript": "talk", "profile": "lossy", "keep_last": 0, "require_constraints": required});
    agent.call("compact", call(true)).fails(3).reports("would lose 14 constraints of the user");
    transcript.assert_untouched();
    agent.call("compact", call(false)).succeeds();
    agent.close().exits(0);
}

#[test]
fn evaluation_and_gate_define_constraints_alike() {
    for message in [
        "Hello. Never touch main! Thanks",
        "a must\n- always b? c only",
        "Version 1.2 must stay.\r\nok",
        "Don't do that. From now on use tabs",
        "don\u{2019}t... do not? DO NOT",
        "mustard is commonly nevermore, only_x",
        "(only) \"never\" \u{e9}only onlyé must-have",
        " \n. ! ? never.x ",
    ] {
        let gate: Vec<&str> = jp_compact_schema::constraints(message).collect();
        let evaluation: Vec<&str> = jp_compact_evidence::constraint::constraints(message).collect();
        assert_eq!(gate, evaluation, "{message}");
    }
}

/// Returns a turn of a list of messages, with an answer that is longer than a summary.
fn messages(request: &str) -> [Value; 2] {
    let answer = format!("It is done. {}", "The parser is fine now. ".repeat(200));
    [json!({"role": "user", "content": request}), json!({"role": "assistant", "content": answer})]
}

#[test]
fn copies_of_compacted_transcripts_keep_constraints() {
    for strategy in ["digest", "summarize", "collapse:extract_ratio=1"] {
        let (world, model) = (World::new(), Model::with_answer(SUMMARY));
        let rules = ["Never touch prod.env.", "Always run the tests of crate 1 first."];
        let first = format!("Fix the tap please. {}", rules[0]);
        let mut list = [&first, "Go on.", rules[1], "And on."].map(messages).concat();
        for copy in 0..4 {
            let name = format!("{copy}.json");
            world.write_file(&name, json!(list).to_string().as_bytes());
            let options = [&name, "--require-constraints", "--model", "openai/g", "--sandbox=contained"];
            let options = [&options[..], &["--strategy", strategy, "--keep-last", "1"]].concat();
            let mut command = world.command(&options);
            world.finish(model.configure(&mut command)).exits(0);
            let view = world.run(&["print", &name, "--compacted", "--as", "source"]).exits(0);
            list = serde_json::from_slice(&view.stdout).unwrap();
            assert!(list.len() < 8, "{list:#?}");
            for rule in rules {
                assert!(json!(list).to_string().contains(rule), "{strategy}, copy {copy}: {list:#?}");
            }
            list.extend(["Go on again.", "And again."].map(messages).concat());
        }
    }
}

#[test]
fn copy_that_loses_a_constraint_of_its_summary_is_refused() {
    let world = World::new();
    let summary = "The user wants this:\nNever touch prod.env.";
    let pair = [
        json!({"role": "user", "content": jp_compact_schema::SUMMARY_REQUEST}),
        json!({"role": "assistant", "content": summary}),
    ];
    let list = [&pair[..], &messages("I must go."), &messages("Go on.")].concat();
    world.write_file("conversation", json!(list).to_string().as_bytes());
    let reply = r#"echo '{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":1,"summary":{"summary":"I must go."}}]}'"#;
    let script = plugin_script("lossy", &json!({"produces": ["summary"]}), reply);
    world.write_script("plugins/lossy", &script);
    let refused = world.run_plugin("lossy", &["--require-constraints"]).exits(3);
    refused.reports("the view would lose 1 constraint of the user").reports("turn 0: Never touch prod.env.");
}
