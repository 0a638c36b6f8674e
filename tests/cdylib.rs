//! Strategies as shared libraries: the C header matches the Rust types, and a faulty library results in an
//! exit status and one line on stderr.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may panic, and starts compilers")]

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

/// Compiles C code to a library. The code can use the header.
#[track_caller]
fn compile_library(base: &Path, text: &str) -> PathBuf {
    let (source, library) = (base.join("bad.c"), base.join("libbad.so"));
    fs::write(&source, format!("#include \"jp_compact_strategy.h\"\n{text}")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Werror", "-Wno-unused", "-fPIC", "-shared"]);
    compiler.arg(format!("-I{ROOT}/schema")).arg("-o").arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success(), "{text}");
    library
}

#[test]
fn c_header_has_the_layout_of_the_rust_types() {
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
    let asserts = asserts.map(|(name, value)| format!("_Static_assert({name} == {value}, \"{name}\");\n"));
    // A function with the header's types must fit without a cast.
    let types = "static int32_t run(const uint8_t *r, size_t l, const uint8_t *e, size_t n,\n\
                 int (*emit)(void *, const uint8_t *, size_t), void *c) { return emit(c, r, l); }\n\
                 static const jpc_strategy_v1 TABLE = {1, sizeof TABLE, \"{}\", run};\n";
    compile_library(base.path(), &(asserts.concat() + types));
}

/// Returns C code on one line, without comments.
fn declarations(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code += before;
        rest = after.split_once("*/").unwrap().1;
    }
    code += rest;
    code.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn c_header_matches_the_protocol_document() {
    let protocol = fs::read_to_string(format!("{ROOT}/schema/PROTOCOL.md")).unwrap();
    let block = protocol.split_once("```c\n").unwrap().1.split_once("```").unwrap().0;
    let header = declarations(jp_compact_schema::C_HEADER);
    for part in declarations(block).split_inclusive(';') {
        assert!(header.contains(part.trim()), "{part}");
    }
}

/// Checks the exit status, the output, and a part of stderr of a library whose `run` has this body.
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
    command.arg("--dylib").arg(compile_library(base.path(), text)).arg(verb);
    let requests = "\n{\"type\":\"later\"}\n{\"type\":\"compact\",\"id\":\"a\",\"events\":{\"mode\":\"inline\",\"count\":1}}\n\
                    {\"type\":\"event\",\"seq\":0}\r\n{\"type\":\"events_end\"}\n{\"type\":\"compact\",\"id\":\"b\",\"events\":null}\n";
    let output = command.write_stdin(requests).output().unwrap();
    let stderr_text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), status, "{stderr_text}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), stdout, "{stderr_text}");
    assert!(stderr_text.contains(stderr) && stderr_text.lines().count() <= 1, "{stderr_text}");
}

#[test]
fn library_receives_the_header_and_the_events() {
    check(
        "emit(ctx, request, len); emit(ctx, events, events_len); return 0;",
        Some(0),
        "{\"type\":\"compact\",\"id\":\"a\",\"events\":{\"mode\":\"inline\",\"count\":1}}\n{\"type\":\"event\",\"seq\":0}\n",
        "",
    );
}

#[test]
fn failed_library_exits_with_1() {
    check("return 3;", Some(1), "", "libbad.so: `run` returned 3");
    check("emit(ctx, (const uint8_t *)line, 2); return -1;", Some(1), "{}\n", "`run` returned -1");
}

#[test]
fn crashed_library_ends_by_a_signal() {
    check("abort();", None, "", "");
    check("*(volatile int *)8 = 1; return 0;", None, "", "");
}

#[test]
fn library_that_exits_ends_only_the_runner() {
    check("exit(5);", Some(5), "", "");
}

#[test]
fn text_that_a_library_prints_goes_to_stderr() {
    check("printf(\"loading\"); emit(ctx, (const uint8_t *)line, 2); return 0;", Some(0), "{}\n", "loading");
}

#[test]
fn invalid_library_is_not_started() {
    let check_invalid = |text: &str, message: &str| check_text(text, "describe", Some(126), "", message);
    check_invalid("int other;", "undefined symbol: jp_compact_strategy_v1");
    check_invalid(
        "const jpc_strategy_v1 *jp_compact_strategy_v1(void) { return 0; }",
        "the library returned no strategy",
    );
    let table = |fields: &str| {
        format!(
            "static const jpc_strategy_v1 TABLE = {{{fields}}};\n\
             const jpc_strategy_v1 *jp_compact_strategy_v1(void) {{ return &TABLE; }}"
        )
    };
    check_invalid(&table("2, sizeof(jpc_strategy_v1), \"{}\", 0"), "unsupported table: version 2");
    check_invalid(&table("1, 8, \"{}\", 0"), "with 8 bytes");
    check_invalid(&table("1, sizeof(jpc_strategy_v1), \"{}\", 0"), "lacks `describe_json` or `run`");
}

#[test]
fn runner_without_a_host_exits_with_64() {
    let mut command = assert_cmd::Command::new(cargo_bin("compact-runner"));
    command.env_clear().args(["--dylib", "/nowhere.so", "run"]).assert().code(64).stdout("");
}
