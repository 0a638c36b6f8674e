//! The `.jp-compact.toml` of a workspace. It applies only to transcripts of that workspace. Some settings are not
//! allowed in it.

use crate::profiles::{REASONING, TOOLS, receipts};
use crate::support::{Transcript, World, hourly_turns};

/// The path of a conversation in its workspace.
const IN_WORKSPACE: &str = ".jp/conversations/17738399468-x";

/// Writes two workspaces with these configurations, each with a conversation.
fn two_workspaces(world: &World, config_one: &str, config_two: &str) -> [(String, Transcript); 2] {
    [("one", config_one), ("two", config_two)].map(|(workspace, config)| {
        world.write_file(&format!("{workspace}/.jp-compact.toml"), config.as_bytes());
        let folder = format!("{workspace}/{IN_WORKSPACE}");
        let transcript = world.write_conversation(&folder, &hourly_turns());
        (folder, transcript)
    })
}

#[test]
fn each_transcript_uses_configuration_of_its_workspace() {
    let world = World::new();
    let keep_last = "conversation.compaction.keep_last = 1\n";
    let default_profile = "conversation.compaction.default_profile = \"mine\"\n\
                 conversation.compaction.profiles.mine.strategies = [\"digest\"]\n";
    let [(one, transcript_one), (two, transcript_two)] = two_workspaces(&world, keep_last, default_profile);
    world.run(&[&one, &two]).exits(0);
    assert_eq!(receipts(&transcript_one), [format!("{REASONING} 0-4"), format!("{TOOLS} 0-4")]);
    assert_eq!(receipts(&transcript_two), ["digest {} 0-2"]);
}

#[test]
fn command_line_may_name_workspace_profile() {
    let profile = "conversation.compaction.profiles.mine.strategies = [\"digest\"]\n";
    for flag in ["--profile=mine", "--compact=mine", "--set=conversation.compaction.default_profile=mine"] {
        let world = World::new();
        let [(one, transcript_one), (two, transcript_two)] = two_workspaces(&world, profile, "");
        world.run(&[&one, flag]).exits(0);
        assert_eq!(receipts(&transcript_one), ["digest {} 0-2"], "{flag}");
        world.run(&[&two, flag]).exits(2).reports("mine");
        transcript_two.assert_untouched();
    }
}

#[test]
fn invalid_configuration_fails_only_its_transcript() {
    let world = World::new();
    let [(one, transcript_one), (two, transcript_two)] =
        two_workspaces(&world, "[conversation]\nwrong = 1\n", "");
    world.run(&[&one]).exits(2).reports("/here/one/.jp-compact.toml").reports("unknown field `wrong`");
    let output = world.run(&[&one, &two, "--json"]).exits(19).reports("1 of 2 transcripts failed");
    assert_eq!(output.lines()[0]["error"]["code"], 2, "{}", output.text());
    transcript_one.assert_untouched();
    assert_eq!(receipts(&transcript_two).len(), 2);
}

#[test]
fn workspace_cannot_set_provider_address() {
    let world = World::new();
    let address = "[llm.providers.openai]\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    let [(one, transcript_one), _] = two_workspaces(&world, address, "");
    world
        .run(&[one.as_str(), "--profile", "heavy", "--model", "openai/g"])
        .exits(2)
        .reports("`llm.providers` is not allowed in a workspace file");
    transcript_one.assert_untouched();
}

#[test]
fn workspace_model_requires_approval() {
    let world = World::new();
    let [(one, _), (two, _)] = two_workspaces(&world, "llm.model = \"openai/of-one\"\n", "");
    let dry_run = ["--profile", "heavy", "--dry-run"];
    world
        .run(&[&[one.as_str()][..], &dry_run].concat())
        .exits(11)
        .reports("jp-compact config trust /here/one");
    world.run(&["config", "trust", "one", "--yes"]).exits(0);
    world.run(&[&[one.as_str()][..], &dry_run].concat()).exits(0).reports("turns 0-2 using openai/of-one");
    world.run(&[&[two.as_str()][..], &dry_run].concat()).exits(18).reports("none is configured");
}

#[test]
fn misplaced_configuration_is_one_warning_for_all_transcripts_of_a_workspace() {
    let world = World::new();
    let keys = "[conversation.compaction]\nkeep_last = 1\n";
    for workspace in ["one", "two"] {
        world.write_file(&format!("{workspace}/.jp/config.toml"), keys.as_bytes());
        for number in 0..4 {
            let folder = format!("{workspace}/.jp/conversations/1773839946{number}-x");
            world.write_conversation(&folder, &hourly_turns());
            // JP copies its configuration to each conversation.
            let snapshot = format!(
                "{{\"conversation\": {{\"tools\": {{\"t{number}\": {{\"compaction\": \"keep\"}}}}}}}}"
            );
            world.write_file(&format!("{folder}/base_config.json"), snapshot.as_bytes());
        }
    }
    let transcripts = |workspace: &str| {
        (0..4).map(|number| format!("{workspace}/.jp/conversations/1773839946{number}-x")).collect::<Vec<_>>()
    };
    let (one, both) = (transcripts("one"), [transcripts("one"), transcripts("two")].concat());
    let window = "--context-window=100".to_owned();
    let mut wrong = Vec::new();
    for (command, expect) in [
        ([&["-n".to_owned()][..], &one].concat(), 1),
        ([&["-n".to_owned()][..], &both].concat(), 2),
        ([&["auto".to_owned(), "-n".to_owned(), window][..], &both].concat(), 2),
        (["batch", "-n", "one", "two"].map(str::to_owned).to_vec(), 2),
        (["query", "-n", &one[0], "--model=a/b", "--compact", "--", "Why?"].map(str::to_owned).to_vec(), 1),
        (["fork", "-n", &one[0], "copy", "--compact"].map(str::to_owned).to_vec(), 1),
    ] {
        let output = world.run(&command);
        let count = output.stderr.matches("warning: ignored `conversation.compaction.keep_last`").count();
        if count != expect || output.stderr.matches("warning: ignored").count() != expect {
            wrong.push((command, count));
        }
    }
    assert!(wrong.is_empty(), "commands with a different number of warnings: {wrong:?}");
}
