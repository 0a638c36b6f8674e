//! The store on real files: what is found, read, locked and replaced, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests play the editor that renames, too")]

mod locate;
mod lock;
mod read;
mod replace;
mod world;
