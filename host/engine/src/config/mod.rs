//! The configuration: layers of TOML, merged key by key. `find` knows the files, and `jp` reads JP's own
//! files. All other modules are functions of texts.
//!
//! Each layer overrides the earlier ones: built-in defaults, the user's file, the workspace's
//! `.jp-compact.toml`, `--config FILE`, `--set key=value`. A workspace file may come with a cloned
//! repository, so it must not set every key (docs/reference/configuration.md#layers).

mod checks;
mod error;
mod file;
mod find;
mod foreign;
mod jp;
mod layer;
mod merge;
mod origin;
mod planned;
mod profile;
mod render;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jp_compact_core::Overlap;
use jp_compact_core::auto::{Threshold, Trigger};
use jp_compact_core::select::{Keep, KeepLast};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::process::PRIVATE_BYTES_MAX;
use jp_compact_schema::ToolHint;
use serde::Deserialize;

pub use error::Error;
pub use foreign::{ConfigScope, ConfiguredModel, Foreign, ModelDecision, Provenance};
pub use jp::JpOwn;
pub use origin::{ConfigError, Origin, Source};
pub use planned::Planned;
pub use profile::Profile;

use file::File;
use jp_compact_llm::{self as llm, ModelName};
use jp_compact_store::{self as store, Place};
use merge::Merged;

/// A commented file with every key.
pub const EXAMPLE: &str = include_str!("example.toml");
const BUILT_IN: &str = include_str!("built_in.toml");
/// The profile that is built from JP's own rules.
const RULES: &str = "rules";

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
    jp: JpOwn,
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
    /// A compaction is due only if the conversation has more turns than this.
    pub min_turns: usize,
    /// Profiles that run first, even if no compaction is due.
    pub always: Vec<String>,
    /// The effect of a failed summary.
    pub on_failure: OnFailure,
}

/// The effect of a failed summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// A warning.
    #[default]
    Continue,
    /// An error.
    Fail,
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
    jp: JpOwn,
) -> Result<Config, Error> {
    let scope = scope(environment, place);
    let found = find::layers(environment, scope.root(), files).map_err(Error::Invalid)?;
    let mut config = Config::layered(found.layers, sets, jp)?;
    config.warnings.extend(found.warnings);
    config.scope = scope;
    Ok(config)
}

/// Returns the folder whose configuration applies to a transcript: its workspace, or the nearest folder with
/// a configuration. Also returns whether the transcript is in it.
#[must_use]
pub fn scope(environment: &Environment, place: Option<&Place>) -> ConfigScope {
    Scopes::default().scope(environment, place)
}

/// Returns the folder whose files apply, and whether it is the workspace of the transcript.
fn root(environment: &Environment, place: Option<&Place>) -> (Option<PathBuf>, bool) {
    match place.and_then(|place| store::workspace_root(place, environment)) {
        Some(workspace) => (Some(workspace), true),
        None => (find::find_root(environment), false),
    }
}

/// The scopes of many transcripts. The folder around the current one is searched only once.
#[derive(Debug, Default)]
pub struct Scopes {
    around: OnceLock<Option<Around>>,
}

/// The nearest folder with a configuration, starting with the current one.
#[derive(Debug)]
struct Around {
    folder: PathBuf,
    /// The real path, if it can be resolved.
    real: Option<PathBuf>,
}

impl Scopes {
    /// Returns the scope of a transcript, as [`scope`] does.
    #[must_use]
    pub fn scope(&self, environment: &Environment, place: Option<&Place>) -> ConfigScope {
        let own = place.and_then(|place| place.path().parent()).map(Path::to_path_buf);
        if let Some(workspace) = place.and_then(|place| store::workspace_root(place, environment)) {
            return ConfigScope { root: Some(workspace), contains: true, own };
        }
        let around = self.around.get_or_init(|| {
            let folder = find::find_root(environment)?;
            Some(Around { real: folder.canonicalize().ok(), folder })
        });
        let Some(Around { folder, real }) = around else {
            return ConfigScope { root: None, contains: false, own };
        };
        let is_in = |own: &PathBuf| own.canonicalize().ok().zip(real.as_ref());
        let contains = own.as_ref().and_then(is_in).is_some_and(|(own, root)| own.starts_with(root));
        ConfigScope { root: Some(folder.clone()), contains, own }
    }
}

/// Loads the model settings, which do not depend on the transcript. A workspace must not set addresses and keys.
///
/// # Errors
/// A file cannot be read, or a key or value is invalid.
pub fn models(environment: &Environment, files: &[PathBuf], sets: &[String]) -> Result<llm::Settings, Error> {
    Ok(user_file(environment, files, sets)?.llm)
}

/// Returns the size limit of a private directory. Only the user can set it.
///
/// # Errors
/// The same as [`models`].
pub fn private_bytes_max(
    environment: &Environment,
    files: &[PathBuf],
    sets: &[String],
) -> Result<u64, Error> {
    let bytes = user_file(environment, files, sets)?.limits.private_dir_bytes;
    Ok(bytes.map_or(PRIVATE_BYTES_MAX, |bytes| bytes as u64))
}

/// Merges only the user's own layers. Profile names are not checked, because they may refer to profiles of a
/// workspace or to JP's rules.
fn user_file(environment: &Environment, files: &[PathBuf], sets: &[String]) -> Result<File, Error> {
    let mut layers = find::layers(environment, None, files).map_err(Error::Invalid)?.layers;
    with_sets(&mut layers, sets)?;
    let (_, file) = merge(&layers).map_err(Box::new).map_err(Error::Invalid)?;
    Ok(file)
}

fn with_sets(layers: &mut Vec<(Source, String)>, sets: &[String]) -> Result<(), Error> {
    for pair in sets {
        layers.push(layer::from_pair(pair).map_err(Box::new).map_err(Error::Invalid)?);
    }
    Ok(())
}

/// Adds layers to the built-in defaults and parses the result.
fn merge(layers: &[(Source, String)]) -> Result<(Merged, File), ConfigError> {
    let mut merged = Merged::default();
    merged.put(layer::read(&Source::BuiltIn, BUILT_IN)?);
    for (source, text) in layers {
        merged.put(layer::read(source, text)?);
    }
    let file: File = merged
        .table()
        .try_into()
        .map_err(|error: toml::de::Error| ConfigError::new(&Source::BuiltIn, error.message()))?;
    Ok((merged, file))
}

impl Config {
    fn layered(mut layers: Vec<(Source, String)>, sets: &[String], jp: JpOwn) -> Result<Self, Error> {
        with_sets(&mut layers, sets)?;
        Self::from_layers(&layers, jp).map_err(Box::new).map_err(Error::Invalid)
    }

    /// Merges layers with the built-in defaults.
    ///
    /// # Errors
    /// The first invalid key or value.
    pub fn from_layers(layers: &[(Source, String)], jp: JpOwn) -> Result<Self, ConfigError> {
        let (merged, file) = merge(layers)?;
        let built_in = |key: &str| ConfigError::new(&Source::BuiltIn, format!("`{key}` is missing"));
        let compaction = file.conversation.compaction;
        let mut profiles = BTreeMap::new();
        for (name, raw) in &compaction.profiles {
            profiles.insert(name.clone(), profile::resolve(name, raw, &merged)?);
        }
        let keep_last = compaction.keep_last();
        if keep_last.is_empty() {
            return Err(built_in("keep_last"));
        }
        let mut default_profile = compaction.default_profile.ok_or_else(|| built_in("default_profile"))?;
        if let Some(rules) = jp.rules()
            && !profiles.contains_key(RULES)
        {
            profiles.insert(RULES.to_owned(), rules.clone());
            let named =
                merged.origin(&DEFAULT_PROFILE).is_some_and(|origin| origin.source != Source::BuiltIn);
            if !named {
                RULES.clone_into(&mut default_profile);
            }
        }
        // A ratio of the user for all profiles precedes the ratio of a built-in profile.
        let is_built_in =
            |key: &[&str]| merged.origin(key).is_none_or(|origin| origin.source == Source::BuiltIn);
        let [conversation, table, auto] = AUTO;
        if !is_built_in(&[conversation, table, auto, "trigger_ratio"]) {
            for (name, profile) in &mut profiles {
                if is_built_in(&[conversation, table, "profiles", name, "trigger_ratio"]) {
                    profile.trigger_ratio = None;
                }
            }
        }
        let auto = compaction.auto;
        let config = Self {
            default_profile,
            keep_last,
            keep_first: compaction.keep_first.ok_or_else(|| built_in("keep_first"))?,
            overlap: compaction.overlap.ok_or_else(|| built_in("overlap"))?,
            min_saving: compaction.min_saving.ok_or_else(|| built_in("min_saving"))?,
            profiles,
            hints: file
                .conversation
                .tools
                .into_iter()
                .filter_map(|(tool, of_tool)| Some((tool, of_tool.compaction?.0)))
                .collect(),
            auto: Auto {
                enabled: auto.enabled.unwrap_or_default(),
                trigger_ratio: auto.trigger_ratio.ok_or_else(|| built_in("auto.trigger_ratio"))?,
                token_threshold: auto.token_threshold.map(|tokens| tokens as u64),
                profile: auto.profile.ok_or_else(|| built_in("auto.profile"))?,
                min_turns: auto.min_turns.ok_or_else(|| built_in("auto.min_turns"))?,
                always: auto.always.unwrap_or_default(),
                on_failure: auto.on_failure.unwrap_or_default(),
            },
            llm: file.llm,
            assistant_model: jp.model().cloned(),
            warnings: jp.warnings().to_vec(),
            scope: ConfigScope::default(),
            merged,
            jp,
        };
        config.check_names()?;
        Ok(config)
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

    /// Returns the condition under which a profile is due for a model with this context window.
    #[must_use]
    pub fn trigger(&self, profile: &Profile, window: Option<u64>) -> Trigger {
        let ratio = profile.trigger_ratio.unwrap_or(self.auto.trigger_ratio);
        let threshold = self.auto.token_threshold.map_or(Threshold::Ratio(ratio, window), Threshold::Tokens);
        Trigger { threshold, min_turns: self.auto.min_turns }
    }

    /// Checks that every referenced profile exists.
    fn check_names(&self) -> Result<(), ConfigError> {
        let [conversation, compaction, auto] = AUTO;
        let profile = [conversation, compaction, auto, "profile"];
        let always = [conversation, compaction, auto, "always"];
        let named = [(&DEFAULT_PROFILE[..], &self.default_profile), (&profile[..], &self.auto.profile)];
        let named = named.into_iter().chain(self.auto.always.iter().map(|name| (&always[..], name)));
        for (key, name) in named {
            if let Err(failure) = self.profile(name)
                && let Some(origin) = self.merged.origin(key)
            {
                let known: Vec<_> = self.profiles.keys().map(String::as_str).collect();
                return Err(ConfigError::with(
                    origin,
                    format!("{failure}; known profiles: {}", known.join(", ")),
                ));
            }
        }
        Ok(())
    }
}

const COMPACTION: [&str; 2] = ["conversation", "compaction"];
const AUTO: [&str; 3] = ["conversation", "compaction", "auto"];
const DEFAULT_PROFILE: [&str; 3] = ["conversation", "compaction", "default_profile"];

#[cfg(test)]
mod tests;
