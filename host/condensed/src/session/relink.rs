//! The records that followed a deleted record. They are linked to the record that now precedes them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use jp_compact_core::text;
use jp_compact_json::Span;

use super::log::{LinkRow, SessionLog, ShortSpan};

/// A value that names a deleted record.
#[derive(PartialEq)]
pub(super) struct RelinkedRow {
    pub(super) line: u32,
    /// The value.
    pub(super) parent: ShortSpan,
    /// The new value: the name of the record that now precedes the line. `None` becomes `null`.
    pub(super) name: Option<ShortSpan>,
}

/// The records and their parents. `raw` returns the bytes of a name.
pub(super) struct LinkTree<'a, F> {
    log: &'a SessionLog,
    deleted: &'a [bool],
    raw: F,
    records: Records<'a>,
}

/// The records among which a parent is searched that is not the previous record.
enum Records<'a> {
    /// All links by name. The map is made when it is needed.
    All(OnceCell<HashMap<Cow<'a, [u8]>, usize>>),
    /// Only some links before the record, because later records have not been read.
    Recent,
}

/// The number of links that are recent.
const RECENT_LINKS: usize = 16;

impl<'a, F: Fn(Span) -> &'a [u8]> LinkTree<'a, F> {
    /// Makes the tree of a whole session.
    pub(super) fn new(log: &'a SessionLog, deleted: &'a [bool], raw: F) -> Self {
        Self { log, deleted, raw, records: Records::All(OnceCell::new()) }
    }

    /// Makes the tree of the records that have been read.
    pub(super) fn of_recent(log: &'a SessionLog, deleted: &'a [bool], raw: F) -> Self {
        Self { log, deleted, raw, records: Records::Recent }
    }

    /// Returns the changed links from the index `first`, in the order of the file.
    pub(super) fn relinked(&self, first: usize) -> impl Iterator<Item = RelinkedRow> {
        let changed = (first..self.log.links.len())
            .filter(|link| !self.is_deleted(*link) && self.deleted_parent(*link).is_some());
        changed.map(|link| {
            let LinkRow { line, parent, .. } = self.log.links[link];
            RelinkedRow { line, parent, name: self.name_of_ancestor(link) }
        })
    }

    fn is_deleted(&self, link: usize) -> bool {
        self.deleted[self.log.links[link].line as usize]
    }

    fn name(&self, link: usize) -> &'a [u8] {
        (self.raw)(self.log.links[link].name.span())
    }

    /// Returns the index of the parent's link, if the parent is deleted.
    fn deleted_parent(&self, index: usize) -> Option<usize> {
        if let Some(previous) = self.log.links[index].previous() {
            return Some(previous).filter(|previous| self.is_deleted(*previous));
        }
        let parent = (self.raw)(self.log.links[index].parent.span());
        if parent.is_empty() || parent == b"null" {
            return None;
        }
        match &self.records {
            Records::All(by_name) => {
                let name = |index: usize| (text::canonical(self.name(index)), index);
                let by_name = by_name.get_or_init(|| (0..self.log.links.len()).map(name).collect());
                by_name.get(&text::canonical(parent)).copied().filter(|link| self.is_deleted(*link))
            }
            Records::Recent => (index.saturating_sub(RECENT_LINKS)..index)
                .rev()
                .find(|link| self.is_deleted(*link) && self.name(*link) == parent),
        }
    }

    /// Returns the name of the nearest ancestor that stays.
    fn name_of_ancestor(&self, start: usize) -> Option<ShortSpan> {
        let mut index = start;
        // Bounded by the number of links, because a file may contain a cycle.
        for _ in 0..=self.log.links.len() {
            match self.deleted_parent(index) {
                Some(next) => index = next,
                None => {
                    let link = &self.log.links[index];
                    let name = link.previous().map_or(link.parent, |previous| self.log.links[previous].name);
                    return Some(name).filter(|name| name.start < name.end);
                }
            }
        }
        None
    }
}
