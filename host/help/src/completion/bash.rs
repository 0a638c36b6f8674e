//! Completions in bash. Bash gives the line as it was typed, and inserts a candidate without quoting it. It replaces only
//! the end of the last word: the part after a `=`, a `:`, or an open quote. This module reads the quotes of the line, cuts
//! the candidates accordingly, and quotes them. A candidate must never be more than one word of the line.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use clap::Command;
use clap_complete::engine;

use super::candidates::is_printable;

/// The script for `.bashrc`. It also works in the bash 3.2 of macOS. The arguments of the executable are the line up to
/// the cursor, and the text that a candidate replaces.
pub(super) const SCRIPT: &str = r#"_jp_compact() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(JP_COMPACT_COMPLETE=bash jp-compact -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
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
    arguments: &[OsString],
    folder: Option<&Path>,
) -> io::Result<Vec<u8>> {
    let [line, replaced] = arguments else { return Ok(Vec::new()) };
    let Some((kept, words)) = parse(line.as_bytes(), replaced.as_bytes()) else { return Ok(Vec::new()) };
    let last = words.len().saturating_sub(1);
    let mut lines = Vec::new();
    for candidate in engine::complete(command, words, last, folder)? {
        let value = candidate.get_value().as_bytes();
        let Some(rest) = value.strip_prefix(&*kept.value).filter(|_| is_printable(&candidate)) else {
            continue;
        };
        let is_home = kept == Word::default() && replaced.as_bytes().starts_with(b"~/");
        let (home, rest) = rest.split_at(usize::from(is_home && rest.starts_with(b"~/")));
        lines.extend_from_slice(home);
        lines.extend(quoted(rest, kept.quote));
        lines.push(b'\n');
    }
    Ok(lines)
}

/// A word of a line, without its quotes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Word {
    value: Vec<u8>,
    /// The quote that is open at the end.
    quote: Option<u8>,
}

/// Returns the part of the last word that bash keeps, and all words. `None` if the line does not end with `replaced`.
fn parse(line: &[u8], replaced: &[u8]) -> Option<(Word, Vec<OsString>)> {
    let kept = split(line.strip_suffix(replaced)?).pop()?;
    let words = split(line).into_iter().map(|word| OsString::from_vec(word.value)).collect();
    Some((kept, words))
}

/// Splits a line into words by the quoting rules of shells. The last word is empty after a blank.
fn split(line: &[u8]) -> Vec<Word> {
    let (mut words, mut word) = (Vec::new(), Word::default());
    let mut is_blank = true;
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let is_separator = word.quote.is_none() && byte.is_ascii_whitespace();
        match (word.quote, byte) {
            _ if is_separator && is_blank => {}
            _ if is_separator => words.push(std::mem::take(&mut word)),
            (None, b'\'' | b'"') => word.quote = Some(byte),
            (Some(quote), _) if byte == quote => word.quote = None,
            // A backslash at the end: bash has inserted the common beginning of candidates, as of `a\ b` and `a\(b`.
            (None, b'\\') => word.value.extend(bytes.next()),
            (Some(b'"'), b'\\') => match bytes.next_if(|byte| b"\"\\$`".contains(byte)) {
                Some(byte) => word.value.push(byte),
                None if bytes.peek().is_some() => word.value.push(byte),
                None => {}
            },
            _ => word.value.push(byte),
        }
        is_blank = is_separator;
    }
    words.push(word);
    words
}

/// Quotes a text for the place where bash inserts it.
fn quoted(text: &[u8], quote: Option<u8>) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    for &byte in text {
        match quote {
            Some(b'\'') if byte == b'\'' => quoted.extend(br"'\''"),
            Some(b'\'') => quoted.push(byte),
            // In double quotes, a backslash before `!` is part of the word.
            Some(_) if byte == b'!' => quoted.extend(br#""\!""#),
            Some(_) if b"\"\\$`".contains(&byte) => quoted.extend([b'\\', byte]),
            None if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"-_./:=@,+%".contains(&byte) => {
                quoted.extend([b'\\', byte]);
            }
            _ => quoted.push(byte),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the words of a line, and the part of the last word that bash keeps.
    #[track_caller]
    fn check(line: &str, replaced: &str, expected: &[&str], kept: &str, quote: Option<u8>) {
        let expected: Vec<OsString> = expected.iter().map(OsString::from).collect();
        let kept = Word { value: kept.into(), quote };
        assert_eq!(parse(line.as_bytes(), replaced.as_bytes()), Some((kept, expected)), "{line}");
    }

    #[test]
    fn quotes_of_a_line_are_read() {
        check("jp-compact  show ", "", &["jp-compact", "show", ""], "", None);
        check("a --compact=he", "he", &["a", "--compact=he"], "--compact=", None);
        check("a -s trim:max=3", "3", &["a", "-s", "trim:max=3"], "trim:max=", None);
        check(r"a my\ f", r"my\ f", &["a", "my f"], "", None);
        check(r"a my\", r"my\", &["a", "my"], "", None);
        check(r#"a '' x" y\" \a'z "#, r#" y\" \a'z "#, &["a", "", r#"x y" \a'z "#], "x", Some(b'"'));
        check(r"a 'x' '\ f", r"\ f", &["a", "x", r"\ f"], "", Some(b'\''));
        assert_eq!(parse(b"jp-compact", b"show"), None);
    }

    /// Checks that a quoted text is read as one word.
    #[track_caller]
    fn check_quoted(text: &str, quote: Option<u8>, expected: &str) {
        let inserted = quoted(text.as_bytes(), quote);
        assert_eq!(String::from_utf8_lossy(&inserted), expected);
        let before = Vec::from_iter(quote);
        let words = split(&[before, inserted].concat());
        assert_eq!(words, [Word { value: text.into(), quote }]);
    }

    #[test]
    fn candidates_are_quoted_for_their_place() {
        check_quoted("a/b-c_d.e:f=g,h@i+j%ä", None, "a/b-c_d.e:f=g,h@i+j%ä");
        check_quoted("~ x;$(y)'*", None, r"\~\ x\;\$\(y\)\'\*");
        check_quoted(r#"a b$`\"!;"#, Some(b'"'), r#"a b\$\`\\\""\!";"#);
        check_quoted("it's $x!", Some(b'\''), r"it'\''s $x!");
    }
}
