//! What has to hold of every input, one function for each fuzz target. A function panics where it does not hold; it
//! touches no file and no clock, so that an input does the same each time.
//!
//! An input is a file as people have it. What is done with the file stands behind the last NUL of the input: no text
//! format has one there. An input without any is done the plainest things.

mod choices;
pub mod configuration;
pub mod formats;
mod holds;
pub mod manifest;
pub mod records;
pub mod replies;
pub mod stream;

pub use choices::Choices;
