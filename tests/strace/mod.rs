//! An executable under strace: its system calls as values, and faults put into them. Knows lines of a trace, and
//! nothing of what they should be.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// A finished system call. One that the process did not live to see the end of has the result `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    pub(crate) result: String,
}

impl Call {
    /// The path behind a descriptor that is an argument, as `-y` shows it.
    pub(crate) fn file(&self, arg: usize) -> Option<&Path> {
        path_behind(self.args.get(arg)?)
    }

    /// The path behind the descriptor that the call returned.
    pub(crate) fn opened(&self) -> Option<&Path> {
        path_behind(&self.result)
    }

    /// The arguments that are strings: in every call that takes paths, the paths. (`rename` and `renameat` differ
    /// from machine to machine in what stands between.) A name behind a folder's descriptor is a path in that folder.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let mut folder = None;
        let mut paths = Vec::new();
        for arg in &self.args {
            if let Some(path) = arg.strip_prefix('"') {
                let path = path.trim_end_matches('"');
                paths.push(folder.map_or_else(|| path.into(), |folder: &Path| folder.join(path)));
            } else {
                folder = path_behind(arg);
            }
        }
        paths
    }

    /// Whether an argument of flags holds this one.
    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.args.iter().any(|arg| arg.split('|').any(|word| word == flag))
    }

    /// What it returned, where that is a number that is no error.
    pub(crate) fn returned(&self) -> Option<usize> {
        self.result.split_whitespace().next()?.parse().ok()
    }

    pub(crate) fn is_injected(&self) -> bool {
        self.result.ends_with("(INJECTED)")
    }

    /// Whether it puts bytes into its first argument.
    pub(crate) fn writes(&self) -> bool {
        ["write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "copy_file_range"]
            .contains(&&*self.name)
    }
}

fn path_behind(word: &str) -> Option<&Path> {
    let (_descriptor, path) = word.split_once('<')?;
    Some(Path::new(&path[..path.rfind('>')?]))
}

/// What became of the traced process.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Its own calls, in order; not its children's.
    pub(crate) calls: Vec<Call>,
    /// Those of its threads and its children as well, in the order in which they ended.
    pub(crate) of_all: Vec<Call>,
}

impl Ran {
    /// The place of the first call of which this holds, from `start` on.
    #[track_caller]
    pub(crate) fn find(&self, start: usize, what: &str, is: impl Fn(&Call) -> bool) -> usize {
        let found = self.calls[start..].iter().position(is);
        let at = found.unwrap_or_else(|| panic!("no {what} in\n{}", self.text(start)));
        start + at
    }

    pub(crate) fn count(&self, is: impl Fn(&Call) -> bool) -> usize {
        self.calls.iter().filter(|call| is(call)).count()
    }

    /// The calls from `start` on, for a message.
    pub(crate) fn text(&self, start: usize) -> String {
        let lines = self.calls[start..].iter().map(|call| {
            let Call { name, args, result, .. } = call;
            format!("  {name}({}) = {result}\n", args.join(", "))
        });
        lines.collect()
    }
}

/// A strace that works here.
#[derive(Debug)]
pub(crate) struct Strace(PathBuf);

impl Strace {
    /// Looks for it, and says on the real stderr (the harness keeps `eprintln!` to itself) where there is none.
    pub(crate) fn find(host: &Path) -> Option<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found =
            std::env::split_paths(&paths).map(|folder| folder.join("strace")).find(|path| path.is_file());
        let Some(path) = found else {
            skip("strace is not installed");
            return None;
        };
        // A kernel may refuse to trace, and an old strace cannot inject.
        let tried = Command::new(&path)
            .args(["-o", "/dev/null", "-y", "-e", "inject=fsync:error=EIO:when=1"])
            .arg(host)
            .arg("--version")
            .output();
        match tried {
            Ok(output) if output.status.success() => Some(Self(path)),
            Ok(output) => {
                skip(&format!(
                    "strace does not work here: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                ));
                None
            }
            Err(error) => {
                skip(&format!("strace does not start: {error}"));
                None
            }
        }
    }

    /// Runs a command, described by a closure, under strace. Output goes to files in `scratch`, so that the trace
    /// names them: `stdout` and `stderr`.
    pub(crate) fn run(&self, scratch: &Path, options: &[String], command: impl FnOnce(&mut Command)) -> Ran {
        let file = |name: &str| scratch.join(name);
        let create = |name: &str| Stdio::from(fs::File::create(file(name)).unwrap());
        let mut strace = Command::new(&self.0);
        strace.args(["-y", "-s", "16", "-o"]).arg(file("trace")).args(options).arg("--").env_clear();
        command(&mut strace);
        let spawned = strace.stdin(Stdio::null()).stdout(create("stdout")).stderr(create("stderr")).spawn();
        let status = spawned.unwrap().wait().unwrap();
        let text = |name: &str| String::from_utf8_lossy(&fs::read(file(name)).unwrap()).into_owned();
        let mut calls = parse(&text("trace"));
        let of_all = calls.clone();
        if let Some(pid) = calls.first().map(|call| call.pid) {
            calls.retain(|call| call.pid == pid);
        }
        Ran { of_all, status, stdout: text("stdout"), stderr: text("stderr"), calls }
    }
}

/// Says that a test proves nothing here, and why.
pub(crate) fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The calls of a trace. Lines begin with a pid only under `-f`; a call that another process interrupts stands on
/// two lines, and is placed where it ended.
pub(crate) fn parse(trace: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut begun: Vec<(u32, String)> = Vec::new();
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
            begun.push((pid, head.to_owned()));
            continue;
        }
        let whole = match line.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_name, tail)) => {
                let at = begun.iter().position(|(of, _)| *of == pid).expect("what is resumed was begun");
                begun.remove(at).1 + tail
            }
            None => line.to_owned(),
        };
        calls.push(call(pid, &whole));
    }
    calls
}

fn call(pid: u32, line: &str) -> Call {
    let (name, rest) = line.split_once('(').unwrap_or_else(|| panic!("no call: {line}"));
    let (args, rest) = arguments(rest);
    let result = rest.trim_start().strip_prefix('=').unwrap_or_else(|| panic!("no result: {line}"));
    Call { pid, name: name.to_owned(), args, result: result.trim().to_owned() }
}

/// Splits what stands in a call's parentheses at its top-level commas, and returns what follows them.
fn arguments(text: &str) -> (Vec<String>, &str) {
    let (mut args, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0_u32, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' if depth == 0 => {
                args.extend(Some(text[start..at].trim().to_owned()).filter(|arg| !arg.is_empty()));
                return (args, &text[at + 1..]);
            }
            // `1<<5` and `->` open nothing.
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                args.push(text[start..at].trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    panic!("a call without an end: {text}");
}
