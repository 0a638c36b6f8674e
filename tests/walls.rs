//! The walls of ARCHITECTURE.md: the direction of dependencies, the paths that a folder may name, and the only
//! files that open files, start processes, read the clock or print.
//!
//! Each wall is a function from parsed sources to a list of violations. Each wall also has a test in
//! `wall_breaches` that breaks it on purpose, because a wall that cannot fail proves nothing.
#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the test runs `cargo metadata`")]
#![expect(clippy::print_stdout, reason = "`--nocapture` prints the module graph")]

mod module_graph;
mod names;
mod sources;
mod wall_breaches;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use module_graph::Crate;
use serde_json::{Value, json};
use sources::{Name, Source};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| sources::read_all(Path::new(ROOT)));
static METADATA: LazyLock<Value> = LazyLock::new(metadata);

/// Every package of the workspace, and the packages of the workspace that it may depend on.
const PACKAGE_DEPENDENCIES: [(&str, &[&str]); 10] = [
    ("jp-compact-schema", &[]),
    ("jp-compact-core", &["jp-compact-schema"]),
    ("jp-compact-transcripts", &["jp-compact-schema", "jp-compact-core"]),
    ("jp-compact-runtime", &["jp-compact-schema", "jp-compact-core"]),
    ("jp-compact-conformance", &["jp-compact-schema", "jp-compact-core", "jp-compact-runtime"]),
    ("jp-compact-llm", &["jp-compact-schema", "jp-compact-core", "jp-compact-runtime"]),
    ("jp-compact-store", &["jp-compact-core", "jp-compact-transcripts", "jp-compact-runtime"]),
    (
        "jp-compact-engine",
        &[
            "jp-compact-schema",
            "jp-compact-core",
            "jp-compact-transcripts",
            "jp-compact-runtime",
            "jp-compact-llm",
            "jp-compact-store",
        ],
    ),
    ("jp-compact-strategy", &["jp-compact-schema"]),
    (
        "jp-compact",
        &[
            "jp-compact-schema",
            "jp-compact-core",
            "jp-compact-transcripts",
            "jp-compact-runtime",
            "jp-compact-conformance",
            "jp-compact-llm",
            "jp-compact-store",
            "jp-compact-engine",
            "jp-compact-strategy",
        ],
    ),
];
/// All other dependencies of the pure packages, and of the package that authors of strategies compile.
const EXTERNAL_DEPENDENCIES: [(&str, &[&str]); 4] = [
    ("jp-compact-schema", &["schemars", "serde", "serde_json"]),
    ("jp-compact-core", PURE),
    ("jp-compact-transcripts", PURE),
    ("jp-compact-strategy", &["rustix", "serde", "serde_json"]),
];
const PURE: &[&str] = &["base64-simd", "bytes", "jiff", "memchr", "serde", "serde_json", "thiserror", "wide"];
/// Crates that only these packages depend on, except in tests.
const RESTRICTED_DEPENDENCIES: [(&str, &[&str]); 22] = [
    ("bpe-openai", &["jp-compact"]),
    ("clap", &["jp-compact"]),
    ("clap_complete", &["jp-compact"]),
    ("clap_mangen", &["jp-compact"]),
    ("indicatif", &["jp-compact"]),
    ("mimalloc", &["jp-compact"]),
    ("rmcp", &["jp-compact"]),
    (
        "tokio",
        &[
            "jp-compact",
            "jp-compact-conformance",
            "jp-compact-engine",
            "jp-compact-llm",
            "jp-compact-runtime",
        ],
    ),
    ("futures-util", &["jp-compact-engine"]),
    ("humantime", &["jp-compact-engine"]),
    ("ignore", &["jp-compact-engine"]),
    ("quick-xml", &["jp-compact-engine"]),
    ("genai", &["jp-compact-llm"]),
    ("reqwest", &["jp-compact-llm"]),
    ("rustls", &["jp-compact-llm"]),
    ("secrecy", &["jp-compact-llm"]),
    ("memmap2", &["jp-compact-store"]),
    ("toml", &["jp-compact", "jp-compact-conformance", "jp-compact-engine", "jp-compact-runtime"]),
    ("jsonschema", &["jp-compact", "jp-compact-conformance", "jp-compact-runtime"]),
    ("libloading", &["jp-compact"]),
    ("libc", &["jp-compact"]),
    ("seccompiler", &["jp-compact"]),
];

/// The crates that the folders of the root package may name. The first matching folder counts. `std` is always
/// allowed.
const NAMED_CRATES: [(&str, &[&str]); 4] = [
    (
        "host/cli/",
        &[
            "jp_compact_schema",
            "jp_compact_core",
            "jp_compact_transcripts",
            "jp_compact_runtime",
            "jp_compact_conformance",
            "jp_compact_llm",
            "jp_compact_store",
            "jp_compact_engine",
            "clap",
            "clap_complete",
            "clap_mangen",
            "bpe_openai",
            "indicatif",
            "jiff",
            "mimalloc",
            "rmcp",
            "serde",
            "serde_json",
            "tokio",
            "tracing",
            "tracing_subscriber",
        ],
    ),
    ("host/runner/", &["landlock", "libc", "libloading", "rustix", "seccompiler", "serde", "serde_json"]),
    ("plugins/", &["jp_compact_strategy", "serde", "serde_json"]),
    ("strategies/", &["jp_compact_strategy", "serde", "serde_json"]),
];

/// The folders of the crates whose functions depend on nothing but their arguments.
const PURE_FOLDERS: [&str; 3] = ["schema/src/", "host/core/src/", "host/transcripts/src/"];
/// The parts of core that the runtime may use: requests, replies and their validation. It never sees a stream.
const CORE_IN_RUNTIME: [&str; 6] = [
    "jp_compact_core::bounded",
    "jp_compact_core::estimate",
    "jp_compact_core::reply",
    "jp_compact_core::request",
    "jp_compact_core::spec",
    "jp_compact_core::validate",
];
/// Formats of other agents. Core does not name them in a path.
const FOREIGN_FORMATS: [&str; 9] = [
    "atif",
    "claude_code",
    "codex",
    "gemini_cli",
    "gemini_log",
    "j_cli",
    "opencode",
    "openhands",
    "swe_agent",
];
/// The number of modules in cycles that a level of a crate still has.
const KNOWN_CYCLES: &[(&str, &str, usize)] = &[];
/// The maximum number of lines of a crate, with its unit tests.
const CRATE_LINES_MAX: usize = 10_000;

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
/// Paths that write to a terminal.
const PRINTING: [&str; 10] = [
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "dbg!",
    "std::io::stdout",
    "std::io::stderr",
    "tokio::io::stdout",
    "tokio::io::stderr",
    "rmcp::transport",
];

/// The only place of the host that does one thing, for example start a process.
struct Door {
    /// The paths that do it.
    names: &'static [&'static str],
    /// The files that may name these paths.
    files: &'static [&'static str],
    /// The calls of which the host has exactly one.
    once: Option<&'static [&'static str]>,
}

const DOORS: [Door; 8] = [
    Door {
        names: &[
            "std::process::Command",
            "std::os::unix::process::CommandExt",
            "tokio::process::Command",
            "rustix::runtime",
        ],
        files: &["host/runtime/src/process/child.rs"],
        once: Some(&["std::process::Command::new", "tokio::process::Command::new"]),
    },
    Door { names: RENAMES, files: &["host/store/src/rename.rs"], once: Some(RENAMES) },
    Door {
        names: FILES_OPENED,
        files: &[
            // These read small files, and transcripts. Each has its own limits.
            "host/runtime/src/small_file.rs",
            "host/store/src/open_file.rs",
            // These create files or folders.
            "host/engine/src/batch/report.rs",
            "host/conformance/src/rehearse.rs",
            "host/conformance/src/template.rs",
            "host/runtime/src/allowed_root.rs",
            "host/runtime/src/private_file.rs",
            "host/runtime/src/process/threads.rs",
            "host/store/src/folder.rs",
            "host/store/src/lock.rs",
            "host/store/src/open_folder.rs",
            // These compare an opened file with an earlier observation: a terminal, an output of a strategy, a
            // file of a plugin.
            "host/runtime/src/process/child.rs",
            "host/runtime/src/process/private_dir/tree.rs",
            "host/runtime/src/trust/tree.rs",
        ],
        once: None,
    },
    Door { names: CLOCKS, files: &["host/runtime/src/clock.rs"], once: Some(CLOCKS) },
    Door { names: ENVIRONMENT, files: &["host/runtime/src/environment.rs"], once: None },
    Door { names: NETWORK, files: &["host/llm/src/client.rs"], once: None },
    Door {
        names: &PRINTING,
        // main passes stderr to the trace of `-v`. The example is a program of its own.
        files: &["host/cli/output.rs", "host/cli/main.rs", "host/runtime/examples/embed.rs"],
        once: None,
    },
    // Bytes for programs. Text for people goes through `EscapedLines`, which escapes it.
    Door { names: &["crate::output::data"], files: &RAW_OUTPUT, once: None },
];
const RAW_OUTPUT: [&str; 7] = [
    "host/cli/commands/batch/mod.rs",
    "host/cli/commands/completions.rs",
    "host/cli/commands/config/mod.rs",
    "host/cli/commands/man.rs",
    "host/cli/commands/print.rs",
    "host/cli/commands/query.rs",
    "host/cli/commands/schema.rs",
];
const RENAMES: &[&str] = &[
    "std::fs::rename",
    "tokio::fs::rename",
    "rustix::fs::rename",
    "rustix::fs::renameat",
    "rustix::fs::renameat_with",
];
/// Calls that open a file. Another user may have replaced the file by a pipe that never ends, a link to another
/// file, or a device that fills all memory.
const FILES_OPENED: &[&str] = &[
    "rustix::fs::open",
    "rustix::fs::openat",
    "rustix::fs::openat2",
    "std::fs::File::create",
    "std::fs::File::create_new",
    "std::fs::File::open",
    "std::fs::File::options",
    "std::fs::OpenOptions",
    "std::fs::copy",
    "std::fs::read",
    "std::fs::read_to_string",
    "std::fs::write",
    "tokio::fs",
];
const CLOCKS: &[&str] = &["jiff::Timestamp::now", "jiff::Zoned::now", "std::time::SystemTime::now"];
// `reqwest::Url` is not listed, because parsing an address opens no connection.
const NETWORK: &[&str] = &["genai", "reqwest::Client", "reqwest::get", "rustls", "std::net", "tokio::net"];
const ENVIRONMENT: &[&str] = &[
    "std::env::current_dir",
    "std::env::current_exe",
    "std::env::home_dir",
    "std::env::set_current_dir",
    "std::env::temp_dir",
    "std::env::var",
    "std::env::var_os",
    "std::env::vars",
    "std::env::vars_os",
];

const FILES: [&str; 15] = [
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
const FOLDERS: [&str; 6] = ["docs", "host", "plugins", "schema", "strategies", "tests"];

fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(ROOT);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the dependencies of a package: the name, and whether only tests use it.
fn dependencies(package: &Value) -> Vec<(&str, bool)> {
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    dependencies
        .map(|dependency| (dependency["name"].as_str().unwrap(), dependency["kind"] == "dev"))
        .collect()
}

fn forbidden_dependencies(metadata: &Value) -> Vec<String> {
    let mut violations = Vec::new();
    let own_packages: BTreeSet<&str> = PACKAGE_DEPENDENCIES.iter().map(|(name, _)| *name).collect();
    let packages = metadata["packages"].as_array().unwrap();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some((_, allowed)) = PACKAGE_DEPENDENCIES.iter().find(|(known, _)| *known == name) else {
            violations.push(format!("{name} is not listed as a package"));
            continue;
        };
        let allowed_external = EXTERNAL_DEPENDENCIES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, allowed_external)| *allowed_external);
        for (other, for_tests) in dependencies(package) {
            let verb = if for_tests { "tests with" } else { "depends on" };
            let is_own = own_packages.contains(other);
            let is_restricted = RESTRICTED_DEPENDENCIES
                .iter()
                .any(|(restricted, users)| *restricted == other && !users.contains(&name));
            let is_not_listed =
                allowed_external.is_some_and(|allowed_external| !allowed_external.contains(&other));
            if is_own && !allowed.contains(&other)
                || !is_own && !for_tests && (is_restricted || is_not_listed)
            {
                violations.push(format!("{name} {verb} {other}"));
            }
        }
        // Nothing can depend on the command line, because it is not a library.
        let libraries = package["targets"].as_array().unwrap().iter();
        if name == "jp-compact" && libraries.filter(|target| target["kind"] == json!(["lib"])).count() > 0 {
            violations.push(format!("{name} has a library"));
        }
    }
    for (name, _) in PACKAGE_DEPENDENCIES {
        if packages.iter().all(|package| package["name"] != name) {
            violations.push(format!("{name} is missing"));
        }
    }
    violations
}

/// Returns the dependencies of the root package: the crate, and whether only tests use it.
fn crates_of_root(metadata: &Value) -> Vec<(String, bool)> {
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let root = packages.find(|package| package["name"] == "jp-compact").unwrap();
    dependencies(root).into_iter().map(|(name, for_tests)| (name.replace('-', "_"), for_tests)).collect()
}

fn forbidden_crates(source: &Source, known: &[(String, bool)]) -> Vec<String> {
    let Some((_, allowed)) = NAMED_CRATES.iter().find(|(folder, _)| source.file.starts_with(folder)) else {
        return Vec::new();
    };
    if source.file.starts_with("strategies/sdk/") {
        return Vec::new();
    }
    let is_known = |name: &Name| known.iter().any(|(known, _)| known == name.first());
    let is_only_for_tests =
        |name: &Name| name.in_tests && !known.iter().any(|(known, dev)| known == name.first() && !dev);
    let is_violation =
        |name: &&Name| is_known(name) && !allowed.contains(&name.first()) && !is_only_for_tests(name);
    names_found(source, source.names.iter().filter(is_violation))
}

/// Returns the names of files, processes, clocks, environment, network, or terminals in pure crates.
fn side_effects_in_pure_crates(source: &Source) -> Vec<String> {
    let is_pure = PURE_FOLDERS.iter().any(|folder| source.file.starts_with(folder));
    let is_violation =
        |name: &&Name| [&SIDE_EFFECTS[..], &PRINTING].concat().iter().any(|path| name.is_within(path));
    if is_pure { names_found(source, source.production().filter(is_violation)) } else { Vec::new() }
}

/// Returns the names of parts of core that the runtime may not use.
fn forbidden_core_in_runtime(source: &Source) -> Vec<String> {
    let is_allowed = |name: &Name| CORE_IN_RUNTIME.iter().any(|path| name.is_within(path));
    let is_violation = |name: &&Name| name.first() == "jp_compact_core" && !is_allowed(name);
    let is_in_runtime = source.file.starts_with("host/runtime/src/");
    if is_in_runtime { names_found(source, source.production().filter(is_violation)) } else { Vec::new() }
}

/// Returns the formats of other agents that core names.
fn foreign_formats_in_core(source: &Source) -> Vec<String> {
    let is_violation = |name: &&Name| name.path.split("::").any(|segment| FOREIGN_FORMATS.contains(&segment));
    let is_in_core = source.file.starts_with("host/core/src/");
    if is_in_core { names_found(source, source.production().filter(is_violation)) } else { Vec::new() }
}

/// Returns the cycles of modules, and the entries of the list of known cycles that are outdated.
fn module_cycles(crates: &[Crate<'_>], known: &[(&str, &str, usize)]) -> Vec<String> {
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
fn oversized_crates(folders: &[String], sources: &[Source]) -> Vec<String> {
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

/// Returns the names in the command line that read files or start processes. Only the engine does that.
fn side_effects_in_cli(source: &Source) -> Vec<String> {
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

fn door_violations<'a>(sources: impl IntoIterator<Item = &'a Source>) -> Vec<String> {
    let mut violations = Vec::new();
    // The runner is a process of its own, so the doors of ARCHITECTURE.md do not apply to it.
    let is_host_file = |file: &str| file.starts_with("host/") && !file.starts_with("host/runner/");
    let host: Vec<&Source> = sources.into_iter().filter(|source| is_host_file(&source.file)).collect();
    for door in DOORS {
        let uses_door = |name: &&Name| door.names.iter().any(|path| name.is_within(path));
        for source in &host {
            if !door.files.contains(&&*source.file) {
                violations.extend(names_found(source, source.production().filter(uses_door)));
            }
        }
        if let Some(calls) = door.once {
            let is_call = |name: &&Name| !name.imported && calls.iter().any(|path| name.is_within(path));
            let count: usize = host.iter().map(|source| source.production().filter(is_call).count()).sum();
            if count != 1 {
                violations.push(format!("{} occurs {count} times in the host", calls[0]));
            }
        }
    }
    violations
}

fn unsafe_violations(sources: &[Source]) -> Vec<String> {
    let unsafe_sources: Vec<&Source> = sources.iter().filter(|source| source.has_unsafe).collect();
    // The C types of shared libraries, and the expansion of `export_strategy!`.
    let folders = ["host/runner/", "strategies/sdk/src/abi.rs", "strategies/sdk/src/export.rs"];
    let elsewhere =
        unsafe_sources.iter().filter(|source| !folders.iter().any(|folder| source.file.starts_with(folder)));
    let mut violations: Vec<String> =
        elsewhere.map(|source| format!("{} contains unsafe code", source.file)).collect();
    let lines: usize = unsafe_sources.iter().map(|source| source.lines).sum();
    if lines > 320 {
        violations.push(format!("files with unsafe code have {lines} lines, at most 320 are allowed"));
    }
    violations
}

/// Checks that a file has a module header, no `#[allow]`, no `include!`, and at most 500 lines.
fn form_violations(source: &Source) -> Vec<String> {
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

fn names_found<'a>(source: &Source, names: impl Iterator<Item = &'a Name>) -> Vec<String> {
    let paths: BTreeSet<&str> = names.map(|name| &*name.path).collect();
    paths.into_iter().map(|path| format!("{} names {path}", source.file)).collect()
}

fn root_violations(root: &Path) -> Vec<String> {
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

#[track_caller]
fn assert_none(violations: impl IntoIterator<Item = String>) {
    let violations: Vec<String> = violations.into_iter().collect();
    assert!(violations.is_empty(), "\n  {}\n", violations.join("\n  "));
}

#[test]
fn packages_depend_in_one_direction() {
    assert_none(forbidden_dependencies(&METADATA));
}

#[test]
fn executables_name_only_their_own_crates() {
    let known = crates_of_root(&METADATA);
    assert_none(SOURCES.iter().flat_map(|source| forbidden_crates(source, &known)));
}

#[test]
fn pure_crates_name_no_side_effects() {
    assert_none(SOURCES.iter().flat_map(side_effects_in_pure_crates));
}

#[test]
fn command_line_reads_no_files_and_starts_no_processes() {
    assert_none(SOURCES.iter().flat_map(side_effects_in_cli));
}

#[test]
fn each_side_effect_has_one_door() {
    assert_none(door_violations(&*SOURCES));
}

#[test]
fn unsafe_code_is_only_in_the_runner_and_short() {
    assert_none(unsafe_violations(&SOURCES));
}

#[test]
fn sources_have_headers_and_bounded_length() {
    assert_none(SOURCES.iter().flat_map(form_violations));
}

#[test]
fn root_holds_the_known_files_and_folders() {
    assert_none(root_violations(Path::new(ROOT)));
}

#[test]
fn runtime_uses_only_replies_of_core() {
    assert_none(SOURCES.iter().flat_map(forbidden_core_in_runtime));
}

#[test]
fn core_names_no_foreign_format() {
    assert_none(SOURCES.iter().flat_map(foreign_formats_in_core));
}

fn crates() -> Vec<Crate<'static>> {
    let folders = module_graph::folders(&METADATA);
    folders.iter().map(|folder| Crate::new(folder, &folders, &SOURCES)).collect()
}

#[test]
fn module_graph_has_no_cycles() {
    let crates = crates();
    for krate in &crates {
        let (modules, lines) = krate.size();
        println!("\n{} has {modules} modules and {lines} lines", krate.folder);
        for (parent, level) in krate.levels() {
            if !parent.is_empty() {
                println!("  submodules of {parent}:");
            }
            print!("{}", module_graph::print(&level, if parent.is_empty() { "  " } else { "    " }));
        }
    }
    assert_none(module_cycles(&crates, KNOWN_CYCLES));
}

#[test]
fn crates_have_bounded_length() {
    assert_none(oversized_crates(&module_graph::folders(&METADATA), &SOURCES));
}

#[test]
fn functions_have_descriptive_names() {
    assert_none(SOURCES.iter().flat_map(names::vague_functions));
}

#[test]
fn tests_state_a_behavior() {
    assert_none(SOURCES.iter().flat_map(names::tests_without_behavior));
}

#[test]
fn public_type_names_are_unique() {
    assert_none(names::types_defined_twice(&SOURCES));
}

#[test]
fn every_folder_and_executable_was_read() {
    let folders = [
        "schema/src/",
        "host/core/src/",
        "host/transcripts/src/",
        "host/runtime/src/",
        "host/conformance/src/",
        "host/llm/src/",
        "host/store/src/",
        "host/engine/src/",
        "host/cli/",
        "strategies/sdk/src/",
    ];
    for folder in folders.into_iter().chain(["strategies/strip-tools/", "host/runner/", "tests/"]) {
        assert!(SOURCES.iter().any(|source| source.file.starts_with(folder)), "{folder} was not read");
    }
    let bins = METADATA["packages"].as_array().unwrap().iter().flat_map(|package| {
        package["targets"].as_array().unwrap().iter().map(|target| target["src_path"].as_str().unwrap())
    });
    for file in bins {
        let file = Path::new(file).strip_prefix(METADATA["workspace_root"].as_str().unwrap()).unwrap();
        assert!(SOURCES.iter().any(|source| Path::new(&source.file) == file), "{file:?} was not read");
    }
}
