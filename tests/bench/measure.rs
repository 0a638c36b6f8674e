//! Runs processes and tells what they used. Sides are run in turns within one run of the bench, and compared by
//! their medians, for a machine is never quite still; where it is busy, the least that was seen says more.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4;

/// What a process and those that it waited for have used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// In user and system mode together.
    pub(crate) cpu: Duration,
    /// From the spawn to the end.
    pub(crate) wall: Duration,
    /// The most memory of any one of them.
    pub(crate) peak_bytes: u64,
}

/// One behind the other.
impl std::ops::Add for Used {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            wall: self.wall + other.wall,
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
        }
    }
}

/// A command that sees nothing of the environment but where programs are. `home` is a folder of the bench.
#[expect(clippy::disallowed_methods, reason = "a bench spawns what it measures")]
pub(crate) fn command(program: impl AsRef<Path>, home: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env_clear().env("HOME", home).envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a command to its end. One that fails is an error; what it says of it goes to stderr.
pub(crate) fn run(command: &mut Command) -> io::Result<Used> {
    let begun = Instant::now();
    let ended = command.spawn().and_then(Wait4::wait4);
    let ended = ended.map_err(|error| io::Error::new(error.kind(), format!("{command:?}: {error}")))?;
    let wall = begun.elapsed();
    if !ended.status.success() {
        return Err(io::Error::other(format!("{command:?}: {}", ended.status)));
    }
    let used = ended.rusage;
    Ok(Used { cpu: used.utime + used.stime, wall, peak_bytes: used.maxrss })
}

/// Runs a command whose output goes to a file.
pub(crate) fn run_into(command: &mut Command, path: &Path) -> io::Result<Used> {
    run(command.stdout(File::create(path)?))
}

/// What several runs have used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs {
    /// As in [`Used`].
    pub(crate) cpu: Times,
    /// As in [`Used`].
    pub(crate) wall: Times,
    /// As in [`Used`], the median.
    pub(crate) peak_bytes: u64,
}

/// What several runs took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) median: Duration,
    pub(crate) least: Duration,
}

impl Times {
    fn of(times: impl Iterator<Item = Duration> + Clone) -> Self {
        Self { median: median(times.clone()), least: times.min().unwrap_or_default() }
    }
}

/// One of the things that are compared: runs once.
pub(crate) type Side<'a> = &'a mut dyn FnMut() -> io::Result<Used>;

/// Runs sides in turns, so many times each, after one time that is not counted.
pub(crate) fn in_turns<const SIDES: usize>(
    runs: usize,
    mut sides: [Side<'_>; SIDES],
) -> io::Result<[Runs; SIDES]> {
    let mut used = [const { Vec::new() }; SIDES];
    for run in 0..=runs {
        for (side, used) in sides.iter_mut().zip(&mut used) {
            let once = side()?;
            if run > 0 {
                used.push(once);
            }
        }
    }
    Ok(used.map(|used| Runs {
        cpu: Times::of(used.iter().map(|used| used.cpu)),
        wall: Times::of(used.iter().map(|used| used.wall)),
        peak_bytes: median(used.iter().map(|used| used.peak_bytes)),
    }))
}

fn median<T: Ord + Copy + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
