//! The configuration: layers of TOML, and what JP's own files say. What is put together says the same when it is
//! written and read again. A layer that is not the user's has no say in addresses and keys, and in nothing that runs
//! without an approval.

use bytes::Bytes;
use jp_compact_core::Stream;
use jp_compact_engine::config::{Config, JpOwn, Planned, Source, Wrong};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use serde_json::{Value, json};

use crate::Choices;

/// What parts one layer from the next: no TOML has it.
const LAYERS_PART: u8 = 1;
/// More of them come together nowhere.
const LAYERS_MAX: usize = 4;

/// Looks at some layers.
pub fn check(input: &[u8]) {
    let (text, mut choices) = Choices::split(input);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut layers: Vec<(Source, String)> = Vec::new();
    let mut jp = JpOwn::default();
    for layer in text.split(char::from(LAYERS_PART)).take(LAYERS_MAX) {
        match choices.below(5) {
            0 => layers.push((Source::Workspace("/w/.jp-compact.toml".into()), layer.to_owned())),
            1 => layers.push((Source::User("/u/config.toml".into()), layer.to_owned())),
            2 => layers.push((Source::File("/f.toml".into()), layer.to_owned())),
            3 => layers.push((Source::Set(layer.to_owned()), layer.to_owned())),
            _ => jp = jps(layer),
        }
    }
    let config = Config::of(&layers, jp.clone());
    let config = match (config, Config::of(&layers, jp.clone())) {
        (Ok(config), Ok(again)) => {
            assert_eq!(config.to_json(), again.to_json(), "a configuration is a function of its layers");
            config
        }
        (Err(wrong), Err(again)) => {
            assert_eq!(wrong, again, "a refusal is a function of the layers");
            return refused(&wrong, &layers);
        }
        (one, other) => panic!("{one:?} and then {other:?}"),
    };
    holds(&config, &layers);
    let own: Vec<_> = layers.iter().filter(|(source, _)| source.is_the_users()).cloned().collect();
    if let Ok(own) = Config::of(&own, JpOwn::default()) {
        consented(&config, &own);
    }
    written(&config, jp);
}

/// What runs without an approval is what the user's own layers alone would run.
fn consented(config: &Config, own: &Config) {
    let same = |planned: &Planned<'_>, own: Result<Planned<'_>, Failure>| {
        if planned.lead.foreign().is_empty() {
            let own = own.expect("it is the user's own");
            assert_eq!(planned.calls, own.calls, "what is not the user's own runs unasked");
        }
    };
    for name in config.profiles.keys() {
        same(&config.named(name).expect("it is there"), own.named(name));
    }
    same(&config.by_default().expect("it is there"), own.by_default());
    same(&config.by_auto().expect("it is there"), own.by_auto());
    let (always, own_always) = (config.by_always().expect("they are there"), own.by_always());
    if always.iter().all(|planned| planned.lead.foreign().is_empty()) {
        let calls = |all: &[Planned<'_>]| all.iter().map(|one| one.calls.clone()).collect::<Vec<_>>();
        assert_eq!(calls(&always), calls(&own_always.expect("they are the user's own")));
    }
    if let Some(named) = config.configured_model().filter(|named| named.foreign.is_none()) {
        assert_eq!(own.llm.model, Some(named.model), "a model that is not the user's own is asked");
    }
    assert_eq!(own.foreign(|_| true), [], "nothing of the user's own needs an approval");
}

/// What JP's files say, as a change of configuration in the stream says it.
fn jps(text: &str) -> JpOwn {
    let value = toml::from_str(text).or_else(|_| serde_json::from_str(text)).unwrap_or(Value::Null);
    let delta = json!([{ "timestamp": "2026-04-02 09:00:00.0", "type": "config_delta", "delta": value }]);
    let stream = Stream::parse(Bytes::from(delta.to_string()));
    let environment = Environment::bare("/nonexistent");
    stream.map(|stream| JpOwn::read(&environment, None, Some(&stream))).unwrap_or_default()
}

/// A refusal names a line that is there.
fn refused(wrong: &Wrong, layers: &[(Source, String)]) {
    assert!(!wrong.to_string().is_empty());
    if let Some((line, _)) = wrong.at {
        let lines = |text: &str| text.matches('\n').count() + 1;
        let longest =
            layers.iter().filter(|(source, _)| *source == wrong.source).map(|(_, text)| lines(text));
        assert!(line >= 1 && longest.max().is_some_and(|lines| line <= lines), "line {line}: {wrong}");
    }
}

/// What every configuration keeps.
fn holds(config: &Config, layers: &[(Source, String)]) {
    let default = config.profile(&config.default_profile).expect("the default profile is there");
    let auto = config.profile(&config.auto.profile).expect("the profile of `auto` is there");
    for profile in config.profiles.values().chain([default, auto]) {
        assert!(!profile.calls.is_empty(), "profile `{}` does nothing", profile.name);
        let _ = (config.keep(Some(profile)), config.trigger(profile, Some(1000)).threshold.tokens());
        profile.calls.iter().for_each(|call| drop(call.spec()));
    }
    assert!((0.0..=1.0).contains(&config.min_saving) && (0.0..=1.0).contains(&config.auto.trigger_ratio));
    // What a repository says is never where a key goes to.
    if layers.iter().all(|(source, _)| matches!(source, Source::Workspace(_))) {
        assert!(config.llm.providers.is_empty() && config.llm.models.is_empty(), "{:?}", config.llm);
    }
}

/// As a file it says the same.
fn written(config: &Config, jp: JpOwn) {
    for explain in [false, true] {
        let text = config.to_toml(explain);
        let layers = [(Source::File("/again.toml".into()), text.clone())];
        let again = Config::of(&layers, jp.clone())
            .unwrap_or_else(|wrong| panic!("what was written cannot be read: {wrong}\n{text}"));
        let what = |config: &Config| {
            let mut json = config.to_json();
            json.as_object_mut().map(|json| json.remove("origins"));
            json
        };
        assert_eq!(what(&again), what(config), "it says the same written again\n{text}");
    }
}
