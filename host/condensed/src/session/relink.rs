//! The records that followed a deleted record. They are linked to the record that now precedes them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use jp_compact_core::text;
use jp_compact_json::KeptSpans;

use super::log::{LinkRow, SessionLog, ShortSpan};

/// A value that names a deleted record.
pub(super) struct RelinkedRow {
    pub(super) line: u32,
    /// The value.
    pub(super) parent: ShortSpan,
    /// The new value: the name of the record that now precedes the line. `None` becomes `null`.
    pub(super) name: Option<ShortSpan>,
}

/// Returns the changed links, in the order of the file. `None` if a name is not in memory.
pub(super) fn relinked_lines(
    log: &SessionLog,
    kept: &KeptSpans,
    deleted: &[bool],
) -> Option<Vec<RelinkedRow>> {
    let mut relinked = Vec::new();
    if !deleted.contains(&true) {
        return Some(relinked);
    }
    let tree = LinkTree::new(log, kept);
    let is_deleted = |link: usize| deleted[log.links[link].line as usize];
    for (index, link) in log.links.iter().enumerate() {
        if !is_deleted(index) && tree.parent(index).is_some_and(is_deleted) {
            let name = tree.name_of_ancestor(index, is_deleted);
            if name.is_some_and(|name| kept.get(name.span()).is_none()) {
                return None;
            }
            relinked.push(RelinkedRow { line: link.line, parent: link.parent, name });
        }
    }
    Some(relinked)
}

struct LinkTree<'a> {
    log: &'a SessionLog,
    kept: &'a KeptSpans,
    /// For each link, the index of the last link with a name before it, plus 1. 0 if there is none.
    named_before: Vec<u32>,
    /// The links by name. Made only if the parent of a link is not the previous link.
    by_name: OnceCell<HashMap<Cow<'a, [u8]>, usize>>,
}

impl<'a> LinkTree<'a> {
    fn new(log: &'a SessionLog, kept: &'a KeptSpans) -> Self {
        let mut last = 0;
        let named_before = log.links.iter().enumerate().map(|(index, link)| {
            let before = last;
            if link.name.start < link.name.end {
                last = index as u32 + 1;
            }
            before
        });
        Self { log, kept, named_before: named_before.collect(), by_name: OnceCell::new() }
    }

    fn previous(&self, index: usize) -> Option<usize> {
        let previous = self.log.links[index].follows_last.then(|| self.named_before[index] as usize);
        previous?.checked_sub(1)
    }

    /// Returns the index of the parent's link.
    fn parent(&self, index: usize) -> Option<usize> {
        if let Some(previous) = self.previous(index) {
            return Some(previous);
        }
        let parent = self.kept.bytes_at(self.log.links[index].parent.span());
        if parent.is_empty() || parent == b"null" {
            return None;
        }
        let name = |link: &LinkRow| text::canonical(self.kept.bytes_at(link.name.span()));
        let by_name = || self.log.links.iter().enumerate().map(|(index, link)| (name(link), index)).collect();
        self.by_name.get_or_init(by_name).get(&text::canonical(parent)).copied()
    }

    /// Returns the name of the nearest ancestor that stays.
    fn name_of_ancestor(&self, start: usize, is_deleted: impl Fn(usize) -> bool) -> Option<ShortSpan> {
        let mut index = start;
        // Bounded by the number of links, because a file may contain a cycle.
        for _ in 0..=self.log.links.len() {
            match self.parent(index) {
                Some(next) if is_deleted(next) => index = next,
                _ => {
                    let link = &self.log.links[index];
                    let name =
                        self.previous(index).map_or(link.parent, |previous| self.log.links[previous].name);
                    return Some(name).filter(|name| name.start < name.end);
                }
            }
        }
        None
    }
}
