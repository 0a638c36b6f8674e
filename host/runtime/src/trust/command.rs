//! The `strategy trust` command line that hints show. It can be pasted into a shell.

use std::path::Path;

use super::grants::{self, Grant};
use crate::registry::Plugin;

pub(super) fn trust(plugin: &Plugin, granted: &[Grant], lock: Option<&Path>) -> String {
    let mut command = format!("jp-compact strategy trust {}", quoted(&plugin.real));
    if !granted.is_empty() {
        command.push_str(&format!(" --grant {}", quoted(Path::new(&grants::joined(granted)))));
    }
    if let Some(lock) = lock {
        command.push_str(&format!(" --trust-lock {}", quoted(lock)));
    }
    command
}

/// Quotes a path for a POSIX shell where necessary.
#[must_use]
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-,:=+@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_paths_with_special_characters() {
        for (path, expect) in
            [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(Path::new(path)), expect);
        }
    }
}
