//! `jp-compact batch`, end to end: generated folders, the real executable, and real strategies.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may panic, and starts processes")]

mod bad_input;
mod dry;
mod empty;
mod faults;
mod folder;
mod gates;
mod interrupt;
mod out;
#[path = "../processes/mod.rs"]
mod processes;
mod progress;
mod resume;
mod set;
#[path = "../cli/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other test crates use the rest")]
mod support;
mod usage;
