//! The `#!` line of a script, parsed as in Linux, and its interpreter. A line is rejected if the program that it starts
//! is uncertain, because that program could not be trusted. This module must never execute anything.

use std::path::{Path, PathBuf};

use jp_compact_schema::Runtime;

use super::grants::LOADER_PREFIXES;
use crate::jail::is_of_system;
use crate::small_file;

/// The PATH that strategies get.
const PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// Linux reads this many bytes of the first line.
const LINE_BYTES_MAX: u64 = 256;
/// The characters that separate the interpreter from its argument.
const BLANK: [char; 2] = [' ', '\t'];
/// The characters at which `env -S` splits.
const ENV_BLANK: [char; 5] = [' ', '\t', '\r', '\x0b', '\x0c'];
/// Characters that `env -S` interprets.
const ENV_SPECIAL: [char; 5] = ['"', '\'', '\\', '$', '#'];

/// The program that a `#!` line starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The interpreter as it is written, or as it was found on PATH.
    pub(super) program: PathBuf,
    /// All possible arguments before the path of the script.
    pub(super) args: Vec<String>,
}

/// Returns the `#!` line of a file, or `None` if the file is not a script.
///
/// # Errors
/// The file cannot be read, or the program that the line starts is uncertain.
pub(super) fn read(script: &Path) -> Result<Option<Line>, String> {
    let start = small_file::read_start(script, LINE_BYTES_MAX)
        .map_err(|error| format!("failed to read {}: {error}", script.display()))?;
    let Some(rest) = start.strip_prefix(b"#!") else { return Ok(None) };
    let is_complete = start.contains(&b'\n') || (start.len() as u64) < LINE_BYTES_MAX;
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).ok().filter(|line| is_complete && !line.contains('\0'));
    let line =
        line.ok_or_else(|| format!("the `#!` line of {} is too long or not text", script.display()))?;
    parse(line).map(Some).map_err(|reason| format!("the `#!` line of {} {reason}", script.display()))
}

fn parse(line: &str) -> Result<Line, &'static str> {
    let line = line.trim_matches(BLANK);
    let (program, rest) = line.split_once(BLANK).unwrap_or((line, ""));
    let (program, rest) = (Path::new(program), rest.trim_start_matches(BLANK));
    if line.is_empty() {
        return Err("names no interpreter");
    }
    if !program.is_absolute() {
        return Err("names its interpreter by a relative path");
    }
    let is_env = program.file_name().is_some_and(|name| name == "env")
        && program.canonicalize().is_ok_and(|real| is_of_system(program) && is_of_system(&real));
    if !is_env {
        return Ok(Line { program: program.to_owned(), args: possible_args(rest) });
    }
    let split = rest.strip_prefix("-S").filter(|words| words.is_empty() || words.starts_with(BLANK));
    let blank = if split.is_some() { &ENV_BLANK[..] } else { &BLANK };
    let mut words = split.unwrap_or(rest).split(blank).filter(|word| !word.is_empty()).peekable();
    if split.is_some() && line.contains(ENV_SPECIAL) {
        return Err("uses quotes, escapes or variables with `env -S`");
    }
    while let Some(word) = words.next_if(|word| word.starts_with('-') || word.contains('=')) {
        // Options of `env` and these variables change what is started. A path can name code for any interpreter.
        let changes_start =
            ["-", "PATH="].iter().chain(&LOADER_PREFIXES).any(|prefix| word.starts_with(prefix));
        if changes_start || absolute_paths(word).next().is_some() {
            return Err("passes `env` an option or a variable that changes what is started");
        }
    }
    let name = words.next().ok_or("names no interpreter")?;
    let args: Vec<String> = words.map(str::to_owned).collect();
    // In Linux, the program of `env` is then the whole rest of the line.
    if split.is_none() && rest != name {
        return Err("passes `env` several words without `-S`");
    }
    // If the program does not exist, `env` itself starts and fails.
    Ok(Line { program: find(name).unwrap_or_else(|| program.to_owned()), args })
}

/// Returns the rest of a line as one argument, as in Linux, and its words, as in macOS.
fn possible_args(rest: &str) -> Vec<String> {
    let words = rest.split(BLANK).filter(|word| !word.is_empty() && *word != rest);
    Some(rest).filter(|rest| !rest.is_empty()).into_iter().chain(words).map(str::to_owned).collect()
}

/// Returns the absolute paths in an argument, as in `/x.js`, `--require=/x.js`, `-r/x.js`, and `PYTHONPATH=a:/b`.
pub(super) fn absolute_paths(arg: &str) -> impl Iterator<Item = &str> {
    let in_part = |part: &str| if part.starts_with('-') { part.find('/') } else { Some(0) };
    let parts = arg.split(['=', ':', ',']).filter_map(move |part| part.get(in_part(part)?..));
    std::iter::once(arg).chain(parts).filter(|path| path.starts_with('/'))
}

/// Returns the interpreter of a script with symbolic links resolved.
pub(super) fn interpreter(script: &Path) -> Option<PathBuf> {
    read(script).ok().flatten()?.program.canonicalize().ok()
}

/// Returns an absolute path unchanged. Searches the PATH of strategies for a name.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_absolute());
    }
    PATH.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

/// Same as [`find`], with symbolic links resolved.
pub(super) fn find_real(program: &str) -> Option<PathBuf> {
    find(program)?.canonicalize().ok()
}

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
    fn check(line: &str, expect: &[&str]) {
        let Line { program, args } = parse(line).unwrap();
        let words: Vec<_> =
            std::iter::once(program.to_str().unwrap()).chain(args.iter().map(|arg| &**arg)).collect();
        assert_eq!(words, expect, "{line}");
    }

    #[track_caller]
    fn rejects(line: &str, expect: &str) {
        assert_eq!(parse(line).unwrap_err(), expect, "{line}");
    }

    #[test]
    fn finds_the_interpreter_directly_and_through_env() {
        check("/bin/sh", &["/bin/sh"]);
        check(" /usr/bin/python3 -I", &["/usr/bin/python3", "-I"]);
        check("/usr/bin/env sh", &["/usr/bin/sh"]);
        check("/usr/bin/env -S A=1 sh -e", &["/usr/bin/sh", "-e"]);
        check("/usr/bin/env no-such-program", &["/usr/bin/env"]);
        check("/home/u/env sh", &["/home/u/env", "sh"]);
        check("/usr/bin/env -S sh\x0b/a\r", &["/usr/bin/sh", "/a"]);
        check("/usr/bin/env sh\r", &["/usr/bin/env"]);
        check("/bin/sh\r", &["/bin/sh\r"]);
    }

    #[test]
    fn argument_may_contain_blanks() {
        check("/bin/sh  /a b\t", &["/bin/sh", "/a b", "/a", "b"]);
    }

    #[test]
    fn rejects_ambiguous_lines() {
        rejects("", "names no interpreter");
        rejects("/usr/bin/env", "names no interpreter");
        rejects("./python", "names its interpreter by a relative path");
        let reason = "passes `env` an option or a variable that changes what is started";
        for line in [
            "env -S/home/u/x",
            "env -i sh",
            "env -S PATH=/home/u sh",
            "env LD_PRELOAD=/x sh",
            "env -S DYLD_A=/x sh",
            "env -S PYTHONPATH=a:/x sh",
            "env -S NODE_OPTIONS=--require=/x.js sh",
        ] {
            rejects(&format!("/usr/bin/{line}"), reason);
        }
        for line in ["env /home/u/x y", "env sh -e"] {
            rejects(&format!("/usr/bin/{line}"), "passes `env` several words without `-S`");
        }
        rejects("/usr/bin/env -S \"${X}\" sh", "uses quotes, escapes or variables with `env -S`");
    }

    #[test]
    fn detects_the_runtime_by_name() {
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
    fn finds_the_interpreter_of_a_script() {
        let base = tempfile::tempdir().unwrap();
        let script = base.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env sh\n").unwrap();
        assert_eq!(runtime(&interpreter(&script).unwrap()), Runtime::Sh);
        std::fs::write(&script, b"\x7fELF").unwrap();
        assert_eq!(interpreter(&script), None);
        std::fs::write(&script, format!("#!/bin/sh {}", "x".repeat(300))).unwrap();
        assert!(read(&script).is_err());
    }
}
