//! Fuzz target for the configuration: TOML layers and JP's own files. A merged configuration is unchanged
//! after writing and reading. A layer that is not the user's must not set addresses or keys, and must not run
//! anything without approval.

use bytes::Bytes;
use jp_compact_core::Stream;
use jp_compact_config::{self as config, Config, ConfigError, JpSettings, PlannedCalls, Source};
use jp_compact_runtime::environment::Environment;
use serde_json::{Value, json};

use crate::Choices;

/// Separates the layers. TOML does not allow this byte.
const LAYER_SEPARATOR: u8 = 1;
/// More layers than in any real configuration.
const LAYERS_MAX: usize = 4;

/// Checks the layers of an input.
pub fn check(input: &[u8]) {
    let (text, mut choices) = Choices::split(input);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut layers: Vec<(Source, String)> = Vec::new();
    let mut jp = JpSettings::default();
    for layer in text.split(char::from(LAYER_SEPARATOR)).take(LAYERS_MAX) {
        match choices.below(5) {
            0 => layers.push((Source::Workspace("/w/.jp-compact.toml".into()), layer.to_owned())),
            1 => layers.push((Source::User("/u/config.toml".into()), layer.to_owned())),
            2 => layers.push((Source::File("/f.toml".into()), layer.to_owned())),
            3 => layers.push((Source::Set(layer.to_owned()), layer.to_owned())),
            _ => jp = jp_config(layer),
        }
    }
    let config = Config::from_layers(&layers, jp.clone());
    let config = match (config, Config::from_layers(&layers, jp.clone())) {
        (Ok(config), Ok(second)) => {
            assert_eq!(json(&config), json(&second), "the configuration must depend on the layers only");
            config
        }
        (Err(error), Err(second)) => {
            assert_eq!(error, second, "the error must depend on the layers only");
            return check_error(&error, &layers);
        }
        (first, second) => panic!("{first:?}, then {second:?}"),
    };
    check_invariants(&config, &layers);
    let own_layers: Vec<_> = layers.iter().filter(|(source, _)| source.is_users_own()).cloned().collect();
    if let Ok(own_config) = Config::from_layers(&own_layers, JpSettings::default()) {
        check_consent(&config, &own_config);
    }
    check_round_trip(&config, jp);
}

/// Checks that only calls of the user's own layers run without approval.
fn check_consent(config: &Config, own_config: &Config) {
    let check_equal_calls = |planned: &PlannedCalls<'_>,
                             own_plan: Result<PlannedCalls<'_>, config::Error>| {
        if planned.provenance.foreign().is_empty() {
            let own_plan = own_plan.expect("the own layers contain this profile");
            assert_eq!(planned.calls, own_plan.calls, "a call of another layer runs without approval");
        }
    };
    for name in config.profiles.keys() {
        check_equal_calls(&config.calls_of(name).expect("the profile exists"), own_config.calls_of(name));
    }
    check_equal_calls(&config.default_calls().expect("a default exists"), own_config.default_calls());
    check_equal_calls(&config.auto_calls().expect("the profile of `auto` exists"), own_config.auto_calls());
    let (always, own_always) = (config.always_calls().expect("the calls exist"), own_config.always_calls());
    if always.iter().all(|planned| planned.provenance.foreign().is_empty()) {
        let calls = |plans: &[PlannedCalls<'_>]| {
            plans.iter().map(|planned| planned.calls.clone()).collect::<Vec<_>>()
        };
        assert_eq!(calls(&always), calls(&own_always.expect("the own layers contain these calls")));
    }
    if let Some(model) = config.configured_model().filter(|model| model.foreign.is_none()) {
        assert_eq!(own_config.llm.model, Some(model.model), "a model of another layer is used");
    }
    assert_eq!(own_config.foreign(|_| true), [], "own layers must not need an approval");
}

/// Reads a text as JP's configuration, like a configuration change in the stream.
fn jp_config(text: &str) -> JpSettings {
    let value = toml::from_str(text).or_else(|_| serde_json::from_str(text)).unwrap_or(Value::Null);
    let delta = json!([{ "timestamp": "2026-04-02 09:00:00.0", "type": "config_delta", "delta": value }]);
    let stream = Stream::parse(Bytes::from(delta.to_string()));
    let environment = Environment::bare("/nonexistent");
    stream.map(|stream| JpSettings::read(&environment, None, Some(&stream))).unwrap_or_default()
}

/// Checks that an error is not empty and that its line exists.
fn check_error(error: &ConfigError, layers: &[(Source, String)]) {
    assert!(!error.to_string().is_empty());
    if let Some((line, _)) = error.position {
        let lines = |text: &str| text.matches('\n').count() + 1;
        let line_counts =
            layers.iter().filter(|(source, _)| *source == error.source).map(|(_, text)| lines(text));
        assert!(line >= 1 && line_counts.max().is_some_and(|lines| line <= lines), "line {line}: {error}");
    }
}

/// Checks the invariants of every configuration.
fn check_invariants(config: &Config, layers: &[(Source, String)]) {
    let default = config.profile(&config.default_profile).expect("the default profile exists");
    let auto = config.profile(&config.auto.profile).expect("the profile of `auto` exists");
    for profile in config.profiles.values().chain([default, auto]) {
        assert!(!profile.calls.is_empty(), "profile `{}` has no calls", profile.name);
        let _ = (config.keep(Some(profile)), config.trigger(profile, Some(1000)).threshold.tokens());
        profile.calls.iter().for_each(|call| drop(call.spec()));
    }
    assert!((0.0..=1.0).contains(&config.min_saving) && (0.0..=1.0).contains(&config.auto.trigger_ratio));
    // A workspace layer must not set the destination of a key.
    if layers.iter().all(|(source, _)| matches!(source, Source::Workspace(_))) {
        assert!(config.llm.providers.is_empty() && config.llm.models.is_empty(), "{:?}", config.llm);
    }
}

/// Returns the configuration as `config --json` prints it.
fn json(config: &Config) -> serde_json::Value {
    serde_json::to_value(config.document()).unwrap()
}

/// Checks that a configuration is equal after writing and reading.
fn check_round_trip(config: &Config, jp: JpSettings) {
    for explain in [false, true] {
        let text = config.to_toml(explain, &str::is_ascii);
        let layers = [(Source::File("/written.toml".into()), text.clone())];
        let reread = Config::from_layers(&layers, jp.clone())
            .unwrap_or_else(|error| panic!("failed to read the written configuration: {error}\n{text}"));
        let values = |config: &Config| {
            let mut document = json(config);
            document.as_object_mut().map(|members| members.remove("origins"));
            document
        };
        assert_eq!(values(&reread), values(config), "the configuration differs after a round trip\n{text}");
    }
}
