//! The operations of tools on files.

/// An operation on a file. A later variant changes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileOp {
    Read,
    Created,
    Modified,
    Deleted,
}
