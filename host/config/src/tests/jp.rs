//! Tests of the settings and warnings from JP's own configuration.

use super::*;

/// Checks the model that these files of JP select together.
#[track_caller]
fn check_model(values: &[serde_json::Value], expected: Option<&str>) {
    let settings = JpSettings::from_values(values);
    assert_eq!(settings.model().map(ToString::to_string).as_deref(), expected, "{values:?}");
}

fn assistant(model: serde_json::Value) -> serde_json::Value {
    json!({ "assistant": { "model": model } })
}

fn rules(rules: serde_json::Value) -> JpSettings {
    JpSettings::from_values(&[json!({ "conversation": { "compaction": { "rules": rules } } })])
}

/// Checks the calls of these rules.
#[track_caller]
fn check_calls(rules: serde_json::Value, expected: &[Call]) {
    assert_eq!(self::rules(rules).rules().unwrap().calls, expected);
}

fn turns(from: Bound, to: Bound) -> Selection {
    Selection { from: Some(from), to: Some(to), ..Selection::default() }
}

/// The turns that a rule compacts by default: all except the first and the last.
const DEFAULT_RANGE: Selection = Selection {
    from: Some(Bound::turn(1)),
    to: Some(Bound::FromEnd(1)),
    keep_last: KeepLast { turns: None, steps: None, tokens: None },
    keep: Keep::DEFAULT,
};

#[test]
fn the_model_is_a_text_or_a_table() {
    check_model(&[assistant(json!("a/b"))], Some("a/b"));
    check_model(&[assistant(json!({ "id": "a/b" }))], Some("a/b"));
    check_model(&[assistant(json!({ "id": { "provider": "a", "name": "b" } }))], Some("a/b"));
    check_model(&[assistant(json!({ "id": { "name": "b" } }))], None);
    check_model(&[assistant(json!({ "id": "b" }))], None);
    check_model(&[assistant(json!(3))], None);
    check_model(&[json!({}), json!([]), json!(null)], None);
    check_model(&[assistant(json!("gemini/../../../evil"))], None);
    let settings = JpSettings::from_values(&[assistant(json!("gemini/../../../evil"))]);
    let [warning] = settings.warnings() else { panic!("{:?}", settings.warnings()) };
    assert!(warning.starts_with("the model in config.toml is ignored: "), "{warning}");
}

#[test]
fn the_last_model_wins_and_may_be_partial() {
    let first = assistant(json!({ "id": { "provider": "a", "name": "b" } }));
    check_model(&[first.clone(), assistant(json!("c/d"))], Some("c/d"));
    check_model(&[first.clone(), assistant(json!({ "id": { "name": "d" } }))], Some("a/d"));
    check_model(&[first.clone(), assistant(json!({ "parameters": {} }))], Some("a/b"));
    // An unknown alias selects no known model, but it replaces the previous model.
    check_model(&[first.clone(), assistant(json!({ "id": "flash" }))], None);
    let aliases =
        json!({ "providers": { "llm": { "aliases": { "flash": { "provider": "g", "name": "f" } } } } });
    check_model(&[aliases, first, assistant(json!({ "id": "flash" }))], Some("g/f"));
}

#[test]
fn reads_rule_tables_with_the_turns_that_jp_keeps() {
    check_calls(json!([{ "reasoning": "strip" }]), &[Call::reasoning().with_range(DEFAULT_RANGE)]);
    check_calls(
        json!([{ "tool_calls": "sreq", "keep_first": "2", "keep_last": 0 }]),
        &[Call::tools(ToolsMode::StripRequests).with_range(turns(Bound::turn(2), Bound::FromEnd(0)))],
    );
    check_calls(
        json!([{ "summary": { "model": { "id": { "provider": "a", "name": "b" } }, "instructions": "i" } }]),
        &[Call::summary(Some("a/b"), Some("i")).with_range(DEFAULT_RANGE)],
    );
    check_calls(
        json!([{ "reasoning": "strip", "tool_calls": "strip" }, { "summary": {}, "reasoning": null }]),
        &[
            Call::reasoning().with_range(DEFAULT_RANGE),
            Call::tools(ToolsMode::Strip).with_range(DEFAULT_RANGE),
            Call::summary(None, None).with_range(DEFAULT_RANGE),
        ],
    );
    check_calls(
        json!({ "value": [{ "reasoning": "strip" }], "strategy": "append" }),
        &[Call::reasoning().with_range(DEFAULT_RANGE)],
    );
}

/// Checks the bounds of a rule with these values of `keep_first` and `keep_last`.
#[track_caller]
fn check_bounds(first: serde_json::Value, last: serde_json::Value, from: Bound, to: Bound) {
    let rule = json!([{ "reasoning": "strip", "keep_first": first, "keep_last": last }]);
    check_calls(rule, &[Call::reasoning().with_range(turns(from, to))]);
}

#[test]
fn parses_bounds_like_jp() {
    let time = jiff::SignedDuration::from_secs;
    check_bounds(json!(0), json!(0), Bound::turn(0), Bound::FromEnd(0));
    check_bounds(json!("7"), json!("7"), Bound::turn(7), Bound::FromEnd(7));
    check_bounds(json!("@1"), json!("@9"), Bound::turn(0), Bound::turn(8));
    check_bounds(json!("-3"), json!("-3"), Bound::FromEnd(3), Bound::FromEnd(3));
    check_bounds(json!("5h"), json!("3h"), Bound::WithinFirst(time(18_000)), Bound::Ago(time(10_800)));
    check_bounds(json!("1h 30m"), json!("2days"), Bound::WithinFirst(time(5_400)), Bound::Ago(time(172_800)));
    check_bounds(
        json!("1month"),
        json!("1y"),
        Bound::WithinFirst(time(2_630_016)),
        Bound::Ago(time(31_557_600)),
    );
    for last in ["last-compaction", "last", "LAST", "Last-Compaction"] {
        check_bounds(json!(last), json!(last), Bound::AfterLast, Bound::FromEnd(0));
    }
}

#[test]
fn workspace_rules_override_conversation_rules() {
    let folder = tempfile::tempdir().unwrap();
    let conversation = folder.path().join(".jp/conversations/17738399468");
    std::fs::create_dir_all(&conversation).unwrap();
    let config = |mode: &str, model: &str| {
        json!({
            "assistant": { "model": model },
            "conversation": { "compaction": { "rules": [{ "tool_calls": mode }] } },
        })
    };
    let write = |path: &str, text: String| std::fs::write(folder.path().join(path), text).unwrap();
    write(".jp/conversations/17738399468/events.json", "[]".into());
    write(".jp/conversations/17738399468/base_config.json", config("omit", "of/conversation").to_string());
    let environment = Environment::bare(folder.path());
    let place = jp_compact_store::locate("17738399468".as_ref(), &environment).unwrap();
    let read = || JpSettings::read(&environment, Some(&place), None);
    let first_call = || read().rules().unwrap().calls[0].clone();
    assert_eq!(first_call(), Call::tools(ToolsMode::Omit).with_range(DEFAULT_RANGE));
    write(".jp/config.toml", toml::to_string(&config("sreq", "of/workspace")).unwrap());
    assert_eq!(first_call(), Call::tools(ToolsMode::StripRequests).with_range(DEFAULT_RANGE));
    assert_eq!(read().model().map(ToString::to_string).as_deref(), Some("of/conversation"));
    for empty_or_invalid in ["[]", "[\"x\"]"] {
        write(".jp/config.toml", format!("conversation.compaction.rules = {empty_or_invalid}\n"));
        assert_eq!(read().rules(), None);
    }
    write(".jp/config.toml", "assistant.model = \"of/workspace\"\n".into());
    assert_eq!(first_call(), Call::tools(ToolsMode::Omit).with_range(DEFAULT_RANGE));
}

#[test]
fn reads_inline_rules_counted_from_one() {
    check_calls(
        json!(["t=sreq:5..-3", "r"]),
        &[
            Call::tools(ToolsMode::StripRequests).with_range(turns(Bound::turn(4), Bound::FromEnd(3))),
            Call::reasoning().with_range(DEFAULT_RANGE),
        ],
    );
}

#[test]
fn rules_are_the_default_profile_unless_a_layer_sets_another() {
    let default_profile =
        |line: &str| Config::from_layers(&[user(line)], rules(json!(["r"]))).unwrap().default_profile;
    assert_eq!(default_profile(""), "rules");
    assert_eq!(default_profile("conversation.compaction.keep_last = 1\n"), "rules");
    assert_eq!(default_profile("conversation.compaction.default_profile = \"default\"\n"), "default");
    assert_eq!(default_profile("conversation.compaction.profiles.rules.reasoning = \"strip\"\n"), "default");
    assert_eq!(Config::from_layers(&[], rules(json!([]))).unwrap().default_profile, "default");
}

#[test]
fn unsupported_rules_cause_a_warning() {
    for (value, warning) in [
        (json!([{ "reasoning": "keep" }]), "rule 1: `reasoning` is \"keep\""),
        (json!(["r", { "over": 5 }]), "rule 2: `over` is unknown"),
        (json!([{ "keep_last": 1 }]), "rule 1: it has no `reasoning`"),
        (json!([{ "reasoning": "strip", "keep_last": "soon" }]), "not `soon`"),
        (json!([{ "reasoning": "strip", "keep_first": "@0" }]), "turn `@0` does not exist"),
        (json!([{ "reasoning": "strip", "keep_first": "@x" }]), "`@x` is not a turn"),
        (json!([{ "reasoning": "strip", "keep_last": "-x" }]), "`-x` is not a number of turns"),
        (json!([{ "reasoning": "strip", "keep_last": -3 }]), "not `-3`"),
        (json!([{ "reasoning": "strip", "keep_last": 1.5 }]), "not `1.5`"),
        (json!([3]), "rule 1: expected a table"),
        (json!("r"), "expected an array"),
    ] {
        let settings = rules(value);
        assert!(settings.rules().is_none());
        assert!(settings.warnings()[0].contains(warning), "{:?}", settings.warnings());
    }
}

#[test]
fn warns_about_own_keys_in_files_of_jp() {
    let settings = JpSettings::from_values(&[json!({ "conversation": {
        "compaction": { "profiles": { "default": {} }, "keep_steps": 9 },
        "tools": { "t": { "compaction": { "request": "keep" } }, "u": { "source": "local" } },
    } })]);
    let config = Config::from_layers(&[], settings).unwrap();
    assert_eq!((config.keep_last, config.hints.len()), (KeepLast::turns(3), 0));
    assert_eq!(
        config.warnings,
        ["ignored `conversation.compaction.keep_steps`, `conversation.compaction.profiles`, \
          `conversation.tools.t.compaction` in config.toml: JP reads this file and may refuse them. Move them to \
          .jp-compact.toml"]
    );
}

#[test]
fn settings_of_jp_are_shown_as_comments() {
    let settings = JpSettings::from_values(&[
        assistant(json!("a/b")),
        json!({ "conversation": { "compaction": { "rules": ["t=o"] } } }),
    ]);
    let shown = Config::from_layers(&[], settings).unwrap().to_toml(false, &str::is_ascii);
    assert!(shown.contains("\n# the conversation's own model is a/b  (config.toml)\n"), "{shown}");
    assert!(
        shown.contains("\n# the default profile `rules` contains JP's own rules  (config.toml)\n"),
        "{shown}"
    );
    assert!(shown.contains("\n#   strip-tools {\"mode\":\"omit\"}\n"), "{shown}");
}

#[test]
fn rules_without_effect_are_not_shown() {
    let profile = user("conversation.compaction.profiles.rules.reasoning = \"strip\"\n");
    let shown =
        Config::from_layers(&[profile], rules(json!(["t=o"]))).unwrap().to_toml(false, &str::is_ascii);
    assert!(!shown.contains("JP's own rules"), "{shown}");
}

#[test]
fn shown_configuration_keeps_rules_as_default() {
    let config = |text: &str| Config::from_layers(&[user(text)], rules(json!(["t=o"]))).unwrap();
    let shown = config("").to_toml(false, &str::is_ascii);
    assert_eq!(config(&shown).default_profile, "rules", "{shown}");
    let shown =
        config("conversation.compaction.default_profile = \"light\"\n").to_toml(false, &str::is_ascii);
    assert_eq!(config(&shown).default_profile, "light", "{shown}");
}

#[test]
fn many_misplaced_keys_cause_one_warning() {
    let file = |numbers: std::ops::Range<usize>| {
        let tools: serde_json::Map<_, _> =
            numbers.map(|number| (format!("t{number}"), json!({ "compaction": "strip" }))).collect();
        json!({ "conversation": { "tools": tools } })
    };
    let settings = JpSettings::from_values(&[file(0..40), file(40..80)]);
    let [warning] = settings.warnings() else { panic!("{:?}", settings.warnings()) };
    assert!(warning.contains(" and 77 more in config.toml: "), "{warning}");
}

#[test]
fn limits_the_warnings_of_a_transcript() {
    let values: Vec<_> = (0..40).map(|number| assistant(json!(format!("a/{number}?")))).collect();
    assert_eq!(JpSettings::from_values(&values).warnings().len(), 32);
}
