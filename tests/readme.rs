//! The README says what is so: its lines run, its tables are the executable's, its strategy works.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and runs what users run"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn readme() -> String {
    fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap()
}

/// The fenced block that stands behind a mark.
fn block(mark: &str) -> String {
    let readme = readme();
    let (_, behind) = readme.split_once(&format!("<!-- {mark} -->\n```")).unwrap();
    let (_, block) = behind.split_once('\n').unwrap();
    block.split_once("\n```").unwrap().0.to_owned() + "\n"
}

/// The first two columns of the table that stands under a heading, code marks removed.
fn table(heading: &str) -> Vec<(String, String)> {
    let readme = readme();
    let section = readme.split_once(&format!("\n## {heading}\n")).unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', ""));
        (cells.next().unwrap(), cells.next().unwrap())
    })
    .collect()
}

fn jp_compact(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("jp-compact"));
    command.env_clear().env("HOME", folder).current_dir(folder).args(arguments).output().unwrap()
}

/// A text on one line.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_first_line_prints_what_the_readme_shows() {
    let folder = tempfile::tempdir().unwrap();
    let line = block("run");
    let mut commands = line.trim().split(" && ");
    assert_eq!(commands.next(), Some("cargo build --release"), "it builds every executable first");
    assert_eq!(commands.next(), Some("cp -r tests/sample target/"));
    let target = folder.path().join("target/sample");
    fs::create_dir_all(&target).unwrap();
    for file in ["events.json", "base_config.json", "metadata.json"] {
        fs::copy(Path::new(ROOT).join("tests/sample").join(file), target.join(file)).unwrap();
    }
    let mut shown = String::new();
    for command in commands {
        let arguments: Vec<_> = command.split(' ').collect();
        assert_eq!(arguments[0], "target/release/jp-compact");
        let output = jp_compact(folder.path(), &arguments[1..]);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        shown += &(text(&output.stderr) + &text(&output.stdout));
    }
    let expected = block("output");
    let expected = expected.strip_suffix("...\n").unwrap();
    assert!(shown.starts_with(expected), "the README shows\n{expected}\nand it is\n{shown}");
}

#[test]
fn the_test_line_is_the_one_that_ci_runs() {
    let ci = fs::read_to_string(Path::new(ROOT).join(".ci/run")).unwrap();
    assert!(ci.contains("run \"$(line test)\"") && ci.contains("run \"$(line run)\""));
    assert!(block("test").starts_with("cargo test"));
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let help = text(&jp_compact(Path::new("/"), &["--help"]).stdout);
    let codes = help.split_once("Exit codes:\n").unwrap().1;
    let codes: Vec<_> = codes
        .lines()
        .filter_map(|line| line.trim().split_once("  "))
        .map(|(code, what)| (code.to_owned(), what.to_owned()))
        .collect();
    let readme = readme();
    let told = readme.split_once("\n## Exit codes\n").unwrap().1.split("\n## ").next().unwrap();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let told: Vec<_> = told
        .split(" · ")
        .filter_map(|code| code.strip_prefix('`')?.split_once("` "))
        .map(|(code, what)| (code.to_owned(), what.to_owned()))
        .collect();
    assert_eq!(told, codes);
}

#[test]
fn the_commands_are_those_of_the_help() {
    let help = text(&jp_compact(Path::new("/"), &["-h"]).stdout);
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let mut commands: Vec<_> = commands
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    commands.insert(0, "TRANSCRIPT...");
    let told: Vec<_> = table("Commands")
        .iter()
        .map(|(command, _)| command.split_whitespace().nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(told, commands);
}

#[test]
fn what_proves_a_design_is_there_and_the_formats_are_those_that_are_read() {
    let readme = readme();
    let links: Vec<_> = readme.split("](").skip(1).filter_map(|link| link.split(')').next()).collect();
    for link in links.iter().filter(|link| !link.contains("://")) {
        assert!(Path::new(ROOT).join(link).exists(), "{link}");
    }
    assert!(links.iter().filter(|link| link.starts_with("tests/cli/")).count() >= 5);
    // Each by the name that people know it by.
    let help = text(&jp_compact(Path::new("/"), &["show", "--help"]).stdout);
    let formats = help.split_once("--format").unwrap().1.split_once("[possible values: ").unwrap().1;
    let formats = plain(formats.split_once(']').unwrap().0).split(", ").count();
    let told = readme.split_once("Read and written back are ").unwrap().1.split_once("\n\n").unwrap().0;
    // OpenAI's two, and JP's own.
    assert_eq!(plain(told).split(", ").count() + 1, formats, "{told}");
}

#[test]
fn the_strategies_are_those_that_are_bundled() {
    let listed = text(&jp_compact(Path::new("/"), &["strategy", "list"]).stdout);
    let listed: Vec<_> =
        listed.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    let told: Vec<_> = table("Strategies").into_iter().map(|(name, _)| name).collect();
    assert_eq!(told, listed);
}

#[test]
fn the_strategy_of_ones_own_works() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("strip-all");
    // Copied by a process of its own: a file that this one had open for writing could not be executed while
    // another test starts something.
    let written = folder.path().join("strip-all.txt");
    fs::write(&written, block("strategy")).unwrap();
    assert!(std::process::Command::new("cp").arg(&written).arg(&plugin).status().unwrap().success());
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    // A conversation whose id is known, so that its id and that of the request cannot be taken for each other.
    let conversation = folder.path().join("17738399468-sample");
    fs::create_dir(&conversation).unwrap();
    fs::copy(Path::new(ROOT).join("tests/sample/events.json"), conversation.join("events.json")).unwrap();
    assert!(readme().contains("`jp-compact strategy trust ./strip-all`"));
    assert!(jp_compact(folder.path(), &["strategy", "trust", "./strip-all"]).status.success());
    let arguments = ["--strategy", "./strip-all", "--sandbox=require", "17738399468-sample"];
    let output = jp_compact(folder.path(), &[&arguments[..], &["--keep-last", "1", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["overlays"][0]["strategy"], "strip-all");
    assert_eq!(report["overlays"][0]["to_turn"], 2);
}

#[test]
fn the_readme_is_short() {
    assert!(readme().lines().count() <= 150);
}
