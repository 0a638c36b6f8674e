//! Where strategies are found, which of two runs, and what a list says of them without starting any.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![expect(clippy::disallowed_methods, reason = "tests start processes")]

mod house;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use house::House;
use serde_json::Value;

const USER: &str = ".local/share/jp-compact/plugins";
const WORKSPACE: &str = ".jp/compact/plugins";

/// Name, origin, trust and path of everything that is listed and not bundled.
fn listed(house: &House, words: &[&str]) -> Vec<[String; 3]> {
    let list = house.json(&[&["strategy", "list", "--json"], words].concat());
    let row = |row: &Value| {
        let path = Path::new(row["path"].as_str().unwrap());
        let path = path.strip_prefix(&house.root).unwrap_or(path);
        [&row["name"], &row["origin"], &row["trust"]]
            .map(|value| value.as_str().unwrap().to_owned())
            .into_iter()
            .chain([path.display().to_string()])
            .collect::<Vec<_>>()
    };
    let rows = list["strategies"].as_array().unwrap().iter();
    rows.filter(|row| row["found_in"] != "bundled")
        .map(row)
        .map(|row| [row[0].clone(), row[1].clone(), row[3].clone()])
        .collect()
}

#[track_caller]
fn lists(house: &House, words: &[&str], expect: &[[&str; 3]]) {
    let expect: Vec<_> = expect.iter().map(|row| row.map(str::to_owned)).collect();
    assert_eq!(listed(house, words), expect);
}

#[test]
fn the_first_in_order_runs_and_later_ones_are_shadowed() {
    let house = House::new();
    for folder in ["dir", "path", WORKSPACE, USER] {
        house.strategy(&format!("{folder}/twice"), "twice");
    }
    let mut command = house.command(&["strategy", "list", "--json", "--plugin-dir", "dir"]);
    let output = command.env("JP_COMPACT_PLUGIN_PATH", house.path("path")).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = list["strategies"].as_array().unwrap().iter().filter(|row| row["found_in"] != "bundled");
    let rows: Vec<_> =
        rows.map(|row| (row["found_in"].as_str().unwrap(), row["origin"].as_str().unwrap())).collect();
    assert_eq!(
        rows,
        [
            ("plugin-dir", "plugin-dir"),
            ("plugin-path", "shadowed"),
            ("workspace", "shadowed"),
            ("user", "shadowed")
        ]
    );
    lists(
        &house,
        &[],
        &[
            ["twice", "workspace", ".jp/compact/plugins/twice"],
            ["twice", "shadowed", ".local/share/jp-compact/plugins/twice"],
        ],
    );
}

#[test]
fn files_that_are_no_plugins_are_skipped_and_names_are_stems() {
    let house = House::new();
    house.strategy("dir/keep_errors.py", "keep-errors");
    house.install("dir/libtool_dedupe.so", "");
    house.install("dir/README", "");
    house::set_mode(&house.path("dir/README"), 0o644);
    fs::create_dir(house.path("dir/empty")).unwrap();
    let expect = [
        ["keep-errors", "plugin-dir", "dir/keep_errors.py"],
        ["tool-dedupe", "plugin-dir", "dir/libtool_dedupe.so"],
    ];
    lists(&house, &["--plugin-dir", "dir"], &expect);
}

#[test]
fn one_file_reached_twice_is_one_plugin() {
    let house = House::new();
    house.strategy("dir/once", "once");
    std::os::unix::fs::symlink(house.path("dir"), house.path("link")).unwrap();
    fs::create_dir(house.path("hard")).unwrap();
    fs::hard_link(house.path("dir/once"), house.path("hard/once")).unwrap();
    let words = ["--plugin-dir", "link", "--plugin-dir", "dir", "--plugin-dir", "hard"];
    lists(&house, &words, &[["once", "plugin-dir", "link/once"]]);
}

#[test]
fn a_list_starts_nothing_and_says_what_is_not_described_yet() {
    let house = House::new();
    house.strategy("dir/quiet", "quiet");
    let list = ["strategy", "list", "--plugin-dir", "dir"];
    let line = |text: String| text.lines().find(|line| line.starts_with("quiet")).unwrap().to_owned();
    let before = line(house.ok(&list));
    assert!(before.contains("untrusted") && before.contains("not described yet"), "{before}");
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());

    house.ok(&["strategy", "trust", "./dir/quiet"]);
    let after = line(house.ok(&list));
    assert!(after.contains("  trusted") && after.contains("Strips all of it"), "{after}");
    // It was started to be trusted, in a jail, where it keeps no diary.
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn a_folder_is_listed_by_its_manifest_until_it_has_described_itself() {
    let house = House::new();
    house.install("dir/folder/run", &house.script("folder", ""));
    let manifest = "manifest = 1\nname = \"folder\"\nversion = \"1.0.0\"\ndescription = \"By its manifest\"\n\
                    protocols = [1]\n[run]\ncommand = [\"./run\"]\n";
    fs::write(house.path("dir/folder/plugin.toml"), manifest).unwrap();
    let row = || {
        let list = house.json(&["strategy", "list", "--json", "--plugin-dir", "dir"]);
        list["strategies"].as_array().unwrap().iter().find(|row| row["name"] == "folder").unwrap().clone()
    };
    assert_eq!((&row()["description"], &row()["described"]), (&"By its manifest".into(), &false.into()));
    let list = house.ok(&["strategy", "list", "--plugin-dir", "dir"]);
    assert!(list.contains("By its manifest (its manifest; not described yet)"), "{list}");
    house.ok(&house.compact("folder", &["--trust-dir", "dir", "--dry-run"]));
    assert_eq!((&row()["description"], &row()["described"]), (&"By its manifest".into(), &true.into()));
}

#[test]
fn the_same_bytes_describe_themselves_once() {
    let house = House::new();
    house.strategy("dir/plugin", "plugin");
    let compact = house.compact("plugin", &["--trust-dir", "dir", "--dry-run"]);
    house.ok(&compact);
    house.ok(&compact);
    house.ok(&["strategy", "show", "plugin", "--trust-dir", "dir", "--sandbox=contained"]);
    house.ok(&["strategy", "trust", "./dir/plugin"]);
    assert_eq!(house.verbs(), ["describe", "run", "run"]);
    let kept = fs::read_dir(house.path(".cache/jp-compact/descriptions"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for file in kept {
        assert_eq!(house::mode(&file), 0o600);
        fs::write(file, "garbage").unwrap();
    }
    house.ok(&compact);
    assert_eq!(house.verbs(), ["describe", "run", "run", "describe", "run"]);
}

#[test]
fn descriptions_are_believed_only_in_a_folder_that_nobody_else_can_write_to() {
    let house = House::new();
    house.strategy("dir/plugin", "plugin");
    let compact = house.compact("plugin", &["--trust-dir", "dir", "--dry-run"]);
    house.ok(&compact);
    let folder = house.path(".cache/jp-compact/descriptions");
    let own = fs::metadata(&folder).unwrap().permissions();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    house.ok(&compact);
    assert_eq!(house.verbs(), ["describe", "run", "describe", "run"]);
    fs::set_permissions(&folder, own).unwrap();
    fs::rename(&folder, house.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(house.path("elsewhere"), &folder).unwrap();
    house.ok(&compact);
    assert_eq!(house.verbs().len(), 6, "a link is not a folder that the user owns");
    fs::remove_file(&folder).unwrap();
    fs::rename(house.path("elsewhere"), &folder).unwrap();
    house.ok(&compact);
    assert_eq!(house.verbs().len(), 7);
}

#[test]
fn a_path_runs_what_lies_there() {
    let house = House::new();
    house.strategy("strip-all", "strip-all");
    house.ok(&["strategy", "trust", "./strip-all"]);
    let report = house.json(&house.compact("./strip-all", &["--json"]));
    assert_eq!(report["overlays"][0]["strategy"], "strip-all");
    let stderr = house.fails(&house.compact("./strip-none", &[]), 10);
    assert!(stderr.contains("there is no strategy at `./strip-none`"), "{stderr}");
}

#[test]
fn another_name_in_the_description_is_exit_12() {
    let house = House::new();
    house.strategy("dir/plugin", "other");
    let stderr = house.fails(&house.compact("plugin", &["--trust-dir", "dir"]), 12);
    assert!(stderr.contains("it calls itself `other`, and its file is `plugin`"), "{stderr}");
}

#[test]
fn a_bundled_name_that_is_taken_is_exit_10_with_both_paths() {
    let house = House::new();
    for place in ["dir/strip-tools", "strip_tools.sh"] {
        house.strategy(place, "strip-tools");
    }
    let bundled = "compact-strategy-strip-tools";
    for words in
        [house.compact("strip-tools", &["--plugin-dir", "dir"]), house.compact("./strip_tools.sh", &[])]
    {
        let stderr = house.fails(&words, 10);
        assert!(stderr.contains("ambiguous") && stderr.contains(bundled), "{stderr}");
        assert!(stderr.contains("dir/strip-tools") || stderr.contains("strip_tools.sh"), "{stderr}");
    }
}

#[test]
fn behind_the_bundled_a_taken_name_is_shadowed() {
    let house = House::new();
    house.strategy(&format!("{USER}/strip-tools"), "strip-tools");
    lists(&house, &[], &[["strip-tools", "shadowed", ".local/share/jp-compact/plugins/strip-tools"]]);
    house.ok(&house.compact("strip-tools", &[]));
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn an_untrusted_plugin_that_hides_a_trusted_one_is_exit_10_with_both_paths() {
    let house = House::new();
    let trusted = house.strategy(&format!("{USER}/twice"), "twice");
    house.ok(&["strategy", "trust", "twice"]);
    house.ok(&house.compact("twice", &["--dry-run"]));
    let hiding = house.install(&format!("{WORKSPACE}/twice"), &(house.script("twice", "") + "# another\n"));
    let stderr = house.fails(&house.compact("twice", &[]), 10);
    assert!(
        stderr.contains(&*trusted.to_string_lossy()) && stderr.contains(&*hiding.to_string_lossy()),
        "{stderr}"
    );
    // Once both are trusted, the first runs.
    house.ok(&["strategy", "trust", "twice"]);
    house.ok(&house.compact("twice", &[]));
}

#[test]
fn a_manifest_that_cannot_be_read_is_exit_12_and_listed() {
    let house = House::new();
    fs::create_dir_all(house.path("dir/folder")).unwrap();
    fs::write(house.path("dir/folder/plugin.toml"), "manifest = 1\nname = \"folder\"\n").unwrap();
    let stderr = house.fails(&house.compact("folder", &["--plugin-dir", "dir"]), 12);
    assert!(stderr.contains("dir/folder/plugin.toml: ") && stderr.contains("missing field"), "{stderr}");
    let list = house.ok(&["strategy", "list", "--plugin-dir", "dir"]);
    assert!(list.lines().any(|line| line.starts_with("folder") && line.contains("broken: ")), "{list}");
}

#[test]
fn a_folder_that_was_named_and_is_not_there_is_exit_2_and_any_other_is_nothing() {
    let house = House::new();
    house.fails(&["strategy", "list", "--plugin-dir", "nowhere"], 2);
    house.fails(&["strategy", "list", "--trust-dir", "nowhere"], 2);
    let output =
        house.command(&["strategy", "list"]).env("JP_COMPACT_PLUGIN_PATH", "/nowhere").output().unwrap();
    assert!(output.status.success());
}
