//! System calls of an executable under strace, with injected faults. This module parses traces. It does not
//! know which calls are expected.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// A finished system call. The result is `?` if the process died during the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    pub(crate) result: String,
}

impl Call {
    /// Returns the path of a descriptor argument, as `-y` prints it.
    pub(crate) fn file(&self, arg: usize) -> Option<&Path> {
        path_of_descriptor(self.args.get(arg)?)
    }

    /// Returns the path of the returned descriptor.
    pub(crate) fn opened(&self) -> Option<&Path> {
        path_of_descriptor(&self.result)
    }

    /// Returns the paths in the arguments: all string arguments of calls that take paths. A name after a
    /// folder's descriptor is joined with that folder. (Machines differ in whether they use `rename` or
    /// `renameat`.)
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let mut folder = None;
        let mut paths = Vec::new();
        for arg in &self.args {
            if let Some(path) = arg.strip_prefix('"') {
                let path = path.trim_end_matches('"');
                paths.push(folder.map_or_else(|| path.into(), |folder: &Path| folder.join(path)));
            } else {
                folder = path_of_descriptor(arg);
            }
        }
        paths
    }

    /// Returns whether the call names a file or folder, by its path or by a descriptor.
    pub(crate) fn names_a_file(&self) -> bool {
        let descriptors =
            self.args.iter().chain([&self.result]).filter_map(|argument| path_of_descriptor(argument));
        descriptors.chain(self.paths().iter().map(PathBuf::as_path)).any(Path::is_absolute)
    }

    /// Returns whether an argument contains this flag.
    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.args.iter().any(|arg| arg.split('|').any(|part| part == flag))
    }

    /// Returns the result if it is a number and not an error.
    pub(crate) fn returned(&self) -> Option<usize> {
        self.result.split_whitespace().next()?.parse().ok()
    }

    pub(crate) fn is_injected(&self) -> bool {
        self.result.ends_with("(INJECTED)")
    }

    /// Returns whether the call writes to its first argument.
    pub(crate) fn writes(&self) -> bool {
        ["write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "copy_file_range"]
            .contains(&&*self.name)
    }
}

fn path_of_descriptor(argument: &str) -> Option<&Path> {
    let (_descriptor, path) = argument.split_once('<')?;
    Some(Path::new(&path[..path.rfind('>')?]))
}

/// The result of a traced process.
#[derive(Debug)]
pub(crate) struct TracedRun {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The calls of the process itself, in order, without its children.
    pub(crate) calls: Vec<Call>,
    /// The calls of all threads and children, in the order in which they ended.
    pub(crate) all_calls: Vec<Call>,
}

impl TracedRun {
    /// Returns the index of the first matching call from `start` on.
    #[track_caller]
    pub(crate) fn find(&self, start: usize, description: &str, matches: impl Fn(&Call) -> bool) -> usize {
        let position = self.calls[start..].iter().position(matches);
        let index = position.unwrap_or_else(|| panic!("no {description} in\n{}", self.text(start)));
        start + index
    }

    pub(crate) fn count(&self, matches: impl Fn(&Call) -> bool) -> usize {
        self.calls.iter().filter(|call| matches(call)).count()
    }

    /// Formats the calls from `start` on for a message.
    pub(crate) fn text(&self, start: usize) -> String {
        let lines = self.calls[start..].iter().map(|call| {
            let Call { name, args, result, .. } = call;
            format!("  {name}({}) = {result}\n", args.join(", "))
        });
        lines.collect()
    }
}

/// A working strace.
#[derive(Debug)]
pub(crate) struct Strace(PathBuf);

impl Strace {
    /// Searches for strace. If it does not work, this is reported on stderr, or fails if `JP_COMPACT_TEST_ALL` is set.
    pub(crate) fn find(host: &Path) -> Option<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let strace_path =
            std::env::split_paths(&paths).map(|folder| folder.join("strace")).find(|path| path.is_file());
        let Some(path) = strace_path else {
            report_missing("strace is not installed");
            return None;
        };
        // A kernel may forbid tracing, and an old strace cannot inject faults.
        let probe = Command::new(&path)
            .args(["-o", "/dev/null", "-y", "-e", "inject=fsync:error=EIO:when=1"])
            .arg(host)
            .arg("--version")
            .output();
        match probe {
            Ok(output) if output.status.success() => Some(Self(path)),
            Ok(output) => {
                report_missing(&format!(
                    "strace does not work here: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                ));
                None
            }
            Err(error) => {
                report_missing(&format!("strace does not start: {error}"));
                None
            }
        }
    }

    /// Runs a command under strace. The closure sets the command. Output goes to the files `stdout` and
    /// `stderr` in `scratch`, so that the trace contains their paths.
    pub(crate) fn run(
        &self,
        scratch: &Path,
        options: &[String],
        command: impl FnOnce(&mut Command),
    ) -> TracedRun {
        let path = |name: &str| scratch.join(name);
        let output_file = |name: &str| Stdio::from(fs::File::create(path(name)).unwrap());
        let mut strace = Command::new(&self.0);
        strace.args(["-y", "-s", "16", "-o"]).arg(path("trace")).args(options).arg("--").env_clear();
        command(&mut strace);
        let spawned =
            strace.stdin(Stdio::null()).stdout(output_file("stdout")).stderr(output_file("stderr")).spawn();
        let status = spawned.unwrap().wait().unwrap();
        let text = |name: &str| String::from_utf8_lossy(&fs::read(path(name)).unwrap()).into_owned();
        let mut calls = parse(&text("trace"));
        let all_calls = calls.clone();
        if let Some(pid) = calls.first().map(|call| call.pid) {
            calls.retain(|call| call.pid == pid);
        }
        TracedRun { all_calls, status, stdout: text("stdout"), stderr: text("stderr"), calls }
    }
}

/// Reports that strace does not work. With `JP_COMPACT_TEST_ALL` set, this is a failure.
fn report_missing(reason: &str) {
    assert!(std::env::var_os("JP_COMPACT_TEST_ALL").is_none(), "{reason}");
    report_skipped(reason);
}

/// Reports that a test is skipped. (The test harness captures `eprintln!`.)
pub(crate) fn report_skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Parses the calls of a trace. Lines start with a pid only under `-f`. An interrupted call has two lines,
/// and is inserted at the second.
pub(crate) fn parse(trace: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut unfinished: Vec<(u32, String)> = Vec::new();
    for line in trace.lines() {
        let (pid, line) = match line.split_once(' ') {
            Some((pid, rest)) if pid.bytes().all(|byte| byte.is_ascii_digit()) => {
                (pid.parse().unwrap(), rest.trim_start())
            }
            _ => (0, line),
        };
        if line.starts_with("---") || line.starts_with("+++") {
            continue;
        }
        if let Some(head) = line.strip_suffix(" <unfinished ...>") {
            unfinished.push((pid, head.to_owned()));
            continue;
        }
        let text = match line.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_name, tail)) => {
                let index = unfinished
                    .iter()
                    .position(|(other, _)| *other == pid)
                    .expect("a resumed call was started");
                unfinished.remove(index).1 + tail
            }
            None => line.to_owned(),
        };
        calls.push(parse_call(pid, &text));
    }
    calls
}

fn parse_call(pid: u32, line: &str) -> Call {
    let (name, rest) = line.split_once('(').unwrap_or_else(|| panic!("not a call: {line}"));
    let (args, rest) = split_arguments(rest);
    let result = rest.trim_start().strip_prefix('=').unwrap_or_else(|| panic!("no result: {line}"));
    Call { pid, name: name.to_owned(), args, result: result.trim().to_owned() }
}

/// Splits the arguments of a call at top-level commas. Returns them and the text after the parenthesis.
fn split_arguments(text: &str) -> (Vec<String>, &str) {
    let (mut args, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0_u32, false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' if depth == 0 => {
                args.extend(Some(text[start..index].trim().to_owned()).filter(|arg| !arg.is_empty()));
                return (args, &text[index + 1..]);
            }
            // `1<<5` and `->` do not open a group.
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                args.push(text[start..index].trim().to_owned());
                start = index + 1;
            }
            _ => {}
        }
    }
    panic!("a call without an end: {text}");
}
