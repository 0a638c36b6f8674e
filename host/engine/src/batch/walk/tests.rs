//! Tests of the search on real folders.

use std::fs;
use std::path::Path;

use super::*;

/// Creates files in a temporary folder. Files named `events.json` are transcripts.
fn folder_with(files: &[&str]) -> (tempfile::TempDir, Environment) {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "[]").unwrap();
    }
    let environment = Environment::bare(folder.path());
    (folder, environment)
}

#[track_caller]
fn check(files: &[&str], paths: &[&str], expect: &[&str]) {
    let (_folder, environment) = folder_with(files);
    let paths: Vec<OsString> = paths.iter().map(OsString::from).collect();
    let found = FoundFiles::gather(&paths, None, None, &environment);
    let names: Vec<_> = (0..found.len()).map(|index| found.path(index)).collect();
    assert_eq!(names, expect.iter().map(PathBuf::from).collect::<Vec<_>>(), "{:?}", found.faults());
    assert_eq!(found.bytes(), 2 * found.len() as u64);
}

#[test]
fn finds_transcripts_in_path_order() {
    let files = ["s/b/events.json", "s/a/events.json", "s/a/b/events.json", "s/a-/events.json"];
    let sorted = ["s/a/b/events.json", "s/a/events.json", "s/a-/events.json", "s/b/events.json"];
    check(&files, &["s"], &sorted);
    check(&files, &["s/b", "s/a"], &["s/a/b/events.json", "s/a/events.json", "s/b/events.json"]);
}

#[test]
fn paths_have_the_order_of_their_components() {
    let mut paths: Vec<&Path> = Vec::new();
    for path in ["", "a", "a/b", "a/b/c", "a-/b", "a.b", "a/.b", "ab", "b", "\u{1}", "\u{e9}/a", "z/\u{1}"] {
        paths.push(Path::new(path));
    }
    for left in &paths {
        for right in &paths {
            assert_eq!(compare_paths(left, right), left.cmp(right), "{left:?} {right:?}");
        }
    }
}

#[test]
fn finds_only_transcripts_and_each_once() {
    let files = [
        "s/events.json",
        "s/events.json.bak",
        "s/.events.json.jpc-1-a",
        "s/metadata.json",
        "s/x.json.jp-compact.json",
        "s/.x.json.jp-compact",
    ];
    check(&files, &["s", "./s", "s/events.json"], &["s/events.json"]);
    check(
        &["a/.git/events.json", "a/.jp/conversations/1/events.json"],
        &["a"],
        &["a/.jp/conversations/1/events.json"],
    );
}

#[test]
fn skips_git_ignored_paths_unless_given() {
    let files = ["s/a/events.json", "s/b/events.json"];
    let (folder, environment) = folder_with(&files);
    fs::write(folder.path().join("s/.gitignore"), "b\n").unwrap();
    let count = |path: &str| FoundFiles::gather(&[path.into()], None, None, &environment).len();
    assert_eq!([count("s"), count("s/b"), count("s/b/events.json")], [1, 1, 1]);
}

#[test]
fn views_keep_the_relative_path() {
    let (_folder, environment) =
        folder_with(&["s/a/events.json", "t/a/events.json", "u/events.json", "x.json"]);
    let paths: Vec<OsString> = ["s", "t", "u", "x.json"].iter().map(OsString::from).collect();
    let found = FoundFiles::gather(&paths, Some(Path::new("out")), None, &environment);
    let relative_paths: Vec<_> = (0..found.len()).map(|index| found.relative_path(index)).collect();
    let expected = ["a/events.json", "a/events.json", "u/events.json", "x.json"];
    assert_eq!(relative_paths, expected.map(PathBuf::from));
    let has_same: Vec<_> = (0..found.len()).map(|index| found.same_view_path(index).is_some()).collect();
    assert_eq!(has_same, [false, true, false, false]);
}

#[track_caller]
fn check_pattern(text: &str, expect: Option<(&str, &str)>) {
    let split = split_pattern(Path::new(text));
    assert_eq!(split, expect.map(|(folder, pattern)| (folder.into(), pattern)));
}

#[test]
fn a_pattern_starts_at_its_first_wildcard() {
    check_pattern("a/b", None);
    check_pattern("a/*/c", Some(("a", "*/c")));
    check_pattern("*.json", Some((".", "*.json")));
    check_pattern("/x[1]/y", Some(("/", "x[1]/y")));
    check_pattern("a/b/c-{1,2}/d", Some(("a/b", "c-{1,2}/d")));
}

#[test]
fn a_missing_path_is_reported_once() {
    let (_folder, environment) = folder_with(&[]);
    let missing = ["missing".into(), "missing".into(), "".into()];
    let found = FoundFiles::gather(&missing, None, None, &environment);
    assert!(found.is_empty());
    let paths: Vec<_> = found.faults().iter().map(|fault| fault.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["", "missing"]);
}

#[test]
fn view_of_a_root_can_have_the_path_of_another_view() {
    let (_folder, environment) = folder_with(&["s/events.json", "s/s/events.json"]);
    let found = FoundFiles::gather(&["s".into()], Some(Path::new("out")), None, &environment);
    let has_same: Vec<_> = (0..found.len()).map(|index| found.same_view_path(index).is_some()).collect();
    assert_eq!(has_same, [false, true]);
}

#[test]
fn pattern_does_not_find_what_git_ignores() {
    let (folder, environment) = folder_with(&["s/a/b/events.json", "s/a/ignored/events.json"]);
    fs::write(folder.path().join("s/.gitignore"), "ignored\n").unwrap();
    for (path, expect) in
        [("s", 1), ("s/*", 1), ("s/a/*", 1), ("s/*/b", 1), ("s/c*", 0), ("s/a/ignored/*", 1)]
    {
        let found = FoundFiles::gather(&[path.into()], None, None, &environment);
        assert_eq!(found.len(), expect, "{path}");
    }
}

#[test]
fn other_file_is_found_in_any_shard() {
    let files: Vec<String> = (0..8).map(|number| format!("s/{number}/events.json")).collect();
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let (folder, environment) = folder_with(&names);
    let root = folder.path().canonicalize().unwrap();
    for shard in ["0/2", "1/2"] {
        let found = FoundFiles::gather(&["s".into()], None, shard.parse().ok(), &environment);
        assert!((1..8).contains(&found.len()));
        for file in &files {
            let is_first = found.path(0) == Path::new(file);
            assert_eq!(found.contains_other(0, &root.join(file)), !is_first, "{file} in shard {shard}");
        }
    }
}
