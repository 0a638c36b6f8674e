//! File modes and owners of plugins. A file that other users could change is not run. OpenSSH's `StrictModes` has
//! the same rule.

use crate::home::{Home, set_mode};

#[test]
fn file_of_another_user_is_not_run() {
    let home = Home::new();
    let plugin = home.install_strategy("plugin", "plugin");
    home.ok(&["strategy", "trust", "./plugin"]);
    if std::os::unix::fs::chown(&plugin, Some(54_321), None).is_err() {
        return; // Only root can change the owner, and files of root are accepted.
    }
    let stderr = home.fails(&home.compact("./plugin", &[]), 11);
    assert!(stderr.contains("(mode 0755) is owned by uid 54321, neither root nor you"), "{stderr}");
    assert!(stderr.contains("chown"), "{stderr}");
    let list = home.ok(&["strategy", "list", "--plugin-dir", "."]);
    assert!(list.lines().any(|line| line.starts_with("plugin") && line.contains("insecure")), "{list}");
}

#[test]
fn group_writable_file_is_rejected_unless_the_group_is_private() {
    let home = Home::new();
    let plugin = home.install_strategy("plugin", "plugin");
    set_mode(&plugin, 0o775);
    // A group is private if the owner is its only member. This group is not.
    if std::os::unix::fs::chown(&plugin, None, Some(54_321)).is_err() {
        return; // Only root can choose any group.
    }
    let stderr = home.fails(&["strategy", "trust", "./plugin"], 11);
    assert!(stderr.contains("(mode 0775) can be written to by group 54321"), "{stderr}");
    assert!(stderr.contains("`chmod g-w "), "{stderr}");
}

#[test]
fn file_that_others_can_change_is_not_run() {
    let home = Home::new();
    let plugin = home.install_strategy("open/in/plugin", "plugin");
    let trust = ["strategy", "trust", "./open/in/plugin"];
    let compact = home.compact("./open/in/plugin", &["--dry-run"]);
    home.ok(&trust);
    for (path, bad, good) in [
        (home.path("open"), 0o777, 0o755),
        (home.path("open/in"), 0o702, 0o700),
        (plugin.clone(), 0o757, 0o755),
    ] {
        set_mode(&path, bad);
        for args in [&trust[..], &compact] {
            let stderr = home.fails(args, 11);
            let expect = format!("{} (mode {bad:04o})", path.display());
            assert!(stderr.contains(&expect), "{stderr}");
            assert!(stderr.contains(&format!("`chmod go-w {}`", path.display())), "{stderr}");
        }
        set_mode(&path, good);
        home.ok(&compact);
    }
    set_mode(&home.path("open"), 0o1777);
    home.ok(&compact);
}

#[test]
fn trust_records_that_others_can_change_are_ignored() {
    let home = Home::new();
    home.install_strategy("plugin", "plugin");
    home.ok(&["strategy", "trust", "./plugin"]);
    let state = home.path(".local/state/jp-compact/trust");
    set_mode(&state, 0o777);
    let compact = home.compact("./plugin", &["--dry-run"]);
    let stderr = home.fails(&compact, 11);
    assert!(stderr.contains(&format!("{} (mode 0777)", state.display())), "{stderr}");
    home.ok(&home.compact("strip-tools", &["--dry-run"]));
    set_mode(&state, 0o700);
    home.ok(&compact);
}
