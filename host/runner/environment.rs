//! The environment of a strategy: fixed variables, and variables that the user granted by name.
//!
//! No other variable of the host may reach a strategy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const PROTOCOL: &str = "1";
/// Prefixes of the variables of the dynamic loader.
const LOADER_PREFIXES: [&str; 2] = ["LD_", "DYLD_"];

/// Returns `NAME=VALUE` for each variable of the strategy. A fixed variable cannot be granted. A granted variable that is
/// not set stays unset.
pub(crate) fn strategy_variables(dir: &Path, granted: &[OsString]) -> Result<Vec<OsString>, String> {
    let fixed: [(&str, &OsStr); 6] = [
        ("PATH", PATH.as_ref()),
        ("LANG", "C.UTF-8".as_ref()),
        ("TZ", "UTC".as_ref()),
        ("HOME", dir.as_os_str()),
        ("TMPDIR", dir.as_os_str()),
        ("JP_COMPACT_PROTOCOL", PROTOCOL.as_ref()),
    ];
    let mut environment: Vec<_> = fixed.iter().map(|(name, value)| pair(name.as_ref(), value)).collect();
    for name in granted {
        if LOADER_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes())) {
            return Err(format!("{} changes the dynamic loader and cannot be granted", name.display()));
        }
        if fixed.iter().any(|(fixed_name, _)| name == fixed_name) {
            return Err(format!("{} is set by the host and cannot be granted", name.display()));
        }
        environment.extend(std::env::var_os(name).map(|value| pair(name, &value)));
    }
    Ok(environment)
}

fn pair(name: &OsStr, value: &OsStr) -> OsString {
    let mut pair = OsString::with_capacity(name.len() + 1 + value.len());
    pair.push(name);
    pair.push("=");
    pair.push(value);
    pair
}
