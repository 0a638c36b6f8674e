//! Granting and revoking of trust: the trust command, the store, lock files, and trusted folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::home::{Home, mode, set_mode, text};
use crate::{RECORDS, STORE, install_folder, run_suggested_command};

#[test]
fn untrusted_strategy_is_exit_11_with_the_trust_command() {
    let home = Home::new();
    home.install_strategy("it's mine/plugin", "plugin");
    let compact = home.compact("./it's mine/plugin", &[]);
    let stderr = home.fails(&compact, 11);
    assert!(stderr.contains("strategy `./it's mine/plugin` is not trusted"), "{stderr}");
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());

    run_suggested_command(&home, &stderr);
    home.ok(&compact);
}

#[test]
fn trust_is_required_at_both_tiers_and_does_not_replace_a_jail() {
    let home = Home::new();
    home.install_strategy("plugin", "plugin");
    home.fails(&["conversation", "--strategy", "./plugin"], 11);
    home.fails(&["strategy", "show", "./plugin", "--sandbox=contained"], 11);
    home.ok(&["strategy", "trust", "./plugin"]);
    for feature in ["Landlock", "seccomp"] {
        let run_without_feature = |args: &[&str]| {
            let mut command =
                home.command(&[&["conversation", "--keep-last", "1", "--dry-run"], args].concat());
            let output =
                command.env(format!("JP_COMPACT_TEST_{}", feature.to_uppercase()), "0").output().unwrap();
            (output.status.code(), text(&output.stderr))
        };
        for args in [&["--strategy", "./plugin", "--sandbox=require"][..], &["--strategy", "./plugin"]] {
            let (code, stderr) = run_without_feature(args);
            assert_eq!(code, Some(11), "{stderr}");
            assert!(stderr.contains(&format!("this machine lacks {feature}")), "{stderr}");
        }
        assert_eq!(run_without_feature(&["--strategy", "./plugin", "--sandbox=contained"]).0, Some(0));
        assert_eq!(run_without_feature(&["--strategy", "strip-tools"]).0, Some(0));
        assert_eq!(run_without_feature(&["--strategy", "strip-tools", "--sandbox=require"]).0, Some(11));
    }
    home.ok(&["strategy", "show", "./plugin", "--sandbox=contained"]);
}

#[test]
fn trusted_strategy_runs_from_a_read_only_copy() {
    let home = Home::new();
    home.install_strategy("plugin", "plugin");
    home.ok(&["strategy", "trust", "./plugin"]);
    home.ok(&home.compact("./plugin", &[]));
    let copy = home.diary()[0][1].clone();
    let copy = Path::new(&copy);
    assert!(copy.starts_with(home.path(STORE)), "{}", copy.display());
    let folders = [copy.parent().unwrap(), &home.path(STORE), &home.path(RECORDS)].map(mode);
    assert_eq!((folders, mode(copy)), ([0o700; 3], 0o555));
    for record in fs::read_dir(home.path(RECORDS)).unwrap() {
        assert_eq!(mode(&record.unwrap().path()), 0o600);
    }
}

#[test]
fn same_bytes_at_another_path_are_not_trusted() {
    let home = Home::new();
    home.install_strategy("plugin", "plugin");
    home.ok(&["strategy", "trust", "./plugin"]);
    home.install_strategy("elsewhere/plugin", "plugin");
    home.fails(&home.compact("./elsewhere/plugin", &[]), 11);
    // A link resolves to the same path.
    fs::create_dir(home.path("linked")).unwrap();
    symlink(home.path("plugin"), home.path("linked/plugin")).unwrap();
    home.ok(&home.compact("./linked/plugin", &[]));
}

#[test]
fn changed_byte_revokes_trust() {
    let home = Home::new();
    let script = home.script("plugin", "");
    home.install("plugin", &script);
    home.ok(&["strategy", "trust", "./plugin"]);
    let compact = home.compact("./plugin", &["--dry-run"]);
    home.ok(&compact);
    home.install("plugin", &(script.clone() + " "));
    let stderr = home.fails(&compact, 11);
    assert!(
        stderr.contains("it changed since it was trusted") && stderr.contains("strategy trust"),
        "{stderr}"
    );
    // The same bytes are trusted again.
    home.install("plugin", &script);
    home.ok(&compact);
}

#[test]
fn changed_copy_is_replaced_before_the_run() {
    let home = Home::new();
    home.install_strategy("plugin", "plugin");
    home.ok(&["strategy", "trust", "./plugin"]);
    let compact = home.compact("./plugin", &["--dry-run"]);
    home.ok(&compact);
    let copy = home.diary()[0][1].clone();
    fs::remove_file(&copy).unwrap();
    fs::write(&copy, "#!/bin/sh\nexit 1\n").unwrap();
    set_mode(Path::new(&copy), 0o555);
    home.ok(&compact);
}

#[test]
fn untrust_revokes_trust() {
    let home = Home::new();
    let path = home.install_strategy("plugin", "plugin");
    let compact = home.compact("./plugin", &["--dry-run"]);
    for name in ["./plugin", "plugin"] {
        home.ok(&["strategy", "trust", "./plugin"]);
        home.ok(&compact);
        assert_eq!(home.json(&["strategy", "untrust", name, "--json"])["revoked"], 1);
        home.fails(&compact, 11);
        assert_eq!(fs::read_dir(home.path(STORE)).unwrap().count(), 0);
    }
    home.ok(&["strategy", "trust", "./plugin"]);
    // The file of a writer that was killed, and a folder.
    let records: Vec<_> =
        fs::read_dir(home.path(RECORDS)).unwrap().map(|entry| entry.unwrap().path()).collect();
    fs::copy(&records[0], home.path(RECORDS).join(".new-1-abcd")).unwrap();
    fs::create_dir(home.path(RECORDS).join("folder")).unwrap();
    fs::remove_file(path).unwrap();
    assert_eq!(home.json(&["strategy", "untrust", "./plugin", "--json"])["revoked"], 1);
    assert_eq!(home.json(&["strategy", "untrust", "./plugin", "--json"])["revoked"], 0);
}

#[test]
fn trust_covers_every_file_of_a_folder() {
    let home = Home::new();
    install_folder(&home, "runtime = \"sh\"");
    let compact = home.compact("./folder", &["--dry-run"]);
    let stderr = home.fails(&compact, 11);
    assert!(stderr.contains("folder\n"), "{stderr}");
    home.ok(&["strategy", "trust", "./folder"]);
    home.ok(&compact);
    let script = home.diary()[0][1].clone();
    assert!(Path::new(&script).starts_with(home.path(STORE)), "{script}");
    assert!(Path::new(&script).with_file_name("deep").join("table").is_file());

    fs::write(home.path("folder/deep/table"), "2").unwrap();
    home.fails(&compact, 11);
    fs::write(home.path("folder/deep/table"), "1").unwrap();
    home.ok(&compact);
    fs::write(home.path("folder/deep/more"), "").unwrap();
    home.fails(&compact, 11);
    fs::remove_file(home.path("folder/deep/more")).unwrap();
    symlink("/etc/passwd", home.path("folder/deep/link")).unwrap();
    let stderr = home.fails(&compact, 11);
    assert!(stderr.contains("deep/link is a symbolic link"), "{stderr}");
}

#[test]
fn lock_file_grants_trust_and_can_be_moved() {
    let home = Home::new();
    home.install_strategy("one/plugins/plugin", "plugin");
    let lock = ["--trust-lock", "one/plugins.lock"];
    home.ok(&[&["strategy", "trust", "./one/plugins/plugin"], &lock[..]].concat());
    home.fails(&home.compact("./one/plugins/plugin", &[]), 11);
    home.ok(&home.compact("./one/plugins/plugin", &[&lock[..], &["--dry-run"]].concat()));

    fs::rename(home.path("one"), home.path("two")).unwrap();
    let moved_lock = ["--trust-lock", "two/plugins.lock", "--dry-run"];
    home.ok(&home.compact("./two/plugins/plugin", &moved_lock));
    let text = fs::read_to_string(home.path("two/plugins.lock")).unwrap();
    assert!(text.contains("path = \"plugins/plugin\"") && text.contains("runtime = \"sh\""), "{text}");

    // The lock file takes precedence over the user's own records.
    home.install("two/plugins/plugin", &(home.script("plugin", "") + "\n"));
    home.ok(&["strategy", "trust", "./two/plugins/plugin"]);
    home.ok(&home.compact("./two/plugins/plugin", &["--dry-run"]));
    let stderr = home.fails(&home.compact("./two/plugins/plugin", &moved_lock), 11);
    assert!(stderr.contains("--trust-lock "), "{stderr}");
    let with_trust_dir = [&moved_lock[..], &["--trust-dir", "two/plugins"]].concat();
    home.fails(&home.compact("plugin", &with_trust_dir), 11);
    home.ok(&home.compact("plugin", &with_trust_dir[2..]));
    fs::write(home.path("two/plugins.lock"), "lock = 2").unwrap();
    home.fails(&home.compact("./two/plugins/plugin", &moved_lock), 2);
}

#[test]
fn trusted_folder_needs_no_record_but_modes_of_its_files_are_checked() {
    let home = Home::new();
    home.install_strategy("open/built/plugin", "plugin");
    set_mode(&home.path("open"), 0o777);
    set_mode(&home.path("open/built"), 0o777);
    let compact = home.compact("plugin", &["--trust-dir", "open/built", "--dry-run"]);
    home.ok(&compact);
    assert!(Path::new(&home.diary()[0][1]).starts_with(home.path(STORE)));
    home.fails(&home.compact("./open/built/plugin", &[]), 11);
    set_mode(&home.path("open/built/plugin"), 0o777);
    home.fails(&compact, 11);
    assert!(!home.path(RECORDS).exists());
}
