//! The reports of the commands `strategy ...`.

use serde::{Deserialize, Serialize};

use crate::describe::Description;
use crate::manifest::{Manifest, Permissions};

/// The report of `strategy list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "strategy-list-report"))]
pub struct StrategyListReport {
    /// The strategies.
    pub strategies: Vec<StrategyRow>,
    /// The folders that were searched.
    pub folders: Vec<FolderReport>,
}

/// A strategy that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct StrategyRow {
    /// The name.
    pub name: String,
    /// The path of the executable or folder.
    pub path: String,
    /// The origin of the strategy, or `shadowed`.
    pub origin: String,
    /// The origin of the strategy, even if it is shadowed.
    pub found_in: String,
    /// Whether another strategy of the same name is used instead.
    pub shadowed: bool,
    /// `trusted`, `untrusted`, `changed`, `insecure`, or `unreadable`.
    pub trust: String,
    /// The SHA-256 of the bytes.
    pub sha256: Option<String>,
    /// The version, if it is known.
    pub version: Option<String>,
    /// The description, if it is known.
    pub description: Option<String>,
    /// Whether the strategy has described itself.
    pub described: bool,
    /// The reason why the strategy cannot run.
    pub problem: Option<String>,
}

/// A folder of strategies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct FolderReport {
    /// The path.
    pub path: String,
    /// The reason why the folder is searched.
    pub origin: String,
}

/// The report of `strategy show`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "strategy-show-report"))]
pub struct StrategyShowReport {
    /// The path of the executable or folder.
    pub path: String,
    /// The origin.
    pub origin: String,
    /// The SHA-256 of the executable.
    pub executable_sha256: String,
    /// The granted permissions.
    pub granted: Vec<String>,
    /// The strategy's answer to `describe`.
    pub description: Description,
}

/// The report of `strategy trust`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "strategy-trust-report"))]
pub struct StrategyTrustReport {
    /// The name of the strategy.
    pub name: String,
    /// The trusted path.
    pub path: String,
    /// The trusted SHA-256.
    pub sha256: String,
    /// The manifest. Null for an executable without a folder.
    pub manifest: Option<Manifest>,
    /// The strategy's answer to `describe`. Null if it gave none.
    pub description: Option<Description>,
    /// The reason why there is no description.
    pub not_described: Option<String>,
    /// The interpreters and programs outside the system's folders.
    pub runs: Vec<String>,
    /// The permissions that the plugin asks for.
    pub asked: Vec<String>,
    /// The granted permissions.
    pub granted: Vec<String>,
    /// The permissions that the plugin asks for and does not have.
    pub not_granted: Vec<String>,
    /// The permissions in the trust record.
    pub permissions: Permissions,
    /// The path of the interpreter.
    pub interpreter: Option<String>,
}

/// The report of `strategy untrust`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "strategy-untrust-report"))]
pub struct StrategyUntrustReport {
    /// The plugin, as given on the command line.
    pub plugin: String,
    /// The number of removed trust records.
    pub revoked: usize,
}

/// The report of `strategy test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "strategy-test-report"))]
pub struct StrategyTestReport {
    /// The plugin, as given on the command line.
    pub path: String,
    /// Whether no check failed.
    pub passed: bool,
    /// The checks.
    pub checks: Vec<CheckReport>,
}

/// A conformance check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct CheckReport {
    /// The public id of the check.
    pub id: String,
    /// The lowest level that includes the check: `core` or `full`.
    pub level: String,
    /// The input of the strategy.
    pub sent: String,
    /// The required behavior.
    pub expected: String,
    /// The result.
    pub verdict: CheckResult,
    /// The behavior that was observed, or the reason for skipping the check. Null if the check passed.
    pub reason: Option<String>,
}

/// The result of a conformance check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// The strategy follows the rule.
    Passed,
    /// The strategy breaks the rule.
    Failed,
    /// The check could not run, or the rule does not apply.
    Skipped,
}
