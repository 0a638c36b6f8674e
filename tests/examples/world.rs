//! Test fixture: the example plugins, installed as by a user, and a conversation to run one on.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;

use assert_cmd::cargo::cargo_bin;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Folders that are searched for interpreters.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The folder of one test.
pub(crate) struct World {
    base: tempfile::TempDir,
}

/// A tool call as it is sent to a model.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) arguments: Value,
    pub(crate) output: String,
}

/// Returns the source folder of a plugin.
fn source(name: &str) -> PathBuf {
    Path::new(ROOT).join("plugins").join(name)
}

/// Reports a missing program. With `JP_COMPACT_TEST_ALL` set, this is a failure.
fn report_missing(program: &str) {
    let missing = format!("{program} is missing: a test that needs it did not run");
    assert!(std::env::var_os("JP_COMPACT_TEST_ALL").is_none(), "{missing}");
    #[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
    {
        eprintln!("{missing}");
    }
}

pub(crate) fn has(program: &str) -> bool {
    let is_installed = PATH.split(':').any(|folder| Path::new(folder).join(program).is_file());
    if !is_installed {
        report_missing(program);
    }
    is_installed
}

/// Returns the path of a built example. `cargo test` builds examples only when it runs all tests, so this
/// function builds them.
pub(crate) fn example(file: &str) -> PathBuf {
    static BUILT: Once = Once::new();
    let folder = cargo_bin("jp-compact").parent().unwrap().to_owned();
    BUILT.call_once(|| {
        let release = folder.ends_with("release").then_some("--release");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(ROOT).args(["build", "--quiet", "--examples"]).args(release);
        // Cargo sets these variables for a test. The build script of a dependency depends on them: it would run again,
        // and this build and the next one would compile nearly everything again.
        let of_package = |name: &OsString| {
            let name = name.to_string_lossy();
            name == "OUT_DIR" || name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_")
        };
        for name in std::env::vars_os().map(|(name, _)| name).filter(of_package) {
            cargo.env_remove(name);
        }
        assert!(cargo.status().unwrap().success());
    });
    folder.join("examples").join(file)
}

/// An installed example: a copy of its folder, with the files that must be built.
pub(crate) struct Installed {
    base: tempfile::TempDir,
    folder: PathBuf,
}

/// The names of all examples.
pub(crate) const EXAMPLES: [&str; 6] =
    ["keep-errors", "drop-large", "dedupe", "supersede", "truncate", "drop-arguments"];

impl Installed {
    /// Returns `None` if a program that the example needs is missing.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join(name);
        let copied = Command::new("cp").arg("-r").arg(source(name)).arg(&folder).status().unwrap();
        assert!(copied.success());
        let needs: &[&str] = match name {
            "keep-errors" => &["python3"],
            "drop-large" => &["sh", "jq"],
            "supersede" => &["node"],
            "truncate" => &["cc"],
            _ => &[],
        };
        if !needs.iter().all(|program| has(program)) {
            return None;
        }
        match name {
            "dedupe" => copy(&example("dedupe"), &folder.join("dedupe")),
            "drop-arguments" => {
                let library = "libdrop_arguments.so";
                copy(&example(library), &folder.join(library));
            }
            "truncate" => build_c(&folder),
            _ => {}
        }
        Some(Self { base, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Builds a library with the command in its manifest's comment.
fn build_c(folder: &Path) {
    let manifest = fs::read_to_string(folder.join("plugin.toml")).unwrap();
    let line = manifest.split('`').nth(1).unwrap();
    let line = line.replace("-I../../schema", &format!("-I{ROOT}/schema -Wall -Wextra -Werror"));
    let mut args = line.split(' ');
    let mut compiler = Command::new(args.next().unwrap());
    assert!(compiler.args(args).current_dir(folder).status().unwrap().success());
}

/// Copies a file with `cp`. If this process wrote the file, a process that another test forks at the same time could
/// inherit the open descriptor. The file could then not be executed.
pub(crate) fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

impl World {
    /// Returns a folder with the plugin installed under its name, or `None` if a program that it needs is
    /// missing.
    pub(crate) fn with_plugin(name: &str) -> Option<Self> {
        let installed = Installed::new(name)?;
        let plugins = installed.base.path().join("plugins");
        fs::create_dir(&plugins).unwrap();
        fs::rename(installed.folder(), plugins.join(name)).unwrap();
        Some(Self { base: installed.base })
    }

    /// Runs the plugin on all turns but the last. Returns the tool calls of the resulting view.
    #[track_caller]
    pub(crate) fn compact(&self, spec: &str, conversation: &Conversation) -> Vec<ToolCall> {
        let report = self.report(spec, conversation);
        assert_eq!(report["overlays"].as_array().unwrap().len(), 1, "{report}");
        let printed = self.jp_compact(&["print", "conversation", "--compacted", "--json"]);
        let view: Vec<Value> = serde_json::from_slice(&printed.stdout).unwrap();
        calls(view.iter().map(|part| &part["event"]))
    }

    /// Runs the plugin on all turns but the last. Returns the report.
    #[track_caller]
    pub(crate) fn report(&self, spec: &str, conversation: &Conversation) -> Value {
        let folder = self.base.path().join("conversation");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("events.json"), conversation.bytes()).unwrap();
        fs::write(folder.join("base_config.json"), "{}").unwrap();
        let args = ["conversation", "--trust-dir", "plugins", "--sandbox=require", "--keep-last", "1"];
        let output = self.jp_compact(&[&args[..], &["--json", "--strategy", spec]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{spec}: {stderr}{}", String::from_utf8_lossy(&output.stdout));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn jp_compact(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(cargo_bin("jp-compact"));
        let base = self.base.path();
        command.env_clear().env("HOME", base).current_dir(base).args(arguments).output().unwrap()
    }
}

/// Writes an executable.
pub(crate) fn install(path: &Path, content: impl AsRef<[u8]>) {
    let draft = path.with_extension("draft");
    fs::write(&draft, content).unwrap();
    copy(&draft, path);
    fs::remove_file(draft).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn calls<'a>(events: impl Iterator<Item = &'a Value>) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    for event in events {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("tool_call_request") => {
                let arguments = event["arguments"].clone();
                calls.push(ToolCall { id: text("id"), arguments, output: String::new() });
            }
            Some("tool_call_response") => calls.last_mut().unwrap().output = text("content"),
            _ => {}
        }
    }
    calls
}

/// A conversation in JP's stored form.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    events: Vec<Value>,
}

impl Conversation {
    pub(crate) fn turn(&mut self, content: &str) {
        self.push(json!({"type": "turn_start"}));
        self.push(json!({"type": "chat_request", "content": content}));
        self.push(json!({"type": "chat_response", "message": format!("about {content}")}));
    }

    pub(crate) fn call(&mut self, id: &str, tool: &str, arguments: &Value, output: &str, is_error: bool) {
        self.open_call(id, tool, arguments);
        let content = STANDARD.encode(output);
        self.push(json!({"type": "tool_call_response", "id": id, "content": content, "is_error": is_error}));
    }

    /// Adds a call without a response.
    pub(crate) fn open_call(&mut self, id: &str, tool: &str, arguments: &Value) {
        let encoded = arguments.as_object().unwrap().iter();
        let encoded: serde_json::Map<_, _> = encoded
            .map(|(key, value)| (key.clone(), json!(STANDARD.encode(value.as_str().unwrap()))))
            .collect();
        self.push(json!({"type": "tool_call_request", "id": id, "name": tool, "arguments": encoded}));
    }

    pub(crate) fn push(&mut self, mut event: Value) {
        let second = self.events.len();
        event["timestamp"] = json!(format!("2026-11-20 09:{:02}:{:02}.0", second / 60, second % 60));
        self.events.push(event);
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(&self.events).unwrap();
        bytes.push(b'\n');
        bytes
    }
}
