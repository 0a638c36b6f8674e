//! What a tool call does, as far as its name and arguments tell: the one place that knows the tools of JP and of
//! common agents. A tool that nobody knows is judged by the shape of its arguments.

use std::borrow::Cow;

use jp_compact_strategy::event::Call;
use serde_json::{Map, Value};

use crate::patch;

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    Read,
    Created,
    Modified,
    Deleted,
}

/// What a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// To files, in this order.
    Files(Vec<(Op, String)>),
    /// It runs a command.
    Command(String),
    /// Something else.
    Other,
}

/// Tools that do one thing to the file in their arguments, by their name without case, `-` and `_`.
const FILES: [(Op, &[&str]); 4] = [
    (Op::Read, &["fsreadfile", "read", "readfile", "view", "viewfile", "openfile", "cat", "notebookread"]),
    (Op::Created, &["fscreatefile", "write", "writefile", "createfile", "savefile", "writetofile"]),
    (
        Op::Modified,
        &[
            "fsmodifyfile",
            "edit",
            "multiedit",
            "editfile",
            "modifyfile",
            "replace",
            "strreplace",
            "replaceinfile",
            "searchreplace",
            "applydiff",
            "insert",
            "notebookedit",
        ],
    ),
    (Op::Deleted, &["fsdeletefile", "delete", "deletefile", "removefile"]),
];
const MOVES: [&str; 5] = ["fsmovefile", "move", "movefile", "rename", "renamefile"];
/// The editor whose verb is an argument.
const EDITORS: [&str; 3] = ["strreplacebasededittool", "strreplaceeditor", "texteditor"];
const PATCHES: [&str; 2] = ["applypatch", "patch"];
const COMMANDS: [&str; 13] = [
    "bash",
    "shell",
    "localshell",
    "localshellcall",
    "runshellcommand",
    "executecommand",
    "executebash",
    "runcommand",
    "runterminalcmd",
    "execcommand",
    "containerexec",
    "terminal",
    "exec",
];
/// Tools of JP's that are a program by themselves: the command is their name.
const PROGRAMS: [&str; 2] = ["cargo_", "git_"];

const PATHS: [&str; 8] =
    ["path", "file_path", "filePath", "filename", "target_file", "absolute_path", "notebook_path", "file"];
const SOURCES: [&str; 6] = ["source", "from", "old_path", "oldPath", "src", "path"];
const TARGETS: [&str; 6] = ["destination", "to", "new_path", "newPath", "dst", "target"];
const LINES: [&str; 3] = ["command", "cmd", "script"];
const PATCH_TEXTS: [&str; 3] = ["input", "patch", "patchText"];
/// What only an edit is called with, and what only a new content is.
const EDITS: [&str; 8] =
    ["old_string", "oldString", "old_str", "patterns", "patch", "diff", "edits", "string_to_replace"];
const CONTENTS: [&str; 3] = ["content", "contents", "file_text"];

/// What the call does.
pub(crate) fn act(call: &Call) -> Act {
    let plain: String =
        call.tool.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let arguments = &call.arguments;
    let is = |names: &[&str]| names.contains(&plain.as_str());
    if is(&EDITORS) {
        return path(arguments).map_or(Act::Other, |path| Act::Files(vec![(editor(arguments), path)]));
    }
    if is(&PATCHES) {
        let text = PATCH_TEXTS.iter().find_map(|key| arguments.get(*key)?.as_str());
        return files(text.map(patch::files).unwrap_or_default());
    }
    if is(&MOVES) {
        let (from, to) = (first(arguments, &SOURCES), first(arguments, &TARGETS));
        return files([(Op::Deleted, from), (Op::Created, to)].into_iter().filter_map(named).collect());
    }
    if is(&COMMANDS)
        && let Some(command) = command(arguments)
    {
        return match command.split_once("apply_patch") {
            // Codex applies patches through its shell.
            Some((_, text)) if !patch::files(text).is_empty() => Act::Files(patch::files(text)),
            _ => Act::Command(command.into_owned()),
        };
    }
    if PROGRAMS.iter().any(|program| call.tool.starts_with(program)) {
        return Act::Command(program(call));
    }
    let op = FILES.iter().find(|(_, names)| is(names)).map(|(op, _)| *op);
    match (op.or_else(|| by_shape(arguments)), path(arguments)) {
        (Some(op), Some(path)) => Act::Files(vec![(op, path)]),
        (None, None) => command(arguments).map_or(Act::Other, |line| Act::Command(line.into_owned())),
        _ => Act::Other,
    }
}

fn editor(arguments: &Map<String, Value>) -> Op {
    match arguments.get("command").and_then(Value::as_str) {
        Some("view") => Op::Read,
        Some("create") => Op::Created,
        _ => Op::Modified,
    }
}

/// What nobody knows by name is a write when it brings what is to be written.
fn by_shape(arguments: &Map<String, Value>) -> Option<Op> {
    let has = |keys: &[&str]| keys.iter().any(|key| arguments.contains_key(*key));
    if has(&EDITS) { Some(Op::Modified) } else { has(&CONTENTS).then_some(Op::Created) }
}

fn path(arguments: &Map<String, Value>) -> Option<String> {
    first(arguments, &PATHS)
}

fn first(arguments: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| Some(arguments.get(*key)?.as_str()?.to_owned()))
}

fn named((op, path): (Op, Option<String>)) -> Option<(Op, String)> {
    Some((op, path?))
}

fn files(files: Vec<(Op, String)>) -> Act {
    if files.is_empty() { Act::Other } else { Act::Files(files) }
}

/// The command line: a string, or its words.
fn command(arguments: &Map<String, Value>) -> Option<Cow<'_, str>> {
    match LINES.iter().find_map(|key| arguments.get(*key))? {
        Value::String(line) => Some(line.as_str().into()),
        Value::Array(words) => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            // `bash -lc LINE` is LINE.
            match words.as_slice() {
                ["bash" | "sh" | "zsh", "-c" | "-lc", line] => Some((*line).into()),
                words => Some(words.join(" ").into()),
            }
        }
        _ => None,
    }
}

/// A tool that is a program, as one would type it: its name, and the values of its arguments.
fn program(call: &Call) -> String {
    let mut line = call.tool.clone();
    for (name, value) in &call.arguments {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        line.push_str(&format!(" {name}={value}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(tool: &str, arguments: Value, expect: &Act) {
        let Value::Object(arguments) = arguments else { unreachable!() };
        assert_eq!(act(&Call { id: "1".into(), tool: tool.into(), arguments }), *expect, "{tool}");
    }

    fn file(op: Op, path: &str) -> Act {
        Act::Files(vec![(op, path.into())])
    }

    fn line(text: &str) -> Act {
        Act::Command(text.into())
    }

    #[test]
    fn tools_of_jp() {
        check("fs_read_file", json!({"path": "a.rs", "start_line": 1}), &file(Op::Read, "a.rs"));
        check("fs_create_file", json!({"path": "a.rs", "content": "x"}), &file(Op::Created, "a.rs"));
        check("fs_modify_file", json!({"path": "a.rs", "patterns": []}), &file(Op::Modified, "a.rs"));
        check("fs_delete_file", json!({"path": "a.rs"}), &file(Op::Deleted, "a.rs"));
        let moved = Act::Files(vec![(Op::Deleted, "a.rs".into()), (Op::Created, "b.rs".into())]);
        check("fs_move_file", json!({"source": "a.rs", "destination": "b.rs"}), &moved);
        check("cargo_check", json!({}), &line("cargo_check"));
        check(
            "cargo_test",
            json!({"package": "clock", "testname": "t"}),
            &line("cargo_test package=clock testname=t"),
        );
        check("git_commit", json!({"message": "fix: it"}), &line("git_commit message=fix: it"));
        check("fs_grep_files", json!({"pattern": "x", "paths": ["src"]}), &Act::Other);
        check("fs_list_files", json!({"prefixes": ["src"]}), &Act::Other);
        check("github_read_file", json!({"repository": "a/b", "path": "README.md"}), &Act::Other);
    }

    #[test]
    fn tools_of_other_agents() {
        check("Read", json!({"file_path": "/w/a.rs"}), &file(Op::Read, "/w/a.rs"));
        check("Write", json!({"file_path": "/w/a.rs", "content": ""}), &file(Op::Created, "/w/a.rs"));
        check("Edit", json!({"file_path": "a", "old_string": "x"}), &file(Op::Modified, "a"));
        check("MultiEdit", json!({"file_path": "a", "edits": []}), &file(Op::Modified, "a"));
        check("NotebookEdit", json!({"notebook_path": "a.ipynb"}), &file(Op::Modified, "a.ipynb"));
        check("Bash", json!({"command": "ls -l", "timeout": 9}), &line("ls -l"));
        check("Grep", json!({"pattern": "x", "path": "src"}), &Act::Other);
        check("read_file", json!({"absolute_path": "/a"}), &file(Op::Read, "/a"));
        check("run_shell_command", json!({"command": "make"}), &line("make"));
        check("exec_command", json!({"cmd": "make"}), &line("make"));
        check("execute_bash", json!({"command": "make"}), &line("make"));
        for (verb, op) in [
            ("view", Op::Read),
            ("create", Op::Created),
            ("str_replace", Op::Modified),
            ("insert", Op::Modified),
        ] {
            check("str_replace_based_edit_tool", json!({"command": verb, "path": "a"}), &file(op, "a"));
            check("str_replace_editor", json!({"command": verb, "path": "a"}), &file(op, "a"));
        }
    }

    #[test]
    fn codex_runs_and_patches_through_its_shell() {
        check("shell", json!({"command": ["bash", "-lc", "cargo test | tail"]}), &line("cargo test | tail"));
        check("shell", json!({"command": ["git", "status"]}), &line("git status"));
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** End Patch";
        check("shell", json!({"command": ["apply_patch", patch]}), &file(Op::Modified, "a.rs"));
        check("apply_patch", json!({ "input": patch }), &file(Op::Modified, "a.rs"));
        check("shell", json!({"command": ["apply_patch", "--help"]}), &line("apply_patch --help"));
    }

    #[test]
    fn what_nobody_knows_is_judged_by_its_arguments() {
        check("x_put", json!({"path": "a", "content": "x"}), &file(Op::Created, "a"));
        check("x_change", json!({"path": "a", "diff": "x"}), &file(Op::Modified, "a"));
        check("x_run", json!({"command": "make"}), &line("make"));
        check("x_look", json!({"path": "a"}), &Act::Other);
        check("x", json!({}), &Act::Other);
        check("Read", json!({"file_path": 7}), &Act::Other);
    }
}
