//! Writes a view in the form of its source. Bytes of the source are copied, except where an overlay changes an
//! event. A record without remaining events is deleted, records that followed it are linked to the record before it,
//! and the pair of records of a summary is inserted in place of the first record that it replaces.

mod deletions;
mod record_name;
mod role_merge;
mod summary_pair;

use std::collections::{BTreeMap, HashMap, HashSet};

use jp_compact_core::external::ExternalEvent;
use jp_compact_core::json::Span;
use jp_compact_core::source;
use jp_compact_core::splice::{Piece, Pieces};
use jp_compact_core::stream::Stream;
use jp_compact_core::view::{Part, View};

use self::deletions::Deletions;
use self::summary_pair::{Names, Summary, Tied, follow, pairs};
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
    if !reader.is_some_and(Reader::says_thoughts) {
        role_merge::leave_lone_thoughts(stream, map, &mut dispositions);
    }
    let mut edits = Edits { written: Vec::with_capacity(map.sources.len()), ..Edits::default() };
    let removed = Deletions::new(map, &dispositions);
    for ((place, event), disposition) in map.sources.iter().zip(&external.events).zip(&dispositions) {
        if disposition.is_removed() {
            place.also.iter().for_each(|deletion| edits.delete(deletion));
        }
        if place.record.is_some_and(|record| removed.contains(record)) {
            continue;
        }
        edits.of_event(place, event, *disposition);
    }
    let mut tied = Tied::default();
    let mut pairs = pairs(stream, map, &dispositions, &summaries, &removed, &mut tied);
    edits.deleted.extend(removed.records());
    for (record, element) in &map.mentions {
        if edits.deleted.contains(record) {
            edits.deleted.insert(*element);
        }
    }
    if let Some(member) = reader.and_then(Reader::blocks) {
        role_merge::merge(stream, map, member, &edits.deleted, &mut pairs, &mut edits.written);
    }
    edits.numbers(stream, map, &removed, &pairs);
    edits.links(stream, map, &removed, &tied);
    edits.firsts(stream, map, &removed, &tied);
    edits.done(stream, map, pairs)
}

fn dispositions<'a>(
    stream: &Stream,
    map: &SourceMap,
    view: &'a View,
) -> (Vec<Disposition<'a>>, Vec<Summary<'a>>) {
    let mut dispositions = vec![Disposition::Gone; map.sources.len()];
    let mut summaries: Vec<Summary<'_>> = Vec::new();
    let mut of_turn: HashMap<usize, usize> = HashMap::new();
    for item in view.items() {
        let mut set = |element: usize, disposition| {
            if let Some(place) = dispositions.get_mut(element) {
                *place = disposition;
            }
        };
        match &item.part {
            Part::Kept(element) | Part::Short(element) => set(*element, Disposition::Kept),
            Part::Emptied(element) => set(*element, Disposition::Emptied),
            Part::Replaced(element, text) => set(*element, Disposition::Replaced(text)),
            Part::SummaryResponse { at, text } => {
                if let jp_compact_core::view::ItemOrigin::Summary { from, to } = item.origin {
                    of_turn.extend((from..=to).map(|turn| (turn, summaries.len())));
                }
                summaries.push(Summary { at: *at, text });
            }
            Part::SummaryStart { .. } | Part::SummaryRequest { .. } => {}
        }
    }
    for (disposition, event) in dispositions.iter_mut().zip(stream.events()) {
        if *disposition == Disposition::Gone
            && let Some(summary) = of_turn.get(&event.turn)
        {
            *disposition = Disposition::Summarized(*summary);
        }
    }
    (dispositions, summaries)
}

/// Changes of the source, in any order.
#[derive(Default)]
struct Edits {
    written: Vec<(Span, String)>,
    deleted: HashSet<ElementRef>,
}

impl Edits {
    fn of_event(&mut self, place: &EventSource, event: &ExternalEvent, disposition: Disposition<'_>) {
        let text = match disposition {
            Disposition::Kept => return,
            Disposition::Gone | Disposition::Summarized(_) => return self.delete(&place.deletion),
            Disposition::Emptied => "",
            Disposition::Replaced(text) => text,
        };
        self.written.extend(event.edits.iter().map(|edit| (edit.span, (edit.write)(text))));
    }

    fn delete(&mut self, deletion: &Deletion) {
        match deletion {
            Deletion::Nothing => {}
            Deletion::Element(at) => {
                self.deleted.insert(*at);
            }
            Deletion::Value(span, bytes) => self.written.push((*span, (*bytes).into())),
            Deletion::Several(deletions) => deletions.iter().for_each(|deletion| self.delete(deletion)),
        }
    }

    /// Renumbers the records after deleted or inserted ones.
    fn numbers(
        &mut self,
        stream: &Stream,
        map: &SourceMap,
        removed: &Deletions<'_>,
        pairs: &BTreeMap<ElementRef, Vec<String>>,
    ) {
        let (mut list, mut inserted, mut deleted) = (usize::MAX, 0, 0);
        for (record, span) in &map.numbers {
            if record.list != list {
                (list, inserted, deleted) = (record.list, 0, 0);
            }
            inserted += pairs.get(record).map_or(0, Vec::len);
            if removed.contains(*record) {
                deleted += 1;
                continue;
            }
            let number = std::str::from_utf8(stream.at(*span)).ok().and_then(|number| number.parse().ok());
            let fresh = number.and_then(|number: usize| (number + inserted).checked_sub(deleted));
            if inserted != deleted
                && let Some(number) = fresh
            {
                self.written.push((*span, number.to_string()));
            }
        }
    }

    /// Links the records that followed a deleted record to the record that now precedes them.
    fn links(&mut self, stream: &Stream, map: &SourceMap, removed: &Deletions<'_>, tied: &Tied) {
        if removed.is_empty() || map.links.is_empty() {
            return;
        }
        let names = Names::new(stream, map);
        for (place, link) in map.links.iter().enumerate() {
            let follows_removed =
                names.parent(place).is_some_and(|parent| removed.contains(map.links[parent].record));
            if follows_removed && !removed.contains(link.record) {
                let parent = follow(&names, Some(place), removed, tied);
                self.written.push((link.parent, parent.unwrap_or_else(|| "null".into())));
            }
        }
    }

    /// Names the first remaining record, or the pair that precedes it.
    fn firsts(&mut self, stream: &Stream, map: &SourceMap, removed: &Deletions<'_>, tied: &Tied) {
        let is_gone = |record: &ElementRef| removed.contains(*record);
        for first in map.firsts.iter().filter(|first| first.records.first().is_some_and(is_gone)) {
            let name = first.records.iter().find_map(|record| {
                let link = || map.links.iter().find(|link| link.record == *record && !is_gone(record));
                let own = || Some(String::from_utf8_lossy(stream.at(link()?.id)).into_owned());
                tied.firsts.get(record).cloned().or_else(own)
            });
            self.written.extend(name.map(|name| (first.span, name)));
        }
    }

    fn done(
        mut self,
        stream: &Stream,
        map: &SourceMap,
        mut pairs: BTreeMap<ElementRef, Vec<String>>,
    ) -> Vec<Piece> {
        // A list that becomes empty is deleted with its holder, which may be the last element of another list.
        let mut by_list: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in &self.deleted {
            by_list.entry(at.list).or_default().push(at.element);
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
                let fresh: Vec<String> = run
                    .iter()
                    .filter_map(|element| pairs.remove(&ElementRef { list: number, element: *element }))
                    .flatten()
                    .collect();
                debug_assert!(pairs.range(range).next().is_none());
                self.written.push(list.without(stream.bytes(), from, to, &fresh));
            }
        }
        // A pair before a record that stays, or after the last one.
        for (at, fresh) in pairs {
            self.written.push(map.lists[at.list].with(stream.bytes(), at.element, &fresh));
        }
        // At one offset, insertions precede deletions. Edits inside a deleted range are dropped.
        self.written.sort_by_key(|(span, _)| (span.start, !span.is_empty(), usize::MAX - span.end));
        let mut pieces = Pieces::with_capacity(2 * self.written.len() + 1);
        let mut at = 0;
        for (span, text) in self.written {
            if span.start < at {
                continue;
            }
            pieces.old(at..span.start);
            pieces.new_bytes_owned(text.into_bytes());
            at = span.end;
        }
        pieces.old(at..stream.bytes().len());
        pieces.done()
    }
}

impl List {
    /// Returns the separator between a new element and the next one.
    fn between(&self, source: &[u8]) -> String {
        match (self.form, self.elements.as_slice()) {
            (ListForm::Lines, _) => "\n".into(),
            (ListForm::Commas, [first, second, ..]) => {
                String::from_utf8_lossy(&source[first.end..second.start]).into_owned()
            }
            (ListForm::Commas, _) => ", ".into(),
        }
    }

    /// Returns an edit that inserts elements before `before`, or at the end.
    fn with(&self, source: &[u8], before: usize, fresh: &[String]) -> (Span, String) {
        let between = self.between(source);
        let text = fresh.iter().map(|record| format!("{record}{between}")).collect();
        match (self.elements.get(before), self.elements.last()) {
            (None, Some(last)) if !source[..last.end].ends_with(b"\n") => {
                let text = format!("{between}{}", fresh.join(&between));
                (Span { start: last.end, end: last.end }, text)
            }
            (None, last) => {
                let end = last.map_or(0, |last| last.end);
                (Span { start: end, end }, text)
            }
            (Some(next), _) => (Span { start: next.start, end: next.start }, text),
        }
    }

    /// Returns an edit that replaces the elements from `from` to `to` by new ones.
    fn without(&self, source: &[u8], from: usize, to: usize, fresh: &[String]) -> (Span, String) {
        let (start, end) = (self.elements[from].start, self.elements[to].end);
        if self.form == ListForm::Lines {
            return (Span { start, end }, fresh.iter().map(|record| format!("{record}\n")).collect());
        }
        if !fresh.is_empty() {
            return (Span { start, end }, fresh.join(&self.between(source)));
        }
        let span = match (self.elements.get(to + 1), from.checked_sub(1)) {
            (Some(next), _) => Span { start, end: next.start },
            (None, Some(before)) => Span { start: self.elements[before].end, end },
            (None, None) => Span { start, end },
        };
        (span, String::new())
    }
}
