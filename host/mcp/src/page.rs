//! Pages of a long text. Offsets count characters, so a page never splits a character.

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<'a> {
    pub text: &'a str,
    /// The number of characters of the whole text.
    pub total: usize,
    /// The offset of the next page, if there is one.
    pub next: Option<usize>,
}

/// Returns the part of a text that begins at `offset` and has at most `length` characters, but at least one.
#[must_use]
pub fn page(text: &str, offset: usize, length: usize) -> Page<'_> {
    // An empty page would be its own next page.
    let length = length.max(1);
    let byte = |characters: usize| text.char_indices().nth(characters).map_or(text.len(), |(byte, _)| byte);
    let (start, end) = (byte(offset), byte(offset.saturating_add(length)));
    let next = (end < text.len()).then(|| offset.saturating_add(length));
    Page { text: &text[start..end], total: text.chars().count(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_together_are_the_text() {
        let text = "aä€😀".repeat(7);
        for length in [1, 3, 28, 100] {
            let (mut joined, mut offset) = (String::new(), Some(0));
            while let Some(from) = offset {
                let page = page(&text, from, length);
                assert_eq!(page.total, 28);
                joined += page.text;
                offset = page.next;
            }
            assert_eq!(joined, text, "pages of {length}");
        }
    }

    #[test]
    fn page_has_at_least_one_character() {
        assert_eq!(page("ab", 0, 0), Page { text: "a", total: 2, next: Some(1) });
    }

    #[test]
    fn offset_after_the_end_is_an_empty_page() {
        assert_eq!(page("abc", 9, 5), Page { text: "", total: 3, next: None });
    }
}
