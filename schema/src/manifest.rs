//! The manifest `plugin.toml`, which describes the strategy in a folder.
//!
//! It is parsed strictly: an unknown key is an error, because a misspelled permission must not be ignored. No file is
//! opened here.

use serde::{Deserialize, Serialize};

use crate::name::StrategyName;

mod run;
pub use run::{Mode, Program, Run, RunError};

/// The version of the manifest format.
pub const MANIFEST: u32 = 1;

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the manifest format: 1.
    #[serde(deserialize_with = "manifest_version")]
    #[cfg_attr(feature = "generate", schemars(extend("const" = MANIFEST)))]
    pub manifest: u32,
    /// The strategy's name. It must not be the name of a bundled strategy.
    pub name: StrategyName,
    /// The strategy's version.
    pub version: String,
    /// One sentence for `strategy list`.
    pub description: String,
    /// All protocol versions that the strategy supports.
    pub protocols: Vec<u32>,
    /// How the host starts the strategy.
    pub run: Run,
    /// The permissions that the strategy requests.
    #[serde(default)]
    pub permissions: Permissions,
}

fn manifest_version<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        MANIFEST => Ok(MANIFEST),
        other => Err(serde::de::Error::custom(format_args!(
            "unsupported manifest version {other}, expected {MANIFEST}"
        ))),
    }
}

/// The permissions that a plugin requests. The user grants them. Only a `runtime` in a system folder needs no grant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// Ask the host's model.
    pub llm: bool,
    /// Open sockets.
    pub network: bool,
    /// Start processes.
    pub subprocess: bool,
    /// See these environment variables.
    #[cfg_attr(feature = "generate", schemars(inner(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))))]
    #[serde(deserialize_with = "variable_names")]
    pub env: Vec<String>,
    /// Read these files and folders, given as absolute paths.
    #[cfg_attr(feature = "generate", schemars(inner(regex(pattern = r"^/"))))]
    #[serde(deserialize_with = "absolute_paths")]
    pub read: Vec<String>,
    /// Read and execute an interpreter and its libraries.
    pub runtime: Runtime,
}

/// An interpreter that a plugin needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Runtime {
    /// No interpreter: the plugin is a native executable.
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

fn variable_names<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    strings_matching(deserializer, "the name of an environment variable", |name| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn absolute_paths<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    strings_matching(deserializer, "an absolute path", |path| path.starts_with('/'))
}

fn strings_matching<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
    expected: &str,
    matches: fn(&str) -> bool,
) -> Result<Vec<String>, D::Error> {
    let values = Vec::<String>::deserialize(deserializer)?;
    match values.iter().find(|value| !matches(value)) {
        Some(value) => Err(serde::de::Error::custom(format_args!("{value:?} is not {expected}"))),
        None => Ok(values),
    }
}
