//! The records that are deleted as a whole, because none of their events is left.

use crate::disposition::Disposition;
use crate::source_map::{ElementRef, SourceMap};

/// The deleted records, each with the disposition of its first event.
pub(super) struct Deletions<'a> {
    /// By list and element.
    states: Vec<Vec<Option<RecordState<'a>>>>,
    len: usize,
}

/// `Ok` if the record is pinned or one of its events stays, otherwise the disposition of its first event.
type RecordState<'a> = Result<(), Disposition<'a>>;

impl<'a> Deletions<'a> {
    pub(super) fn new(map: &SourceMap, dispositions: &[Disposition<'a>]) -> Self {
        let mut deletions = Self { states: vec![Vec::new(); map.lists.len()], len: 0 };
        for (source, disposition) in map.sources.iter().zip(dispositions) {
            let Some(record) = source.record else { continue };
            let list = &mut deletions.states[record.list];
            if list.is_empty() {
                list.resize(map.lists[record.list].elements.len(), None);
            }
            let stays = !disposition.is_removed() || map.pinned.contains(&record);
            let previous = list[record.element];
            list[record.element] = if stays { Some(Ok(())) } else { previous.or(Some(Err(*disposition))) };
        }
        deletions.len = deletions.records().count();
        deletions
    }

    /// Returns the disposition of a record's first event if the record is deleted.
    pub(super) fn get(&self, record: ElementRef) -> Option<Disposition<'a>> {
        self.states.get(record.list)?.get(record.element)?.and_then(Result::err)
    }

    pub(super) fn contains(&self, record: ElementRef) -> bool {
        self.get(record).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the deleted records in the order of the file.
    pub(super) fn records(&self) -> impl Iterator<Item = ElementRef> + '_ {
        let lists = self.states.iter().enumerate();
        lists.flat_map(|(list, states)| {
            let deleted_record = move |(element, state): (usize, &Option<RecordState<'_>>)| {
                matches!(state, Some(Err(_))).then_some(ElementRef { list, element })
            };
            states.iter().enumerate().filter_map(deleted_record)
        })
    }

    /// Returns the number of deleted records before a record in its list.
    pub(super) fn count_before(&self, record: ElementRef) -> usize {
        let states = self.states.get(record.list).and_then(|states| states.get(..record.element));
        states.unwrap_or_default().iter().filter(|state| matches!(state, Some(Err(_)))).count()
    }
}
