//! Test fixture: the hostile strategy under all of its names, and runs of it in a temporary folder.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use memchr::memmem;
use serde_json::{Value, json};

use crate::table::Tier;

/// Larger than the buffer of a pipe. A run therefore hangs if nothing reads the pipe.
const RESPONSE_BYTES: usize = 100_000;
/// A deadline that no run reaches if it ends by itself.
const LONG_DEADLINE: Duration = Duration::from_secs(300);

/// A temporary folder with conversations. Its path identifies the processes that a run starts.
pub(crate) struct World {
    temp: tempfile::TempDir,
    before: Vec<u8>,
    conversations: usize,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) elapsed: Duration,
}

/// Returns whether a compiler is installed. If not, reports that, or fails if `JP_COMPACT_TEST_ALL` is set.
pub(crate) fn has_compiler() -> bool {
    let is_installed =
        ["/usr/local/bin/cc", "/usr/bin/cc", "/bin/cc"].iter().any(|path| Path::new(path).exists());
    if !is_installed {
        let missing = "cc is missing: the hostile strategy was not run";
        assert!(std::env::var_os("JP_COMPACT_TEST_ALL").is_none(), "{missing}");
        #[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
        {
            eprintln!("{missing}");
        }
    }
    is_installed
}

/// The plugin folders: one with bare executables, and one with a folder that requests `subprocess`. Other
/// processes write the files. A file that this process had open for writing could not be executed while
/// another test forks.
pub(crate) struct Plugins {
    temp: tempfile::TempDir,
}

pub(crate) static PLUGINS: LazyLock<Plugins> = LazyLock::new(Plugins::install);

impl Plugins {
    fn install() -> Self {
        let plugins = Self { temp: tempfile::tempdir().unwrap() };
        let (bare, granted) =
            (plugins.folder(Tier::Contained), plugins.folder(Tier::Granted).join("hostile"));
        fs::create_dir_all(&bare).unwrap();
        fs::create_dir_all(&granted).unwrap();
        let hostile = bare.join("hostile");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/hostile.c");
        run_successfully(Command::new("cc").args(["-O1", source, "-o"]).arg(&hostile));
        for name in
            ["plays", "never-reads", "answers-before-reading", "hangs-in-describe", "floods-in-describe"]
        {
            run_successfully(Command::new("cp").arg(&hostile).arg(bare.join(name)));
        }
        // The ELF header of an executable for another architecture.
        let other_machine = if cfg!(target_arch = "x86_64") { 183_u8 } else { 62 };
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
        elf.extend([other_machine, 0, 1, 0, 0, 0]);
        elf.resize(120, 0);
        for (name, bytes, mode) in [
            ("without-a-shebang", &b"echo hello\n"[..], "755"),
            ("of-another-architecture", &elf, "755"),
            ("without-its-interpreter", b"#!/nowhere/interpreter\necho hello\n", "755"),
            ("without-the-run-bit", b"#!/bin/sh\necho hello\n", "644"),
        ] {
            let source_file = plugins.temp.path().join("draft");
            fs::write(&source_file, bytes).unwrap();
            run_successfully(
                Command::new("install").args(["-m", mode]).arg(&source_file).arg(bare.join(name)),
            );
        }
        run_successfully(Command::new("cp").arg(&hostile).arg(granted.join("hostile")));
        let manifest = "manifest = 1\nname = \"hostile\"\nversion = \"1.0.0\"\ndescription = \"means harm\"\n\
                        protocols = [1]\n[run]\ncommand = [\"./hostile\"]\n[permissions]\nsubprocess = true\n";
        fs::write(granted.join("plugin.toml"), manifest).unwrap();
        plugins
    }

    fn folder(&self, tier: Tier) -> PathBuf {
        self.temp.path().join(if tier == Tier::Granted { "granted" } else { "bare" })
    }
}

#[track_caller]
fn run_successfully(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

impl World {
    /// Creates a folder with this number of conversations of two turns.
    pub(crate) fn new(conversations: usize) -> Self {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("tmp")).unwrap();
        static CONVERSATION: LazyLock<Vec<u8>> = LazyLock::new(conversation);
        let world = Self { temp, before: CONVERSATION.clone(), conversations };
        for path in world.transcripts() {
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(path, &world.before).unwrap();
        }
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub(crate) fn transcripts(&self) -> Vec<PathBuf> {
        (0..self.conversations).map(|number| self.path(&format!("c{number}/events.json"))).collect()
    }

    /// Runs jp-compact on all conversations. `mode` is the name of a strategy, or a mode of the strategy `hostile`.
    #[track_caller]
    pub(crate) fn run(&self, mode: &str, tier: Tier, deadline: Duration, extra: &[&str]) -> RunOutput {
        let is_executable = PLUGINS.folder(tier).join(mode).exists();
        let spec = if is_executable { mode.to_owned() } else { format!("hostile:mode={mode}") };
        self.run_spec(&spec, tier, &PLUGINS.folder(tier), deadline, extra)
    }

    /// Runs the strategy `plays`, which writes the bytes of `reply`.
    #[track_caller]
    pub(crate) fn run_reply(&self, reply: &[u8]) -> RunOutput {
        let file = self.path("reply");
        fs::write(&file, reply).unwrap();
        let (spec, tier) = (format!("plays:path={}", file.display()), Tier::Contained);
        self.run_spec(&spec, tier, &PLUGINS.folder(tier), LONG_DEADLINE, &[])
    }

    /// Installs the strategy in the folder of this world and returns its path.
    pub(crate) fn install(&self) -> PathBuf {
        let path = self.path("plugins/hostile");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        run_successfully(Command::new("cp").arg(PLUGINS.folder(Tier::Contained).join("hostile")).arg(&path));
        path
    }

    /// Runs the strategy that `install` has installed.
    #[track_caller]
    pub(crate) fn run_own(&self, mode: &str, tier: Tier) -> RunOutput {
        let folder = self.path("plugins");
        let spec = format!("hostile:mode={mode},path={}", folder.join("hostile").display());
        self.run_spec(&spec, tier, &folder, LONG_DEADLINE, &[])
    }

    /// Runs the strategy in a jail with a permission, which the manifest in the folder of this world requests.
    #[track_caller]
    pub(crate) fn run_with_permission(&self, mode: &str, permission: &str) -> RunOutput {
        let folder = self.path("granted");
        fs::create_dir_all(folder.join("hostile")).unwrap();
        let granted = PLUGINS.folder(Tier::Granted).join("hostile");
        run_successfully(Command::new("cp").arg(granted.join("hostile")).arg(folder.join("hostile")));
        let manifest = fs::read_to_string(granted.join("plugin.toml")).unwrap();
        fs::write(folder.join("hostile/plugin.toml"), manifest.replace("subprocess", permission)).unwrap();
        self.run_spec(&format!("hostile:mode={mode}"), Tier::Granted, &folder, Duration::from_secs(30), &[])
    }

    /// Returns the output of another command for the first conversation.
    #[track_caller]
    pub(crate) fn output_of(&self, args: &[&str]) -> String {
        let mut command = Command::new(cargo_bin!("jp-compact"));
        command.env_clear().env("HOME", self.temp.path()).args(args).arg(self.path("c0"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a run without waiting for it.
    pub(crate) fn start(&self, mode: &str, tier: Tier) -> Child {
        let spec = format!("hostile:mode={mode}");
        let mut command = self.command(&spec, tier, &PLUGINS.folder(tier), LONG_DEADLINE, &[]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn command(&self, spec: &str, tier: Tier, folder: &Path, deadline: Duration, extra: &[&str]) -> Command {
        let mut command = Command::new(cargo_bin!("jp-compact"));
        command.env_clear().env("HOME", self.temp.path()).env("TMPDIR", self.path("tmp"));
        command.current_dir(self.temp.path());
        command.args(self.transcripts().iter().map(|path| path.parent().unwrap()));
        let sandbox = if tier == Tier::Contained { "--sandbox=contained" } else { "--sandbox=require" };
        command.args(["--strategy", spec, "--keep-last", "0", sandbox, "--trust-dir"]);
        command.arg(folder).arg(format!("--deadline={}s", deadline.as_secs())).args(extra);
        command
    }

    fn run_spec(
        &self,
        spec: &str,
        tier: Tier,
        folder: &Path,
        deadline: Duration,
        extra: &[&str],
    ) -> RunOutput {
        let mut command = self.command(spec, tier, folder, deadline, extra);
        let started = Instant::now();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let stderr_reader = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        let status: ExitStatus = child.wait().unwrap();
        let elapsed = started.elapsed();
        RunOutput { code: status.code(), stdout: text, stderr: stderr_reader.join().unwrap(), elapsed }
    }

    /// Returns the number of transcripts that are unchanged.
    pub(crate) fn unchanged(&self) -> usize {
        self.transcripts().iter().filter(|path| fs::read(path).unwrap() == self.before).count()
    }

    /// Returns the number of transcripts with exactly an overlay and its receipt after the old bytes.
    pub(crate) fn appended(&self) -> usize {
        let history = self.before.trim_ascii_end().strip_suffix(b"]").unwrap().trim_ascii_end();
        let old: Vec<Value> = serde_json::from_slice(&self.before).unwrap();
        let is_appended = |path: &&PathBuf| {
            let now = fs::read(path).unwrap();
            let new: Vec<Value> = serde_json::from_slice(&now).unwrap();
            let kinds: Vec<_> = new[old.len()..].iter().map(|event| event["type"].as_str()).collect();
            now.starts_with(history) && kinds == [Some("compaction"), Some("jp_compact_receipt")]
        };
        self.transcripts().iter().filter(is_appended).count()
    }

    /// Returns the running processes of this run. The path of the folder is in their environment or, before
    /// the exec, on the runner's command line. Both are empty for a zombie.
    pub(crate) fn processes(&self) -> Vec<String> {
        let folder = self.temp.path().to_str().unwrap().as_bytes();
        let mentions_folder =
            |file: PathBuf| fs::read(file).is_ok_and(|bytes| memmem::find(&bytes, folder).is_some());
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        processes
            .filter(|process| {
                mentions_folder(process.join("environ")) || mentions_folder(process.join("cmdline"))
            })
            .map(|process| fs::read_to_string(process.join("stat")).unwrap_or_default())
            .collect()
    }

    /// Returns the number of folders of the host: private directories, and folders of events.
    pub(crate) fn folders_in_temp(&self) -> usize {
        fs::read_dir(self.path("tmp")).unwrap().count()
    }
}

fn conversation() -> Vec<u8> {
    let mut events = vec![json!({"timestamp": "2026-01-01 00:00:00.0", "type": "config_delta", "delta": {}})];
    for turn in 0..2 {
        let mut event = |kind: &str, fields: Value| {
            let second = events.len();
            let mut event = json!({"timestamp": format!("2026-01-01 00:00:{second:02}.5"), "type": kind});
            event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            events.push(event);
        };
        event("turn_start", json!({}));
        event("chat_request", json!({"content": format!("question {turn}")}));
        event("tool_call_request", json!({"id": format!("t{turn}"), "name": "read", "arguments": {}}));
        let response = "QUJD".repeat(RESPONSE_BYTES / 3);
        event(
            "tool_call_response",
            json!({"id": format!("t{turn}"), "content": response, "is_error": false}),
        );
        event("chat_response", json!({"message": format!("answer {turn}")}));
    }
    let mut bytes = serde_json::to_vec_pretty(&events).unwrap();
    bytes.push(b'\n');
    bytes
}
