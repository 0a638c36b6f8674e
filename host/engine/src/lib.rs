//! Everything of `jp-compact` that touches the world: files, processes, the clock, the environment. Returns
//! values, never prints.

pub mod batch;
pub mod clock;
pub mod compact;
pub mod config;
pub mod consent;
pub mod describe_cache;
pub mod digest;
pub mod environment;
pub mod failure;
pub mod fork;
pub mod jail;
pub mod kit;
pub mod llm;
pub mod ndjson;
pub mod options;
mod private_file;
pub mod process;
pub mod query;
pub mod registry;
pub mod session;
mod small_file;
pub mod store;
pub mod trust;

pub use failure::{Failure, StrategyFailure};
