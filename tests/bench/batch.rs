//! Cost of a batch: its wall time relative to threads that only read the same files, and to one process per
//! call, and its memory for ten times as many transcripts.

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::measure::{Side, Usage, alternate, command, run};
use crate::table::Table;
use crate::{JP_COMPACT, PEERS, SEED, generate};

/// The size of each transcript, in bytes.
const BYTES: usize = 110_000;
const STRATEGIES: [&str; 3] = ["strip-reasoning", "strip-tools", "micro"];
/// The number of transcripts that are compacted with one process per call.
const TRANSCRIPTS_OF_SINGLE_CALLS: usize = 50;

/// Adds the rows of this module to the table. Uses `count` transcripts, and ten times as many for the memory
/// row.
pub(crate) fn add_rows(table: &mut Table, folder: &Path, runs: usize, count: usize) -> io::Result<()> {
    let set = folder.join("set");
    let files = generate_set(&set, 0, count)?;
    let copy = folder.join("fresh");
    let mut dry_run = || run(batch(folder, &set).arg("--dry-run"));
    let mut with_report = || {
        let usage =
            run(batch(folder, &set).args(["--dry-run", "--report", "report.json"]).current_dir(folder));
        fs::remove_file(folder.join("report.json"))?;
        usage
    };
    let mut two_threads = || Ok(Usage { wall: read_all(&files, 2)?, ..Usage::default() });
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut thread_per_core = || Ok(Usage { wall: read_all(&files, cores)?, ..Usage::default() });
    let mut real_run = || {
        if copy.exists() {
            fs::remove_dir_all(&copy)?;
        }
        run(command("cp", folder).arg("-r").arg(&set).arg(&copy))?;
        run(&mut command("sync", folder))?;
        run(&mut batch(folder, &copy))
    };
    let sides: [Side<'_>; 5] =
        [&mut dry_run, &mut with_report, &mut two_threads, &mut thread_per_core, &mut real_run];
    let [dry_run, with_report, two_threads, thread_per_core, real_run] = alternate(runs, sides)?;
    let row = format!("batch of {count}");
    let rows = [
        ("--dry-run", &dry_run, 7.0),
        ("with a report", &with_report, 8.0),
        ("appended and synced", &real_run, 40.0),
    ];
    for (name, batch, target) in rows {
        let label = format!("{row}, {name}: wall / two threads that read");
        table.add_times(&label, batch.wall, two_threads.wall, Some(target));
        let label = format!("{row}, {name}: wall / a thread per core that reads");
        table.add_times(&label, batch.wall, thread_per_core.wall, None);
    }

    add_peer_rows(table, folder, runs, &set, count)?;

    let few_count = count.min(TRANSCRIPTS_OF_SINGLE_CALLS);
    let few_transcripts = folder.join("few");
    generate_set(&few_transcripts, 0, few_count)?;
    let mut one_batch = || run(batch(folder, &few_transcripts).arg("--dry-run"));
    let mut one_process_per_call = || {
        let mut usage = Usage::default();
        for number in 0..few_count {
            for strategy in STRATEGIES {
                let mut single_call = command(JP_COMPACT, folder);
                single_call
                    .args(["-q", "--dry-run", "--strategy", strategy])
                    .arg(few_transcripts.join(folder_name(number)));
                usage = usage + run(&mut single_call)?;
            }
        }
        Ok(usage)
    };
    let [one_batch, one_process_per_call] =
        alternate(runs.min(3), [&mut one_batch, &mut one_process_per_call])?;
    table.add_times(
        &format!("batch of {few_count}: wall / a process for each call"),
        one_batch.wall,
        one_process_per_call.wall,
        Some(1.0 / 6.0),
    );

    generate_set(&set, count, count * 9)?;
    let mut ten_times = || run(batch(folder, &set).arg("--dry-run"));
    let [ten_times] = alternate(1, [&mut ten_times])?;
    table.add_peak(
        &format!("batch of {}: peak / of {count}", count * 10),
        ten_times.peak_bytes,
        dry_run.peak_bytes,
        1.3,
    );
    Ok(())
}

/// Measures scripts that write the same views. Rows of missing interpreters are marked as absent.
fn add_peer_rows(table: &mut Table, folder: &Path, runs: usize, set: &Path, count: usize) -> io::Result<()> {
    let peers: [(&str, [&str; 3], [&str; 2]); 2] = [
        ("python3, orjson, two processes", ["python3", "-c", "import orjson"], ["python3", "batch.py"]),
        ("node, two threads", ["node", "-e", "0"], ["node", "batch.js"]),
    ];
    let [our_views, peer_views] = ["views", "theirs"].map(|name| folder.join(name));
    let remove_if_present = |folder: &Path| if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) };
    for (name, probe, program) in peers {
        let row = format!("batch of {count}, --out: wall / {name}");
        if run(command(probe[0], folder).args(&probe[1..]).stderr(Stdio::null())).is_err() {
            table.add_absent(&row);
            continue;
        }
        let mut ours = || {
            remove_if_present(&our_views)?;
            run(batch(folder, set).arg("--out").arg(&our_views))
        };
        let mut peer = || {
            remove_if_present(&peer_views)?;
            run(command(program[0], folder).current_dir(PEERS).arg(program[1]).arg(set).arg(&peer_views))
        };
        let [ours, peer] = alternate(runs, [&mut ours, &mut peer])?;
        table.add_times(&row, ours.wall, peer.wall, (probe[0] == "python3").then_some(0.5));
        check_equal_views(&our_views, &peer_views, count)?;
    }
    remove_if_present(&our_views)?;
    remove_if_present(&peer_views)
}

/// Checks that two folders contain equal views. Otherwise a peer could win by doing less.
fn check_equal_views(our_views: &Path, peer_views: &Path, count: usize) -> io::Result<()> {
    let view = |folder: &Path, number| -> io::Result<serde_json::Value> {
        Ok(serde_json::from_slice(&fs::read(folder.join(folder_name(number)).join("events.json"))?)?)
    };
    for number in 0..count {
        if view(our_views, number)? != view(peer_views, number)? {
            return Err(io::Error::other(format!("{}: the views differ", folder_name(number))));
        }
    }
    Ok(())
}

fn batch(folder: &Path, set: &Path) -> std::process::Command {
    let mut command = command(JP_COMPACT, folder);
    command.args(["batch", "-q"]).args(STRATEGIES.iter().flat_map(|name| ["--strategy", name])).arg(set);
    command
}

fn folder_name(number: usize) -> String {
    format!("{}-c", 17_738_399_468 + number)
}

/// Generates `count` conversations and returns the paths of their streams.
pub(crate) fn generate_set(set: &Path, first: usize, count: usize) -> io::Result<Vec<PathBuf>> {
    (first..first + count)
        .map(|number| {
            let folder = set.join(folder_name(number));
            generate::conversation(SEED + number as u64, BYTES, &folder)?;
            Ok(folder.join("events.json"))
        })
        .collect()
}

/// Reads all files with some threads, each into one reused buffer. Returns the wall time.
fn read_all(files: &[PathBuf], thread_count: usize) -> io::Result<std::time::Duration> {
    let (started, next_index) = (Instant::now(), AtomicUsize::new(0));
    let read_files = || {
        let mut buffer = Vec::with_capacity(2 * BYTES);
        while let Some(file) = files.get(next_index.fetch_add(1, Ordering::Relaxed)) {
            buffer.clear();
            io::Read::read_to_end(&mut fs::File::open(file)?, &mut buffer)?;
        }
        io::Result::Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..thread_count).map(|_| scope.spawn(read_files)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(started.elapsed())
}
