//! Everything of `jp-compact` that touches the world: files, processes, the clock, the environment. Returns
//! values, never prints.

pub mod clock;
pub mod compact;
pub mod digest;
pub mod environment;
pub mod failure;
pub mod jail;
pub mod kit;
pub mod options;
pub mod process;
pub mod registry;
pub mod session;
pub mod store;

pub use failure::{Failure, StrategyFailure};
