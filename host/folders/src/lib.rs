//! Conversations that an agent keeps in a folder with many files: which files belong to a conversation, their order, and
//! the transcript that they form. A reader of such a transcript never sees the files. This crate does no input or output.
//!
//! The interface is not stable.

pub mod events;
pub mod storage;
