//! The runner's command line, parsed by hand: it is read once for every strategy that starts.
//! It refuses what it does not know, and paths that would mean something else after `chdir`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub(crate) const USAGE: &str = "\
usage: compact-runner --host-pid N --dir PATH [--cpu-seconds N] [--env NAME]... [--cgroup PATH]
                      [--landlock ABI [--execute PATH]... [--read PATH]... [--open PATH]... [--network] [--subprocess]]
                      -- PROGRAM ARG...";

/// What the host asked for. Invariant: `dir` and `program` are absolute.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The process that must be our parent, now and until the end.
    pub(crate) host_pid: u32,
    /// The private directory.
    pub(crate) dir: PathBuf,
    /// Processor time; none for a worker, whose deadlines stand per request.
    pub(crate) cpu_seconds: Option<u64>,
    /// The control group to join, which bounds its threads.
    pub(crate) cgroup: Option<PathBuf>,
    /// Names of granted variables. Their values come by our own environment, because a command
    /// line can be read by every user of the machine.
    pub(crate) env: Vec<OsString>,
    /// The jail; without one the program is contained and no more.
    pub(crate) jail: Option<Jail>,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

/// What a jailed program may do. Invariant: the paths are absolute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Jail {
    /// The version of Landlock's interface that must be there, and all of it enforced.
    pub(crate) landlock: u8,
    /// Files and folders to read and to execute.
    pub(crate) execute: Vec<PathBuf>,
    /// Files and folders to read.
    pub(crate) read: Vec<PathBuf>,
    /// Folders whose files can be opened by name, but not listed.
    pub(crate) open: Vec<PathBuf>,
    /// Sockets of the Internet's families.
    pub(crate) network: bool,
    /// Processes of its own.
    pub(crate) subprocess: bool,
}

impl Invocation {
    pub(crate) fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut host_pid, mut dir, mut cpu_seconds, mut env) = (None, None, None, Vec::new());
        let (mut cgroup, mut landlock, mut jail) = (None, None, Jail::default());
        loop {
            let flag = words.next().ok_or("`--` and a program are missing")?;
            if flag == "--" {
                break;
            }
            let mut value = || words.next().ok_or_else(|| format!("{} needs a value", flag.display()));
            match flag.to_str() {
                Some("--host-pid") => host_pid = Some(number(&value()?)?),
                Some("--dir") => dir = Some(PathBuf::from(value()?)),
                Some("--cpu-seconds") => cpu_seconds = Some(number(&value()?)?),
                Some("--env") => env.push(value()?),
                Some("--cgroup") => cgroup = Some(PathBuf::from(value()?)),
                Some("--landlock") => landlock = Some(number(&value()?)?),
                Some("--execute") => jail.execute.push(value()?.into()),
                Some("--read") => jail.read.push(value()?.into()),
                Some("--open") => jail.open.push(value()?.into()),
                Some("--network") => jail.network = true,
                Some("--subprocess") => jail.subprocess = true,
                _ => return Err(format!("unknown option {}", flag.display())),
            }
        }
        let dir = dir.ok_or("--dir is missing")?;
        let program = words.next().ok_or("a program is missing after `--`")?;
        let granted = [&jail.execute, &jail.read, &jail.open].into_iter().flatten().map(PathBuf::as_path);
        let own = [&*dir, Path::new(&program)];
        for path in own.into_iter().chain(cgroup.as_deref()).chain(granted) {
            if !path.is_absolute() {
                return Err(format!("{} is not an absolute path", path.display()));
            }
        }
        let host_pid = host_pid.ok_or("--host-pid is missing")?;
        let jail = match landlock {
            Some(landlock) => Some(Jail { landlock, ..jail }),
            // What is granted out of a jail that was not asked for is a mistake of the caller's.
            None if jail != Jail::default() => return Err("--landlock is missing".to_owned()),
            None => None,
        };
        Ok(Self { host_pid, dir, cpu_seconds, cgroup, env, jail, program, args: words.collect() })
    }
}

fn number<N: std::str::FromStr>(word: &OsStr) -> Result<N, String> {
    let parsed = word.to_str().and_then(|word| word.parse().ok());
    parsed.ok_or_else(|| format!("{} is not a number that fits", word.display()))
}

#[cfg(test)]
mod tests {
    use super::{Invocation, Jail};

    fn parse(line: &str) -> Result<Invocation, String> {
        Invocation::parse(line.split_whitespace().map(Into::into))
    }

    #[track_caller]
    fn refused(line: &str, expect: &str) {
        assert_eq!(parse(line).unwrap_err(), expect);
    }

    #[test]
    fn everything_after_the_dashes_is_the_programs() {
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
    fn a_worker_has_no_limit_of_processor_time() {
        assert_eq!(parse("--host-pid 7 --dir /d -- /p").unwrap().cpu_seconds, None);
    }

    #[test]
    fn a_jail_is_what_is_granted() {
        let line = "--host-pid 7 --dir /d --landlock 6 --read /r --execute /x --open /o --subprocess -- /p";
        let jail = Jail {
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
    fn grants_without_a_jail_are_refused() {
        refused("--host-pid 7 --dir /d --network -- /p", "--landlock is missing");
    }

    #[test]
    fn incomplete_calls_are_refused() {
        refused("", "`--` and a program are missing");
        refused("--dir", "--dir needs a value");
        refused("--host-pid 7 -- /p", "--dir is missing");
        refused("--dir /d -- /p", "--host-pid is missing");
        refused("--host-pid 7 --dir /d --", "a program is missing after `--`");
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        refused("--host-pid x", "x is not a number that fits");
        refused("--host-pid -1", "-1 is not a number that fits");
        refused("--jail no", "unknown option --jail");
    }

    #[test]
    fn relative_paths_are_refused() {
        refused("--host-pid 7 --dir d -- /p", "d is not an absolute path");
        refused("--host-pid 7 --dir /d --cgroup g -- /p", "g is not an absolute path");
        refused("--host-pid 7 --dir /d --landlock 1 --read r -- /p", "r is not an absolute path");
        refused("--host-pid 7 --dir /d -- p", "p is not an absolute path");
    }
}
