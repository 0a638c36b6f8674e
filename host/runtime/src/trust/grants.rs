//! Permissions in the form that users write: `llm`, `network`, `subprocess`, `env:NAME`, `read:/path`,
//! `runtime:python`. This module parses and prints them. It does not know which plugin has which permission.

use std::fmt;
use std::str::FromStr;

use jp_compact_schema::{Permissions, Runtime};

/// Variables that cannot be granted, because the host sets them for every strategy.
const NEVER_GRANTED: [&str; 6] = ["PATH", "LANG", "TZ", "HOME", "TMPDIR", "JP_COMPACT_PROTOCOL"];

/// Prefixes of the variables of the dynamic loader. They would already change the runner, before it confines itself.
pub(super) const LOADER_PREFIXES: [&str; 2] = ["LD_", "DYLD_"];

/// A single permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Send prompts to the model of the host.
    Llm,
    /// Open sockets.
    Network,
    /// Start processes.
    Subprocess,
    /// Read an environment variable.
    Env(String),
    /// Read a file or folder.
    Read(String),
    /// Execute an interpreter.
    Runtime(Runtime),
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word.split_once(':').unwrap_or((word, "")) {
            ("llm", "") => Ok(Self::Llm),
            ("network", "") => Ok(Self::Network),
            ("subprocess", "") => Ok(Self::Subprocess),
            ("env", name) => variable(name).map(Self::Env),
            ("read", path) if path.starts_with('/') => Ok(Self::Read(path.to_owned())),
            ("read", _) => Err("expected an absolute path after `read:`".into()),
            ("runtime", "python") => Ok(Self::Runtime(Runtime::Python)),
            ("runtime", "node") => Ok(Self::Runtime(Runtime::Node)),
            ("runtime", "sh") => Ok(Self::Runtime(Runtime::Sh)),
            ("runtime", _) => Err("expected `python`, `node` or `sh` after `runtime:`".into()),
            _ => Err("expected `llm`, `network`, `subprocess`, `env:NAME`, `read:/path` or `runtime:python`"
                .into()),
        }
    }
}

fn variable(name: &str) -> Result<String, String> {
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err("expected the name of a variable after `env:`".into());
    }
    if NEVER_GRANTED.contains(&name) || LOADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(format!("`{name}` cannot be granted"));
    }
    Ok(name.to_owned())
}

/// Checks permissions that were not parsed as words: those of a manifest, a record, or a lock file.
///
/// # Errors
/// A variable or a path cannot be granted.
pub fn check(permissions: &Permissions) -> Result<(), String> {
    if let Some(reason) = permissions.env.iter().find_map(|name| variable(name).err()) {
        return Err(format!("invalid permission `env`: {reason}"));
    }
    // `--grant` separates permissions with commas.
    let invalid = permissions.read.iter().find(|path| !path.starts_with('/') || path.contains(','));
    invalid.map_or(Ok(()), |path| {
        Err(format!("invalid permission `read`: `{path}` is not an absolute path without a comma"))
    })
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Llm => f.write_str("llm"),
            Self::Network => f.write_str("network"),
            Self::Subprocess => f.write_str("subprocess"),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::Read(path) => write!(f, "read:{path}"),
            Self::Runtime(runtime) => write!(f, "runtime:{}", runtime_name(*runtime)),
        }
    }
}

fn runtime_name(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Python => "python",
        Runtime::Node => "node",
        Runtime::Sh => "sh",
        _ => "",
    }
}

/// Returns the permissions of a set in a fixed order.
#[must_use]
pub fn grants(permissions: &Permissions) -> Vec<Grant> {
    let mut grants = Vec::new();
    for (asked, grant) in [
        (permissions.llm, Grant::Llm),
        (permissions.network, Grant::Network),
        (permissions.subprocess, Grant::Subprocess),
    ] {
        grants.extend(asked.then_some(grant));
    }
    grants.extend(permissions.env.iter().cloned().map(Grant::Env));
    grants.extend(permissions.read.iter().cloned().map(Grant::Read));
    if permissions.runtime != Runtime::None {
        grants.push(Grant::Runtime(permissions.runtime));
    }
    grants
}

/// Adds permissions to a set.
#[must_use]
pub fn add(mut permissions: Permissions, added: &[Grant]) -> Permissions {
    let add = |list: &mut Vec<String>, value: &String| {
        if !list.contains(value) {
            list.push(value.clone());
        }
    };
    for grant in added {
        match grant {
            Grant::Llm => permissions.llm = true,
            Grant::Network => permissions.network = true,
            Grant::Subprocess => permissions.subprocess = true,
            Grant::Env(name) => add(&mut permissions.env, name),
            Grant::Read(path) => add(&mut permissions.read, path),
            Grant::Runtime(runtime) => permissions.runtime = *runtime,
        }
    }
    permissions
}

/// Returns the permissions that were asked for but not granted.
#[must_use]
pub fn missing(asked: &Permissions, granted: &Permissions) -> Vec<Grant> {
    let granted = grants(granted);
    grants(asked).into_iter().filter(|grant| !granted.contains(grant)).collect()
}

/// Joins permissions with commas, in the form that `--grant` accepts.
#[must_use]
pub fn joined(grants: &[Grant]) -> String {
    grants.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
