//! The progress bar of a batch on terminals of several widths. At the end, and after Ctrl-C, no piece of it must remain.

use std::fs;
use std::process::Command;

use crate::interrupt::WORKER;
use crate::set::{NOW, Set};
use crate::support::TerminalSession;

/// The key that interrupts.
const CTRL_C: &str = "\u{3}";
const WIDTHS: [u16; 3] = [30, 60, 80];
/// Parts of the count and of the bar.
const BAR: [&str; 2] = [" of 5 ", "░"];
const STRATEGY_LINE: &str = "worker …";
const FIRST_INTERRUPT: &str = "interrupted: finishing the requests in progress; interrupt again to stop now";
const END_OF_INTERRUPT: &str =
    " error: interrupted hint: to continue, run the same command again; finished transcripts are skipped";

/// Starts a batch whose worker waits for the pipe `go`. Returns when the bar and the strategy are on the screen.
fn start(set: &Set, columns: u16) -> TerminalSession {
    assert!(Command::new("/bin/mkfifo").arg(set.path("go")).status().unwrap().success());
    let script = WORKER.replace("FOLDER", set.path("").to_str().unwrap().trim_end_matches('/'));
    set.world.write_script("plugins/worker", &script);
    let args = ["batch", "set", "-s", "worker", "--trust-dir", "plugins", "--sandbox=contained"];
    let mut terminal = TerminalSession::start(
        &set.world,
        &[&args[..], &["-j", "1", "--now", NOW, "--deadline", "1h"]].concat(),
        columns,
    );
    terminal.wait_for(&[&BAR[..], &[STRATEGY_LINE]].concat());
    terminal
}

/// Lets the worker answer.
fn release(set: &Set) {
    fs::write(set.path("go"), "go\n").unwrap();
}

/// Runs a batch of five transcripts on a terminal of each width. At the end, the screen must have only these words, and
/// numbers of tokens and the elapsed time between them. It must be ASCII, because the glyphs of the bar are not.
#[track_caller]
fn check(act: impl Fn(&Set, &mut TerminalSession), expected_code: i32, start_words: &str, end_words: &str) {
    for columns in WIDTHS {
        let set = Set::new(5);
        let mut terminal = start(&set, columns);
        act(&set, &mut terminal);
        let (code, screen) = terminal.finish();
        assert_eq!(code, Some(expected_code), "{columns} columns:\n{screen}");
        let rest = screen.strip_prefix(start_words).and_then(|rest| rest.strip_suffix(end_words));
        let has_progress =
            |rest: &str| ["%", "left", "of 5 ", "worker", "^C"].iter().any(|part| rest.contains(part));
        assert!(
            screen.is_ascii() && rest.is_some_and(|rest| rest.ends_with(" s") && !has_progress(rest)),
            "{columns} columns:\n{screen}"
        );
    }
}

fn interrupt(terminal: &mut TerminalSession) {
    terminal.press(CTRL_C);
    terminal.wait_for(&[&BAR[..], &[FIRST_INTERRUPT]].concat());
}

#[test]
fn finished_batch_leaves_no_progress() {
    check(|set, _| release(set), 0, "5 transcripts: 5 unchanged; JP sends ", "");
}

#[test]
fn interrupted_batch_leaves_no_progress() {
    let act = |set: &Set, terminal: &mut TerminalSession| {
        interrupt(terminal);
        release(set);
    };
    let start = format!("{FIRST_INTERRUPT} 1 transcript: 1 unchanged; JP sends ");
    check(act, 130, &start, END_OF_INTERRUPT);
}

#[test]
fn batch_that_is_interrupted_twice_leaves_no_progress() {
    let act = |_: &Set, terminal: &mut TerminalSession| {
        interrupt(terminal);
        terminal.press(CTRL_C);
    };
    check(act, 130, &format!("{FIRST_INTERRUPT} 0 transcripts; "), END_OF_INTERRUPT);
}
