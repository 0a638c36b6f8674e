//! Proof that each wall test works: every kind of violation is reported, and similar valid code is not.

use std::fs;

use serde_json::{Value, json};

use super::*;

/// Adds a dependency to a package and checks the reported violations.
#[track_caller]
fn check_dependency(package: &str, dependency: &str, kind: Value, expect: &[&str]) {
    let mut metadata = METADATA.clone();
    let mut packages = metadata["packages"].as_array_mut().unwrap().iter_mut();
    let package = packages.find(|other| other["name"] == package).unwrap();
    package["dependencies"].as_array_mut().unwrap().push(json!({ "name": dependency, "kind": kind }));
    assert_eq!(forbidden_dependencies(&metadata), expect);
}

#[test]
fn forbidden_dependency_is_reported() {
    let normal = || Value::Null;
    let dev = || json!("dev");
    check_dependency(
        "jp-compact-schema",
        "jp-compact-core",
        normal(),
        &["jp-compact-schema depends on jp-compact-core"],
    );
    check_dependency(
        "jp-compact-core",
        "jp-compact-engine",
        json!("build"),
        &["jp-compact-core depends on jp-compact-engine"],
    );
    for host in ["jp-compact-core", "jp-compact-engine"] {
        let expect = format!("{host} tests with jp-compact-strategy");
        check_dependency(host, "jp-compact-strategy", dev(), &[&expect]);
    }
    check_dependency(
        "jp-compact-strategy",
        "jp-compact-core",
        dev(),
        &["jp-compact-strategy tests with jp-compact-core"],
    );
    check_dependency("jp-compact-engine", "clap", normal(), &["jp-compact-engine depends on clap"]);
    check_dependency("jp-compact-engine", "libc", normal(), &["jp-compact-engine depends on libc"]);
    check_dependency("jp-compact-core", "tokio", normal(), &["jp-compact-core depends on tokio"]);
    check_dependency("jp-compact-core", "rand", normal(), &["jp-compact-core depends on rand"]);
    check_dependency("jp-compact-strategy", "toml", normal(), &["jp-compact-strategy depends on toml"]);
    check_dependency("jp-compact-schema", "jsonschema", dev(), &[]);
    check_dependency("jp-compact-engine", "reqwest", normal(), &["jp-compact-engine depends on reqwest"]);
    check_dependency(
        "jp-compact-store",
        "jp-compact-engine",
        normal(),
        &["jp-compact-store depends on jp-compact-engine"],
    );
    check_dependency(
        "jp-compact-config",
        "jp-compact-engine",
        normal(),
        &["jp-compact-config depends on jp-compact-engine"],
    );
    check_dependency("jp-compact-llm", "reqwest", normal(), &[]);
}

#[test]
fn unknown_package_is_reported() {
    let mut metadata = METADATA.clone();
    metadata["packages"][0]["name"] = json!("helpers");
    let violations = forbidden_dependencies(&metadata);
    assert!(violations.contains(&"helpers is not listed as a package".to_owned()), "{violations:?}");
    assert!(violations.iter().any(|line| line.ends_with(" is missing")), "{violations:?}");
}

#[test]
fn untested_example_is_reported() {
    let check = |file: &str, text: &str, is_reported: bool| {
        let expect = format!("the example in {file} is not tested");
        let expect = if is_reported { vec![expect] } else { Vec::new() };
        assert_eq!(untested_examples(&METADATA, &[Source::read(file, text)]), expect, "{text}");
    };
    let example = "//! A module.\n//!\n//! ```\n//! f();\n//! ```\n";
    check("host/llm/src/a/b.rs", example, true);
    check("host/llm/src/a.rs", "/// ```no_run\n/// f();\n/// ```\nfn f() {}", true);
    check("host/llm/src/lib.rs", "#![doc = include_str!(\"../README.md\")]", true);
    check("host/llm/src/a.rs", "//! ```text\n//! a b\n//! ```", false);
    check("host/llm/src/a.rs", "fn f() {}", false);
    // The examples of this library are tested.
    check("host/core/src/a.rs", example, false);
}

/// Checks the violations that a wall reports for a file with this text.
#[track_caller]
fn check_wall(wall: impl Fn(&Source) -> Vec<String>, file: &str, text: &str, expect: &[&str]) {
    let expect: Vec<String> = expect.iter().map(|path| format!("{file} names {path}")).collect();
    assert_eq!(wall(&Source::read(file, text)), expect, "{text}");
}

#[test]
fn forbidden_crate_is_reported() {
    let known = crates_of_root(&METADATA);
    let wall = |source: &Source| forbidden_crates(source, &known);
    let cli = "host/cli/commands/print.rs";
    check_wall(wall, cli, "use jp_compact_strategy::serve;", &["jp_compact_strategy::serve"]);
    check_wall(wall, cli, "fn f() { libc::fork(); }", &["libc::fork"]);
    check_wall(wall, cli, "use {rustix as r}; fn f() { r::io::read() }", &["rustix", "rustix::io::read"]);
    check_wall(
        wall,
        cli,
        "#[cfg(test)] mod t { use jp_compact_strategy::serve; }",
        &["jp_compact_strategy::serve"],
    );
    check_wall(wall, cli, "#[cfg(test)] mod t { use tempfile::tempdir; }", &[]);
    check_wall(wall, cli, "use tempfile::tempdir;", &["tempfile::tempdir"]);
    check_wall(
        wall,
        cli,
        "use clap::Args; use jp_compact_core::Stream; use std::fmt; mod libc_of_ours;",
        &[],
    );
    let runner = "host/runner/exec.rs";
    check_wall(wall, runner, "use jp_compact_schema::Name;", &["jp_compact_schema::Name"]);
    check_wall(wall, runner, "fn f() { tokio::spawn(1); libc::fork(); }", &["tokio::spawn"]);
    let strategy = "strategies/summarize/main.rs";
    check_wall(wall, strategy, "use jp_compact_schema::Range;", &["jp_compact_schema::Range"]);
    check_wall(wall, strategy, "#[derive(clap::Parser)] struct S;", &["clap::Parser"]);
    check_wall(wall, strategy, "fn f() { vec![rustix::io::read()]; }", &["rustix::io::read"]);
    check_wall(wall, strategy, "use jp_compact_strategy::{serve, Strategy}; use serde::Serialize;", &[]);
    check_wall(wall, "plugins/example/main.rs", "use jp_compact_core::Stream;", &["jp_compact_core::Stream"]);
    check_wall(wall, "strategies/sdk/src/serve.rs", "use jp_compact_schema::Range;", &[]);
}

#[test]
fn io_in_core_is_reported() {
    let core = "host/core/src/turn.rs";
    let check = |text: &str, expect: &[&str]| check_wall(side_effects_in_pure_crates, core, text, expect);
    check("use std::fs;", &["std::fs"]);
    check("use std::{io::{self, Read}, time::{Duration, SystemTime}};", &["std::time::SystemTime"]);
    check("use std::io; fn f() { io::stdout(); }", &["std::io::stdout"]);
    check("fn f() { std::time::Instant::now(); }", &["std::time::Instant::now"]);
    check("use jiff::Timestamp as T; fn f() -> T { T::now() }", &["jiff::Timestamp::now"]);
    check("use jiff::Timestamp; fn f(now: Timestamp) {}", &[]);
    check("use std::*;", &["std::*"]);
    check("fn f() { println!(\"{}\", 1); }", &["println!"]);
    check("fn f() { matches!(std::env::var(\"A\"), Ok(_)); }", &["std::env::var"]);
    check("macro_rules! m { () => { eprintln!() }; }", &["eprintln!"]);
    check("type P = std::process::Child;", &["std::process::Child"]);
    check("fn f(s: std::net::TcpStream) {}", &["std::net::TcpStream"]);
    check("mod deep { fn f() { ::std::fs::read(\"a\"); } }", &["std::fs::read"]);
    check("fn f() { tokio::spawn(async {}); }", &["tokio::spawn"]);
    check("#[cfg(test)] mod tests { fn f() { std::fs::read(\"a\"); println!(); } }", &[]);
    check("#[cfg(all(test, unix))] use std::fs; #[test] fn f() { std::fs::read(\"a\"); }", &[]);
    check("#[cfg(any(test, unix))] use std::fs;", &["std::fs"]);
    check("#[cfg(not(test))] use std::fs;", &["std::fs"]);
    check("/// `std::fs` and println!()\nfn f() { \"std::fs::read\"; }", &[]);
    check_wall(side_effects_in_pure_crates, "schema/src/line.rs", "use std::env;", &["std::env"]);
    check_wall(side_effects_in_pure_crates, "host/evidence/src/recall.rs", "use std::fs;", &["std::fs"]);
    check_wall(side_effects_in_pure_crates, "host/runtime/src/clock.rs", "use std::env;", &[]);
}

#[test]
fn io_in_the_command_line_is_reported() {
    let check = |file: &str, text: &str, expect: &[&str]| check_wall(side_effects_in_cli, file, text, expect);
    check("host/cli/jp.rs", "fn f() { std::fs::read(\"a\"); }", &["std::fs::read"]);
    check("host/cli/jp.rs", "use std::process::{Command, ExitCode};", &["std::process::Command"]);
    check("host/cli/jp.rs", "use std::process::*;", &["std::process::*"]);
    check("host/cli/jp.rs", "use std::env::args_os;", &["std::env::args_os"]);
    check(
        "host/cli/main.rs",
        "fn f() { std::env::args_os(); std::env::var_os(\"A\"); }",
        &["std::env::var_os"],
    );
    check("host/cli/output.rs", "fn f(f: std::fs::File) { std::fs::write(1, 2); }", &["std::fs::write"]);
}

#[test]
fn second_call_site_of_a_door_is_reported() {
    /// Adds one file to the host's sources.
    #[track_caller]
    fn check(file: &str, text: &str, expect: &[&str]) {
        let added = Source::read(file, text);
        assert_eq!(door_violations(SOURCES.iter().chain([&added])), expect, "{text}");
    }
    let file = "host/engine/src/batch.rs";
    check(
        file,
        "use std::process::Command; fn f() { Command::new(1); }",
        &[
            "host/engine/src/batch.rs names std::process::Command",
            "host/engine/src/batch.rs names std::process::Command::new",
            "std::process::Command::new occurs 2 times in the host",
        ],
    );
    check(
        file,
        "use tokio::process as p; fn f() { p::Command::new(1); }",
        &[
            "host/engine/src/batch.rs names tokio::process::Command::new",
            "std::process::Command::new occurs 2 times in the host",
        ],
    );
    let client = "host/engine/src/batch.rs names reqwest::Client::new";
    check(file, "fn f() { reqwest::Client::new(); }", &[client]);
    check(file, "fn f() { reqwest::Url::parse(1); }", &[]);
    check(
        "host/cli/commands/new.rs",
        "use crate::output; fn f() { output::data(1); output::text(1); }",
        &["host/cli/commands/new.rs names crate::output::data"],
    );
    // A glob import could hide a path through either door, so each door reports it.
    check(file, "use std::fs::*;", &["host/engine/src/batch.rs names std::fs::*"; 2]);
    check(
        file,
        "use std::fs; fn f() { fs::rename(1, 2); fs::metadata(1); }",
        &["host/engine/src/batch.rs names std::fs::rename", "std::fs::rename occurs 2 times in the host"],
    );
    check(
        file,
        "use std::fs::{self, File}; fn f() -> File { fs::read(1); File::open(2) }",
        &[
            "host/engine/src/batch.rs names std::fs::File::open",
            "host/engine/src/batch.rs names std::fs::read",
        ],
    );
    check("host/runtime/src/small_file.rs", "use std::fs::File; fn f() { File::open(1); }", &[]);
    check(
        file,
        "fn f() { jiff::Zoned::now(); }",
        &[
            "host/engine/src/batch.rs names jiff::Zoned::now",
            "jiff::Timestamp::now occurs 2 times in the host",
        ],
    );
    check(
        "host/runtime/src/clock.rs",
        "use std::time; fn f() { time::SystemTime::now(); }",
        &["jiff::Timestamp::now occurs 2 times in the host"],
    );
    check(
        file,
        "use std::env; fn f() { env::var_os(1); env::consts::OS; }",
        &["host/engine/src/batch.rs names std::env::var_os"],
    );
    check(file, "fn f() { eprintln!(); }", &["host/engine/src/batch.rs names eprintln!"]);
    check(
        file,
        "use std::io::{self}; fn f() { io::stdout(); }",
        &["host/engine/src/batch.rs names std::io::stdout"],
    );
    check(file, "#[cfg(test)] mod tests { fn f() { std::process::Command::new(1); } }", &[]);
    check("strategies/x/main.rs", "fn f() { std::process::Command::new(1); }", &[]);
    check("host/runner/exec.rs", "fn f() { std::fs::read(1); eprintln!(); }", &[]);
}

#[test]
fn unsafe_code_outside_its_files_is_reported() {
    let check = |file: &str, text: &str, expect: &[&str]| {
        assert_eq!(unsafe_violations(&[Source::read(file, text)]), expect, "{text}");
    };
    let file = "host/store/src/lib.rs";
    let expect = &["host/store/src/lib.rs contains unsafe code"];
    check(file, "fn f() { unsafe { g() } }", expect);
    check(file, "unsafe impl Send for S {}", expect);
    check(file, "unsafe extern \"C\" { fn g(); }", expect);
    check(file, "#[unsafe(no_mangle)] fn f() {}", expect);
    check(file, "#[cfg(test)] mod t { fn f() { vec![unsafe { g() }]; } }", expect);
    check(file, "/// unsafe\nfn f() { \"unsafe\"; }", &[]);
    check("host/runner/exec.rs", "fn f() { unsafe { g() } }", &[]);
    let long = "\n".repeat(320) + "unsafe fn f() {}";
    check("host/runner/exec.rs", &long, &["files with unsafe code have 321 lines, at most 320 are allowed"]);
}

#[test]
fn crate_with_too_many_lines_is_reported() {
    let folders = ["host/a/".to_owned(), "host/a/inner/".to_owned()];
    let long = "\n".repeat(6000);
    let check = |files: [&str; 2], expect: &[&str]| {
        let sources = files.map(|file| Source::read(file, &long));
        assert_eq!(oversized_crates(&folders, &sources), expect, "{files:?}");
    };
    check(["host/a/lib.rs", "host/a/b.rs"], &["host/a/ has 12000 lines, at most 10000 are allowed"]);
    check(["host/a/lib.rs", "host/a/inner/lib.rs"], &[]);
}

#[test]
fn malformed_file_is_reported() {
    let check = |text: &str, expect: &[&str]| {
        assert_eq!(form_violations(&Source::read("host/core/src/turn.rs", text)), expect, "{text}");
    };
    let allows = ["host/core/src/turn.rs has `#[allow]` instead of `#[expect]`"];
    check("//! Turns.\n", &[]);
    check("// Turns.\n", &["host/core/src/turn.rs has no module header (`//!`) in its first line"]);
    check("\n//! Turns.\n", &["host/core/src/turn.rs has no module header (`//!`) in its first line"]);
    check("//! Turns.\n#![allow(dead_code)]\n", &allows);
    check("//! Turns.\nimpl S { #[allow(dead_code, reason = \"\")] fn f() {} }\n", &allows);
    check("//! Turns.\n#[cfg_attr(test, allow(dead_code))] fn f() {}\n", &allows);
    check("//! Turns.\n#[expect(dead_code)] fn allow() { allow(); }\n", &[]);
    check("//! Turns.\ninclude!(\"a\");\n", &["host/core/src/turn.rs names include!"]);
    check(
        &("//! Turns.\n".to_owned() + &"\n".repeat(500)),
        &["host/core/src/turn.rs has 501 lines, at most 500 are allowed"],
    );
}

#[test]
fn unknown_root_folder_is_reported() {
    let temp = tempfile::tempdir().unwrap();
    for file in FILES {
        let path = temp.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    for folder in FOLDERS.into_iter().chain(["target", ".git"]) {
        fs::create_dir_all(temp.path().join(folder)).unwrap();
    }
    assert_none(root_violations(temp.path()));
    fs::create_dir(temp.path().join("notes")).unwrap();
    fs::remove_dir(temp.path().join("host")).unwrap();
    fs::remove_file(temp.path().join("LICENSE-MIT")).unwrap();
    assert_eq!(
        root_violations(temp.path()),
        ["LICENSE-MIT is missing", "host/ is missing", "notes/ is not a known folder"]
    );
}

#[test]
fn file_compiled_only_for_tests_is_exempt() {
    let temp = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = temp.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("host/core/src/turn.rs", "#[cfg(test)] mod cases; mod deep;");
    write("host/core/src/turn/cases.rs", "use std::fs;");
    write("host/core/src/turn/cases/more.rs", "use std::fs;");
    write("host/core/src/turn/deep.rs", "use std::fs;");
    write("host/core/tests/all.rs", "use std::fs;");
    write("target/debug/build.rs", "use std::fs;");
    write(".git/a.rs", "use std::fs;");
    let violations: Vec<String> =
        sources::read_all(temp.path()).iter().flat_map(side_effects_in_pure_crates).collect();
    assert_eq!(violations, ["host/core/src/turn/deep.rs names std::fs"]);
}

#[test]
fn forbidden_parts_of_core_in_the_runtime_are_reported() {
    let check = |text: &str, expect: &[&str]| {
        check_wall(forbidden_core_in_runtime, "host/runtime/src/session.rs", text, expect);
    };
    check("use jp_compact_core::reply::{self, Answer}; use jp_compact_core::validate;", &[]);
    check("use jp_compact_core::{Stream, reply};", &["jp_compact_core::Stream"]);
    check("#[cfg(test)] use jp_compact_core::Stream;", &[]);
    check_wall(forbidden_core_in_runtime, "host/conformance/src/ask.rs", "use jp_compact_core::Stream;", &[]);
    check_wall(forbidden_core_in_runtime, "host/engine/src/query.rs", "use jp_compact_core::Stream;", &[]);
}

#[test]
fn foreign_format_in_core_is_reported() {
    let check = |text: &str, expect: &[&str]| {
        check_wall(foreign_formats_in_core, "host/core/src/stream.rs", text, expect);
    };
    check("use crate::formats::codex;", &["crate::formats::codex"]);
    check("fn f() { openhands::legacy::read(1); }", &["openhands::legacy::read"]);
    check("use crate::render::anthropic; /// Not `codex`.\nconst A: &str = \"codex\";", &[]);
}

/// Reads files as the crate `host/core/src/`, and checks the reported cycles in the crate and in its modules.
#[track_caller]
fn check_cycles(files: &[(&str, &str)], expect: &[&str]) {
    let read = |(file, text): &(&str, &str)| Source::read(&format!("host/core/src/{file}"), text);
    let sources: Vec<Source> = files.iter().map(read).collect();
    let folder = "host/core/src/".to_owned();
    let crates = [Crate::new(&folder, std::slice::from_ref(&folder), &sources)];
    assert_eq!(module_cycles(&crates, &[]), expect);
}

#[test]
fn module_cycle_is_reported() {
    let cycle = &["host/core/src/: cycle in the crate: a, b"];
    check_cycles(&[("a.rs", "use crate::b::B;"), ("b.rs", "fn f() { crate::a::f(); }")], cycle);
    check_cycles(
        &[("a.rs", "use crate::{b::{B, C}};"), ("b/mod.rs", ""), ("b/c.rs", "use super::super::a;")],
        cycle,
    );
    check_cycles(&[("a.rs", "fn f() { vec![crate::b::f()]; }"), ("b.rs", "type A = super::a::A;")], cycle);
    check_cycles(
        &[("a.rs", "use super::b; fn f() { b::f(); }"), ("b.rs", "mod c { use super::super::a; }")],
        cycle,
    );
    check_cycles(
        &[
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "use crate::a;"),
            ("d.rs", "use crate::a;"),
        ],
        &["host/core/src/: cycle in the crate: a, b, c"],
    );
    check_cycles(
        &[("a.rs", ""), ("a/b.rs", "use super::c;"), ("a/c.rs", "use crate::a::b::B;")],
        &["host/core/src/: cycle in a: b, c"],
    );
}

#[test]
fn reexport_is_resolved_to_the_defining_module() {
    let cycle = &["host/core/src/: cycle in the crate: a, b"];
    check_cycles(&[("lib.rs", "pub use a::A;"), ("a.rs", "use crate::b;"), ("b.rs", "use crate::A;")], cycle);
    check_cycles(
        &[
            ("lib.rs", "pub use c::{D as A};"),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::A;"),
            ("c.rs", "pub use crate::a::D;"),
        ],
        cycle,
    );
}

#[test]
fn one_direction_is_accepted() {
    check_cycles(&[("a.rs", "use crate::b;"), ("b.rs", "#[cfg(test)] mod tests { use crate::a; }")], &[]);
    check_cycles(&[("a.rs", "use crate::b;"), ("b.rs", "/// crate::a\nconst A: &str = \"crate::a\";")], &[]);
    // A parent and its children are one unit.
    check_cycles(
        &[("a.rs", "fn f() { b::f(); }"), ("a/b.rs", "use super::A;"), ("lib.rs", "use a::A;")],
        &[],
    );
    // A local variable with the name of a module.
    check_cycles(&[("a.rs", "use crate::b;"), ("b.rs", "fn f(a: A) { a.f(); a::<u8>; }")], &[]);
}

#[test]
fn glob_import_of_the_crate_is_reported() {
    check_cycles(&[("a.rs", "use crate::b::*;"), ("b.rs", "")], &["host/core/src/a.rs imports crate::b::*"]);
    check_cycles(&[("a.rs", "use std::io::*;"), ("b.rs", "#[cfg(test)] mod t { use super::*; }")], &[]);
}

#[test]
fn outdated_list_of_cycles_is_reported() {
    let sources = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")]
        .map(|(file, text)| Source::read(&format!("host/core/src/{file}"), text));
    let folder = "host/core/src/".to_owned();
    let crates = [Crate::new(&folder, std::slice::from_ref(&folder), &sources)];
    let check = |known: &[(&str, &str, usize)], expect: &[&str]| {
        assert_eq!(module_cycles(&crates, known), expect);
    };
    let cycle = "host/core/src/: cycle in the crate: a, b";
    check(&[(&folder, "", 2)], &[]);
    check(&[(&folder, "", 1)], &[cycle]);
    check(&[(&folder, "", 2), ("host/other/", "", 2)], &[]);
    let outdated = "host/core/src/: no cycle is left in `a`; delete it from KNOWN_CYCLES (2)";
    check(&[(&folder, "a", 2)], &[cycle, outdated]);
}

#[test]
fn vague_names_are_reported() {
    let read = |text: &str| Source::read("host/core/src/turn.rs", text);
    let check = |text: &str, expect: &[&str]| assert_eq!(names::vague_functions(&read(text)), expect);
    check("fn of() {} fn turn() {}", &["host/core/src/turn.rs: fn of"]);
    check(
        "impl A { fn told(&self) {} } trait B { fn one(); }",
        &["host/core/src/turn.rs: fn told", "host/core/src/turn.rs: fn one"],
    );
    check("/// fn of()\nfn f() { of(); B::one(); }", &[]);
    let check = |text: &str, expect: &[&str]| assert_eq!(names::tests_without_behavior(&read(text)), expect);
    check("#[test] fn what_fails() {} fn what_else() {}", &["host/core/src/turn.rs: test what_fails"]);
    check(
        "mod a { #[tokio::test] async fn nobody_waits() {} }",
        &["host/core/src/turn.rs: test nobody_waits"],
    );
    check("#[test] fn rejects_what_fails() {}", &[]);
}

#[test]
fn type_defined_twice_is_reported() {
    let check = |a: &str, b: &str, expect: &[&str]| {
        let sources = [("host/core/src/a.rs", a), ("host/cli/b.rs", b)];
        let sources = sources.map(|(file, text)| Source::read(file, text));
        assert_eq!(names::types_defined_twice(&sources), expect);
    };
    let duplicate = "Place is defined in host/core/src/a.rs, host/cli/b.rs";
    check("pub struct Place;", "pub(crate) enum Place {}", &[duplicate]);
    check("pub struct Place;", "struct Place; use a::Place as B; impl Place {}", &[]);
    check("pub struct Place;", "#[cfg(test)] mod tests { pub struct Place; }", &[]);
    check("pub enum Error {}", "pub enum Error {}", &[]);
}
