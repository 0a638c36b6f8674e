//! Completions in bash. Bash splits words at `=` and `:`, so `--compact=he` arrives as three words, and only the part
//! after the `=` is replaced. This module joins such words, and cuts the candidates accordingly.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::engine;

/// The script for `.bashrc`. It also works in the bash 3.2 of macOS.
pub(super) const SCRIPT: &str = r#"_jp_compact() {
    local IFS=$'\n' words=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
    # The last word ends at the cursor, unless it is a separator.
    case "${words[COMP_CWORD]}" in
        [=:]*) ;;
        *) words[COMP_CWORD]="$2" ;;
    esac
    COMPREPLY=($(JP_COMPACT_COMPLETE=bash jp-compact -- "${words[@]}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
if [[ "${BASH_VERSINFO[0]}" -gt 4 || ( "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 ) ]]; then
    complete -o bashdefault -o nosort -F _jp_compact jp-compact
else
    complete -o bashdefault -F _jp_compact jp-compact
fi
"#;

/// Returns the candidates for the last word, one in each line.
pub(super) fn complete(
    command: &mut Command,
    words: Vec<OsString>,
    folder: Option<&Path>,
) -> io::Result<Vec<u8>> {
    let (words, kept_bytes) = join(words);
    let last = words.len().saturating_sub(1);
    let mut lines = Vec::new();
    for candidate in engine::complete(command, words, last, folder)? {
        let value = candidate.get_value().to_string_lossy();
        lines.extend_from_slice(value.get(kept_bytes..).unwrap_or(&value).as_bytes());
        lines.push(b'\n');
    }
    Ok(lines)
}

/// Joins the words that bash has split. Also returns the bytes of the last word that bash keeps.
fn join(words: Vec<OsString>) -> (Vec<OsString>, usize) {
    let is_separator = |word: &OsString| {
        let bytes = word.as_encoded_bytes();
        !bytes.is_empty() && bytes.iter().all(|byte| b"=:".contains(byte))
    };
    let mut joined: Vec<OsString> = Vec::new();
    let (mut follows_separator, mut kept_bytes) = (false, 0);
    for word in words {
        let separates = is_separator(&word);
        match joined.last_mut() {
            Some(last) if separates || follows_separator => {
                kept_bytes = last.len() + if separates { word.len() } else { 0 };
                last.push(&word);
            }
            _ => {
                kept_bytes = 0;
                joined.push(word);
            }
        }
        follows_separator = separates;
    }
    (joined, kept_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: &[&str], kept_bytes: usize) {
        let words = words.iter().map(OsString::from).collect();
        let expected: Vec<OsString> = expected.iter().map(OsString::from).collect();
        assert_eq!(join(words), (expected, kept_bytes));
    }

    #[test]
    fn split_words_are_joined() {
        check(&["jp-compact", "show", ""], &["jp-compact", "show", ""], 0);
        check(&["jp-compact", "x", "--compact", "=", "he"], &["jp-compact", "x", "--compact=he"], 10);
        check(&["jp-compact", "--compact", "="], &["jp-compact", "--compact="], 10);
        check(&["a", "-s", "trim", ":", "max", "=", "3"], &["a", "-s", "trim:max=3"], 9);
        check(&["a", "--compact", "=", "b", "c"], &["a", "--compact=b", "c"], 0);
    }
}
