//! Tests of every key, layer, and error.

use crate::call::{Call, ToolsMode};
use jp_compact_core::Bound;
use jp_compact_core::select::{KeepLast, Selection};
use jp_compact_schema::Hint;
use serde_json::json;

use super::*;

mod inline;
mod jp;
mod layers;

fn user(text: &str) -> (Source, String) {
    (Source::User("/home/u/config.toml".into()), text.to_owned())
}

fn workspace(text: &str) -> (Source, String) {
    (Source::Workspace("/w/.jp-compact.toml".into()), text.to_owned())
}

#[track_caller]
fn config(text: &str) -> Config {
    Config::from_layers(&[user(text)], JpSettings::default()).unwrap()
}

/// Checks the calls of a profile with this text.
#[track_caller]
fn check_calls(profile: &str, expected: &[Call]) {
    let config = config(&format!("[conversation.compaction.profiles.p]\n{profile}"));
    assert_eq!(config.profile("p").unwrap().calls, expected, "{profile}");
}

/// Checks the position and the message of the error in the user's file.
#[track_caller]
fn rejects(text: &str, line: usize, column: usize, message: &str) {
    let error = Config::from_layers(&[user(text)], JpSettings::default()).unwrap_err();
    assert_eq!(error.source, user("").0);
    assert!(error.message.contains(message), "{}", error.message);
    assert_eq!(error.position, Some((line, Some(column))), "{}", error.message);
}

#[test]
fn built_in_limits_and_llm_match_the_defaults_in_code() {
    let (_, file) = merge(&[]).unwrap();
    assert_eq!(file.limits.private_dir_bytes, usize::try_from(PRIVATE_BYTES_MAX).ok());
    assert_eq!(file.llm, llm::Settings::default());
}

#[test]
fn built_in_settings_and_profiles_have_their_documented_values() {
    let config = Config::from_layers(&[], JpSettings::default()).unwrap();
    assert_eq!((config.keep_last, config.keep_first), (KeepLast::turns(3), 0));
    assert_eq!((config.overlap, config.min_saving), (Overlap::Partial, 0.01));
    assert_eq!(config.default_profile, "default");
    assert_eq!(config.hints, BTreeMap::new());
    assert_eq!(config.llm, llm::Settings::default());
    let auto = Auto {
        enabled: false,
        trigger_ratio: 0.75,
        token_threshold: None,
        profile: "default".into(),
        fallback_profile: None,
        min_turns: 5,
        always: Vec::new(),
        on_failure: OnFailure::Continue,
        cost: CostPolicy::Ignore,
    };
    assert_eq!(config.auto, auto);
    let calls = |name: &str| config.profile(name).unwrap().calls.clone();
    assert_eq!(calls("default"), [Call::reasoning(), Call::tools(ToolsMode::Strip)]);
    assert_eq!(calls("light"), [Call::reasoning()]);
    assert_eq!(calls("heavy"), [Call::summary(None, None)]);
    assert_eq!(calls("offline"), [Call::without_options("digest")]);
    assert_eq!(calls("micro"), [Call::without_options("micro")]);
    assert_eq!(config.profiles.len(), 8);
}

#[test]
fn transcripts_of_agents_have_their_own_default_profile() {
    let profiles = |text: &str| {
        let config = config(text).for_agent_transcript();
        (config.default_profile, config.auto.profile, config.auto.min_turns)
    };
    let expected = |default: &str, auto: &str, min_turns| (default.to_owned(), auto.to_owned(), min_turns);
    assert_eq!(profiles(""), expected("agent", "agent", 0));
    let key = |line: &str| format!("[conversation.compaction]\n{line}\n");
    assert_eq!(profiles(&key("default_profile = \"light\"")), expected("light", "agent", 0));
    assert_eq!(profiles(&key("default_profile = \"default\"")), expected("default", "agent", 0));
    assert_eq!(profiles(&key("auto.profile = \"heavy\"")), expected("agent", "heavy", 0));
    assert_eq!(profiles(&key("auto.min_turns = 2")), expected("agent", "agent", 2));
    // A user's own definition of `default` is used for every transcript.
    assert_eq!(profiles(&key("profiles.default.keep_last = 1")), expected("default", "default", 5));
}

#[test]
fn printed_configuration_of_a_transcript_of_an_agent_is_equivalent() {
    for line in [
        "",
        "default_profile = \"light\"",
        "default_profile = \"default\"",
        "auto.profile = \"heavy\"",
        "auto.min_turns = 2",
        "profiles.default.keep_last = 1",
    ] {
        let values = |text: &str| {
            let config = config(text).for_agent_transcript();
            let printed = config.to_toml(false, &str::is_ascii);
            ((config.default_profile, config.profiles, config.auto), printed)
        };
        let (expected, printed) = values(&format!("[conversation.compaction]\n{line}\n"));
        assert_eq!(values(&printed), (expected, printed.clone()), "{line}: {printed}");
    }
}

#[test]
fn one_key_enables_collapse_with_its_defaults() {
    let config = config("[conversation.compaction.auto]\nprofile = \"collapse\"");
    let collapse = config.profile(&config.auto.profile).unwrap();
    assert_eq!(collapse.calls, [Call::without_options("collapse")]);
    assert_eq!(config.trigger(collapse, Some(200_000)).threshold, Threshold::Ratio(0.85, Some(200_000)));
    assert_eq!(config.keep(Some(collapse)), Keep { first: 0, last: KeepLast::turns(0) });
}

#[test]
fn reads_every_key_of_compaction() {
    let config = |line: &str| config(&format!("[conversation.compaction]\n{line}"));
    assert_eq!(config("default_profile = \"light\"").default_profile, "light");
    assert_eq!(config("keep_last = 7").keep_last, KeepLast::turns(7));
    let last = config("keep_last = 7\nkeep_steps = 8\nkeep_tokens = 9").keep_last;
    assert_eq!(last, KeepLast { turns: Some(7), steps: Some(8), tokens: Some(9) });
    assert_eq!(config("keep_first = 2").keep_first, 2);
    assert_eq!(config("overlap = \"union\"").overlap, Overlap::Union);
    assert_eq!(config("min_saving = 0.2").min_saving, 0.2);
    assert_eq!(config("min_saving = 0").min_saving, 0.0);
}

#[test]
fn reads_every_key_of_auto() {
    let auto = |line: &str| config(&format!("[conversation.compaction.auto]\n{line}")).auto;
    assert!(auto("enabled = true").enabled);
    assert_eq!(auto("trigger_ratio = 0.5").trigger_ratio, 0.5);
    assert_eq!(auto("token_threshold = 204800").token_threshold, Some(204_800));
    assert_eq!(auto("profile = \"heavy\"").profile, "heavy");
    assert_eq!(auto("fallback_profile = \"heavy\"").fallback_profile.as_deref(), Some("heavy"));
    assert_eq!(auto("min_turns = 9").min_turns, 9);
    assert_eq!(auto("always = [\"light\", \"default\"]").always, ["light", "default"]);
    assert_eq!(auto("on_failure = \"fail\"").on_failure, OnFailure::Fail);
    assert_eq!(auto("cost = \"prefer-cold\"").cost, CostPolicy::PreferCold);
}

#[test]
fn policies_become_strategy_calls() {
    check_calls("reasoning = \"strip\"", &[Call::reasoning()]);
    let check_tools = |value: &str, mode| check_calls(&format!("tool_calls = {value}"), &[Call::tools(mode)]);
    check_tools("\"strip\"", ToolsMode::Strip);
    check_tools("\"strip-responses\"", ToolsMode::StripResponses);
    check_tools("\"strip-requests\"", ToolsMode::StripRequests);
    check_tools("\"omit\"", ToolsMode::Omit);
    check_tools("{ policy = \"strip\", request = true, response = true }", ToolsMode::Strip);
    check_tools("{ policy = \"strip\", request = false, response = true }", ToolsMode::StripResponses);
    check_tools("{ policy = \"strip\", request = true, response = false }", ToolsMode::StripRequests);
    check_tools("{ policy = \"omit\" }", ToolsMode::Omit);
    check_calls(
        "tool_calls = \"strip\"\nreasoning = \"strip\"",
        &[Call::reasoning(), Call::tools(ToolsMode::Strip)],
    );
}

#[test]
fn a_summary_has_model_and_instructions() {
    check_calls("summary.policy = \"summarize\"", &[Call::summary(None, None)]);
    check_calls(
        "summary = { policy = \"summarize\", model = \"p/n\", instructions = \"short\" }",
        &[Call::summary(Some("p/n"), Some("short"))],
    );
    check_calls(
        "reasoning = \"strip\"\ntool_calls = \"omit\"\nsummary.model = \"p/n\"",
        &[Call::summary(Some("p/n"), None)],
    );
}

#[test]
fn reads_strategies_with_and_without_options() {
    let mut tools = Call::without_options("strip-tools");
    tools.options.insert("mode".into(), "omit".into());
    tools.options.insert("deep".into(), json!({ "list": [1, 2.5, true] }));
    check_calls(
        "strategies = [\"strip-reasoning\", { name = \"strip-tools\", options = { mode = \"omit\", deep.list = [1, \
         2.5, true] } }, { name = \"x\" }]",
        &[Call::reasoning(), tools, Call::without_options("x")],
    );
}

#[test]
fn a_profile_overrides_kept_turns_and_trigger() {
    let config = config(
        "[conversation.compaction.profiles.light]\nkeep_last = 5\nkeep_first = 1\ntrigger_ratio = 0.5\n",
    );
    let light = config.profile("light").unwrap();
    assert_eq!(
        (light.keep_last, light.keep_first, light.trigger_ratio),
        (KeepLast::turns(5), Some(1), Some(0.5))
    );
    let heavy = config.profile("heavy").unwrap();
    assert_eq!(config.keep(Some(light)), Keep { first: 1, last: KeepLast::turns(5) });
    assert_eq!(
        [config.keep(Some(heavy)), config.keep(None)],
        [Keep { first: 0, last: KeepLast::turns(3) }; 2]
    );
    let trigger = |threshold| Trigger { threshold, min_turns: 5 };
    assert_eq!(config.trigger(light, Some(9)), trigger(Threshold::Ratio(0.5, Some(9))));
    assert_eq!(config.trigger(heavy, None), trigger(Threshold::Ratio(0.75, None)));
    let with_ratio = self::config(
        "[conversation.compaction]\nauto.trigger_ratio = 0.6\nprofiles.light = { trigger_ratio = 0.5 }\n",
    );
    for (name, ratio) in [("collapse", 0.6), ("heavy", 0.6), ("light", 0.5)] {
        let profile = with_ratio.profile(name).unwrap();
        assert_eq!(with_ratio.trigger(profile, Some(9)), trigger(Threshold::Ratio(ratio, Some(9))), "{name}");
    }
    let with_tokens = self::config("conversation.compaction.auto = { token_threshold = 7, min_turns = 5 }\n");
    let heavy = with_tokens.profile("heavy").unwrap();
    assert_eq!(with_tokens.trigger(heavy, Some(9)), trigger(Threshold::Tokens(7)));
}

/// Checks the hint of a tool with this text.
#[track_caller]
fn check_hint(text: &str, request: Option<Hint>, response: Option<Hint>) {
    let config = config(&format!("[conversation.tools.t]\n{text}"));
    assert_eq!(config.hints["t"], ToolHint { request, response }, "{text}");
}

#[test]
fn reads_tool_hints_as_word_or_table() {
    let (keep, strip) = (Some(Hint::Keep), Some(Hint::Strip));
    check_hint("compaction = \"keep\"", keep, keep);
    check_hint("compaction = \"strip\"", strip, strip);
    check_hint("compaction = \"strip-requests\"", strip, keep);
    check_hint("compaction = \"strip-responses\"", keep, strip);
    check_hint("compaction = { request = \"keep\", response = \"strip\" }", keep, strip);
    check_hint("compaction.response = \"keep\"", None, keep);
    check_hint("compaction.request = \"strip\"", strip, None);
}

#[test]
fn reads_model_settings() {
    let config = config(
        "[llm]\nmodel = \"local/m\"\n[llm.providers.local]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1/\"\n\
         api_key_env = \"KEY\"\napi_key_command = [\"pass\", \"show\"]\n[llm.models.\"local/m\"]\n\
         context_window = 32768\n",
    );
    assert_eq!(config.llm.model, Some("local/m".parse().unwrap()));
    assert_eq!(config.llm.models["local/m"].context_window, Some(32768));
    let local = &config.llm.providers["local"];
    assert_eq!(local.kind, Some(llm::settings::ProviderKind::Openai));
    assert_eq!(local.api_key_command.as_ref().map(Vec::len), Some(2));
}

#[test]
fn a_missing_profile_lists_the_known_ones() {
    let error = config("").profile("nope").unwrap_err();
    assert_eq!(error.to_string(), "there is no profile `nope`");
    let Error::NoSuchProfile { known, .. } = error else { panic!("{error}") };
    assert_eq!(
        known,
        ["agent", "auto-summarize", "collapse", "default", "heavy", "light", "micro", "offline"]
    );
}

#[test]
fn rejects_unknown_keys_and_lists_valid_ones() {
    rejects(
        "[conversation.compaction]\nkeep_lst = 3\n",
        2,
        1,
        "unknown field `keep_lst`, expected one of `default_profile`",
    );
    rejects("[conversation]\n\n[conversation.compactions]\n", 3, 15, "unknown field `compactions`");
    rejects(
        "[conversations]\n",
        1,
        2,
        "unknown field `conversations`, expected one of `conversation`, `llm`, `limits`",
    );
    rejects("[conversation.compaction.auto]\nratio = 1\n", 2, 1, "`trigger_ratio`");
    rejects("[conversation.compaction.profiles.p]\ntools = \"strip\"\n", 2, 1, "`tool_calls`");
    rejects("[conversation.compaction.profiles.p.summary]\nmodl = \"a/b\"\n", 2, 1, "`instructions`");
    rejects("[conversation.tools.t]\nsource = \"x\"\n", 2, 1, "expected `compaction`");
    rejects("[conversation.tools.t.compaction]\nargs = \"keep\"\n", 2, 1, "expected `request` or `response`");
    rejects(
        "[llm]\nurl = \"x\"\n",
        2,
        1,
        "expected one of `model`, `budget_tokens`, `budget_requests`, `providers`, `models`",
    );
    rejects("[llm.providers.p]\nkey = \"x\"\n", 2, 1, "`api_key_env`");
}

#[test]
fn rejects_invalid_values_with_the_expectation() {
    let rejects_in_compaction = |line: &str, column, message| {
        rejects(&format!("[conversation.compaction]\n{line}"), 2, column, message);
    };
    rejects_in_compaction("keep_last = -1", 13, "expected a whole number, 0 or more, not -1");
    rejects_in_compaction("keep_last = \"3\"", 13, "expected a whole number, 0 or more");
    rejects_in_compaction("keep_first = 1.5", 14, "expected a whole number, 0 or more");
    rejects_in_compaction("overlap = \"full\"", 11, "expected `partial` or `union`, not `full`");
    rejects_in_compaction(
        "min_saving = 5",
        14,
        "expected a fraction from 0 to 1, such as 0.01 for 1 %, not 5",
    );
    rejects_in_compaction("min_saving = \"1%\"", 14, "expected a fraction from 0 to 1");
    rejects_in_compaction("auto.on_failure = \"stop\"", 19, "expected `continue` or `fail`");
    rejects_in_compaction("auto.cost = \"cold\"", 13, "expected `ignore` or `prefer-cold`");
    rejects_in_compaction("auto.enabled = \"yes\"", 16, "expected a boolean");
    let rejects_in_profile = |line: &str, column, message| {
        rejects(&format!("[conversation.compaction.profiles.p]\n{line}"), 2, column, message);
    };
    rejects_in_profile("reasoning = \"keep\"", 13, "expected `strip`");
    rejects_in_profile(
        "tool_calls = \"drop\"",
        14,
        "expected `strip`, `strip-requests`, `strip-responses` or `omit`, not `drop`",
    );
    rejects_in_profile(
        "tool_calls = 3",
        14,
        "expected `strip`, `strip-requests`, `strip-responses`, `omit`, or `{ policy",
    );
    rejects_in_profile("tool_calls = { policy = \"strip\" }", 14, "needs both");
    rejects_in_profile(
        "tool_calls = { policy = \"strip\", request = false, response = false }",
        14,
        "strips nothing",
    );
    rejects_in_profile("tool_calls = { policy = \"omit\", request = true }", 14, "removes the whole call");
    rejects_in_profile("summary.policy = \"shorten\"", 18, "expected `summarize`");
    rejects_in_profile(
        "summary.model = \"haiku\"",
        17,
        "expected a model as `provider/name`, such as `anthropic/claude-haiku-4-5`, not `haiku`",
    );
    rejects_in_profile("strategies = [\"./mine\"]", 15, "does not begin with a lower-case letter");
    rejects_in_profile("strategies = [\"a:b=c\"]", 15, "joined by single hyphens");
    rejects_in_profile("strategies = [{ options = {} }]", 15, "missing field `name`");
    rejects_in_profile("strategies = \"strip-tools\"", 14, "expected a sequence");
    rejects_in_profile("trigger_ratio = 2", 17, "expected a fraction from 0 to 1");
    let rejects_in_hint = |word: &str, message| {
        rejects(&format!("[conversation.tools.t]\ncompaction = \"{word}\"\n"), 2, 14, message);
    };
    rejects_in_hint("drop", "expected `keep`, `strip`");
    rejects_in_hint("omit", "`omit` is for the `tool_calls` of a profile");
    rejects("[llm.providers.p]\nkind = \"other\"\n", 2, 8, "expected one of `anthropic`");
}

#[test]
fn reports_the_position_of_invalid_toml() {
    rejects("[conversation\n", 1, 14, "");
    rejects("[conversation.compaction]\nkeep_last = 1\nkeep_last = 2\n", 3, 1, "duplicate key");
}

#[test]
fn rejects_a_range_in_a_profile() {
    for key in ["from", "to"] {
        let text = format!("[conversation.compaction.profiles.p]\nreasoning = \"strip\"\n{key} = 2\n");
        rejects(&text, 3, 1, "a profile cannot set a range; use `--from` and `--to`");
    }
}

#[test]
fn rejects_mixed_and_empty_profiles() {
    let text = "[conversation.compaction.profiles.p]\nreasoning = \"strip\"\nstrategies = [\"x\"]\n";
    rejects(text, 3, 1, "both `strategies` and `reasoning`; use only one of them");
    let empty_profile = user("[conversation.compaction.profiles.p]\nkeep_last = 2\n");
    let error = Config::from_layers(&[empty_profile], JpSettings::default()).unwrap_err();
    assert!(error.message.contains("profile `p` does nothing"), "{error}");
    assert_eq!(error.position, Some((2, None)));
    let empty_table = user("[conversation.compaction.profiles.p]\n");
    let error = Config::from_layers(&[empty_table], JpSettings::default()).unwrap_err();
    assert!(error.message.contains("profile `p` does nothing"), "{error}");
}

#[test]
fn rejects_references_to_missing_profiles() {
    for (text, line) in [
        ("[conversation.compaction]\ndefault_profile = \"nope\"\n", 2),
        ("[conversation.compaction.auto]\n\nprofile = \"nope\"\n", 3),
        ("[conversation.compaction.auto]\nalways = [\"light\", \"nope\"]\n", 2),
    ] {
        let error = Config::from_layers(&[user(text)], JpSettings::default()).unwrap_err();
        assert_eq!(
            error.message,
            "there is no profile `nope`; known profiles: agent, auto-summarize, collapse, default, heavy, light, micro, offline"
        );
        assert_eq!(error.position, Some((line, None)));
    }
}

#[test]
fn rejects_models_without_provider() {
    let error =
        Config::from_layers(&[user("[llm]\nmodel = \"haiku\"\n")], JpSettings::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2, column 9: expected a model as `provider/name`, such as `anthropic/claude-haiku-4-5`, not `haiku`"
    );
    assert!(Config::from_layers(&[user("[llm]\nmodel = \"a/b c\"\n")], JpSettings::default()).is_err());
}

#[test]
fn the_example_is_valid_and_its_hints_are_comments() {
    let config = config(EXAMPLE);
    assert!(config.hints.is_empty(), "JP has no policies for single tools");
    assert!(EXAMPLE.contains("JP has no policies for single tools"));
    let uncommented: String = EXAMPLE.lines().map(uncomment).collect();
    let uncommented = Config::from_layers(&[user(&uncommented)], JpSettings::default()).unwrap();
    let hint = |tool: &str| (uncommented.hints[tool].request, uncommented.hints[tool].response);
    let (keep, strip) = (Some(Hint::Keep), Some(Hint::Strip));
    for tool in ["fs_read_file", "fs_grep_files", "cargo_check", "cargo_test", "Read", "Bash"] {
        assert_eq!(hint(tool), (keep, strip), "{tool}");
    }
    assert_eq!(hint("fs_create_file"), (strip, keep));
    assert_eq!(hint("fs_modify_file"), (strip, strip));
    assert_eq!((hint("git_commit"), hint("Edit")), ((strip, keep), (strip, keep)));
    assert_eq!(uncommented.hints.len(), 10);
    // The values in the example are the built-in values.
    let built_in = Config::from_layers(&[], JpSettings::default()).unwrap();
    assert_eq!((&config.profiles, &config.auto), (&built_in.profiles, &built_in.auto));
    // A workspace may copy the example unchanged.
    assert!(Config::from_layers(&[workspace(EXAMPLE)], JpSettings::default()).is_ok());
    assert_eq!(uncommented.profile("mine").unwrap().calls.len(), 2);
    assert_eq!(uncommented.auto.token_threshold, Some(204_800));
    assert_eq!((uncommented.llm.providers.len(), uncommented.llm.models.len()), (2, 1));
    let summary_options = &uncommented.profile("heavy").unwrap().calls[0].options;
    assert!(summary_options.contains_key("model") && summary_options.contains_key("instructions"));
}

/// Removes the `#` from a line of the example if the rest of the line is TOML and not a sentence.
fn uncomment(line: &str) -> String {
    let inner = line.strip_prefix("# ").unwrap_or(line);
    let is_toml = |text: &str| {
        let first_word = text.split([' ', '=']).next().unwrap_or_default();
        let is_key = first_word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        text.starts_with('[') || text == "\"\"\"" || (is_key && text.contains(" = "))
    };
    if is_toml(inner) { format!("{inner}\n") } else { format!("{line}\n") }
}
