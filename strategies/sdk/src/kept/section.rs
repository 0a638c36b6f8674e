//! The section "Kept verbatim" of a summary: a heading, and a list for each kind of fact.
//!
//! A model that reads a summary may copy the section, or a part of it. So reading is lenient: it finds a heading of any
//! level, and ends at the first line that cannot be in a section.

use super::fact::FactKind;

const HEADING: &str = "Kept verbatim";

/// The kinds in the order of the section, with the label of each list.
const LABELS: [(FactKind, &str); 4] = [
    (FactKind::Constraint, "Constraints of the user, the latest last:"),
    (FactKind::Command, "Commands:"),
    (FactKind::ErrorCode, "Error codes:"),
    (FactKind::Path, "Paths:"),
];

/// Formats a section. The facts of each kind are in the order of the list.
pub(super) fn format_section(facts: &[(FactKind, &str)]) -> String {
    let mut text = format!("\n\n## {HEADING}\n");
    for (kind, label) in LABELS {
        let mut items = facts.iter().filter(|(other, _)| *other == kind).peekable();
        if items.peek().is_some() {
            text.push_str(&format!("\n{label}\n"));
            items.for_each(|(_, item)| text.push_str(&format!("- {item}\n")));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Prose has about four bytes for each token, and a list of names about two.
const NAME_WEIGHT: usize = 2;

/// Returns the weight of a fact in a section that has facts of these kinds: its bytes, as if it were prose.
pub(super) fn weight(fact: (FactKind, &str), kinds: &[FactKind]) -> usize {
    let (kind, text) = fact;
    let label = LABELS.iter().find(|(other, _)| *other == kind).map_or(0, |(_, label)| label.len() + 2);
    let heading = if kinds.is_empty() { HEADING.len() + 6 } else { 0 };
    let weight = if kind == FactKind::Constraint { 1 } else { NAME_WEIGHT };
    heading + if kinds.contains(&kind) { 0 } else { label } + weight * (text.len() + 3)
}

/// A line of a text with sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line outside the sections, with its line end.
    Text(&'a str),
    /// A fact in a section, and its line.
    Fact(FactKind, &'a str, &'a str),
}

/// Reads a text. The heading, the labels, and the blank lines of its sections are skipped.
pub(super) fn read(text: &str) -> Vec<Line<'_>> {
    let (mut lines, mut in_section, mut kind) = (Vec::new(), false, None);
    for line in text.split_inclusive('\n') {
        let plain = line.trim();
        if is_heading(plain) {
            (in_section, kind) = (true, None);
        } else if !in_section {
            lines.push(Line::Text(line));
        } else if let Some(labeled) = label(plain) {
            kind = Some(labeled);
        } else if let (Some(kind), Some(item)) = (kind, plain.strip_prefix("- ")) {
            lines.push(Line::Fact(kind, item, line));
        } else if !plain.is_empty() {
            in_section = false;
            lines.push(Line::Text(line));
        }
    }
    lines
}

fn is_heading(line: &str) -> bool {
    let is_marked = line.starts_with(['#', '*']);
    is_marked && line.trim_matches(['#', '*', ' ', ':']).eq_ignore_ascii_case(HEADING)
}

fn label(line: &str) -> Option<FactKind> {
    let plain = |text: &str| text.trim_matches(['#', '*', ' ', ':']).to_ascii_lowercase();
    LABELS.iter().find(|(_, label)| plain(label) == plain(line)).map(|(kind, _)| *kind)
}
