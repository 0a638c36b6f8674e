//! Cost of a batch: its wall time relative to two threads that read the same files and to one process per
//! call, and its memory for ten times as many transcripts.

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::measure::{Usage, alternate, command, run};
use crate::table::Table;
use crate::{JP_COMPACT, PEERS, SEED, generate};

/// The size of each transcript, in bytes.
const BYTES: usize = 110_000;
const STRATEGIES: [&str; 3] = ["strip-reasoning", "strip-tools", "micro"];
/// Enough calls to measure the cost of one process per call.
const CALLED_TRANSCRIPTS: usize = 50;

/// Adds the rows of this module to the table. Uses `count` transcripts, and ten times as many for the memory
/// row.
pub(crate) fn rows(table: &mut Table, folder: &Path, runs: usize, count: usize) -> io::Result<()> {
    let set = folder.join("set");
    let files = generate_set(&set, 0, count)?;
    let copy = folder.join("fresh");
    let dry_run = || run(batch(folder, &set).arg("--dry-run"));
    let reported = || {
        let usage =
            run(batch(folder, &set).args(["--dry-run", "--report", "report.json"]).current_dir(folder));
        fs::remove_file(folder.join("report.json"))?;
        usage
    };
    let read = || Ok(Usage { wall: read_all(&files)?, ..Usage::default() });
    let real_run = || {
        if copy.exists() {
            fs::remove_dir_all(&copy)?;
        }
        run(command("cp", folder).arg("-r").arg(&set).arg(&copy))?;
        run(&mut command("sync", folder))?;
        run(&mut batch(folder, &copy))
    };
    let (mut dry_side, mut reported, mut read, mut real_run) = (dry_run, reported, read, real_run);
    let [dry_run_usage, reported, read, real_run] =
        alternate(runs.min(3), [&mut dry_side, &mut reported, &mut read, &mut real_run])?;
    let row = format!("batch of {count}");
    table.times(
        &format!("{row}, --dry-run: wall / two threads that read"),
        dry_run_usage.wall,
        read.wall,
        Some(10.0),
    );
    table.times(&format!("{row}, with a report: wall / the same"), reported.wall, read.wall, Some(10.0));
    table.times(
        &format!("{row}, appended and synced: wall / the same"),
        real_run.wall,
        read.wall,
        Some(100.0),
    );

    peers(table, folder, runs, &set, count)?;

    let called = count.min(CALLED_TRANSCRIPTS);
    let few_transcripts = folder.join("few");
    generate_set(&few_transcripts, 0, called)?;
    let mut one_batch = || run(batch(folder, &few_transcripts).arg("--dry-run"));
    let mut one_process_per_call = || {
        let mut usage = Usage::default();
        for number in 0..called {
            for strategy in STRATEGIES {
                let mut command_once = command(JP_COMPACT, folder);
                command_once
                    .args(["-q", "--dry-run", "--strategy", strategy])
                    .arg(few_transcripts.join(name(number)));
                usage = usage + run(&mut command_once)?;
            }
        }
        Ok(usage)
    };
    let [one_batch, one_process_per_call] =
        alternate(runs.min(3), [&mut one_batch, &mut one_process_per_call])?;
    table.times(
        &format!("batch of {called}: wall / a process for each call"),
        one_batch.wall,
        one_process_per_call.wall,
        Some(1.0 / 6.0),
    );

    generate_set(&set, count, count * 9)?;
    let mut ten_times = || run(batch(folder, &set).arg("--dry-run"));
    let [ten_times] = alternate(1, [&mut ten_times])?;
    table.peak(
        &format!("batch of {}: peak / of {count}", count * 10),
        ten_times.peak_bytes,
        dry_run_usage.peak_bytes,
        1.3,
    );
    Ok(())
}

/// Measures scripts that write the same views. Rows of missing interpreters are marked as absent.
fn peers(table: &mut Table, folder: &Path, runs: usize, set: &Path, count: usize) -> io::Result<()> {
    let peers: [(&str, [&str; 3], [&str; 2]); 2] = [
        ("python3, orjson, two processes", ["python3", "-c", "import orjson"], ["python3", "batch.py"]),
        ("node, two threads", ["node", "-e", "0"], ["node", "batch.js"]),
    ];
    let [views, theirs] = ["views", "theirs"].map(|name| folder.join(name));
    let remove_if_present = |folder: &Path| if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) };
    for (name, probe, program) in peers {
        let row = format!("batch of {count}, --out: wall / {name}");
        if run(command(probe[0], folder).args(&probe[1..]).stderr(Stdio::null())).is_err() {
            table.absent(&row);
            continue;
        }
        let mut ours = || {
            remove_if_present(&views)?;
            run(batch(folder, set).arg("--out").arg(&views))
        };
        let mut peer = || {
            remove_if_present(&theirs)?;
            run(command(program[0], folder).current_dir(PEERS).arg(program[1]).arg(set).arg(&theirs))
        };
        let [ours, peer] = alternate(runs.min(3), [&mut ours, &mut peer])?;
        table.times(&row, ours.wall, peer.wall, None);
        check_equal_views(&views, &theirs, count)?;
    }
    remove_if_present(&views)?;
    remove_if_present(&theirs)
}

/// Checks that two folders contain equal views. Otherwise a peer could win by doing less.
fn check_equal_views(ours: &Path, theirs: &Path, count: usize) -> io::Result<()> {
    let view = |folder: &Path, number| -> io::Result<serde_json::Value> {
        Ok(serde_json::from_slice(&fs::read(folder.join(name(number)).join("events.json"))?)?)
    };
    for number in 0..count {
        if view(ours, number)? != view(theirs, number)? {
            return Err(io::Error::other(format!("{}: the views differ", name(number))));
        }
    }
    Ok(())
}

fn batch(folder: &Path, set: &Path) -> std::process::Command {
    let mut command = command(JP_COMPACT, folder);
    command.args(["batch", "-q"]).args(STRATEGIES.iter().flat_map(|name| ["--strategy", name])).arg(set);
    command
}

fn name(number: usize) -> String {
    format!("{}-c", 17_738_399_468 + number)
}

/// Generates `count` conversations and returns the paths of their streams.
fn generate_set(set: &Path, first: usize, count: usize) -> io::Result<Vec<PathBuf>> {
    (first..first + count)
        .map(|number| {
            let folder = set.join(name(number));
            generate::conversation(SEED + number as u64, BYTES, &folder)?;
            Ok(folder.join("events.json"))
        })
        .collect()
}

/// Reads all files with one thread per core, each into one reused buffer. Returns the wall time.
fn read_all(files: &[PathBuf]) -> io::Result<std::time::Duration> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (started, next) = (Instant::now(), AtomicUsize::new(0));
    let read_files = || {
        let mut buffer = Vec::with_capacity(2 * BYTES);
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            buffer.clear();
            io::Read::read_to_end(&mut fs::File::open(file)?, &mut buffer)?;
        }
        io::Result::Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(read_files)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(started.elapsed())
}
