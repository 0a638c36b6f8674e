//! The pairs of records that represent summaries: their places, their names, and the links to them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::deletions::Deletions;
use super::record_name::name;
use crate::disposition::Disposition;
use crate::json_index::{JsonIndex, JsonNode};
use crate::reader::SummaryPair;
use crate::readers::reader;
use crate::source_map::{ElementRef, EventSource, Link, SourceMap};
use jp_compact_core::stream::Stream;
use jp_compact_core::text;

/// Names, as JSON, that replace the names of deleted records.
#[derive(Default)]
pub(super) struct Tied {
    /// The place of the pair that replaces a record, and the name of the pair's last record.
    pub(super) lasts: HashMap<ElementRef, (ElementRef, String)>,
    /// The name of the first record of the pair at a place.
    pub(super) firsts: HashMap<ElementRef, String>,
}

pub(super) struct Summary<'a> {
    pub(super) at: Timestamp,
    pub(super) text: &'a str,
}

/// Returns the pairs, by the record that each precedes. Adds the names that replace each deleted record to `tied`.
pub(super) fn pairs(
    stream: &Stream,
    map: &SourceMap,
    dispositions: &[Disposition<'_>],
    summaries: &[Summary<'_>],
    removed: &Deletions<'_>,
    tied: &mut Tied,
) -> BTreeMap<ElementRef, Vec<String>> {
    let mut pairs: BTreeMap<ElementRef, Vec<String>> = BTreeMap::new();
    let mut written: HashMap<usize, (ElementRef, String)> = HashMap::new();
    let Some(reader) = reader(map.format) else { return pairs };
    let is_tree = !map.links.is_empty();
    let end = map.sources.iter().rev().find_map(|place| place.record);
    let at_end = match dispositions.last() {
        Some(Disposition::Summarized(number)) => Some(*number),
        _ => None,
    };
    for (place, disposition) in map.sources.iter().zip(dispositions) {
        let (Some(record), Disposition::Summarized(number)) = (place.record, disposition) else { continue };
        let last = written.entry(*number).or_insert_with(|| {
            let summary = &summaries[*number];
            let span = |at: ElementRef| map.lists[at.list].elements[at.element];
            let ids = [0, 1].map(|half| name(span(record).slice(stream.bytes()), *number, half));
            let mut newest = map.sources.iter().zip(dispositions).rev();
            let is_of = |place: &EventSource| place.record.is_some_and(|at| at.list == record.list);
            let newest = newest.find(|(place, of)| *of == disposition && is_of(place));
            let of_summary = |at: &ElementRef| removed.get(*at).is_some_and(|of| of == *disposition);
            let carried = map.carried.iter().filter(|(at, _)| of_summary(at));
            // A value that a reader indexed is valid JSON, so it can be indexed again.
            let [node, last] = [record, newest.and_then(|(place, _)| place.record).unwrap_or(record)]
                .map(|at| JsonIndex::new(stream.bytes(), span(at), |_| true).unwrap_or_default());
            // The reader follows a tree from its last record, and rewound records may precede that record.
            let at = if is_tree && Some(*number) == at_end { end.unwrap_or(record) } else { record };
            let parent = parent(stream, map, at, removed, tied);
            let pair = SummaryPair {
                first: JsonNode::new(stream.bytes(), &node),
                last: JsonNode::new(stream.bytes(), &last),
                carried: carried.map(|(_, span)| span.slice(stream.bytes())).collect(),
                at: summary.at,
                request: jp_compact_core::view::SUMMARY_REQUEST,
                response: summary.text,
                ids: ids.clone(),
                parent: &parent,
                number: numbered(stream, map, record, removed, &pairs),
            };
            let is_after = map.pinned.contains(&at) || begins_before(map, dispositions, record, *number);
            let at = ElementRef { element: at.element + usize::from(is_after), ..at };
            pairs.entry(at).or_default().extend(reader.pair(&pair));
            let [first, last] = ids.map(|id| serde_json::Value::from(id).to_string());
            tied.firsts.insert(at, first);
            (at, last)
        });
        tied.lasts.insert(record, last.clone());
    }
    pairs
}

/// Returns whether a part of the record remains that precedes the events of the summary.
fn begins_before(
    map: &SourceMap,
    dispositions: &[Disposition<'_>],
    record: ElementRef,
    summary: usize,
) -> bool {
    let events = map.sources.iter().zip(dispositions).filter(|(place, _)| place.record == Some(record));
    let mut before = events
        .map(|(_, disposition)| disposition)
        .take_while(|disposition| **disposition != Disposition::Summarized(summary));
    before.any(|disposition| !matches!(disposition, Disposition::Gone | Disposition::Summarized(_)))
}

/// Returns the new number of a record, after deletions and insertions before it.
fn numbered(
    stream: &Stream,
    map: &SourceMap,
    record: ElementRef,
    removed: &Deletions<'_>,
    pairs: &BTreeMap<ElementRef, Vec<String>>,
) -> Option<usize> {
    let (_, span) = map.numbers.iter().find(|(at, _)| *at == record)?;
    let number: usize = std::str::from_utf8(stream.at(*span)).ok()?.parse().ok()?;
    let before = ElementRef { element: 0, ..record }..record;
    let inserted: usize = pairs.range(before).map(|(_, fresh)| fresh.len()).sum();
    (number + inserted).checked_sub(removed.before(record))
}

/// Returns the name, as JSON, of the record that `record` follows after the deletions.
fn parent(
    stream: &Stream,
    map: &SourceMap,
    record: ElementRef,
    removed: &Deletions<'_>,
    tied: &Tied,
) -> String {
    let own = map.links.iter().position(|link| link.record == record);
    follow(&Names::new(stream, map), own, removed, tied).unwrap_or_else(|| "null".into())
}

/// The links by their names. The map is built when a link does not lead to the previous one, which is rare.
pub(super) struct Names<'a> {
    stream: &'a Stream,
    map: &'a SourceMap,
    sources: OnceCell<HashMap<Cow<'a, [u8]>, usize>>,
}

impl<'a> Names<'a> {
    pub(super) fn new(stream: &'a Stream, map: &'a SourceMap) -> Self {
        Self { stream, map, sources: OnceCell::new() }
    }

    pub(super) fn parent(&self, place: usize) -> Option<usize> {
        let links = &self.map.links;
        if links[place].follows.is_some() {
            return links[place].follows;
        }
        let parent = self.stream.at(links[place].parent);
        if parent.is_empty() || parent == b"null" {
            return None;
        }
        let name = |link: &Link| text::canonical(self.stream.at(link.id));
        let named = || links.iter().enumerate().map(|(place, link)| (name(link), place));
        self.sources.get_or_init(|| named().collect()).get(&text::canonical(parent)).copied()
    }
}

/// Follows links from a record to the first one that stays, or to a pair on the way.
pub(super) fn follow(
    names: &Names<'_>,
    from: Option<usize>,
    removed: &Deletions<'_>,
    tied: &Tied,
) -> Option<String> {
    let links = &names.map.links;
    let mut place = from?;
    // A link without a name of its own is a mention, so its place does not matter.
    let mentions = links.get(place)?.id.is_empty();
    let own = links.get(place)?.record;
    let mut passed: Option<&(ElementRef, String)> = None;
    // Bounded by the number of links, because a file may contain a cycle.
    for _ in 0..=links.len() {
        let parent = names.stream.at(links[place].parent);
        let above = names.parent(place);
        let next = above.map(|above| &links[above]);
        let stays = next.filter(|next| !removed.contains(next.record));
        match (next, passed) {
            // A remaining record among the records of a summary follows the pair or precedes it, as in the file.
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
