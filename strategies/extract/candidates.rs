//! The calls that may be shortened: old, long, answered, shown by the view, and not of an exempt tool.

use jp_compact_strategy::calls::{CallHistory, CallPair};
use jp_compact_strategy::schema::Range;

use crate::Options;

/// A call that may be shortened.
#[derive(Debug)]
pub(crate) struct LongCall<'a> {
    /// The position in the list of calls.
    pub(crate) call: usize,
    pub(crate) request_seq: u64,
    pub(crate) response_seq: u64,
    /// The strings and numbers of the arguments. `None` if the arguments stay as they are.
    pub(crate) arguments: Option<String>,
    pub(crate) output: &'a str,
    /// Whether the output is shortened. Otherwise, only the arguments are.
    pub(crate) shortens_output: bool,
}

impl LongCall<'_> {
    /// Returns the size of the parts to shorten.
    pub(crate) fn bytes(&self) -> usize {
        let output = if self.shortens_output { self.output.len() } else { 0 };
        output + self.arguments.as_ref().map_or(0, String::len)
    }

    /// Returns whether the text is shorter than the arguments and the output that it replaces.
    pub(crate) fn is_shortened_by(&self, text: &str) -> bool {
        text.len() < self.output.len() + self.arguments.as_ref().map_or(0, String::len)
    }
}

/// Returns the candidates in order.
pub(crate) fn find<'a>(conversation: &'a CallHistory, range: Range, options: &Options) -> Vec<LongCall<'a>> {
    let steps_after = conversation.steps_after();
    let mut candidates = Vec::new();
    for (index, call) in conversation.calls.iter().enumerate() {
        let is_exempt = options.exempt.contains(&call.tool);
        if steps_after[index] >= options.keep_steps && !is_exempt && range.contains_step(call.turn, call.step)
        {
            candidates.extend(candidate(call, index, range, options));
        }
    }
    candidates
}

fn candidate<'a>(call: &'a CallPair, index: usize, range: Range, options: &Options) -> Option<LongCall<'a>> {
    // The names of the arguments go into the result, so a call without one cannot be shortened.
    let result = call.result.as_ref().filter(|result| !result.hidden && range.contains(result.turn))?;
    let arguments = call.argument_text();
    let is_long = |text: &str| text.len() > options.min_bytes;
    let shortens_arguments = !call.hidden && is_long(&arguments);
    let shortens_output = is_long(&result.content);
    (shortens_arguments || shortens_output).then(|| LongCall {
        call: index,
        request_seq: call.seq,
        response_seq: result.seq,
        arguments: shortens_arguments.then_some(arguments),
        output: &result.content,
        shortens_output,
    })
}
