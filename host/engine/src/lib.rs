//! The engine of `jp-compact`: store, configuration, models, planning, and the compaction of one transcript or many.
//! It accesses files, the clock, the network, and the environment, and runs strategies through the runtime crate. It
//! returns values, and never prints.
//!
//! The interface is not stable.

pub mod batch;
pub mod compact;
pub mod config;
pub mod consent;
pub mod digest;
pub mod fork;
pub mod llm;
pub mod ndjson;
pub mod plan;
pub mod query;
pub mod store;
