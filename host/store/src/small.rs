//! The reader of a workspace's small files, such as its configuration and its id.

use std::{io, path::Path};

use jp_compact_runtime::{environment::Environment, small_file};

/// Reads a small file of a workspace. A file in the allowed root is opened relative to it.
pub fn read_small(path: &Path, bytes_max: u64, environment: &Environment) -> io::Result<Option<Vec<u8>>> {
    let (root, folder) = (environment.allowed_root.as_ref(), path.parent().unwrap_or(path));
    match root.filter(|root| root.holds(folder)) {
        Some(root) => small_file::read_at(&|| root.open_folder(folder), path, bytes_max),
        None => small_file::read(path, bytes_max),
    }
}
