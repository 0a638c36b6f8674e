//! The pairs of records that represent summaries: their positions, their names, and the links to them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

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
    /// The name of the first record of the pair at a position.
    pub(super) first_names: HashMap<ElementRef, String>,
    /// For a record that stays and directly follows a pair, the name of the pair's last record.
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

impl Summary<'_> {
    /// Returns the record of the user's request if the summary replaces the first steps of the request's turn. The pair
    /// then precedes that record. `record` is the first record that the summary replaces.
    fn next_record(&self, map: &SourceMap, record: ElementRef) -> Option<ElementRef> {
        let next = map.sources.get(self.next?)?.record?;
        (next.list == record.list && next.element < record.element).then_some(next)
    }
}

/// Returns the pairs, by the record that each precedes. Adds the names that replace each deleted record to
/// `pair_names`, and the edits that split a message to `written`.
pub(super) fn pairs(
    stream: &Stream,
    map: &SourceMap,
    dispositions: &[Disposition<'_>],
    summaries: &[Summary<'_>],
    deletions: &Deletions<'_>,
    pair_names: &mut PairNames,
    written: &mut Vec<(Span, String)>,
) -> BTreeMap<ElementRef, Vec<String>> {
    let mut pairs: BTreeMap<ElementRef, Vec<String>> = BTreeMap::new();
    // `None` if the pair is inside of a record.
    let mut by_summary: HashMap<usize, Option<(ElementRef, String)>> = HashMap::new();
    let Some(reader) = reader(map.format) else { return pairs };
    let is_tree = !map.links.is_empty();
    let end = map.sources.iter().rev().find_map(|source| source.record);
    let summary_at_end = match dispositions.last() {
        Some(Disposition::Summarized(number)) => Some(*number),
        _ => None,
    };
    let stays_before = |record: ElementRef, element: usize| {
        let mut events = map.sources[..element].iter().zip(dispositions);
        events.any(|(source, disposition)| source.record == Some(record) && !disposition.is_removed())
    };
    for (element, (source, disposition)) in map.sources.iter().zip(dispositions).enumerate() {
        let (Some(record), Disposition::Summarized(number)) = (source.record, disposition) else { continue };
        let last = by_summary.entry(*number).or_insert_with(|| {
            let summary = &summaries[*number];
            let span = |at: ElementRef| map.lists[at.list].elements[at.element];
            let ids = [0, 1].map(|half| name(span(record).slice(stream.bytes()), *number, half));
            let is_in_list = |source: &EventSource| source.record.is_some_and(|at| at.list == record.list);
            let mut sources = map.sources.iter().zip(dispositions).rev();
            let newest = sources.find(|(source, other)| *other == disposition && is_in_list(source));
            let is_in_summary =
                |at: &ElementRef| deletions.get(*at).is_some_and(|other| other == *disposition);
            let carried = map.carried.iter().filter(|(at, _)| is_in_summary(at));
            // A reader already indexed this value, so it is valid JSON.
            let [node, last] = [record, newest.and_then(|(source, _)| source.record).unwrap_or(record)]
                .map(|at| JsonIndex::new(stream.bytes(), span(at), |_| true).unwrap_or_default());
            let next = summary.next_record(map, record);
            let next_index =
                next.map(|at| JsonIndex::new(stream.bytes(), span(at), |_| true).unwrap_or_default());
            let can_nest = reader.has_nested_messages() && !deletions.contains(record);
            let nested = can_nest.then(|| nested_position(map, source, summary.next)).flatten();
            // A tree is followed from its last record, so a summary at the end must follow all rewound records.
            let at = if let Some(at) = nested.or(next) {
                at
            } else if is_tree && Some(*number) == summary_at_end && summary.next.is_none() {
                end.unwrap_or(record)
            } else {
                record
            };
            let parent = parent(stream, map, at, deletions, pair_names);
            let pair = SummaryPair {
                first: JsonNode::new(stream.bytes(), &node),
                last: JsonNode::new(stream.bytes(), &last),
                carried: carried.map(|(_, span)| span.slice(stream.bytes())).collect(),
                at: summary.at,
                request: if summary.is_note { &summary.text } else { SUMMARY_REQUEST },
                response: if summary.is_note { "" } else { &summary.text },
                ids: ids.clone(),
                parent: &parent,
                number: new_number(stream, map, next.unwrap_or(record), deletions, &pairs),
                next: next_index.as_ref().map(|index| JsonNode::new(stream.bytes(), index)),
                is_nested: nested.is_some(),
            };
            let follows_pinned = map.pinned.contains(&at) && reader.adds_after_pinned();
            let is_after = next.is_none()
                && nested.is_none()
                && (follows_pinned || (at == record && stays_before(record, element)));
            let at = ElementRef { element: at.element + usize::from(is_after), ..at };
            let records = if summary.is_note { reader.note(&pair) } else { reader.pair(&pair) };
            if let (Some(member), Some(next), Some(request)) = (reader.blocks(), next, summary.next)
                && stays_before(next, request)
                && let Some(edit) = split(stream, map, member, next, request, &records)
            {
                written.push(edit);
                return None;
            }
            let first_id = reader.first_id(&records);
            pairs.entry(at).or_default().extend(records);
            if nested.is_some() {
                return None;
            }
            let [first, second] = ids;
            let [first, second] =
                [first_id.unwrap_or(first), second].map(|id| serde_json::Value::from(id).to_string());
            let last = if summary.is_note { first.clone() } else { second };
            if next.is_some() {
                pair_names.before.insert(at, last.clone());
            }
            pair_names.first_names.insert(at, first);
            Some((at, last))
        });
        pair_names.last_names.extend(last.clone().map(|last| (record, last)));
    }
    pairs
}

/// Returns the position of a summary in the list of messages inside its first record: before the request `next` if it
/// is in that list and stays, otherwise in place of the first message that the summary replaces.
fn nested_position(map: &SourceMap, first: &EventSource, next: Option<usize>) -> Option<ElementRef> {
    let message = |source: &EventSource| map.lists[first_element(&source.deletion)?.list].holder;
    let first = message(first)?;
    let next = next.and_then(|next| message(map.sources.get(next)?));
    Some(next.filter(|next| next.list == first.list).map_or(first, |next| next.min(first)))
}

fn first_element(deletion: &Deletion) -> Option<ElementRef> {
    match deletion {
        Deletion::Element(element) => Some(*element),
        Deletion::Several(deletions) => deletions.iter().find_map(first_element),
        Deletion::Nothing | Deletion::Value(..) => None,
    }
}

/// Returns the edit that splits a message between results of the previous turn and the request of the next turn. The
/// pair is inserted there, and its request is joined to the results, because results must directly follow their calls.
fn split(
    stream: &Stream,
    map: &SourceMap,
    member: &str,
    record: ElementRef,
    request: usize,
    pair: &[String],
) -> Option<(Span, String)> {
    let (source, [summary_request, response]) = (stream.bytes(), pair) else { return None };
    let block = first_element(&map.sources.get(request)?.deletion)?;
    let (blocks, list) = (&map.lists[block.list].elements, &map.lists[record.list]);
    let (message, start) = (list.elements[record.element], blocks.get(block.element)?.start);
    let head = String::from_utf8_lossy(&source[message.start..blocks.first()?.start]);
    let tail = String::from_utf8_lossy(&source[blocks.last()?.end..message.end]);
    let (summary_block, separator) = (user_block(summary_request, member)?, list.separator(source));
    let text = format!("{summary_block}{tail}{separator}{response}{separator}{head}");
    Some((Span { start, end: start }, text))
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
            // A remaining record among the records of a summary follows the pair or precedes it, as in the file.
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
