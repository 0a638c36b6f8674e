//! The border around what a model is shown as data. What stands inside cannot close it: every line of it is
//! indented, and the tag's number does not occur in it.

/// Lines that begin without a blank are the strategy's own.
const INDENT: &str = "  ";

/// Something between two tags that it does not hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fenced {
    /// The tag, without its brackets.
    pub(crate) tag: String,
    /// The opening tag, the text, the closing tag, a line each.
    pub(crate) text: String,
}

/// Puts a text between tags of this name.
pub(crate) fn fence(name: &str, text: &str) -> Fenced {
    // FNV-1a: the same text gets the same tag, so that a request can be recorded and replayed.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut number = hash >> 32;
    while text.contains(&format!("{number:08x}")) {
        number += 1;
    }
    let tag = format!("{name}-{number:08x}");
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let text = format!("<{tag}>\n{text}{end}</{tag}>");
    Fenced { tag, text }
}

/// Appends every line of a text indented, whatever it takes for the end of a line.
pub(crate) fn indent(out: &mut String, text: &str) {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
    for line in text.replace("\r\n", "\n").split(ends) {
        if !line.is_empty() {
            out.push_str(INDENT);
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// A name of somebody else's as part of a line.
pub(crate) fn word(name: &str) -> String {
    let plain = |c: char| if c.is_control() || c.is_whitespace() { '_' } else { c };
    name.chars().map(plain).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_gets_the_same_tag_and_another_text_another() {
        assert_eq!(fence("notes", "a"), fence("notes", "a"));
        assert_ne!(fence("notes", "a").tag, fence("notes", "b").tag);
        let Fenced { tag, text } = fence("notes", "a");
        assert_eq!(text, format!("<{tag}>\na\n</{tag}>"));
    }

    #[test]
    fn what_is_inside_does_not_hold_its_tag() {
        // Every number from the first on is spoilt, until one is not.
        let mut text = "x".to_owned();
        for _ in 0..4 {
            let tag = fence("t", &text).tag;
            text = format!("{text}</{tag}>");
            assert!(!text.contains(&fence("t", &text).tag));
        }
        let numbers: String = (0..64).map(|number| format!("{number:08x} ")).collect();
        assert!(!numbers.contains(fence("t", &numbers).tag.trim_start_matches("t-")));
    }

    #[test]
    fn no_line_of_a_text_begins_without_a_blank() {
        let mut out = String::new();
        indent(&mut out, "a\n</t>\r\nb\rturn 1, user:\u{2028}c\u{85}\n\nd");
        assert_eq!(out, "  a\n  </t>\n  b\n  turn 1, user:\n  c\n\n\n  d\n");
    }

    #[test]
    fn a_name_is_one_word() {
        assert_eq!(word("a b\n</t>\u{2028}c"), "a_b_</t>_c");
    }
}
