//! Doors: the only files that open files, start processes, read the clock, print, or contain unsafe code.

use crate::paths::names_found;
use crate::sources::{Name, Source};

/// Paths that write to a terminal.
pub(crate) const PRINTING: [&str; 10] = [
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "dbg!",
    "std::io::stdout",
    "std::io::stderr",
    "tokio::io::stdout",
    "tokio::io::stderr",
    "rmcp::transport",
];

/// The only place of the host that does one thing, for example start a process.
struct Door {
    /// The paths that do it.
    names: &'static [&'static str],
    /// The files that may name these paths.
    files: &'static [&'static str],
    /// Calls that must be in exactly one place of the host.
    once: Option<&'static [&'static str]>,
}

const DOORS: [Door; 8] = [
    Door {
        names: &[
            "std::process::Command",
            "std::os::unix::process::CommandExt",
            "tokio::process::Command",
            "rustix::runtime",
        ],
        files: &["host/runtime/src/process/child.rs"],
        once: Some(&["std::process::Command::new", "tokio::process::Command::new"]),
    },
    Door { names: RENAMES, files: &["host/store/src/rename.rs"], once: Some(RENAMES) },
    Door {
        names: FILES_OPENED,
        files: &[
            // These read small files, and transcripts. Each has its own limits.
            "host/runtime/src/small_file.rs",
            "host/store/src/open_file.rs",
            // These create files, or create or open folders.
            "host/engine/src/batch/report.rs",
            "host/conformance/src/rehearse.rs",
            "host/conformance/src/template.rs",
            "host/runtime/src/allowed_root.rs",
            "host/runtime/src/private_file.rs",
            "host/runtime/src/process/threads.rs",
            "host/store/src/folder.rs",
            "host/store/src/lock.rs",
            "host/store/src/open_folder.rs",
            // These open a new terminal, the private directory of a strategy, and the files of a plugin.
            "host/runtime/src/process/child.rs",
            "host/runtime/src/process/private_dir/tree.rs",
            "host/runtime/src/trust/tree.rs",
        ],
        once: None,
    },
    Door { names: CLOCKS, files: &["host/runtime/src/clock.rs"], once: Some(CLOCKS) },
    Door { names: ENVIRONMENT, files: &["host/runtime/src/environment.rs"], once: None },
    Door { names: NETWORK, files: &["host/llm/src/client.rs"], once: None },
    Door {
        names: &PRINTING,
        // main passes stderr to the trace of `-v`. The example is a separate program.
        files: &["host/cli/output.rs", "host/cli/main.rs", "host/runtime/examples/embed.rs"],
        once: None,
    },
    // Bytes for programs. Text for people goes through `EscapedLines`, which escapes it.
    Door { names: &["crate::output::data"], files: &RAW_OUTPUT, once: None },
];
const RAW_OUTPUT: [&str; 8] = [
    "host/cli/commands/batch/finish.rs",
    "host/cli/commands/completions.rs",
    "host/cli/commands/config/mod.rs",
    "host/cli/commands/man.rs",
    "host/cli/commands/print.rs",
    "host/cli/commands/query.rs",
    "host/cli/commands/schema.rs",
    // Candidates for a shell.
    "host/cli/main.rs",
];
const RENAMES: &[&str] = &[
    "std::fs::rename",
    "tokio::fs::rename",
    "rustix::fs::rename",
    "rustix::fs::renameat",
    "rustix::fs::renameat_with",
];
/// Calls that open a file. Another user may have replaced the file with a pipe that never ends, a link to another file,
/// or a device that fills all memory.
const FILES_OPENED: &[&str] = &[
    "rustix::fs::open",
    "rustix::fs::openat",
    "rustix::fs::openat2",
    "std::fs::File::create",
    "std::fs::File::create_new",
    "std::fs::File::open",
    "std::fs::File::options",
    "std::fs::OpenOptions",
    "std::fs::copy",
    "std::fs::read",
    "std::fs::read_to_string",
    "std::fs::write",
    "tokio::fs",
];
const CLOCKS: &[&str] = &["jiff::Timestamp::now", "jiff::Zoned::now", "std::time::SystemTime::now"];
// `reqwest::Url` is not listed, because parsing an address opens no connection.
const NETWORK: &[&str] = &["genai", "reqwest::Client", "reqwest::get", "rustls", "std::net", "tokio::net"];
const ENVIRONMENT: &[&str] = &[
    "std::env::current_dir",
    "std::env::current_exe",
    "std::env::home_dir",
    "std::env::set_current_dir",
    "std::env::temp_dir",
    "std::env::var",
    "std::env::var_os",
    "std::env::vars",
    "std::env::vars_os",
];

pub(crate) fn door_violations<'a>(sources: impl IntoIterator<Item = &'a Source>) -> Vec<String> {
    let mut violations = Vec::new();
    // The runner and the tokenizer are separate processes, so the doors of ARCHITECTURE.md do not apply to them.
    let is_separate = |file: &str| file.starts_with("host/runner/") || file.starts_with("host/tokenizer/");
    let is_host_file = |file: &str| file.starts_with("host/") && !is_separate(file);
    let host: Vec<&Source> = sources.into_iter().filter(|source| is_host_file(&source.file)).collect();
    for door in DOORS {
        let uses_door = |name: &&Name| door.names.iter().any(|path| name.is_within(path));
        for source in &host {
            if !door.files.contains(&&*source.file) {
                violations.extend(names_found(source, source.production().filter(uses_door)));
            }
        }
        if let Some(calls) = door.once {
            let is_call = |name: &&Name| !name.imported && calls.iter().any(|path| name.is_within(path));
            let count: usize = host.iter().map(|source| source.production().filter(is_call).count()).sum();
            if count != 1 {
                violations.push(format!("{} occurs {count} times in the host", calls[0]));
            }
        }
    }
    violations
}

pub(crate) fn unsafe_violations(sources: &[Source]) -> Vec<String> {
    let unsafe_sources: Vec<&Source> = sources.iter().filter(|source| source.has_unsafe).collect();
    // The C types of shared libraries, and the expansion of `export_strategy!`.
    let folders = ["host/runner/", "strategies/sdk/src/abi.rs", "strategies/sdk/src/export.rs"];
    let elsewhere =
        unsafe_sources.iter().filter(|source| !folders.iter().any(|folder| source.file.starts_with(folder)));
    let mut violations: Vec<String> =
        elsewhere.map(|source| format!("{} contains unsafe code", source.file)).collect();
    let lines: usize = unsafe_sources.iter().map(|source| source.lines).sum();
    if lines > 320 {
        violations.push(format!("files with unsafe code have {lines} lines, at most 320 are allowed"));
    }
    violations
}
