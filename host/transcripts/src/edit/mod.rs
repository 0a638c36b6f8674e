//! The writer of a view in the form of its source. Bytes of the source are copied, except where an overlay changes an
//! event. A record without remaining events is deleted, and the records that followed it are linked to the record
//! before it. The pair of records of a summary is inserted in place of the first record that the summary replaces.

mod deletions;
mod record_name;
mod role_merge;
mod summary_pair;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use jp_compact_core::external::ExternalEvent;
use jp_compact_core::source;
use jp_compact_core::splice::{Piece, Pieces};
use jp_compact_core::stream::Stream;
use jp_compact_core::turn::TurnRange;
use jp_compact_core::view::{Part, View, note_text};
use jp_compact_json::Span;

use self::deletions::Deletions;
use self::summary_pair::{LinkIndex, PairNames, Summary, follow, pairs};
use crate::disposition::Disposition;
use crate::reader::Reader;
use crate::readers::reader;
use crate::source_map::{Deletion, ElementRef, EventSource, List, ListForm, SourceMap};
use crate::transcript::Transcript;

/// Writes a view in the format of its transcript. A transcript without overlays is returned as one piece with the
/// bytes of the file.
#[must_use]
pub fn render(transcript: &Transcript, view: &View) -> Vec<Piece> {
    let stream = transcript.stream();
    let Some((map, external)) = transcript.source().zip(stream.external()) else {
        return source::render(stream, view);
    };
    let reader = reader(map.format);
    let (mut dispositions, summaries) = dispositions(stream, map, view);
    role_merge::delete_stale_reasoning(stream, view, &mut dispositions);
    if !reader.is_some_and(Reader::shows_reasoning) {
        role_merge::delete_lone_reasoning(stream, map, &mut dispositions);
    }
    let mut edits = Edits { written: Vec::with_capacity(map.sources.len()), ..Edits::default() };
    let deletions = Deletions::new(map, &dispositions);
    for ((source, event), disposition) in map.sources.iter().zip(&external.events).zip(&dispositions) {
        if disposition.is_removed() {
            source.further_deletions.iter().for_each(|deletion| edits.delete(deletion));
        }
        if source.record.is_some_and(|record| deletions.contains(record)) {
            continue;
        }
        edits.add_event(source, event, *disposition);
    }
    let mut pair_names = PairNames::default();
    let mut pairs = pairs(stream, map, &dispositions, &summaries, &deletions, &mut pair_names, &mut edits);
    edits.deleted.extend(deletions.records());
    for (record, element) in &map.deleted_with {
        if edits.deleted.contains(record) {
            edits.deleted.insert(*element);
        }
    }
    if let Some(member) = reader.and_then(Reader::blocks) {
        role_merge::merge(stream, map, member, &edits.deleted, &mut pairs, &mut edits.written);
    }
    edits.renumber(stream, map, &deletions, &pairs);
    edits.relink(stream, map, &deletions, &pair_names);
    edits.rename_first_records(stream, map, &deletions, &pair_names);
    edits.into_pieces(stream, map, pairs)
}

fn dispositions<'a>(
    stream: &Stream,
    map: &SourceMap,
    view: &'a View,
) -> (Vec<Disposition<'a>>, Vec<Summary<'a>>) {
    let mut dispositions = vec![Disposition::Deleted; map.sources.len()];
    let mut summaries: Vec<Summary<'_>> = Vec::new();
    let mut ranges: Vec<(TurnRange, usize)> = Vec::new();
    for (index, item) in view.items().iter().enumerate() {
        let mut set = |element: usize, disposition| {
            if let Some(current) = dispositions.get_mut(element) {
                *current = disposition;
            }
        };
        match &item.part {
            Part::Kept(element) | Part::Short(element) => set(*element, Disposition::Kept),
            Part::Emptied(element) => set(*element, Disposition::Emptied),
            Part::Replaced(element, text) => set(*element, Disposition::Replaced(text)),
            Part::SummaryResponse { timestamp, text } | Part::SummaryNote { timestamp, text } => {
                ranges.extend(item.origin.summarized().map(|range| (range, summaries.len())));
                let is_note = matches!(item.part, Part::SummaryNote { .. });
                let text = if is_note { Cow::Owned(note_text(text)) } else { Cow::Borrowed(&**text) };
                let mut following = view.items()[index + 1..].iter().filter_map(|next| next.part.element());
                let is_visible = |element: usize| stream.events()[element].kind.is_provider_visible();
                // pi's own summary has no record.
                let next = following.find(|next| {
                    is_visible(*next) && map.sources.get(*next).is_some_and(|source| source.record.is_some())
                });
                summaries.push(Summary { at: *timestamp, text, is_note, next });
            }
            Part::SummaryStart { .. } | Part::SummaryRequest { .. } => {}
        }
    }
    // The ranges are in order and do not overlap.
    for (element, disposition) in dispositions.iter_mut().enumerate() {
        let turn = stream.events()[element].turn;
        let before = ranges.partition_point(|(range, _)| range.from() <= turn);
        let mut around = ranges[..before].iter().rev().take_while(|(range, _)| range.to() >= turn);
        // A range that ends inside of a turn does not contain the turn's user events, but its summary may replace them.
        // They then belong to the first range that begins before the steps of the turn.
        let starts_before_steps = |range: &TurnRange| range.from() < turn || range.start().step.is_none();
        let owner = match stream.steps().step(element) {
            Some(_) => around.find(|(range, _)| stream.is_in(*range, element)),
            None => around.filter(|(range, _)| starts_before_steps(range)).last(),
        };
        if *disposition == Disposition::Deleted
            && let Some((_, summary)) = owner
        {
            *disposition = Disposition::Summarized(*summary);
        }
    }
    (dispositions, summaries)
}

/// Changes to the source, in any order.
#[derive(Default)]
struct Edits {
    written: Vec<(Span, String)>,
    deleted: HashSet<ElementRef>,
}

impl Edits {
    fn add_event(&mut self, source: &EventSource, event: &ExternalEvent, disposition: Disposition<'_>) {
        let text = match disposition {
            Disposition::Kept => return,
            Disposition::Deleted | Disposition::Summarized(_) => return self.delete(&source.deletion),
            Disposition::Emptied => "",
            Disposition::Replaced(text) => text,
        };
        self.written.extend(event.edits.iter().map(|edit| (edit.span, (edit.write)(text))));
    }

    fn delete(&mut self, deletion: &Deletion) {
        match deletion {
            Deletion::Nothing => {}
            Deletion::Element(element) => {
                self.deleted.insert(*element);
            }
            Deletion::Value(span, bytes) => self.written.push((*span, (*bytes).into())),
            Deletion::Several(deletions) => deletions.iter().for_each(|deletion| self.delete(deletion)),
        }
    }

    /// Renumbers the records after deletions and insertions.
    fn renumber(
        &mut self,
        stream: &Stream,
        map: &SourceMap,
        deletions: &Deletions<'_>,
        pairs: &BTreeMap<ElementRef, Vec<String>>,
    ) {
        let (mut list, mut inserted, mut deleted) = (usize::MAX, 0, 0);
        for (record, span) in &map.numbers {
            if record.list != list {
                (list, inserted, deleted) = (record.list, 0, 0);
            }
            inserted += pairs.get(record).map_or(0, Vec::len);
            if deletions.contains(*record) {
                deleted += 1;
                continue;
            }
            let number =
                std::str::from_utf8(stream.bytes_at(*span)).ok().and_then(|number| number.parse().ok());
            let new_number = number.and_then(|number: usize| (number + inserted).checked_sub(deleted));
            if inserted != deleted
                && let Some(number) = new_number
            {
                self.written.push((*span, number.to_string()));
            }
        }
    }

    /// Links the records that followed a deleted record to the record that now precedes them.
    fn relink(
        &mut self,
        stream: &Stream,
        map: &SourceMap,
        deletions: &Deletions<'_>,
        pair_names: &PairNames,
    ) {
        if map.links.is_empty() || (deletions.is_empty() && pair_names.before.is_empty()) {
            return;
        }
        let link_index = LinkIndex::new(stream, map);
        for (index, link) in map.links.iter().enumerate() {
            if let Some(name) = pair_names.before.get(&link.record).filter(|_| !link.id.is_empty()) {
                let line = map.lists[link.record.list].elements[link.record.element];
                self.written.push(match link.parent.is_empty() {
                    // Only lines of Claude Code and Qwen Code may lack a parent.
                    true => new_member(stream.bytes(), line, "parentUuid", name),
                    false => (link.parent, name.clone()),
                });
                continue;
            }
            let follows_deleted =
                link_index.parent(index).is_some_and(|parent| deletions.contains(map.links[parent].record));
            if follows_deleted && !deletions.contains(link.record) {
                let parent = follow(&link_index, Some(index), deletions, pair_names);
                self.written.push((link.parent, parent.unwrap_or_else(|| "null".into())));
            }
        }
    }

    /// Changes the values that name the first of several records, if that record is deleted. They then name the first
    /// remaining record, or the pair before it. A value that names the first sent record is also changed if that record
    /// stays and a pair now precedes it.
    fn rename_first_records(
        &mut self,
        stream: &Stream,
        map: &SourceMap,
        deletions: &Deletions<'_>,
        pair_names: &PairNames,
    ) {
        for first in &map.first_records {
            let is_renamed = first.records.first().is_some_and(|(record, _)| {
                deletions.contains(*record) || (first.is_start && pair_names.first_names.contains_key(record))
            });
            let name = first.records.iter().filter(|_| is_renamed).find_map(|(record, id)| {
                let current_name = || String::from_utf8_lossy(stream.bytes_at(*id)).into_owned();
                let current_name = (!deletions.contains(*record)).then(current_name);
                pair_names.first_names.get(record).cloned().or(current_name)
            });
            self.written.extend(name.map(|name| match first.key {
                Some(key) => new_member(stream.bytes(), first.span, key, &name),
                None => (first.span, name),
            }));
        }
    }

    /// Returns the changed source.
    fn into_pieces(
        mut self,
        stream: &Stream,
        map: &SourceMap,
        mut pairs: BTreeMap<ElementRef, Vec<String>>,
    ) -> Vec<Piece> {
        // A list that becomes empty is deleted with its holder. Then the holder's own list may be empty too.
        let mut by_list: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for record in &self.deleted {
            by_list.entry(record.list).or_default().push(record.element);
        }
        while let Some((number, mut elements)) = by_list.pop_last() {
            let list = &map.lists[number];
            elements.sort_unstable();
            elements.dedup();
            let has_pair = pairs
                .range(ElementRef { list: number, element: 0 }..ElementRef { list: number + 1, element: 0 })
                .next();
            if elements.len() == list.elements.len()
                && has_pair.is_none()
                && let Some(holder) = list.holder
            {
                by_list.entry(holder.list).or_default().push(holder.element);
                continue;
            }
            for run in elements.chunk_by(|left, right| left + 1 == *right) {
                let (from, to) = (run[0], run[run.len() - 1]);
                let range =
                    ElementRef { list: number, element: from }..=ElementRef { list: number, element: to };
                let new_records: Vec<String> = run
                    .iter()
                    .filter_map(|element| pairs.remove(&ElementRef { list: number, element: *element }))
                    .flatten()
                    .collect();
                debug_assert!(pairs.range(range).next().is_none());
                self.written.push(list.replacement(stream.bytes(), from, to, &new_records));
            }
        }
        // The remaining pairs precede a record that stays, or follow the last record.
        for (record, new_records) in pairs {
            self.written.push(map.lists[record.list].insertion(stream.bytes(), record.element, &new_records));
        }
        // At one offset, insertions precede deletions. Edits inside a deleted range are dropped.
        self.written.sort_by_key(|(span, _)| (span.start, !span.is_empty(), usize::MAX - span.end));
        let mut pieces = Pieces::with_capacity(2 * self.written.len() + 1);
        let mut offset = 0;
        for (span, text) in self.written {
            if span.start < offset {
                continue;
            }
            pieces.push_old(offset..span.start);
            pieces.push_new(text.into_bytes());
            offset = span.end;
        }
        pieces.push_old(offset..stream.size());
        pieces.into_pieces()
    }
}

/// Returns an edit that adds a member to an object that has other members.
fn new_member(source: &[u8], object: Span, key: &str, value: &str) -> (Span, String) {
    let start = object.start + memchr::memchr(b'{', object.slice(source)).map_or(0, |brace| brace + 1);
    (Span { start, end: start }, format!("\"{key}\":{value},"))
}

impl List {
    /// Returns the separator between a new element and the next element.
    fn separator(&self, source: &[u8]) -> String {
        match (self.form, self.elements.as_slice()) {
            (ListForm::Lines, _) => "\n".into(),
            (ListForm::Commas, [first, second, ..]) => {
                String::from_utf8_lossy(&source[first.end..second.start]).into_owned()
            }
            (ListForm::Commas, _) => ", ".into(),
        }
    }

    /// Returns an edit that inserts records before the element `before`, or at the end.
    fn insertion(&self, source: &[u8], before: usize, new_records: &[String]) -> (Span, String) {
        let separator = self.separator(source);
        let text = new_records.iter().map(|record| format!("{record}{separator}")).collect();
        match (self.elements.get(before), self.elements.last()) {
            (None, Some(last)) if !source[..last.end].ends_with(b"\n") => {
                let text = format!("{separator}{}", new_records.join(&separator));
                (Span { start: last.end, end: last.end }, text)
            }
            (None, last) => {
                let end = last.map_or(0, |last| last.end);
                (Span { start: end, end }, text)
            }
            (Some(next), _) => (Span { start: next.start, end: next.start }, text),
        }
    }

    /// Returns an edit that replaces the elements from `from` to `to` with new records.
    fn replacement(&self, source: &[u8], from: usize, to: usize, new_records: &[String]) -> (Span, String) {
        let (start, end) = (self.elements[from].start, self.elements[to].end);
        if self.form == ListForm::Lines {
            return (Span { start, end }, new_records.iter().map(|record| format!("{record}\n")).collect());
        }
        if !new_records.is_empty() {
            return (Span { start, end }, new_records.join(&self.separator(source)));
        }
        let span = match (self.elements.get(to + 1), from.checked_sub(1)) {
            (Some(next), _) => Span { start, end: next.start },
            (None, Some(before)) => Span { start: self.elements[before].end, end },
            (None, None) => Span { start, end },
        };
        (span, String::new())
    }
}
