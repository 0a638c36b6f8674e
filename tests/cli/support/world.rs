//! An isolated environment for one test: a home, a current folder and a temporary folder. The executable runs in them,
//! with only the environment variables `HOME`, `TMPDIR`, and `TZ`.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::RwLock;

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::conversation::Conversation;
use super::plugin::plugin_script;
use super::transcript::{Transcript, file_names};

/// Prevents process starts while a script is being written. A child that another thread starts at that moment inherits
/// the file open for writing, and the kernel does not execute a file that is open for writing (`ETXTBSY`).
static WRITING_SCRIPTS: RwLock<()> = RwLock::new(());

/// The isolated environment of a test.
pub(crate) struct World {
    _temp: TempDir,
    root: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for folder in ["home", "here", "tmp"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        Self { _temp: temp, root }
    }

    /// Returns a path in the current folder of the executable.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join("here").join(name)
    }

    /// Returns a path in the home folder.
    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.root.join("home").join(name)
    }

    /// Writes a file, and creates its parent folders.
    pub(crate) fn write_file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes the folder of a conversation.
    pub(crate) fn write_conversation(&self, folder: &str, conversation: &Conversation) -> Transcript {
        self.write_events(folder, &conversation.bytes())
    }

    /// Writes the folder of a conversation with these bytes as its events.
    pub(crate) fn write_events(&self, folder: &str, bytes: &[u8]) -> Transcript {
        self.write_file(&format!("{folder}/base_config.json"), b"{}\n");
        Transcript::capture(self.write_file(&format!("{folder}/events.json"), bytes))
    }

    /// Writes an executable file.
    pub(crate) fn write_script(&self, name: &str, text: &str) -> PathBuf {
        self.write_program(name, text.as_bytes())
    }

    /// Same as [`Self::write_script`], for a program that need not be text.
    pub(crate) fn write_program(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let _exclusive = WRITING_SCRIPTS.write().unwrap();
        let path = self.write_file(name, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Writes a strategy to `plugins/` that runs these lines for each request.
    pub(crate) fn write_plugin(&self, name: &str, run: &str) -> PathBuf {
        self.write_script(&format!("plugins/{name}"), &plugin_script(name, &json!({}), run))
    }

    /// Returns a command that starts the executable in this environment.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(cargo_bin!("jp-compact"));
        self.isolate(&mut command).args(arguments);
        command
    }

    /// Sets the folders and pipes of a command, and clears its environment.
    pub(crate) fn isolate<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env_clear()
            .env("HOME", self.root.join("home"))
            .env("TMPDIR", self.root.join("tmp"))
            .env("TZ", "UTC0")
            .current_dir(self.root.join("here"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> Child {
        let _shared = WRITING_SCRIPTS.read().unwrap();
        command.spawn().unwrap()
    }

    /// Runs a command to its end. It must leave no temporary files.
    #[track_caller]
    pub(crate) fn finish(&self, command: &mut Command) -> CommandOutput {
        let output = self.spawn(command).wait_with_output().unwrap();
        self.assert_no_temp_files();
        CommandOutput::new(self, output)
    }

    #[track_caller]
    pub(crate) fn assert_no_temp_files(&self) {
        assert_eq!(
            file_names(&self.root.join("tmp")),
            Vec::<String>::new(),
            "files were left in the temporary folder"
        );
    }

    #[track_caller]
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> CommandOutput {
        self.finish(&mut self.command(arguments))
    }

    /// Compacts `conversation` with one strategy of `plugins/`.
    #[track_caller]
    pub(crate) fn run_plugin(&self, name: &str, extra: &[&str]) -> CommandOutput {
        let options =
            ["--strategy", name, "--trust-dir", "plugins", "--sandbox=contained", "--keep-last", "0"];
        let arguments: Vec<_> = ["conversation"].iter().chain(&options).chain(extra).collect();
        self.run(&arguments)
    }

    /// Runs the executable with these bytes on stdin.
    #[track_caller]
    pub(crate) fn run_with_stdin(&self, arguments: &[&str], stdin: &[u8]) -> CommandOutput {
        let mut child = self.spawn(self.command(arguments).stdin(Stdio::piped()));
        // The command may exit before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        CommandOutput::new(self, child.wait_with_output().unwrap())
    }

    /// Replaces the paths and the version in a text, because they differ from run to run.
    pub(crate) fn normalize(&self, text: &str) -> String {
        let bin = cargo_bin!("jp-compact").canonicalize().unwrap();
        let mut text = text.replace(self.root.to_str().unwrap(), "");
        text = text.replace(bin.parent().unwrap().to_str().unwrap(), "[bin]");
        text.replace(env!("CARGO_PKG_VERSION"), "[version]")
    }
}

/// The exit code and the output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    /// Normalized by `World::normalize`.
    pub(crate) stderr: String,
}

impl CommandOutput {
    #[track_caller]
    pub(crate) fn new(world: &World, output: Output) -> Self {
        let stderr = world.normalize(&String::from_utf8(output.stderr).unwrap());
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        self
    }

    /// Asserts that stderr contains this text.
    #[track_caller]
    pub(crate) fn reports(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "`{part}` is not in:\n{}", self.stderr);
        self
    }

    /// Returns stdout.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Parses stdout as lines of JSON.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Parses stdout as one line of JSON.
    #[track_caller]
    pub(crate) fn line(&self) -> Value {
        let lines = self.lines();
        assert_eq!(lines.len(), 1, "{}", self.text());
        lines.into_iter().next().unwrap()
    }
}

/// Returns whether file permissions do not apply to this process.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
