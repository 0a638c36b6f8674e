//! Text from transcripts and strategies, made harmless for a terminal: control characters, bidirectional
//! controls and tag characters become visible escapes; newline and tab stay. JSON output never passes here.

use std::fmt::Write as _;

/// Makes text harmless. Newlines and tabs stay.
pub(crate) fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmful(character) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Makes text harmless that has to stay on one line.
pub(crate) fn line(line: &str) -> String {
    text(line).replace('\n', "\\n").replace('\t', " ")
}

fn is_harmful(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(unsafe_text: &str, expected: &str) {
        assert_eq!(text(unsafe_text), expected);
    }

    #[test]
    fn escapes_what_moves_a_cursor_or_turns_text_around() {
        check("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}");
        check("a\rb", "a\\u{d}b");
        check("\u{9b}31m", "\\u{9b}31m");
        check("\u{7f}", "\\u{7f}");
        check("\u{202e}evil\u{2066}", "\\u{202e}evil\\u{2066}");
        check("\u{e0041}", "\\u{e0041}");
    }

    #[test]
    fn leaves_text_as_it_is() {
        check("na\u{ef}ve \u{1f600}\n\tindented", "na\u{ef}ve \u{1f600}\n\tindented");
    }

    #[test]
    fn keeps_a_line_a_line() {
        assert_eq!(line("a\nb\tc"), "a\\nb c");
    }
}
