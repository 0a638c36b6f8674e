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
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| sources::all(Path::new(ROOT)));
static METADATA: LazyLock<Value> = LazyLock::new(metadata);

/// Every package of the workspace, and the packages of the workspace that it may depend on.
const ARROWS: [(&str, &[&str]); 10] = [
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
const ALL_OF: [(&str, &[&str]); 4] = [
    ("jp-compact-schema", &["schemars", "serde", "serde_json"]),
    ("jp-compact-core", PURE),
    ("jp-compact-transcripts", PURE),
    ("jp-compact-strategy", &["rustix", "serde", "serde_json"]),
];
const PURE: &[&str] = &["base64-simd", "bytes", "jiff", "memchr", "serde", "serde_json", "thiserror", "wide"];
/// Crates that only these packages depend on, except in tests.
const ONLY_IN: [(&str, &[&str]); 22] = [
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
const CRATES: [(&str, &[&str]); 4] = [
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
const WORLD: [&str; 18] = [
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
    let all = package["dependencies"].as_array().unwrap().iter();
    all.map(|of| (of["name"].as_str().unwrap(), of["kind"] == "dev")).collect()
}

fn wrong_arrows(metadata: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let ours: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let packages = metadata["packages"].as_array().unwrap();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("{name} is not listed as a package"));
            continue;
        };
        let only = ALL_OF.iter().find(|(known, _)| *known == name).map(|(_, only)| *only);
        for (other, for_tests) in dependencies(package) {
            let arrow = if for_tests { "tests with" } else { "depends on" };
            let of_ours = ours.contains(other);
            let closed = ONLY_IN.iter().any(|(closed, users)| *closed == other && !users.contains(&name));
            let extra = only.is_some_and(|only| !only.contains(&other));
            if of_ours && !allowed.contains(&other) || !of_ours && !for_tests && (closed || extra) {
                wrong.push(format!("{name} {arrow} {other}"));
            }
        }
        // Nothing can depend on the command line, because it is not a library.
        let libraries = package["targets"].as_array().unwrap().iter();
        if name == "jp-compact" && libraries.filter(|target| target["kind"] == json!(["lib"])).count() > 0 {
            wrong.push(format!("{name} has a library"));
        }
    }
    for (name, _) in ARROWS {
        if packages.iter().all(|package| package["name"] != name) {
            wrong.push(format!("{name} is missing"));
        }
    }
    wrong
}

/// Returns the dependencies of the root package: the crate, and whether only tests use it.
fn crates_of_root(metadata: &Value) -> Vec<(String, bool)> {
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let root = packages.find(|package| package["name"] == "jp-compact").unwrap();
    dependencies(root).into_iter().map(|(name, for_tests)| (name.replace('-', "_"), for_tests)).collect()
}

fn wrong_crates(source: &Source, known: &[(String, bool)]) -> Vec<String> {
    let Some((_, allowed)) = CRATES.iter().find(|(folder, _)| source.file.starts_with(folder)) else {
        return Vec::new();
    };
    if source.file.starts_with("strategies/sdk/") {
        return Vec::new();
    }
    let is_known = |name: &Name| known.iter().any(|(known, _)| known == name.first());
    let for_tests =
        |name: &Name| name.in_tests && !known.iter().any(|(known, dev)| known == name.first() && !dev);
    let wrong = |name: &&Name| is_known(name) && !allowed.contains(&name.first()) && !for_tests(name);
    found(source, source.names.iter().filter(wrong))
}

/// Pure crates name no file, process, clock, environment, network or terminal.
fn wrong_world(source: &Source) -> Vec<String> {
    let pure = PURE_FOLDERS.iter().any(|folder| source.file.starts_with(folder));
    let wrong = |name: &&Name| [&WORLD[..], &PRINTING].concat().iter().any(|path| name.is_within(path));
    if pure { found(source, source.production().filter(wrong)) } else { Vec::new() }
}

/// The runtime uses requests, replies and their validation.
fn wrong_core_in_runtime(source: &Source) -> Vec<String> {
    let is_allowed = |name: &Name| CORE_IN_RUNTIME.iter().any(|path| name.is_within(path));
    let wrong = |name: &&Name| name.first() == "jp_compact_core" && !is_allowed(name);
    let of_runtime = source.file.starts_with("host/runtime/src/");
    if of_runtime { found(source, source.production().filter(wrong)) } else { Vec::new() }
}

/// Core does not name the formats of other agents.
fn wrong_formats_in_core(source: &Source) -> Vec<String> {
    let wrong = |name: &&Name| name.path.split("::").any(|segment| FOREIGN_FORMATS.contains(&segment));
    let of_core = source.file.starts_with("host/core/src/");
    if of_core { found(source, source.production().filter(wrong)) } else { Vec::new() }
}

/// The modules of a crate have no cycles, and the list of known cycles is up to date.
fn wrong_cycles(crates: &[Crate<'_>], known: &[(&str, &str, usize)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for krate in crates {
        wrong.extend(krate.globs());
        for (parent, level) in krate.levels() {
            let cycles = module_graph::cycles(&level);
            let count: usize = cycles.iter().map(Vec::len).sum();
            let allowed = known.iter().find(|(folder, at, _)| *folder == krate.folder && *at == parent);
            let allowed = allowed.map_or(0, |(_, _, count)| *count);
            if count > allowed {
                let cycles: Vec<String> = cycles.iter().map(|cycle| cycle.join(", ")).collect();
                let parent = if parent.is_empty() { "the crate" } else { &parent };
                wrong.push(format!("{}: cycle in {parent}: {}", krate.folder, cycles.join("; ")));
            }
        }
    }
    for (folder, parent, count) in known {
        let Some(known) = crates.iter().find(|krate| krate.folder == *folder) else { continue };
        let levels = known.levels();
        let cycles = levels.get(*parent).map(module_graph::cycles).unwrap_or_default();
        if cycles.is_empty() {
            wrong.push(format!(
                "{folder}: no cycle is left in `{parent}`; delete it from KNOWN_CYCLES ({count})"
            ));
        }
    }
    wrong
}

/// A crate is small enough to be read as one unit.
fn wrong_crate_sizes(folders: &[String], sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for folder in folders {
        let is_other = |file: &str| {
            folders.iter().any(|other| other.len() > folder.len() && file.starts_with(other.as_str()))
        };
        let own = sources.iter().filter(|source| source.file.starts_with(folder) && !is_other(&source.file));
        let lines: usize = own.map(|source| source.lines).sum();
        if lines > CRATE_LINES_MAX {
            wrong.push(format!("{folder} has {lines} lines, at most {CRATE_LINES_MAX} are allowed"));
        }
    }
    wrong
}

/// The command line reads no files and starts no processes. The engine does.
fn wrong_in_cli(source: &Source) -> Vec<String> {
    if !source.file.starts_with("host/cli/") {
        return Vec::new();
    }
    let allowed = |name: &Name| match &*source.file {
        // A descriptor without the line buffer of the standard library's stdout.
        "host/cli/output.rs" => name.is_within("std::fs::File"),
        "host/cli/main.rs" => name.is_within("std::env::args_os"),
        _ => false,
    };
    let world = ["std::fs", "std::env", "std::net", "std::process", "tokio::fs", "tokio::net"];
    let wrong = |name: &&Name| {
        let exit = name.is_within("std::process::ExitCode") && !name.path.ends_with('*');
        world.iter().any(|path| name.is_within(path)) && !exit && !allowed(name)
    };
    found(source, source.production().filter(wrong))
}

fn wrong_doors<'a>(sources: impl IntoIterator<Item = &'a Source>) -> Vec<String> {
    let mut wrong = Vec::new();
    // The runner is a process of its own, so the doors of ARCHITECTURE.md do not apply to it.
    let held = |file: &str| file.starts_with("host/") && !file.starts_with("host/runner/");
    let host: Vec<&Source> = sources.into_iter().filter(|source| held(&source.file)).collect();
    for door in DOORS {
        let leads = |name: &&Name| door.names.iter().any(|path| name.is_within(path));
        for source in &host {
            if !door.files.contains(&&*source.file) {
                wrong.extend(found(source, source.production().filter(leads)));
            }
        }
        if let Some(calls) = door.once {
            let opens = |name: &&Name| !name.imported && calls.iter().any(|path| name.is_within(path));
            let count: usize = host.iter().map(|source| source.production().filter(opens).count()).sum();
            if count != 1 {
                wrong.push(format!("{} occurs {count} times in the host", calls[0]));
            }
        }
    }
    wrong
}

fn wrong_unsafe(sources: &[Source]) -> Vec<String> {
    let unsafe_: Vec<&Source> = sources.iter().filter(|source| source.has_unsafe).collect();
    // The C types of shared libraries, and the expansion of `export_strategy!`.
    let folders = ["host/runner/", "strategies/sdk/src/abi.rs", "strategies/sdk/src/export.rs"];
    let elsewhere =
        unsafe_.iter().filter(|source| !folders.iter().any(|folder| source.file.starts_with(folder)));
    let mut wrong: Vec<String> =
        elsewhere.map(|source| format!("{} contains unsafe code", source.file)).collect();
    let lines: usize = unsafe_.iter().map(|source| source.lines).sum();
    if lines > 320 {
        wrong.push(format!("files with unsafe code have {lines} lines, at most 320 are allowed"));
    }
    wrong
}

/// Every file has a module header, no `#[allow]` and no `include!`, and at most 500 lines.
fn wrong_form(source: &Source) -> Vec<String> {
    let file = &source.file;
    let in_tests = file.starts_with("tests/") || file.contains("/tests/");
    let mut wrong = Vec::new();
    if !source.opens_with_doc {
        wrong.push(format!("{file} has no module header (`//!`) in its first line"));
    }
    if source.allows > 0 {
        wrong.push(format!("{file} has `#[allow]` instead of `#[expect]`"));
    }
    if source.lines > 500 && !in_tests {
        wrong.push(format!("{file} has {} lines, at most 500 are allowed", source.lines));
    }
    // Included code would escape all walls.
    wrong.extend(found(source, source.names.iter().filter(|name| name.path == "include!")));
    wrong
}

fn found<'a>(source: &Source, names: impl Iterator<Item = &'a Name>) -> Vec<String> {
    let paths: BTreeSet<&str> = names.map(|name| &*name.path).collect();
    paths.into_iter().map(|path| format!("{} names {path}", source.file)).collect()
}

fn wrong_root(root: &Path) -> Vec<String> {
    let missing = FILES.iter().filter(|file| !root.join(file).is_file());
    let mut wrong: Vec<String> = missing.map(|file| format!("{file} is missing")).collect();
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names: BTreeSet<String> = folders.map(|folder| folder.file_name().into_string().unwrap()).collect();
    wrong.extend(
        FOLDERS.iter().filter(|name| !names.contains(**name)).map(|name| format!("{name}/ is missing")),
    );
    let other = |name: &&String| !name.starts_with('.') && *name != "target" && !FOLDERS.contains(&&***name);
    wrong.extend(names.iter().filter(other).map(|name| format!("{name}/ is not a known folder")));
    wrong
}

#[track_caller]
fn none(wrong: impl IntoIterator<Item = String>) {
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "\n  {}\n", wrong.join("\n  "));
}

#[test]
fn packages_depend_in_one_direction() {
    none(wrong_arrows(&METADATA));
}

#[test]
fn executables_name_only_their_own_crates() {
    let known = crates_of_root(&METADATA);
    none(SOURCES.iter().flat_map(|source| wrong_crates(source, &known)));
}

#[test]
fn pure_crates_name_no_side_effects() {
    none(SOURCES.iter().flat_map(wrong_world));
}

#[test]
fn command_line_reads_no_files_and_starts_no_processes() {
    none(SOURCES.iter().flat_map(wrong_in_cli));
}

#[test]
fn each_side_effect_has_one_door() {
    none(wrong_doors(&*SOURCES));
}

#[test]
fn unsafe_code_is_only_in_the_runner_and_short() {
    none(wrong_unsafe(&SOURCES));
}

#[test]
fn sources_have_headers_and_bounded_length() {
    none(SOURCES.iter().flat_map(wrong_form));
}

#[test]
fn root_holds_the_known_files_and_folders() {
    none(wrong_root(Path::new(ROOT)));
}

#[test]
fn runtime_uses_only_replies_of_core() {
    none(SOURCES.iter().flat_map(wrong_core_in_runtime));
}

#[test]
fn core_names_no_foreign_format() {
    none(SOURCES.iter().flat_map(wrong_formats_in_core));
}

fn crates() -> Vec<Crate<'static>> {
    let folders = module_graph::folders(&METADATA);
    folders.iter().map(|folder| Crate::new(folder, &folders, &SOURCES)).collect()
}

#[test]
fn module_graph() {
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
    none(wrong_cycles(&crates, KNOWN_CYCLES));
}

#[test]
fn crates_have_bounded_length() {
    none(wrong_crate_sizes(&module_graph::folders(&METADATA), &SOURCES));
}

#[test]
fn functions_have_descriptive_names() {
    none(SOURCES.iter().flat_map(names::vague_functions));
}

#[test]
fn tests_state_a_behavior() {
    none(SOURCES.iter().flat_map(names::tests_without_behavior));
}

#[test]
fn public_type_names_are_unique() {
    none(names::types_defined_twice(&SOURCES));
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
