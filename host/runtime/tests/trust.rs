//! Trust: permissions as words, and the folders that the host uses.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs::{self, Permissions as Mode};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use jp_compact_runtime::trust::grants::{Grant, add, check, grants, joined, missing};
use jp_compact_runtime::trust::{Why, insecure_folder};
use jp_compact_schema::Permissions;

#[track_caller]
fn accepts(word: &str) {
    assert_eq!(word.parse::<Grant>().unwrap().to_string(), word);
}

#[track_caller]
fn rejects(word: &str, expect: &str) {
    let error = word.parse::<Grant>().unwrap_err();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn permissions_print_as_they_parse() {
    for word in [
        "llm",
        "network",
        "subprocess",
        "env:A_1",
        "read:/etc/x",
        "runtime:python",
        "runtime:node",
        "runtime:sh",
    ] {
        accepts(word);
    }
}

#[test]
fn rejects_unknown_permissions() {
    rejects("", "expected `llm`");
    rejects("llm:x", "expected `llm`");
    rejects("env:", "the name of a variable");
    rejects("env:1A", "the name of a variable");
    rejects("env:PATH", "cannot be granted");
    rejects("env:LD_PRELOAD", "cannot be granted");
    rejects("read:etc", "an absolute path");
    rejects("runtime:perl", "`python`, `node` or `sh`");
}

#[test]
fn a_set_holds_exactly_the_added_permissions() {
    let words = "llm,subprocess,env:A,env:B,read:/r,runtime:sh";
    let all: Vec<Grant> = words.split(',').map(|word| word.parse().unwrap()).collect();
    let set = add(add(Permissions::default(), &all), &all);
    assert_eq!(joined(&grants(&set)), words);
    let subset = add(Permissions::default(), &all[..3]);
    assert_eq!(joined(&missing(&set, &subset)), "env:B,read:/r,runtime:sh");
    assert_eq!(missing(&subset, &set), []);
}

#[test]
fn permission_that_grant_cannot_name_is_rejected() {
    let read = |path: &str| Permissions { read: vec![path.to_owned()], ..Permissions::default() };
    assert_eq!(check(&read("/a b")), Ok(()));
    for path in ["/a,b", "a"] {
        let expected = format!("invalid permission `read`: `{path}` is not an absolute path without a comma");
        assert_eq!(check(&read(path)), Err(expected));
    }
}

#[test]
fn linked_folder_is_checked_in_place_of_its_link() {
    let base = tempfile::tempdir().unwrap();
    let (folder, link) = (base.path().join("folder"), base.path().join("link"));
    fs::create_dir(&folder).unwrap();
    symlink(&folder, &link).unwrap();
    for (mode, expected) in [(0o700, None), (0o777, Some((link.clone(), 0o777, Why::Others)))] {
        fs::set_permissions(&folder, Mode::from_mode(mode)).unwrap();
        let insecure = insecure_folder(&link).unwrap();
        assert_eq!(insecure.map(|insecure| (insecure.path, insecure.mode, insecure.why)), expected);
    }
}
