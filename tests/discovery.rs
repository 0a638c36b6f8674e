//! Discovery of strategies: search folders, precedence between equal names, and a listing that starts no
//! strategy.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests start processes")]

mod home;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use home::Home;
use serde_json::Value;

const USER: &str = ".local/share/jp-compact/plugins";
const WORKSPACE: &str = ".jp/compact/plugins";

/// Returns name, origin and path of each listed strategy that is not bundled.
fn list_strategies(home: &Home, args: &[&str]) -> Vec<[String; 3]> {
    let list = home.json(&[&["strategy", "list", "--json"], args].concat());
    let rows = list["strategies"].as_array().unwrap().iter();
    let name_origin_and_path = |row: &Value| {
        let path = Path::new(row["path"].as_str().unwrap());
        let path = path.strip_prefix(&home.root).unwrap_or(path);
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        [text("name"), text("origin"), path.display().to_string()]
    };
    rows.filter(|row| row["found_in"] != "bundled").map(name_origin_and_path).collect()
}

#[track_caller]
fn check_list(home: &Home, args: &[&str], expect: &[[&str; 3]]) {
    let expect: Vec<_> = expect.iter().map(|row| row.map(str::to_owned)).collect();
    assert_eq!(list_strategies(home, args), expect);
}

#[test]
fn first_strategy_in_search_order_shadows_the_others() {
    let home = Home::new();
    for folder in ["dir", "path", WORKSPACE, USER] {
        home.install_strategy(&format!("{folder}/twice"), "twice");
    }
    let mut command = home.command(&["strategy", "list", "--json", "--plugin-dir", "dir"]);
    let output = command.env("JP_COMPACT_PLUGIN_PATH", home.path("path")).output().unwrap();
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
    check_list(
        &home,
        &[],
        &[
            ["twice", "workspace", ".jp/compact/plugins/twice"],
            ["twice", "shadowed", ".local/share/jp-compact/plugins/twice"],
        ],
    );
}

#[test]
fn other_files_are_skipped_and_names_are_file_stems() {
    let home = Home::new();
    home.install_strategy("dir/keep_errors.py", "keep-errors");
    home.install("dir/libtool_dedupe.so", "");
    home.install("dir/README", "");
    home::set_mode(&home.path("dir/README"), 0o644);
    fs::create_dir(home.path("dir/empty")).unwrap();
    let expect = [
        ["keep-errors", "plugin-dir", "dir/keep_errors.py"],
        ["tool-dedupe", "plugin-dir", "dir/libtool_dedupe.so"],
    ];
    check_list(&home, &["--plugin-dir", "dir"], &expect);
}

#[test]
fn file_reached_by_two_paths_is_listed_once() {
    let home = Home::new();
    home.install_strategy("dir/once", "once");
    std::os::unix::fs::symlink(home.path("dir"), home.path("link")).unwrap();
    fs::create_dir(home.path("hard")).unwrap();
    fs::hard_link(home.path("dir/once"), home.path("hard/once")).unwrap();
    let args = ["--plugin-dir", "link", "--plugin-dir", "dir", "--plugin-dir", "hard"];
    check_list(&home, &args, &[["once", "plugin-dir", "link/once"]]);
}

#[test]
fn list_starts_no_strategy_and_marks_missing_descriptions() {
    let home = Home::new();
    home.install_strategy("dir/quiet", "quiet");
    let list = ["strategy", "list", "--plugin-dir", "dir"];
    let line = |text: String| text.lines().find(|line| line.starts_with("quiet")).unwrap().to_owned();
    let before = line(home.ok(&list));
    assert!(before.contains("untrusted") && before.contains("not described yet"), "{before}");
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());

    home.ok(&["strategy", "trust", "./dir/quiet"]);
    let after = line(home.ok(&list));
    assert!(after.contains("  trusted") && after.contains("Strips all of it"), "{after}");
    // Trusting starts the strategy in a jail, where it cannot write to the file `diary`.
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn folder_is_listed_by_its_manifest_until_it_is_described() {
    let home = Home::new();
    home.install("dir/folder/run", &home.script("folder", ""));
    let manifest = "manifest = 1\nname = \"folder\"\nversion = \"1.0.0\"\ndescription = \"By its manifest\"\n\
                    protocols = [1]\n[run]\ncommand = [\"./run\"]\n";
    fs::write(home.path("dir/folder/plugin.toml"), manifest).unwrap();
    let row = || {
        let list = home.json(&["strategy", "list", "--json", "--plugin-dir", "dir"]);
        list["strategies"].as_array().unwrap().iter().find(|row| row["name"] == "folder").unwrap().clone()
    };
    assert_eq!((&row()["description"], &row()["described"]), (&"By its manifest".into(), &false.into()));
    let list = home.ok(&["strategy", "list", "--plugin-dir", "dir"]);
    assert!(list.contains("By its manifest (its manifest; "), "{list}");
    home.ok(&home.compact("folder", &["--trust-dir", "dir", "--dry-run"]));
    assert_eq!((&row()["description"], &row()["described"]), (&"By its manifest".into(), &true.into()));
}

#[test]
fn same_bytes_are_described_once() {
    let home = Home::new();
    home.install_strategy("dir/plugin", "plugin");
    let compact = home.compact("plugin", &["--trust-dir", "dir", "--dry-run"]);
    home.ok(&compact);
    home.ok(&compact);
    home.ok(&["strategy", "show", "plugin", "--trust-dir", "dir", "--sandbox=contained"]);
    home.ok(&["strategy", "trust", "./dir/plugin"]);
    assert_eq!(home.verbs(), ["describe", "run", "run"]);
    let cache_files =
        fs::read_dir(home.path(".cache/jp-compact/descriptions")).unwrap().map(|entry| entry.unwrap().path());
    for file in cache_files {
        assert_eq!(home::mode(&file), 0o600);
        fs::write(file, "garbage").unwrap();
    }
    home.ok(&compact);
    assert_eq!(home.verbs(), ["describe", "run", "run", "describe", "run"]);
}

#[test]
fn cached_descriptions_in_a_writable_folder_are_ignored() {
    let home = Home::new();
    home.install_strategy("dir/plugin", "plugin");
    let compact = home.compact("plugin", &["--trust-dir", "dir", "--dry-run"]);
    home.ok(&compact);
    let folder = home.path(".cache/jp-compact/descriptions");
    let permissions = fs::metadata(&folder).unwrap().permissions();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    home.ok(&compact);
    assert_eq!(home.verbs(), ["describe", "run", "describe", "run"]);
    fs::set_permissions(&folder, permissions).unwrap();
    fs::rename(&folder, home.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.path("elsewhere"), &folder).unwrap();
    home.ok(&compact);
    assert_eq!(home.verbs().len(), 5, "the folder that a link names is private");
    fs::set_permissions(home.path("elsewhere"), fs::Permissions::from_mode(0o777)).unwrap();
    home.ok(&compact);
    assert_eq!(home.verbs().len(), 7, "the folder that a link names is writable");
}

#[test]
fn path_selects_the_strategy_at_that_path() {
    let home = Home::new();
    home.install_strategy("strip-all", "strip-all");
    home.ok(&["strategy", "trust", "./strip-all"]);
    let report = home.json(&home.compact("./strip-all", &["--json"]));
    assert_eq!(report["overlays"][0]["strategy"], "strip-all");
    let stderr = home.fails(&home.compact("./strip-none", &[]), 10);
    assert!(stderr.contains("failed to find a strategy at `./strip-none`"), "{stderr}");
}

#[test]
fn other_name_in_the_description_is_exit_12() {
    let home = Home::new();
    home.install_strategy("dir/plugin", "other");
    let stderr = home.fails(&home.compact("plugin", &["--trust-dir", "dir"]), 12);
    assert!(stderr.contains("it describes itself as `other`, but its file is `plugin`"), "{stderr}");
}

#[test]
fn name_of_a_bundled_strategy_is_exit_10_with_both_paths() {
    let home = Home::new();
    for path in ["dir/strip-tools", "strip_tools.sh"] {
        home.install_strategy(path, "strip-tools");
    }
    let bundled = "compact-strategy-strip-tools";
    for args in [home.compact("strip-tools", &["--plugin-dir", "dir"]), home.compact("./strip_tools.sh", &[])]
    {
        let stderr = home.fails(&args, 10);
        assert!(stderr.contains("ambiguous") && stderr.contains(bundled), "{stderr}");
        assert!(stderr.contains("dir/strip-tools") || stderr.contains("strip_tools.sh"), "{stderr}");
    }
}

#[test]
fn bundled_strategy_shadows_a_user_strategy() {
    let home = Home::new();
    home.install_strategy(&format!("{USER}/strip-tools"), "strip-tools");
    check_list(&home, &[], &[["strip-tools", "shadowed", ".local/share/jp-compact/plugins/strip-tools"]]);
    home.ok(&home.compact("strip-tools", &[]));
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn untrusted_strategy_that_hides_a_trusted_one_is_exit_10() {
    let home = Home::new();
    let trusted = home.install_strategy(&format!("{USER}/twice"), "twice");
    home.ok(&["strategy", "trust", "twice"]);
    home.ok(&home.compact("twice", &["--dry-run"]));
    let untrusted = home.install(&format!("{WORKSPACE}/twice"), &(home.script("twice", "") + "# another\n"));
    let stderr = home.fails(&home.compact("twice", &[]), 10);
    assert!(
        stderr.contains(&*trusted.to_string_lossy()) && stderr.contains(&*untrusted.to_string_lossy()),
        "{stderr}"
    );
    // Once both are trusted, the first runs.
    home.ok(&["strategy", "trust", "twice"]);
    home.ok(&home.compact("twice", &[]));
}

#[test]
fn invalid_manifest_is_exit_12_and_is_listed() {
    let home = Home::new();
    fs::create_dir_all(home.path("dir/folder")).unwrap();
    fs::write(home.path("dir/folder/plugin.toml"), "manifest = 1\nname = \"folder\"\n").unwrap();
    let stderr = home.fails(&home.compact("folder", &["--plugin-dir", "dir"]), 12);
    assert!(stderr.contains("dir/folder/plugin.toml: ") && stderr.contains("missing field"), "{stderr}");
    let list = home.ok(&["strategy", "list", "--plugin-dir", "dir"]);
    assert!(list.lines().any(|line| line.starts_with("folder") && line.contains("broken: ")), "{list}");
}

#[test]
fn missing_folder_is_exit_2_unless_it_is_in_the_environment() {
    let home = Home::new();
    home.fails(&["strategy", "list", "--plugin-dir", "nowhere"], 2);
    home.fails(&["strategy", "list", "--trust-dir", "nowhere"], 2);
    let output =
        home.command(&["strategy", "list"]).env("JP_COMPACT_PLUGIN_PATH", "/nowhere").output().unwrap();
    assert!(output.status.success());
}
