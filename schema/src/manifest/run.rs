//! The table `[run]` of a manifest: the program to start, and how.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum number of digits of a timeout.
const DIGITS_MAX: u32 = 9;

/// How the host starts a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Run {
    /// The program to start.
    pub program: Program,
    /// The number of requests per process.
    pub mode: Mode,
    /// The time limit for one round. Default: the host's limit.
    pub timeout_ms: Option<u64>,
}

/// The program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments. Paths are relative to the manifest. No shell is involved.
    Command(
        // Invariant: neither the list nor its first element is empty.
        Vec<String>,
    ),
    /// A shared library. The path is relative to the manifest. The runner opens it, and the host never does.
    Dylib(String),
}

/// The number of requests per process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The host decides, based on the strategy's features.
    #[default]
    Auto,
    /// One request per process.
    OneShot,
    /// Many requests per process, until stdin closes.
    Worker,
}

/// How the host starts a plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "generate", schemars(rename = "Run", extend("oneOf" = serde_json::json!([{"required": ["command"]}, {"required": ["dylib"]}]))))]
struct Wire {
    /// A program and its arguments. Paths are relative to the manifest. No shell is involved. Either `command` or `dylib`
    /// is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(with = "Vec<String>", length(min = 1), extend("prefixItems" = serde_json::json!([{"minLength": 1}]))))]
    command: Option<Vec<String>>,
    /// The path of a shared library, relative to the manifest. Either `command` or `dylib` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(with = "String", length(min = 1)))]
    dylib: Option<String>,
    /// The number of requests per process.
    #[serde(default)]
    mode: Mode,
    /// The time limit for one round: a positive whole number with the unit `ms`, `s`, or `m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "generate",
        schemars(with = "String", regex(pattern = r"^[1-9][0-9]{0,8}(ms|s|m)$"))
    )]
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
            (Some(_), None) => return Err(RunError("has an empty `command`".into())),
            (None, Some(_)) => return Err(RunError("has an empty `dylib`".into())),
        };
        let timeout_ms = wire.timeout.as_deref().map(parse_timeout).transpose()?;
        Ok(Self { program, mode: wire.mode, timeout_ms })
    }
}

impl From<Run> for Wire {
    fn from(run: Run) -> Self {
        let (command, dylib) = match run.program {
            Program::Command(command) => (Some(command), None),
            Program::Dylib(dylib) => (None, Some(dylib)),
        };
        Self { command, dylib, mode: run.mode, timeout: run.timeout_ms.map(format_timeout) }
    }
}

/// Formats a timeout for [`parse_timeout`]. Large values need a larger unit because of [`DIGITS_MAX`].
fn format_timeout(ms: u64) -> String {
    let (factor, unit) = match ms {
        ms if ms < 10_u64.pow(DIGITS_MAX) => (1, "ms"),
        ms if ms % 60_000 == 0 => (60_000, "m"),
        _ => (1_000, "s"),
    };
    format!("{}{unit}", ms / factor)
}

/// Returns the timeout in milliseconds.
fn parse_timeout(text: &str) -> Result<u64, RunError> {
    let error = || RunError(format!("has the invalid `timeout` {text:?}; write, for example, \"60s\""));
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - unit.len()];
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return Err(error()),
    };
    if number.starts_with('0') || number.len() > DIGITS_MAX as usize {
        return Err(error());
    }
    number.parse::<u64>().map(|number| number * factor).map_err(|_| error())
}

/// An invalid `[run]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError(String);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[run] {}", self.0)
    }
}

impl Error for RunError {}
