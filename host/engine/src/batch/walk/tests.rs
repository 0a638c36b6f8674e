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
fn only_the_rules_of_git_hide_paths() {
    let (folder, environment) = folder_with(&["s/a/events.json", "s/b/events.json"]);
    for name in ["s/.ignore", "s/.rgignore"] {
        fs::write(folder.path().join(name), "b\n").unwrap();
    }
    assert_eq!(FoundFiles::gather(&["s".into()], None, None, &environment).len(), 2);
}

#[test]
fn file_that_cannot_be_read_may_be_a_transcript() {
    let (folder, environment) = folder_with(&["s/a.jsonl", "s/b.jsonl"]);
    let files = FoundFiles::gather(&["s".into()], None, None, &environment);
    fs::remove_file(folder.path().join("s/a.jsonl")).unwrap();
    fs::write(folder.path().join("s/b.jsonl"), "{}").unwrap();
    assert_eq!(files.transcripts(&environment).collect::<Vec<_>>(), [Path::new("s/a.jsonl")]);
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

#[test]
fn views_of_event_folders_start_with_the_name_of_the_conversation() {
    let files = ["a", "b", "c"].map(|name| format!("oh/{name}/events/event-00000-aaaaaaaa-0000.json"));
    let (_folder, environment) = folder_with(&files.each_ref().map(String::as_str));
    let expected = ["a/events", "b/events", "c/events"].map(PathBuf::from);
    for paths in [&["oh"][..], &["oh/a", "oh/b/events", "oh/c"]] {
        let paths: Vec<OsString> = paths.iter().map(OsString::from).collect();
        let found = FoundFiles::gather(&paths, Some(Path::new("out")), None, &environment);
        let relative_paths: Vec<_> = (0..found.len()).map(|index| found.relative_path(index)).collect();
        assert_eq!(relative_paths, expected);
        assert_eq!(found.same_view_path(2), None);
    }
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

/// Two workspaces whose conversations are ignored by git.
#[track_caller]
fn check_ignored_workspaces(ignored: &str) {
    let (folder, environment) = folder_with(&[
        "w/p1/.jp/conversations/1/events.json",
        "w/p2/.jp/conversations/2/events.json",
        "w/p2/logs/x.jsonl",
        "w/p2/.x/y.jsonl",
    ]);
    for project in ["w/p1", "w/p2"] {
        fs::write(folder.path().join(project).join(".gitignore"), format!("{ignored}\nlogs/\n")).unwrap();
    }
    for (pattern, expect) in [
        ("w/p*", 2),
        ("w/p*/", 2),
        ("w/**", 2),
        ("w/p2*", 1),
        ("w/p*/.jp", 2),
        ("w/p*/.jp/conversations/*", 2),
        ("w/p*/.jp/conversations/1", 1),
        ("w/p*/.jp/conversations/*/events.json", 2),
        ("w/**/.jp/conversations/2*", 1),
        ("w/p1/**/.jp/*", 1),
        ("w/p1/.jp/c*", 1),
        ("w/p1/.jp/conversations/*", 1),
        ("w/p1/.jp/conversations", 1),
        ("w/p1", 1),
        ("w/p*/*.jsonl", 0),
        ("w/p*/*/x.jsonl", 0),
        ("w/p*/logs/*", 1),
        ("w/p*/logs/../logs/*", 0),
        ("w/**/../p1", 0),
        ("w/p*/*/y.jsonl", 0),
        ("w/p*/.x/y.jsonl", 1),
        ("w/{p1/.jp,p2/.jp}/*", 0),
        ("w", 0),
    ] {
        let found = FoundFiles::gather(&[pattern.into()], None, None, &environment);
        assert_eq!(found.len(), expect, "{pattern} with {ignored}");
        assert_eq!(found.faults(), []);
    }
}

#[test]
fn pattern_finds_the_ignored_conversations_that_it_names() {
    check_ignored_workspaces(".jp/");
    check_ignored_workspaces(".jp/**");
}

#[test]
fn pattern_finds_the_folders_of_events_that_match() {
    let event = |folder: &str| format!("{folder}/events/event-00000-aaaaaaaa.json");
    let events = ["s/a1", "s/a2", "s/b"].map(event);
    let (_folder, environment) = folder_with(&events.each_ref().map(String::as_str));
    for (pattern, expect) in [
        ("s", 3),
        ("s/a*", 2),
        ("s/c*", 0),
        ("s/*/events", 3),
        ("s/a*/events/*", 2),
        ("s/**/*.json", 3),
        ("s/**/*.jsonl", 0),
        ("s/b/events", 1),
        ("s/b/events/e*", 1),
        ("s/b/events/c*", 0),
    ] {
        let found = FoundFiles::gather(&[pattern.into()], None, None, &environment);
        let is_folder = |index| found.path(index).ends_with("events");
        assert_eq!((0..found.len()).filter(|index| is_folder(*index)).count(), expect, "{pattern}");
        assert_eq!(found.len(), expect, "{pattern}");
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
