//! Guesses which missing permission made a jailed strategy fail, from its last output and its exit status.
//! The guess saves the author a search. It is reported as a guess and must not affect any decision.

use std::path::{Path, PathBuf};

use jp_compact_schema::{Permissions, Runtime};
use rustix::fs::{Access, access};

use super::confined::Confined;
use super::error::{Error, Lacking};
use crate::jail::Tier;
use crate::process::ProcessError;
use crate::trust::{self, Grant, grants};

/// The number of lines to inspect.
const LINES_MAX: usize = 40;
/// The error of the system call filter, as libraries and languages print it.
const NOT_PERMITTED: [&str; 4] = ["operation not permitted", "eperm", "[errno 1]", "os error 1)"];
/// The error of Landlock.
const DENIED: [&str; 4] = ["permission denied", "eacces", "[errno 13]", "os error 13)"];
/// These messages show that the strategy tried to start a process.
const NO_FORK: [&str; 4] = ["cannot fork", "can't fork", "unable to fork", "fork failed"];
/// These words show the same if the output also contains a permission error.
const PROCESSES: [&str; 6] = ["fork", "spawn", "subprocess", "popen", "child process", "clone"];
const SOCKETS: [&str; 4] = ["socket", "connect", "network", "bind"];
/// These messages show that the strategy tried to resolve a name.
const NO_NAMES: [&str; 5] =
    ["name resolution", "could not resolve", "getaddrinfo", "eai_again", "name or service not known"];

impl Error {
    /// Adds the permissions that the plugin asked for but does not have, or probably tried to use.
    #[must_use]
    pub fn of_run(self, confined: &Confined) -> Self {
        let cleared = &confined.cleared;
        let may_explain = matches!(
            self,
            Self::Crashed { .. } | Self::Process(_) | Self::Reported { .. } | Self::Violation(_)
        );
        if !may_explain || cleared.plugin.bundled() {
            return self;
        }
        let (asked, tried) = (cleared.missing(), tried(&self, confined));
        if asked.is_empty() && tried.is_none() {
            return self;
        }
        let more: Vec<Grant> = asked.iter().cloned().chain(tried.clone()).collect();
        let command = cleared.command(&grants::add(cleared.permissions.clone(), &more));
        Self::Lacking(Box::new(Lacking { asked, tried, command, failure: self }))
    }
}

/// Returns the permission that the plugin probably lacks. Without a jail, nothing is denied that a grant would allow.
fn tried(failure: &Error, confined: &Confined) -> Option<Grant> {
    if confined.tier() == Tier::Contained {
        return None;
    }
    let cleared = &confined.cleared;
    let words = match failure {
        Error::Process(ProcessError::Start { reason, .. }) => {
            let is_without = cleared.permissions.runtime == Runtime::None && says(reason, &DENIED);
            let runtime = cleared.interpreter.as_deref().map(trust::runtime).filter(|_| is_without)?;
            return (runtime != Runtime::None).then_some(Grant::Runtime(runtime));
        }
        Error::Crashed { stderr, .. } | Error::Process(ProcessError::Deadline { stderr, .. }) => {
            stderr.last_lines(LINES_MAX)
        }
        Error::Reported { error, .. } => error.message.clone(),
        _ => return None,
    };
    guess(&words, &cleared.permissions, cleared.folder.as_deref().unwrap_or(&cleared.program))
}

/// Guesses from the output of a plugin at `own` which permission it lacks.
#[must_use]
pub fn guess(words: &str, granted: &Permissions, own: &Path) -> Option<Grant> {
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
    // Write access cannot be granted.
    let lines = words.lines().rev().filter(|line| says(line, &DENIED) && !says(line, &["create", "write"]));
    let path = lines.flat_map(|line| paths(line).into_iter().rev()).find(is_new)?;
    path.to_str().map(|path| Grant::Read(path.to_owned()))
}

fn says(text: &str, any: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    any.iter().any(|words| text.contains(words))
}

/// Returns the absolute paths in a line: quoted, or up to a space or a colon. Paths that `--grant` cannot
/// express are left out.
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

    /// Checks the guess for a strategy without grants, if `/etc` and `/a b` can be read.
    #[track_caller]
    fn check(words: &str, expect: Option<&str>) {
        let could_be_read = |path: &Path| path.starts_with("/etc") || path.starts_with("/a b");
        let found = guessed(words, &Permissions::default(), could_be_read);
        assert_eq!(found.map(|grant| grant.to_string()).as_deref(), expect, "{words}");
    }

    #[test]
    fn guesses_a_denied_process() {
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
    fn guesses_a_denied_network() {
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
    fn guesses_a_denied_file() {
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
    fn other_output_gives_no_guess() {
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
    fn never_guesses_a_granted_permission() {
        let read = vec!["/etc".to_owned()];
        let granted = Permissions { subprocess: true, network: true, read, ..Permissions::default() };
        for words in ["Cannot fork", "Could not resolve host", "cat: /etc/hosts: Permission denied"] {
            assert_eq!(guessed(words, &granted, |_| true), None, "{words}");
        }
    }
}
