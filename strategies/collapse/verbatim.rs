//! The check that code blocks of a summary are verbatim. Each block must occur in one text of the raw
//! events of the range or in an earlier summary of the range. A text is searched as the model saw it, so a block that
//! the model did not see completely must not pass. Trailing whitespace and a common indentation are ignored.
//!
//! If a block is not found, the model is asked once more. If one is still missing, the answer is refused
//! (`answer_refused`, exit code 17). Directives must be verbatim too, but cannot be checked, because they are not in a
//! fence.

use jp_compact_strategy::event::EventBody;
use jp_compact_strategy::text::{closes_fence, fence_mark};
use serde_json::Value;

/// The fenced code blocks of some texts, and whether each was found.
#[derive(Debug, Default)]
pub(crate) struct CodeBlocks(Vec<(String, bool)>);

impl CodeBlocks {
    /// Adds the blocks of a text.
    pub(crate) fn add_from(&mut self, text: &str) {
        for block in fenced(text) {
            if !self.0.iter().any(|(known, _)| *known == block) {
                self.0.push((block, false));
            }
        }
    }

    /// Searches a text for the blocks.
    pub(crate) fn search(&mut self, text: &str) {
        for (block, found) in &mut self.0 {
            *found = *found || holds(text, block);
        }
    }

    /// Searches all texts of an event.
    pub(crate) fn search_event(&mut self, body: &EventBody) {
        if self.0.iter().all(|(_, found)| *found) {
            return;
        }
        match body {
            EventBody::User(text)
            | EventBody::Summary(text)
            | EventBody::Assistant(text)
            | EventBody::Reasoning(text) => self.search(text),
            EventBody::Attachment { text, .. } => self.search(text),
            EventBody::Output(output) => self.search(&output.content),
            EventBody::Structured(value) | EventBody::Inquiry(value) | EventBody::InquiryAnswer(value) => {
                self.search_value(value);
            }
            EventBody::Call(call) => call.arguments.values().for_each(|value| self.search_value(value)),
            _ => {}
        }
    }

    fn search_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.search(text),
            Value::Array(values) => values.iter().for_each(|value| self.search_value(value)),
            Value::Object(members) => members.values().for_each(|value| self.search_value(value)),
            other => self.search(&other.to_string()),
        }
    }

    /// Returns the blocks of a text that were not found.
    pub(crate) fn missing(&self, text: &str) -> Vec<String> {
        let is_missing = |block: &String| !self.0.iter().any(|(known, found)| known == block && *found);
        fenced(text).into_iter().filter(is_missing).collect()
    }
}

/// Returns the fenced blocks of a text, without their common indentation. An unclosed fence ends with the text.
fn fenced(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(opening) = fence_mark(line) else { continue };
        let inner: Vec<&str> = lines.by_ref().take_while(|line| !closes_fence(line, opening)).collect();
        let block = dedent(&inner);
        if !block.is_empty() {
            blocks.push(block);
        }
    }
    blocks
}

/// Removes trailing whitespace and the common indentation.
fn dedent(lines: &[&str]) -> String {
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(common..).unwrap_or("").trim_end()).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// Returns whether a text contains a block, possibly with additional indentation of all lines.
fn holds(text: &str, block: &str) -> bool {
    if text.contains(block) {
        return true;
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let wanted: Vec<&str> = block.lines().collect();
    lines.windows(wanted.len()).any(|window| {
        let Some(indent) = window[0].strip_suffix(wanted[0]) else { return false };
        indent.trim().is_empty()
            && window.iter().zip(&wanted).all(|(line, wanted)| {
                if line.is_empty() { wanted.is_empty() } else { line.strip_prefix(indent) == Some(*wanted) }
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(answer: &str, body: &str) -> Vec<String> {
        let mut blocks = CodeBlocks::default();
        blocks.add_from(answer);
        blocks.search(body);
        blocks.missing(answer)
    }

    const SAID: &str = "Look:\n\n    if x {\n        y();\n\n    }\n\nand run `cargo test --all`.";

    #[test]
    fn finds_blocks_with_any_indentation() {
        for answer in [
            "No code at all.",
            "```\ncargo test --all\n```",
            "```sh\n  cargo test --all\n```",
            "```rust\nif x {\n    y();\n\n}\n```",
            "~~~~\n    if x {\n        y();  \n\n    }\n~~~~",
            "  ```\n  if x {\n      y();\n  ```",
            "```\n\n```",
            "```one``` in a line",
        ] {
            assert_eq!(missing(answer, SAID), Vec::<String>::new(), "{answer}");
        }
    }

    #[test]
    fn changed_blocks_are_missing() {
        for (answer, block) in [
            ("```\ncargo test --workspace\n```", "cargo test --workspace"),
            ("```\nif x {\n  y();\n\n}\n```", "if x {\n  y();\n\n}"),
            ("```\nif x {\n    y();\n}\n```", "if x {\n    y();\n}"),
            ("```\nif x {\n    // ...\n}", "if x {\n    // ...\n}"),
            ("````\n```\ncargo\n```\n````", "```\ncargo\n```"),
        ] {
            assert_eq!(missing(answer, SAID), [block], "{answer}");
        }
    }

    #[test]
    fn searches_every_block_in_every_text() {
        let answer = "```\none\n```\n```\ntwo\n```\n```\nthree\n```";
        let mut blocks = CodeBlocks::default();
        blocks.add_from(answer);
        blocks.search("two");
        blocks.search("it was one");
        assert_eq!(blocks.missing(answer), ["three"]);
        assert_eq!(blocks.missing("```\nnever seen\n```"), ["never seen"]);
    }
}
