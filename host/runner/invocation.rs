//! The runner's command line. It is parsed by hand, because the runner starts with every strategy.
//!
//! Unknown options are errors, and so are relative paths, whose meaning would change after `chdir`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub(crate) const USAGE: &str = "\
usage: compact-runner --host-pid N --dir PATH [--cpu-seconds N] [--env NAME]... [--cgroup PATH]
                      [--landlock ABI [--execute PATH]... [--read PATH]... [--open PATH]... [--network] [--subprocess]]
                      -- PROGRAM ARG...";

/// The parsed command line. Invariant: `dir` and `program` are absolute.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The process id of the host, which must be the parent.
    pub(crate) host_pid: u32,
    /// The private directory.
    pub(crate) dir: PathBuf,
    /// The limit of processor time. A worker has no such limit, because its time limits apply per request.
    pub(crate) cpu_seconds: Option<u64>,
    /// The control group to join, which limits the number of threads.
    pub(crate) cgroup: Option<PathBuf>,
    /// The names of granted variables. Their values are in the environment of this process, because every user of the
    /// machine can read its command line.
    pub(crate) env: Vec<OsString>,
    /// The jail. Without one, the program is only contained.
    pub(crate) jail: Option<JailRules>,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

/// The permissions of a jailed program. Invariant: the paths are absolute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct JailRules {
    /// The version of the Landlock ABI, which must be fully enforced.
    pub(crate) landlock: u8,
    /// Files and folders to read and to execute.
    pub(crate) execute: Vec<PathBuf>,
    /// Files and folders to read.
    pub(crate) read: Vec<PathBuf>,
    /// Folders whose files can be opened by name, but not listed.
    pub(crate) open: Vec<PathBuf>,
    /// Whether Internet sockets are allowed.
    pub(crate) network: bool,
    /// Whether child processes are allowed.
    pub(crate) subprocess: bool,
}

impl Invocation {
    pub(crate) fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut host_pid, mut dir, mut cpu_seconds, mut env) = (None, None, None, Vec::new());
        let (mut cgroup, mut landlock, mut jail) = (None, None, JailRules::default());
        loop {
            let flag = args.next().ok_or("`--` and a program are missing")?;
            if flag == "--" {
                break;
            }
            let mut value = || args.next().ok_or_else(|| format!("{} needs a value", flag.display()));
            match flag.to_str() {
                Some("--host-pid") => host_pid = Some(parse_number(&value()?)?),
                Some("--dir") => dir = Some(PathBuf::from(value()?)),
                Some("--cpu-seconds") => cpu_seconds = Some(parse_number(&value()?)?),
                Some("--env") => env.push(value()?),
                Some("--cgroup") => cgroup = Some(PathBuf::from(value()?)),
                Some("--landlock") => landlock = Some(parse_number(&value()?)?),
                Some("--execute") => jail.execute.push(value()?.into()),
                Some("--read") => jail.read.push(value()?.into()),
                Some("--open") => jail.open.push(value()?.into()),
                Some("--network") => jail.network = true,
                Some("--subprocess") => jail.subprocess = true,
                _ => return Err(format!("unknown option {}", flag.display())),
            }
        }
        let dir = dir.ok_or("--dir is missing")?;
        let program = args.next().ok_or("a program is missing after `--`")?;
        let granted = [&jail.execute, &jail.read, &jail.open].into_iter().flatten().map(PathBuf::as_path);
        let required = [&*dir, Path::new(&program)];
        for path in required.into_iter().chain(cgroup.as_deref()).chain(granted) {
            if !path.is_absolute() {
                return Err(format!("{} is not an absolute path", path.display()));
            }
        }
        let host_pid = host_pid.ok_or("--host-pid is missing")?;
        let jail = match landlock {
            Some(landlock) => Some(JailRules { landlock, ..jail }),
            // A grant without a jail is a mistake of the caller.
            None if jail != JailRules::default() => return Err("--landlock is missing".to_owned()),
            None => None,
        };
        Ok(Self { host_pid, dir, cpu_seconds, cgroup, env, jail, program, args: args.collect() })
    }
}

fn parse_number<N: std::str::FromStr>(text: &OsStr) -> Result<N, String> {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{} is not a valid number", text.display()))
}

#[cfg(test)]
mod tests {
    use super::{Invocation, JailRules};

    fn parse(line: &str) -> Result<Invocation, String> {
        Invocation::parse(line.split_whitespace().map(Into::into))
    }

    #[track_caller]
    fn rejects(line: &str, expect: &str) {
        assert_eq!(parse(line).unwrap_err(), expect);
    }

    #[test]
    fn arguments_after_the_dashes_belong_to_the_program() {
        let parsed = parse("--host-pid 7 --cpu-seconds 3 --env A --dir /d --env B -- /p --dir -- x").unwrap();
        let expect = Invocation {
            host_pid: 7,
            dir: "/d".into(),
            cpu_seconds: Some(3),
            cgroup: None,
            env: vec!["A".into(), "B".into()],
            jail: None,
            program: "/p".into(),
            args: vec!["--dir".into(), "--".into(), "x".into()],
        };
        assert_eq!(parsed, expect);
    }

    #[test]
    fn cpu_limit_is_optional() {
        assert_eq!(parse("--host-pid 7 --dir /d -- /p").unwrap().cpu_seconds, None);
    }

    #[test]
    fn parses_the_grants_of_a_jail() {
        let line = "--host-pid 7 --dir /d --landlock 6 --read /r --execute /x --open /o --subprocess -- /p";
        let jail = JailRules {
            landlock: 6,
            execute: vec!["/x".into()],
            read: vec!["/r".into()],
            open: vec!["/o".into()],
            network: false,
            subprocess: true,
        };
        assert_eq!(parse(line).unwrap().jail, Some(jail));
    }

    #[test]
    fn rejects_grants_without_a_jail() {
        rejects("--host-pid 7 --dir /d --network -- /p", "--landlock is missing");
    }

    #[test]
    fn rejects_incomplete_calls() {
        rejects("", "`--` and a program are missing");
        rejects("--dir", "--dir needs a value");
        rejects("--host-pid 7 -- /p", "--dir is missing");
        rejects("--dir /d -- /p", "--host-pid is missing");
        rejects("--host-pid 7 --dir /d --", "a program is missing after `--`");
    }

    #[test]
    fn rejects_invalid_numbers_and_unknown_options() {
        rejects("--host-pid x", "x is not a valid number");
        rejects("--host-pid -1", "-1 is not a valid number");
        rejects("--jail no", "unknown option --jail");
    }

    #[test]
    fn rejects_relative_paths() {
        rejects("--host-pid 7 --dir d -- /p", "d is not an absolute path");
        rejects("--host-pid 7 --dir /d --cgroup g -- /p", "g is not an absolute path");
        rejects("--host-pid 7 --dir /d --landlock 1 --read r -- /p", "r is not an absolute path");
        rejects("--host-pid 7 --dir /d -- p", "p is not an absolute path");
    }
}
