//! `[run]` of a manifest: what is started, and how. Types only.

use std::error::Error;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How many digits a timeout has.
const DIGITS_MAX: u32 = 9;

/// How a plugin is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Run {
    /// What is started.
    pub program: Program,
    /// For how many requests.
    pub mode: Mode,
    /// How long one round may take; without it the host's own deadline holds.
    pub timeout_ms: Option<u64>,
}

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments, relative to the manifest. Never a shell.
    Command(
        // Invariant: not empty, and neither is the first.
        Vec<String>,
    ),
    /// A shared library, relative to the manifest. The runner opens it, never the host.
    Dylib(String),
}

/// For how many requests a process is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As the strategy's features and the host's need have it.
    #[default]
    Auto,
    /// One request a process.
    OneShot,
    /// Requests until stdin closes.
    Worker,
}

/// `[run]` as it is written.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Run", extend("oneOf" = json!([{"required": ["command"]}, {"required": ["dylib"]}])))]
struct Wire {
    /// A program and its arguments, relative to the manifest. Never a shell. Either this or `dylib`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(min = 1), extend("prefixItems" = json!([{"minLength": 1}])))]
    command: Option<Vec<String>>,
    /// A shared library, relative to the manifest. Either this or `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    dylib: Option<String>,
    /// For how many requests a process is started.
    #[serde(default)]
    mode: Mode,
    /// How long one round may take: a whole number above 0, and `ms`, `s` or `m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^[1-9][0-9]{0,8}(ms|s|m)$"))]
    timeout: Option<String>,
}

impl TryFrom<Wire> for Run {
    type Error = RunError;

    fn try_from(wire: Wire) -> Result<Self, RunError> {
        let program = match (wire.command, wire.dylib) {
            (Some(command), None) if command.first().is_some_and(|program| !program.is_empty()) => {
                Program::Command(command)
            }
            (None, Some(dylib)) if !dylib.is_empty() => Program::Dylib(dylib),
            (Some(_), Some(_)) => return Err(RunError("has both `command` and `dylib`".into())),
            (None, None) => return Err(RunError("has neither `command` nor `dylib`".into())),
            (Some(_), None) => return Err(RunError("has a `command` that names no program".into())),
            (None, Some(_)) => return Err(RunError("has a `dylib` that names no file".into())),
        };
        let timeout_ms = wire.timeout.as_deref().map(milliseconds).transpose()?;
        Ok(Self { program, mode: wire.mode, timeout_ms })
    }
}

impl From<Run> for Wire {
    fn from(run: Run) -> Self {
        let (command, dylib) = match run.program {
            Program::Command(command) => (Some(command), None),
            Program::Dylib(dylib) => (None, Some(dylib)),
        };
        Self { command, dylib, mode: run.mode, timeout: run.timeout_ms.map(timeout) }
    }
}

/// As [`milliseconds`] reads it: a large number has a large unit.
fn timeout(ms: u64) -> String {
    let (factor, unit) = match ms {
        ms if ms < 10_u64.pow(DIGITS_MAX) => (1, "ms"),
        ms if ms % 60_000 == 0 => (60_000, "m"),
        _ => (1_000, "s"),
    };
    format!("{}{unit}", ms / factor)
}

fn milliseconds(text: &str) -> Result<u64, RunError> {
    let refuse = || RunError(format!("has the `timeout` {text:?}, which is not like \"60s\""));
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return Err(refuse()),
    };
    if number.starts_with('0') || number.len() > DIGITS_MAX as usize {
        return Err(refuse());
    }
    number.parse::<u64>().map(|number| number * factor).map_err(|_| refuse())
}

/// A `[run]` that says nothing that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError(String);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[run] {}", self.0)
    }
}

impl Error for RunError {}
