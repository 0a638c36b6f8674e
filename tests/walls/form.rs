//! The form of the code: module cycles, the length of files and crates, module headers, and the known files of the root.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::module_graph::{self, Crate};
use crate::paths::names_found;
use crate::sources::Source;

/// Known cycles: a crate, a parent module, and the number of its submodules in cycles. The list must stay empty.
pub(crate) const KNOWN_CYCLES: &[(&str, &str, usize)] = &[];
/// The maximum number of lines of a crate, with its unit tests.
const CRATE_LINES_MAX: usize = 10_000;
pub(crate) const FILES: [&str; 15] = [
    ".ci/run",
    ".github/workflows/ci.yml",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "deny.toml",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "schema/PROTOCOL.md",
];
pub(crate) const FOLDERS: [&str; 6] = ["docs", "host", "plugins", "schema", "strategies", "tests"];

/// Returns the cycles of modules, the glob imports that could hide cycles, and the outdated entries in the list of
/// known cycles.
pub(crate) fn module_cycles(crates: &[Crate<'_>], known: &[(&str, &str, usize)]) -> Vec<String> {
    let mut violations = Vec::new();
    for krate in crates {
        violations.extend(krate.globs());
        for (parent, level) in krate.levels() {
            let cycles = module_graph::cycles(&level);
            let count: usize = cycles.iter().map(Vec::len).sum();
            let allowed = known
                .iter()
                .find(|(folder, known_parent, _)| *folder == krate.folder && *known_parent == parent);
            let allowed = allowed.map_or(0, |(_, _, count)| *count);
            if count > allowed {
                let cycles: Vec<String> = cycles.iter().map(|cycle| cycle.join(", ")).collect();
                let parent = if parent.is_empty() { "the crate" } else { &parent };
                violations.push(format!("{}: cycle in {parent}: {}", krate.folder, cycles.join("; ")));
            }
        }
    }
    for (folder, parent, count) in known {
        let Some(known) = crates.iter().find(|krate| krate.folder == *folder) else { continue };
        let levels = known.levels();
        let cycles = levels.get(*parent).map(module_graph::cycles).unwrap_or_default();
        if cycles.is_empty() {
            violations.push(format!(
                "{folder}: no cycle is left in `{parent}`; delete it from KNOWN_CYCLES ({count})"
            ));
        }
    }
    violations
}

/// Returns the crates that have too many lines to be read as one unit.
pub(crate) fn oversized_crates(folders: &[String], sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for folder in folders {
        let is_other = |file: &str| {
            folders.iter().any(|other| other.len() > folder.len() && file.starts_with(other.as_str()))
        };
        let own_sources =
            sources.iter().filter(|source| source.file.starts_with(folder) && !is_other(&source.file));
        let lines: usize = own_sources.map(|source| source.lines).sum();
        if lines > CRATE_LINES_MAX {
            violations.push(format!("{folder} has {lines} lines, at most {CRATE_LINES_MAX} are allowed"));
        }
    }
    violations
}

/// Checks that a file has a module header, no `#[allow]`, no `include!`, and at most 500 lines if
/// it is not in `tests/`.
pub(crate) fn form_violations(source: &Source) -> Vec<String> {
    let file = &source.file;
    let in_tests = file.starts_with("tests/") || file.contains("/tests/");
    let mut violations = Vec::new();
    if !source.opens_with_doc {
        violations.push(format!("{file} has no module header (`//!`) in its first line"));
    }
    if source.allows > 0 {
        violations.push(format!("{file} has `#[allow]` instead of `#[expect]`"));
    }
    if source.lines > 500 && !in_tests {
        violations.push(format!("{file} has {} lines, at most 500 are allowed", source.lines));
    }
    // Included code would escape all walls.
    violations.extend(names_found(source, source.names.iter().filter(|name| name.path == "include!")));
    violations
}

pub(crate) fn root_violations(root: &Path) -> Vec<String> {
    let missing = FILES.iter().filter(|file| !root.join(file).is_file());
    let mut violations: Vec<String> = missing.map(|file| format!("{file} is missing")).collect();
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names: BTreeSet<String> = folders.map(|folder| folder.file_name().into_string().unwrap()).collect();
    violations.extend(
        FOLDERS.iter().filter(|name| !names.contains(**name)).map(|name| format!("{name}/ is missing")),
    );
    let is_unknown =
        |name: &&String| !name.starts_with('.') && *name != "target" && !FOLDERS.contains(&&***name);
    violations.extend(names.iter().filter(is_unknown).map(|name| format!("{name}/ is not a known folder")));
    violations
}
