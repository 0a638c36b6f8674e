//! The interpreter of a script, from its `#!` line, and of a manifest's command. A bare script asks for its
//! interpreter's runtime by that line. Nothing is executed.

use std::path::{Path, PathBuf};

use jp_compact_schema::Runtime;

use crate::small_file;

/// The PATH that strategies are given.
const PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// As much of a first line as Linux reads.
const LINE_BYTES_MAX: u64 = 256;

/// The interpreter that a script names, where it is one.
pub(super) fn interpreter(script: &Path) -> Option<PathBuf> {
    let start = small_file::beginning(script, LINE_BYTES_MAX).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    named(std::str::from_utf8(line).ok()?).and_then(|name| look_up(&name))
}

/// The program in a `#!` line, behind `env` where it stands there.
fn named(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let program = words.next()?;
    let is_env = Path::new(program).file_name().is_some_and(|name| name == "env");
    let program =
        if is_env { words.find(|word| !word.starts_with('-') && !word.contains('='))? } else { program };
    Some(program.to_owned())
}

/// Where a program is: as it stands when it is a path, else the first on a strategy's PATH. Links resolved.
pub(super) fn look_up(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).canonicalize().ok();
    }
    PATH.iter().find_map(|folder| Path::new(folder).join(program).canonicalize().ok())
}

/// The runtime that an interpreter is of.
pub(super) fn runtime(interpreter: &Path) -> Runtime {
    let name = interpreter.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" | "pypy" => Runtime::Python,
        "node" | "nodejs" => Runtime::Node,
        "sh" | "dash" | "bash" | "busybox" => Runtime::Sh,
        _ => Runtime::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: Option<&str>) {
        assert_eq!(named(line).as_deref(), expect);
    }

    #[test]
    fn the_interpreter_is_the_first_word_or_stands_behind_env() {
        check("/bin/sh", Some("/bin/sh"));
        check(" /usr/bin/python3 -I", Some("/usr/bin/python3"));
        check("/usr/bin/env node", Some("node"));
        check("/usr/bin/env -S A=1 python3 -I", Some("python3"));
        check("/usr/bin/env", None);
        check("", None);
    }

    #[test]
    fn interpreters_are_known_by_their_names() {
        for (path, expect) in [
            ("/usr/bin/python3.11", Runtime::Python),
            ("/usr/bin/node", Runtime::Node),
            ("/usr/bin/dash", Runtime::Sh),
            ("/usr/bin/perl", Runtime::None),
        ] {
            assert_eq!(runtime(Path::new(path)), expect, "{path}");
        }
    }

    #[test]
    fn a_script_s_interpreter_is_found() {
        let base = tempfile::tempdir().unwrap();
        let script = base.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env sh\n").unwrap();
        assert_eq!(runtime(&interpreter(&script).unwrap()), Runtime::Sh);
        std::fs::write(&script, b"\x7fELF").unwrap();
        assert_eq!(interpreter(&script), None);
    }
}
