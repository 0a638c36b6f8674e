//! `--out`: the views equal the output of `print`. A view is written completely or not at all, and never over an
//! existing file.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::set::{Set, parse_report};
use crate::support::{Conversation, World};

#[test]
fn out_writes_views_and_leaves_transcripts_unchanged() {
    let set = Set::new(4);
    fs::set_permissions(&set.transcripts[0].path, fs::Permissions::from_mode(0o640)).unwrap();
    set.batch(&["--out", "views", "--report", "r.json"]).exits(0);
    set.assert_untouched();
    let files: Vec<_> = (0..4).map(|number| format!("a{number}/events.json")).collect();
    assert_eq!(set.files("views"), files);
    let metadata = fs::metadata(set.path("views/a0/events.json")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    for entry in set.report("r.json").transcripts {
        assert!(entry.out.unwrap().path.ends_with("/events.json"));
    }
    // The views must equal the views of conversations that contain the overlays.
    let views: Vec<_> = files.iter().map(|file| fs::read(set.path("views").join(file)).unwrap()).collect();
    set.batch(&[]).exits(0);
    for (number, view) in views.iter().enumerate() {
        let folder = format!("set/a{number}");
        let output = set.world.run(&["print", &folder, "--compacted", "--as", "source"]).exits(0);
        assert!(output.stdout == *view, "{folder}");
    }
}

#[test]
fn dry_run_writes_no_view() {
    let set = Set::new(1);
    set.batch(&["--out", "views", "-n"]).exits(0);
    assert!(!set.path("views").exists());
}

#[test]
fn existing_file_is_not_overwritten() {
    let set = Set::new(2);
    set.world.write_file("views/a0/events.json", b"mine");
    let output = set.batch(&["--out", "views"]).exits(19).reports("failed: set/a0/events.json: ");
    output.reports("hint: `--report FILE --resume` skips the views that FILE lists");
    assert_eq!(fs::read(set.path("views/a0/events.json")).unwrap(), b"mine");
    assert_eq!(set.files("views"), ["a0/events.json", "a1/events.json"]);
}

#[test]
fn link_below_the_folder_of_views_is_not_followed() {
    let set = Set::new(2);
    for folder in ["views", "elsewhere", "linked"] {
        fs::create_dir(set.path(folder)).unwrap();
    }
    symlink(set.path("elsewhere"), set.path("views/a0")).unwrap();
    let output =
        set.batch(&["--out", "views"]).exits(19).reports("failed: set/a0/events.json: failed to write");
    output.reports("views/a0 is a symbolic link");
    assert_eq!(set.files("elsewhere"), Vec::<String>::new());
    assert!(set.path("views/a1/events.json").exists());
    // The user typed the folder itself.
    symlink(set.path("linked"), set.path("typed")).unwrap();
    set.batch(&["--out", "typed"]).exits(0);
    assert_eq!(set.files("linked"), ["a0/events.json", "a1/events.json"]);
}

#[test]
fn out_folder_is_not_searched_on_the_next_run() {
    let set = Set::new(2);
    set.batch(&["--out", "set/views", "--report", "r.json"]).exits(0).reports("2 transcripts");
    set.batch(&["--out", "set/views", "--report", "r.json", "--resume"]).exits(0).reports("2 transcripts");
}

#[test]
fn two_views_with_the_same_path_are_one_failure() {
    let world = World::new();
    world.write_conversation("one/c", &Conversation::bulky(6));
    world.write_conversation("two/c", &Conversation::bulky(7));
    let args = ["batch", "one", "two", "--strategy", "strip-tools", "--out", "views", "--json"];
    let output = world.run(&args).exits(19);
    let output = output.reports(
        "failed: two/c/events.json: its view would have the same path as the view of one/c/events.json",
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("compact one of the two in a separate run, with a different --out"), "{text}");
    assert_eq!(parse_report(&output.stdout).total.compacted, 1);
    // A conversation given as an argument keeps the name of its folder.
    world.write_conversation("d", &Conversation::bulky(6));
    let args = ["batch", "one/c", "d/events.json", "--strategy", "strip-tools", "--out", "more"];
    world.run(&args).exits(0);
    assert!(world.path("more/c/events.json").is_file() && world.path("more/d/events.json").is_file());
}

#[test]
fn view_that_exceeds_the_file_size_limit_leaves_no_file() {
    let set = Set::new(2);
    let mut shell = std::process::Command::new("/bin/sh");
    let args = Set::arguments(&["--out", "views"]).join(" ");
    let bin = assert_cmd::cargo::cargo_bin("jp-compact");
    // Limit the size of files to a few blocks.
    shell.args(["-c", &format!("ulimit -f 4; exec {} {args}", bin.display())]);
    let output = set.world.finish(set.world.isolate(&mut shell)).exits(19);
    let output = output.reports("failed: set/a0/events.json: failed to write the view to");
    assert_eq!(output.stderr.lines().count(), 3, "{}", output.stderr);
    assert_eq!(set.files("views"), Vec::<String>::new());
    set.assert_untouched();
}
