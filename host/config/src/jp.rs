//! Settings from JP's own files that this program uses: the model and `conversation.compaction.rules`. The files belong
//! to JP, so invalid content causes a warning and never an error. Other keys are ignored.

mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use jp_compact_core::Stream;
use jp_compact_core::event::Kind;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::small_file;
use jp_compact_runtime::trust;
use serde_json::Value;

use super::origin::{Origin, Source};
use super::{ConfiguredModel, Profile};
use jp_compact_llm::ModelName;
use jp_compact_store::{self as store, Place};

/// Keys that only this program reads. Users put them into JP's configuration, because RFD 064 proposes some there.
const OUR_KEYS: [&str; 9] = [
    "default_profile",
    "keep_last",
    "keep_steps",
    "keep_tokens",
    "keep_first",
    "overlap",
    "min_saving",
    "profiles",
    "auto",
];

/// The maximum number of warnings. A transcript could cause any number.
const WARNINGS_MAX: usize = 32;
/// The maximum number of keys that a warning lists.
const KEYS_SHOWN: usize = 3;

/// The settings from JP's own files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JpSettings {
    pub(super) model: Option<(ModelName, Origin)>,
    pub(super) rules: Option<(Profile, Origin)>,
    warnings: Vec<String>,
    /// The warning about misplaced keys. It is also in `warnings`.
    misplaced_keys_warning: Option<String>,
}

/// The settings of the files that were read so far.
#[derive(Default)]
struct JpSettingsBuilder {
    settings: JpSettings,
    /// The provider and the name of the model. They are separate, because a file may change only one of them.
    provider: Option<String>,
    name: Option<String>,
    /// The provider and the name of the model for each alias.
    aliases: BTreeMap<String, (String, String)>,
    /// Whether a file has the key `rules`, also with an empty or invalid value.
    has_rules: bool,
    /// Keys of this program that JP does not know.
    misplaced_keys: BTreeSet<String>,
    /// The first file with a misplaced key.
    misplaced_in: Option<Source>,
}

impl JpSettings {
    /// Reads the workspace's `.jp/config.toml`, the conversation's `base_config.json`, and its config deltas. The last
    /// model applies. Rules in `.jp/config.toml` override the rules in the conversation, as in `jp c compact`. A file
    /// that cannot be read is skipped with a warning.
    #[must_use]
    pub fn read(environment: &Environment, place: Option<&Place>, stream: Option<&Stream>) -> Self {
        let mut builder = JpSettingsBuilder::default();
        if let Some(root) = super::root(environment, place) {
            let path = root.join(".jp/config.toml");
            match trust::other_owner(&path) {
                Some(owner) => builder.warn(format!(
                    "skipped {}: it is owned by uid {owner}, neither root nor you",
                    path.display()
                )),
                None => builder.read_file(path, environment, |text| {
                    toml::from_str(text).map_err(|error| error.message().to_owned())
                }),
            }
        }
        // `jp c compact` reads rules only from JP's configuration files. The rules in a conversation are an old copy.
        let workspace_rules = builder.has_rules.then(|| builder.settings.rules.take());
        if let Some(folder) = place.and_then(|place| place.path().parent()) {
            builder.read_file(folder.join("base_config.json"), environment, |text| {
                serde_json::from_str(text).map_err(|error| error.to_string())
            });
        }
        if let Some(stream) = stream {
            let path = place.map_or_else(|| "standard input".into(), |place| place.path().to_owned());
            let deltas = stream.events().iter().filter(|event| event.kind == Kind::ConfigDelta);
            for delta in deltas {
                if let Some(value) = stream.value(delta.span) {
                    builder.add_values(&value["delta"], &Source::Jp(path.clone()));
                }
            }
        }
        if let Some(rules) = workspace_rules {
            builder.settings.rules = rules;
        }
        builder.finish()
    }

    /// Returns the model of the conversation.
    #[must_use]
    pub fn model(&self) -> Option<&ModelName> {
        self.model.as_ref().map(|(model, _)| model)
    }

    /// Returns the model of the conversation with its origin.
    #[must_use]
    pub fn conversation_model(&self) -> Option<ConfiguredModel> {
        self.model.as_ref().map(|(model, origin)| ConfiguredModel::of_conversation(model.clone(), origin))
    }

    /// Returns the rules as a profile.
    #[must_use]
    pub fn rules(&self) -> Option<&Profile> {
        self.rules.as_ref().map(|(profile, _)| profile)
    }

    /// Returns the warnings about content that is ignored.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the warning about keys of this program in JP's files. Transcripts of one workspace need it only once.
    #[must_use]
    pub(super) fn misplaced_keys_warning(&self) -> Option<&str> {
        self.misplaced_keys_warning.as_deref()
    }

    /// Returns whether both have the same effect, regardless of their origins.
    #[must_use]
    pub fn has_same_effect(&self, other: &Self) -> bool {
        self.model() == other.model() && self.rules() == other.rules() && self.warnings == other.warnings
    }

    /// Builds the settings from JSON values, for tests.
    #[cfg(test)]
    pub(super) fn from_values(values: &[Value]) -> Self {
        let mut builder = JpSettingsBuilder::default();
        for value in values {
            builder.add_values(value, &Source::Jp("config.toml".into()));
        }
        builder.finish()
    }
}

impl JpSettingsBuilder {
    fn read_file(
        &mut self,
        path: PathBuf,
        environment: &Environment,
        parse: impl Fn(&str) -> Result<Value, String>,
    ) {
        let text = match store::read_small(&path, small_file::JP_FILE, environment) {
            Ok(None) => return,
            Ok(Some(bytes)) => small_file::text(bytes),
            Err(error) => Err(error),
        };
        match text.map_err(|error| error.to_string()).and_then(|text| parse(&text)) {
            Ok(value) => self.add_values(&value, &Source::Jp(path)),
            Err(reason) => self.warn(format!("failed to read {}: {reason}", path.display())),
        }
    }

    fn add_values(&mut self, value: &Value, source: &Source) {
        let origin = Origin { source: source.clone(), line: None };
        for (alias, model) in value["providers"]["llm"]["aliases"].as_object().into_iter().flatten() {
            if let Some((Some(provider), Some(name))) = provider_and_name(model) {
                self.aliases.insert(alias.clone(), (provider, name));
            }
        }
        let model = &value["assistant"]["model"];
        self.set_model(if model.is_object() { &model["id"] } else { model }, &origin);
        let compaction = &value["conversation"]["compaction"];
        self.has_rules |= !compaction["rules"].is_null();
        match rules::to_profile(&compaction["rules"]) {
            Ok(None) => {}
            Ok(Some(profile)) => self.settings.rules = Some((profile, origin)),
            Err(reason) => self.warn(format!("ignored JP's compaction rules in {source}: {reason}")),
        }
        for key in OUR_KEYS {
            if compaction.get(key).is_some() {
                self.add_misplaced_key(format!("conversation.compaction.{key}"), source);
            }
        }
        for (tool, settings) in value["conversation"]["tools"].as_object().into_iter().flatten() {
            if settings.get("compaction").is_some() {
                self.add_misplaced_key(format!("conversation.tools.{tool}.compaction"), source);
            }
        }
    }

    /// Changes the model. If `id` has only a provider or only a name, the other one stays unchanged.
    fn set_model(&mut self, id: &Value, origin: &Origin) {
        let (provider, name) = match (id, provider_and_name(id)) {
            (Value::Null, _) => return,
            (_, Some((provider, name))) => (provider.or(self.provider.take()), name.or(self.name.take())),
            (Value::String(alias), None) => self.aliases.get(alias).cloned().unzip(),
            _ => (None, None),
        };
        let model = provider.as_ref().zip(name.as_ref()).map(|(provider, name)| format!("{provider}/{name}"));
        self.settings.model = match model.map(|model| model.parse::<ModelName>()).transpose() {
            Ok(model) => model.map(|model| (model, origin.clone())),
            Err(reason) => {
                self.warn(format!("the model in {origin} is ignored: {reason}"));
                None
            }
        };
        (self.provider, self.name) = (provider, name);
    }

    fn add_misplaced_key(&mut self, key: String, source: &Source) {
        self.misplaced_keys.insert(key);
        self.misplaced_in.get_or_insert_with(|| source.clone());
    }

    /// Adds one warning for all misplaced keys, and returns the settings.
    fn finish(mut self) -> JpSettings {
        if let Some(source) = self.misplaced_in.take() {
            let quoted = self.misplaced_keys.iter().take(KEYS_SHOWN).map(|key| format!("`{key}`"));
            let mut keys = quoted.collect::<Vec<_>>().join(", ");
            if let Some(hidden @ 1..) = self.misplaced_keys.len().checked_sub(KEYS_SHOWN) {
                let _ = write!(keys, " and {hidden} more");
            }
            let warning = format!(
                "ignored {keys} in {source}: JP reads this file and may refuse them. Move them to .jp-compact.toml"
            );
            self.settings.misplaced_keys_warning = Some(warning.clone());
            self.warn(warning);
        }
        self.settings
    }

    fn warn(&mut self, warning: String) {
        let warnings = &mut self.settings.warnings;
        if warnings.len() < WARNINGS_MAX && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Returns the provider and the name of a model. The value is the text `provider/name`, or a table with one of them or
/// both.
fn provider_and_name(id: &Value) -> Option<(Option<String>, Option<String>)> {
    let part = |key: &str| id[key].as_str().map(str::to_owned);
    match id {
        Value::String(text) => {
            let (provider, name) = text.split_once('/')?;
            Some((Some(provider.to_owned()), Some(name.to_owned())))
        }
        Value::Object(_) => Some((part("provider"), part("name"))),
        _ => None,
    }
}
