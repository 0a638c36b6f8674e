//! The engine of `jp-compact`: consent, planning, and the compaction of one transcript or many. It reads and writes
//! transcripts through the store crate, asks models through the llm crate, and runs strategies through the runtime
//! crate. It returns values, and never prints.
//!
//! The interface is not stable.

pub mod batch;
pub mod compact;
pub mod consent;
pub mod constraints;
pub mod digest;
pub mod disk_queue;
pub mod exact_tokens;
pub mod fork;
pub mod ndjson;
pub mod percent;
pub mod plan;
pub mod query;
pub mod session_counts;
