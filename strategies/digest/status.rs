//! The result of a tool call, from the failure flag of the format and from the exit status that many tools print.
//!
//! The exit status is only read at the beginning and the end of the output, where tools print it. In the middle, programs
//! may print anything.

use jp_compact_strategy::event::ToolOutput;
use serde_json::Value;

/// The result of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallStatus {
    /// An exit status.
    Exit(i64),
    /// Success without an exit status.
    Done,
    /// A failure without an exit status.
    Failed,
}

impl CallStatus {
    pub(crate) fn from_output(output: &ToolOutput) -> Self {
        match (exit(&output.content), output.is_error) {
            // The error flag overrides an exit status of 0.
            (Some(0) | None, true) => Self::Failed,
            (Some(code), _) => Self::Exit(code),
            (None, false) if tests_failed(&output.content) => Self::Failed,
            (None, false) => Self::Done,
        }
    }

    /// Returns the result of a call whose output can contain any text, such as the lines of a file.
    pub(crate) fn from_flag(output: &ToolOutput) -> Self {
        if output.is_error { Self::Failed } else { Self::Done }
    }

    pub(crate) fn is_failure(self) -> bool {
        !matches!(self, Self::Done | Self::Exit(0))
    }
}

/// The texts that precede an exit status.
const MARKS: [&str; 5] = ["exit code", "exit status", "exit_code", "exitcode", "exited with code"];
/// The number of lines to search at each end of the output.
const LINES: usize = 3;
/// The maximum length of a line with an exit status. Longer lines are output of programs.
const LINE_BYTES_MAX: usize = 200;

fn exit(content: &str) -> Option<i64> {
    in_json(content).or_else(|| {
        let lines: Vec<&str> = content.lines().filter(|line| !line.trim().is_empty()).collect();
        let tail = lines.len().saturating_sub(LINES).max(LINES.min(lines.len()));
        lines[..LINES.min(lines.len())].iter().chain(&lines[tail..]).find_map(|line| in_line(line))
    })
}

/// Returns whether tests failed. JP's tool `cargo_test` succeeds even then, with `Ran 12/12 tests, of which 1 failed.`
fn tests_failed(content: &str) -> bool {
    let counts = content.strip_prefix("Ran ").and_then(|rest| rest.split_once(" tests, of which "));
    counts.and_then(|(_, rest)| rest.split_once(" failed.")).is_some_and(|(count, _)| count != "0")
}

/// Reads the format of Codex: `{"output": "...", "metadata": {"exit_code": 1}}`.
fn in_json(content: &str) -> Option<i64> {
    if !content.trim_start().starts_with('{') {
        return None;
    }
    let value: Value = serde_json::from_str(content).ok()?;
    ["/metadata/exit_code", "/exit_code", "/exitCode"].iter().find_map(|place| value.pointer(place)?.as_i64())
}

fn in_line(line: &str) -> Option<i64> {
    if line.len() > LINE_BYTES_MAX {
        return None;
    }
    let line = line.to_ascii_lowercase();
    let rest = MARKS.iter().find_map(|mark| Some(line.split_once(mark)?.1))?;
    let rest = rest.trim_start_matches([' ', ':', '=', '>', '"', '`', '*']);
    let end = rest.char_indices().find(|(place, c)| !(c.is_ascii_digit() || *place == 0 && *c == '-'));
    rest[..end.map_or(rest.len(), |(place, _)| place)].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, is_error: bool, expect: CallStatus) {
        let output = ToolOutput { id: "1".into(), content: content.into(), is_error };
        assert_eq!(CallStatus::from_output(&output), expect, "{content}");
    }

    #[test]
    fn error_flag_determines_failure() {
        check("14 passed", false, CallStatus::Done);
        check("1 failed", true, CallStatus::Failed);
        check("", false, CallStatus::Done);
        check("Exit code: 0", true, CallStatus::Failed);
        check("Ran 12/12 tests, of which 0 failed.\n", false, CallStatus::Done);
        check("Ran 12/12 tests, of which 1 failed.\n\nWhat follows", false, CallStatus::Failed);
    }

    #[test]
    fn finds_exit_status_at_both_ends() {
        check("Exit code: 101\nWall time: 2 s\nOutput:\nerror", false, CallStatus::Exit(101));
        check("Exit code 1\nls: no such file", true, CallStatus::Exit(1));
        check("a\nb\nc\nd\n[Command finished with exit code 2]", false, CallStatus::Exit(2));
        check("Process exited with code 0\nOutput:\nfine", false, CallStatus::Exit(0));
        check("a\nb\nc\nd\ne\n(exit status: 7)\n", false, CallStatus::Exit(7));
        check("subprocess returned non-zero exit status 3.", false, CallStatus::Exit(3));
        check("<exit_code>4</exit_code>", false, CallStatus::Exit(4));
        check("x\nExit Code: -9", false, CallStatus::Exit(-9));
        check(
            r#"{"output":"x","metadata":{"exit_code":5,"duration_seconds":0.1}}"#,
            false,
            CallStatus::Exit(5),
        );
        check(r#"{"exitCode": 0}"#, false, CallStatus::Exit(0));
    }

    #[test]
    fn ignores_exit_status_in_the_middle() {
        check("a\nb\nc\nd\nexit code: 9\ne\nf\ng\nh", false, CallStatus::Done);
        check("the exit code is documented", false, CallStatus::Done);
        check("exit status:", false, CallStatus::Done);
        check(&format!("{} exit code: 9", "x".repeat(300)), false, CallStatus::Done);
        check(r#"{"a": "b"}"#, false, CallStatus::Done);
    }
}
