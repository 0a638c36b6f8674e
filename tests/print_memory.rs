//! The peak memory of `print --compacted --as source` does not grow with the texts of a conversation. The test is an
//! executable of its own, because the system adds the memory of this process to that of its child processes.
#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the test spawns the executable that it measures")]

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
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

/// Prints the conversation into `output`, and returns the size of the output and the peak memory.
fn print(folder: &Path, output: Stdio) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jp-compact"));
    command.env_clear().env("HOME", folder).stdin(Stdio::null()).stdout(output).current_dir(folder);
    let child = command.args(["print", "events.json", "--compacted", "--as", "source"]).spawn().unwrap();
    let ended = child.wait4().unwrap();
    assert!(ended.status.success());
    ended.rusage.maxrss
}

#[test]
fn peak_memory_of_a_compacted_print_is_bounded() {
    let temp = tempfile::tempdir().unwrap();
    let (events, out) = (temp.path().join("events.json"), temp.path().join("out"));
    for (overlay, printed_bytes) in [
        ("\"type\": \"bookmark\"", FILE_BYTES..u64::MAX),
        (
            "\"type\": \"compaction\", RANGE, \"tool_calls\": {\"policy\": \"strip\", \"request\": true, \"response\": true}",
            0..FILE_BYTES / 10,
        ),
    ] {
        write_conversation(&events, overlay);
        let peak = print(temp.path(), File::create(&out).unwrap().into());
        assert!(printed_bytes.contains(&fs::metadata(&out).unwrap().len()), "{overlay}");
        assert!(peak <= PEAK_BYTES_MAX, "{overlay}: {peak} bytes");
        fs::remove_file(&out).unwrap();
    }
}
