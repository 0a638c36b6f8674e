//! SIGINT and SIGTERM. The running strategy is stopped, and nothing is written.

use std::fs::{self, File};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{CommandOutput, Conversation, STRIP, TerminalSession, Transcript, World, plugin_script};

/// Starts a run of two strategies. The second one reports its process ids, and then runs `script`. Sends `signal` to
/// the host. Checks that no process is left and that the transcript is untouched.
#[track_caller]
fn check(world: &World, signal: Signal, script: &str) {
    let strategies = ["-s", "strip-tools", "-s", "reports", "--trust-dir", "plugins", "--sandbox=contained"];
    let output = interrupt(world, &[&["conversation"], &strategies[..]].concat(), signal, script);
    insta::allow_duplicates! {
        insta::assert_snapshot!(output.stderr, @r"
        error: interrupted

        hint: a transcript without a report may be compacted, too; `jp-compact show` lists its overlays
        ");
    }
}

/// Starts a command with the strategy `reports`, and interrupts it while the strategy runs.
#[track_caller]
fn interrupt(world: &World, arguments: &[&str], signal: Signal, script: &str) -> CommandOutput {
    let transcript = Transcript::capture(world.path("conversation/events.json"));
    let pid_pipe = world.path("pids");
    assert!(Command::new("/bin/mkfifo").arg(&pid_pipe).status().unwrap().success());
    world.write_plugin("reports", &format!("sleep 1000 & echo $$ $! > {}\n{script}", pid_pipe.display()));
    let child = world.spawn(&mut world.command(arguments));

    // Opening a named pipe for reading blocks until the strategy opens it for writing.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(fs::read_to_string(pid_pipe)));
    let pids = receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    kill_process(Pid::from_child(&child), signal).unwrap();

    let output = CommandOutput::new(world, child.wait_with_output().unwrap()).exits(130);
    for pid in pids.split_whitespace() {
        assert!(process_ends(pid), "process {pid} is still running");
    }
    transcript.assert_untouched();
    output
}

/// Waits for a process to end. A zombie counts as ended, because its command line is empty.
pub(crate) fn process_ends(pid: &str) -> bool {
    let is_running = || fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    (0..1_000_000).any(|_| {
        std::thread::yield_now();
        !is_running()
    })
}

fn world() -> World {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(5));
    world
}

#[test]
fn sigint_stops_strategy_and_writes_nothing() {
    check(&world(), Signal::INT, "exec sleep 1000");
}

#[test]
fn kills_strategy_that_ignores_signals() {
    check(&world(), Signal::INT, "trap '' INT TERM; while :; do wait; done");
}

#[test]
fn sigterm_stops_like_sigint() {
    check(&world(), Signal::TERM, "exec sleep 1000");
}

#[test]
fn interrupted_dry_run_has_no_hint_about_transcripts() {
    let run = ["-s", "reports", "--keep-last=0", "--trust-dir", "plugins", "--sandbox=contained"];
    for command in [&["conversation", "-n"][..], &["diff", "conversation"]] {
        let output = interrupt(&world(), &[command, &run].concat(), Signal::INT, "exec sleep 1000");
        assert_eq!(output.stderr, "error: interrupted\n");
    }
}

#[test]
fn sigint_ends_dev_while_strategy_runs() {
    let dev = ["strategy", "dev", "plugins/reports", "conversation", "--keep-last=0", "--sandbox=contained"];
    let output = interrupt(&world(), &dev, Signal::INT, "exec sleep 1000");
    assert_eq!(output.stderr, "error: interrupted\n");
}

#[test]
fn interrupt_ends_test_and_run_after_their_question() {
    let world = world();
    let pipe = world.path("started");
    assert!(Command::new("/bin/mkfifo").arg(&pipe).status().unwrap().success());
    let script = plugin_script("asks", &json!({}), &format!("echo $$ > {}\nexec sleep 1000", pipe.display()));
    world.write_script("asks/asks", &script);
    let manifest = "manifest = 1\nname = \"asks\"\nversion = \"1.0.0\"\ndescription = \"a test\"\nprotocols = [1]\n\
                    [run]\ncommand = [\"./asks\"]\n[permissions]\nnetwork = true\n";
    world.write_file("asks/plugin.toml", manifest.as_bytes());
    for (command, keys) in [("test", &["asks"][..]), ("run", &["asks", "conversation", "--keep-last=0"])] {
        let arguments = [&["strategy", command, "--sandbox=contained", "--deadline=10s"], keys].concat();
        let mut terminal = TerminalSession::start(&world, &arguments, 100);
        terminal.wait_for(&["Grant these permissions for this run? [y/N]"]);
        terminal.press("n\n");
        let pid = fs::read_to_string(&pipe).unwrap();
        terminal.press("\u{3}");
        let (code, screen) = terminal.finish();
        assert_eq!(code, Some(130), "{screen}");
        assert!(screen.ends_with("error: interrupted"), "{screen}");
        assert!(process_ends(pid.trim()), "process {pid} is still running");
    }
}

#[test]
fn sigint_stops_waiting_for_lock() {
    let world = world();
    let lock = File::open(world.path("conversation")).unwrap();
    lock.lock().unwrap();
    check(&world, Signal::INT, &format!("kill $!; {}", STRIP.replace("c1", "c2")));
}
