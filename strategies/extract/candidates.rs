//! The calls that may be shortened: old, long, answered, shown by the view, and not of an exempt tool.
//!
//! With `merge`, short calls are candidates too, because the last call of a group gets the lines of the whole group.

use jp_compact_strategy::calls::{CallHistory, CallPair};
use jp_compact_strategy::schema::Range;

use crate::Options;

/// A call that may be shortened.
#[derive(Debug)]
pub(crate) struct CallCandidate<'a> {
    /// The position in the list of calls.
    pub(crate) call: usize,
    pub(crate) request_seq: u64,
    pub(crate) response_seq: u64,
    pub(crate) tool: &'a str,
    pub(crate) is_error: bool,
    /// The turns of the call and of its result.
    turns: (usize, usize),
    /// The number of its group. The calls of a group are neighbors in the list of candidates.
    pub(crate) group: usize,
    /// The strings and numbers of the arguments. `None` if the arguments do not change.
    pub(crate) arguments: Option<String>,
    pub(crate) output: &'a str,
    /// Whether the output is shortened. Otherwise, only the arguments are.
    pub(crate) shortens_output: bool,
}

impl CallCandidate<'_> {
    /// Returns the size of the parts to shorten.
    pub(crate) fn bytes(&self) -> usize {
        let output = if self.shortens_output { self.output.len() } else { 0 };
        output + self.arguments.as_ref().map_or(0, String::len)
    }

    /// Leaves short arguments or a short output as they are. Returns `None` if both are short.
    fn long_parts(self, options: &Options) -> Option<Self> {
        let is_long = |text: &str| text.len() > options.min_bytes;
        let arguments = self.arguments.filter(|arguments| is_long(arguments));
        let shortens_output = is_long(self.output);
        (arguments.is_some() || shortens_output).then_some(Self { arguments, shortens_output, ..self })
    }

    /// Returns the size of the output, shortened or not, and of the arguments to shorten.
    pub(crate) fn size(&self) -> usize {
        self.output.len() + self.arguments.as_ref().map_or(0, String::len)
    }
}

/// Returns the candidates in order.
pub(crate) fn find<'a>(
    conversation: &'a CallHistory,
    range: Range,
    options: &Options,
) -> Vec<CallCandidate<'a>> {
    let steps_after = conversation.steps_after();
    let mut candidates = Vec::new();
    for (index, call) in conversation.calls.iter().enumerate() {
        let is_exempt = options.exempt.contains(&call.tool);
        if steps_after[index] >= options.keep_steps && !is_exempt && range.contains_step(call.turn, call.step)
        {
            candidates.extend(candidate(call, index, range, options));
        }
    }
    group(candidates, options)
}

fn candidate<'a>(
    call: &'a CallPair,
    index: usize,
    range: Range,
    options: &Options,
) -> Option<CallCandidate<'a>> {
    // The names in the arguments move into the result, so a call without a result cannot be shortened.
    let result = call.result.as_ref().filter(|result| !result.hidden && range.contains(result.turn))?;
    let arguments = call.argument_text();
    let candidate = CallCandidate {
        call: index,
        request_seq: call.seq,
        response_seq: result.seq,
        tool: &call.tool,
        is_error: result.is_error,
        turns: (call.turn, result.turn),
        group: 0,
        arguments: (!call.hidden && !arguments.is_empty()).then_some(arguments),
        output: &result.content,
        shortens_output: true,
    };
    if options.merge > 1 { Some(candidate) } else { candidate.long_parts(options) }
}

/// Groups up to `merge` calls of equal turns, so no result gets lines of a later turn. Leaves out short lone calls.
fn group<'a>(mut candidates: Vec<CallCandidate<'a>>, options: &Options) -> Vec<CallCandidate<'a>> {
    let (mut group, mut size) = (0, 0);
    for index in 0..candidates.len() {
        let differs = index > 0 && candidates[index - 1].turns != candidates[index].turns;
        if differs || size == options.merge {
            group += 1;
            size = 0;
        }
        size += 1;
        candidates[index].group = group;
    }
    let mut sizes = vec![0; group + 1];
    candidates.iter().for_each(|candidate| sizes[candidate.group] += 1);
    let alone = |candidate: &CallCandidate<'_>| sizes[candidate.group] == 1;
    candidates
        .into_iter()
        .filter_map(
            |candidate| if alone(&candidate) { candidate.long_parts(options) } else { Some(candidate) },
        )
        .collect()
}
