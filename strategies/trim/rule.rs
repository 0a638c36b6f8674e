//! The rule of a run: which results are old, and which part of them stays.

/// A complete rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrimRule {
    pub(crate) keep_results: usize,
    pub(crate) keep_steps: usize,
    pub(crate) keep_turns: usize,
    /// The newest results stay, up to this total number of tokens. Results that another rule keeps do not count.
    pub(crate) keep_tokens: u64,
    /// The number of characters that stay at the start and at the end of a result.
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// A result with at most this number of characters stays.
    pub(crate) min_chars: usize,
    pub(crate) placeholder: String,
    pub(crate) exempt: Vec<String>,
    pub(crate) keep_errors: bool,
    pub(crate) arguments: bool,
    /// The minimum number of tokens of all old results.
    pub(crate) min_gain: u64,
}

impl Default for TrimRule {
    fn default() -> Self {
        Self {
            keep_steps: 3,
            first: 250,
            last: 250,
            placeholder: "[... {chars} characters removed ...]".to_owned(),
            ..Self::clear("")
        }
    }
}

impl TrimRule {
    /// Returns a rule that clears every result.
    pub(crate) fn clear(placeholder: &str) -> Self {
        Self {
            keep_results: 0,
            keep_steps: 0,
            keep_turns: 0,
            keep_tokens: 0,
            first: 0,
            last: 0,
            min_chars: 0,
            placeholder: placeholder.to_owned(),
            exempt: Vec::new(),
            keep_errors: false,
            arguments: false,
            min_gain: 0,
        }
    }

    /// Returns the text that replaces a result, or `None` if the result stays.
    pub(crate) fn shortened(&self, tool: &str, content: &str) -> Option<String> {
        let chars = content.chars().count();
        let kept = self.first.saturating_add(self.last);
        let removed = chars.checked_sub(kept).filter(|removed| *removed > 0)?;
        if chars <= self.min_chars {
            return None;
        }
        let byte = |nth: usize| content.char_indices().nth(nth).map_or(content.len(), |(byte, _)| byte);
        let (start, end) = (byte(self.first), byte(chars - self.last));
        let placeholder = self
            .placeholder
            .replace("{tool}", tool)
            .replace("{chars}", &removed.to_string())
            .replace("{lines}", &content[start..end].lines().count().to_string());
        let parts = [&content[..start], &placeholder, &content[end..]];
        let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
        (text.chars().count() < chars).then_some(text)
    }
}
