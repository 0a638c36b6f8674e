//! The selection of turns and steps. Every command that compacts, the inline form, and the MCP server share it.

use serde_json::{Value, json};

use crate::support::{Agent, Conversation, Model, Transcript, World};

/// The options of one selection, and the inline form with the same turns and steps.
struct Selection {
    options: &'static [(&'static str, &'static str)],
    /// An inline form, and the options that are needed with it.
    inline: (&'static str, &'static [(&'static str, &'static str)]),
    expect: &'static [&'static str],
}

/// Returns five turns, each with four calls. Each call is a step.
fn conversation() -> Conversation {
    let output = "a line of no importance\n".repeat(100);
    (0..5).fold(Conversation::new(), |conversation, _| {
        let turn = conversation.turn("Read them.");
        let turn = (0..4).fold(turn, |turn, _| turn.call("fs_read_file", json!({"path": "a.rs"}), &output));
        turn.message("They are read.")
    })
}

fn world() -> (World, Transcript) {
    let world = World::new();
    let profile = "[conversation.compaction]\ndefault_profile = \"tools\"\nauto.token_threshold = 1\n\
                   auto.min_turns = 0\nauto.profile = \"tools\"\nprofiles.tools.tool_calls = \"strip\"\n";
    world.write_file("project/.jp-compact.toml", profile.as_bytes());
    let transcript = world.write_conversation("project/talk", &conversation());
    (world, transcript)
}

/// Returns the ranges of the overlays in a conversation.
fn ranges(world: &World, folder: &str) -> Vec<String> {
    let line = world.run(&["show", folder, "--json"]).exits(0).line();
    let position = |overlay: &Value, turn: &str, step: &str| match overlay[step].as_u64() {
        Some(step) => format!("{}.{step}", overlay[turn]),
        None => overlay[turn].to_string(),
    };
    let range = |overlay: &Value| {
        format!("{}-{}", position(overlay, "from_turn", "from_step"), position(overlay, "to_turn", "to_step"))
    };
    line["overlays"].as_array().unwrap().iter().map(range).collect()
}

/// Returns options of the command line.
fn flags(options: &[(&str, &str)]) -> Vec<String> {
    options.iter().map(|(name, value)| format!("--{}={value}", name.replace('_', "-"))).collect()
}

/// Runs a command in the project, and returns the ranges of the overlays that it makes.
#[track_caller]
fn run(before: &[&str], options: &[String], after: &[&str], folder: &str) -> Vec<String> {
    let (world, _) = world();
    let model = Model::with_answer("Done.");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut command = world.command(&[before, &options, after].concat());
    model.configure(command.current_dir(world.path("project")));
    world.finish(&mut command).exits(0);
    ranges(&world, folder)
}

#[track_caller]
fn check(selection: &Selection) {
    let options = flags(selection.options);
    let compacted = "project/talk";
    assert_eq!(run(&["talk"], &options, &[], compacted), selection.expect, "compact");
    assert_eq!(run(&["talk", "--compact=t"], &options, &[], compacted), selection.expect, "--compact=t");
    let (inline, with) = selection.inline;
    assert_eq!(run(&["talk", inline], &flags(with), &[], compacted), selection.expect, "{inline}");
    assert_eq!(run(&["batch", "."], &options, &[], compacted), selection.expect, "batch");
    assert_eq!(run(&["auto", "talk"], &options, &[], compacted), selection.expect, "auto");
    let query = ["query", "talk", "--model=openai/g", "--compact"];
    assert_eq!(run(&query, &options, &["--", "And now?"], compacted), selection.expect, "query");
    let fork = ["fork", "talk", "copy", "--compact"];
    assert_eq!(run(&fork, &options, &[], "project/copy"), selection.expect, "fork");
    let fork = ["fork", "talk", "copy", inline];
    assert_eq!(run(&fork, &flags(with), &[], "project/copy"), selection.expect, "fork {inline}");

    let (world, _) = world();
    let mut agent = Agent::connect(&world, &["--sandbox=contained"]);
    let mut arguments = json!({"transcript": "talk"});
    for (name, value) in selection.options {
        arguments[*name] = value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number));
    }
    agent.call("compact", arguments).succeeds();
    agent.close().exits(0);
    assert_eq!(ranges(&world, compacted), selection.expect, "mcp");
}

#[test]
fn all_surfaces_select_the_same_steps() {
    check(&Selection {
        options: &[("from", "1.1"), ("to", "2.0")],
        inline: ("--compact=t:2.1..3.0", &[]),
        expect: &["1.1-1", "2.0-2.0"],
    });
    check(&Selection {
        options: &[("keep_steps", "3")],
        inline: ("--compact=t", &[("keep_steps", "3")]),
        expect: &["0-3", "4.0-4.1"],
    });
    check(&Selection {
        options: &[("keep_first", "1"), ("keep_last", "2")],
        inline: ("--compact=t:2..-2", &[]),
        expect: &["1-2"],
    });
}

#[test]
fn inline_form_with_steps_rejects_other_bounds() {
    let (world, transcript) = world();
    let arguments = ["project/talk", "--compact=t:2.1..3.0", "--keep-steps=3"];
    world.run(&arguments).exits(2).reports("the inline form already selects turns");
    world.run(&["project/talk", "--compact=t:0.1.."]).exits(2).reports("turn `0` does not exist");
    transcript.assert_untouched();
}
