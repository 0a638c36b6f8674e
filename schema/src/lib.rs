//! The strategy protocol of `jp-compact`, version 1, as types. Every byte that crosses the pipe is named
//! here, and nothing else: nothing in this crate reads, writes or spawns.

pub mod compaction;
