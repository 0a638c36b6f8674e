//! Whose files are run, as StrictModes has it.

use crate::house::{House, set_mode};

#[test]
fn what_belongs_to_somebody_else_is_not_run() {
    let house = House::new();
    let plugin = house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    if std::os::unix::fs::chown(&plugin, Some(54_321), None).is_err() {
        return; // Only root gives files away; what is owned by root passes for everybody.
    }
    let stderr = house.fails(&house.compact("./plugin", &[]), 11);
    assert!(stderr.contains("(mode 0755) is owned by uid 54321, neither root nor you"), "{stderr}");
    assert!(stderr.contains("chown"), "{stderr}");
    let list = house.ok(&["strategy", "list", "--plugin-dir", "."]);
    assert!(list.lines().any(|line| line.starts_with("plugin") && line.contains("insecure")), "{list}");
}

#[test]
fn a_group_may_write_when_it_is_its_owner_s_alone() {
    let house = House::new();
    let plugin = house.strategy("plugin", "plugin");
    set_mode(&plugin, 0o775);
    // A group that is nobody's first is not private.
    if std::os::unix::fs::chown(&plugin, None, Some(54_321)).is_err() {
        return; // Only root gives files to any group.
    }
    let stderr = house.fails(&["strategy", "trust", "./plugin"], 11);
    assert!(stderr.contains("(mode 0775) can be written to by group 54321"), "{stderr}");
    assert!(stderr.contains("`chmod g-w "), "{stderr}");
}

#[test]
fn what_others_can_change_is_not_run() {
    let house = House::new();
    let plugin = house.strategy("open/in/plugin", "plugin");
    let trust = ["strategy", "trust", "./open/in/plugin"];
    let compact = house.compact("./open/in/plugin", &["--dry-run"]);
    house.ok(&trust);
    for (path, bad, good) in [
        (house.path("open"), 0o777, 0o755),
        (house.path("open/in"), 0o702, 0o700),
        (plugin.clone(), 0o757, 0o755),
    ] {
        set_mode(&path, bad);
        for words in [&trust[..], &compact] {
            let stderr = house.fails(words, 11);
            let expect = format!("{} (mode {bad:04o})", path.display());
            assert!(stderr.contains(&expect), "{stderr}");
            assert!(stderr.contains(&format!("`chmod go-w {}`", path.display())), "{stderr}");
        }
        set_mode(&path, good);
        house.ok(&compact);
    }
    set_mode(&house.path("open"), 0o1777);
    house.ok(&compact);
}

#[test]
fn trust_that_others_could_write_down_counts_for_nothing() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    let state = house.path(".local/state/jp-compact/trust");
    set_mode(&state, 0o777);
    let compact = house.compact("./plugin", &["--dry-run"]);
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains(&format!("{} (mode 0777)", state.display())), "{stderr}");
    house.ok(&house.compact("strip-tools", &["--dry-run"]));
    set_mode(&state, 0o700);
    house.ok(&compact);
}
