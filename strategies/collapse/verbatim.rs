//! Whether the code blocks of a text are verbatim: each has to stand, line for line, in something that was said.

use jp_compact_strategy::event::Said;
use serde_json::Value;

/// The fenced blocks of some texts, and which of them have been found.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Vec<(String, bool)>);

impl Blocks {
    /// Those of a text are looked for too.
    pub(crate) fn of(&mut self, text: &str) {
        for block in fenced(text) {
            if !self.0.iter().any(|(known, _)| *known == block) {
                self.0.push((block, false));
            }
        }
    }

    /// Looks into a text.
    pub(crate) fn look(&mut self, text: &str) {
        for (block, found) in &mut self.0 {
            *found = *found || holds(text, block);
        }
    }

    /// Looks into all that an event says.
    pub(crate) fn look_into(&mut self, said: &Said) {
        if self.0.iter().all(|(_, found)| *found) {
            return;
        }
        match said {
            Said::User(text) | Said::Assistant(text) | Said::Reasoning(text) => self.look(text),
            Said::Attachment { text, .. } => self.look(text),
            Said::Output(output) => self.look(&output.content),
            Said::Data(value) | Said::Question(value) | Said::Reply(value) => self.look_below(value),
            Said::Call(call) => call.arguments.values().for_each(|value| self.look_below(value)),
            _ => {}
        }
    }

    fn look_below(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.look(text),
            Value::Array(values) => values.iter().for_each(|value| self.look_below(value)),
            Value::Object(members) => members.values().for_each(|value| self.look_below(value)),
            other => self.look(&other.to_string()),
        }
    }

    /// Those of this text that were found nowhere.
    pub(crate) fn missing(&self, text: &str) -> Vec<String> {
        let is_missing = |block: &String| !self.0.iter().any(|(known, found)| known == block && *found);
        fenced(text).into_iter().filter(is_missing).collect()
    }
}

/// What stands in the fences of a text, without the blanks that all lines of a block begin with. A fence that nobody
/// closes ends with the text.
fn fenced(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(opening) = fence(line) else { continue };
        let is_end = |line: &&str| {
            fence(line).is_some_and(|end| end.starts_with(opening))
                && line.trim().trim_matches(['`', '~']).is_empty()
        };
        let inner: Vec<&str> = lines.by_ref().take_while(|line| !is_end(line)).collect();
        let block = plain(&inner);
        if !block.is_empty() {
            blocks.push(block);
        }
    }
    blocks
}

/// The run of three or more that opens or closes a fence.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let length = line.chars().take_while(|other| *other == mark).count();
    // What holds its own mark again is a piece of code in a line.
    (length >= 3 && !line[length..].contains(mark)).then(|| &line[..length])
}

/// Lines without blanks at their ends, and without those that all of them begin with.
fn plain(lines: &[&str]) -> String {
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(common..).unwrap_or("").trim_end()).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// Whether a text holds a block: as it is, or all of its lines further in.
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

    fn missing(answer: &str, said: &str) -> Vec<String> {
        let mut blocks = Blocks::default();
        blocks.of(answer);
        blocks.look(said);
        blocks.missing(answer)
    }

    const SAID: &str = "Look:\n\n    if x {\n        y();\n\n    }\n\nand run `cargo test --all`.";

    #[test]
    fn a_block_that_was_said_is_verbatim_wherever_it_is_indented() {
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
    fn a_block_that_was_changed_is_not() {
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
    fn every_block_is_looked_for_in_all_that_was_said() {
        let answer = "```\none\n```\n```\ntwo\n```\n```\nthree\n```";
        let mut blocks = Blocks::default();
        blocks.of(answer);
        blocks.look("two");
        blocks.look("it was one");
        assert_eq!(blocks.missing(answer), ["three"]);
        assert_eq!(blocks.missing("```\nnever seen\n```"), ["never seen"]);
    }
}
