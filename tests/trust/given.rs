//! Every way to give trust, and to lose it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::house::{House, mode, set_mode, text};
use crate::{RECORDS, STORE, folder, obey};

#[test]
fn without_a_terminal_it_is_exit_11_with_the_very_command() {
    let house = House::new();
    house.strategy("it's mine/plugin", "plugin");
    let compact = house.compact("./it's mine/plugin", &[]);
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains("strategy `./it's mine/plugin` is not trusted"), "{stderr}");
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());

    obey(&house, &stderr);
    house.ok(&compact);
}

#[test]
fn trust_is_needed_at_either_tier_and_helps_nobody_without_a_jail() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.fails(&["conversation", "--strategy", "./plugin"], 11);
    house.fails(&["strategy", "show", "./plugin", "--sandbox=contained"], 11);
    house.ok(&["strategy", "trust", "./plugin"]);
    for lacks in ["Landlock", "seccomp"] {
        let without = |words: &[&str]| {
            let mut command =
                house.command(&[&["conversation", "--keep-last", "1", "--dry-run"], words].concat());
            let output =
                command.env(format!("JP_COMPACT_TEST_{}", lacks.to_uppercase()), "0").output().unwrap();
            (output.status.code(), text(&output.stderr))
        };
        for words in [&["--strategy", "./plugin", "--sandbox=require"][..], &["--strategy", "./plugin"]] {
            let (code, stderr) = without(words);
            assert_eq!(code, Some(11), "{stderr}");
            assert!(stderr.contains(&format!("this machine lacks {lacks}")), "{stderr}");
        }
        assert_eq!(without(&["--strategy", "./plugin", "--sandbox=contained"]).0, Some(0));
        assert_eq!(without(&["--strategy", "strip-tools"]).0, Some(0));
        assert_eq!(without(&["--strategy", "strip-tools", "--sandbox=require"]).0, Some(11));
    }
    house.ok(&["strategy", "show", "./plugin", "--sandbox=contained"]);
}

#[test]
fn it_runs_from_a_copy_that_nobody_writes_to() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    house.ok(&house.compact("./plugin", &[]));
    let copy = house.diary()[0][1].clone();
    let copy = Path::new(&copy);
    assert!(copy.starts_with(house.path(STORE)), "{}", copy.display());
    let folders = [copy.parent().unwrap(), &house.path(STORE), &house.path(RECORDS)].map(mode);
    assert_eq!((folders, mode(copy)), ([0o700; 3], 0o555));
    for record in fs::read_dir(house.path(RECORDS)).unwrap() {
        assert_eq!(mode(&record.unwrap().path()), 0o600);
    }
}

#[test]
fn the_same_bytes_at_another_path_are_not_trusted() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    house.strategy("elsewhere/plugin", "plugin");
    house.fails(&house.compact("./elsewhere/plugin", &[]), 11);
    // By a link it is the same path.
    fs::create_dir(house.path("linked")).unwrap();
    symlink(house.path("plugin"), house.path("linked/plugin")).unwrap();
    house.ok(&house.compact("./linked/plugin", &[]));
}

#[test]
fn any_changed_byte_revokes() {
    let house = House::new();
    let script = house.script("plugin", "");
    house.install("plugin", &script);
    house.ok(&["strategy", "trust", "./plugin"]);
    let compact = house.compact("./plugin", &["--dry-run"]);
    house.ok(&compact);
    house.install("plugin", &(script.clone() + " "));
    let stderr = house.fails(&compact, 11);
    assert!(
        stderr.contains("it changed since it was trusted") && stderr.contains("strategy trust"),
        "{stderr}"
    );
    // What was trusted were those bytes, and they are again.
    house.install("plugin", &script);
    house.ok(&compact);
}

#[test]
fn a_copy_that_was_changed_is_not_run() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    let compact = house.compact("./plugin", &["--dry-run"]);
    house.ok(&compact);
    let copy = house.diary()[0][1].clone();
    fs::remove_file(&copy).unwrap();
    fs::write(&copy, "#!/bin/sh\nexit 1\n").unwrap();
    set_mode(Path::new(&copy), 0o555);
    house.ok(&compact);
}

#[test]
fn trust_ends_where_it_is_taken_back() {
    let house = House::new();
    let path = house.strategy("plugin", "plugin");
    let compact = house.compact("./plugin", &["--dry-run"]);
    for name in ["./plugin", "plugin"] {
        house.ok(&["strategy", "trust", "./plugin"]);
        house.ok(&compact);
        assert_eq!(house.json(&["strategy", "untrust", name, "--json"])["revoked"], 1);
        house.fails(&compact, 11);
        assert_eq!(fs::read_dir(house.path(STORE)).unwrap().count(), 0);
    }
    house.ok(&["strategy", "trust", "./plugin"]);
    fs::remove_file(path).unwrap();
    assert_eq!(house.json(&["strategy", "untrust", "./plugin", "--json"])["revoked"], 1);
    assert_eq!(house.json(&["strategy", "untrust", "./plugin", "--json"])["revoked"], 0);
}

#[test]
fn a_folder_is_trusted_whole() {
    let house = House::new();
    folder(&house, "runtime = \"sh\"");
    let compact = house.compact("./folder", &["--dry-run"]);
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains("folder\n"), "{stderr}");
    house.ok(&["strategy", "trust", "./folder"]);
    house.ok(&compact);
    let script = house.diary()[0][1].clone();
    assert!(Path::new(&script).starts_with(house.path(STORE)), "{script}");
    assert!(Path::new(&script).with_file_name("deep").join("table").is_file());

    fs::write(house.path("folder/deep/table"), "2").unwrap();
    house.fails(&compact, 11);
    fs::write(house.path("folder/deep/table"), "1").unwrap();
    house.ok(&compact);
    fs::write(house.path("folder/deep/more"), "").unwrap();
    house.fails(&compact, 11);
    fs::remove_file(house.path("folder/deep/more")).unwrap();
    symlink("/etc/passwd", house.path("folder/deep/link")).unwrap();
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains("deep/link is a symbolic link"), "{stderr}");
}

#[test]
fn a_lock_file_is_trust_that_can_be_carried_about() {
    let house = House::new();
    house.strategy("one/plugins/plugin", "plugin");
    let lock = ["--trust-lock", "one/plugins.lock"];
    house.ok(&[&["strategy", "trust", "./one/plugins/plugin"], &lock[..]].concat());
    house.fails(&house.compact("./one/plugins/plugin", &[]), 11);
    house.ok(&house.compact("./one/plugins/plugin", &[&lock[..], &["--dry-run"]].concat()));

    fs::rename(house.path("one"), house.path("two")).unwrap();
    let moved = ["--trust-lock", "two/plugins.lock", "--dry-run"];
    house.ok(&house.compact("./two/plugins/plugin", &moved));
    let text = fs::read_to_string(house.path("two/plugins.lock")).unwrap();
    assert!(text.contains("path = \"plugins/plugin\"") && text.contains("runtime = \"sh\""), "{text}");

    // The lock stands, whatever the user's own records say.
    house.install("two/plugins/plugin", &(house.script("plugin", "") + "\n"));
    house.ok(&["strategy", "trust", "./two/plugins/plugin"]);
    house.ok(&house.compact("./two/plugins/plugin", &["--dry-run"]));
    let stderr = house.fails(&house.compact("./two/plugins/plugin", &moved), 11);
    assert!(stderr.contains("--trust-lock "), "{stderr}");
    let vouched = [&moved[..], &["--trust-dir", "two/plugins"]].concat();
    house.fails(&house.compact("plugin", &vouched), 11);
    house.ok(&house.compact("plugin", &vouched[2..]));
    fs::write(house.path("two/plugins.lock"), "lock = 2").unwrap();
    house.fails(&house.compact("./two/plugins/plugin", &moved), 2);
}

#[test]
fn a_folder_that_was_vouched_for_needs_no_record_and_is_checked_inside() {
    let house = House::new();
    house.strategy("open/built/plugin", "plugin");
    set_mode(&house.path("open"), 0o777);
    set_mode(&house.path("open/built"), 0o777);
    let compact = house.compact("plugin", &["--trust-dir", "open/built", "--dry-run"]);
    house.ok(&compact);
    assert!(Path::new(&house.diary()[0][1]).starts_with(house.path(STORE)));
    house.fails(&house.compact("./open/built/plugin", &[]), 11);
    set_mode(&house.path("open/built/plugin"), 0o777);
    house.fails(&compact, 11);
    assert!(!house.path(RECORDS).exists());
}
