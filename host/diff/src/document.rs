//! The entries of a comparison with their sizes, and as parts of a JSON document. The sizes of all entries are computed
//! once. Hunks are computed while an entry is written, so that a whole report is never in memory.

use std::collections::BTreeMap;

use jp_compact_core::TurnRange;
use jp_compact_core::estimate::{Estimate, tokens};
use jp_compact_core::event::Kind;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::view::Part;
use jp_compact_schema::document::{
    ChangeContent, ChangeCounts, ChangeKind, DiffChange, DiffOverlay, ViewCharacters, ViewTokens,
};
use serde::{Serialize, Serializer};

use crate::compare::{Comparison, DiffEntry, EntryPlace};
use crate::hunks::hunks;

/// The changed entries of a comparison, with their sizes.
#[derive(Debug)]
pub struct SizedChanges<'a> {
    pub comparison: &'a Comparison<'a>,
    pub changes: Vec<SizedChange>,
    /// The number of entries of each kind.
    pub counts: ChangeCounts,
}

/// A changed entry with its sizes in both views.
#[derive(Debug, Clone, Copy)]
pub struct SizedChange {
    pub entry: DiffEntry,
    pub kind: ChangeKind,
    sizes: ChangeSizes,
}

/// The weights and the characters in both views.
#[derive(Debug, Clone, Copy, Default)]
struct ChangeSizes {
    weight_before: u64,
    weight_after: u64,
    characters: ViewCharacters,
}

impl ChangeSizes {
    fn add(&mut self, other: &Self) {
        self.weight_before += other.weight_before;
        self.weight_after += other.weight_after;
        self.characters.view_before += other.characters.view_before;
        self.characters.view_after += other.characters.view_after;
    }

    fn tokens(&self) -> ViewTokens {
        ViewTokens { view_before: tokens(self.weight_before), view_after: tokens(self.weight_after) }
    }
}

impl<'a> SizedChanges<'a> {
    /// Measures the changed entries: all of them, or those in a range.
    #[must_use]
    pub fn new(comparison: &'a Comparison<'a>, estimate: &Estimate, range: Option<TurnRange>) -> Self {
        let (mut changes, mut counts) = (Vec::new(), ChangeCounts::default());
        for entry in &comparison.entries {
            if range.is_some_and(|range| !comparison.is_in(entry, range)) {
                continue;
            }
            match entry.kind {
                None => counts.kept += 1,
                Some(kind) => {
                    *counts.of_kind(kind) += 1;
                    changes.push(SizedChange {
                        entry: *entry,
                        kind,
                        sizes: measure(comparison, estimate, entry),
                    });
                }
            }
        }
        Self { comparison, changes, counts }
    }

    /// Returns the sums over all changes. Each is rounded up only once.
    #[must_use]
    pub fn total(&self) -> (ViewTokens, ViewCharacters) {
        let mut sizes = ChangeSizes::default();
        self.changes.iter().for_each(|change| sizes.add(&change.sizes));
        (sizes.tokens(), sizes.characters)
    }

    /// Returns the overlays that caused a change, with the sums of their changes. `origin` returns the strategy and its
    /// version for the index of an overlay.
    #[must_use]
    pub fn overlays(
        &self,
        overlays: &[Overlay],
        origin: impl Fn(usize) -> Option<(String, String)>,
    ) -> Vec<DiffOverlay> {
        let mut sums: BTreeMap<usize, (usize, ChangeSizes)> = BTreeMap::new();
        for change in &self.changes {
            if let Some(index) = change.entry.overlay {
                let (events, sizes) = sums.entry(index).or_default();
                *events += 1;
                sizes.add(&change.sizes);
            }
        }
        let rows = sums.into_iter().filter_map(|(index, (events, sizes))| {
            let overlay = overlays.get(index)?;
            let (strategy, version) = origin(index).unzip();
            Some(DiffOverlay {
                number: index + 1,
                from_turn: overlay.from_turn,
                to_turn: overlay.to_turn,
                from_step: overlay.from_step,
                to_step: overlay.to_step,
                kinds: overlay.policy_names().into_iter().map(str::to_owned).collect(),
                strategy,
                version,
                events,
                tokens: sizes.tokens(),
                characters: sizes.characters,
            })
        });
        rows.collect()
    }

    /// Returns a change as a part of a document, without hunks.
    #[must_use]
    pub fn document(&self, change: &SizedChange) -> DiffChange {
        let (comparison, entry) = (self.comparison, &change.entry);
        let (position, event) = (comparison.position(entry), comparison.event(entry));
        DiffChange {
            change: change.kind,
            overlay: entry.overlay.map(|index| index + 1),
            turn: position.turn,
            step: position.step,
            event: event.and_then(|event| event.seq),
            content: event.map_or(ChangeContent::Summary, |event| content(event.kind)),
            tool: self.tool(entry),
            is_error: event.is_some_and(|event| event.kind == Kind::ToolResponse { is_error: true }),
            tokens: change.sizes.tokens(),
            characters: change.sizes.characters,
            hunks: None,
        }
    }

    /// Like [`SizedChanges::document`], with hunks.
    #[must_use]
    pub fn document_with_hunks(&self, change: &SizedChange) -> DiffChange {
        let (before, after) = self.comparison.texts(&change.entry);
        DiffChange { hunks: Some(hunks(&before, &after)), ..self.document(change) }
    }

    /// Returns the tool name of a call or its response.
    fn tool(&self, entry: &DiffEntry) -> Option<String> {
        let Comparison { stream, pairs, .. } = self.comparison;
        let EntryPlace::Element(element) = self.comparison.place(entry) else { return None };
        let name = stream.events()[element].kind.is_tool().then(|| pairs.tool(stream, element))?;
        Some(name.map_or_else(|| "unknown".to_owned(), |name| name.into_owned()))
    }
}

/// An entry of a comparison with its size, even if it has no change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntrySize {
    /// `None` if both views show the same.
    pub change: Option<ChangeKind>,
    pub content: ChangeContent,
    /// The tokens in the first view, or in the second view if only the second view shows the event.
    pub tokens: u64,
}

/// Returns the sizes of all entries, in order.
#[must_use]
pub fn entry_sizes(comparison: &Comparison<'_>, estimate: &Estimate) -> Vec<EntrySize> {
    let size = |entry: &DiffEntry| {
        let (before, after) = comparison.parts(entry);
        EntrySize {
            change: entry.kind,
            content: comparison.event(entry).map_or(ChangeContent::Summary, |event| content(event.kind)),
            tokens: before.or(after).map_or(0, |part| tokens(estimate.part_weight(part))),
        }
    };
    comparison.entries.iter().map(size).collect()
}

/// The changes as a list of a document. Each is computed while it is written.
#[derive(Debug)]
pub struct StreamedChanges<'a> {
    pub changes: &'a SizedChanges<'a>,
    pub with_hunks: bool,
}

impl Serialize for StreamedChanges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = |change| match self.with_hunks {
            true => self.changes.document_with_hunks(change),
            false => self.changes.document(change),
        };
        serializer.collect_seq(self.changes.changes.iter().map(document))
    }
}

/// Measures an entry in both views. The weight of a summary includes the constant text before it.
fn measure(comparison: &Comparison<'_>, estimate: &Estimate, entry: &DiffEntry) -> ChangeSizes {
    let weight = |part: &Part| {
        let before_summary = match part {
            Part::SummaryResponse { timestamp, .. } => {
                estimate.part_weight(&Part::SummaryRequest { timestamp: *timestamp })
            }
            _ => 0,
        };
        before_summary + estimate.part_weight(part)
    };
    let (before, after) = comparison.parts(entry);
    let (characters_before, characters_after) = comparison.characters(entry);
    ChangeSizes {
        weight_before: before.map_or(0, weight),
        weight_after: after.map_or(0, weight),
        characters: ViewCharacters { view_before: characters_before, view_after: characters_after },
    }
}

fn content(kind: Kind) -> ChangeContent {
    match kind {
        Kind::Reasoning => ChangeContent::Reasoning,
        Kind::Message | Kind::Data => ChangeContent::Assistant,
        Kind::ToolRequest => ChangeContent::ToolRequest,
        Kind::ToolResponse { .. } => ChangeContent::ToolResponse,
        _ => ChangeContent::User,
    }
}
