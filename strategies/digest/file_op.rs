//! The operations of tools on files.

/// An operation on a file. The order is that of the extent of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileOp {
    Read,
    Created,
    Modified,
    Deleted,
}
