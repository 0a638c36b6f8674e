//! The pairs of records that represent summaries: their positions, their names, and the links to them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::Edits;
use super::deletions::Deletions;
use super::record_name::name;
use super::role_merge::user_block;
use crate::disposition::Disposition;
use crate::reader::SummaryPair;
use crate::readers::reader;
use crate::source_map::{Deletion, ElementRef, EventSource, Link, SourceMap};
use jp_compact_core::stream::Stream;
use jp_compact_core::text;
use jp_compact_core::view::SUMMARY_REQUEST;
use jp_compact_json::{JsonIndex, JsonNode, Span};

/// Names, as JSON, that replace the names of deleted records.
#[derive(Default)]
pub(super) struct PairNames {
    /// For each replaced record, the position of the pair and the name of its last record.
    pub(super) last_names: HashMap<ElementRef, (ElementRef, String)>,
    /// The name of the first record of the first pair at a position.
    pub(super) first_names: HashMap<ElementRef, String>,
    /// For a record that directly follows a pair, the name of the pair's last record.
    pub(super) before: HashMap<ElementRef, String>,
}

pub(super) struct Summary<'a> {
    pub(super) at: Timestamp,
    pub(super) text: Cow<'a, str>,
    /// Whether a single message on the user's side represents the summary, instead of a pair.
    pub(super) is_note: bool,
    /// The element that follows it in the view.
    pub(super) next: Option<usize>,
}

/// Returns the pairs, by the record that each precedes. Adds the names that replace each deleted record to
/// `pair_names`, and the edits that split a message to `edits`.
pub(super) fn pairs(
    stream: &Stream,
    map: &SourceMap,
    dispositions: &[Disposition<'_>],
    summaries: &[Summary<'_>],
    deletions: &Deletions<'_>,
    pair_names: &mut PairNames,
    edits: &mut Edits,
) -> BTreeMap<ElementRef, Vec<String>> {
    let mut pairs: BTreeMap<ElementRef, Vec<String>> = BTreeMap::new();
    let Some(reader) = reader(map.format) else { return pairs };
    let span = |at: ElementRef| map.lists[at.list].elements[at.element];
    // A reader already indexed this value, so it is valid JSON.
    let index = |at: ElementRef| JsonIndex::new(stream.bytes(), span(at), |_| true).unwrap_or_default();
    let stays_before = |record: ElementRef, element: usize| {
        let mut events = map.sources[..element].iter().zip(dispositions);
        events.any(|(source, disposition)| source.record == Some(record) && !disposition.is_removed())
    };
    let places = Places::new(map, dispositions, summaries, deletions, reader.has_nested_messages());
    let mut previous: Option<(Option<usize>, String)> = None;
    for (number, (summary, place)) in summaries.iter().zip(&places.summaries).enumerate() {
        let Some(Place { element, record, next, at }) = *place else { continue };
        let records = &places.replaced[number];
        let ids = [0, 1].map(|half| name(span(record).slice(stream.bytes()), number, half));
        let last = records.iter().rfind(|last| last.list == record.list).copied().unwrap_or(record);
        let is_in_summary = |at: &ElementRef| {
            deletions.get(*at).is_some_and(|other| other == Disposition::Summarized(number))
        };
        let carried = map.carried.iter().filter(|(at, _)| is_in_summary(at));
        let [node, last] = [record, last].map(index);
        let next_index = next.map(index);
        let is_record = |source: &EventSource| source.record.is_some_and(|record| record.list == at.list);
        let is_nested = !map.sources.iter().any(is_record);
        // The previous summary, if no event is between both.
        let is_adjacent = |next: Option<usize>| map.links.is_empty() && next == summary.next;
        let previous_name = previous.take().filter(|(next, _)| is_adjacent(*next)).map(|(_, name)| name);
        let parent = previous_name.unwrap_or_else(|| parent(stream, map, at, deletions, pair_names));
        let pair = SummaryPair {
            first: JsonNode::new(stream.bytes(), &node),
            last: JsonNode::new(stream.bytes(), &last),
            carried: carried.map(|(_, span)| span.slice(stream.bytes())).collect(),
            at: summary.at,
            request: if summary.is_note { &summary.text } else { SUMMARY_REQUEST },
            response: if summary.is_note { "" } else { &summary.text },
            ids: ids.clone(),
            parent: &parent,
            number: new_number(stream, map, at, deletions, &pairs),
            next: next_index.as_ref().map(|index| JsonNode::new(stream.bytes(), index)),
            replaces_first: deletions.contains(record),
            is_nested,
        };
        let new_records = if summary.is_note { reader.note(&pair) } else { reader.pair(&pair) };
        if let (Some(member), Some(next), Some(request)) = (reader.blocks(), next, summary.next)
            && stays_before(next, request)
            && split(stream, map, dispositions, member, (next, request), &new_records, edits).is_some()
        {
            continue;
        }
        let is_after = (map.pinned.contains(&at) && reader.adds_after_pinned())
            || (at == record && stays_before(record, element));
        let at = ElementRef { element: at.element + usize::from(is_after), ..at };
        // A note has one record.
        let [first, last] = [0, usize::from(!summary.is_note)].map(|half| {
            let id = new_records.get(half).and_then(|record| reader.record_id(record));
            serde_json::Value::from(id.unwrap_or_else(|| ids[half].clone())).to_string()
        });
        pairs.entry(at).or_default().extend(new_records);
        if is_nested {
            continue;
        }
        previous = Some((summary.next, last.clone()));
        if !is_after {
            pair_names.before.insert(at, last.clone());
        }
        pair_names.first_names.entry(at).or_insert(first);
        pair_names.last_names.extend(records.iter().map(|record| (*record, (at, last.clone()))));
    }
    pairs
}

/// The places of the summaries.
struct Places {
    /// The places, by summary. `None` if the file has no record for it.
    summaries: Vec<Option<Place>>,
    /// The records that each summary replaces, or changes.
    replaced: Vec<Vec<ElementRef>>,
}

/// The place of a summary. Of three places, the first in the file is used: that of the first event that it replaces, of
/// the event that follows it in the view, and of the next summary. So the file has the order of the view.
#[derive(Clone, Copy)]
struct Place {
    /// The first event that the summary replaces, and its record.
    element: usize,
    record: ElementRef,
    /// The record of the event that follows the summary in the view, if the summary replaces only records after it.
    next: Option<ElementRef>,
    at: ElementRef,
}

impl Places {
    fn new(
        map: &SourceMap,
        dispositions: &[Disposition<'_>],
        summaries: &[Summary<'_>],
        deletions: &Deletions<'_>,
        has_nested_messages: bool,
    ) -> Self {
        let mut replaced = vec![Vec::new(); summaries.len()];
        let mut first_elements = vec![None; summaries.len()];
        let mut starts = vec![None; summaries.len()];
        for (element, (source, disposition)) in map.sources.iter().zip(dispositions).enumerate() {
            let Disposition::Summarized(number) = *disposition else { continue };
            starts[number] = starts[number].or(Some(element));
            if let Some(record) = source.record {
                first_elements[number] = first_elements[number].or(Some(element));
                replaced[number].push(record);
            }
        }
        // The message in a record that stays, or the record.
        let place = |source: &EventSource| {
            let record = source.record?;
            let nested = has_nested_messages && map.pinned.contains(&record);
            nested.then(|| nested_message(map, source)).flatten().or(Some(record))
        };
        let start = |at: ElementRef| map.lists[at.list].elements[at.element].start;
        let end = map.sources.iter().rev().find_map(|source| source.record);
        // A tree is followed from its last record, so a summary at the end must follow all rewound records.
        let end_of_tree = end.filter(|end| !map.links.is_empty() && deletions.contains(*end));
        let (mut places, mut following) = (vec![None; summaries.len()], None);
        for (number, summary) in summaries.iter().enumerate().rev() {
            // pi's own summary has no record. A summary of it alone precedes the next record.
            let has_record = |element: &usize| map.sources[*element].record.is_some();
            let after = || starts[number].and_then(|start| (start..map.sources.len()).find(has_record));
            let Some(element) = first_elements[number].or_else(after) else { continue };
            let source = &map.sources[element];
            let (Some(record), Some(own)) = (source.record, place(source)) else { continue };
            let next_source = summary.next.and_then(|next| map.sources.get(next));
            let next = next_source.and_then(place);
            let end_of_tree = end_of_tree.filter(|_| number + 1 == summaries.len() && next.is_none());
            let first = [Some(own), next, following].into_iter().flatten().min_by_key(|at| start(*at));
            let at = end_of_tree.or(first).unwrap_or(own);
            let next = next_source.and_then(|source| source.record).filter(|_| next == Some(at) && at != own);
            following = Some(at);
            places[number] = Some(Place { element, record, next, at });
        }
        Self { summaries: places, replaced }
    }
}

/// Returns the message with an event in a list of messages inside of the event's record.
fn nested_message(map: &SourceMap, source: &EventSource) -> Option<ElementRef> {
    let element = first_element(&source.deletion)?;
    Some(map.lists[element.list].holder.unwrap_or(element))
}

fn first_element(deletion: &Deletion) -> Option<ElementRef> {
    elements(deletion).first().copied()
}

fn elements(deletion: &Deletion) -> Vec<ElementRef> {
    match deletion {
        Deletion::Element(element) => vec![*element],
        Deletion::Several(deletions) => deletions.iter().flat_map(elements).collect(),
        Deletion::Nothing | Deletion::Value(..) => Vec::new(),
    }
}

/// Splits a message between the results of the previous turn and the request of the next turn. The pair is inserted
/// there, and its request is joined to the results, because results must directly follow their calls. Blocks of the
/// request that precede a result are moved.
fn split(
    stream: &Stream,
    map: &SourceMap,
    dispositions: &[Disposition<'_>],
    member: &str,
    (record, request): (ElementRef, usize),
    pair: &[String],
    edits: &mut Edits,
) -> Option<()> {
    let (source, [summary_request, response]) = (stream.bytes(), pair) else { return None };
    let request_blocks = elements(&map.sources.get(request)?.deletion);
    let list = &map.lists[record.list];
    let blocks = &map.lists[request_blocks.first()?.list].elements;
    let stays = map.sources[..request]
        .iter()
        .zip(dispositions)
        .filter(|(source, disposition)| source.record == Some(record) && !disposition.is_removed());
    let last_result = stays.filter_map(|(source, _)| first_element(&source.deletion)).max()?;
    let (moved, following): (Vec<ElementRef>, Vec<ElementRef>) =
        request_blocks.into_iter().partition(|block| *block < last_result);
    let message = list.elements[record.element];
    let text = |span: Span| String::from_utf8_lossy(span.slice(source)).into_owned();
    let head = text(Span { end: blocks.first()?.start, ..message });
    let tail = text(Span { start: blocks.last()?.end, ..message });
    let (summary_block, separator) = (user_block(summary_request, member)?, list.separator(source));
    let moved_text: Vec<String> = moved.iter().map(|block| text(blocks[block.element])).collect();
    let moved_text = moved_text.join(", ");
    let middle = format!("{summary_block}{tail}{separator}{response}{separator}{head}{moved_text}");
    edits.deleted.extend(moved.iter().copied());
    edits.written.push(match following.first() {
        Some(block) => {
            let start = blocks[block.element].start;
            let comma = if moved.is_empty() { "" } else { ", " };
            (Span { start, end: start }, format!("{middle}{comma}"))
        }
        None => {
            let start = blocks[last_result.element].end;
            (Span { start, end: start }, format!(", {middle}"))
        }
    });
    Some(())
}

/// Returns the new number of a record, after deletions and insertions before it.
fn new_number(
    stream: &Stream,
    map: &SourceMap,
    record: ElementRef,
    deletions: &Deletions<'_>,
    pairs: &BTreeMap<ElementRef, Vec<String>>,
) -> Option<usize> {
    let (_, span) = map.numbers.iter().find(|(at, _)| *at == record)?;
    let number: usize = std::str::from_utf8(stream.bytes_at(*span)).ok()?.parse().ok()?;
    let before = ElementRef { element: 0, ..record }..record;
    let inserted: usize = pairs.range(before).map(|(_, new_records)| new_records.len()).sum();
    (number + inserted).checked_sub(deletions.count_before(record))
}

/// Returns the name, as JSON, of the record that `record` follows after the deletions.
fn parent(
    stream: &Stream,
    map: &SourceMap,
    record: ElementRef,
    deletions: &Deletions<'_>,
    pair_names: &PairNames,
) -> String {
    if let Some(pair) = pair_names.before.get(&record) {
        return pair.clone();
    }
    let start = map.links.iter().position(|link| link.record == record);
    follow(&LinkIndex::new(stream, map), start, deletions, pair_names).unwrap_or_else(|| "null".into())
}

/// Finds links by their names. The map is built only if the parent of a link is not the previous link, which is rare.
pub(super) struct LinkIndex<'a> {
    stream: &'a Stream,
    map: &'a SourceMap,
    by_name: OnceCell<HashMap<Cow<'a, [u8]>, usize>>,
}

impl<'a> LinkIndex<'a> {
    pub(super) fn new(stream: &'a Stream, map: &'a SourceMap) -> Self {
        Self { stream, map, by_name: OnceCell::new() }
    }

    /// Returns the index of the parent's link.
    pub(super) fn parent(&self, index: usize) -> Option<usize> {
        let links = &self.map.links;
        if links[index].previous.is_some() {
            return links[index].previous;
        }
        let parent = self.stream.bytes_at(links[index].parent);
        if parent.is_empty() || parent == b"null" {
            return None;
        }
        let name = |link: &Link| text::canonical(self.stream.bytes_at(link.id));
        let by_name = || links.iter().enumerate().map(|(index, link)| (name(link), index)).collect();
        self.by_name.get_or_init(by_name).get(&text::canonical(parent)).copied()
    }
}

/// Returns the name, as JSON, of the record that a link leads to after the edit: a kept record or a pair's record.
pub(super) fn follow(
    link_index: &LinkIndex<'_>,
    start: Option<usize>,
    deletions: &Deletions<'_>,
    pair_names: &PairNames,
) -> Option<String> {
    let links = &link_index.map.links;
    let mut index = start?;
    // A link without a name only mentions another record, so its position does not matter.
    let is_mention = links.get(index)?.id.is_empty();
    let start_record = links.get(index)?.record;
    let mut first_pair: Option<&(ElementRef, String)> = None;
    // Bounded by the number of links, because a file may contain a cycle.
    for _ in 0..=links.len() {
        // The id of the previous record equals `parent`, which may not be in memory.
        let name = links[index].previous.map_or(links[index].parent, |previous| links[previous].id);
        let next_index = link_index.parent(index);
        let next = next_index.map(|next| &links[next]);
        let stays = next.filter(|next| !deletions.contains(next.record));
        match (next, first_pair) {
            // A record that stays among the records of a summary keeps its side: before or after the place of the pair.
            (_, Some((pair, last))) if stays.map_or(next.is_none(), |stays| stays.record < *pair) => {
                return Some(last.clone());
            }
            (Some(next), _) if stays.is_none() => {
                let pair = pair_names
                    .last_names
                    .get(&next.record)
                    .filter(|(pair, _)| is_mention || *pair < start_record);
                first_pair = first_pair.or(pair);
                index = next_index?;
            }
            _ if name.is_empty() => return None,
            _ => return str::from_utf8(link_index.stream.bytes_at(name)).ok().map(str::to_owned),
        }
    }
    None
}
