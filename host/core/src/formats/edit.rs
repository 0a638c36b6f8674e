//! A view in the form of its source: the source's own bytes, but for what was compacted. Records of which nothing is
//! left go, what follows them is tied to what came before, and a summary's pair stands where its first record stood.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::foreign::{At, Cut, Foreign, ListForm, Place};
use super::pairs::{Names, Summary, Tied, follow, pairs};
use super::removed::Removed;
use super::{Transcript, mend};
use crate::json::Span;
use crate::splice::{Piece, Pieces};
use crate::stream::Stream;
use crate::view::{Part, View};

/// What becomes of an event.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate<'a> {
    Kept,
    Gone,
    Emptied,
    Replaced(&'a str),
    /// A summary stands for it: the place of that in the list of summaries.
    Summarised(usize),
}

impl Fate<'_> {
    /// Whether nothing is left of it.
    pub(super) fn goes(self) -> bool {
        matches!(self, Self::Gone | Self::Summarised(_))
    }
}

/// Writes a view back into the source of its stream.
#[must_use]
pub(crate) fn render(stream: &Stream, foreign: &Foreign, view: &View) -> Vec<Piece> {
    let (mut fates, summaries) = fates(stream, foreign, view);
    if !foreign.format.transcript().is_some_and(Transcript::says_thoughts) {
        mend::leave_lone_thoughts(stream, foreign, &mut fates);
    }
    let mut edits = Edits { written: Vec::with_capacity(foreign.places.len()), ..Edits::default() };
    let removed = Removed::of(foreign, &fates);
    for (place, fate) in foreign.places.iter().zip(&fates) {
        if fate.goes() {
            place.also.iter().for_each(|cut| edits.cut(cut));
        }
        if place.record.is_some_and(|record| removed.contains(record)) {
            continue;
        }
        edits.of_event(place, *fate);
    }
    let mut tied = Tied::default();
    let mut pairs = pairs(stream, foreign, &fates, &summaries, &removed, &mut tied);
    edits.gone.extend(removed.records());
    for (record, element) in &foreign.mentions {
        if edits.gone.contains(record) {
            edits.gone.insert(*element);
        }
    }
    if let Some(member) = foreign.format.transcript().and_then(Transcript::blocks) {
        mend::merge(stream, foreign, member, &edits.gone, &mut pairs, &mut edits.written);
    }
    edits.numbers(stream, foreign, &removed, &pairs);
    edits.links(stream, foreign, &removed, &tied);
    edits.firsts(stream, foreign, &removed, &tied);
    edits.done(stream, foreign, pairs)
}

fn fates<'a>(stream: &Stream, foreign: &Foreign, view: &'a View) -> (Vec<Fate<'a>>, Vec<Summary<'a>>) {
    let mut fates = vec![Fate::Gone; foreign.places.len()];
    let mut summaries: Vec<Summary<'_>> = Vec::new();
    let mut of_turn: HashMap<usize, usize> = HashMap::new();
    for item in view.items() {
        let mut set = |element: usize, fate| {
            if let Some(place) = fates.get_mut(element) {
                *place = fate;
            }
        };
        match &item.part {
            Part::Kept(element) | Part::Short(element) => set(*element, Fate::Kept),
            Part::Emptied(element) => set(*element, Fate::Emptied),
            Part::Replaced(element, text) => set(*element, Fate::Replaced(text)),
            Part::SummaryResponse { at, text } => {
                if let crate::view::Origin::Summary { from, to } = item.origin {
                    of_turn.extend((from..=to).map(|turn| (turn, summaries.len())));
                }
                summaries.push(Summary { at: *at, text });
            }
            Part::SummaryStart { .. } | Part::SummaryRequest { .. } => {}
        }
    }
    for (fate, event) in fates.iter_mut().zip(stream.events()) {
        if *fate == Fate::Gone
            && let Some(summary) = of_turn.get(&event.turn)
        {
            *fate = Fate::Summarised(*summary);
        }
    }
    (fates, summaries)
}

/// Changes of the source, before they are put in order.
#[derive(Default)]
struct Edits {
    /// Bytes that are replaced.
    written: Vec<(Span, String)>,
    /// Elements of lists that go.
    gone: HashSet<At>,
}

impl Edits {
    fn of_event(&mut self, place: &Place, fate: Fate<'_>) {
        let text = match fate {
            Fate::Kept => return,
            Fate::Gone | Fate::Summarised(_) => return self.cut(&place.cut),
            Fate::Emptied => "",
            Fate::Replaced(text) => text,
        };
        self.written.extend(place.slots.iter().map(|slot| (slot.span, (slot.write)(text))));
    }

    fn cut(&mut self, cut: &Cut) {
        match cut {
            Cut::Nothing => {}
            Cut::Element(at) => {
                self.gone.insert(*at);
            }
            Cut::Value(span, bytes) => self.written.push((*span, (*bytes).into())),
            Cut::Several(cuts) => cuts.iter().for_each(|cut| self.cut(cut)),
        }
    }

    /// Counts the records anew that come behind what is taken out or put in.
    fn numbers(
        &mut self,
        stream: &Stream,
        foreign: &Foreign,
        removed: &Removed<'_>,
        pairs: &BTreeMap<At, Vec<String>>,
    ) {
        let (mut list, mut put_in, mut gone) = (usize::MAX, 0, 0);
        for (record, span) in &foreign.numbers {
            if record.list != list {
                (list, put_in, gone) = (record.list, 0, 0);
            }
            put_in += pairs.get(record).map_or(0, Vec::len);
            if removed.contains(*record) {
                gone += 1;
                continue;
            }
            let number = std::str::from_utf8(stream.at(*span)).ok().and_then(|number| number.parse().ok());
            let fresh = number.and_then(|number: usize| (number + put_in).checked_sub(gone));
            if put_in != gone
                && let Some(number) = fresh
            {
                self.written.push((*span, number.to_string()));
            }
        }
    }

    /// Ties what followed a removed record to what comes before it now.
    fn links(&mut self, stream: &Stream, foreign: &Foreign, removed: &Removed<'_>, tied: &Tied) {
        if removed.is_empty() || foreign.links.is_empty() {
            return;
        }
        let names = Names::of(stream, foreign);
        for (place, link) in foreign.links.iter().enumerate() {
            let follows_removed =
                names.parent(place).is_some_and(|parent| removed.contains(foreign.links[parent].record));
            if follows_removed && !removed.contains(link.record) {
                let parent = follow(&names, Some(place), removed, tied);
                self.written.push((link.parent, parent.unwrap_or_else(|| "null".into())));
            }
        }
    }

    /// Names the first that is left, or the pair that stands before it.
    fn firsts(&mut self, stream: &Stream, foreign: &Foreign, removed: &Removed<'_>, tied: &Tied) {
        let is_gone = |record: &At| removed.contains(*record);
        for first in foreign.firsts.iter().filter(|first| first.records.first().is_some_and(is_gone)) {
            let name = first.records.iter().find_map(|record| {
                let link = || foreign.links.iter().find(|link| link.record == *record && !is_gone(record));
                let own = || Some(String::from_utf8_lossy(stream.at(link()?.id)).into_owned());
                tied.firsts.get(record).cloned().or_else(own)
            });
            self.written.extend(name.map(|name| (first.span, name)));
        }
    }

    /// The pieces of the new text.
    fn done(
        mut self,
        stream: &Stream,
        foreign: &Foreign,
        mut pairs: BTreeMap<At, Vec<String>>,
    ) -> Vec<Piece> {
        // A list that loses all goes with what holds it; that may be the last of another list.
        let mut by_list: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in &self.gone {
            by_list.entry(at.list).or_default().push(at.element);
        }
        while let Some((number, mut elements)) = by_list.pop_last() {
            let list = &foreign.lists[number];
            elements.sort_unstable();
            elements.dedup();
            let has_pair =
                pairs.range(At { list: number, element: 0 }..At { list: number + 1, element: 0 }).next();
            if elements.len() == list.elements.len()
                && has_pair.is_none()
                && let Some(holder) = list.holder
            {
                by_list.entry(holder.list).or_default().push(holder.element);
                continue;
            }
            for run in elements.chunk_by(|left, right| left + 1 == *right) {
                let (from, to) = (run[0], run[run.len() - 1]);
                let range = At { list: number, element: from }..=At { list: number, element: to };
                let fresh: Vec<String> = run
                    .iter()
                    .filter_map(|element| pairs.remove(&At { list: number, element: *element }))
                    .flatten()
                    .collect();
                debug_assert!(pairs.range(range).next().is_none());
                self.written.push(list.without(stream.bytes(), from, to, &fresh));
            }
        }
        // A pair that stands before a record that stays, or behind the last.
        for (at, fresh) in pairs {
            self.written.push(foreign.lists[at.list].with(stream.bytes(), at.element, &fresh));
        }
        // What is put in comes before what is taken out there; what lies in what goes, goes with it.
        self.written.sort_by_key(|(span, _)| (span.start, !span.is_empty(), usize::MAX - span.end));
        let mut pieces = Pieces::with_capacity(2 * self.written.len() + 1);
        let mut at = 0;
        for (span, text) in self.written {
            if span.start < at {
                continue;
            }
            pieces.old(at..span.start);
            pieces.fresh_owned(text.into_bytes());
            at = span.end;
        }
        pieces.old(at..stream.bytes().len());
        pieces.done()
    }
}

impl super::foreign::List {
    /// What parts a new element from the next.
    fn between(&self, source: &[u8]) -> String {
        match (self.form, self.elements.as_slice()) {
            (ListForm::Lines, _) => "\n".into(),
            (ListForm::Commas, [first, second, ..]) => {
                String::from_utf8_lossy(&source[first.end..second.start]).into_owned()
            }
            (ListForm::Commas, _) => ", ".into(),
        }
    }

    /// The list with new elements before one, or at its end.
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

    /// The list without the elements from `from` to `to`, and with new ones in their place.
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
