//! Classification of tool calls by name and arguments. Only this module knows the tools of JP and of common agents by
//! name. Unknown tools are classified by the names of their arguments.

use std::borrow::Cow;

use jp_compact_strategy::event::ToolCall;
use serde_json::{Map, Value};

use crate::file_op::FileOp;
use crate::patch;

/// The effect of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Operations on files, in order.
    Files(Vec<(FileOp, String)>),
    Command(String),
    /// Another effect.
    Other,
}

/// Tools that apply one operation to the file that an argument names. The names are in lower case, without `-` and `_`.
const FILES: [(FileOp, &[&str]); 4] = [
    (
        FileOp::Read,
        &["fsreadfile", "read", "readfile", "view", "viewfile", "openfile", "cat", "notebookread"],
    ),
    (FileOp::Created, &["fscreatefile", "write", "writefile", "createfile", "savefile", "writetofile"]),
    (
        FileOp::Modified,
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
    (FileOp::Deleted, &["fsdeletefile", "delete", "deletefile", "removefile"]),
];
const MOVES: [&str; 5] = ["fsmovefile", "move", "movefile", "rename", "renamefile"];
/// Editors whose argument `command` is the operation.
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
/// Prefixes of JP's tools that run a program. The command is the tool's name and its arguments.
const PROGRAMS: [&str; 2] = ["cargo_", "git_"];

/// The names of arguments, by the meaning of their values.
const PATHS: [&str; 8] =
    ["path", "file_path", "filePath", "filename", "target_file", "absolute_path", "notebook_path", "file"];
const SOURCES: [&str; 6] = ["source", "from", "old_path", "oldPath", "src", "path"];
const TARGETS: [&str; 6] = ["destination", "to", "new_path", "newPath", "dst", "target"];
const LINES: [&str; 3] = ["command", "cmd", "script"];
const PATCH_TEXTS: [&str; 3] = ["input", "patch", "patchText"];
/// Arguments that only an edit has, and arguments with new content. They classify unknown tools.
const EDITS: [&str; 8] =
    ["old_string", "oldString", "old_str", "patterns", "patch", "diff", "edits", "string_to_replace"];
const CONTENTS: [&str; 3] = ["content", "contents", "file_text"];

/// Returns the effect of a call.
pub(crate) fn classify(call: &ToolCall) -> CallKind {
    let plain: String =
        call.tool.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let arguments = &call.arguments;
    let is = |names: &[&str]| names.contains(&plain.as_str());
    if is(&EDITORS) {
        return path(arguments)
            .map_or(CallKind::Other, |path| CallKind::Files(vec![(editor(arguments), path)]));
    }
    if is(&PATCHES) {
        let text = PATCH_TEXTS.iter().find_map(|key| arguments.get(*key)?.as_str());
        return files(text.map(patch::files).unwrap_or_default());
    }
    if is(&MOVES) {
        let (from, to) = (first(arguments, &SOURCES), first(arguments, &TARGETS));
        return files(
            [(FileOp::Deleted, from), (FileOp::Created, to)].into_iter().filter_map(named).collect(),
        );
    }
    if is(&COMMANDS)
        && let Some(command) = command(arguments)
    {
        return match command.split_once("apply_patch") {
            // Codex applies patches through its shell.
            Some((_, text)) if !patch::files(text).is_empty() => CallKind::Files(patch::files(text)),
            _ => CallKind::Command(command.into_owned()),
        };
    }
    if PROGRAMS.iter().any(|program| call.tool.starts_with(program)) {
        return CallKind::Command(program(call));
    }
    let op = FILES.iter().find(|(_, names)| is(names)).map(|(op, _)| *op);
    match (op.or_else(|| by_shape(arguments)), path(arguments)) {
        (Some(op), Some(path)) => CallKind::Files(vec![(op, path)]),
        (None, None) => {
            command(arguments).map_or(CallKind::Other, |line| CallKind::Command(line.into_owned()))
        }
        _ => CallKind::Other,
    }
}

fn editor(arguments: &Map<String, Value>) -> FileOp {
    match arguments.get("command").and_then(Value::as_str) {
        Some("view") => FileOp::Read,
        Some("create") => FileOp::Created,
        _ => FileOp::Modified,
    }
}

/// Classifies an unknown tool as a write if its arguments contain new content.
fn by_shape(arguments: &Map<String, Value>) -> Option<FileOp> {
    let has = |keys: &[&str]| keys.iter().any(|key| arguments.contains_key(*key));
    if has(&EDITS) { Some(FileOp::Modified) } else { has(&CONTENTS).then_some(FileOp::Created) }
}

fn path(arguments: &Map<String, Value>) -> Option<String> {
    first(arguments, &PATHS)
}

fn first(arguments: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| Some(arguments.get(*key)?.as_str()?.to_owned()))
}

fn named((op, path): (FileOp, Option<String>)) -> Option<(FileOp, String)> {
    Some((op, path?))
}

fn files(files: Vec<(FileOp, String)>) -> CallKind {
    if files.is_empty() { CallKind::Other } else { CallKind::Files(files) }
}

/// Returns the command line, which can be a string or a list of words.
fn command(arguments: &Map<String, Value>) -> Option<Cow<'_, str>> {
    match LINES.iter().find_map(|key| arguments.get(*key))? {
        Value::String(line) => Some(line.as_str().into()),
        Value::Array(words) => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            // For `bash -lc LINE`, the command is LINE.
            match words.as_slice() {
                ["bash" | "sh" | "zsh", "-c" | "-lc", line] => Some((*line).into()),
                words => Some(words.join(" ").into()),
            }
        }
        _ => None,
    }
}

/// Formats a call like a command line: the tool's name and its arguments.
fn program(call: &ToolCall) -> String {
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
    fn check(tool: &str, arguments: Value, expect: &CallKind) {
        let Value::Object(arguments) = arguments else { unreachable!() };
        assert_eq!(classify(&ToolCall { id: "1".into(), tool: tool.into(), arguments }), *expect, "{tool}");
    }

    fn file(op: FileOp, path: &str) -> CallKind {
        CallKind::Files(vec![(op, path.into())])
    }

    fn line(text: &str) -> CallKind {
        CallKind::Command(text.into())
    }

    #[test]
    fn tools_of_jp() {
        check("fs_read_file", json!({"path": "a.rs", "start_line": 1}), &file(FileOp::Read, "a.rs"));
        check("fs_create_file", json!({"path": "a.rs", "content": "x"}), &file(FileOp::Created, "a.rs"));
        check("fs_modify_file", json!({"path": "a.rs", "patterns": []}), &file(FileOp::Modified, "a.rs"));
        check("fs_delete_file", json!({"path": "a.rs"}), &file(FileOp::Deleted, "a.rs"));
        let moved = CallKind::Files(vec![(FileOp::Deleted, "a.rs".into()), (FileOp::Created, "b.rs".into())]);
        check("fs_move_file", json!({"source": "a.rs", "destination": "b.rs"}), &moved);
        check("cargo_check", json!({}), &line("cargo_check"));
        check(
            "cargo_test",
            json!({"package": "clock", "testname": "t"}),
            &line("cargo_test package=clock testname=t"),
        );
        check("git_commit", json!({"message": "fix: it"}), &line("git_commit message=fix: it"));
        check("fs_grep_files", json!({"pattern": "x", "paths": ["src"]}), &CallKind::Other);
        check("fs_list_files", json!({"prefixes": ["src"]}), &CallKind::Other);
        check("github_read_file", json!({"repository": "a/b", "path": "README.md"}), &CallKind::Other);
    }

    #[test]
    fn tools_of_other_agents() {
        check("Read", json!({"file_path": "/w/a.rs"}), &file(FileOp::Read, "/w/a.rs"));
        check("Write", json!({"file_path": "/w/a.rs", "content": ""}), &file(FileOp::Created, "/w/a.rs"));
        check("Edit", json!({"file_path": "a", "old_string": "x"}), &file(FileOp::Modified, "a"));
        check("MultiEdit", json!({"file_path": "a", "edits": []}), &file(FileOp::Modified, "a"));
        check("NotebookEdit", json!({"notebook_path": "a.ipynb"}), &file(FileOp::Modified, "a.ipynb"));
        check("Bash", json!({"command": "ls -l", "timeout": 9}), &line("ls -l"));
        check("Grep", json!({"pattern": "x", "path": "src"}), &CallKind::Other);
        check("read_file", json!({"absolute_path": "/a"}), &file(FileOp::Read, "/a"));
        check("run_shell_command", json!({"command": "make"}), &line("make"));
        check("exec_command", json!({"cmd": "make"}), &line("make"));
        check("execute_bash", json!({"command": "make"}), &line("make"));
        for (verb, op) in [
            ("view", FileOp::Read),
            ("create", FileOp::Created),
            ("str_replace", FileOp::Modified),
            ("insert", FileOp::Modified),
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
        check("shell", json!({"command": ["apply_patch", patch]}), &file(FileOp::Modified, "a.rs"));
        check("apply_patch", json!({ "input": patch }), &file(FileOp::Modified, "a.rs"));
        check("shell", json!({"command": ["apply_patch", "--help"]}), &line("apply_patch --help"));
    }

    #[test]
    fn unknown_tools_are_classified_by_arguments() {
        check("x_put", json!({"path": "a", "content": "x"}), &file(FileOp::Created, "a"));
        check("x_change", json!({"path": "a", "diff": "x"}), &file(FileOp::Modified, "a"));
        check("x_run", json!({"command": "make"}), &line("make"));
        check("x_look", json!({"path": "a"}), &CallKind::Other);
        check("x", json!({}), &CallKind::Other);
        check("Read", json!({"file_path": 7}), &CallKind::Other);
    }
}
