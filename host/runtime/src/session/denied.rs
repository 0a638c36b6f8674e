//! A guess of the missing permission that made a jailed strategy fail, from the kind of the failure and the last
//! output. The guess saves the author a search. It is shown to the user, and must never grant anything by itself.

use std::path::{Path, PathBuf};

use jp_compact_schema::{Permissions, Runtime};
use rustix::fs::{Access, access};

use super::confined::Confined;
use super::error::{Error, Lacking};
use crate::jail::{Tier, is_of_system};
use crate::process::ProcessError;
use crate::trust::{self, Grant, grants};

/// The number of lines to inspect.
const LINES_MAX: usize = 40;
/// The error of the system call filter, as libraries and languages print it.
const NOT_PERMITTED: [&str; 4] = ["operation not permitted", "eperm", "[errno 1]", "os error 1)"];
/// The error of Landlock.
const ACCESS_DENIED: [&str; 4] = ["permission denied", "eacces", "[errno 13]", "os error 13)"];
/// These messages show that the strategy tried to start a process.
const FORK_FAILED: [&str; 4] = ["cannot fork", "can't fork", "unable to fork", "fork failed"];
/// These words show the same if the output also contains a permission error.
const PROCESS_WORDS: [&str; 6] = ["fork", "spawn", "subprocess", "popen", "child process", "clone"];
const SOCKET_WORDS: [&str; 4] = ["socket", "connect", "network", "bind"];
/// These messages show that the strategy tried to resolve a name.
const RESOLUTION_FAILED: [&str; 5] =
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
        let (asked, tried) = (cleared.missing(), probably_lacking(&self, confined));
        if asked.is_empty() && tried.is_none() {
            return self;
        }
        let additional: Vec<Grant> = asked.iter().cloned().chain(tried.clone()).collect();
        let command = cleared.command(&grants::add(cleared.permissions.clone(), &additional));
        Self::Lacking(Box::new(Lacking { asked, tried, command, failure: self }))
    }
}

/// Returns the permission that the plugin probably lacks. Only a jail enforces the permissions that can be guessed, so
/// without a jail none is lacking.
fn probably_lacking(failure: &Error, confined: &Confined) -> Option<Grant> {
    if confined.tier() == Tier::Contained {
        return None;
    }
    let cleared = &confined.cleared;
    let output = match failure {
        Error::Process(ProcessError::Start { reason, .. }) => {
            let lacks_runtime =
                cleared.permissions.runtime == Runtime::None && contains_any(reason, &ACCESS_DENIED);
            let runtime = cleared.interpreter.as_deref().map(trust::runtime).filter(|_| lacks_runtime)?;
            return (runtime != Runtime::None).then_some(Grant::Runtime(runtime));
        }
        Error::Crashed { stderr, .. } | Error::Process(ProcessError::Deadline { stderr, .. }) => {
            stderr.last_lines(LINES_MAX)
        }
        Error::Reported { error, .. } => error.message.clone(),
        _ => return None,
    };
    guess(&output, &cleared.permissions, cleared.folder.as_deref().unwrap_or(&cleared.program))
}

/// Guesses from the output of a plugin which permission it lacks. `plugin` is its path.
#[must_use]
pub fn guess(output: &str, granted: &Permissions, plugin: &Path) -> Option<Grant> {
    let could_be_read = |path: &Path| !path.starts_with(plugin) && access(path, Access::READ_OK).is_ok();
    guess_with(output, granted, could_be_read)
}

fn guess_with(output: &str, granted: &Permissions, could_be_read: impl Fn(&Path) -> bool) -> Option<Grant> {
    let not_permitted = contains_any(output, &NOT_PERMITTED);
    if !granted.subprocess
        && (contains_any(output, &FORK_FAILED) || not_permitted && contains_any(output, &PROCESS_WORDS))
    {
        return Some(Grant::Subprocess);
    }
    if !granted.network
        && (contains_any(output, &RESOLUTION_FAILED) || not_permitted && contains_any(output, &SOCKET_WORDS))
    {
        return Some(Grant::Network);
    }
    // With a runtime, the jail allows the system folders. A message often begins with the path of the interpreter.
    let is_allowed = |path: &Path| {
        granted.runtime != Runtime::None && is_of_system(path)
            || granted.read.iter().any(|granted| path.starts_with(granted))
    };
    let could_be_granted = |path: &PathBuf| could_be_read(path) && !is_allowed(path);
    // Write access cannot be granted.
    let lines = output
        .lines()
        .rev()
        .filter(|line| contains_any(line, &ACCESS_DENIED) && !contains_any(line, &["create", "write"]));
    let path = lines.flat_map(|line| paths(line).into_iter().rev()).find(could_be_granted)?;
    path.to_str().map(|path| Grant::Read(path.to_owned()))
}

fn contains_any(text: &str, phrases: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// Returns the absolute paths in a line: quoted, or up to a space, a colon, a comma, or a parenthesis. Paths that
/// `--grant` cannot express are left out.
fn paths(line: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut previous = ' ';
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let is_quoted = ['\'', '"', '`'].contains(&previous);
        if c == '/' && (is_quoted || previous == ' ' || previous == '(') {
            let is_end = |c: char| if is_quoted { c == previous } else { " :,)".contains(c) };
            let path = &rest[..rest.find(is_end).unwrap_or(rest.len())];
            if !path.contains(|c: char| c == ',' || c.is_control()) {
                found.push(PathBuf::from(path));
            }
            rest = &rest[path.len()..];
        } else {
            rest = &rest[c.len_utf8()..];
        }
        previous = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the guess for a strategy without grants, if `/etc` and `/a b` can be read.
    #[track_caller]
    fn check(output: &str, expect: Option<&str>) {
        let could_be_read = |path: &Path| path.starts_with("/etc") || path.starts_with("/a b");
        let found = guess_with(output, &Permissions::default(), could_be_read);
        assert_eq!(found.map(|grant| grant.to_string()).as_deref(), expect, "{output}");
    }

    #[test]
    fn guesses_a_denied_process() {
        for output in [
            "/store/x: 3: Cannot fork",
            "x: fork: Operation not permitted",
            "sh: can't fork: Operation not permitted",
            "  File \"subprocess.py\", line 9, in _execute_child\nPermissionError: [Errno 1] Operation not permitted: 'ls'",
            "Error: spawnSync ls EPERM",
        ] {
            check(output, Some("subprocess"));
        }
    }

    #[test]
    fn guesses_a_denied_network() {
        for output in [
            "  File \"socket.py\", line 2\nPermissionError: [Errno 1] Operation not permitted",
            "Error: connect EPERM 192.0.2.1:80",
            "curl: (6) Could not resolve host: example.org",
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        ] {
            check(output, Some("network"));
        }
    }

    #[test]
    fn guesses_a_denied_file() {
        for output in [
            "/store/x: 3: cannot open /etc/hosts: Permission denied",
            "cat: /etc/hosts: Permission denied",
            "PermissionError: [Errno 13] Permission denied: '/etc/hosts'",
            "Error: EACCES: permission denied, open '/etc/hosts'\n    at Object.openSync",
            "/etc/hosts: Permission denied\n",
        ] {
            check(output, Some("read:/etc/hosts"));
        }
        check("cannot open '/a b/c': Permission denied", Some("read:/a b/c"));
    }

    #[test]
    fn other_output_gives_no_guess() {
        for output in [
            "",
            "no luck",
            "fork in the road",
            "Operation not permitted",
            "x: cannot create /etc/new: Permission denied",
            "cat: /nowhere: Permission denied",
            "cat: etc/hosts: Permission denied",
            "'/etc/a,b': Permission denied",
        ] {
            check(output, None);
        }
    }

    #[test]
    fn never_guesses_a_granted_permission() {
        let read = vec!["/etc".to_owned()];
        let granted = Permissions { subprocess: true, network: true, read, ..Permissions::default() };
        for output in ["Cannot fork", "Could not resolve host", "cat: /etc/hosts: Permission denied"] {
            assert_eq!(guess_with(output, &granted, |_| true), None, "{output}");
        }
        let granted = Permissions { runtime: Runtime::Sh, ..Permissions::default() };
        let output = "/bin/sh: 0: cannot open /tmp/x/my: Permission denied";
        assert_eq!(guess_with(output, &granted, |path| path.starts_with("/bin")), None);
    }
}
