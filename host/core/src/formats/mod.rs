//! How transcripts are written down. One file each; here, JP's own.

pub mod jp;
