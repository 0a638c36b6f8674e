//! Benchmark of `jp-compact`. It compares the cost of commands with the cost of system tools in the same run, and
//! prints the ratios as a table. A ratio that misses its target does not fail the run. Run it with `cargo bench --bench
//! ratios`, optionally with `-- --mb 100 --runs 7 --batch 2000` or `-- --only-batch`. With `-- --write FOLDER` it only
//! writes the inputs, for a profiler. Without `--bench`, as in `cargo test --all-targets`, it measures a small stream
//! with `--runs 1`, so that the code stays tested.
#![expect(clippy::print_stdout, reason = "a bench prints its measurements")]

mod batch;
mod claude_code;
mod generate;
mod measure;
mod sessions;
mod spawn;
mod table;
mod tokens;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use measure::{Usage, alternate, command, run, run_into};
use table::Table;

const JP_COMPACT: &str = env!("CARGO_BIN_EXE_jp-compact");
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/peers");
const SEED: u64 = 20_260_822;
/// The size of a typical conversation.
const SMALL_BYTES: usize = 100_000;
/// The size of the conversation that the large one is compared with, in rows that should not depend on the size.
const MIDDLE_BYTES: usize = 1_000_000;
/// The peak memory that a print of any size may need.
const PRINT_PEAK_BYTES: u64 = 64 << 20;

fn main() -> io::Result<()> {
    let arguments = Arguments::read(std::env::args().skip(1))?;
    if let Some(folder) = &arguments.write {
        generate::conversation(SEED, arguments.mb * 1_000_000, &folder.join("large"))?;
        generate::conversation(SEED, SMALL_BYTES, &folder.join("small"))?;
        claude_code::write(&folder.join("session.jsonl"), arguments.mb * 1_000_000)?;
        return batch::generate_set(&folder.join("set"), 0, arguments.batch).map(drop);
    }
    // The system's temporary folder may be in memory. Therefore use the disk of the build.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let bench = Bench { folder: folder.path().to_owned(), runs: arguments.runs };
    let size = generate::conversation(SEED, arguments.mb * 1_000_000, &bench.folder.join("large"))?;
    generate::conversation(SEED, SMALL_BYTES, &bench.folder.join("small"))?;
    println!(
        "{} bytes, {} events, {} turns; medians of {} alternating runs, and the ratio of the minimums\n",
        size.bytes, size.events, size.turns, arguments.runs
    );

    generate::conversation(SEED, MIDDLE_BYTES, &bench.folder.join("middle"))?;
    sessions::trust(&bench.folder)?;

    let mut table = Table::new();
    batch::add_rows(&mut table, &bench.folder, bench.runs, arguments.batch)?;
    if arguments.only_batch {
        println!("{table}");
        return Ok(());
    }
    bench.measure_print(&mut table, "print, no overlays", "large", 2.0)?;
    bench.measure_compaction(&mut table)?;
    bench.create_stripped()?;
    bench.measure_print(&mut table, "print, calls and reasoning stripped", "stripped", 1.8)?;
    bench.measure_command(&mut table)?;
    // All rows of peak memory must precede the rows of `spawn`, which allocate a gigabyte in this process. The peak
    // memory of a later child process would include it.
    claude_code::add_rows(&mut table, &bench.folder, bench.runs, arguments.mb * 1_000_000)?;
    spawn::add_rows(&mut table, &bench.folder, bench.runs)?;
    let [small, middle, large] = ["small", "middle", "large"].map(|name| bench.events(name));
    let streams = sessions::Streams { small: &small, middle: &middle, large: &large };
    sessions::add_rows(&mut table, &bench.folder, bench.runs, &streams)?;
    tokens::add_rows(&mut table, &bench.events("large"), bench.runs)?;
    bench.measure_peers(&mut table)?;
    println!("{table}");
    Ok(())
}

/// The parsed command line.
struct Arguments {
    mb: usize,
    runs: usize,
    /// The number of transcripts in a batch. The memory row uses ten times as many.
    batch: usize,
    only_batch: bool,
    /// The folder for the inputs, if nothing is measured.
    write: Option<PathBuf>,
}

impl Arguments {
    fn read(mut args: impl Iterator<Item = String>) -> io::Result<Self> {
        let (mut mb, mut runs, mut batch, mut write) = (None, None, None, None);
        let (mut is_bench, mut only_batch) = (false, false);
        while let Some(arg) = args.next() {
            let number = |text: Option<String>| {
                let number = text.and_then(|text| text.parse().ok()).filter(|number| *number > 0);
                number.ok_or_else(|| io::Error::other(format!("`{arg}` needs a number above 0")))
            };
            match arg.as_str() {
                "--bench" => is_bench = true,
                "--mb" => mb = Some(number(args.next())?),
                "--runs" => runs = Some(number(args.next())?),
                "--batch" => batch = Some(number(args.next())?),
                "--only-batch" => only_batch = true,
                "--write" => write = args.next().map(PathBuf::from),
                _ => {
                    let options = "`--mb N`, `--runs N`, `--batch N`, `--only-batch`, `--write FOLDER`";
                    return Err(io::Error::other(format!(
                        "unknown argument `{arg}`, expected one of {options}"
                    )));
                }
            }
        }
        let (default_mb, default_runs, default_batch) = if is_bench { (100, 7, 2000) } else { (1, 1, 20) };
        Ok(Self {
            mb: mb.unwrap_or(default_mb),
            runs: runs.unwrap_or(default_runs),
            batch: batch.unwrap_or(default_batch),
            only_batch,
            write,
        })
    }
}

struct Bench {
    /// Contains all files, and is removed at the end.
    folder: PathBuf,
    runs: usize,
}

impl Bench {
    fn events(&self, conversation: &str) -> PathBuf {
        self.folder.join(conversation).join("events.json")
    }

    fn tool(&self, name: &str) -> Command {
        command(name, &self.folder)
    }

    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<Usage> {
        run(self.tool("cp").arg(from).arg(to))
    }

    fn sync_file(&self, path: &Path) -> io::Result<Usage> {
        run(self.tool("sync").arg(path))
    }

    /// Returns `jp-compact` with one `--strategy` per name, on all turns of a conversation.
    fn compact_command(&self, conversation: &str, strategies: &[&str]) -> Command {
        let mut command = command(JP_COMPACT, &self.folder);
        command
            .args(["-q", "--keep-last", "0"])
            .args(strategies.iter().flat_map(|name| ["--strategy", name]));
        command.arg(self.folder.join(conversation));
        command
    }

    /// Copies a conversation and syncs it to disk, so that a measurement includes no earlier writes.
    fn copy_conversation(&self, from: &str, to: &str) -> io::Result<()> {
        let folder = self.folder.join(to);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        for name in ["base_config.json", "events.json"] {
            fs::copy(self.folder.join(from).join(name), folder.join(name))?;
            self.sync_file(&folder.join(name))?;
        }
        self.sync_file(&folder).map(drop)
    }

    fn measure_print(&self, table: &mut Table, row: &str, conversation: &str, target: f64) -> io::Result<()> {
        let events = self.events(conversation);
        let out = self.folder.join("out");
        let remove_output =
            |usage: io::Result<Usage>| usage.and_then(|usage| fs::remove_file(&out).map(|()| usage));
        let mut ours = || {
            let mut command = command(JP_COMPACT, &self.folder);
            command.arg("print").arg(&events).args(["--compacted", "--as", "source"]);
            remove_output(run_into(&mut command, &out))
        };
        let mut cp = || remove_output(self.copy_file(&events, &out));
        let [ours, cp] = alternate(self.runs, [&mut ours, &mut cp])?;
        table.add_times(&format!("{row}: CPU / cp"), ours.cpu, cp.cpu, Some(target));
        table.add_peak(&format!("{row}: peak / 64 MiB"), ours.peak_bytes, PRINT_PEAK_BYTES, 1.0);
        Ok(())
    }

    fn measure_compaction(&self, table: &mut Table) -> io::Result<()> {
        let events = self.events("large");
        let mut ours = || {
            self.copy_conversation("large", "copy")?;
            run(&mut self.compact_command("copy", &["strip-tools"]))
        };
        let mut cp = || {
            let copy = self.folder.join("out");
            let usage = self.copy_file(&events, &copy)? + self.sync_file(&copy)?;
            fs::remove_file(&copy)?;
            Ok(usage)
        };
        let [ours, cp] = alternate(self.runs, [&mut ours, &mut cp])?;
        let size = fs::metadata(&events)?.len();
        table.add_times("strip-tools: wall / cp and sync", ours.wall, cp.wall, Some(2.5));
        table.add_times("strip-tools: CPU / cp and sync", ours.cpu, cp.cpu, None);
        table.add_excess("strip-tools: peak beyond the file", ours.peak_bytes, size, 40.0);
        Ok(())
    }

    /// Creates the conversation `stripped`: the large one with one overlay, which two strategies share.
    fn create_stripped(&self) -> io::Result<()> {
        self.copy_conversation("large", "stripped")?;
        run(&mut self.compact_command("stripped", &["strip-tools", "strip-reasoning"]))?;
        self.sync_file(&self.events("stripped")).map(drop)
    }

    /// Measures the whole command on a small conversation, from spawn to exit.
    fn measure_command(&self, table: &mut Table) -> io::Result<()> {
        let compact = |strategies: &[&str], extra: &[&str]| {
            self.copy_conversation("small", "copy")?;
            run(self.compact_command("copy", strategies).args(extra))
        };
        let (mut baseline, mut one_strategy) =
            (|| run(&mut self.tool("true")), || compact(&["strip-tools"], &[]));
        let mut dry_run = || compact(&["strip-tools"], &["--dry-run"]);
        let mut two_strategies = || compact(&["strip-reasoning", "strip-tools"], &[]);
        let mut cp = || {
            self.copy_conversation("small", "copy")?;
            let (from, to) = (self.events("small"), self.folder.join("copy/another"));
            Ok(self.copy_file(&from, &to)? + self.sync_file(&to)?)
        };
        let sides: [measure::Side<'_>; 5] =
            [&mut baseline, &mut one_strategy, &mut dry_run, &mut two_strategies, &mut cp];
        let [baseline, one_strategy, dry_run, two_strategies, cp] = alternate(self.runs * 15, sides)?;
        table.add_times("100 KB, one strategy: wall / true", one_strategy.wall, baseline.wall, Some(6.0));
        table.add_times("100 KB, one, --dry-run: wall / true", dry_run.wall, baseline.wall, None);
        table.add_times(
            "100 KB, the two default ones: wall / true",
            two_strategies.wall,
            baseline.wall,
            None,
        );
        table.add_times("100 KB, one strategy: wall / cp and sync", one_strategy.wall, cp.wall, None);
        Ok(())
    }

    /// Measures scripts that strip the same calls. Rows of missing interpreters are marked as absent.
    fn measure_peers(&self, table: &mut Table) -> io::Result<()> {
        let (events, out) = (self.events("large"), self.folder.join("out"));
        let peers: [(&str, &[&str], &[&str]); 4] = [
            ("python3, orjson", &["python3", "-c", "import orjson"], &["python3", "strip.py", "orjson"]),
            ("python3, json", &["python3", "-c", "import json"], &["python3", "strip.py", "json"]),
            ("node", &["node", "--version"], &["node", "strip.js"]),
            ("jq", &["jq", "--version"], &["jq", "-f", "strip.jq"]),
        ];
        for (name, probe, program) in peers {
            let row = format!("print, calls and reasoning stripped: CPU / {name}");
            if run(self.tool(probe[0]).args(&probe[1..]).stderr(std::process::Stdio::null())).is_err() {
                table.add_absent(&row);
                continue;
            }
            let mut ours = || {
                let mut command = command(JP_COMPACT, &self.folder);
                command.arg("print").arg(self.events("stripped")).args(["--compacted", "--as", "source"]);
                run_into(&mut command, &out)
            };
            let mut peer = || {
                let mut command = self.tool(program[0]);
                command.current_dir(PEERS).args(&program[1..]).arg(&events);
                run_into(&mut command, &out)
            };
            let [ours, peer] = alternate(self.runs.min(3), [&mut ours, &mut peer])?;
            table.add_times(&row, ours.cpu, peer.cpu, None);
        }
        Ok(())
    }
}
