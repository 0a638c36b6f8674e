//! The wrapping of lines between words, to the width of a terminal. The terminal itself would break words, and would
//! not indent continuation lines. A continuation line is always indented, or begins with `|` as its first line, so it
//! never looks like a line of the host.

use crate::width::columns as width_of;

/// A narrower terminal gets the lines as they are.
const COLUMNS_MIN: usize = 30;
/// The minimum width of the last column of a line. With less room, the text next to a command begins on the next line,
/// and any other line is wrapped as a whole.
const LAST_COLUMN_MIN: usize = 20;
/// The beginning of a command of this program.
const COMMAND: &str = "jp-compact ";
/// The beginnings of indented lines that are commands. They are not wrapped, because a user copies them.
const COMMANDS: [&str; 2] = [COMMAND, "(cd "];

/// Returns the text with lines of at most `columns` columns, unless a word or a command is longer.
#[must_use]
pub fn wrapped_to(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|columns| *columns >= COLUMNS_MIN) else { return text.to_owned() };
    let mut wrapped = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        let (content, end) = line.strip_suffix('\n').map_or((line, ""), |content| (content, "\n"));
        add_line(content, columns, &mut wrapped);
        wrapped.push_str(end);
    }
    wrapped
}

fn add_line(line: &str, columns: usize, wrapped: &mut String) {
    // Escape codes have no width, and occur only in headings.
    if width_of(line) <= columns || line.contains('\u{1b}') {
        wrapped.push_str(line);
        return;
    }
    let content = line.trim_start_matches(' ');
    let indent = line.len() - content.len();
    match content.rsplit_once("  ") {
        _ if content.starts_with("| ") => {
            add_words(&content[2..], &format!("{}| ", &line[..indent]), "", columns, wrapped);
        }
        Some((left, right)) if indent + width_of(left) + 2 + LAST_COLUMN_MIN <= columns => {
            let first = format!("{}{left}  ", &line[..indent]);
            let hanging = " ".repeat(width_of(&first));
            add_words(right, &first, &hanging, columns, wrapped);
        }
        Some((left, right)) if content.starts_with(COMMAND) => {
            wrapped.push_str(&line[..indent]);
            wrapped.push_str(left.trim_end());
            wrapped.push('\n');
            let hanging = " ".repeat(indent + 4);
            add_words(right, &hanging, &hanging, columns, wrapped);
        }
        None if indent > 0 && COMMANDS.iter().any(|command| content.starts_with(command)) => {
            wrapped.push_str(line);
        }
        _ => add_words(content, &line[..indent], &" ".repeat(indent + 2), columns, wrapped),
    }
}

/// Adds words. The first line begins with `first`, and the others begin with `hanging`, or with `first` if that is empty.
fn add_words(text: &str, first: &str, hanging: &str, columns: usize, wrapped: &mut String) {
    let hanging = if hanging.is_empty() { first } else { hanging };
    wrapped.push_str(first);
    let mut width = width_of(first);
    let mut is_empty = true;
    for word in words(text) {
        let length = width_of(word.trim_end());
        if !is_empty && width + length > columns {
            let end = wrapped.trim_end_matches(' ').len();
            wrapped.truncate(end);
            wrapped.push('\n');
            wrapped.push_str(hanging);
            width = width_of(hanging);
        }
        wrapped.push_str(word);
        width += width_of(word);
        is_empty = false;
    }
}

/// Splits a text after its spaces. A quoted name or command is one word, unless it is long.
fn words(text: &str) -> Vec<&str> {
    const QUOTED_BYTES_MAX: usize = 50;
    // `quote` is set in a quote, to whether that is one word.
    let (mut words, mut start, mut quote) = (Vec::new(), 0, None);
    for (index, character) in text.char_indices() {
        match character {
            '`' if quote.is_some() => quote = None,
            '`' => quote = text[index + 1..].find('`').map(|length| length <= QUOTED_BYTES_MAX),
            // A number stays with its percent sign.
            ' ' if quote != Some(true) && !text[index + 1..].starts_with([' ', '%']) => {
                words.push(&text[start..=index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &str) {
        assert_eq!(wrapped_to(text, Some(columns)), expected);
    }

    #[test]
    fn continuation_lines_are_indented() {
        check("hint: one two three four five six\n", 30, "hint: one two three four five\n  six\n");
        check("  one two three four five six seven", 30, "  one two three four five six\n    seven");
        check("short\n", 30, "short\n");
        check("it was 241,144 tokens before (-39 %)", 33, "it was 241,144 tokens before\n  (-39 %)");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let word = "一二三四五";
        check(&[word; 4].join(" "), 31, &format!("{word} {word}\n  {word} {word}"));
    }

    #[test]
    fn quoted_lines_keep_their_mark() {
        check("  | one two three four five six seven", 30, "  | one two three four five\n  | six seven");
    }

    #[test]
    fn commands_are_not_broken() {
        let command = "  jp-compact strategy trust ./strategies/mine\n";
        check(command, 30, command);
        let command = "  (cd mine && cargo build --release && cp target/release/mine .)\n";
        check(command, 30, command);
        check(
            "did you mean `jp-compact show one two`? Yes",
            30,
            "did you mean\n  `jp-compact show one two`?\n  Yes",
        );
    }

    #[test]
    fn text_after_a_long_quote_is_split() {
        let long = format!("`{}`", "word ".repeat(12).trim_end());
        let text = format!("{long} one two `three` four `five six`");
        assert_eq!(words(&text)[12..], ["one ", "two ", "`three` ", "four ", "`five six`"]);
    }

    #[test]
    fn last_column_continues_below_itself() {
        check("  a b  one two three four five six", 30, "  a b  one two three four five\n       six");
        check(
            "  jp-compact list --agent codex  the other sessions",
            40,
            "  jp-compact list --agent codex\n      the other sessions",
        );
    }

    #[test]
    fn unknown_or_tiny_width_changes_nothing() {
        let text = "one two three four five six seven eight nine ten\n";
        assert_eq!(wrapped_to(text, None), text);
        assert_eq!(wrapped_to(text, Some(5)), text);
    }

    proptest! {
        #[test]
        fn only_spaces_and_marks_change(text in "([a-zäあ`|]{0,12} {0,3}){0,30}", columns in 30_usize..90) {
            let solid = |text: &str| text.replace([' ', '\n', '|'], "");
            prop_assert_eq!(solid(&wrapped_to(&text, Some(columns))), solid(&text));
        }
    }
}
