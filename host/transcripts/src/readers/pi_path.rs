//! The entries of a pi session that the model receives: those on the path from the root to the last entry, without the
//! entries that pi compacted itself.

use std::collections::{HashMap, HashSet};

use crate::builder::{EventBuilder, EventDraft, NewEvent};
use crate::source_map::{ElementRef, FirstRecord};
use jp_compact_json::Span;

#[derive(Default)]
pub(super) struct PiEntry {
    pub(super) at: ElementRef,
    pub(super) id: Option<String>,
    pub(super) id_span: Span,
    pub(super) parent: Option<String>,
    pub(super) events: Vec<NewEvent>,
    /// Whether the entry begins a turn.
    pub(super) starts_turn: bool,
    pub(super) reference: Reference,
}

/// A reference from an entry to another entry.
#[derive(Default)]
pub(super) enum Reference {
    #[default]
    Nothing,
    /// A summary that pi made. The model does not receive entries before the named entry.
    Kept { summary: Box<EventDraft>, first: FirstKept },
    /// A mark on another entry.
    Marked { span: Span, id: String },
}

/// The reference from a summary to the first entry that is still sent.
pub(super) enum FirstKept {
    Id(Span, String),
    /// The number of the entry, counted with the session's head. Used before entries had ids.
    Number(usize),
    Nothing,
}

/// Returns the path from the root to the last entry, and its first entry if the parent of that entry is missing.
pub(super) fn path(entries: &[PiEntry]) -> (Vec<usize>, Option<usize>) {
    let with_id = |(index, entry): (usize, &PiEntry)| Some((entry.id.clone()?, index));
    let by_id: HashMap<String, usize> = entries.iter().enumerate().filter_map(with_id).collect();
    let (mut path, mut seen) = (Vec::new(), HashSet::new());
    let mut next = entries.iter().rposition(|entry| entry.id.is_some());
    while let Some(index) = next.filter(|index| seen.insert(*index)) {
        path.push(index);
        next = entries[index].parent.as_ref().and_then(|parent| by_id.get(parent).copied());
    }
    let broken_at = path.last().copied().filter(|index| entries[*index].parent.is_some());
    path.reverse();
    (path, broken_at)
}

/// Returns the position on the path of the first entry that is still sent. If no entry before the summary is sent,
/// returns the summary's own position.
pub(super) fn first_kept(entries: &[PiEntry], path: &[usize], compaction: usize) -> usize {
    let Reference::Kept { first, .. } = &entries[path[compaction]].reference else { return compaction };
    let index = match first {
        FirstKept::Id(_, id) => {
            path[..compaction].iter().position(|index| entries[*index].id.as_ref() == Some(id))
        }
        FirstKept::Number(number) => path[..compaction].iter().position(|index| index >= number),
        FirstKept::Nothing => None,
    };
    index.unwrap_or(compaction)
}

/// Redirects the references to entries on the path: when an entry is deleted, they name the next entry.
pub(super) fn redirect_references(
    builder: &mut EventBuilder,
    entries: &[PiEntry],
    path: &[usize],
    compaction: Option<usize>,
    from: usize,
) {
    // An entry without events is never deleted.
    let records = |path: &[usize]| {
        let stays = path.iter().position(|index| entries[*index].events.is_empty());
        let deletable = path.iter().take(stays.map_or(path.len(), |stays| stays + 1));
        deletable.map(|index| (entries[*index].at, entries[*index].id_span)).collect()
    };
    if let Some(compaction) = compaction
        && let Reference::Kept { first: FirstKept::Id(span, _), .. } = &entries[path[compaction]].reference
        && from < compaction
    {
        let records = records(&path[from..=compaction]);
        builder.add_first_record(FirstRecord { span: *span, key: None, records, is_start: true });
    }
    for entry in entries {
        if let Reference::Marked { span, id } = &entry.reference
            && let Some(marked) = path.iter().position(|index| entries[*index].id.as_ref() == Some(id))
        {
            let records = records(&path[marked..]);
            builder.add_first_record(FirstRecord { span: *span, key: None, records, is_start: false });
        }
    }
}
