//! Invariants for every input, with one function per fuzz target. A function panics if an invariant is
//! violated. It must not use a file or a clock, because an input must always have the same result.
//!
//! The text of an input is a real file. The bytes after the last NUL select the checks and their options. No text
//! format allows a NUL there. An input without a NUL gets the first option of each decision.

mod choices;
pub mod configuration;
pub mod formats;
mod invariants;
pub mod manifest;
pub mod records;
pub mod replies;
pub mod stream;

pub use choices::Choices;
