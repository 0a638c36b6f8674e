//! `plugin.toml`: what a folder says about the strategy in it. Types only; nothing here opens a file. It is
//! read strictly, for a misspelt permission must not be taken for one that was not asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::StrategyName;

mod run;
pub use run::{Mode, Program, Run, RunError};

/// The version of the manifest's own form.
pub const MANIFEST: u32 = 1;

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of this form: 1.
    #[serde(deserialize_with = "one")]
    #[schemars(extend("const" = MANIFEST))]
    pub manifest: u32,
    /// The strategy's name. Those of bundled strategies are taken.
    pub name: StrategyName,
    /// The strategy's version.
    pub version: String,
    /// One sentence for `strategy list`.
    pub description: String,
    /// Every version of the protocol that the strategy speaks.
    pub protocols: Vec<u32>,
    /// How it is started.
    pub run: Run,
    /// What it asks to be granted.
    #[serde(default)]
    pub permissions: Permissions,
}

fn one<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        MANIFEST => Ok(MANIFEST),
        other => Err(serde::de::Error::custom(format_args!(
            "manifest version {other} is not known, only {MANIFEST}"
        ))),
    }
}

/// What a plugin asks for. The user grants; nothing is granted by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// To ask the host's model.
    pub llm: bool,
    /// To open sockets.
    pub network: bool,
    /// To start processes.
    pub subprocess: bool,
    /// To see these environment variables.
    #[schemars(inner(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$")))]
    #[serde(deserialize_with = "variables")]
    pub env: Vec<String>,
    /// To read these files and folders, named by absolute paths.
    #[schemars(inner(regex(pattern = r"^/")))]
    #[serde(deserialize_with = "absolute_paths")]
    pub read: Vec<String>,
    /// To read and execute an interpreter and what it needs.
    pub runtime: Runtime,
}

/// An interpreter that a plugin needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Runtime {
    /// None: the plugin is an executable of its own.
    #[default]
    #[serde(rename = "")]
    None,
    /// Python.
    Python,
    /// Node.js.
    Node,
    /// The shell.
    Sh,
}

fn variables<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    each(deserializer, "the name of an environment variable", |name| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn absolute_paths<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    each(deserializer, "an absolute path", |path| path.starts_with('/'))
}

fn each<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
    what: &str,
    is: fn(&str) -> bool,
) -> Result<Vec<String>, D::Error> {
    let values = Vec::<String>::deserialize(deserializer)?;
    match values.iter().find(|value| !is(value)) {
        Some(value) => Err(serde::de::Error::custom(format_args!("{value:?} is not {what}"))),
        None => Ok(values),
    }
}
