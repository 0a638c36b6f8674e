//! Everything of `jp-compact` that touches the world. Returns values, never prints.
pub mod process;

pub mod clock;
pub mod environment;
pub mod store;
