//! The walls of ARCHITECTURE.md hold: who depends on whom, what a folder may name, which doors lead to the world.
//! Each wall is a function from what was read to what is wrong, and is seen to fail on a breach of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![expect(clippy::disallowed_methods, reason = "tests start cargo")]

mod breaches;
mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};
use sources::{Name, Source};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| sources::all(Path::new(ROOT)));
static METADATA: LazyLock<Value> = LazyLock::new(metadata);

/// Every package, and those of ours that it depends on, in whatever way.
const ARROWS: [(&str, &[&str]); 5] = [
    ("jp-compact-schema", &[]),
    ("jp-compact-core", &["jp-compact-schema"]),
    ("jp-compact-engine", &["jp-compact-schema", "jp-compact-core"]),
    ("jp-compact-strategy", &["jp-compact-schema"]),
    ("jp-compact", &["jp-compact-schema", "jp-compact-core", "jp-compact-engine", "jp-compact-strategy"]),
];
/// Everything else that the small packages depend on: what is pure, and what an author of a strategy compiles.
const ALL_OF: [(&str, &[&str]); 3] = [
    ("jp-compact-schema", &["schemars", "serde", "serde_json"]),
    ("jp-compact-core", &["base64-simd", "bytes", "jiff", "memchr", "serde", "serde_json", "wide"]),
    ("jp-compact-strategy", &["rustix", "serde", "serde_json"]),
];
/// Crates that only these packages depend on, but for tests.
const ONLY_IN: [(&str, &[&str]); 21] = [
    ("bpe-openai", &["jp-compact"]),
    ("clap", &["jp-compact"]),
    ("clap_complete", &["jp-compact"]),
    ("clap_mangen", &["jp-compact"]),
    ("indicatif", &["jp-compact"]),
    ("mimalloc", &["jp-compact"]),
    ("rmcp", &["jp-compact"]),
    ("tokio", &["jp-compact", "jp-compact-engine"]),
    ("futures-util", &["jp-compact-engine"]),
    ("humantime", &["jp-compact-engine"]),
    ("ignore", &["jp-compact-engine"]),
    ("quick-xml", &["jp-compact-engine"]),
    ("genai", &["jp-compact-engine"]),
    ("reqwest", &["jp-compact-engine"]),
    ("rustls", &["jp-compact-engine"]),
    ("secrecy", &["jp-compact-engine"]),
    ("toml", &["jp-compact", "jp-compact-engine"]),
    ("jsonschema", &["jp-compact", "jp-compact-engine"]),
    ("libloading", &["jp-compact"]),
    ("libc", &["jp-compact"]),
    ("seccompiler", &["jp-compact"]),
];

/// The crates that the folders of the root package name; the first that fits counts. `std` is everybody's.
const CRATES: [(&str, &[&str]); 4] = [
    (
        "host/cli/",
        &[
            "jp_compact_schema",
            "jp_compact_core",
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
    ("plugins/runner/", &["landlock", "libc", "libloading", "rustix", "seccompiler", "serde", "serde_json"]),
    ("plugins/", &["jp_compact_strategy", "serde", "serde_json"]),
    ("strategies/", &["jp_compact_strategy", "serde", "serde_json"]),
];

/// Whatever touches the world, or has no answer of its own.
const WORLD: [&str; 18] = [
    "std::env",
    "std::fs",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::net",
    "std::os",
    // A path by itself is harmless, but `path.exists()` is a look at the disk that names nothing.
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
/// What writes to a terminal.
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

/// A way out of the host: what leads there, which files may name it, and how often it stands there.
struct Door {
    names: &'static [&'static str],
    files: &'static [&'static str],
    /// The one call that opens it.
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
        files: &["host/engine/src/process/child.rs"],
        once: Some(&["std::process::Command::new", "tokio::process::Command::new"]),
    },
    Door { names: RENAMES, files: &["host/engine/src/store/temporary.rs"], once: Some(RENAMES) },
    Door {
        names: FILES_OPENED,
        files: &[
            // What is small, and what is a transcript: each with its own limits.
            "host/engine/src/small_file.rs",
            "host/engine/src/store/snapshot.rs",
            // These make files, or folders.
            "host/engine/src/batch/report.rs",
            "host/engine/src/kit/rehearse.rs",
            "host/engine/src/kit/template.rs",
            "host/engine/src/private_file.rs",
            "host/engine/src/process/threads.rs",
            "host/engine/src/store/fence.rs",
            "host/engine/src/store/folder.rs",
            "host/engine/src/store/lock.rs",
            "host/engine/src/store/open_folder.rs",
            // These hold what they open to what they have seen before: a terminal, what a strategy made, a plugin's file.
            "host/engine/src/process/child.rs",
            "host/engine/src/process/private_dir/tree.rs",
            "host/engine/src/trust/tree.rs",
        ],
        once: None,
    },
    Door { names: CLOCKS, files: &["host/engine/src/clock.rs"], once: Some(CLOCKS) },
    Door { names: ENVIRONMENT, files: &["host/engine/src/environment.rs"], once: None },
    Door { names: NETWORK, files: &["host/engine/src/llm/client.rs"], once: None },
    Door {
        names: &PRINTING,
        // The trace of `-v` is handed stderr in main.
        files: &["host/cli/output.rs", "host/cli/main.rs"],
        once: None,
    },
    // Bytes for programs. Text for people is `Lines`, which escapes all of it.
    Door { names: &["crate::output::data"], files: &RAW_OUTPUT, once: None },
];
const RAW_OUTPUT: [&str; 7] = [
    "host/cli/commands/batch.rs",
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
/// A path that somebody else may have put anything at: a pipe waits without end, a link leads elsewhere, a device fills
/// all memory.
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
// An address can be read without anybody being asked.
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

/// A dependency of a package: the crate's name, and whether only tests see it.
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
            wrong.push(format!("{name} is a package without a room"));
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
        // Nothing depends on cli, because there is nothing to depend on.
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

/// Every crate that a file of the root package could name: its dependencies, and those for tests alone.
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

/// Core and schema know nothing of the world.
fn wrong_world(source: &Source) -> Vec<String> {
    let pure = ["host/core/src/", "schema/src/"].iter().any(|folder| source.file.starts_with(folder));
    let wrong = |name: &&Name| [&WORLD[..], &PRINTING].concat().iter().any(|path| name.is_within(path));
    if pure { found(source, source.production().filter(wrong)) } else { Vec::new() }
}

/// The command line asks the engine for whatever is on disk, and starts nothing.
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
    let host: Vec<&Source> = sources.into_iter().filter(|source| source.file.starts_with("host/")).collect();
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
                wrong.push(format!("{} stands {count} times in the host", calls[0]));
            }
        }
    }
    wrong
}

fn wrong_unsafe(sources: &[Source]) -> Vec<String> {
    let unsafe_: Vec<&Source> = sources.iter().filter(|source| source.has_unsafe).collect();
    // What `export_strategy!` expands to is the only other.
    let rooms = ["plugins/runner/", "strategies/sdk/src/export.rs"];
    let elsewhere = unsafe_.iter().filter(|source| !rooms.iter().any(|room| source.file.starts_with(room)));
    let mut wrong: Vec<String> =
        elsewhere.map(|source| format!("{} holds unsafe code", source.file)).collect();
    let lines: usize = unsafe_.iter().map(|source| source.lines).sum();
    if lines >= 300 {
        wrong.push(format!("{lines} lines are too many to be read for their unsafe code"));
    }
    wrong
}

/// What every file keeps to.
fn wrong_form(source: &Source) -> Vec<String> {
    let file = &source.file;
    let in_tests = file.starts_with("tests/") || file.contains("/tests/");
    let mut wrong = Vec::new();
    if !source.opens_with_doc {
        wrong.push(format!("{file} does not open with what it owns"));
    }
    if source.allows > 0 {
        wrong.push(format!("{file} allows a lint, and should expect it"));
    }
    if source.lines > 500 && !in_tests {
        wrong.push(format!("{file} has {} lines", source.lines));
    }
    // What is brought in as text would be read by nobody here.
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
    wrong.extend(names.iter().filter(other).map(|name| format!("{name}/ is no room")));
    wrong
}

#[track_caller]
fn none(wrong: impl IntoIterator<Item = String>) {
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "\n  {}\n", wrong.join("\n  "));
}

#[test]
fn packages_depend_on_each_other_as_drawn() {
    none(wrong_arrows(&METADATA));
}

#[test]
fn executables_of_the_root_package_name_only_their_own_crates() {
    let known = crates_of_root(&METADATA);
    none(SOURCES.iter().flat_map(|source| wrong_crates(source, &known)));
}

#[test]
fn core_and_schema_are_pure() {
    none(SOURCES.iter().flat_map(wrong_world));
}

#[test]
fn the_command_line_leaves_the_world_to_the_engine() {
    none(SOURCES.iter().flat_map(wrong_in_cli));
}

#[test]
fn there_is_one_door_to_each_part_of_the_world() {
    none(wrong_doors(&*SOURCES));
}

#[test]
fn unsafe_code_is_in_the_runner_and_short() {
    none(wrong_unsafe(&SOURCES));
}

#[test]
fn every_source_says_what_it_is_and_is_no_longer_than_can_be_read() {
    none(SOURCES.iter().flat_map(wrong_form));
}

#[test]
fn the_root_holds_what_it_should_and_no_other_room() {
    none(wrong_root(Path::new(ROOT)));
}

#[test]
fn every_room_was_read() {
    let rooms = ["schema/src/", "host/core/src/", "host/engine/src/", "host/cli/", "strategies/sdk/src/"];
    for room in rooms.into_iter().chain(["strategies/strip-tools/", "plugins/runner/", "tests/"]) {
        assert!(SOURCES.iter().any(|source| source.file.starts_with(room)), "nothing of {room}");
    }
    let bins = METADATA["packages"].as_array().unwrap().iter().flat_map(|package| {
        package["targets"].as_array().unwrap().iter().map(|target| target["src_path"].as_str().unwrap())
    });
    for file in bins {
        let file = Path::new(file).strip_prefix(METADATA["workspace_root"].as_str().unwrap()).unwrap();
        assert!(SOURCES.iter().any(|source| Path::new(&source.file) == file), "{file:?} was not read");
    }
}
