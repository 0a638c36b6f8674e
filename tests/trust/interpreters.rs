//! Trust covers what a plugin executes: an interpreter and a program outside the system's folders, however they are
//! named.

use std::fs;
use std::path::PathBuf;

use crate::house::{House, set_mode};
use crate::{manifest, obey};

/// A shell of the user's own, in a folder of its own.
fn own_shell(house: &House) -> PathBuf {
    fs::create_dir_all(house.path("own")).unwrap();
    let shell = house.path("own/shell");
    fs::copy("/bin/sh", &shell).unwrap();
    shell
}

/// Other bytes in its place: the plugin's are the same.
fn change(path: &str, house: &House) {
    let new = house.path("new");
    fs::copy("/bin/cat", &new).unwrap();
    fs::rename(new, house.path(path)).unwrap();
}

/// A plugin that names `program` in this way is trusted with it, and no longer when the file at `changes` does.
#[track_caller]
fn check(install: impl Fn(&House), changes: &str) {
    let house = House::new();
    own_shell(&house);
    install(&house);
    let compact = house.compact("./plugin", &["--dry-run"]);
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains("; it runs ") && stderr.contains("own/shell"), "{stderr}");
    obey(&house, &stderr);
    house.ok(&compact);
    let ran = house.diary().len();
    assert!(ran > 0);

    change(changes, &house);
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains("it changed since it was trusted"), "{stderr}");
    let list = house.json(&["strategy", "list", "--json", "--plugin-dir", "."]);
    let row = list["strategies"].as_array().unwrap().iter().find(|row| row["name"] == "plugin").unwrap();
    assert_eq!(row["trust"], "changed", "{row}");
    assert_eq!(house.diary().len(), ran);
}

/// A script with this instead of its first line.
fn script(house: &House, first: &str) {
    let first = first.replace("HOUSE", house.root.to_str().unwrap());
    house.install("plugin", &house.script("plugin", "").replace("#!/bin/sh", &first));
}

#[test]
fn an_interpreter_is_trusted_with_its_script() {
    check(|house| script(house, "#!HOUSE/own/shell"), "own/shell");
    check(|house| script(house, "#!HOUSE/own/shell -e"), "own/shell");
}

#[test]
fn a_program_called_env_elsewhere_is_an_interpreter_like_any_other() {
    let install = |house: &House| {
        house.install(
            "own/env",
            &format!("#!{}\nexec /bin/sh \"$2\" \"$3\"\n", house.path("own/shell").display()),
        );
        script(house, "#!HOUSE/own/env sh");
    };
    check(install, "own/env");
    check(install, "own/shell");
}

#[test]
fn a_link_to_an_interpreter_is_followed() {
    let link = |house: &House| {
        std::os::unix::fs::symlink(house.path("own/shell"), house.path("link")).unwrap();
        script(house, "#!HOUSE/link");
    };
    check(link, "own/shell");
    // The link itself may lead elsewhere.
    check(link, "link");
}

#[test]
fn an_absolute_command_is_trusted_with_its_folder() {
    let install = |house: &House| {
        house.install("plugin/main.sh", &house.script("plugin", ""));
        let command = format!("\"{}\", \"main.sh\"", house.path("own/shell").display());
        fs::write(house.path("plugin/plugin.toml"), manifest("plugin", &command, "runtime = \"sh\""))
            .unwrap();
    };
    check(install, "own/shell");
}

#[test]
fn a_file_that_a_command_names_is_trusted_with_its_folder() {
    let install = |house: &House| {
        house.install("own/shell", &house.script("plugin", ""));
        fs::create_dir(house.path("plugin")).unwrap();
        let command = format!("\"sh\", \"{}\"", house.path("own/shell").display());
        fs::write(house.path("plugin/plugin.toml"), manifest("plugin", &command, "")).unwrap();
    };
    check(install, "own/shell");
}

#[test]
fn an_interpreter_that_others_could_change_is_refused() {
    let house = House::new();
    let shell = own_shell(&house);
    script(&house, "#!HOUSE/own/shell");
    for (path, says) in [(shell, "own/shell (mode 0777)"), (house.path("own"), "own (mode 0777)")] {
        set_mode(&path, 0o777);
        for words in [vec!["strategy", "trust", "./plugin"], house.compact("./plugin", &[])] {
            let stderr = house.fails(&words, 11);
            assert!(stderr.contains(says) && stderr.contains("`chmod go-w "), "{stderr}");
        }
        set_mode(&path, 0o755);
    }
    house.ok(&["strategy", "trust", "./plugin"]);
    // The folder of a link counts as well.
    fs::create_dir(house.path("links")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", house.path("links/sh")).unwrap();
    script(&house, "#!HOUSE/links/sh");
    set_mode(&house.path("links"), 0o777);
    let stderr = house.fails(&["strategy", "trust", "./plugin"], 11);
    assert!(stderr.contains("links (mode 0777)"), "{stderr}");
}

#[test]
fn a_first_line_that_cannot_be_followed_is_refused() {
    let house = House::new();
    own_shell(&house);
    for first in ["#!own/shell", "#!/usr/bin/env -S PATH=HOUSE/own shell", "#!/usr/bin/env -SHOUSE/own/shell"]
    {
        script(&house, first);
        let stderr = house.fails(&["strategy", "trust", "./plugin"], 11);
        assert!(stderr.contains("the `#!` line of "), "{stderr}");
    }
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn a_trusted_folder_vouches_for_no_interpreter_outside_of_it() {
    let house = House::new();
    own_shell(&house);
    script(&house, "#!HOUSE/own/shell");
    fs::create_dir(house.path("plugins")).unwrap();
    fs::rename(house.path("plugin"), house.path("plugins/plugin")).unwrap();
    let stderr = house.fails(&house.compact("plugin", &["--trust-dir", "plugins"]), 11);
    assert!(stderr.contains("; it runs "), "{stderr}");
    house.ok(&house.compact("plugin", &["--trust-dir", "plugins", "--trust-dir", "own", "--dry-run"]));
}

#[test]
fn an_interpreter_of_the_system_is_no_part_of_the_digest() {
    let house = House::new();
    script(&house, "#!/bin/sh");
    let trusted = house.json(&["strategy", "trust", "./plugin", "--json"]);
    let sum = std::process::Command::new("sha256sum").arg(house.path("plugin")).output().unwrap();
    assert!(sum.stdout.starts_with(trusted["sha256"].as_str().unwrap().as_bytes()), "{trusted}");
    assert_eq!(trusted["runs"], serde_json::json!([]));
}
