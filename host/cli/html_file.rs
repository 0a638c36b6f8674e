//! The file of an HTML page. A page has private text, so only its owner can read it. A file that is not a page is never
//! replaced, because a mistyped name could be the name of a transcript.

use std::io::ErrorKind;
use std::path::Path;

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::{private_file, small_file};

use crate::error::Report;
use crate::exit::Exit;

const MODE: u32 = 0o600;

pub(crate) fn write(file: &Path, page: &str, environment: &Environment) -> Result<(), Report> {
    let path = environment.cwd.join(file);
    if !is_replaceable(&path, page) {
        let message = format!("failed to write the page: {} exists and is not a page", file.display());
        return Err(Report::new(Exit::Usage, message, Some("choose another name for --html")));
    }
    private_file::write(&path, page.as_bytes(), MODE)
        .map_err(|error| Report::of_system(&format!("failed to write the page {}", file.display()), &error))
}

/// Returns whether the file is missing, or begins like a page.
fn is_replaceable(path: &Path, page: &str) -> bool {
    const MARK: &str = "<!DOCTYPE html>";
    debug_assert!(page.starts_with(MARK));
    match small_file::read_start(path, MARK.len() as u64) {
        Ok(start) => start == MARK.as_bytes(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}
