//! Search for the running processes of a test, so that a test can prove that none remains.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the `/proc/PID/stat` of each process that was started for a test whose current folder is `current_folder`.
/// Such a process has the parent folder in its environment or on its command line. Both are empty for a zombie.
pub(crate) fn running_below(current_folder: &Path) -> Vec<String> {
    let folder = current_folder.parent().unwrap().to_str().unwrap().as_bytes();
    let mentions_folder = |file: PathBuf| {
        fs::read(file).is_ok_and(|bytes| bytes.windows(folder.len()).any(|window| window == folder))
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter(|process| {
            mentions_folder(process.join("environ")) || mentions_folder(process.join("cmdline"))
        })
        .map(|process| fs::read_to_string(process.join("stat")).unwrap_or_default())
        .collect()
}
