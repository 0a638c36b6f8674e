//! The records that are deleted as a whole, because none of their events is left.

use crate::disposition::Disposition;
use crate::source_map::{ElementRef, SourceMap};

/// The deleted records, each with the disposition of its first event.
pub(super) struct Deletions<'a> {
    /// By list and element. A record that stays is `Ok`.
    dispositions: Vec<Vec<Option<Stays<'a>>>>,
    len: usize,
}

/// `Ok` if an event of the record stays, otherwise the disposition of its first event.
type Stays<'a> = Result<(), Disposition<'a>>;

impl<'a> Deletions<'a> {
    pub(super) fn new(map: &SourceMap, dispositions: &[Disposition<'a>]) -> Self {
        let mut removed = Self { dispositions: vec![Vec::new(); map.lists.len()], len: 0 };
        for (place, disposition) in map.sources.iter().zip(dispositions) {
            let Some(record) = place.record else { continue };
            let list = &mut removed.dispositions[record.list];
            if list.is_empty() {
                list.resize(map.lists[record.list].elements.len(), None);
            }
            let stays = !disposition.is_removed() || map.pinned.contains(&record);
            let known = list[record.element];
            list[record.element] = if stays { Some(Ok(())) } else { known.or(Some(Err(*disposition))) };
        }
        removed.len = removed.records().count();
        removed
    }

    /// Returns the disposition of a record's first event if the record is deleted.
    pub(super) fn get(&self, record: ElementRef) -> Option<Disposition<'a>> {
        self.dispositions.get(record.list)?.get(record.element)?.and_then(Result::err)
    }

    pub(super) fn contains(&self, record: ElementRef) -> bool {
        self.get(record).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the deleted records in the order of the file.
    pub(super) fn records(&self) -> impl Iterator<Item = ElementRef> + '_ {
        let numbered = self.dispositions.iter().enumerate();
        numbered.flat_map(|(list, dispositions)| {
            let goes = move |(element, disposition): (usize, &Option<Stays<'_>>)| {
                matches!(disposition, Some(Err(_))).then_some(ElementRef { list, element })
            };
            dispositions.iter().enumerate().filter_map(goes)
        })
    }

    /// Returns the number of deleted records before a record in its list.
    pub(super) fn before(&self, record: ElementRef) -> usize {
        let before =
            self.dispositions.get(record.list).and_then(|dispositions| dispositions.get(..record.element));
        before.unwrap_or_default().iter().filter(|disposition| matches!(disposition, Some(Err(_)))).count()
    }
}
