//! `jp-compact batch`, end to end: folders of conversations made here, the real executable and its strategies.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and starts what people start"
)]

mod bad_input;
mod dry;
mod empty;
mod faults;
mod folder;
mod gates;
mod interrupt;
#[path = "../living/mod.rs"]
mod living;
mod out;
mod resume;
mod set;
#[path = "../cli/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the tests of the other commands need more of it")]
mod support;
mod usage;
