//! Small files of a workspace that may come from an attacker: pipes, symlinks, and files that are too long. Each is
//! read within a limit or rejected. A command must not block on them or write through them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{CommandOutput, Conversation, Transcript, World};

const FOLDER: &str = ".jp/conversations/17738399468-x";
const LOCK: &str = ".jp/locks/jp-c17738399468.lock";

fn workspace() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation(FOLDER, &Conversation::with_turns(5));
    (world, transcript)
}

/// Runs a command that must end within a minute.
#[track_caller]
fn run(world: &World, arguments: &[&str]) -> CommandOutput {
    let child = world.spawn(&mut world.command(arguments));
    let pid = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    let Ok(output) = receiver.recv_timeout(Duration::from_secs(60)) else {
        kill_process(pid, Signal::KILL).unwrap();
        panic!("{arguments:?} does not end");
    };
    CommandOutput::new(world, output)
}

fn create_pipe(path: &Path) {
    assert!(Command::new("/bin/mkfifo").arg(path).status().unwrap().success());
}

/// Replaces a small file with each kind of hostile file, and checks a command that reads it.
#[track_caller]
fn check(name: &str, arguments: &[&str], code: i32, message: &str) {
    let (world, transcript) = workspace();
    let path = world.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let long_file = world.write_file("long", &vec![b' '; 5 << 20]);
    let hostile_files: [(&str, &dyn Fn()); 4] = [
        ("a pipe", &|| create_pipe(&path)),
        ("a link to a device", &|| symlink("/dev/zero", &path).unwrap()),
        ("a link to a file", &|| symlink(&long_file, &path).unwrap()),
        ("too long", &|| assert!(fs::copy(&long_file, &path).unwrap() > 0)),
    ];
    for (kind, create) in hostile_files {
        let _ = fs::remove_file(&path);
        create();
        let output = run(&world, arguments);
        assert_eq!(output.code, Some(code), "{kind}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{kind}: `{message}` is not in:\n{}", output.stderr);
    }
    assert_eq!(transcript.current_bytes(), transcript.original_bytes());
}

#[test]
fn ignores_workspace_id_that_is_not_a_small_file() {
    check(".jp/.id", &["show", FOLDER, "-v"], 0, "failed to read the workspace's id");
}

#[test]
fn rejects_configuration_that_is_not_a_small_file() {
    check(".jp-compact.toml", &["config"], 2, "/here/.jp-compact.toml");
    check(".jp/config.toml", &["show", FOLDER], 0, "");
    check(".jp/config.toml", &[FOLDER, "--dry-run"], 0, "failed to read /here/.jp/config.toml: ");
    let base = format!("{FOLDER}/base_config.json");
    check(&base, &[FOLDER, "--dry-run"], 0, "base_config.json: ");
    check(&base, &["fork", FOLDER, "fork"], 4, "base_config.json");
}

#[test]
fn rejects_manifest_that_is_not_a_small_file() {
    check("plugins/x/plugin.toml", &["strategy", "test", "plugins/x"], 12, "plugin.toml");
    check("plugins/x/plugin.toml", &[FOLDER, "--strategy", "plugins/x"], 12, "plugin.toml");
}

#[test]
fn follows_symlink_to_user_configuration() {
    let (world, _) = workspace();
    world.write_file("dotfiles/mine.toml", b"conversation.compaction.keep_last = 7\n");
    fs::create_dir_all(world.home(".config/jp-compact")).unwrap();
    symlink(world.path("dotfiles/mine.toml"), world.home(".config/jp-compact/config.toml")).unwrap();
    let config_json = run(&world, &["config", "--json"]).exits(0).line();
    assert_eq!(config_json["config"]["conversation"]["compaction"]["keep_last"], 7);
}

#[test]
fn config_option_reads_pipes_and_symlinks() {
    let (world, _) = workspace();
    let text = "conversation.compaction.keep_last = 7\n";
    create_pipe(&world.path("pipe"));
    symlink("file", world.path("link")).unwrap();
    world.write_file("file", text.as_bytes());
    let path = world.path("pipe");
    let writer = thread::spawn(move || fs::write(path, text).unwrap());
    for name in ["pipe", "link"] {
        let config_json = run(&world, &["config", "--json", "--config", name]).exits(0).line();
        assert_eq!(config_json["config"]["conversation"]["compaction"]["keep_last"], 7, "{name}");
    }
    writer.join().unwrap();
    run(&world, &["config", "--config", "/dev/zero"]).exits(2).reports("it has more than 1048576 bytes");
}

#[test]
fn rejects_symlinked_lock() {
    let (world, transcript) = workspace();
    let lock = world.path(LOCK);
    fs::create_dir(world.path(".jp/locks")).unwrap();
    symlink(world.path("planted"), &lock).unwrap();
    run(&world, &[FOLDER]).exits(4).reports("failed to lock").reports("it is a symbolic link");
    assert!(!world.path("planted").exists());

    fs::remove_file(&lock).unwrap();
    create_pipe(&lock);
    run(&world, &[FOLDER]).exits(4).reports("it is a named pipe");

    fs::remove_dir_all(world.path(".jp/locks")).unwrap();
    fs::create_dir(world.path("elsewhere")).unwrap();
    symlink(world.path("elsewhere"), world.path(".jp/locks")).unwrap();
    run(&world, &[FOLDER]).exits(4).reports("failed to lock").reports("/here/.jp/locks");
    assert_eq!(fs::read_dir(world.path("elsewhere")).unwrap().count(), 0);
    transcript.assert_untouched();

    fs::remove_file(world.path(".jp/locks")).unwrap();
    run(&world, &[FOLDER]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn rejects_symlinked_report_file() {
    let (world, _) = workspace();
    let target = world.write_file("mine", b"precious");
    symlink(&target, world.path("report.json.part")).unwrap();
    for extra in [&[][..], &["--resume"]] {
        let output =
            run(&world, &[&["batch", "--dry-run", "--report", "report.json", FOLDER], extra].concat());
        assert_ne!(output.code, Some(0), "{}", output.stderr);
        assert!(output.stderr.contains("it is a symbolic link"), "{}", output.stderr);
        assert_eq!(fs::read(&target).unwrap(), b"precious");
    }
}
