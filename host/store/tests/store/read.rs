//! Reading of a transcript: file contents, special files, and files that change while they are read.

use std::{error::Error, fs, os::unix::fs::symlink};

use jp_compact_store::{StoreError, StoreErrorKind, read, read_in_chunks};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::world::{ID, STREAM, World};

#[test]
fn returns_the_bytes_of_the_file() {
    let world = World::new();
    assert_eq!(read(&world.place()).unwrap(), STREAM);
}

#[test]
fn empty_file_is_read_as_empty() {
    let world = World::new();
    world.in_workspace(ID, b"", 0);
    assert!(read(&world.locate(ID).unwrap()).unwrap().is_empty());
}

#[test]
fn large_file_is_read_completely() {
    let world = World::new();
    let bytes: Vec<u8> = (0..(5 << 20) + 7u32).map(|n| (n % 251) as u8).collect();
    world.in_workspace(ID, &bytes, 0);
    let place = world.locate(ID).unwrap();
    assert_eq!(read(&place).unwrap(), bytes);
    let mut chunks = Vec::new();
    let result = read_in_chunks(&place, |given| chunks.extend(given.map(<[u8]>::to_vec)));
    assert_eq!(result.unwrap(), bytes);
    assert!(chunks.len() > 1 && chunks.concat() == bytes);
    let result = read_in_chunks(&place, |given| assert!(given.next().is_some()));
    assert_eq!(result.unwrap(), bytes);
}

#[test]
fn symlink_is_followed_when_reading() {
    let world = World::new();
    let path = world.place().path().to_path_buf();
    fs::rename(&path, world.path("real.json")).unwrap();
    symlink(world.path("real.json"), &path).unwrap();
    assert_eq!(read(&world.locate(ID).unwrap()).unwrap(), STREAM);
}

#[track_caller]
fn check_not_a_file(world: &World, found: &str) {
    let error = read(&world.locate(ID).unwrap()).unwrap_err();
    assert!(matches!(error, StoreError::NotAFile { .. }), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Unreadable);
    assert!(error.to_string().contains(found), "{error}");
}

#[test]
fn folder_named_events_json_is_rejected() {
    let world = World::new();
    fs::create_dir_all(world.jp("conversations/17738399468/events.json")).unwrap();
    check_not_a_file(&world, "events.json is a folder");
}

#[test]
fn named_pipe_is_rejected_without_blocking() {
    let world = World::new();
    let folder = world.jp("conversations/17738399468");
    fs::create_dir(&folder).unwrap();
    mknodat(CWD, folder.join("events.json"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    check_not_a_file(&world, "events.json is a named pipe");
}

#[cfg(target_os = "linux")]
#[test]
fn file_larger_than_its_reported_size_is_a_growth_error() {
    // Files in /proc report size 0, so the test needs no second process that extends the file during the read.
    let error = read(&World::new().locate("/proc/self/status").unwrap()).unwrap_err();
    assert!(matches!(error, StoreError::Changed { how: "grew", .. }), "{error}");
}

#[test]
fn missing_file_error_contains_the_path_and_the_cause() {
    let world = World::new();
    let place = world.place();
    fs::remove_file(place.path()).unwrap();
    let error = read(&place).unwrap_err();
    assert_eq!(error.to_string(), format!("failed to open {}", place.path().display()));
    assert!(error.source().unwrap().to_string().contains("No such file"));
}
