//! Each wall falls when it is broken: breaches of every kind, and what only looks like one.

use std::fs;

use serde_json::{Value, json};

use super::*;

/// A breach of the arrows: a package gets one more dependency.
#[track_caller]
fn falls_with_dependency(package: &str, dependency: &str, kind: Value, expect: &[&str]) {
    let mut metadata = METADATA.clone();
    let mut packages = metadata["packages"].as_array_mut().unwrap().iter_mut();
    let package = packages.find(|other| other["name"] == package).unwrap();
    package["dependencies"].as_array_mut().unwrap().push(json!({ "name": dependency, "kind": kind }));
    assert_eq!(wrong_arrows(&metadata), expect);
}

#[test]
fn an_arrow_that_is_not_drawn_is_found() {
    let normal = || Value::Null;
    let dev = || json!("dev");
    falls_with_dependency(
        "jp-compact-schema",
        "jp-compact-core",
        normal(),
        &["jp-compact-schema depends on jp-compact-core"],
    );
    falls_with_dependency(
        "jp-compact-core",
        "jp-compact-engine",
        json!("build"),
        &["jp-compact-core depends on jp-compact-engine"],
    );
    for host in ["jp-compact-core", "jp-compact-engine"] {
        let expect = format!("{host} tests with jp-compact-strategy");
        falls_with_dependency(host, "jp-compact-strategy", dev(), &[&expect]);
    }
    falls_with_dependency(
        "jp-compact-strategy",
        "jp-compact-core",
        dev(),
        &["jp-compact-strategy tests with jp-compact-core"],
    );
    falls_with_dependency("jp-compact-engine", "clap", normal(), &["jp-compact-engine depends on clap"]);
    falls_with_dependency("jp-compact-engine", "libc", normal(), &["jp-compact-engine depends on libc"]);
    falls_with_dependency("jp-compact-core", "tokio", normal(), &["jp-compact-core depends on tokio"]);
    falls_with_dependency("jp-compact-core", "rand", normal(), &["jp-compact-core depends on rand"]);
    falls_with_dependency("jp-compact-strategy", "toml", normal(), &["jp-compact-strategy depends on toml"]);
    falls_with_dependency("jp-compact-schema", "jsonschema", dev(), &[]);
    falls_with_dependency("jp-compact-engine", "reqwest", normal(), &[]);
}

#[test]
fn a_package_without_a_room_is_found() {
    let mut metadata = METADATA.clone();
    metadata["packages"][0]["name"] = json!("helpers");
    let wrong = wrong_arrows(&metadata);
    assert!(wrong.contains(&"helpers is a package without a room".to_owned()), "{wrong:?}");
    assert!(wrong.iter().any(|line| line.ends_with(" is missing")), "{wrong:?}");
}

/// A breach inside a file.
#[track_caller]
fn falls(wall: impl Fn(&Source) -> Vec<String>, file: &str, text: &str, expect: &[&str]) {
    let expect: Vec<String> = expect.iter().map(|path| format!("{file} names {path}")).collect();
    assert_eq!(wall(&Source::read(file, text)), expect, "{text}");
}

#[test]
fn a_crate_of_another_room_is_found() {
    let known = crates_of_root(&METADATA);
    let wall = |source: &Source| wrong_crates(source, &known);
    let cli = "host/cli/commands/print.rs";
    falls(wall, cli, "use jp_compact_strategy::serve;", &["jp_compact_strategy::serve"]);
    falls(wall, cli, "fn f() { libc::fork(); }", &["libc::fork"]);
    falls(wall, cli, "use {rustix as r}; fn f() { r::io::read() }", &["rustix", "rustix::io::read"]);
    falls(
        wall,
        cli,
        "#[cfg(test)] mod t { use jp_compact_strategy::serve; }",
        &["jp_compact_strategy::serve"],
    );
    falls(wall, cli, "#[cfg(test)] mod t { use tempfile::tempdir; }", &[]);
    falls(wall, cli, "use tempfile::tempdir;", &["tempfile::tempdir"]);
    falls(wall, cli, "use clap::Args; use jp_compact_core::Stream; use std::fmt; mod libc_of_ours;", &[]);
    let runner = "plugins/runner/exec.rs";
    falls(wall, runner, "use jp_compact_schema::Name;", &["jp_compact_schema::Name"]);
    falls(wall, runner, "fn f() { tokio::spawn(1); libc::fork(); }", &["tokio::spawn"]);
    let strategy = "strategies/summarize/main.rs";
    falls(wall, strategy, "use jp_compact_schema::Range;", &["jp_compact_schema::Range"]);
    falls(wall, strategy, "#[derive(clap::Parser)] struct S;", &["clap::Parser"]);
    falls(wall, strategy, "fn f() { vec![rustix::io::read()]; }", &["rustix::io::read"]);
    falls(wall, strategy, "use jp_compact_strategy::{serve, Strategy}; use serde::Serialize;", &[]);
    falls(wall, "plugins/example/main.rs", "use jp_compact_core::Stream;", &["jp_compact_core::Stream"]);
    falls(wall, "strategies/sdk/src/serve.rs", "use jp_compact_schema::Range;", &[]);
}

#[test]
fn the_world_in_core_is_found() {
    let core = "host/core/src/turn.rs";
    let check = |text: &str, expect: &[&str]| falls(wrong_world, core, text, expect);
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
    falls(wrong_world, "schema/src/line.rs", "use std::env;", &["std::env"]);
    falls(wrong_world, "host/engine/src/clock.rs", "use std::env;", &[]);
}

#[test]
fn the_world_in_the_command_line_is_found() {
    let check = |file: &str, text: &str, expect: &[&str]| falls(wrong_in_cli, file, text, expect);
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
fn a_second_door_is_found() {
    /// The host as it is, and one more file.
    #[track_caller]
    fn check(file: &str, text: &str, expect: &[&str]) {
        let more = Source::read(file, text);
        assert_eq!(wrong_doors(SOURCES.iter().chain([&more])), expect, "{text}");
    }
    let file = "host/engine/src/batch.rs";
    check(
        file,
        "use std::process::Command; fn f() { Command::new(1); }",
        &[
            "host/engine/src/batch.rs names std::process::Command",
            "host/engine/src/batch.rs names std::process::Command::new",
            "std::process::Command::new stands 2 times in the host",
        ],
    );
    check(
        file,
        "use tokio::process as p; fn f() { p::Command::new(1); }",
        &[
            "host/engine/src/batch.rs names tokio::process::Command::new",
            "std::process::Command::new stands 2 times in the host",
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
    // It may hide what leads through either door.
    check(file, "use std::fs::*;", &["host/engine/src/batch.rs names std::fs::*"; 2]);
    check(
        file,
        "use std::fs; fn f() { fs::rename(1, 2); fs::metadata(1); }",
        &["host/engine/src/batch.rs names std::fs::rename", "std::fs::rename stands 2 times in the host"],
    );
    check(
        file,
        "use std::fs::{self, File}; fn f() -> File { fs::read(1); File::open(2) }",
        &[
            "host/engine/src/batch.rs names std::fs::File::open",
            "host/engine/src/batch.rs names std::fs::read",
        ],
    );
    check("host/engine/src/small_file.rs", "use std::fs::File; fn f() { File::open(1); }", &[]);
    check(
        file,
        "fn f() { jiff::Zoned::now(); }",
        &[
            "host/engine/src/batch.rs names jiff::Zoned::now",
            "jiff::Timestamp::now stands 2 times in the host",
        ],
    );
    check(
        "host/engine/src/clock.rs",
        "use std::time; fn f() { time::SystemTime::now(); }",
        &["jiff::Timestamp::now stands 2 times in the host"],
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
}

#[test]
fn unsafe_code_elsewhere_is_found() {
    let check = |file: &str, text: &str, expect: &[&str]| {
        assert_eq!(wrong_unsafe(&[Source::read(file, text)]), expect, "{text}");
    };
    let file = "host/engine/src/store/mod.rs";
    let expect = &["host/engine/src/store/mod.rs holds unsafe code"];
    check(file, "fn f() { unsafe { g() } }", expect);
    check(file, "unsafe impl Send for S {}", expect);
    check(file, "unsafe extern \"C\" { fn g(); }", expect);
    check(file, "#[unsafe(no_mangle)] fn f() {}", expect);
    check(file, "#[cfg(test)] mod t { fn f() { vec![unsafe { g() }]; } }", expect);
    check(file, "/// unsafe\nfn f() { \"unsafe\"; }", &[]);
    check("plugins/runner/exec.rs", "fn f() { unsafe { g() } }", &[]);
    let long = "\n".repeat(300) + "unsafe fn f() {}";
    check("plugins/runner/exec.rs", &long, &["301 lines are too many to be read for their unsafe code"]);
}

#[test]
fn a_file_out_of_form_is_found() {
    let check = |text: &str, expect: &[&str]| {
        assert_eq!(wrong_form(&Source::read("host/core/src/turn.rs", text)), expect, "{text}");
    };
    let allows = ["host/core/src/turn.rs allows a lint, and should expect it"];
    check("//! Turns.\n", &[]);
    check("// Turns.\n", &["host/core/src/turn.rs does not open with what it owns"]);
    check("\n//! Turns.\n", &["host/core/src/turn.rs does not open with what it owns"]);
    check("//! Turns.\n#![allow(dead_code)]\n", &allows);
    check("//! Turns.\nimpl S { #[allow(dead_code, reason = \"\")] fn f() {} }\n", &allows);
    check("//! Turns.\n#[cfg_attr(test, allow(dead_code))] fn f() {}\n", &allows);
    check("//! Turns.\n#[expect(dead_code)] fn allow() { allow(); }\n", &[]);
    check("//! Turns.\ninclude!(\"a\");\n", &["host/core/src/turn.rs names include!"]);
    check(&("//! Turns.\n".to_owned() + &"\n".repeat(500)), &["host/core/src/turn.rs has 501 lines"]);
}

#[test]
fn a_folder_that_is_no_room_is_found() {
    let temp = tempfile::tempdir().unwrap();
    for file in FILES {
        let path = temp.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    for folder in FOLDERS.into_iter().chain(["target", ".git"]) {
        fs::create_dir_all(temp.path().join(folder)).unwrap();
    }
    none(wrong_root(temp.path()));
    fs::create_dir(temp.path().join("notes")).unwrap();
    fs::remove_dir(temp.path().join("host")).unwrap();
    fs::remove_file(temp.path().join("LICENSE-MIT")).unwrap();
    assert_eq!(wrong_root(temp.path()), ["LICENSE-MIT is missing", "host/ is missing", "notes/ is no room"]);
}

#[test]
fn a_file_that_only_tests_compile_is_a_test() {
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
    let wrong: Vec<String> = sources::all(temp.path()).iter().flat_map(wrong_world).collect();
    assert_eq!(wrong, ["host/core/src/turn/deep.rs names std::fs"]);
}
