//! The SDK for strategies in Rust. It implements the protocol, and must not decide anything about conversations.
//!
#![doc = include_str!("../README.md")]
//! ```no_run
#![doc = include_str!("../examples/my_strip.rs")]
//! ```
#![warn(missing_docs)]

mod abi;
pub mod calls;
mod converse;
pub mod dylib;
pub mod event;
mod exchange;
mod export;
pub mod kept;
pub mod model;
mod outcome;
mod serve;
pub mod steps;
mod strategy;
pub mod testing;
pub mod text;

pub use converse::{Verb, converse};
pub use exchange::Exchange;
pub use jp_compact_schema as schema;
pub use outcome::{Outcome, StrategyError, options};
pub use serve::serve;
pub use strategy::Strategy;
