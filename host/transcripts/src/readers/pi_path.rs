//! The entries of a pi session that the model receives: those on the path from the root to the last entry, without
//! the ones that pi compacted itself.

use std::collections::{HashMap, HashSet};

use crate::builder::{EventBuilder, EventDraft};
use crate::source_map::ElementRef;
use jp_compact_core::event::Kind;
use jp_compact_core::json::Span;

pub(super) struct Entry {
    pub(super) at: ElementRef,
    pub(super) id: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) found: Vec<(Kind, EventDraft)>,
    /// Whether the entry begins a turn.
    pub(super) opens: bool,
    pub(super) names: Names,
}

/// A reference from an entry to other entries.
pub(super) enum Names {
    Nothing,
    /// A summary that pi made. The model does not receive entries before the named one.
    Kept {
        summary: Box<EventDraft>,
        first: FirstKept,
    },
    /// A mark on another entry.
    Marked {
        span: Span,
        id: String,
    },
}

/// The reference from a summary to the first entry that is still sent.
pub(super) enum FirstKept {
    Id(Span, String),
    /// The number of the entry, counted with the session's head. Used before entries had ids.
    Number(usize),
    Nothing,
}

/// Returns the path from the root to the last entry, and the entry whose parent is missing.
pub(super) fn path(entries: &[Entry]) -> (Vec<usize>, Option<usize>) {
    let with_id = |(place, entry): (usize, &Entry)| Some((entry.id.clone()?, place));
    let by_id: HashMap<String, usize> = entries.iter().enumerate().filter_map(with_id).collect();
    let (mut path, mut seen) = (Vec::new(), HashSet::new());
    let mut next = entries.iter().rposition(|entry| entry.id.is_some());
    while let Some(place) = next.filter(|place| seen.insert(*place)) {
        path.push(place);
        next = entries[place].parent.as_ref().and_then(|parent| by_id.get(parent).copied());
    }
    let broken = path.last().copied().filter(|place| entries[*place].parent.is_some());
    path.reverse();
    (path, broken)
}

/// Returns the position on the path of the first entry that is still sent. Without a reference it is the entry after
/// the summary.
pub(super) fn first_kept(entries: &[Entry], path: &[usize], compacted: usize) -> usize {
    let Names::Kept { first, .. } = &entries[path[compacted]].names else { return compacted };
    let found = match first {
        FirstKept::Id(_, id) => {
            path[..compacted].iter().position(|place| entries[*place].id.as_ref() == Some(id))
        }
        FirstKept::Number(number) => path[..compacted].iter().position(|place| place >= number),
        FirstKept::Nothing => None,
    };
    found.unwrap_or(compacted)
}

/// Redirects references to an entry on the path, so that they name the next entry when that one is deleted.
pub(super) fn tie(
    builder: &mut EventBuilder,
    entries: &[Entry],
    path: &[usize],
    compacted: Option<usize>,
    from: usize,
) {
    // An entry without events is never deleted.
    let records = |path: &[usize]| {
        let stays = path.iter().position(|place| entries[*place].found.is_empty());
        let some = path.iter().take(stays.map_or(path.len(), |stays| stays + 1));
        some.map(|place| entries[*place].at).collect()
    };
    if let Some(compacted) = compacted
        && let Names::Kept { first: FirstKept::Id(span, _), .. } = &entries[path[compacted]].names
        && from < compacted
    {
        builder.add_first_record(*span, records(&path[from..=compacted]));
    }
    for entry in entries {
        if let Names::Marked { span, id } = &entry.names
            && let Some(marked) = path.iter().position(|place| entries[*place].id.as_ref() == Some(id))
        {
            builder.add_first_record(*span, records(&path[marked..]));
        }
    }
}
