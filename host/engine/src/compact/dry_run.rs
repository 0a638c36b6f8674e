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

/// Describes the requests of the first round: their number, and the estimated input and maximum output in tokens. A
/// request without a maximum has no known limit.
fn describe_needs(needs: &Needs) -> String {
    let (mut requests, mut input, mut output, mut has_notes) = (0, 0, Some(0), false);
    for request in needs.requests.values() {
        let NeedRequest::LlmComplete { system, messages, max_tokens, note, .. } = request else { continue };
        let texts = messages.iter().map(|message| &message.content).chain(system);
        let chars: u64 = texts.map(|text| text.chars().count() as u64).sum();
        (requests, input) = (requests + 1, input + chars.div_ceil(4));
        output = output.zip(*max_tokens).map(|(sum, maximum): (u64, u64)| sum.saturating_add(maximum));
        has_notes |= note;
    }
    let merges = if has_notes || requests > 1 { ", before the notes on the parts are merged" } else { "" };
    let output = output.map(|output| format!(", at most {output} tokens of output")).unwrap_or_default();
    format!("; {}, about {input} tokens of input{output}{merges}", counted(requests, "request"))
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(maximums: &[Value], expected: &str) {
        let request = |maximum: &Value| {
            let message = json!({"role": "user", "content": "12345678"});
            json!({"kind": "llm.complete", "messages": [message], "max_tokens": maximum})
        };
        let requests = maximums.iter().map(request).enumerate();
        let requests: serde_json::Map<_, _> =
            requests.map(|(number, request)| (number.to_string(), request)).collect();
        let needs = serde_json::from_value(json!({"id": "c1", "requests": requests})).unwrap();
        assert_eq!(describe_needs(&needs), expected);
    }

    #[test]
    fn output_has_a_maximum_only_if_every_request_has_one() {
        check(&[json!(50)], "; 1 request, about 2 tokens of input, at most 50 tokens of output");
        check(&[json!(null)], "; 1 request, about 2 tokens of input");
        let merged = ", before the notes on the parts are merged";
        check(&[json!(50), json!(null)], &format!("; 2 requests, about 4 tokens of input{merged}"));
    }
}
