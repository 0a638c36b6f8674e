//! The operations of tools on files.

/// Ordered by how much it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileOp {
    Read,
    Created,
    Modified,
    Deleted,
}
