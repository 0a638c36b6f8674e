//! Whose configuration a model is asked by: what is the user's own needs no approval, everything else does, wherever
//! it comes from.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::consent::{Scene, TALK, TEAM};
use crate::support::{Conversation, Ran, is_root};

#[track_caller]
fn asks(scene: &Scene, arguments: &[&str]) {
    let before = scene.model.asked().len();
    scene.run(arguments).exits(0);
    assert!(scene.model.asked().len() > before, "no model was asked: {arguments:?}");
}

/// It is refused with the command for this folder, and asks nobody; approved, it asks.
#[track_caller]
fn needs_approval(scene: &Scene, arguments: &[&str], folder: &str) -> Ran {
    let before = scene.model.asked().len();
    let ran = scene.run(arguments).exits(11).says(&format!(" jp-compact config trust /here/{folder}\n"));
    assert_eq!(scene.model.asked().len(), before);
    scene.trust(folder);
    asks(scene, arguments);
    ran
}

fn rules(instructions: &str) -> Value {
    let model = json!({"id": {"provider": "openai", "name": "theirs"}});
    let summary = json!({"summary": {"model": model, "instructions": instructions}, "keep_first": 0});
    json!({"conversation": {"compaction": {"rules": [summary]}}})
}

#[test]
fn the_users_own_configuration_needs_no_approval() {
    let scene = Scene::of("");
    asks(&scene, &[TALK, "--profile=heavy", "--model=openai/mine"]);
    scene.run(&[TALK, "--reset"]).exits(0);
    asks(&scene, &[TALK, "--compact=s", "--set=llm.model=openai/mine"]);
    scene.run(&[TALK, "--reset"]).exits(0);
    asks(&scene, &[TALK, "--strategy=summarize:model=openai/mine"]);
    scene.run(&[TALK, "--reset"]).exits(0);
    scene.world.file("mine.toml", TEAM.as_bytes());
    asks(&scene, &[TALK, "--config=mine.toml"]);
    scene.run(&[TALK, "--reset"]).exits(0);
    let own = scene.world.home(".config/jp-compact/config.toml");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(own, TEAM).unwrap();
    asks(&scene, &[TALK]);
}

#[test]
fn a_workspace_may_choose_what_asks_no_model() {
    let scene =
        Scene::of("conversation.compaction.default_profile = \"light\"\nllm.model = \"openai/theirs\"\n");
    scene.run(&[TALK]).exits(0);
    scene.run(&[TALK, "--strategy=summarize:model=openai/mine"]).exits(0);
    scene.asked(1);
}

#[test]
fn a_workspace_that_chooses_a_built_in_profile_needs_approval() {
    let scene = Scene::of("conversation.compaction.default_profile = \"heavy\"\n");
    needs_approval(&scene, &[TALK, "--model=openai/mine"], "house").says("chooses profile `heavy`");
}

#[test]
fn a_part_of_a_profile_that_a_workspace_changes_needs_approval() {
    let scene = Scene::of("conversation.compaction.profiles.heavy.summary.instructions = \"Mine.\"\n");
    let heavy = [TALK, "--profile=heavy", "--model=openai/mine"];
    needs_approval(&scene, &heavy, "house").says("defines or changes profile `heavy`");
}

#[test]
fn options_of_a_workspaces_strategy_are_instructions() {
    let file = |focus: &str| {
        format!(
            "conversation.compaction.default_profile = \"team\"\n\
             conversation.compaction.profiles.team.strategies = [{{ name = \"summarize\", options = {{ focus = \"{focus}\" }} }}]\n"
        )
    };
    let scene = Scene::of(&file("keys"));
    let run = [TALK, "--set=llm.model=openai/mine"];
    needs_approval(&scene, &run, "house");
    scene.run(&[TALK, "--reset"]).exits(0);
    scene.world.file("house/.jp-compact.toml", file("all keys").as_bytes());
    scene.run(&run).exits(11);
    scene.asked(1);
}

#[test]
fn a_model_that_a_workspace_names_needs_approval() {
    let scene = Scene::of("llm.model = \"openai/theirs\"\n");
    needs_approval(&scene, &[TALK, "--profile=heavy"], "house").says("names the model `openai/theirs`");
    assert_eq!(scene.model.asked()[0]["model"], "theirs");
    scene.run(&[TALK, "--reset"]).exits(0);
    scene.world.file("house/.jp-compact.toml", b"llm.model = \"openai/dearer\"\n");
    scene.run(&[TALK, "--profile=heavy"]).exits(11).says("hint: `--model openai/dearer` asks it in this run");
    asks(&scene, &[TALK, "--profile=heavy", "--model=openai/dearer"]);
}

#[test]
fn rules_of_jp_need_approval() {
    let scene = Scene::of("");
    let file = "[[conversation.compaction.rules]]\nkeep_first = 0\n[conversation.compaction.rules.summary]\n\
                model.id = { provider = \"openai\", name = \"theirs\" }\ninstructions = \"Mallory.\"\n";
    scene.world.file("house/.jp/config.toml", file.as_bytes());
    needs_approval(&scene, &[TALK], "house").says("defines or changes profile `rules`");
    fs::remove_file(scene.world.path("house/.jp/config.toml")).unwrap();
    scene.run(&[TALK, "--reset"]).exits(0);
    // In a conversation's own file they are shown with the conversation, and approved for the workspace.
    scene.world.file(&format!("{TALK}/base_config.json"), rules("Eve.").to_string().as_bytes());
    needs_approval(&scene, &["batch", "house"], TALK);
}

#[test]
fn a_lone_transcript_needs_approval_of_its_folder() {
    let scene = Scene::of("");
    let lone = |instructions: &str| {
        let delta = json!({"delta": rules(instructions)});
        scene.world.conversation("lone", &Conversation::bulky(6).event("config_delta", delta))
    };
    lone("Mallory.");
    needs_approval(&scene, &["lone"], "lone");
    lone("Mallory!");
    for arguments in [&["lone"][..], &["lone", "--profile=rules"], &["batch", "lone"]] {
        scene.run(arguments).exits(11).says("jp-compact config trust /here/lone");
    }
    scene.asked(1);
}

#[test]
fn query_asks_the_model_that_its_conversation_is_held_with() {
    let scene = Scene::of("");
    let own = json!({"assistant": {"model": {"id": {"provider": "openai", "name": "own"}}}});
    scene.world.file(&format!("{TALK}/base_config.json"), own.to_string().as_bytes());
    asks(&scene, &["query", TALK, "--", "And now?"]);
    asks(&scene, &["query", TALK, "--compact=s", "--", "And now?"]);
    assert_eq!(scene.model.asked()[0]["model"], "own");
    scene.run(&[TALK, "--reset"]).exits(0);
    // Who asks for a summary has not said by whom.
    let ran = needs_approval(&scene, &[TALK, "--profile=heavy"], TALK);
    ran.says("names the model `openai/own`").says("hint: `--model openai/own` asks it in this run; look at");
}

#[test]
fn a_model_that_a_record_names_is_not_asked() {
    let scene = Scene::of("");
    let own = json!({"delta": {"assistant": {"model": {"id": "openai/theirs"}}}});
    let talk = Conversation::bulky(6).event("config_delta", own);
    let record = json!({"id": 1, "transcript": talk.elements()});
    let ask = |more: &[&str]| {
        let mut command = scene.world.command(&[&["batch", "--ndjson", "--profile=heavy"], more].concat());
        scene.model.of(&mut command);
        let input = scene.world.file("records", format!("{record}\n").as_bytes());
        scene.world.finish(command.stdin(fs::File::open(input).unwrap())).exits(0).line()
    };
    let refused = ask(&[]);
    assert_eq!(refused["error"]["code"], "strategy_not_trusted", "{refused}");
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("names the model `openai/theirs`"),
        "{refused}"
    );
    scene.asked(0);
    assert_eq!(ask(&["--model=openai/mine"])["ok"], true);
    scene.asked(1);
}

#[test]
fn profiles_that_a_workspace_lets_always_run_need_approval() {
    let scene = Scene::of("[conversation.compaction.auto]\nalways = [\"heavy\"]\n");
    let ran = needs_approval(&scene, &["auto", TALK, "--model=openai/mine"], "house");
    ran.says("chooses profile `heavy` (`auto.always`)");
}

#[test]
fn query_asks_no_model_that_a_workspace_names() {
    let scene = Scene::of("llm.model = \"openai/theirs\"\n");
    needs_approval(&scene, &["query", TALK, "--", "And now?"], "house");
}

#[test]
fn for_a_transcript_elsewhere_the_current_folder_chooses_what_asks_no_model_and_nothing_more() {
    let scene = Scene::of(TEAM);
    scene.world.conversation("elsewhere/talk", &Conversation::bulky(6));
    let run = |more: &[&str]| {
        let mut command = scene.world.command(&[&["../elsewhere/talk"], more].concat());
        scene.model.of(&mut command).current_dir(scene.world.path("house"));
        scene.world.finish(&mut command)
    };
    for _ in 0..2 {
        run(&[])
            .exits(11)
            .says("the transcript is not in its folder")
            .says("`--config /here/house/.jp-compact.toml`");
        run(&["--profile=team"]).exits(11);
        scene.trust("house");
    }
    scene.asked(0);
    run(&["--config=.jp-compact.toml"]).exits(0);
    scene.asked(1);
    run(&["--reset"]).exits(0);
    scene.world.file("house/.jp-compact.toml", b"conversation.compaction.default_profile = \"light\"\n");
    scene.world.conversation("elsewhere/talk", &Conversation::of(6));
    run(&[]).exits(0).says("strip-reasoning");
}

#[test]
fn a_workspace_file_of_another_owner_is_skipped_with_a_warning() {
    if !is_root() {
        return;
    }
    let scene = Scene::of(TEAM);
    let file = scene.world.path("house/.jp-compact.toml");
    std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
    let ran = scene.run(&[TALK, TALK]).exits(0).says("`--config /here/house/.jp-compact.toml`");
    assert_eq!(ran.stderr.matches("is skipped, because uid 12345 owns it").count(), 1, "{}", ran.stderr);
    scene.asked(0);
    asks(&scene, &[TALK, "--config=house/.jp-compact.toml"]);
}

#[test]
fn approvals_that_others_could_write_count_for_nothing() {
    let scene = Scene::of(TEAM);
    scene.trust("house");
    let folder = scene.world.home(".local/state/jp-compact/approved");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    scene.run(&[TALK]).exits(11).says("can be written to by everybody");
    scene.run(&["config", "trust", "house", "--yes"]).exits(11);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    for record in fs::read_dir(&folder).unwrap() {
        fs::write(record.unwrap().path(), "garbage").unwrap();
    }
    scene.run(&[TALK]).exits(11).says("jp-compact config trust /here/house");
    scene.asked(0);
}
