//! Shared libraries: the C header says what the Rust side says, and what a bad library does is an exit status of
//! the runner's, with one line about it.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and compiles what it tests"
)]

#[path = "examples/world.rs"]
#[expect(dead_code, reason = "other tests run the examples")]
mod world;

use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use jp_compact_strategy::dylib::{ABI, StrategyV1};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Compiles a text that includes the header to a library.
#[track_caller]
fn library(base: &Path, text: &str) -> PathBuf {
    let (source, library) = (base.join("bad.c"), base.join("libbad.so"));
    fs::write(&source, format!("#include \"jp_compact_strategy.h\"\n{text}")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Werror", "-Wno-unused", "-fPIC", "-shared"]);
    compiler.arg(format!("-I{ROOT}/plugins")).arg("-o").arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success(), "{text}");
    library
}

#[test]
fn the_header_is_laid_out_as_the_rust_side_is() {
    if !world::has("cc") {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let asserts = [
        ("JPC_ABI", ABI as usize),
        ("sizeof(jpc_strategy_v1)", size_of::<StrategyV1>()),
        ("offsetof(jpc_strategy_v1, abi)", offset_of!(StrategyV1, abi)),
        ("offsetof(jpc_strategy_v1, size)", offset_of!(StrategyV1, size)),
        ("offsetof(jpc_strategy_v1, describe_json)", offset_of!(StrategyV1, describe_json)),
        ("offsetof(jpc_strategy_v1, run)", offset_of!(StrategyV1, run)),
    ];
    let asserts = asserts.map(|(what, is)| format!("_Static_assert({what} == {is}, \"{what}\");\n"));
    // A function of the Rust side's types has to fit without a cast.
    let types = "static int32_t run(const uint8_t *r, size_t l, const uint8_t *e, size_t n,\n\
                 int (*emit)(void *, const uint8_t *, size_t), void *c) { return emit(c, r, l); }\n\
                 static const jpc_strategy_v1 TABLE = {1, sizeof TABLE, \"{}\", run};\n";
    library(base.path(), &(asserts.concat() + types));
}

/// The declarations of a C text, without comments and in one line.
fn declarations(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("/*") {
        kept += before;
        rest = behind.split_once("*/").unwrap().1;
    }
    kept += rest;
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_new_strategy_gets_the_same_header() {
    let header = |place: &str| fs::read_to_string(Path::new(ROOT).join(place)).unwrap();
    let template = header("host/engine/src/kit/templates/jp_compact_strategy.h");
    assert_eq!(template, header("plugins/jp_compact_strategy.h"));
}

#[test]
fn the_header_says_what_the_protocol_says() {
    let header = fs::read_to_string(format!("{ROOT}/plugins/jp_compact_strategy.h")).unwrap();
    let protocol = fs::read_to_string(format!("{ROOT}/schema/PROTOCOL.md")).unwrap();
    let block = protocol.split_once("```c\n").unwrap().1.split_once("```").unwrap().0;
    let header = declarations(&header);
    for part in declarations(block).split_inclusive(';') {
        assert!(header.contains(part.trim()), "{part}");
    }
}

/// A library whose `run` has this body ends with this status, these lines, and these words on stderr.
#[track_caller]
fn check(body: &str, status: Option<i32>, stdout: &str, stderr: &str) {
    let text = format!(
        "#include <stdlib.h>\n#include <stdio.h>\n#include <string.h>\n\
         static int32_t run(const uint8_t *request, size_t len, const uint8_t *events, size_t events_len, jpc_emit emit, void *ctx) {{\n\
         const char *line = \"{{}}\"; (void)line; {body} }}\n\
         static const jpc_strategy_v1 TABLE = {{JPC_ABI, sizeof(jpc_strategy_v1), \"{{}}\", run}};\n\
         const jpc_strategy_v1 *jp_compact_strategy_v1(void) {{ return &TABLE; }}\n"
    );
    check_text(&text, "run", status, stdout, stderr);
}

#[track_caller]
fn check_text(text: &str, verb: &str, status: Option<i32>, stdout: &str, stderr: &str) {
    if !world::has("cc") {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mut command = assert_cmd::Command::new(cargo_bin("compact-runner"));
    command.env_clear().env("JP_COMPACT_PROTOCOL", "1");
    command.arg("--dylib").arg(library(base.path(), text)).arg(verb);
    let requests = "\n{\"type\":\"later\"}\n{\"type\":\"compact\",\"id\":\"a\",\"events\":{\"mode\":\"inline\",\"count\":1}}\n\
                    {\"type\":\"event\",\"seq\":0}\r\n{\"type\":\"events_end\"}\n{\"type\":\"compact\",\"id\":\"b\",\"events\":null}\n";
    let output = command.write_stdin(requests).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), status, "{said}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), stdout, "{said}");
    assert!(said.contains(stderr) && said.lines().count() <= 1, "{said}");
}

#[test]
fn a_library_is_given_the_header_and_the_events() {
    check(
        "emit(ctx, request, len); emit(ctx, events, events_len); return 0;",
        Some(0),
        "{\"type\":\"compact\",\"id\":\"a\",\"events\":{\"mode\":\"inline\",\"count\":1}}\n{\"type\":\"event\",\"seq\":0}\n",
        "",
    );
}

#[test]
fn a_library_that_fails_is_an_exit_status() {
    check("return 3;", Some(1), "", "libbad.so: it returned 3");
    check("emit(ctx, (const uint8_t *)line, 2); return -1;", Some(1), "{}\n", "it returned -1");
}

#[test]
fn a_library_that_crashes_is_a_signal() {
    check("abort();", None, "", "");
    check("*(volatile int *)8 = 1; return 0;", None, "", "");
}

#[test]
fn a_library_that_exits_took_no_host_with_it() {
    check("exit(5);", Some(5), "", "");
}

#[test]
fn what_a_library_prints_is_no_message() {
    check("printf(\"loading\"); emit(ctx, (const uint8_t *)line, 2); return 0;", Some(0), "{}\n", "loading");
}

#[test]
fn what_is_no_strategy_is_not_started() {
    let not = |text: &str, why: &str| check_text(text, "describe", Some(126), "", why);
    not("int other;", "undefined symbol: jp_compact_strategy_v1");
    not("const jpc_strategy_v1 *jp_compact_strategy_v1(void) { return 0; }", "it has no strategy");
    let table = |fields: &str| {
        format!(
            "static const jpc_strategy_v1 TABLE = {{{fields}}};\n\
             const jpc_strategy_v1 *jp_compact_strategy_v1(void) {{ return &TABLE; }}"
        )
    };
    not(&table("2, sizeof(jpc_strategy_v1), \"{}\", 0"), "its table is of version 2");
    not(&table("1, 8, \"{}\", 0"), "with 8 bytes");
    not(&table("1, sizeof(jpc_strategy_v1), \"{}\", 0"), "lacks `describe_json` or `run`");
}

#[test]
fn without_a_host_it_says_who_starts_it() {
    let mut command = assert_cmd::Command::new(cargo_bin("compact-runner"));
    command.env_clear().args(["--dylib", "/nowhere.so", "run"]).assert().code(64).stdout("");
}
