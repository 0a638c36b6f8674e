//! Escaping of foreign text (transcripts, strategies, models, paths) for a terminal. Control characters, bidirectional
//! controls, line separators and invisible characters become visible escapes. Joiners and variation selectors are kept
//! where natural text uses them: in emoji, and after a letter (Persian). JSON output must not be escaped here.
//! [`crate::lines::EscapedLines`] builds the lines, and only it ends a line.

use std::fmt::Write as _;

/// The set of escaped characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Joiners and variation selectors are kept where natural text uses them.
    #[default]
    Text,
    /// Every invisible character is escaped, because the user reads this text to make a decision.
    Consent,
}

/// Escapes a text of several lines. Newlines and tabs are kept.
pub fn text(text: &str) -> String {
    escaped(text, Policy::Text)
}

/// Escapes a text for one line. Newlines become `\n`, tabs become spaces.
pub fn line(line: &str) -> String {
    line_by(line, Policy::Text)
}

/// Escapes a text for one line, by a policy.
pub fn line_by(line: &str, policy: Policy) -> String {
    escaped(line, policy).replace('\n', "\\n").replace('\t', " ")
}

/// The class of a character. It decides whether a joiner or selector after it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    /// A letter with a variation selector.
    SelectedLetter,
    Emoji,
    /// An emoji with a variation selector.
    SelectedEmoji,
    Other,
    /// White space, or a character that selects, joins, or is escaped. No selector after it has an effect.
    Blank,
}

fn escaped(text: &str, policy: Policy) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut previous = Class::Blank;
    let mut rest = text;
    while !rest.is_empty() {
        let (plain, tail) = rest.split_at(plain_prefix(rest));
        escaped.push_str(plain);
        if let Some(last) = plain.chars().next_back() {
            previous = classify(last, previous, tail.chars().next(), policy).1;
        }
        let mut characters = tail.chars();
        if let Some(character) = characters.next() {
            let (is_kept, class) = classify(character, previous, characters.clone().next(), policy);
            if is_kept {
                escaped.push(character);
            } else {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(character));
            }
            previous = class;
        }
        rest = characters.as_str();
    }
    escaped
}

/// Returns the number of bytes at the start that are printable ASCII, newlines or tabs. They are always kept. Only the
/// last of them can affect a character after it.
fn plain_prefix(text: &str) -> usize {
    text.bytes().position(|byte| !matches!(byte, b' '..=b'~' | b'\n' | b'\t')).unwrap_or(text.len())
}

/// Returns whether a character is kept, and its class.
fn classify(character: char, previous: Class, next: Option<char>, policy: Policy) -> (bool, Class) {
    let is_text = policy == Policy::Text;
    match character {
        '\n' | '\t' => (true, Class::Blank),
        // `1`, a selector and U+20E3 form a keycap.
        '#' | '*' | '0'..='9' if next == Some('\u{fe0f}') => (true, Class::Emoji),
        '\u{200c}' => (is_text && matches!(previous, Class::Letter | Class::SelectedLetter), Class::Blank),
        '\u{200d}' => (is_text && matches!(previous, Class::Emoji | Class::SelectedEmoji), Class::Blank),
        '\u{fe0e}' | '\u{fe0f}' if previous == Class::Emoji => (is_text, Class::SelectedEmoji),
        '\u{fe0e}' | '\u{fe0f}' => (false, Class::Blank),
        // A braille cell without dots, which drawings contain.
        '\u{2800}' => (is_text, Class::Blank),
        _ if is_invisible(character) => (false, Class::Blank),
        _ if is_selector(character) => match previous {
            Class::Letter => (is_text, Class::SelectedLetter),
            Class::Emoji => (is_text, Class::SelectedEmoji),
            Class::Other => (is_text, Class::Blank),
            Class::SelectedLetter | Class::SelectedEmoji | Class::Blank => (false, Class::Blank),
        },
        _ if character.is_whitespace() => (true, Class::Blank),
        _ if is_emoji(character) => (true, Class::Emoji),
        _ if character.is_alphabetic() => (true, Class::Letter),
        _ => (true, Class::Other),
    }
}

/// Returns whether a character is a control, shows nothing, or changes how others are shown.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{16fe4}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d159}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns whether a character selects the form of the one before it, as in Mongolian text and in mathematics.
fn is_selector(character: char) -> bool {
    matches!(character, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0d}')
}

/// Returns whether a character is in a block that contains emoji. A selector is therefore kept after other symbols of the
/// block, too.
fn is_emoji(character: char) -> bool {
    matches!(
        character,
        '\u{a9}'
            | '\u{ae}'
            | '\u{203c}'
            | '\u{2049}'
            | '\u{2122}'
            | '\u{2139}'
            | '\u{2190}'..='\u{21ff}'
            | '\u{2300}'..='\u{23ff}'
            | '\u{24c2}'
            | '\u{25a0}'..='\u{27bf}'
            | '\u{2900}'..='\u{297f}'
            | '\u{2b00}'..='\u{2bff}'
            | '\u{3030}'
            | '\u{303d}'
            | '\u{3297}'
            | '\u{3299}'
            | '\u{1f000}'..='\u{1faff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(unsafe_text: &str, expected: &str) {
        assert_eq!(text(unsafe_text), expected);
    }

    /// Checks that `Policy::Text` keeps a text, and `Policy::Consent` escapes it.
    #[track_caller]
    fn check_kept(kept: &str, for_consent: &str) {
        assert_eq!(text(kept), kept);
        assert_eq!(line_by(kept, Policy::Consent), for_consent);
    }

    #[test]
    fn escapes_cursor_movement_and_text_direction() {
        check("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}");
        check("a\rb", "a\\u{d}b");
        check("\u{9b}31m", "\\u{9b}31m");
        check("\u{7f}", "\\u{7f}");
        check("\u{202e}evil\u{2066}", "\\u{202e}evil\\u{2066}");
        check("\u{e0041}", "\\u{e0041}");
    }

    #[test]
    fn escapes_invisible_characters_in_every_position() {
        let mut invisible = vec!['\u{2028}', '\u{2029}', '\u{200b}', '\u{2060}', '\u{feff}', '\u{ad}'];
        invisible.extend([
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{17b5}',
            '\u{fff0}',
            '\u{1bca0}',
            '\u{1d173}',
        ]);
        invisible.extend([
            '\u{1d17a}',
            '\u{e01f0}',
            '\u{e0fff}',
            '\u{e0000}',
            '\u{e007f}',
            '\u{e0100}',
            '\u{e01ef}',
            '\u{2064}',
            '\u{fff9}',
        ]);
        invisible.extend('\u{13430}'..='\u{1343f}');
        invisible.extend(['\u{16fe4}', '\u{1d159}']);
        for character in invisible {
            for prefix in ["", "a", " ", "\u{1f600}", "\u{633}"] {
                let escaped = format!("\\u{{{:x}}}", u32::from(character));
                check(&format!("{prefix}{character}b"), &format!("{prefix}{escaped}b"));
            }
        }
    }

    #[test]
    fn keeps_joiners_and_selectors_where_text_uses_them() {
        check_kept("\u{2764}\u{fe0f}", "\u{2764}\\u{fe0f}");
        check_kept("\u{2764}\u{fe0e}", "\u{2764}\\u{fe0e}");
        check_kept(
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
            "\u{1f468}\\u{200d}\u{1f469}\\u{200d}\u{1f467}",
        );
        check_kept("\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}", "\u{1f3f3}\\u{fe0f}\\u{200d}\u{1f308}");
        check_kept("\u{1f44d}\u{1f3fd}\u{200d}", "\u{1f44d}\u{1f3fd}\\u{200d}");
        check_kept("\u{1820}\u{180b}\u{2268}\u{fe00}", "\u{1820}\\u{180b}\u{2268}\\u{fe00}");
        check_kept("1\u{fe0f}\u{20e3}", "1\\u{fe0f}\u{20e3}");
        check_kept("\u{2801}\u{2800}", "\u{2801}\\u{2800}");
        check("a\u{fe0f}\u{fe0e}\u{200d}", "a\\u{fe0f}\\u{fe0e}\\u{200d}");
        check("\u{200d}", "\\u{200d}");
        check("\u{1f600}\u{200d}\u{200d}\u{fe0f}", "\u{1f600}\u{200d}\\u{200d}\\u{fe0f}");
        check("\u{1f600} \u{fe0f}", "\u{1f600} \\u{fe0f}");
    }

    #[test]
    fn keeps_one_selector_after_a_visible_character() {
        check("A\u{fe00}\u{fe01}\u{fe02} B \u{fe03}", "A\u{fe00}\\u{fe01}\\u{fe02} B \\u{fe03}");
        check("\u{fe00}\n\u{180b}\u{a0}\u{fe01}", "\\u{fe00}\n\\u{180b}\u{a0}\\u{fe01}");
        check("\u{1f600}\u{fe0f}\u{fe00}\u{fe01}", "\u{1f600}\u{fe0f}\\u{fe00}\\u{fe01}");
        check_kept("\u{2268}\u{fe00}=\u{fe01}", "\u{2268}\\u{fe00}=\\u{fe01}");
        check_kept("\u{1820}\u{180b}\u{200c}\u{1820}", "\u{1820}\\u{180b}\\u{200c}\u{1820}");
    }

    #[test]
    fn keeps_non_joiner_only_after_letter() {
        check_kept(
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{645}\u{6cc}\\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
        );
        check("1\u{200c}", "1\\u{200c}");
        check("\u{200c}", "\\u{200c}");
        check("a\u{200c}\u{200c}", "a\u{200c}\\u{200c}");
        check("\u{1f600}\u{200c}", "\u{1f600}\\u{200c}");
    }

    #[test]
    fn keeps_plain_text() {
        check("na\u{ef}ve \u{1f600}\n\tindented", "na\u{ef}ve \u{1f600}\n\tindented");
    }

    #[test]
    fn escapes_newline_and_tab_in_a_line() {
        assert_eq!(line("a\nb\tc"), "a\\nb c");
    }
}
