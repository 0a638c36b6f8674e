//! The report of `doctor`.

use serde::{Deserialize, Serialize};

/// The report of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "doctor-report"))]
pub struct DoctorReport {
    /// The version of the host.
    pub version: String,
    /// The tier on this machine: `isolated`, `partly-isolated`, or `contained`.
    pub tier: String,
    /// The version of Landlock. 0 if the kernel has none.
    pub landlock: u8,
    /// Whether the kernel has seccomp.
    pub seccomp: bool,
    /// The parts of a jail that this machine lacks.
    pub missing: Vec<MissingReport>,
    /// The limits of a strategy.
    pub limits: DoctorLimits,
    /// The path of `compact-runner`.
    pub runner: String,
    /// The names of the bundled strategies.
    pub bundled: Vec<String>,
    /// The folders that are searched for strategies.
    pub folders: Vec<DoctorFolder>,
    /// The environment variables for the keys of providers. Their values are not read.
    pub keys: Vec<KeyReport>,
}

/// A missing part of a jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct MissingReport {
    /// The missing part.
    pub feature: String,
    /// The way to get it.
    pub remedy: String,
}

/// The limits of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct DoctorLimits {
    /// The bytes in the private directory.
    pub private_dir_bytes: u64,
    /// The files and folders in the private directory.
    pub private_dir_entries: u64,
    /// The levels of folders in the private directory.
    pub private_dir_depth: u64,
    /// The threads of a strategy that is not bundled. Null if they are not limited.
    pub threads: Option<u64>,
}

/// A folder that is searched for strategies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct DoctorFolder {
    /// The path.
    pub path: String,
    /// The reason why the folder is searched.
    pub origin: String,
    /// Whether the folder exists.
    pub is_there: bool,
}

/// An environment variable for the key of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct KeyReport {
    /// The name of the provider.
    pub provider: String,
    /// The name of the variable.
    pub variable: String,
    /// Whether the variable is set.
    pub is_set: bool,
}
