//! The walls of ARCHITECTURE.md: the direction of dependencies, the paths that a folder may name, and the only
//! files that open files, start processes, read the clock or print.
//!
//! Each wall is a function from parsed sources to a list of violations. Each wall also has a test in
//! `wall_breaches` that breaks it on purpose, because a wall that cannot fail proves nothing.
#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the test runs `cargo metadata`")]
#![expect(clippy::print_stdout, reason = "`--nocapture` prints the module graph")]

#[path = "walls/doors.rs"]
mod doors;
#[path = "walls/form.rs"]
mod form;
mod module_graph;
mod names;
#[path = "walls/packages.rs"]
mod packages;
#[path = "walls/paths.rs"]
mod paths;
mod sources;
mod wall_breaches;

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use doors::{door_violations, unsafe_violations};
use form::{FILES, FOLDERS, KNOWN_CYCLES, form_violations, module_cycles, oversized_crates, root_violations};
use module_graph::Crate;
use packages::{crates_of_root, forbidden_crates, forbidden_dependencies, untested_examples};
use paths::{
    forbidden_core_in_runtime, foreign_formats_in_core, side_effects_in_cli, side_effects_in_pure_crates,
};
use serde_json::Value;
use sources::Source;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| sources::read_all(Path::new(ROOT)));
static METADATA: LazyLock<Value> = LazyLock::new(metadata);

fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(ROOT);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
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
fn examples_in_comments_are_tested() {
    assert_none(untested_examples(&METADATA, &SOURCES));
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
fn unsafe_code_is_short_and_only_in_the_runner_and_the_sdk() {
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
fn runtime_uses_only_the_listed_parts_of_core() {
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
        "host/json/src/",
        "host/core/src/",
        "host/transcripts/src/",
        "host/runtime/src/",
        "host/conformance/src/",
        "host/llm/src/",
        "host/store/src/",
        "host/sessions/src/",
        "host/jp_plugin/src/",
        "host/config/src/",
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
