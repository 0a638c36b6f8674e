//! The operations of tools on files.

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileOp {
    Read,
    Created,
    Modified,
    Deleted,
}
