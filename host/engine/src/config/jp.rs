//! Settings from JP's own files that apply here: the model and `conversation.compaction.rules`. The files
//! belong to JP, so invalid content causes a warning and never an error. Other keys are ignored.

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

/// Keys of this program that users put into JP's configuration, because RFD 064 proposes them there.
const RFD_064_KEYS: [&str; 7] =
    ["default_profile", "keep_last", "keep_first", "overlap", "min_saving", "profiles", "auto"];

/// A limit, because a transcript could cause any number of warnings.
const WARNINGS_MAX: usize = 32;
/// The number of keys in one warning.
const KEYS_SHOWN: usize = 3;

/// The settings from JP's files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JpOwn {
    pub(super) model: Option<(ModelName, Origin)>,
    pub(super) rules: Option<(Profile, Origin)>,
    warnings: Vec<String>,
}

/// The state while files are read. JP writes only the changed parts of a model.
#[derive(Default)]
struct JpOwnBuilder {
    own: JpOwn,
    provider: Option<String>,
    name: Option<String>,
    aliases: BTreeMap<String, (String, String)>,
    /// Keys of this program, and the first file with one of them.
    misplaced: BTreeSet<String>,
    misplaced_in: Option<Source>,
}

impl JpOwn {
    /// Reads the workspace's `.jp/config.toml`, the conversation's `base_config.json`, and its config deltas.
    /// The last model wins. Rules of `.jp/config.toml` override those of the conversation, as they do for `jp
    /// c compact`. A file that cannot be read is skipped with a warning.
    #[must_use]
    pub fn read(environment: &Environment, place: Option<&Place>, stream: Option<&Stream>) -> Self {
        let mut builder = JpOwnBuilder::default();
        if let (Some(root), _) = super::root(environment, place) {
            let path = root.join(".jp/config.toml");
            match trust::other_owner(&path) {
                Some(owner) => builder.warn(format!(
                    "skipped {}: it is owned by uid {owner}, neither root nor you",
                    path.display()
                )),
                None => builder.file(path, environment, |text| {
                    toml::from_str(text).map_err(|error| error.message().to_owned())
                }),
            }
        }
        // `jp c compact` reads rules only from its files. The rules in the conversation are a snapshot of an
        // older state.
        let rules = builder.own.rules.take();
        if let Some(folder) = place.and_then(|place| place.path().parent()) {
            builder.file(folder.join("base_config.json"), environment, |text| {
                serde_json::from_str(text).map_err(|error| error.to_string())
            });
        }
        if let Some(stream) = stream {
            let path = place.map_or_else(|| "standard input".into(), |place| place.path().to_owned());
            let deltas = stream.events().iter().filter(|event| event.kind == Kind::ConfigDelta);
            for delta in deltas {
                if let Some(value) = stream.value(delta.span) {
                    builder.add(&value["delta"], &Source::Jp(path.clone()));
                }
            }
        }
        builder.own.rules = rules.or(builder.own.rules.take());
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

    /// Returns warnings about content without effect.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns whether both have the same effect, regardless of their origins.
    #[must_use]
    pub fn has_same_effect(&self, other: &Self) -> bool {
        self.model() == other.model() && self.rules() == other.rules() && self.warnings == other.warnings
    }

    /// Builds the settings from JSON values, for tests.
    #[cfg(test)]
    pub(super) fn from_values(values: &[Value]) -> Self {
        let mut builder = JpOwnBuilder::default();
        for value in values {
            builder.add(value, &Source::Jp("config.toml".into()));
        }
        builder.finish()
    }
}

impl JpOwnBuilder {
    fn file(
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
            Ok(value) => self.add(&value, &Source::Jp(path)),
            Err(what) => self.warn(format!("failed to read {}: {what}", path.display())),
        }
    }

    fn add(&mut self, value: &Value, source: &Source) {
        let origin = Origin { source: source.clone(), line: None };
        for (alias, model) in value["providers"]["llm"]["aliases"].as_object().into_iter().flatten() {
            if let Some((Some(provider), Some(name))) = parts(model) {
                self.aliases.insert(alias.clone(), (provider, name));
            }
        }
        let model = &value["assistant"]["model"];
        self.model(if model.is_object() { &model["id"] } else { model }, &origin);
        let compaction = &value["conversation"]["compaction"];
        match rules::profile(&compaction["rules"]) {
            Ok(None) => {}
            Ok(Some(profile)) => self.own.rules = Some((profile, origin)),
            Err(what) => self.warn(format!("ignored JP's compaction rules in {source}: {what}")),
        }
        for key in RFD_064_KEYS {
            if compaction.get(key).is_some() {
                self.misplaced(&format!("conversation.compaction.{key}"), source);
            }
        }
        for (tool, of_tool) in value["conversation"]["tools"].as_object().into_iter().flatten() {
            if of_tool.get("compaction").is_some() {
                self.misplaced(&format!("conversation.tools.{tool}.compaction"), source);
            }
        }
    }

    fn model(&mut self, id: &Value, origin: &Origin) {
        let (provider, name) = match (id, parts(id)) {
            (Value::Null, _) => return,
            (_, Some((provider, name))) => (provider.or(self.provider.take()), name.or(self.name.take())),
            (Value::String(alias), None) => self.aliases.get(alias).cloned().unzip(),
            _ => (None, None),
        };
        let model = provider.as_ref().zip(name.as_ref()).map(|(provider, name)| format!("{provider}/{name}"));
        self.own.model = match model.map(|model| model.parse::<ModelName>()).transpose() {
            Ok(model) => model.map(|model| (model, origin.clone())),
            Err(what) => {
                self.warn(format!("the model in {origin} is ignored: {what}"));
                None
            }
        };
        (self.provider, self.name) = (provider, name);
    }

    fn misplaced(&mut self, key: &str, source: &Source) {
        self.misplaced.insert(key.to_owned());
        self.misplaced_in.get_or_insert_with(|| source.clone());
    }

    /// Adds one warning for all misplaced keys.
    fn finish(mut self) -> JpOwn {
        if let Some(source) = self.misplaced_in.take() {
            let shown = self.misplaced.iter().take(KEYS_SHOWN).map(|key| format!("`{key}`"));
            let mut keys = shown.collect::<Vec<_>>().join(", ");
            if let Some(rest @ 1..) = self.misplaced.len().checked_sub(KEYS_SHOWN) {
                let _ = write!(keys, " and {rest} more");
            }
            self.warn(format!(
                "ignored {keys} in {source}: JP reads this file and may refuse them. Move them to .jp-compact.toml"
            ));
        }
        self.own
    }

    fn warn(&mut self, warning: String) {
        if self.own.warnings.len() < WARNINGS_MAX && !self.own.warnings.contains(&warning) {
            self.own.warnings.push(warning);
        }
    }
}

/// Returns provider and name of a model: `"provider/name"`, or a table with one or both.
fn parts(id: &Value) -> Option<(Option<String>, Option<String>)> {
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
