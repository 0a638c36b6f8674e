//! The configuration: layers of TOML, put together key by key, and what they come to. Which files there are is
//! known to `find`, what JP's own files say to `jp`; everything else is a function of texts.
//!
//! The layers, each winning over those before it: what is built in, the user's file, the workspace's
//! `.jp-compact.toml`, `--config FILE`, `--set key=value`. A workspace's file comes with whatever was cloned, and
//! may not say everything (SECURITY, "Trust").

mod checks;
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

use jp_compact_core::Overlap;
use jp_compact_core::auto::{Threshold, Trigger};
use jp_compact_core::select::Keep;
use jp_compact_schema::ToolHint;
use serde::Deserialize;

pub use foreign::{Foreign, Lead, Named, Scope, Subject};
pub use jp::JpOwn;
pub use origin::{Origin, Source, Wrong};
pub use planned::Planned;
pub use profile::Profile;

use crate::environment::Environment;
use crate::failure::Failure;
use crate::llm::{self, ModelName};
use crate::process::PRIVATE_BYTES_MAX;
use crate::store::{self, Place};
use file::File;
use merge::Merged;

/// A file with every key, commented.
pub const EXAMPLE: &str = include_str!("example.toml");
const BUILT_IN: &str = include_str!("built_in.toml");
/// The profile that JP's own rules make.
const RULES: &str = "rules";

/// What is configured.
#[derive(Debug, Clone)]
pub struct Config {
    /// The profile that runs when nobody names another or a strategy.
    pub default_profile: String,
    /// How many turns at the end are kept.
    pub keep_last: usize,
    /// How many turns at the beginning are kept.
    pub keep_first: usize,
    /// Which overlaps extend the range of a summary.
    pub overlap: Overlap,
    /// What a compaction has to save, as a fraction of the view.
    pub min_saving: f64,
    /// The profiles, by name.
    pub profiles: BTreeMap<String, Profile>,
    /// The hints, by tool.
    pub hints: BTreeMap<String, ToolHint>,
    /// When a compaction is due.
    pub auto: Auto,
    /// Models.
    pub llm: llm::Settings,
    /// The conversation's own model, `provider/name`: what is asked where nothing nearer names one.
    pub assistant_model: Option<ModelName>,
    /// What somebody should know who looks at the configuration.
    pub warnings: Vec<String>,
    scope: Scope,
    merged: Merged,
    jp: JpOwn,
}

/// When a compaction is due (D17, "Automatic Compaction").
#[derive(Debug, Clone, PartialEq)]
pub struct Auto {
    /// Whether `query` compacts unasked.
    pub enabled: bool,
    /// The share of the model's window above which it is due.
    pub trigger_ratio: f64,
    /// The number of tokens above which it is due, in place of the share.
    pub token_threshold: Option<u64>,
    /// The profile that runs.
    pub profile: String,
    /// It is not due before the conversation has more turns than this.
    pub min_turns: usize,
    /// Profiles that run first, due or not.
    pub always: Vec<String>,
    /// What a summary that failed means.
    pub on_failure: OnFailure,
}

/// What a summary that failed means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// A warning.
    #[default]
    Continue,
    /// A failure.
    Fail,
}

/// Reads the configuration for a transcript, or without one for the current folder.
///
/// # Errors
/// A file that cannot be read, or a key or value in it that is wrong.
pub fn load(
    environment: &Environment,
    place: Option<&Place>,
    files: &[PathBuf],
    sets: &[String],
    jp: JpOwn,
) -> Result<Config, Failure> {
    let scope = scope(environment, place);
    let found = find::layers(environment, scope.root(), files).map_err(Failure::Config)?;
    let mut config = Config::layered(found.layers, sets, jp)?;
    config.warnings.extend(found.warnings);
    config.scope = scope;
    Ok(config)
}

/// The folder whose configuration counts for a transcript, that of its workspace, else the nearest one; and whether
/// the transcript is in it.
#[must_use]
pub fn scope(environment: &Environment, place: Option<&Place>) -> Scope {
    let (root, contains) = root(environment, place);
    let own = place.and_then(|place| place.path().parent()).map(Path::to_path_buf);
    let is_in = |(root, own): (&PathBuf, &PathBuf)| {
        own.canonicalize().is_ok_and(|own| root.canonicalize().is_ok_and(|root| own.starts_with(root)))
    };
    let contains = contains || root.as_ref().zip(own.as_ref()).is_some_and(is_in);
    Scope { root, contains, own }
}

/// The folder whose files count, and whether it is the workspace of the transcript.
fn root(environment: &Environment, place: Option<&Place>) -> (Option<PathBuf>, bool) {
    match place.and_then(|place| store::workspace_root(place, environment)) {
        Some(workspace) => (Some(workspace), true),
        None => (find::around(environment), false),
    }
}

/// What is configured of models, whatever the transcript: a workspace has no say in addresses and keys.
///
/// # Errors
/// A file that cannot be read, or a key or value in it that is wrong.
pub fn models(
    environment: &Environment,
    files: &[PathBuf],
    sets: &[String],
) -> Result<llm::Settings, Failure> {
    Ok(of_the_user(environment, files, sets)?.llm)
}

/// How many bytes a strategy may put into its private directory: the user alone says so.
///
/// # Errors
/// As [`models`].
pub fn private_bytes_max(
    environment: &Environment,
    files: &[PathBuf],
    sets: &[String],
) -> Result<u64, Failure> {
    let bytes = of_the_user(environment, files, sets)?.limits.private_dir_bytes;
    Ok(bytes.map_or(PRIVATE_BYTES_MAX, |bytes| bytes as u64))
}

/// What the user's own layers say. The profiles that they name may be a workspace's, or JP's rules: nothing is said of
/// them here.
fn of_the_user(environment: &Environment, files: &[PathBuf], sets: &[String]) -> Result<File, Failure> {
    let mut layers = find::layers(environment, None, files).map_err(Failure::Config)?.layers;
    with_sets(&mut layers, sets)?;
    let (_, file) = merge(&layers).map_err(Box::new).map_err(Failure::Config)?;
    Ok(file)
}

fn with_sets(layers: &mut Vec<(Source, String)>, sets: &[String]) -> Result<(), Failure> {
    for pair in sets {
        layers.push(layer::of_pair(pair).map_err(Box::new).map_err(Failure::Config)?);
    }
    Ok(())
}

/// Puts layers on top of what is built in, and reads what that comes to.
fn merge(layers: &[(Source, String)]) -> Result<(Merged, File), Wrong> {
    let mut merged = Merged::default();
    merged.put(layer::read(&Source::BuiltIn, BUILT_IN)?);
    for (source, text) in layers {
        merged.put(layer::read(source, text)?);
    }
    let file: File = merged
        .table()
        .try_into()
        .map_err(|error: toml::de::Error| Wrong::of(&Source::BuiltIn, error.message()))?;
    Ok((merged, file))
}

impl Config {
    fn layered(mut layers: Vec<(Source, String)>, sets: &[String], jp: JpOwn) -> Result<Self, Failure> {
        with_sets(&mut layers, sets)?;
        Self::of(&layers, jp).map_err(Box::new).map_err(Failure::Config)
    }

    /// Puts layers on top of what is built in.
    ///
    /// # Errors
    /// The first key or value that is wrong.
    pub fn of(layers: &[(Source, String)], jp: JpOwn) -> Result<Self, Wrong> {
        let (merged, file) = merge(layers)?;
        let built_in = |key: &str| Wrong::of(&Source::BuiltIn, format!("`{key}` is missing"));
        let compaction = file.conversation.compaction;
        let mut profiles = BTreeMap::new();
        for (name, raw) in &compaction.profiles {
            profiles.insert(name.clone(), profile::resolve(name, raw, &merged)?);
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
        let auto = compaction.auto;
        let config = Self {
            default_profile,
            keep_last: compaction.keep_last.ok_or_else(|| built_in("keep_last"))?,
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
            scope: Scope::default(),
            merged,
            jp,
        };
        config.check_names()?;
        Ok(config)
    }

    /// A profile by its name.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn profile(&self, name: &str) -> Result<&Profile, Failure> {
        self.profiles.get(name).ok_or_else(|| Failure::NoSuchProfile {
            name: name.to_owned(),
            known: self.profiles.keys().cloned().collect(),
        })
    }

    /// What a run keeps where nobody typed a bound.
    #[must_use]
    pub fn keep(&self, profile: Option<&Profile>) -> Keep {
        Keep {
            first: profile.and_then(|profile| profile.keep_first).unwrap_or(self.keep_first),
            last: profile.and_then(|profile| profile.keep_last).unwrap_or(self.keep_last),
        }
    }

    /// When a profile is due for a model whose window holds so many tokens.
    #[must_use]
    pub fn trigger(&self, profile: &Profile, window: Option<u64>) -> Trigger {
        let ratio = profile.trigger_ratio.unwrap_or(self.auto.trigger_ratio);
        let threshold = self.auto.token_threshold.map_or(Threshold::Ratio(ratio, window), Threshold::Tokens);
        Trigger { threshold, min_turns: self.auto.min_turns }
    }

    /// Every profile that is named has to be there.
    fn check_names(&self) -> Result<(), Wrong> {
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
                return Err(Wrong::with(origin, format!("{failure}; there are {}", known.join(", "))));
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
