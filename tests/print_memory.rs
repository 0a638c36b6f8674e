//! Tests of the peak memory of `print --compacted --as source`: it does not grow with the texts of a conversation or a
//! session. The tests are an executable of their own, because the system adds the memory of this process to that of its
//! child processes.
#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the test spawns the executable that it measures")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use wait4::Wait4 as _;

const FILE_BYTES: u64 = 96 << 20;
const PEAK_BYTES_MAX: u64 = 64 << 20;

/// Writes a conversation with one call in each turn, one event at a time.
fn write_conversation(path: &Path, overlay: &str) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let content = "QUJD".repeat(8 << 10);
    let (mut bytes, mut turns) = (0, 0);
    file.write_all(b"[").unwrap();
    while bytes < FILE_BYTES {
        let event = |members: &str| format!("{{\"timestamp\": \"2026-04-02 09:00:00\", {members}}},\n  ");
        let turn = [
            event("\"type\": \"turn_start\""),
            event("\"type\": \"chat_request\", \"content\": \"Read it.\""),
            event("\"type\": \"tool_call_request\", \"id\": \"a\", \"name\": \"read\", \"arguments\": {}"),
            event(&format!(
                "\"type\": \"tool_call_response\", \"id\": \"a\", \"is_error\": false, \"content\": \"{content}\""
            )),
        ]
        .concat();
        file.write_all(turn.as_bytes()).unwrap();
        bytes += turn.len() as u64;
        turns += 1;
    }
    let range = format!("\"from_turn\": 0, \"to_turn\": {}", turns - 1);
    let overlay = overlay.replace("RANGE", &range);
    write!(file, "{{\"timestamp\": \"2026-04-02 10:00:00\", {overlay}}}\n]\n").unwrap();
    file.flush().unwrap();
}

fn jp_compact(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jp-compact"));
    command.env_clear().env("HOME", folder).stdin(Stdio::null()).current_dir(folder);
    command
}

/// Prints the transcript into `output`, and returns the peak memory.
fn print(folder: &Path, transcript: &str, output: Stdio) -> u64 {
    let mut command = jp_compact(folder);
    let command = command.args(["print", transcript, "--compacted", "--as", "source"]).stdout(output);
    let ended = command.spawn().unwrap().wait4().unwrap();
    assert!(ended.status.success());
    ended.rusage.maxrss
}

/// Appends turns with one call each to a session of Claude Code, until the file has this size. `lines` is the number of
/// lines so far.
fn append_to_session(path: &Path, lines: &mut usize, bytes_min: u64) {
    let mut file = BufWriter::new(File::options().create(true).append(true).open(path).unwrap());
    let content = "let x = \\\"a\\\";\\n".repeat(1 << 10);
    let mut bytes = file.get_ref().metadata().unwrap().len();
    while bytes < bytes_min {
        let call = "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"Read\",\"input\":{}}";
        let result = format!("{{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"{content}\"}}");
        for (role, content, more) in [
            ("user", "\"Read it.\"", String::new()),
            ("assistant", &*format!("[{call}]"), String::new()),
            ("user", &*format!("[{result}]"), format!(",\"toolUseResult\":\"{content}\"")),
        ] {
            let parent = lines.checked_sub(1).map_or("null".into(), |parent| format!("\"u{parent}\""));
            let line = format!(
                "{{\"parentUuid\":{parent},\"sessionId\":\"s\",\"type\":\"{role}\",\"message\":{{\"role\":\"{role}\",\
                 \"content\":{content}}},\"uuid\":\"u{lines}\",\"timestamp\":\"2026-03-01T09:00:00.000Z\"{more}}}\n"
            );
            file.write_all(line.as_bytes()).unwrap();
            (bytes, *lines) = (bytes + line.len() as u64, *lines + 1);
        }
    }
    file.flush().unwrap();
}

/// A strip of all calls, in the range of all turns.
const STRIP: &str = "\"type\": \"compaction\", RANGE, \"tool_calls\": {\"policy\": \"strip\", \"request\": true, \"response\": true}";

#[test]
fn peak_memory_of_a_compacted_print_is_bounded() {
    let temp = tempfile::tempdir().unwrap();
    let (events, out) = (temp.path().join("events.json"), temp.path().join("out"));
    for (overlay, printed_bytes) in
        [("\"type\": \"bookmark\"", FILE_BYTES..u64::MAX), (STRIP, 0..FILE_BYTES / 10)]
    {
        write_conversation(&events, overlay);
        let peak = print(temp.path(), "events.json", File::create(&out).unwrap().into());
        assert!(printed_bytes.contains(&fs::metadata(&out).unwrap().len()), "{overlay}");
        assert!(peak <= PEAK_BYTES_MAX, "{overlay}: {peak} bytes");
        fs::remove_file(&out).unwrap();
    }
}

/// Writes a session that begins with `beginning`. The first call is stripped before the session grows to its size.
fn write_session(session: &Path, beginning: &str, bytes: u64) {
    fs::write(session, beginning).unwrap();
    let mut lines = 0;
    append_to_session(session, &mut lines, 4 << 10);
    let mut strip = jp_compact(session.parent().unwrap());
    let strip = strip.args(["-q", "--keep-last", "0", "--strategy", "strip-tools", "session.jsonl"]);
    assert!(strip.status().unwrap().success());
    append_to_session(session, &mut lines, bytes);
}

#[test]
fn peak_memory_of_a_compacted_session_is_bounded() {
    let temp = tempfile::tempdir().unwrap();
    let (session, out) = (temp.path().join("session.jsonl"), temp.path().join("out"));
    write_session(&session, "", FILE_BYTES);
    let peak = print(temp.path(), "session.jsonl", File::create(&out).unwrap().into());
    let (printed, printed_bytes) = (File::open(&out).unwrap(), fs::metadata(&out).unwrap().len());
    assert!((FILE_BYTES - (64 << 10)..FILE_BYTES).contains(&printed_bytes), "{printed_bytes}");
    let first_result = BufReader::new(printed).lines().nth(2).unwrap().unwrap();
    assert!(first_result.contains("[compacted] Read: success"), "{first_result}");
    assert!(peak <= PEAK_BYTES_MAX, "{peak} bytes");
}

#[test]
fn overlays_of_a_large_session_are_applied_until_an_event_changes() {
    let side_chain = "{\"parentUuid\":null,\"isSidechain\":true,\"sessionId\":\"s\",\"type\":\"user\",\"uuid\":\"s0\",\
                      \"message\":{\"role\":\"user\",\"content\":\"Search.\"}}\n";
    for beginning in ["", side_chain] {
        let temp = tempfile::tempdir().unwrap();
        let session = temp.path().join("session.jsonl");
        write_session(&session, beginning, 5 << 20);
        let print = || {
            let mut command = jp_compact(temp.path());
            command.args(["print", "session.jsonl", "--compacted", "--as", "source"]).output().unwrap()
        };
        let (output, bytes) = (print(), fs::read(&session).unwrap());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let stripped = String::from_utf8(output.stdout).unwrap();
        assert_eq!(stripped.matches("[compacted] Read: success").count(), 2);
        assert!(stripped.len() + (30 << 10) < bytes.len());
        let changed = String::from_utf8(bytes).unwrap().replacen("let x", "let y", 1);
        fs::write(&session, &changed).unwrap();
        let output = print();
        assert!(String::from_utf8_lossy(&output.stderr).contains("is not applied, because events"));
        assert!(output.stdout == changed.as_bytes());
    }
}

/// The file has more events and more ids of calls than `CondensedLimits` allows in memory. In a debug build the print
/// takes minutes.
#[test]
#[ignore = "takes minutes in a debug build"]
fn peak_memory_of_a_compacted_print_does_not_grow_with_the_events() {
    let temp = tempfile::tempdir().unwrap();
    let (events, out) = (temp.path().join("events.json"), temp.path().join("out"));
    let calls: u32 = 1_200_000;
    let mut file = BufWriter::new(File::create(&events).unwrap());
    file.write_all(b"[\n  {\"timestamp\": \"2026-04-02 09:00:00\", \"type\": \"turn_start\"}").unwrap();
    for call in 0..calls {
        for members in [
            format!(
                "\"type\": \"tool_call_request\", \"id\": \"{call}\", \"name\": \"read\", \"arguments\": {{}}"
            ),
            format!(
                "\"type\": \"tool_call_response\", \"id\": \"{call}\", \"is_error\": false, \"content\": \"QUJD\""
            ),
        ] {
            write!(file, ",\n  {{\"timestamp\": \"2026-04-02 09:00:00\", {members}}}").unwrap();
        }
    }
    let overlay = STRIP.replace("RANGE", "\"from_turn\": 0, \"to_turn\": 0");
    write!(file, ",\n  {{\"timestamp\": \"2026-04-02 10:00:00\", {overlay}}}\n]\n").unwrap();
    file.flush().unwrap();
    let peak = print(temp.path(), "events.json", File::create(&out).unwrap().into());
    // `[compacted] read: success`
    let lines = fs::read_to_string(&out).unwrap().matches("\"W2NvbXBhY3RlZF0gcmVhZDogc3VjY2Vzcw==\"").count();
    assert_eq!(lines, calls as usize);
    assert!(peak <= PEAK_BYTES_MAX, "{peak} bytes");
}
