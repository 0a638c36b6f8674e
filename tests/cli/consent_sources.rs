//! The sources of configuration that can cause requests to a model. The user's own configuration needs no approval.
//! Configuration from all other sources does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::consent::{CONVERSATION, Scene, TEAM};
use crate::support::{Agent, CommandOutput, Conversation, STRIP, is_root, plugin_script};

#[track_caller]
fn assert_sends_request(scene: &Scene, arguments: &[&str]) {
    let before = scene.model.requests().len();
    scene.run(arguments).exits(0);
    assert!(scene.model.requests().len() > before, "no request was sent: {arguments:?}");
}

/// Checks that a command is rejected without a request, and names `config trust` for this folder. After the approval it
/// sends a request.
#[track_caller]
fn assert_needs_approval(scene: &Scene, arguments: &[&str], folder: &str) -> CommandOutput {
    let before = scene.model.requests().len();
    let output =
        scene.run(arguments).exits(11).reports(&format!(" jp-compact config trust /here/{folder}\n"));
    assert_eq!(scene.model.requests().len(), before);
    scene.trust(folder);
    assert_sends_request(scene, arguments);
    output
}

fn rules_with_summary(instructions: &str) -> Value {
    let model = json!({"id": {"provider": "openai", "name": "theirs"}});
    let summary = json!({"summary": {"model": model, "instructions": instructions}, "keep_first": 0});
    json!({"conversation": {"compaction": {"rules": [summary]}}})
}

#[test]
fn user_configuration_needs_no_approval() {
    let scene = Scene::with_config("");
    assert_sends_request(&scene, &[CONVERSATION, "--profile=heavy", "--model=openai/mine"]);
    scene.run(&[CONVERSATION, "--reset"]).exits(0);
    assert_sends_request(&scene, &[CONVERSATION, "--compact=s", "--set=llm.model=openai/mine"]);
    scene.run(&[CONVERSATION, "--reset"]).exits(0);
    assert_sends_request(&scene, &[CONVERSATION, "--strategy=summarize:model=openai/mine"]);
    scene.run(&[CONVERSATION, "--reset"]).exits(0);
    scene.world.write_file("mine.toml", TEAM.as_bytes());
    assert_sends_request(&scene, &[CONVERSATION, "--config=mine.toml"]);
    scene.run(&[CONVERSATION, "--reset"]).exits(0);
    let user_config = scene.world.home(".config/jp-compact/config.toml");
    fs::create_dir_all(user_config.parent().unwrap()).unwrap();
    fs::write(user_config, TEAM).unwrap();
    assert_sends_request(&scene, &[CONVERSATION]);
}

#[test]
fn workspace_profile_without_model_needs_no_approval() {
    let scene = Scene::with_config(
        "conversation.compaction.default_profile = \"light\"\nllm.model = \"openai/theirs\"\n",
    );
    scene.run(&[CONVERSATION]).exits(0);
    scene.run(&[CONVERSATION, "--strategy=summarize:model=openai/mine"]).exits(0);
    scene.assert_requests(1);
}

#[test]
fn workspace_choice_of_built_in_profile_needs_approval() {
    let scene = Scene::with_config("conversation.compaction.default_profile = \"heavy\"\n");
    assert_needs_approval(&scene, &[CONVERSATION, "--model=openai/mine"], "project")
        .reports("chooses profile `heavy`");
}

#[test]
fn workspace_change_to_profile_needs_approval() {
    let scene =
        Scene::with_config("conversation.compaction.profiles.heavy.summary.instructions = \"Mine.\"\n");
    let arguments = [CONVERSATION, "--profile=heavy", "--model=openai/mine"];
    assert_needs_approval(&scene, &arguments, "project").reports("defines or changes profile `heavy`");
}

#[test]
fn workspace_strategy_options_need_approval() {
    let config_with_focus = |focus: &str| {
        format!(
            "conversation.compaction.default_profile = \"team\"\n\
             conversation.compaction.profiles.team.strategies = [{{ name = \"summarize\", options = {{ focus = \"{focus}\" }} }}]\n"
        )
    };
    let scene = Scene::with_config(&config_with_focus("keys"));
    let arguments = [CONVERSATION, "--set=llm.model=openai/mine"];
    assert_needs_approval(&scene, &arguments, "project");
    scene.run(&[CONVERSATION, "--reset"]).exits(0);
    scene.world.write_file("project/.jp-compact.toml", config_with_focus("all keys").as_bytes());
    scene.run(&arguments).exits(11);
    scene.assert_requests(1);
}

#[test]
fn workspace_model_needs_approval() {
    let scene = Scene::with_config("llm.model = \"openai/theirs\"\n");
    assert_needs_approval(&scene, &[CONVERSATION, "--profile=heavy"], "project")
        .reports("names the model `openai/theirs`");
    assert_eq!(scene.model.requests()[0]["model"], "theirs");
    scene.run(&[CONVERSATION, "--reset"]).exits(0);
    scene.world.write_file("project/.jp-compact.toml", b"llm.model = \"openai/dearer\"\n");
    scene
        .run(&[CONVERSATION, "--profile=heavy"])
        .exits(11)
        .reports("hint: `--model openai/dearer` allows this model for one run");
    assert_sends_request(&scene, &[CONVERSATION, "--profile=heavy", "--model=openai/dearer"]);
}

#[test]
fn jp_rules_need_approval() {
    let scene = Scene::with_config("");
    let config = "[[conversation.compaction.rules]]\nkeep_first = 0\n[conversation.compaction.rules.summary]\n\
                model.id = { provider = \"openai\", name = \"theirs\" }\ninstructions = \"Mallory.\"\n";
    scene.world.write_file("project/.jp/config.toml", config.as_bytes());
    assert_needs_approval(&scene, &[CONVERSATION], "project").reports("defines or changes profile `rules`");
    fs::remove_file(scene.world.path("project/.jp/config.toml")).unwrap();
    scene.run(&[CONVERSATION, "--reset"]).exits(0);
    // For rules in the file of a conversation, the error names the conversation instead of the workspace.
    scene.world.write_file(
        &format!("{CONVERSATION}/base_config.json"),
        rules_with_summary("Eve.").to_string().as_bytes(),
    );
    assert_needs_approval(&scene, &["batch", "project"], CONVERSATION);
}

#[test]
fn transcript_outside_workspace_needs_approval_of_folder() {
    let scene = Scene::with_config("");
    let write_conversation = |instructions: &str| {
        let delta = json!({"delta": rules_with_summary(instructions)});
        scene.world.write_conversation("lone", &Conversation::bulky(6).event("config_delta", delta))
    };
    write_conversation("Mallory.");
    assert_needs_approval(&scene, &["lone"], "lone");
    write_conversation("Mallory!");
    for arguments in [&["lone"][..], &["lone", "--profile=rules"], &["batch", "lone"]] {
        scene.run(arguments).exits(11).reports("jp-compact config trust /here/lone");
    }
    scene.assert_requests(1);
}

#[test]
fn query_uses_model_of_conversation_without_approval() {
    let scene = Scene::with_config("");
    let base_config = json!({"assistant": {"model": {"id": {"provider": "openai", "name": "own"}}}});
    scene.world.write_file(&format!("{CONVERSATION}/base_config.json"), base_config.to_string().as_bytes());
    assert_sends_request(&scene, &["query", CONVERSATION, "--", "And now?"]);
    assert_sends_request(&scene, &["query", CONVERSATION, "--compact=s", "--", "And now?"]);
    assert_eq!(scene.model.requests()[0]["model"], "own");
    scene.run(&[CONVERSATION, "--reset"]).exits(0);
    // The conversation's model may answer queries without approval, but it may not summarize.
    let output = assert_needs_approval(&scene, &[CONVERSATION, "--profile=heavy"], CONVERSATION);
    output
        .reports("names the model `openai/own`")
        .reports("hint: `--model openai/own` allows this model for one run; review the request");
}

#[test]
fn model_named_in_record_is_rejected() {
    let scene = Scene::with_config("");
    let delta = json!({"delta": {"assistant": {"model": {"id": "openai/theirs"}}}});
    let conversation = Conversation::bulky(6).event("config_delta", delta);
    let record = json!({"id": 1, "transcript": conversation.elements()});
    let run_batch = |extra: &[&str]| {
        let mut command = scene.world.command(&[&["batch", "--ndjson", "--profile=heavy"], extra].concat());
        scene.model.configure(&mut command);
        let input = scene.world.write_file("records", format!("{record}\n").as_bytes());
        scene.world.finish(command.stdin(fs::File::open(input).unwrap())).exits(0).line()
    };
    let line = run_batch(&[]);
    assert_eq!(line["error"]["kind"], "strategy_not_trusted", "{line}");
    assert!(line["error"].to_string().contains("names the model `openai/theirs`"), "{line}");
    scene.assert_requests(0);
    assert_eq!(run_batch(&["--model=openai/mine"])["ok"], true);
    scene.assert_requests(1);
}

#[test]
fn workspace_always_profiles_need_approval() {
    let scene = Scene::with_config("[conversation.compaction.auto]\nalways = [\"heavy\"]\n");
    let output = assert_needs_approval(&scene, &["auto", CONVERSATION, "--model=openai/mine"], "project");
    output.reports("chooses profile `heavy` (`auto.always`)");
}

#[test]
fn query_needs_approval_for_workspace_model() {
    let scene = Scene::with_config("llm.model = \"openai/theirs\"\n");
    assert_needs_approval(&scene, &["query", CONVERSATION, "--", "And now?"], "project");
}

#[test]
fn approval_covers_an_evaluation_of_conversations_in_its_folder() {
    let scene = Scene::with_config("llm.model = \"openai/theirs\"\n");
    scene.world.write_conversation("elsewhere/talk", &Conversation::bulky(6));
    scene.world.write_conversation(CONVERSATION, &Conversation::bulky(20));
    let run = |transcripts: &[&str]| {
        let options = ["-s", "summarize", "--cut", "60"];
        let mut command = scene.world.command(&[&["eval"], transcripts, &options].concat());
        scene.model.configure(&mut command).current_dir(scene.world.path("project"));
        scene.world.finish(&mut command)
    };
    let conversation = "17738399468";
    run(&[conversation]).exits(11).reports("jp-compact config trust /here/project");
    scene.trust("project");
    for transcripts in [&["../elsewhere/talk"][..], &[conversation, "../elsewhere/talk"]] {
        run(transcripts).exits(11).reports("the transcript is not in its folder");
    }
    scene.assert_requests(0);
    run(&[conversation]).exits(0);
    assert!(!scene.model.requests().is_empty());
}

#[test]
fn hint_for_a_model_of_the_current_folder_names_the_option_for_models() {
    let scene = Scene::with_config("llm.model = \"openai/theirs\"\n");
    scene.world.write_conversation("elsewhere/talk", &Conversation::bulky(6));
    let mut command = scene.world.command(&["../elsewhere/talk", "--profile=heavy"]);
    scene.model.configure(&mut command).current_dir(scene.world.path("project"));
    let hint = "`--config /here/project/.jp-compact.toml`; or pass `--model PROVIDER/NAME`\n";
    scene.world.finish(&mut command).exits(11).reports(hint);
}

#[test]
fn current_folder_cannot_choose_model_for_outside_transcript() {
    let scene = Scene::with_config(TEAM);
    scene.world.write_conversation("elsewhere/talk", &Conversation::bulky(6));
    let run = |extra: &[&str]| {
        let mut command = scene.world.command(&[&["../elsewhere/talk"], extra].concat());
        scene.model.configure(&mut command).current_dir(scene.world.path("project"));
        scene.world.finish(&mut command)
    };
    for _ in 0..2 {
        run(&[])
            .exits(11)
            .reports("the transcript is not in its folder")
            .reports("`--config /here/project/.jp-compact.toml`; or pass `--profile NAME`\n");
        run(&["--profile=team"]).exits(11);
        scene.trust("project");
    }
    scene.assert_requests(0);
    run(&["--config=.jp-compact.toml"]).exits(0);
    scene.assert_requests(1);
    run(&["--reset"]).exits(0);
    scene
        .world
        .write_file("project/.jp-compact.toml", b"conversation.compaction.default_profile = \"light\"\n");
    scene.world.write_conversation("elsewhere/talk", &Conversation::with_turns(6));
    run(&[]).exits(0).reports("strip-reasoning");
}

#[test]
fn skips_workspace_file_of_another_owner() {
    if !is_root() {
        return;
    }
    let scene = Scene::with_config(TEAM);
    let file = scene.world.path("project/.jp-compact.toml");
    std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
    let output = scene
        .run(&[CONVERSATION, CONVERSATION])
        .exits(0)
        .reports("`--config /here/project/.jp-compact.toml`");
    assert_eq!(output.stderr.matches("it is owned by uid 12345").count(), 1, "{}", output.stderr);
    scene.assert_requests(0);
    assert_sends_request(&scene, &[CONVERSATION, "--config=project/.jp-compact.toml"]);
}

#[test]
fn ignores_approvals_that_others_can_write() {
    let scene = Scene::with_config(TEAM);
    scene.trust("project");
    let folder = scene.world.home(".local/state/jp-compact/approved");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    scene.run(&[CONVERSATION]).exits(11).reports("can be written to by every user");
    scene.run(&["config", "trust", "project", "--yes"]).exits(11);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    for record in fs::read_dir(&folder).unwrap() {
        fs::write(record.unwrap().path(), "garbage").unwrap();
    }
    scene.run(&[CONVERSATION]).exits(11).reports("jp-compact config trust /here/project");
    scene.assert_requests(0);
}

/// A workspace file whose default profile selects a strategy and names an address.
const SENDER: &str = r#"
[conversation.compaction]
default_profile = "team"
auto = { profile = "team", token_threshold = 1 }
[conversation.compaction.profiles.team]
keep_last = 0
strategies = [{ name = "sender", options = { url = "http://theirs.example" } }]
"#;

/// Installs a strategy that may use the network. Returns the path of a file that its run creates.
fn install_sender(scene: &Scene) -> PathBuf {
    let mark = scene.world.path("started");
    let members = json!({"options_schema": {"type": "object", "properties": {"url": {"type": "string"}}}});
    scene.world.write_script(
        "plugins/sender/sender",
        &plugin_script("sender", &members, &format!("touch '{}'\n{STRIP}", mark.display())),
    );
    let manifest = "manifest = 1\nname = \"sender\"\nversion = \"1.0.0\"\ndescription = \"a test\"\nprotocols = [1]\n\
                    [run]\ncommand = [\"./sender\"]\n[permissions]\nnetwork = true\n";
    scene.world.write_file("plugins/sender/plugin.toml", manifest.as_bytes());
    mark
}

#[test]
fn network_strategy_does_not_start_before_approval() {
    let scene = Scene::with_config(SENDER);
    let mark = install_sender(&scene);
    let plugins = scene.world.path("plugins");
    let discovery = ["--trust-dir", plugins.to_str().unwrap(), "--sandbox=contained"];
    for command in [&[CONVERSATION][..], &[CONVERSATION, "--dry-run"], &["auto", CONVERSATION]] {
        let output = scene.run(&[command, &discovery].concat()).exits(11);
        output
            .reports("`sender`, which may use the network")
            .reports("jp-compact config trust /here/project");
    }
    scene.transcript.assert_untouched();
    assert!(!mark.exists(), "the strategy ran");
    // The user typed this address.
    scene
        .run(&[&[CONVERSATION, "--dry-run", "--strategy", "sender:url=http://mine"], &discovery[..]].concat())
        .exits(0);
    assert!(mark.exists());
    let trust = [&["config", "trust", "project", "--yes"], &discovery[..]].concat();
    scene.run(&trust).exits(0).reports("theirs.example");
    scene.run(&[&[CONVERSATION], &discovery[..]].concat()).exits(0);
}

#[test]
fn mcp_client_needs_allow_model_for_network_strategy() {
    let scene = Scene::with_config("");
    let mark = install_sender(&scene);
    let call = json!({
        "transcript": ".jp/conversations/17738399468-talk", "strategies": ["sender:url=http://theirs.example"],
    });
    for (extra, code) in [(&[][..], Some(11)), (&["--allow-model"], None)] {
        let options = ["--trust-dir", "../plugins", "--sandbox=contained"];
        let command = scene.world.command(&[&["mcp", "project"], &options[..], extra].concat());
        let mut agent = Agent::connect_command(&scene.world, command);
        let result = agent.call("compact", call.clone());
        match code {
            Some(code) => drop(result.fails(code).reports("--allow-model")),
            None => drop(result.succeeds()),
        }
        agent.close().exits(0);
        assert_eq!(mark.exists(), code.is_none());
    }
}
