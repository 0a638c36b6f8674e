//! Write a compaction strategy for `jp-compact` in Rust: implement [`Strategy`], call [`serve`].
//!
//! The crate owns the strategy's side of the protocol: the verbs, the lines, the exit status, and a stdout
//! that no stray print can break. It decides nothing about conversations; that is the strategy's part.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use jp_compact_strategy::schema::{
//!     CompactRequest, ContentKind, Description, Determinism, Input, Payload, Reasoning,
//! };
//! use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, serve};
//!
//! struct StripReasoning;
//!
//! impl Strategy for StripReasoning {
//!     fn describe(&self) -> Description {
//!         Description {
//!             produces: vec![ContentKind::Reasoning],
//!             input: Input::None,
//!             determinism: Determinism::Pure,
//!             features: vec!["worker".to_owned()],
//!             ..Description::new("my-strip", "1.0.0", "Strip reasoning")
//!         }
//!     }
//!
//!     fn compact(&self, request: &CompactRequest, _: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
//!         let range = request.requested_range;
//!         if request.turns_in(range).all(|row| row.kinds.reasoning == 0) {
//!             return Ok(Outcome::decline("no reasoning in range"));
//!         }
//!         Ok(Outcome::propose(Payload { reasoning: Some(Reasoning::Strip), ..Payload::of(range) }))
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     serve(StripReasoning)
//! }
//! ```

mod converse;
pub mod dylib;
pub mod event;
mod exchange;
mod export;
pub mod model;
mod outcome;
mod serve;
pub mod testing;
pub mod text;

pub use converse::{Verb, converse};
pub use exchange::Exchange;
pub use jp_compact_schema as schema;
pub use outcome::{Outcome, StrategyError, options};
pub use serve::serve;

use jp_compact_schema::{CompactRequest, Description};

/// A function from a request to compactions. It keeps no state between requests: the same request gets the
/// same answer from a new process and from an old one.
pub trait Strategy {
    /// Who the strategy is and what it wants to be sent. Called before any request; it must be quick.
    fn describe(&self) -> Description;

    /// Answers one request. Events, for `input: full`, come from `exchange`; what is not read is skipped.
    ///
    /// # Errors
    ///
    /// The strategy cannot answer. "There is nothing to do" is no error but [`Outcome::Decline`].
    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError>;
}
