//! The modes of private files, and new files that must not replace others.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jp_compact_runtime::private_file::{PRIVATE, write, write_new};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o7777)
}

#[test]
fn files_and_created_folders_are_private() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("a/b/file");
    write(&path, b"one", PRIVATE).unwrap();
    write(&path, b"two", PRIVATE).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!(
        [mode(&path), mode(&base.path().join("a/b")), mode(&base.path().join("a"))],
        [0o600, 0o700, 0o700]
    );
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn existing_file_is_not_replaced_by_a_new_one() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("a/file");
    write_new(&path, b"one", 0o644).unwrap();
    let error = write_new(&path, b"two", 0o644).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!((fs::read(&path).unwrap().as_slice(), mode(&path)), (b"one".as_slice(), 0o644));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}
