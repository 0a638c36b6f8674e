//! Everything of `jp-compact` that touches the world. Returns values, never prints.
pub mod process;
