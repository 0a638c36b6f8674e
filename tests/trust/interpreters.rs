//! Trust of the programs that a plugin executes: interpreters and commands outside of the system folders.

use std::fs;
use std::path::PathBuf;

use crate::home::{Home, set_mode};
use crate::{manifest, run_suggested_command};

/// Copies a shell to a user folder.
fn copy_shell(home: &Home) -> PathBuf {
    fs::create_dir_all(home.path("own")).unwrap();
    let shell = home.path("own/shell");
    fs::copy("/bin/sh", &shell).unwrap();
    shell
}

/// Replaces a file with another program.
fn replace_file(path: &str, home: &Home) {
    let new = home.path("new");
    fs::copy("/bin/cat", &new).unwrap();
    fs::rename(new, home.path(path)).unwrap();
}

/// Checks that a plugin is trusted together with the shell that it runs, and that a change of the file
/// `changed_path` revokes the trust.
#[track_caller]
fn check(install: impl Fn(&Home), changed_path: &str) {
    let home = Home::new();
    copy_shell(&home);
    install(&home);
    let compact = home.compact("./plugin", &["--dry-run"]);
    let stderr = home.fails(&compact, 11);
    assert!(stderr.contains("; it runs ") && stderr.contains("own/shell"), "{stderr}");
    run_suggested_command(&home, &stderr);
    home.ok(&compact);
    let run_count = home.diary().len();
    assert!(run_count > 0);

    replace_file(changed_path, &home);
    let stderr = home.fails(&compact, 11);
    assert!(stderr.contains("it changed since it was trusted"), "{stderr}");
    let list = home.json(&["strategy", "list", "--json", "--plugin-dir", "."]);
    let row = list["strategies"].as_array().unwrap().iter().find(|row| row["name"] == "plugin").unwrap();
    assert_eq!(row["trust"], "changed", "{row}");
    assert_eq!(home.diary().len(), run_count);
}

/// Installs a script with this first line.
fn install_script(home: &Home, first_line: &str) {
    let first_line = first_line.replace("HOME", home.root.to_str().unwrap());
    home.install("plugin", &home.script("plugin", "").replace("#!/bin/sh", &first_line));
}

#[test]
fn interpreter_is_trusted_with_its_script() {
    check(|home| install_script(home, "#!HOME/own/shell"), "own/shell");
    check(|home| install_script(home, "#!HOME/own/shell -e"), "own/shell");
}

#[test]
fn argument_with_a_blank_is_trusted_with_its_script() {
    let install = |home: &Home| {
        home.install("own/shell x", "exec /bin/sh \"$@\"\n");
        install_script(home, "#!/bin/sh HOME/own/shell x");
    };
    check(install, "own/shell x");
}

#[test]
fn program_named_env_outside_of_the_system_is_an_interpreter() {
    let install = |home: &Home| {
        home.install(
            "own/env",
            &format!("#!{}\nexec /bin/sh \"$2\" \"$3\"\n", home.path("own/shell").display()),
        );
        install_script(home, "#!HOME/own/env sh");
    };
    check(install, "own/env");
    check(install, "own/shell");
}

#[test]
fn symlink_to_an_interpreter_is_followed() {
    let install = |home: &Home| {
        std::os::unix::fs::symlink(home.path("own/shell"), home.path("link")).unwrap();
        install_script(home, "#!HOME/link");
    };
    check(install, "own/shell");
    // A change of the link itself revokes the trust, too.
    check(install, "link");
}

#[test]
fn absolute_command_is_trusted_with_its_folder() {
    let install = |home: &Home| {
        home.install("plugin/main.sh", &home.script("plugin", ""));
        let command = format!("\"{}\", \"main.sh\"", home.path("own/shell").display());
        fs::write(home.path("plugin/plugin.toml"), manifest("plugin", &command, "runtime = \"sh\"")).unwrap();
    };
    check(install, "own/shell");
}

#[test]
fn file_in_a_command_is_trusted_with_its_folder() {
    let install = |home: &Home| {
        home.install("own/shell", &home.script("plugin", ""));
        fs::create_dir(home.path("plugin")).unwrap();
        let command = format!("\"sh\", \"{}\"", home.path("own/shell").display());
        fs::write(home.path("plugin/plugin.toml"), manifest("plugin", &command, "")).unwrap();
    };
    check(install, "own/shell");
}

#[test]
fn file_in_an_option_is_trusted_with_its_folder() {
    for option in ["--rcfile=PATH", "-rPATH", "--import=file://PATH", "A=x:PATH"] {
        let install = |home: &Home| {
            let script = home.script("plugin", "").replace("#!/bin/sh\n", "#!/bin/sh\nshift\n");
            home.install("plugin/main.sh", &script);
            let option = option.replace("PATH", home.path("own/shell").to_str().unwrap());
            let command = format!("\"./main.sh\", \"{option}\"");
            fs::write(home.path("plugin/plugin.toml"), manifest("plugin", &command, "")).unwrap();
        };
        check(install, "own/shell");
    }
}

#[test]
fn interpreter_that_others_can_change_is_rejected() {
    let home = Home::new();
    let shell = copy_shell(&home);
    install_script(&home, "#!HOME/own/shell");
    for (path, message) in [(shell, "own/shell (mode 0777)"), (home.path("own"), "own (mode 0777)")] {
        set_mode(&path, 0o777);
        for args in [vec!["strategy", "trust", "./plugin"], home.compact("./plugin", &[])] {
            let stderr = home.fails(&args, 11);
            assert!(stderr.contains(message) && stderr.contains("`chmod go-w "), "{stderr}");
        }
        set_mode(&path, 0o755);
    }
    home.ok(&["strategy", "trust", "./plugin"]);
    // The folder of a link is checked as well.
    fs::create_dir(home.path("links")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", home.path("links/sh")).unwrap();
    install_script(&home, "#!HOME/links/sh");
    set_mode(&home.path("links"), 0o777);
    let stderr = home.fails(&["strategy", "trust", "./plugin"], 11);
    assert!(stderr.contains("links (mode 0777)"), "{stderr}");
}

#[test]
fn first_line_that_cannot_be_resolved_is_rejected() {
    let home = Home::new();
    copy_shell(&home);
    for first_line in [
        "#!own/shell",
        "#!/usr/bin/env -S PATH=HOME/own shell",
        "#!/usr/bin/env -SHOME/own/shell",
        "#!/usr/bin/env HOME/own/shell x",
    ] {
        install_script(&home, first_line);
        let stderr = home.fails(&["strategy", "trust", "./plugin"], 11);
        assert!(stderr.contains("the `#!` line of "), "{stderr}");
    }
    assert_eq!(home.diary(), Vec::<Vec<String>>::new());
}

#[test]
fn trusted_folder_does_not_cover_an_interpreter_outside() {
    let home = Home::new();
    copy_shell(&home);
    install_script(&home, "#!HOME/own/shell");
    fs::create_dir(home.path("plugins")).unwrap();
    fs::rename(home.path("plugin"), home.path("plugins/plugin")).unwrap();
    let stderr = home.fails(&home.compact("plugin", &["--trust-dir", "plugins"]), 11);
    assert!(stderr.contains("; it runs "), "{stderr}");
    home.ok(&home.compact("plugin", &["--trust-dir", "plugins", "--trust-dir", "own", "--dry-run"]));
}

#[test]
fn system_interpreter_is_not_part_of_the_digest() {
    let home = Home::new();
    install_script(&home, "#!/bin/sh");
    let trusted = home.json(&["strategy", "trust", "./plugin", "--json"]);
    let sha256sum = std::process::Command::new("sha256sum").arg(home.path("plugin")).output().unwrap();
    assert!(sha256sum.stdout.starts_with(trusted["sha256"].as_str().unwrap().as_bytes()), "{trusted}");
    assert_eq!(trusted["runs"], serde_json::json!([]));
}
