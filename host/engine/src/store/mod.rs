//! Finds a transcript, reads it, and replaces it: whole or not at all, and on disk before it is reported.
//!
//! Promises. A write is made under JP's own lock, on a file that still begins with the bytes that were read, and
//! never where a second copy of the conversation holds other raw events; a copy that holds the same ones is written
//! first. Until the one rename the old file stands untouched; after any failure before it nothing is left behind. The
//! store knows bytes, not conversations: core compares two copies, and others say what a transcript means.

mod beside;
mod compare;
mod copies;
mod error;
mod fence;
mod folder;
mod fresh;
mod lock;
mod open_folder;
mod place;
mod rehearse;
mod replace;
mod snapshot;
mod temporary;
mod workspace;

pub use jp_compact_core::splice::Piece;

pub use self::{
    beside::{Beside, Found, is_beside, is_events},
    error::{StoreError, StoreErrorKind},
    fence::Fence,
    folder::{Missing, create, create_new, free},
    fresh::write_new,
    place::{Place, locate, workspace_root},
    rehearse::{check_new, rehearse},
    replace::{Current, LOCK_WAIT, ReplaceError, check_writable, replace},
    snapshot::{read, read_file, read_seen, read_stdin},
};
pub(crate) use self::{fence::read_small, snapshot::read_own, temporary::is_of_the_dead};
