//! The pairs of records that stand for summaries: where they stand, what they are called, and what is tied to them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::edit::Fate;
use super::foreign::{At, Foreign, Link, Place};
use super::name::name;
use super::removed::Removed;
use super::tree::{Look, Tree};
use crate::stream::Stream;
use crate::text;

/// What a pair of records is made of.
pub(crate) struct Pair<'a> {
    /// The first record that the summary stands for, as far as readers look into it: what the pair has in common with
    /// its neighbours is taken from it.
    pub(crate) first: Look<'a>,
    /// The last of them.
    pub(crate) last: Look<'a>,
    /// What they hold that has to stand in the pair as well.
    pub(crate) carried: Vec<&'a [u8]>,
    /// When its first event happened.
    pub(crate) at: Timestamp,
    /// What the user says.
    pub(crate) request: &'a str,
    /// What the assistant answers.
    pub(crate) response: &'a str,
    /// What the two are called, where records have names: unlike any other.
    pub(crate) ids: [String; 2],
    /// What the first of them follows, as JSON.
    pub(crate) parent: &'a str,
    /// The number of the first of them, where records are counted.
    pub(crate) number: Option<usize>,
}

/// What records are tied to that go, by names in JSON.
#[derive(Default)]
pub(super) struct Tied {
    /// Where the pair stands that stands for each, and the last of it.
    pub(super) lasts: HashMap<At, (At, String)>,
    /// The first of the pair that stands there.
    pub(super) firsts: HashMap<At, String>,
}

/// A summary of a view.
pub(super) struct Summary<'a> {
    pub(super) at: Timestamp,
    pub(super) text: &'a str,
}

/// The pairs, by the record that they stand before, and the name of what follows each removed record of theirs.
pub(super) fn pairs(
    stream: &Stream,
    foreign: &Foreign,
    fates: &[Fate<'_>],
    summaries: &[Summary<'_>],
    removed: &Removed<'_>,
    tied: &mut Tied,
) -> BTreeMap<At, Vec<String>> {
    let mut pairs: BTreeMap<At, Vec<String>> = BTreeMap::new();
    let mut written: HashMap<usize, (At, String)> = HashMap::new();
    let Some(transcript) = foreign.format.transcript() else { return pairs };
    let is_tree = !foreign.links.is_empty();
    let end = foreign.places.iter().rev().find_map(|place| place.record);
    let at_end = match fates.last() {
        Some(Fate::Summarised(number)) => Some(*number),
        _ => None,
    };
    for (place, fate) in foreign.places.iter().zip(fates) {
        let (Some(record), Fate::Summarised(number)) = (place.record, fate) else { continue };
        let last = written.entry(*number).or_insert_with(|| {
            let summary = &summaries[*number];
            let span = |at: At| foreign.lists[at.list].elements[at.element];
            let ids = [0, 1].map(|half| name(span(record).of(stream.bytes()), *number, half));
            let mut newest = foreign.places.iter().zip(fates).rev();
            let is_of = |place: &Place| place.record.is_some_and(|at| at.list == record.list);
            let newest = newest.find(|(place, of)| *of == fate && is_of(place));
            let of_summary = |at: &At| removed.get(*at).is_some_and(|of| of == *fate);
            let carried = foreign.carried.iter().filter(|(at, _)| of_summary(at));
            // What a reader looked into can be read again.
            let [node, last] = [record, newest.and_then(|(place, _)| place.record).unwrap_or(record)]
                .map(|at| Tree::of(stream.bytes(), span(at), |_| true).unwrap_or_default());
            // A tree is read from its last record on, and what was rewound may lie between.
            let at = if is_tree && Some(*number) == at_end { end.unwrap_or(record) } else { record };
            let parent = parent(stream, foreign, at, removed, tied);
            let pair = Pair {
                first: Look::new(stream.bytes(), &node),
                last: Look::new(stream.bytes(), &last),
                carried: carried.map(|(_, span)| span.of(stream.bytes())).collect(),
                at: summary.at,
                request: crate::view::SUMMARY_REQUEST,
                response: summary.text,
                ids: ids.clone(),
                parent: &parent,
                number: numbered(stream, foreign, record, removed, &pairs),
            };
            let is_behind = foreign.pinned.contains(&at) || begins_before(foreign, fates, record, *number);
            let at = At { element: at.element + usize::from(is_behind), ..at };
            pairs.entry(at).or_default().extend(transcript.pair(&pair));
            let [first, last] = ids.map(|id| serde_json::Value::from(id).to_string());
            tied.firsts.insert(at, first);
            (at, last)
        });
        tied.lasts.insert(record, last.clone());
    }
    pairs
}

/// Whether something stays of a record that comes before what a summary stands for.
fn begins_before(foreign: &Foreign, fates: &[Fate<'_>], record: At, summary: usize) -> bool {
    let events = foreign.places.iter().zip(fates).filter(|(place, _)| place.record == Some(record));
    let mut before = events.map(|(_, fate)| fate).take_while(|fate| **fate != Fate::Summarised(summary));
    before.any(|fate| !matches!(fate, Fate::Gone | Fate::Summarised(_)))
}

/// The number that stands before a record when those that go are gone, and the pairs before it are there.
fn numbered(
    stream: &Stream,
    foreign: &Foreign,
    record: At,
    removed: &Removed<'_>,
    pairs: &BTreeMap<At, Vec<String>>,
) -> Option<usize> {
    let (_, span) = foreign.numbers.iter().find(|(at, _)| *at == record)?;
    let number: usize = std::str::from_utf8(stream.at(*span)).ok()?.parse().ok()?;
    let before = At { element: 0, ..record }..record;
    let put_in: usize = pairs.range(before).map(|(_, fresh)| fresh.len()).sum();
    (number + put_in).checked_sub(removed.before(record))
}

/// What a record follows when those that go are gone, as JSON.
fn parent(stream: &Stream, foreign: &Foreign, record: At, removed: &Removed<'_>, tied: &Tied) -> String {
    let own = foreign.links.iter().position(|link| link.record == record);
    follow(&Names::of(stream, foreign), own, removed, tied).unwrap_or_else(|| "null".into())
}

/// The links of a transcript by their names. Made when a link leads to another than the one before it, which few do.
pub(super) struct Names<'a> {
    stream: &'a Stream,
    foreign: &'a Foreign,
    places: OnceCell<HashMap<Cow<'a, [u8]>, usize>>,
}

impl<'a> Names<'a> {
    pub(super) fn of(stream: &'a Stream, foreign: &'a Foreign) -> Self {
        Self { stream, foreign, places: OnceCell::new() }
    }

    /// The link that a link follows.
    pub(super) fn parent(&self, place: usize) -> Option<usize> {
        let links = &self.foreign.links;
        if links[place].follows.is_some() {
            return links[place].follows;
        }
        let parent = self.stream.at(links[place].parent);
        if parent.is_empty() || parent == b"null" {
            return None;
        }
        let name = |link: &Link| text::canonical(self.stream.at(link.id));
        let named = || links.iter().enumerate().map(|(place, link)| (name(link), place));
        self.places.get_or_init(|| named().collect()).get(&text::canonical(parent)).copied()
    }
}

/// Follows links from one record up to what stays, or to a pair that stands between.
pub(super) fn follow(
    names: &Names<'_>,
    from: Option<usize>,
    removed: &Removed<'_>,
    tied: &Tied,
) -> Option<String> {
    let links = &names.foreign.links;
    let mut place = from?;
    // What is no record's own name only mentions another, wherever it stands.
    let mentions = links.get(place)?.id.is_empty();
    let own = links.get(place)?.record;
    let mut passed: Option<&(At, String)> = None;
    // No longer than there are records: a file may tie them in a ring.
    for _ in 0..=links.len() {
        let parent = names.stream.at(links[place].parent);
        let above = names.parent(place);
        let next = above.map(|above| &links[above]);
        let stays = next.filter(|next| !removed.contains(next.record));
        match (next, passed) {
            // What stays among the records of a summary follows the pair, or comes before it, as in the file.
            (_, Some((pair, last))) if stays.map_or(next.is_none(), |stays| stays.record < *pair) => {
                return Some(last.clone());
            }
            (Some(next), _) if stays.is_none() => {
                let pair = tied.lasts.get(&next.record).filter(|(pair, _)| mentions || *pair < own);
                passed = passed.or(pair);
                place = above?;
            }
            _ if parent.is_empty() => return None,
            _ => return Some(String::from_utf8_lossy(parent).into_owned()),
        }
    }
    None
}
