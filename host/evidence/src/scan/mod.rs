//! The anchors of a text. Each expression is applied to the text alone, so a text has the same anchors in an event and
//! in a view.

mod lines;
mod paths;
mod quotes;
mod words;

use std::ops::Range;

use serde_json::Value;

use crate::class::Class;
use crate::event_text::TextRole;

pub use lines::error_lines;
pub(crate) use quotes::for_each_quote;

/// A 64-bit hash of an anchor with its class. Texts are compared by their hashes, so that a large session needs little
/// memory.
pub type AnchorHash = u64;

/// Calls `found` with the class, the hash, and the position of each anchor in a text, except for quotes and commands.
/// An anchor that occurs several times is reported several times.
pub fn for_each_anchor(text: &str, found: &mut impl FnMut(Class, AnchorHash, Range<usize>)) {
    paths::for_each_path(text, |span| found(Class::Path, hash(Class::Path, &text[span.clone()]), span));
    words::for_each_name(text, |class, span| found(class, hash(class, &text[span.clone()]), span));
    for span in error_lines(text) {
        found(Class::Error, hash(Class::Error, &text[span.clone()]), span);
    }
}

/// Calls `found` with the hash of each path in a text.
pub(crate) fn for_each_path(text: &str, mut found: impl FnMut(AnchorHash)) {
    paths::for_each_path(text, |span| found(hash(Class::Path, &text[span])));
}

/// The names of tools whose argument `command` is a shell command, in lower case.
const SHELL_TOOLS: [&str; 20] = [
    "bash",
    "bash_tool",
    "container.exec",
    "exec",
    "exec_command",
    "execute_bash",
    "execute_command",
    "local_shell",
    "local_shell_call",
    "powershell",
    "run",
    "run_command",
    "run_in_terminal",
    "run_shell_command",
    "run_terminal_cmd",
    "sh",
    "shell",
    "shell_command",
    "terminal",
    "unix_shell",
];

/// Returns the first line of the command of a call, if its tool is a shell. If the argument is a list, as in
/// `["bash", "-lc", "make"]`, its last string counts.
#[must_use]
pub fn command_line(tool: &str, arguments: &Value) -> Option<String> {
    if !SHELL_TOOLS.contains(&tool.to_lowercase().as_str()) {
        return None;
    }
    let command = match arguments.get("command")? {
        Value::String(command) => command.as_str(),
        Value::Array(words) => words.last()?.as_str()?,
        _ => return None,
    };
    let line = command.trim_start().lines().next().unwrap_or_default().trim_end();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Returns the hash of an anchor.
#[must_use]
pub fn hash(class: Class, text: &str) -> AnchorHash {
    // FNV-1a with a final mix. A hash without a secret is sufficient, because an author of a transcript gains nothing
    // from a collision.
    let seed = 0xcbf2_9ce4_8422_2325 ^ (class as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mix(fnv(seed, text.as_bytes()))
}

fn fnv(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Returns whether the anchors of a class in this role count as a later use.
#[must_use]
pub fn is_use(class: Class, role: TextRole) -> bool {
    matches!(role, TextRole::Assistant | TextRole::Call)
        || (class == Class::Quote && role == TextRole::Reasoning)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(tool: &str, arguments: &Value, expected: Option<&str>) {
        assert_eq!(command_line(tool, arguments).as_deref(), expected);
    }

    #[test]
    fn command_is_the_first_line_of_a_shell() {
        check("Bash", &json!({"command": "cargo test -q \n echo done"}), Some("cargo test -q"));
        check("shell", &json!({"command": ["bash", "-lc", "make\nls"]}), Some("make"));
        check("shell", &json!({"command": []}), None);
        check("shell", &json!({"cmd": "make"}), None);
        check("str_replace_editor", &json!({"command": "view"}), None);
        check("bash", &json!({"command": "  \n"}), None);
        check("bash", &json!({"command": "\n\n  ls"}), Some("ls"));
    }

    #[test]
    fn hash_depends_on_class_and_text() {
        assert_eq!(hash(Class::Path, "a/b.c"), hash(Class::Path, "a/b.c"));
        assert_ne!(hash(Class::Path, "a/b.c"), hash(Class::Error, "a/b.c"));
        assert_ne!(hash(Class::Path, "a/b.c"), hash(Class::Path, "a/b.d"));
    }
}
