//! Paths that a folder may name: pure crates have no side effects, the command line reads no files and starts no
//! processes, the runtime sees no stream, and core knows no format of another agent.

use std::collections::BTreeSet;

use crate::doors::PRINTING;
use crate::sources::{Name, Source};

/// The folders of the crates whose functions depend on nothing but their arguments.
const PURE_FOLDERS: [&str; 11] = [
    "schema/src/",
    "host/json/src/",
    "host/tokens/src/",
    "host/core/src/",
    "host/transcripts/src/",
    "host/diff/src/",
    "host/evidence/src/",
    "host/folders/src/",
    "host/images/src/",
    "host/condensed/src/",
    "host/terminal/src/",
];
/// The parts of core that the runtime may use, for example requests and replies. The runtime never sees a stream.
const CORE_IN_RUNTIME: [&str; 6] = [
    "jp_compact_core::bounded",
    "jp_compact_core::estimate",
    "jp_compact_core::reply",
    "jp_compact_core::request",
    "jp_compact_core::spec",
    "jp_compact_core::validate",
];
/// Formats of other agents. Core does not name them in a path.
const FOREIGN_FORMATS: [&str; 13] = [
    "atif",
    "claude_code",
    "cline",
    "codex",
    "gemini_cli",
    "gemini_log",
    "j_cli",
    "kimi_cli",
    "opencode",
    "openhands",
    "pi",
    "qwen_code",
    "swe_agent",
];
/// Paths to files, processes, the clock, the environment, the network or threads.
const SIDE_EFFECTS: [&str; 18] = [
    "std::env",
    "std::fs",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::net",
    "std::os",
    // A path by itself is harmless, but `path.exists()` reads the disk and names no other path.
    "std::path",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "jiff::tz::TimeZone::system",
    "rustix",
    "tempfile",
    "tokio",
];

/// Returns the names of files, processes, clocks, environment, network, or terminals in pure crates.
pub(crate) fn side_effects_in_pure_crates(source: &Source) -> Vec<String> {
    let is_pure = PURE_FOLDERS.iter().any(|folder| source.file.starts_with(folder));
    let is_violation =
        |name: &&Name| [&SIDE_EFFECTS[..], &PRINTING].concat().iter().any(|path| name.is_within(path));
    if is_pure { names_found(source, source.production().filter(is_violation)) } else { Vec::new() }
}

/// Returns the names of parts of core that the runtime may not use.
pub(crate) fn forbidden_core_in_runtime(source: &Source) -> Vec<String> {
    let is_allowed = |name: &Name| CORE_IN_RUNTIME.iter().any(|path| name.is_within(path));
    let is_violation = |name: &&Name| name.first_segment() == "jp_compact_core" && !is_allowed(name);
    let is_in_runtime = source.file.starts_with("host/runtime/src/");
    if is_in_runtime { names_found(source, source.production().filter(is_violation)) } else { Vec::new() }
}

/// Returns the formats of other agents that core names.
pub(crate) fn foreign_formats_in_core(source: &Source) -> Vec<String> {
    let is_violation = |name: &&Name| name.path.split("::").any(|segment| FOREIGN_FORMATS.contains(&segment));
    let is_in_core = source.file.starts_with("host/core/src/");
    if is_in_core { names_found(source, source.production().filter(is_violation)) } else { Vec::new() }
}

/// Returns the names in the command line that read files or start processes. The libraries do that.
pub(crate) fn side_effects_in_cli(source: &Source) -> Vec<String> {
    if !source.file.starts_with("host/cli/") {
        return Vec::new();
    }
    let is_allowed = |name: &Name| match &*source.file {
        // A descriptor without the line buffer of the standard library's stdout.
        "host/cli/output.rs" => name.is_within("std::fs::File"),
        "host/cli/main.rs" => name.is_within("std::env::args_os"),
        _ => false,
    };
    let side_effects = ["std::fs", "std::env", "std::net", "std::process", "tokio::fs", "tokio::net"];
    let is_violation = |name: &&Name| {
        let is_exit_code = name.is_within("std::process::ExitCode") && !name.path.ends_with('*');
        side_effects.iter().any(|path| name.is_within(path)) && !is_exit_code && !is_allowed(name)
    };
    names_found(source, source.production().filter(is_violation))
}

pub(crate) fn names_found<'a>(source: &Source, names: impl Iterator<Item = &'a Name>) -> Vec<String> {
    let paths: BTreeSet<&str> = names.map(|name| &*name.path).collect();
    paths.into_iter().map(|path| format!("{} names {path}", source.file)).collect()
}
