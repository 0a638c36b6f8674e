//! The comparison itself: one entry for each event that at least one of two views shows, in the order of the stream.

use jp_compact_core::event::Event;
use jp_compact_core::projection::{Decider, project_with_deciders, project_with_pairs};
use jp_compact_core::view::{Item, ItemOrigin, Part, View};
use jp_compact_core::{Pairs, Position, Stream, TurnRange};
use jp_compact_schema::document::ChangeKind;

use crate::selection::OverlayChoice;
use crate::text::{keeps_part, part_text};

/// Two views of a stream, and the difference of each event.
#[derive(Debug)]
pub struct Comparison<'a> {
    pub stream: &'a Stream,
    pub pairs: &'a Pairs,
    pub before: View,
    pub after: View,
    /// One entry for each event that one of the views shows. The entries of unchanged events have no change.
    pub entries: Vec<DiffEntry>,
}

/// An event, or the text of a summary, in two views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffEntry {
    /// `None` if both views show the same.
    pub kind: Option<ChangeKind>,
    /// The index of the overlay that determines its form in the second view.
    pub overlay: Option<usize>,
    /// The index of its item in the first view.
    pub before: Option<usize>,
    /// The index of its item in the second view.
    pub after: Option<usize>,
}

/// The place of an entry in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryPlace {
    /// An element of the stream.
    Element(usize),
    /// The range that a summary replaces.
    Summary(TurnRange),
}

impl<'a> Comparison<'a> {
    /// Compares the views of a stream with two lists of overlays.
    #[must_use]
    pub fn new(stream: &'a Stream, pairs: &'a Pairs, choice: &OverlayChoice) -> Self {
        let before = project_with_pairs(stream, pairs, &choice.before);
        let (after, deciders) = project_with_deciders(stream, pairs, &choice.after);
        let entries = Merge::new(stream, &before, &after, &deciders).run();
        Self { stream, pairs, before, after, entries }
    }

    /// Returns the parts of an entry in both views.
    #[must_use]
    pub fn parts(&self, entry: &DiffEntry) -> (Option<&Part>, Option<&Part>) {
        (
            entry.before.map(|index| &self.before.items()[index].part),
            entry.after.map(|index| &self.after.items()[index].part),
        )
    }

    /// Returns the texts of an entry in both views. A view that does not show it has an empty text.
    #[must_use]
    pub fn texts(&self, entry: &DiffEntry) -> (String, String) {
        let (before, after) = self.parts(entry);
        let text = |part: Option<&Part>| part.map(|part| part_text(self.stream, part)).unwrap_or_default();
        (text(before), text(after))
    }

    /// Returns the number of characters of an entry in both views.
    #[must_use]
    pub fn characters(&self, entry: &DiffEntry) -> (u64, u64) {
        let (before, after) = self.texts(entry);
        (before.chars().count() as u64, after.chars().count() as u64)
    }

    #[must_use]
    pub fn place(&self, entry: &DiffEntry) -> EntryPlace {
        let item = entry.before.map(|index| &self.before.items()[index]);
        let item = item.or_else(|| entry.after.map(|index| &self.after.items()[index]));
        item.map_or(EntryPlace::Element(0), place)
    }

    /// Returns the turn of an entry, and its step unless it is an event of the user. A summary has the position at
    /// which its range begins.
    #[must_use]
    pub fn position(&self, entry: &DiffEntry) -> Position {
        match self.place(entry) {
            EntryPlace::Element(element) => {
                let turn = self.stream.events()[element].turn;
                Position { turn, step: self.stream.steps().step(element) }
            }
            EntryPlace::Summary(range) => range.start(),
        }
    }

    /// Returns whether an entry is in a range of turns or steps. A summary is in a range if it replaces a part of the
    /// range.
    #[must_use]
    pub fn is_in(&self, entry: &DiffEntry, range: TurnRange) -> bool {
        match self.place(entry) {
            EntryPlace::Element(element) => self.stream.is_in(range, element),
            EntryPlace::Summary(summarized) => summarized.overlaps(range),
        }
    }

    /// Returns the event of an entry. `None` for a summary.
    #[must_use]
    pub fn event(&self, entry: &DiffEntry) -> Option<&'a Event> {
        match self.place(entry) {
            EntryPlace::Element(element) => Some(&self.stream.events()[element]),
            EntryPlace::Summary(_) => None,
        }
    }
}

fn place(item: &Item) -> EntryPlace {
    match (item.part.element(), item.origin.summarized()) {
        (Some(element), _) => EntryPlace::Element(element),
        (None, Some(range)) => EntryPlace::Summary(range),
        // A summary always has a range.
        (None, None) => EntryPlace::Element(0),
    }
}

/// The merge of two views. Between two events that both views show, the items of the first view precede the items of
/// the second view, as removed lines precede added lines.
struct Merge<'a> {
    stream: &'a Stream,
    before: &'a [Item],
    after: &'a [Item],
    deciders: &'a [Option<Decider>],
    entries: Vec<DiffEntry>,
}

impl<'a> Merge<'a> {
    fn new(stream: &'a Stream, before: &'a View, after: &'a View, deciders: &'a [Option<Decider>]) -> Self {
        let (before, after) = (before.items(), after.items());
        Self { stream, before, after, deciders, entries: Vec::with_capacity(before.len().max(after.len())) }
    }

    fn run(mut self) -> Vec<DiffEntry> {
        let in_before = shown_elements(self.stream, self.before);
        let in_after = shown_elements(self.stream, self.after);
        let is_shared =
            |item: &Item| item.part.element().is_some_and(|element| in_before[element] && in_after[element]);
        let (mut next_before, mut next_after) = (0, 0);
        loop {
            let end = |items: &[Item], start: usize| {
                items[start..].iter().position(is_shared).map_or(items.len(), |length| start + length)
            };
            let (end_before, end_after) = (end(self.before, next_before), end(self.after, next_after));
            self.add_unshared(next_before..end_before, next_after..end_after);
            if end_before == self.before.len() || end_after == self.after.len() {
                return self.entries;
            }
            // Both views keep the order of the stream, so these are the same element.
            self.add_shared(end_before, end_after);
            (next_before, next_after) = (end_before + 1, end_after + 1);
        }
    }

    /// Adds the items between two elements that both views show.
    fn add_unshared(&mut self, before: std::ops::Range<usize>, after: std::ops::Range<usize>) {
        let (before_items, after_items) = (self.before, self.after);
        let is_same = |left: &Item, right: &Item| left.origin == right.origin && left.part == right.part;
        let mut equal = Vec::new();
        for index in before {
            let item = &before_items[index];
            if !self.is_listed(&item.part) {
                continue;
            }
            let mut twin = None;
            if item.part.element().is_none() {
                twin = after.clone().find(|other| is_same(item, &after_items[*other]));
            }
            let decider = self.decider(item);
            let kind = match (twin, decider) {
                (Some(_), _) => None,
                (None, Some(Decider { is_summary: true, .. })) => Some(ChangeKind::Summarized),
                (None, _) => Some(ChangeKind::Removed),
            };
            equal.extend(twin);
            let overlay = decider.map(|decider| decider.overlay);
            self.entries.push(DiffEntry { kind, overlay, before: Some(index), after: twin });
        }
        for index in after {
            let item = &after_items[index];
            if equal.contains(&index) || !self.is_listed(&item.part) {
                continue;
            }
            let is_summary = item.part.element().is_none();
            let kind = Some(if is_summary { ChangeKind::Added } else { ChangeKind::Restored });
            let overlay = self.decider(item).map(|decider| decider.overlay);
            self.entries.push(DiffEntry { kind, overlay, before: None, after: Some(index) });
        }
    }

    fn add_shared(&mut self, before: usize, after: usize) {
        let (old, new) = (&self.before[before], &self.after[after]);
        if !self.is_listed(&old.part) {
            return;
        }
        let kind = self.change_of_part(&old.part, &new.part);
        let overlay = self.decider(new).map(|decider| decider.overlay);
        self.entries.push(DiffEntry { kind, overlay, before: Some(before), after: Some(after) });
    }

    fn change_of_part(&self, old: &Part, new: &Part) -> Option<ChangeKind> {
        match (old, new) {
            (Part::Kept(_) | Part::Short(_), Part::Kept(_) | Part::Short(_)) => None,
            (old, new) if old == new => None,
            (_, Part::Kept(_) | Part::Short(_)) => Some(ChangeKind::Restored),
            (_, Part::Emptied(_)) => Some(ChangeKind::Shortened),
            (old, Part::Replaced(_, text)) => {
                let is_part = keeps_part(&part_text(self.stream, old), text);
                Some(if is_part { ChangeKind::Shortened } else { ChangeKind::Replaced })
            }
            _ => Some(ChangeKind::Replaced),
        }
    }

    /// Returns whether an entry is made for a part: providers receive it, and its text is not constant.
    fn is_listed(&self, part: &Part) -> bool {
        match part {
            Part::SummaryStart { .. } | Part::SummaryRequest { .. } => false,
            Part::SummaryResponse { .. } | Part::SummaryNote { .. } => true,
            Part::Kept(element)
            | Part::Short(element)
            | Part::Emptied(element)
            | Part::Replaced(element, _) => self.stream.events()[*element].kind.is_provider_visible(),
        }
    }

    /// Returns the overlay that determines the form of an item in the second view. For a summary, this is the overlay
    /// of the first event that the summary replaces.
    fn decider(&self, item: &Item) -> Option<Decider> {
        if let Some(element) = item.part.element() {
            return self.deciders[element];
        }
        let ItemOrigin::Summary { from, .. } = item.origin else { return None };
        let range = item.origin.summarized()?;
        let events = self.stream.events();
        let first = events.partition_point(|event| event.turn < from);
        let in_range = (first..events.len()).take_while(|element| events[*element].turn <= range.to());
        let mut deciders = in_range
            .filter(|element| self.stream.is_in(range, *element))
            .filter_map(|element| self.deciders[element]);
        deciders.find(|decider| decider.is_summary)
    }
}

/// Returns, for each element, whether items show it.
fn shown_elements(stream: &Stream, items: &[Item]) -> Vec<bool> {
    let mut shown = vec![false; stream.events().len()];
    for element in items.iter().filter_map(|item| item.part.element()) {
        shown[element] = true;
    }
    shown
}
