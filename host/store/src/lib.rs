//! The store. It finds a transcript, reads it, and replaces it completely or not at all. The new file is on disk before
//! success is reported.
//!
//! A write happens under JP's own lock, and only if the file still begins with the events that were read. It fails if a
//! second copy of the conversation has an event that would be lost. A copy with the same events is written first. Until
//! the rename, the old file is unchanged. A failure before the rename leaves no temporary file.
//!
//! The store handles bytes. Only `copy_comparison` (with the index of core) and `large` (with the crate `condensed`)
//! look at events. The engine parses all other transcripts.
//!
//! The interface is not stable.

mod allowed;
mod by_name;
mod compare;
mod copies;
mod copy_comparison;
mod copy_ranges;
mod early_copy;
mod error;
mod folder;
mod fresh;
mod large;
mod lock;
mod lock_file;
mod open_file;
mod open_folder;
mod place;
mod record_folder;
mod rehearse;
mod rename;
mod replace;
mod sidecar_file;
mod small;
mod snapshot;
mod stored_session;
mod temporary;
mod untouched;
mod workspace;

pub use jp_compact_condensed::ChunkIndexer;
pub use jp_compact_core::splice::Piece;

pub use self::{
    allowed::{allowed_root, locate},
    error::{StoreError, StoreErrorKind},
    folder::{JpFiles, check_destination, create, create_new},
    fresh::write_new,
    large::{LargeFile, LargeTranscript, RangePart, open_large, read_large},
    place::{Place, conversations, workspace_root},
    record_folder::{content_mode, is_record_folder, record_bytes, record_files},
    rehearse::{check_new, rehearse},
    replace::{Current, LOCK_WAIT, PreparedReplacement, ReplaceError, check_writable, prepare, replace},
    sidecar_file::{
        SidecarContent, SidecarFile, is_events, is_sidecar_path, settings_paths, transcript_of_settings,
    },
    small::read_small,
    snapshot::{read, read_file, read_in_chunks, read_own, read_stdin},
};
