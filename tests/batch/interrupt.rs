//! Interruption by Ctrl-C: requests in progress are finished, and the next run resumes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::processes;
use crate::set::Set;
use crate::support::{CommandOutput, Conversation, Model};

/// Starts a batch with these options. Its strategy writes its process id, waits for the pipe `go`, and replies with the
/// members `reply`. Interrupts the batch once, then calls `after_interrupt`.
#[track_caller]
fn run_interrupted(
    set: &Set,
    reply: &str,
    options: &[&str],
    after_interrupt: impl FnOnce(Pid),
) -> CommandOutput {
    let (started_pipe, continue_pipe) = (set.path("started"), set.path("go"));
    for fifo in [&started_pipe, &continue_pipe] {
        assert!(Command::new("/bin/mkfifo").arg(fifo).status().unwrap().success());
    }
    let run = format!(
        "if [ ! -e {0}.done ]; then : > {0}.done; echo $$ > {0}; read line < {1}; fi\n\
         sed -n 's/^{{\"type\":\"compact\",\"id\":\"\\([^\"]*\\)\".*/{{\"id\":\"\\1\",{reply}}}/p'",
        started_pipe.display(),
        continue_pipe.display()
    );
    set.world.write_plugin("waits", &run);
    let args = Set::arguments(&["-s", "waits", "--trust-dir", "plugins", "--sandbox=contained", "-j", "1"]);
    let child = set.world.spawn(&mut set.world.command(&[&args[..], options].concat()));
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(fs::read_to_string(started_pipe)));
    receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    assert!(
        processes::running_below(&set.path("")).len() > 2,
        "expected the batch, its worker and a child process"
    );
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    after_interrupt(Pid::from_child(&child));
    let output = CommandOutput::new(&set.world, child.wait_with_output().unwrap());
    assert_eq!(processes::running_below(&set.path("")), Vec::<String>::new());
    output
}

const DECLINE: &str = r#""type":"decline","reason":"no""#;
const REPORT: &[&str] = &["--report", "r.json"];

#[test]
fn errors_after_an_interrupt_are_reported() {
    let set = Set::new(1);
    let continue_pipe = set.path("go");
    let reply = r#""type":"error","code":"broken","message":"it is broken""#;
    let output = run_interrupted(&set, reply, REPORT, |_| fs::write(&continue_pipe, "go\n").unwrap());
    output.exits(130).reports("it is broken");
    assert_eq!(set.report("r.json").total.failed, 1);
    set.assert_untouched();
}

#[test]
fn interrupt_finishes_work_in_progress_and_resume_continues() {
    // More transcripts than the batch works on at the same time.
    let set = Set::new(60);
    let continue_pipe = set.path("go");
    let output =
        run_interrupted(&set, DECLINE, REPORT, |_| fs::write(&continue_pipe, "go\n").unwrap()).exits(130);
    let output = output
        .reports("interrupted: finishing the requests in progress")
        .reports("same command with --resume");
    let report = set.report("r.json");
    let finished = report.transcripts.len();
    assert!(!report.complete && (1..60).contains(&finished), "{finished}\n{}", output.stderr);
    assert_eq!(
        set.transcripts
            .iter()
            .filter(|transcript| transcript.current_bytes() != transcript.original_bytes())
            .count(),
        finished
    );
    set.batch(&["--report", "r.json", "--resume"])
        .exits(0)
        .reports(&format!("{finished} of them in an earlier run"));
    let report = set.report("r.json");
    assert!(report.complete);
    assert_eq!(report.transcripts.len(), 60);
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

/// Without a report, a second run cannot know that a view is its own.
#[test]
fn hint_of_an_interrupt_depends_on_the_output() {
    for (options, hint) in [
        (&["--out", "views"][..], "hint: to continue, give `--out` another folder; "),
        (&["--dry-run"], "hint: run the same command again\n"),
        (&[], "hint: to continue, run the same command again; finished transcripts are skipped"),
    ] {
        let set = Set::new(3);
        let continue_pipe = set.path("go");
        run_interrupted(&set, DECLINE, options, |_| fs::write(&continue_pipe, "go\n").unwrap())
            .exits(130)
            .reports(hint);
    }
}

/// A worker that counts its requests in a file, and waits for a pipe at its first request.
pub(crate) const WORKER: &str = r#"#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"type":"describe","protocols":[1],"name":"worker","version":"1.0.0","description":"a worker","produces":["reasoning"],"input":"none","features":["worker"]}'
    exit 0
fi
while read -r line; do
    case "$line" in *'"compact"'*) ;; *) continue ;; esac
    echo request >> FOLDER/requests
    if [ ! -e FOLDER/waited ]; then : > FOLDER/waited; echo $$ > FOLDER/started; read -r go < FOLDER/go; fi
    id=$(echo "$line" | sed 's/^{"type":"compact","id":"\([^"]*\)".*/\1/')
    echo '{"type":"decline","id":"'"$id"'","reason":"no"}'
done
"#;

/// Starts a batch, and interrupts it when its worker waits for the pipe `go`. The worker continues when the batch has
/// handled the interrupt. Returns the rest of stderr.
#[track_caller]
fn interrupt_waiting_worker(set: &Set, command: &mut Command) -> String {
    let (started_pipe, continue_pipe) = (set.path("started"), set.path("go"));
    for fifo in [&started_pipe, &continue_pipe] {
        assert!(Command::new("/bin/mkfifo").arg(fifo).status().unwrap().success());
    }
    let mut child = set.world.spawn(command);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(fs::read_to_string(started_pipe)));
    receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("interrupted: finishing") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "the batch has ended");
    }
    fs::write(&continue_pipe, "go\n").unwrap();
    let end = std::io::read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{end}");
    end
}

/// A worker gets one request at a time. The transcripts that wait for it must not delay the end.
#[test]
fn interrupt_finishes_only_the_request_in_progress() {
    let set = Set::new(30);
    // Sessions that were not started must not be reported as files that are not transcripts.
    let session = |number: usize| {
        let line = |index: usize| {
            let kind = if index.is_multiple_of(2) { "user" } else { "assistant" };
            let parent = index.checked_sub(1).map_or("null".to_owned(), |parent| format!("\"u{parent}\""));
            format!(
                r#"{{"type":"{kind}","uuid":"u{index}","parentUuid":{parent},"sessionId":"s{number}","timestamp":"2026-01-01T00:00:00Z","message":{{"role":"{kind}","content":"text"}}}}"#
            )
        };
        (0..12).map(line).collect::<Vec<_>>().join("\n")
    };
    for number in 0..30 {
        fs::write(set.path(&format!("set/{number}.jsonl")), session(number)).unwrap();
    }
    let script = WORKER.replace("FOLDER", set.path("").to_str().unwrap().trim_end_matches('/'));
    set.world.write_script("plugins/worker", &script);
    let args = Set::arguments(&["-s", "worker", "--trust-dir", "plugins", "--sandbox=contained", "-j", "1"]);
    let command = &mut set.world.command(&[&args[..], &["--report", "r.json"]].concat());
    let end = interrupt_waiting_worker(&set, command);
    assert!(!end.contains("not a transcript") && !end.contains("not transcripts"), "{end}");
    let requests = fs::read_to_string(set.path("requests")).unwrap();
    assert_eq!(requests.lines().count(), 1, "the worker got requests after the interrupt");
    let report = set.report("r.json");
    assert_eq!((report.complete, report.transcripts.len()), (false, 1));
}

/// The transcripts that the interrupted run does not reach have views, so their lines must not be lost.
#[test]
fn interrupted_resume_keeps_the_lines_of_unreached_transcripts() {
    let set = Set::new(4);
    let options = ["--out", "views", "--report", "r.json"];
    set.batch(&options).exits(0);
    // The batch works on these transcripts first, and their number is more than it works on at the same time.
    for number in 0..10 {
        set.world.write_conversation(&format!("set/{number}"), &Conversation::bulky(5));
    }
    let script = WORKER.replace("FOLDER", set.path("").to_str().unwrap().trim_end_matches('/'));
    set.world.write_script("plugins/worker", &script);
    let worker = ["-s", "worker", "--trust-dir", "plugins", "--sandbox=contained", "-j", "1", "--resume"];
    let command = &mut set.world.command(&Set::arguments(&[&worker[..], &options].concat()));
    interrupt_waiting_worker(&set, command);
    let report = set.report("r.json");
    assert_eq!((report.complete, report.transcripts.len(), report.total.failed), (false, 1, 0));
    set.batch(&[&options[..], &["--resume"]].concat()).exits(0).reports("5 of them in an earlier run");
    assert_eq!(set.report("r.json").transcripts.len(), 14);
    assert!(!set.path("r.json.part").exists());
}

/// A worker that asks a model, and then replies with `REPLY`. At the first answer of the model, it waits for a pipe.
const ASKING_WORKER: &str = r#"#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"type":"describe","protocols":[1],"name":"asks","version":"1.0.0","description":"a worker","produces":["summary"],"input":"none","features":["worker"],"needs":["llm"]}'
    exit 0
fi
while read -r line; do
    id=$(echo "$line" | sed 's/.*"id":"\(c[0-9]*\)".*/\1/')
    case "$line" in
    '{"type":"compact"'*'"range_exact":true'*)
        echo '{"type":"result","id":"'"$id"'","compactions":[{"from_turn":0,"to_turn":2,"summary":{"summary":"S"}}]}' ;;
    '{"type":"compact"'*'"answers":{}'*)
        echo '{"type":"needs","id":"'"$id"'","requests":{"a":{"kind":"llm.complete","messages":[{"role":"user","content":"hello"}],"max_tokens":50}}}' ;;
    '{"type":"compact"'*)
        if [ ! -e FOLDER/waited ]; then : > FOLDER/waited; echo $$ > FOLDER/started; read -r go < FOLDER/go; fi
        echo '{"id":"'"$id"'",REPLY}' ;;
    esac
done
"#;

/// Interrupts a batch while answers of a model wait for the worker. Expects that no transcript for which the model was
/// asked is dropped. With `appends`, each gets an overlay.
#[track_caller]
fn check_paid_answers(conversation: &Conversation, reply: &str, strategies: &[&str], appends: bool) {
    let mut set = Set::new(0);
    for number in 0..12 {
        set.transcripts.push(set.world.write_conversation(&format!("set/a{number}"), conversation));
    }
    let in_folder =
        |script: &str| script.replace("FOLDER", set.path("").to_str().unwrap().trim_end_matches('/'));
    set.world.write_script("plugins/asks/asks", &in_folder(ASKING_WORKER).replace("REPLY", reply));
    let manifest = "manifest = 1\nname = \"asks\"\nversion = \"1.0.0\"\ndescription = \"a worker\"\nprotocols = [1]\n\
                    [run]\ncommand = [\"./asks\"]\n[permissions]\nllm = true\n";
    set.world.write_file("plugins/asks/plugin.toml", manifest.as_bytes());
    let later_worker = WORKER.replace("if [ ! -e FOLDER/waited ]", "if false");
    set.world.write_script("plugins/worker", &in_folder(&later_worker));
    let model = Model::with_answer("an answer");
    let options = ["--trust-dir", "plugins", "--sandbox=contained", "-j", "1", "--model", "openai/g"];
    let bounds = ["--keep-last", "0", "--restore", "--report", "r.json"];
    let mut command = set.world.command(&[&["batch", "set"], strategies, &options, &bounds].concat());
    let end = interrupt_waiting_worker(&set, model.configure(&mut command));
    let report = set.report("r.json");
    // A batch works on 8 transcripts at the same time.
    let asked = model.requests().len();
    assert!((2..=8).contains(&asked), "{asked}");
    assert_eq!((report.complete, report.transcripts.len(), report.total.failed), (false, asked, 0), "{end}");
    let later_requests = fs::read_to_string(set.path("requests")).unwrap_or_default();
    assert_eq!(later_requests.lines().count(), if strategies.contains(&"worker") { asked } else { 0 });
    assert_eq!(
        set.transcripts.iter().map(|transcript| transcript.overlays().len()).sum::<usize>(),
        if appends { asked } else { 0 }
    );
}

#[test]
fn paid_answers_reach_the_strategy_after_an_interrupt() {
    check_paid_answers(&Conversation::bulky(5), DECLINE, &["-s", "asks"], false);
}

#[test]
fn strategies_after_a_paid_answer_are_asked_after_an_interrupt() {
    check_paid_answers(&Conversation::bulky(5), DECLINE, &["-s", "asks", "-s", "worker"], false);
}

/// The paid summary includes an older one only partially, so the strategy is asked for a wider range.
#[test]
fn paid_summary_is_requested_for_a_wider_range_after_an_interrupt() {
    let older = json!({"from_turn": 1, "to_turn": 2, "summary": {"summary": "older"}});
    let conversation = Conversation::bulky(5).compaction(older);
    let reply = r#""type":"result","compactions":[{"from_turn":0,"to_turn":1,"summary":{"summary":"S"}}]"#;
    check_paid_answers(&conversation, reply, &["-s", "asks"], true);
}

#[test]
fn second_interrupt_stops_immediately() {
    let set = Set::new(3);
    let output = run_interrupted(&set, DECLINE, REPORT, |pid| {
        // The system may merge two early signals into one. Therefore send until the batch has handled the
        // second one.
        let partial_report = set.path("r.json.part");
        while fs::read(&partial_report).is_ok() {
            let _ = kill_process(pid, Signal::INT);
            std::thread::yield_now();
        }
    });
    output.exits(130).reports("interrupted");
    let report = set.report("r.json");
    assert!(!report.complete && report.transcripts.len() < 3);
    let untouched =
        set.transcripts.iter().filter(|transcript| transcript.current_bytes() == transcript.original_bytes());
    assert_eq!(untouched.count(), 3 - report.transcripts.len());
    set.batch(&[]).exits(0).reports("3 transcripts");
}
