//! The evaluation of strategies: each one compacts the beginnings of transcripts, and the rest of a transcript decides
//! what the view should have kept. It writes nothing to disk, and never prints.
//!
//! The interface is not stable.

pub mod page;

pub use page::{Evaluation, PageCut, PageEvent, PageRow};
