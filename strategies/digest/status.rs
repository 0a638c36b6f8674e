//! How a call ended, as far as its output tells: what the format says of failure, and the exit status that many
//! tools write at the beginning or the end of it.

use jp_compact_strategy::event::Output;
use serde_json::Value;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// With this exit status.
    Exit(i64),
    /// Well; there is no number.
    Done,
    /// Not well; there is no number.
    Failed,
}

impl Status {
    pub(crate) fn of(output: &Output) -> Self {
        match (exit(&output.content), output.is_error) {
            // A tool that reports a failure has failed, whatever it ran.
            (Some(0) | None, true) => Self::Failed,
            (Some(code), _) => Self::Exit(code),
            (None, false) if tests_failed(&output.content) => Self::Failed,
            (None, false) => Self::Done,
        }
    }

    pub(crate) fn is_failure(self) -> bool {
        !matches!(self, Self::Done | Self::Exit(0))
    }
}

/// What stands before the number.
const MARKS: [&str; 5] = ["exit code", "exit status", "exit_code", "exitcode", "exited with code"];
/// So many lines at either end of an output are the tool's own.
const LINES: usize = 3;
/// A longer line is a program's.
const LINE_BYTES_MAX: usize = 200;

fn exit(content: &str) -> Option<i64> {
    in_json(content).or_else(|| {
        let said: Vec<&str> = content.lines().filter(|line| !line.trim().is_empty()).collect();
        let tail = said.len().saturating_sub(LINES).max(LINES.min(said.len()));
        said[..LINES.min(said.len())].iter().chain(&said[tail..]).find_map(|line| in_line(line))
    })
}

/// JP's `cargo_test` succeeds whatever the tests do: `Ran 12/12 tests, of which 1 failed.`
fn tests_failed(content: &str) -> bool {
    let said = content.strip_prefix("Ran ").and_then(|rest| rest.split_once(" tests, of which "));
    said.and_then(|(_, rest)| rest.split_once(" failed.")).is_some_and(|(count, _)| count != "0")
}

/// Codex: `{"output": "...", "metadata": {"exit_code": 1}}`.
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
    fn check(content: &str, is_error: bool, expect: Status) {
        let output = Output { id: "1".into(), content: content.into(), is_error };
        assert_eq!(Status::of(&output), expect, "{content}");
    }

    #[test]
    fn what_the_format_says_counts() {
        check("14 passed", false, Status::Done);
        check("1 failed", true, Status::Failed);
        check("", false, Status::Done);
        check("Exit code: 0", true, Status::Failed);
        check("Ran 12/12 tests, of which 0 failed.\n", false, Status::Done);
        check("Ran 12/12 tests, of which 1 failed.\n\nWhat follows", false, Status::Failed);
    }

    #[test]
    fn an_exit_status_is_found_where_tools_write_it() {
        check("Exit code: 101\nWall time: 2 s\nOutput:\nerror", false, Status::Exit(101));
        check("Exit code 1\nls: no such file", true, Status::Exit(1));
        check("a\nb\nc\nd\n[Command finished with exit code 2]", false, Status::Exit(2));
        check("Process exited with code 0\nOutput:\nfine", false, Status::Exit(0));
        check("a\nb\nc\nd\ne\n(exit status: 7)\n", false, Status::Exit(7));
        check("subprocess returned non-zero exit status 3.", false, Status::Exit(3));
        check("<exit_code>4</exit_code>", false, Status::Exit(4));
        check("x\nExit Code: -9", false, Status::Exit(-9));
        check(r#"{"output":"x","metadata":{"exit_code":5,"duration_seconds":0.1}}"#, false, Status::Exit(5));
        check(r#"{"exitCode": 0}"#, false, Status::Exit(0));
    }

    #[test]
    fn what_a_program_prints_in_the_middle_is_not_its_exit() {
        check("a\nb\nc\nd\nexit code: 9\ne\nf\ng\nh", false, Status::Done);
        check("the exit code is documented", false, Status::Done);
        check("exit status:", false, Status::Done);
        check(&format!("{} exit code: 9", "x".repeat(300)), false, Status::Done);
        check(r#"{"a": "b"}"#, false, Status::Done);
    }
}
