//! Measurement of processes. The compared commands (sides) run alternately within one run of the bench. Their
//! medians are compared, because no machine is completely idle. On a busy machine the minimum is more
//! reliable.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4;

/// Resources used by a process and by the children that it waited for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// User and system time together.
    pub(crate) cpu: Duration,
    /// From spawn to exit.
    pub(crate) wall: Duration,
    /// The peak memory of the largest process.
    pub(crate) peak_bytes: u64,
}

/// Adds two consecutive measurements.
impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            wall: self.wall + other.wall,
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
        }
    }
}

/// Returns a command with an empty environment except `PATH` and `HOME`, which is a folder of the bench.
#[expect(clippy::disallowed_methods, reason = "a bench spawns the measured commands")]
pub(crate) fn command(program: impl AsRef<Path>, home: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env_clear().env("HOME", home).envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a command to its end. An exit code other than 0 is an error. The command prints its message to stderr.
pub(crate) fn run(command: &mut Command) -> io::Result<Usage> {
    let started = Instant::now();
    let finished = command.spawn().and_then(Wait4::wait4);
    let finished = finished.map_err(|error| io::Error::new(error.kind(), format!("{command:?}: {error}")))?;
    let wall = started.elapsed();
    if !finished.status.success() {
        return Err(io::Error::other(format!("{command:?}: {}", finished.status)));
    }
    let resources = finished.rusage;
    Ok(Usage { cpu: resources.utime + resources.stime, wall, peak_bytes: resources.maxrss })
}

/// Runs a command with its output redirected to a file.
pub(crate) fn run_into(command: &mut Command, path: &Path) -> io::Result<Usage> {
    run(command.stdout(File::create(path)?))
}

/// Summary of several runs of one side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs {
    /// Summary of [`Usage::cpu`].
    pub(crate) cpu: Times,
    /// Summary of [`Usage::wall`].
    pub(crate) wall: Times,
    /// The median of [`Usage::peak_bytes`].
    pub(crate) peak_bytes: u64,
}

/// Median and minimum of a duration over several runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) median: Duration,
    pub(crate) min: Duration,
}

impl Times {
    fn new(times: impl Iterator<Item = Duration> + Clone) -> Self {
        Self { median: median(times.clone()), min: times.min().unwrap_or_default() }
    }
}

/// A command to compare, which runs once per call.
pub(crate) type Side<'a> = &'a mut dyn FnMut() -> io::Result<Usage>;

/// Runs the sides alternately, `runs` times each, after one warm-up run.
pub(crate) fn alternate<const SIDES: usize>(
    runs: usize,
    mut sides: [Side<'_>; SIDES],
) -> io::Result<[Runs; SIDES]> {
    let mut usages = [const { Vec::new() }; SIDES];
    for run in 0..=runs {
        for (side, usages) in sides.iter_mut().zip(&mut usages) {
            let usage = side()?;
            if run > 0 {
                usages.push(usage);
            }
        }
    }
    Ok(usages.map(|usages| Runs {
        cpu: Times::new(usages.iter().map(|usage| usage.cpu)),
        wall: Times::new(usages.iter().map(|usage| usage.wall)),
        peak_bytes: median(usages.iter().map(|usage| usage.peak_bytes)),
    }))
}

fn median<T: Ord + Copy + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
