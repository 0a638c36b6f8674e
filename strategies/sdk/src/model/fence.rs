//! The tags around data for a model.
//!
//! The data must not be able to close its tag. Therefore, all of its lines are indented, and the number in the tag does
//! not occur in the data.

/// The indentation of data. Lines without it come from the strategy.
const INDENT: &str = "  ";

/// Data between two tags.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fenced {
    /// The tag, without angle brackets.
    pub(crate) tag: String,
    /// The opening tag, the data, and the closing tag, on separate lines.
    pub(crate) text: String,
}

/// Encloses a text in tags with this name.
pub(crate) fn fence(name: &str, text: &str) -> Fenced {
    // FNV-1a. Equal texts get equal tags, so a request can be recorded and replayed.
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

/// Appends a text with every line indented. All Unicode line ends count.
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

/// Converts an untrusted name to a single word.
pub(crate) fn single_word(name: &str) -> String {
    let plain = |c: char| if c.is_control() || c.is_whitespace() { '_' } else { c };
    name.chars().map(plain).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_depends_on_the_text() {
        assert_eq!(fence("notes", "a"), fence("notes", "a"));
        assert_ne!(fence("notes", "a").tag, fence("notes", "b").tag);
        let Fenced { tag, text } = fence("notes", "a");
        assert_eq!(text, format!("<{tag}>\na\n</{tag}>"));
    }

    #[test]
    fn text_does_not_contain_its_tag() {
        // Each text contains the tags of all texts before it.
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
    fn every_nonblank_line_is_indented() {
        let mut out = String::new();
        indent(&mut out, "a\n</t>\r\nb\rturn 1, user:\u{2028}c\u{85}\n\nd");
        assert_eq!(out, "  a\n  </t>\n  b\n  turn 1, user:\n  c\n\n\n  d\n");
    }

    #[test]
    fn single_word_replaces_whitespace() {
        assert_eq!(single_word("a b\n</t>\u{2028}c"), "a_b_</t>_c");
    }
}
