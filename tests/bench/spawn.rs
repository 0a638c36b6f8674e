//! Cost of starting a strategy: through the runner, in its jail, and from a host that holds a gigabyte. The
//! strategy is `true`. The reference is a spawn of `true`, or, for the host with a gigabyte, the same start from a host
//! without it.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use jp_compact_runtime::jail::{Abilities, Confinement, Jail};
use jp_compact_runtime::process::{self, GRACE, Launch};
use jp_compact_schema::Permissions;

use crate::measure::{Usage, alternate, command, run};
use crate::table::Table;

const RUNNER: &str = env!("CARGO_BIN_EXE_compact-runner");
const TRUE: &str = "/bin/true";
/// Number of starts per run, because one start is too short to be measured.
const STARTS: usize = 50;
const BALLAST_BYTES: usize = 1 << 30;

/// Adds the rows of this module to the table.
pub(crate) fn add_rows(table: &mut Table, folder: &Path, runs: usize) -> io::Result<()> {
    let jail = Jail::new(Abilities::detect(), Path::new(TRUE), &Permissions::default(), None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = |confinement: Confinement<'_>| {
        let launch = Launch {
            runner: Path::new(RUNNER),
            program: Path::new(TRUE),
            confinement,
            args: &[],
            stdin: Vec::new(),
            env: &[],
            temp_dir: folder,
            private_bytes_max: process::PRIVATE_BYTES_MAX,
            deadline: Duration::from_secs(60),
            grace: GRACE,
            stdout_bytes_max: 1,
        };
        runtime.block_on(process::run(launch)).map(drop).map_err(io::Error::other)
    };
    let confinement = jail.as_ref().map_or(Confinement::Contained, Confinement::Isolated);
    let mut spawn = || mean_time(|| run(&mut command(TRUE, folder)).map(drop));
    let mut contained = || mean_time(|| start(Confinement::Contained));
    let mut isolated = || mean_time(|| start(confinement));
    let [spawned, contained, isolated] = alternate(runs, [&mut spawn, &mut contained, &mut isolated])?;
    let ballast = vec![1_u8; BALLAST_BYTES];
    let [with_ballast] = alternate(runs, [&mut || mean_time(|| start(confinement))])?;
    drop(std::hint::black_box(ballast));
    table.add_times("strategy, contained / spawn of true", contained.wall, spawned.wall, None);
    let tier = confinement.tier();
    table.add_times(&format!("strategy, {tier} / spawn of true"), isolated.wall, spawned.wall, Some(4.0));
    table.add_times(
        &format!("strategy, {tier}: host with 1 GB / without"),
        with_ballast.wall,
        isolated.wall,
        Some(1.25),
    );
    Ok(())
}

/// Returns the mean time of one start over `STARTS` starts.
fn mean_time(mut start: impl FnMut() -> io::Result<()>) -> io::Result<Usage> {
    let started = Instant::now();
    for _ in 0..STARTS {
        start()?;
    }
    Ok(Usage { wall: started.elapsed() / STARTS as u32, ..Usage::default() })
}
