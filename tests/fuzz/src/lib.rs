//! Invariants for every input, with one function per fuzz target. A function panics if an invariant is
//! violated. It must not use a file or a clock, because an input must always have the same result.
//!
//! The bytes before the last NUL of an input are a file, because no text format allows a NUL. The bytes after it select
//! the checks and their options. An input without a NUL gets the first value of each choice.

mod choices;
pub mod configuration;
pub mod formats;
mod invariants;
pub mod manifest;
pub mod records;
pub mod replies;
pub mod stream;

pub use choices::Choices;
