//! Strategies in shared libraries: the safe part of the C interface in `jp_compact_strategy.h`.
//!
//! The unsafe part is the expansion of [`export_strategy!`](crate::export_strategy).
//!
//! ```
//! # use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, export_strategy};
//! # use jp_compact_strategy::schema::{CompactRequest, Description};
//! struct Idle;
//!
//! impl Strategy for Idle {
//!     fn describe(&self) -> Description {
//!         Description::new("idle", "1.0.0", "Do nothing")
//!     }
//!
//!     fn compact(&self, _: &CompactRequest, _: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
//!         Ok(Outcome::decline("nothing to compact"))
//!     }
//! }
//!
//! export_strategy!(Idle);
//! # fn main() {}
//! ```

use std::ffi::CString;
use std::io::{self, Read as _, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use jp_compact_schema::{CompactRequest, Events, EventsEnd, from_line, to_line};

pub use crate::abi::{ABI, EmitFn, RunFn, StrategyV1};
use crate::converse::{Verb, converse};
use crate::strategy::Strategy;

impl StrategyV1 {
    /// Creates the table of a strategy.
    pub fn new(strategy: &impl Strategy, run: RunFn) -> Self {
        let line = serde_json::to_vec(&strategy.describe()).unwrap_or_default();
        // JSON escapes NUL, so the text contains none. The host rejects an empty description.
        let description = CString::new(line).unwrap_or_default();
        let size = u32::try_from(size_of::<Self>()).unwrap_or(0);
        Self { abi: ABI, size, describe_json: description.into_raw(), run }
    }
}

/// Replies to one request, and returns the result of the C function `run`. `emit` writes a line, and returns whether the
/// host still reads.
///
/// A panic is caught, because it must not unwind into C.
pub fn run(
    strategy: &impl Strategy,
    request: &[u8],
    events: &[u8],
    emit: &mut dyn FnMut(&[u8]) -> bool,
) -> i32 {
    let answered = catch_unwind(AssertUnwindSafe(|| {
        let end = events_end(request);
        let input = request.chain(&b"\n"[..]).chain(events).chain(&b"\n"[..]).chain(&*end);
        converse(strategy, Verb::Run, input, LineWriter { emit, line: Vec::new() })
    }));
    match answered {
        Ok(Ok(())) => 0,
        Ok(Err(_)) => 1,
        Err(_) => 2,
    }
}

/// Returns the line that ends the events. The runner does not pass it to the library.
fn events_end(request: &[u8]) -> Vec<u8> {
    match from_line::<CompactRequest>(request) {
        Ok(CompactRequest { id, events: Some(Events::Inline { count }), .. }) => {
            to_line(&EventsEnd::new(&id, count)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// A writer that emits whole lines.
struct LineWriter<'a> {
    emit: &'a mut dyn FnMut(&[u8]) -> bool,
    line: Vec<u8>,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() || (self.emit)(&line) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}
