//! Small files: links, pipes, devices, and files that are too large.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs;
use std::io;
use std::os::unix::fs::symlink;

use jp_compact_runtime::small_file::{read, read_named, read_through_links};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Creates a folder with a file of ten bytes, a link to it, a pipe, and links to nothing and to a device.
fn folder() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    let path = |name: &str| base.path().join(name);
    fs::write(path("file"), "0123456789").unwrap();
    fs::create_dir(path("folder")).unwrap();
    for (link, to) in [("link", "file"), ("dangling", "nothing"), ("zero", "/dev/zero")] {
        symlink(to, path(link)).unwrap();
    }
    mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    base
}

fn describe(result: io::Result<Option<Vec<u8>>>) -> String {
    match result {
        Ok(None) => "nothing".into(),
        Ok(Some(bytes)) => String::from_utf8(bytes).unwrap(),
        Err(error) => error.to_string(),
    }
}

/// Reads a file from a standard location and from a location of the user, and checks both results.
#[track_caller]
fn check(name: &str, bytes_max: u64, expect: &str, expect_through_links: &str) {
    let base = folder();
    let path = base.path().join(name);
    assert_eq!(describe(read(&path, bytes_max)), expect, "without links");
    assert_eq!(describe(read_through_links(&path, bytes_max)), expect_through_links, "through links");
}

#[test]
fn reads_a_regular_file_up_to_its_limit() {
    check("file", 10, "0123456789", "0123456789");
    let too_large = "it has more than 9 bytes";
    check("file", 9, too_large, too_large);
}

#[test]
fn follows_links_only_in_locations_of_the_user() {
    check("link", 10, "it is a symbolic link, but must be a regular file", "0123456789");
    check("dangling", 10, "it is a symbolic link, but must be a regular file", "nothing");
    check("zero", 10, "it is a symbolic link, but must be a regular file", "it is a device, not a file");
}

#[test]
fn does_not_block_on_pipes_and_folders() {
    check("pipe", 10, "it is a named pipe", "it is a named pipe");
    check("folder", 10, "it is a folder", "it is a folder");
}

#[test]
fn a_missing_file_is_none() {
    check("none", 10, "nothing", "nothing");
    check("file/none", 10, "nothing", "nothing");
}

#[test]
fn limits_pipes_and_devices_that_the_user_named() {
    let base = folder();
    let path = base.path().join("pipe");
    for (bytes_max, expect) in [(10, "0123456789"), (9, "it has more than 9 bytes")] {
        let pipe = path.clone();
        let writer = std::thread::spawn(move || fs::write(pipe, "0123456789"));
        assert_eq!(describe(read_named(&path, bytes_max).map(Some)), expect);
        writer.join().unwrap().unwrap();
    }
    assert_eq!(describe(read_named(&base.path().join("link"), 10).map(Some)), "0123456789");
    assert_eq!(describe(read_named(&base.path().join("zero"), 10).map(Some)), "it has more than 10 bytes");
}
