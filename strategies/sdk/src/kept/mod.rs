//! The facts of a range that a summary must not lose: constraints of the user, commands, error codes, and paths.
//!
//! The facts that a summary lacks are appended to it in a section, constraints first, then the newest. They are read
//! from the raw events of the range, so a summary of many parts or of older summaries has all of them once. A fact must
//! never be changed: each fact is copied verbatim.

mod choice;
mod fact;
mod limit;
mod names;
mod section;

use std::collections::HashMap;

use jp_compact_schema::version::SUMMARY_BYTES_MAX;
use jp_compact_schema::{Diagnostic, EventLine, Range, constraints};
use serde_json::Value;

use crate::event::{BodyParser, EventBody, ToolCall};
use crate::exchange::Exchange;
use crate::outcome::StrategyError;
use choice::Choice;
pub use fact::FactKind;
pub use limit::SectionLimit;
use section::Line;

/// The arguments of a call that can contain a command. The first one that exists is used.
const COMMAND_ARGUMENTS: [&str; 2] = ["command", "cmd"];
/// The arguments of editors, whose argument `command` is the name of an operation.
const EDITOR_ARGUMENTS: [&str; 2] = ["path", "file_path"];

/// A summary with its section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryWithFacts {
    /// The text.
    pub text: String,
    /// The counts of the facts that were appended and left out. `None` if the summary had all facts.
    pub diagnostic: Option<Diagnostic>,
}

/// The place of a fact in the range.
#[derive(Debug, Clone, Copy)]
struct Occurrence {
    newest: usize,
    /// False for a path that only results and the contents of attachments have. Output of tools can have thousands of
    /// paths that were not used.
    is_used: bool,
}

type Fact = (FactKind, String);

/// The facts of a range.
#[derive(Debug, Clone)]
pub struct KeptFacts {
    range: Range,
    facts: HashMap<Fact, Occurrence>,
    occurrences: usize,
    /// The characters of the range's texts. A summary must have fewer.
    chars: usize,
}

impl KeptFacts {
    /// Creates an empty list for the facts of a range.
    #[must_use]
    pub fn new(range: Range) -> Self {
        Self { range, facts: HashMap::new(), occurrences: 0, chars: 0 }
    }

    /// Reads the remaining events of a request. Call it in the round that has the answer with the summary.
    ///
    /// # Errors
    ///
    /// The error of [`Exchange::next_event`].
    pub fn read(exchange: &mut Exchange<'_>, range: Range) -> Result<Self, StrategyError> {
        let (mut facts, mut parser) = (Self::new(range), BodyParser::default());
        while let Some(line) = exchange.next_event()? {
            facts.add(&line, &parser.parse(&line));
        }
        Ok(facts)
    }

    /// Adds the facts of the next event. An event outside the range stays in the view, and is skipped.
    pub fn add(&mut self, line: &EventLine, body: &EventBody) {
        if !self.range.contains_step(line.turn, line.step) {
            return;
        }
        match body {
            // In a copy of a compacted transcript, a summary represents messages of the user that the copy lacks. Other
            // programs store it as a message of the user.
            EventBody::User(text) | EventBody::Summary(text) => {
                self.add_section(text, |facts, line| {
                    constraints(line).for_each(|rule| facts.record(FactKind::Constraint, rule, true));
                });
                self.add_text(text, true);
            }
            EventBody::Assistant(text) => {
                self.add_section(text, |_, _| ());
                self.add_text(text, true);
            }
            EventBody::Reasoning(text) => self.add_text(text, true),
            EventBody::Attachment { name, text } => {
                self.add_text(text, false);
                names::paths(name).for_each(|path| self.record(FactKind::Path, path, true));
            }
            EventBody::Call(call) => {
                if let Some(command) = command(call) {
                    self.record(FactKind::Command, &command, true);
                }
                call.arguments.values().for_each(|value| self.add_value(value, true));
            }
            EventBody::Output(output) => {
                let codes = names::error_codes(&output.content, output.is_error);
                codes.for_each(|code| self.record(FactKind::ErrorCode, code, true));
                self.add_text(&output.content, false);
            }
            EventBody::Structured(value) | EventBody::Inquiry(value) | EventBody::InquiryAnswer(value) => {
                self.add_value(value, true);
            }
            EventBody::Other => {}
        }
    }

    /// Records the facts of the sections of a text. `add_line` gets each other line.
    fn add_section(&mut self, text: &str, add_line: impl Fn(&mut Self, &str)) {
        for line in section::read(text) {
            match line {
                Line::Fact(kind, fact, _) => self.record(kind, fact, true),
                Line::Text(line) => add_line(self, line),
            }
        }
    }

    fn add_value(&mut self, value: &Value, is_used: bool) {
        match value {
            Value::String(text) => self.add_text(text, is_used),
            Value::Array(values) => values.iter().for_each(|value| self.add_value(value, is_used)),
            Value::Object(members) => members.values().for_each(|value| self.add_value(value, is_used)),
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str, is_used: bool) {
        self.chars += text.chars().count();
        names::paths(text).for_each(|path| self.record(FactKind::Path, path, is_used));
    }

    fn record(&mut self, kind: FactKind, text: &str, is_used: bool) {
        self.occurrences += 1;
        let newest = self.occurrences;
        let occurrence = self.facts.entry((kind, text.to_owned())).or_insert(Occurrence { newest, is_used });
        *occurrence = Occurrence { newest, is_used: is_used || occurrence.is_used };
    }

    /// Appends the facts that a summary lacks, as far as they fit: constraints first, then the newest. A path that is only
    /// in results and in the contents of attachments follows all others. A section that the model copied is replaced. A
    /// blank summary stays blank.
    #[must_use]
    pub fn append_to(&self, summary: &str, limit: SectionLimit) -> SummaryWithFacts {
        let is_known = |kind, fact: &str| self.facts.contains_key(&(kind, fact.to_owned()));
        let text = without_known_facts(summary, is_known);
        if text.trim().is_empty() {
            return SummaryWithFacts { text: summary.to_owned(), diagnostic: None };
        }
        // The host requires that a summary is shorter than its events, and limits its bytes.
        let room = self.chars.saturating_sub(text.chars().count() + 1);
        let greatest = usize::try_from(SUMMARY_BYTES_MAX).unwrap_or(usize::MAX);
        let bytes = limit.bytes.min(room).min(greatest.saturating_sub(text.len()));
        let mut choice = Choice::new(&text, SectionLimit { bytes, ..limit });
        self.by_priority().into_iter().for_each(|fact| choice.offer(fact));
        let diagnostic = choice.diagnostic();
        let Choice { mut chosen, .. } = choice;
        if chosen.is_empty() {
            return SummaryWithFacts { text, diagnostic };
        }
        chosen.sort_by_key(|(kind, fact)| self.newest(*kind, fact));
        SummaryWithFacts {
            text: format!("{}{}", text.trim_end(), section::format_section(&chosen)),
            diagnostic,
        }
    }

    fn newest(&self, kind: FactKind, fact: &str) -> usize {
        self.facts.get(&(kind, fact.to_owned())).map_or(0, |occurrence| occurrence.newest)
    }

    fn by_priority(&self) -> Vec<(FactKind, &str)> {
        let mut facts: Vec<_> = self.facts.iter().collect();
        facts.sort_by_key(|((kind, _), occurrence)| {
            let class = match kind {
                FactKind::Constraint => 0,
                _ if occurrence.is_used => 1,
                _ => 2,
            };
            (class, std::cmp::Reverse(occurrence.newest))
        });
        facts.into_iter().map(|((kind, text), _)| (*kind, text.as_str())).collect()
    }
}

/// Returns a summary without its section. A strategy shows older summaries to a model without their sections, because
/// the facts are read from the raw events again.
#[must_use]
pub fn without_section(summary: &str) -> String {
    without_known_facts(summary, |_, _| true)
}

/// Returns a text without its sections. Unknown facts stay, so that no text of a model is lost.
fn without_known_facts(text: &str, is_known: impl Fn(FactKind, &str) -> bool) -> String {
    let kept = section::read(text).into_iter().filter_map(|line| match line {
        Line::Text(line) => Some(line),
        Line::Fact(kind, fact, line) => (!is_known(kind, fact)).then_some(line),
    });
    let kept: String = kept.collect();
    if kept.len() == text.len() { kept } else { kept.trim().to_owned() }
}

/// Returns the first line of the command of a call. `["bash", "-lc", LINE]` is LINE.
fn command(call: &ToolCall) -> Option<String> {
    if EDITOR_ARGUMENTS.iter().any(|name| call.arguments.contains_key(*name)) {
        return None;
    }
    let command = match COMMAND_ARGUMENTS.iter().find_map(|name| call.arguments.get(*name))? {
        Value::String(command) => command.clone(),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                ["bash" | "sh" | "zsh", "-c" | "-lc", line] => (*line).to_owned(),
                words => words.join(" "),
            }
        }
        _ => return None,
    };
    let first = command.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(first.to_owned())
}

#[cfg(test)]
mod tests;
