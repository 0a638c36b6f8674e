//! The description of the requests to a model that a dry run does not send.

use jp_compact_core::{Stream, TurnRange};
use jp_compact_schema::{ContentKind, Llm, NeedRequest, Needs};

use super::PreparedStrategy;

/// Describes the model, the range, and the requests of the first round, if they are known.
pub(super) fn describe_requests(
    strategy: &PreparedStrategy,
    stream: &Stream,
    range: TurnRange,
    llm: Option<&Llm>,
    needs: Option<&Needs>,
) -> String {
    let model = llm.map_or("recorded answers", |llm| &llm.model);
    let summarizes = strategy.described.description.produces.contains(&ContentKind::Summary);
    let verb = if summarizes { "summarize" } else { "compact" };
    let requests = needs.map(describe_needs).unwrap_or_default();
    format!("would {verb} {range} using {model}{}{requests}", describe_range(stream, range))
}

/// Describes the size of a range.
fn describe_range(stream: &Stream, range: TurnRange) -> String {
    let in_range = |turn: usize| {
        (0..stream.steps().count(turn)).filter(move |step| range.contains_step(turn, Some(*step)))
    };
    let turns = range.to() - range.from() + 1;
    let steps: usize = (range.from()..=range.to()).map(|turn| in_range(turn).count()).sum();
    format!(": {} and {}", counted(turns, "turn"), counted(steps, "step"))
}

/// Describes the requests of the first round: their number, and the estimated input and maximum
/// output in tokens.
fn describe_needs(needs: &Needs) -> String {
    let (mut requests, mut input, mut output, mut has_notes) = (0, 0, 0, false);
    for request in needs.requests.values() {
        let NeedRequest::LlmComplete { system, messages, max_tokens, note, .. } = request else { continue };
        let texts = messages.iter().map(|message| &message.content).chain(system);
        let chars: u64 = texts.map(|text| text.chars().count() as u64).sum();
        (requests, input) = (requests + 1, input + chars.div_ceil(4));
        (output, has_notes) = (output + max_tokens.unwrap_or_default(), has_notes | note);
    }
    let merges = if has_notes || requests > 1 { ", before the notes on the parts are merged" } else { "" };
    format!(
        "; {}, about {input} tokens of input, at most {output} tokens of output{merges}",
        counted(requests, "request")
    )
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
