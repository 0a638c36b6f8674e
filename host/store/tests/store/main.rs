//! Tests of the store on real files: locate, read, lock and replace, with the errors of each step.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests rename files as an editor does")]

mod large;
mod locate;
mod lock;
mod read;
mod replace;
mod world;
