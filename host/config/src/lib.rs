//! The configuration: layers of TOML, merged key by key. `find` and `conversation` read the files of this program, and
//! `jp` reads JP's own files. Only `conversation` writes. All other modules are pure functions of their texts.
//!
//! Each layer overrides all earlier layers: built-in defaults, the user's file, the workspace's `.jp-compact.toml`, the
//! settings of the conversation, `--config FILE`, `--set key=value`. A workspace file and the settings of a
//! conversation may come with a cloned repository, so they may set only some keys
//! (docs/reference/configuration.md#layers).
//!
//! The interface is not stable.

pub mod call;
mod checks;
mod conversation;
mod error;
mod file;
mod find;
mod foreign;
pub mod inline;
mod jp;
mod layer;
mod merge;
mod origin;
mod planned;
mod profile;
mod render;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use jp_compact_core::Overlap;
use jp_compact_core::auto::{Threshold, Trigger};
use jp_compact_core::select::{Keep, KeepLast};
use jp_compact_runtime::environment::{Environment, real_path};
use jp_compact_runtime::process::PRIVATE_BYTES_MAX;
use jp_compact_schema::ToolHint;
use serde::Deserialize;

pub use conversation::{ChangedSettings, SettingsChange, change_settings, conversation_settings};
pub use error::Error;
pub use foreign::{ConfigScope, ConfiguredModel, ForeignValue, ModelDecision, Provenance};
pub use jp::JpSettings;
pub use origin::{ConfigError, Origin, Source};
pub use planned::PlannedCalls;
pub use profile::Profile;

use file::{File, ToolCompaction};
use find::ConfigFiles;
use jp_compact_llm::{self as llm, ModelName};
use jp_compact_store::{self as store, Place};
use merge::Merged;

/// A commented file with every key.
pub const EXAMPLE: &str = include_str!("example.toml");
const BUILT_IN: &str = include_str!("built_in.toml");
/// The built-in defaults. A run merges layers several times, and parses the defaults once.
static BUILT_IN_VALUES: LazyLock<Merged> = LazyLock::new(|| {
    let mut values = Merged::default();
    values.add_layer(layer::parse(&Source::BuiltIn, BUILT_IN).expect("a test reads the built-in file"));
    values
});
/// The name of the profile that is built from JP's own rules.
const RULES_PROFILE: &str = "rules";
/// The name of the built-in default profile.
const DEFAULT_NAME: &str = "default";
/// The name of the built-in default profile for transcripts of agents other than JP.
const AGENT_PROFILE: &str = "agent";

/// The merged configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The profile that runs if no other profile or strategy is named.
    pub default_profile: String,
    /// The turns, steps or tokens to keep at the end.
    pub keep_last: KeepLast,
    /// The number of turns to keep at the start.
    pub keep_first: usize,
    /// The overlaps that extend the range of a summary.
    pub overlap: Overlap,
    /// The minimum saving of a compaction, as a fraction of the view.
    pub min_saving: f64,
    /// The profiles by name.
    pub profiles: BTreeMap<String, Profile>,
    /// The hints by tool.
    pub hints: BTreeMap<String, ToolHint>,
    /// The conditions for automatic compaction.
    pub auto: Auto,
    /// The model settings.
    pub llm: llm::Settings,
    /// The model of the conversation as `provider/name`. Used if nothing more specific names a model.
    pub assistant_model: Option<ModelName>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    scope: ConfigScope,
    merged: Merged,
    jp: JpSettings,
}

/// The conditions for automatic compaction (D17, "Automatic Compaction").
#[derive(Debug, Clone, PartialEq)]
pub struct Auto {
    /// Whether `query` compacts automatically.
    pub enabled: bool,
    /// The fraction of the context window above which a compaction is due.
    pub trigger_ratio: f64,
    /// The number of tokens above which a compaction is due. Overrides the fraction.
    pub token_threshold: Option<u64>,
    /// The profile to run.
    pub profile: String,
    /// The profile that runs next if the conversation is still too large, for example a summary.
    pub fallback_profile: Option<String>,
    /// A compaction is due only if the conversation has more turns than this.
    pub min_turns: usize,
    /// Profiles that run first, even if no compaction is due.
    pub always: Vec<String>,
    /// The effect of a failed summary.
    pub on_failure: OnFailure,
    /// Whether a compaction waits for a cold prompt cache.
    pub cost: CostPolicy,
}

/// The effect of a failed summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The user gets a warning.
    #[default]
    Continue,
    /// The command fails.
    Fail,
}

/// Whether a compaction waits because it invalidates the provider's prompt cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostPolicy {
    /// A compaction that is due runs.
    #[default]
    Ignore,
    /// A compaction that does not pay back waits until the cache is cold, or the window is almost full.
    PreferCold,
}

/// Loads the configuration for a transcript, or for the current folder if there is none.
///
/// # Errors
/// A file cannot be read, or a key or value is invalid.
pub fn load(
    environment: &Environment,
    place: Option<&Place>,
    files: &[PathBuf],
    sets: &[String],
    jp: JpSettings,
) -> Result<Config, Error> {
    let mut warnings = Vec::new();
    let settings = match place {
        Some(place) => conversation::read(environment, place, &mut warnings).map_err(Error::Invalid)?,
        None => None,
    };
    let mut config = load_with(environment, place, settings, files, sets, jp)?;
    config.warnings.extend(warnings);
    Ok(config)
}

/// Loads the configuration of the current folder for several transcripts, without their settings. Its approvals count only
/// if all transcripts are in that folder.
///
/// # Errors
/// A file cannot be read, or a key or value is invalid.
pub fn load_for_all(
    environment: &Environment,
    transcripts: &[OsString],
    files: &[PathBuf],
    sets: &[String],
    jp: JpSettings,
) -> Result<Config, Error> {
    let mut config = load(environment, None, files, sets, jp)?;
    let (scopes, root) = (Scopes::default(), config.scope.root().map(real_path));
    config.scope.contains_transcript = transcripts.iter().all(|transcript| {
        let place = store::locate(transcript, environment);
        let scope = place.map(|place| scopes.scope(environment, Some(&place)));
        scope.is_ok_and(|scope| scope.contains_transcript && scope.root().map(real_path) == root)
    });
    Ok(config)
}

/// Like [`load`], with these settings of the conversation.
fn load_with(
    environment: &Environment,
    place: Option<&Place>,
    settings: Option<(Source, String)>,
    files: &[PathBuf],
    sets: &[String],
    jp: JpSettings,
) -> Result<Config, Error> {
    let scope = scope(environment, place);
    let mut config_files = find::read_files(environment, scope.root(), files).map_err(Error::Invalid)?;
    conversation::add_layer(&mut config_files, settings);
    let ConfigFiles { mut layers, warnings } = config_files;
    add_sets(&mut layers, sets)?;
    let mut config = Config::from_layers(&layers, jp).map_err(Box::new).map_err(Error::Invalid)?;
    config.warnings.extend(warnings);
    config.scope = scope;
    Ok(config)
}

/// Returns the folder whose configuration applies to a transcript: its workspace, or otherwise the nearest folder with
/// a configuration. Also returns whether the transcript is in that folder.
#[must_use]
pub fn scope(environment: &Environment, place: Option<&Place>) -> ConfigScope {
    Scopes::default().scope(environment, place)
}

/// Returns the folder whose configuration applies to a transcript.
fn root(environment: &Environment, place: Option<&Place>) -> Option<PathBuf> {
    let workspace = place.and_then(|place| store::workspace_root(place, environment));
    workspace.or_else(|| find::nearest_root(environment))
}

/// Computes the scopes of many transcripts. Searches for the nearest folder with a configuration only once.
#[derive(Debug, Default)]
pub struct Scopes {
    nearest_root: OnceLock<Option<NearestRoot>>,
}

/// The nearest folder with a configuration: the current folder or one of its parents.
#[derive(Debug)]
struct NearestRoot {
    path: PathBuf,
    /// The path without symbolic links. `None` if it cannot be resolved.
    real_path: Option<PathBuf>,
}

impl Scopes {
    /// Returns the scope of a transcript, as [`scope`] does.
    #[must_use]
    pub fn scope(&self, environment: &Environment, place: Option<&Place>) -> ConfigScope {
        let transcript_folder = place.and_then(|place| place.path().parent()).map(Path::to_path_buf);
        if let Some(workspace) = place.and_then(|place| store::workspace_root(place, environment)) {
            return ConfigScope { root: Some(workspace), contains_transcript: true, transcript_folder };
        }
        let nearest_root = self.nearest_root.get_or_init(|| {
            let path = find::nearest_root(environment)?;
            Some(NearestRoot { real_path: path.canonicalize().ok(), path })
        });
        let Some(NearestRoot { path, real_path }) = nearest_root else {
            return ConfigScope { root: None, contains_transcript: false, transcript_folder };
        };
        let contains_transcript = match (&transcript_folder, real_path) {
            (Some(folder), Some(root)) => folder.canonicalize().is_ok_and(|folder| folder.starts_with(root)),
            _ => false,
        };
        ConfigScope { root: Some(path.clone()), contains_transcript, transcript_folder }
    }
}

/// Loads the model settings from the user's own layers only, because a workspace must not set addresses and keys.
///
/// # Errors
/// A file cannot be read, or a key or value is invalid.
pub fn load_model_settings(
    environment: &Environment,
    files: &[PathBuf],
    sets: &[String],
) -> Result<llm::Settings, Error> {
    Ok(merge_user_layers(environment, files, sets)?.llm)
}

/// Returns the context window of a model from the user's own configuration, the built-in table, or its family. An
/// invalid configuration counts as empty, because this value is only shown.
#[must_use]
pub fn known_window(model: &ModelName, environment: &Environment) -> Option<llm::ContextWindow> {
    load_model_settings(environment, &[], &[]).unwrap_or_default().context_window(model)
}

/// Returns the size limit for the private directory of a strategy. Only the user can set it.
///
/// # Errors
/// Same as [`load_model_settings`].
pub fn load_private_bytes_max(
    environment: &Environment,
    files: &[PathBuf],
    sets: &[String],
) -> Result<u64, Error> {
    let bytes = merge_user_layers(environment, files, sets)?.limits.private_dir_bytes;
    Ok(bytes.map_or(PRIVATE_BYTES_MAX, |bytes| bytes as u64))
}

/// Merges only the user's own layers. Profile names are not checked, because they may refer to profiles of a
/// workspace or to JP's rules.
fn merge_user_layers(environment: &Environment, files: &[PathBuf], sets: &[String]) -> Result<File, Error> {
    let mut layers = find::read_files(environment, None, files).map_err(Error::Invalid)?.layers;
    add_sets(&mut layers, sets)?;
    if layers.is_empty() {
        // Most users have no file. Without a key, `llm` and `limits` have their built-in values, so an empty file has
        // the same effect as the merged defaults.
        return Ok(File::default());
    }
    let (_, file) = merge(&layers).map_err(Box::new).map_err(Error::Invalid)?;
    Ok(file)
}

/// Adds a layer for each `--set key=value`.
fn add_sets(layers: &mut Vec<(Source, String)>, sets: &[String]) -> Result<(), Error> {
    for pair in sets {
        layers.push(layer::from_pair(pair).map_err(Box::new).map_err(Error::Invalid)?);
    }
    Ok(())
}

/// Merges layers with the built-in defaults and parses the result.
fn merge(layers: &[(Source, String)]) -> Result<(Merged, File), ConfigError> {
    let mut merged = BUILT_IN_VALUES.clone();
    for (source, text) in layers {
        merged.add_layer(layer::parse(source, text)?);
    }
    let file: File = merged
        .table()
        .try_into()
        .map_err(|error: toml::de::Error| ConfigError::new(&Source::BuiltIn, error.message()))?;
    Ok((merged, file))
}

/// Returns the error for a key that the built-in defaults do not set.
fn missing_default(key: &str) -> ConfigError {
    ConfigError::new(&Source::BuiltIn, format!("`{key}` is missing"))
}

fn resolve_auto(auto: file::Auto) -> Result<Auto, ConfigError> {
    Ok(Auto {
        enabled: auto.enabled.unwrap_or_default(),
        trigger_ratio: auto.trigger_ratio.ok_or_else(|| missing_default("auto.trigger_ratio"))?,
        token_threshold: auto.token_threshold.map(|tokens| tokens as u64),
        profile: auto.profile.ok_or_else(|| missing_default("auto.profile"))?,
        fallback_profile: auto.fallback_profile,
        min_turns: auto.min_turns.ok_or_else(|| missing_default("auto.min_turns"))?,
        always: auto.always.unwrap_or_default(),
        on_failure: auto.on_failure.unwrap_or_default(),
        cost: auto.cost.unwrap_or_default(),
    })
}

impl Config {
    /// Merges layers with the built-in defaults.
    ///
    /// # Errors
    /// A key or value is invalid. The first error is returned.
    pub fn from_layers(layers: &[(Source, String)], jp: JpSettings) -> Result<Self, ConfigError> {
        let (merged, file) = merge(layers)?;
        let compaction = file.conversation.compaction;
        let mut profiles = BTreeMap::new();
        for (name, raw) in &compaction.profiles {
            profiles.insert(name.clone(), profile::resolve(name, raw, &merged)?);
        }
        let keep_last = compaction.keep_last();
        if keep_last.is_empty() {
            return Err(missing_default("keep_last"));
        }
        let mut default_profile =
            compaction.default_profile.ok_or_else(|| missing_default("default_profile"))?;
        if let Some(rules) = jp.rules()
            && !profiles.contains_key(RULES_PROFILE)
        {
            profiles.insert(RULES_PROFILE.to_owned(), rules.clone());
            // JP's rules replace the built-in default profile, but not one that a layer sets.
            if merged.is_built_in(&DEFAULT_PROFILE) {
                RULES_PROFILE.clone_into(&mut default_profile);
            }
        }
        let mut hints = BTreeMap::new();
        for (tool, settings) in file.conversation.tools {
            if let Some(ToolCompaction(hint)) = settings.compaction {
                hints.insert(tool, hint);
            }
        }
        let config = Self {
            default_profile,
            keep_last,
            keep_first: compaction.keep_first.ok_or_else(|| missing_default("keep_first"))?,
            overlap: compaction.overlap.ok_or_else(|| missing_default("overlap"))?,
            min_saving: compaction.min_saving.ok_or_else(|| missing_default("min_saving"))?,
            profiles,
            hints,
            auto: resolve_auto(compaction.auto)?,
            llm: file.llm,
            assistant_model: jp.model().cloned(),
            warnings: jp.warnings().to_vec(),
            scope: ConfigScope::default(),
            merged,
            jp,
        };
        config.check_profile_names()?;
        Ok(config)
    }

    /// Uses the profile `agent` in place of the built-in `default`, for a transcript of an agent other than JP. Such a
    /// transcript can be one long turn, so the number of turns is not a condition. Values that a layer sets stay
    /// (docs/decisions/0025-profile-agent.md).
    #[must_use]
    pub fn for_agent_transcript(mut self) -> Self {
        let is_from_layer = |origin: &Origin| origin.source != Source::BuiltIn;
        let default_path = compaction_key(&["profiles", DEFAULT_NAME]);
        if self.merged.origins_below(&default_path).any(is_from_layer) {
            return self;
        }
        let is_built_in = |key: &[&str]| self.merged.is_built_in(&compaction_key(key));
        if is_built_in(&["auto", "min_turns"]) {
            self.auto.min_turns = 0;
        }
        if self.default_profile == DEFAULT_NAME && self.merged.is_built_in(&DEFAULT_PROFILE) {
            AGENT_PROFILE.clone_into(&mut self.default_profile);
        }
        if is_built_in(&["auto", "profile"]) {
            AGENT_PROFILE.clone_into(&mut self.auto.profile);
        }
        self
    }

    /// Returns the warning about this program's keys in JP's files. The transcripts of one workspace share those files,
    /// so the user needs to see the warning only once.
    #[must_use]
    pub fn misplaced_keys_warning(&self) -> Option<&str> {
        self.jp.misplaced_keys_warning()
    }

    /// Returns the profile with this name.
    ///
    /// # Errors
    /// The profile does not exist.
    pub fn profile(&self, name: &str) -> Result<&Profile, Error> {
        self.profiles.get(name).ok_or_else(|| Error::NoSuchProfile {
            name: name.to_owned(),
            known: self.profiles.keys().cloned().collect(),
        })
    }

    /// Returns the turns to keep if the user typed no bound.
    #[must_use]
    pub fn keep(&self, profile: Option<&Profile>) -> Keep {
        Keep {
            first: profile.and_then(|profile| profile.keep_first).unwrap_or(self.keep_first),
            last: profile.map(|profile| profile.keep_last).unwrap_or_default().or(self.keep_last),
        }
    }

    /// Returns the condition under which automatic compaction with a profile is due, for a model with this context
    /// window.
    #[must_use]
    pub fn trigger(&self, profile: &Profile, window: Option<u64>) -> Trigger {
        let ratio = profile.trigger_ratio.unwrap_or(self.auto.trigger_ratio);
        let threshold = self.auto.token_threshold.map_or(Threshold::Ratio(ratio, window), Threshold::Tokens);
        Trigger { threshold, min_turns: self.auto.min_turns }
    }

    /// Checks that every referenced profile exists.
    fn check_profile_names(&self) -> Result<(), ConfigError> {
        self.check_profile_name(&DEFAULT_PROFILE, &self.default_profile)?;
        self.check_profile_name(&compaction_key(&["auto", "profile"]), &self.auto.profile)?;
        if let Some(name) = &self.auto.fallback_profile {
            self.check_profile_name(&compaction_key(&["auto", "fallback_profile"]), name)?;
        }
        for name in &self.auto.always {
            self.check_profile_name(&compaction_key(&["auto", "always"]), name)?;
        }
        Ok(())
    }

    fn check_profile_name(&self, key: &[&str], name: &str) -> Result<(), ConfigError> {
        let Err(error) = self.profile(name) else { return Ok(()) };
        let Some(origin) = self.merged.origin(key) else { return Ok(()) };
        let known: Vec<_> = self.profiles.keys().map(String::as_str).collect();
        Err(ConfigError::at_origin(origin, format!("{error}; known profiles: {}", known.join(", "))))
    }
}

/// Returns the full path of a key in the table `conversation.compaction`.
fn compaction_key<'a>(keys: &[&'a str]) -> Vec<&'a str> {
    [&["conversation", "compaction"][..], keys].concat()
}

const DEFAULT_PROFILE: [&str; 3] = ["conversation", "compaction", "default_profile"];

#[cfg(test)]
mod tests;
