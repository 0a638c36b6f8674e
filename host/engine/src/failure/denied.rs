//! What a jailed strategy seems to have tried without the grant for it, as far as its last words and the way in
//! which it ended tell. A guess that spares its author a search: it is said as one, and decides nothing.

use std::path::{Path, PathBuf};

use jp_compact_schema::{Permissions, Runtime};
use rustix::fs::{Access, access};

use super::StrategyFailure;
use crate::jail::Tier;
use crate::process::ProcessError;
use crate::session::Confined;
use crate::trust::{self, Grant};

/// Its last words are here.
const LINES_MAX: usize = 40;
/// What the filter of system calls answers, as libraries and languages put it.
const NOT_PERMITTED: [&str; 4] = ["operation not permitted", "eperm", "[errno 1]", "os error 1)"];
/// What Landlock answers.
const DENIED: [&str; 4] = ["permission denied", "eacces", "[errno 13]", "os error 13)"];
/// Whoever says this tried to start a process.
const NO_FORK: [&str; 4] = ["cannot fork", "can't fork", "unable to fork", "fork failed"];
/// And who says this where something was not permitted.
const PROCESSES: [&str; 6] = ["fork", "spawn", "subprocess", "popen", "child process", "clone"];
const SOCKETS: [&str; 4] = ["socket", "connect", "network", "bind"];
/// Whoever says this asked the network for a name.
const NO_NAMES: [&str; 5] =
    ["name resolution", "could not resolve", "getaddrinfo", "eai_again", "name or service not known"];

/// What it seems to have tried. Without a jail it was denied nothing that could be granted.
pub(super) fn tried(failure: &StrategyFailure, confined: &Confined) -> Option<Grant> {
    if confined.tier() == Tier::Contained {
        return None;
    }
    let cleared = &confined.cleared;
    let words = match failure {
        StrategyFailure::Process(ProcessError::Start { reason, .. }) => {
            let is_without = cleared.permissions.runtime == Runtime::None && says(reason, &DENIED);
            let runtime = cleared.interpreter.as_deref().map(trust::runtime).filter(|_| is_without)?;
            return (runtime != Runtime::None).then_some(Grant::Runtime(runtime));
        }
        StrategyFailure::Crashed { stderr, .. }
        | StrategyFailure::Process(ProcessError::Deadline { stderr, .. }) => stderr.last_lines(LINES_MAX),
        StrategyFailure::Reported { error, .. } => error.message.clone(),
        _ => return None,
    };
    of_words(&words, &cleared.permissions, cleared.folder.as_deref().unwrap_or(&cleared.program))
}

/// What the words of a plugin at `own` tell that it tried.
pub(crate) fn of_words(words: &str, granted: &Permissions, own: &Path) -> Option<Grant> {
    let could_be_read = |path: &Path| !path.starts_with(own) && access(path, Access::READ_OK).is_ok();
    guessed(words, granted, could_be_read)
}

fn guessed(words: &str, granted: &Permissions, could_be_read: impl Fn(&Path) -> bool) -> Option<Grant> {
    let not_permitted = says(words, &NOT_PERMITTED);
    if !granted.subprocess && (says(words, &NO_FORK) || not_permitted && says(words, &PROCESSES)) {
        return Some(Grant::Subprocess);
    }
    if !granted.network && (says(words, &NO_NAMES) || not_permitted && says(words, &SOCKETS)) {
        return Some(Grant::Network);
    }
    let is_new =
        |path: &PathBuf| could_be_read(path) && !granted.read.iter().any(|granted| path.starts_with(granted));
    // To write is nothing that could be granted.
    let lines = words.lines().rev().filter(|line| says(line, &DENIED) && !says(line, &["create", "write"]));
    let path = lines.flat_map(|line| paths(line).into_iter().rev()).find(is_new)?;
    path.to_str().map(|path| Grant::Read(path.to_owned()))
}

fn says(text: &str, any: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    any.iter().any(|words| text.contains(words))
}

/// The absolute paths that a line names: in quotes, or up to a space or a colon. One that `--grant` could not
/// take is left out.
fn paths(line: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let is_quoted = ['\'', '"', '`'].contains(&before);
        if c == '/' && (is_quoted || before == ' ' || before == '(') {
            let ends = |c: char| if is_quoted { c == before } else { " :,)".contains(c) };
            let path = &rest[..rest.find(ends).unwrap_or(rest.len())];
            if !path.contains(|c: char| c == ',' || c.is_control()) {
                found.push(PathBuf::from(path));
            }
            rest = &rest[path.len()..];
        } else {
            rest = &rest[c.len_utf8()..];
        }
        before = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of these words of a strategy that was granted nothing, where `/etc` and `/a b` can be read.
    #[track_caller]
    fn check(words: &str, expect: Option<&str>) {
        let could_be_read = |path: &Path| path.starts_with("/etc") || path.starts_with("/a b");
        let found = guessed(words, &Permissions::default(), could_be_read);
        assert_eq!(found.map(|grant| grant.to_string()).as_deref(), expect, "{words}");
    }

    #[test]
    fn a_process_that_could_not_be_started() {
        for words in [
            "/store/x: 3: Cannot fork",
            "x: fork: Operation not permitted",
            "sh: can't fork: Operation not permitted",
            "  File \"subprocess.py\", line 9, in _execute_child\nPermissionError: [Errno 1] Operation not permitted: 'ls'",
            "Error: spawnSync ls EPERM",
        ] {
            check(words, Some("subprocess"));
        }
    }

    #[test]
    fn a_network_that_could_not_be_reached() {
        for words in [
            "  File \"socket.py\", line 2\nPermissionError: [Errno 1] Operation not permitted",
            "Error: connect EPERM 192.0.2.1:80",
            "curl: (6) Could not resolve host: example.org",
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        ] {
            check(words, Some("network"));
        }
    }

    #[test]
    fn a_file_that_could_not_be_read() {
        for words in [
            "/store/x: 3: cannot open /etc/hosts: Permission denied",
            "cat: /etc/hosts: Permission denied",
            "PermissionError: [Errno 13] Permission denied: '/etc/hosts'",
            "Error: EACCES: permission denied, open '/etc/hosts'\n    at Object.openSync",
            "/etc/hosts: Permission denied\n",
        ] {
            check(words, Some("read:/etc/hosts"));
        }
        check("cannot open '/a b/c': Permission denied", Some("read:/a b/c"));
    }

    #[test]
    fn anything_else_tells_nothing() {
        for words in [
            "",
            "no luck",
            "fork in the road",
            "Operation not permitted",
            "x: cannot create /etc/new: Permission denied",
            "cat: /nowhere: Permission denied",
            "cat: etc/hosts: Permission denied",
            "'/etc/a,b': Permission denied",
        ] {
            check(words, None);
        }
    }

    #[test]
    fn what_was_granted_is_not_what_is_lacking() {
        let read = vec!["/etc".to_owned()];
        let granted = Permissions { subprocess: true, network: true, read, ..Permissions::default() };
        for words in ["Cannot fork", "Could not resolve host", "cat: /etc/hosts: Permission denied"] {
            assert_eq!(guessed(words, &granted, |_| true), None, "{words}");
        }
    }
}
