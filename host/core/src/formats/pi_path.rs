//! Which entries of a session of pi a model is sent: those on the way from the root to the last one, as far as pi did not
//! compact them itself.

use std::collections::{HashMap, HashSet};

use super::foreign::At;
use super::reading::{Draft, Reading};
use crate::event::Kind;
use crate::json::Span;

/// An entry of a session.
pub(super) struct Entry {
    pub(super) at: At,
    pub(super) id: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) found: Vec<(Kind, Draft)>,
    /// Whether it opens a turn.
    pub(super) opens: bool,
    pub(super) names: Names,
}

/// What an entry says of others.
pub(super) enum Names {
    Nothing,
    /// It is a summary that pi made, and what comes before the one that it names is not sent.
    Kept {
        summary: Box<Draft>,
        first: FirstKept,
    },
    /// It marks another.
    Marked {
        span: Span,
        id: String,
    },
}

/// How a summary names the first entry that is still sent.
pub(super) enum FirstKept {
    Id(Span, String),
    /// The number of the entry, with the session's head: as there were no ids.
    Number(usize),
    Nothing,
}

/// The entries on the way from the root to the last one, and the entry that names one that is missing.
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

/// The place on the path of the first entry that is still sent: where none is, the one behind the summary.
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

/// Ties what names an entry on the path to what stands there when that goes.
pub(super) fn tie(
    reading: &mut Reading,
    entries: &[Entry],
    path: &[usize],
    compacted: Option<usize>,
    from: usize,
) {
    // What says nothing stays whatever goes.
    let records = |path: &[usize]| {
        let stays = path.iter().position(|place| entries[*place].found.is_empty());
        let some = path.iter().take(stays.map_or(path.len(), |stays| stays + 1));
        some.map(|place| entries[*place].at).collect()
    };
    if let Some(compacted) = compacted
        && let Names::Kept { first: FirstKept::Id(span, _), .. } = &entries[path[compacted]].names
        && from < compacted
    {
        reading.first(*span, records(&path[from..=compacted]));
    }
    for entry in entries {
        if let Names::Marked { span, id } = &entry.names
            && let Some(marked) = path.iter().position(|place| entries[*place].id.as_ref() == Some(id))
        {
            reading.first(*span, records(&path[marked..]));
        }
    }
}
