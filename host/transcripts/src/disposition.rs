//! The disposition of an event: whether it stays, changes, or is removed when a view is written back.

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Disposition<'a> {
    Kept,
    Deleted,
    Emptied,
    /// Its content is replaced by this text.
    Replaced(&'a str),
    /// A summary represents it: the index in the list of summaries.
    Summarized(usize),
}

impl Disposition<'_> {
    /// Returns whether the event is removed, with or without a summary.
    pub(crate) fn is_removed(self) -> bool {
        matches!(self, Self::Deleted | Self::Summarized(_))
    }
}
