//! Where the tokens of a stream are, and where those of its view: by content type, and by tool.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::estimate::tokens;
use crate::event::Kind;
use crate::survey::Survey;
use crate::view::Part;

/// Estimated tokens of the raw events, and of what the view shows of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Of the raw events.
    pub raw: u64,
    /// Of the view.
    pub view: u64,
}

/// The sums of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Of everything.
    pub all: Sizes,
    /// By content type: `user`, `assistant`, `reasoning`, `tool_requests`, `tool_responses`, `summaries`.
    pub by_type: BTreeMap<&'static str, Sizes>,
    /// By tool: arguments and content together.
    pub by_tool: BTreeMap<String, Sizes>,
}

/// Sums up a stream and its view.
#[must_use]
pub fn totals(survey: &Survey<'_>) -> Totals {
    let stream = survey.stream;
    let mut all = Sizes::default();
    let mut by_type: BTreeMap<&'static str, Sizes> = BTreeMap::new();
    let mut by_tool: BTreeMap<String, Sizes> = BTreeMap::new();
    let mut add = |element: Option<usize>, kind: Kind, count: &dyn Fn(&mut Sizes)| {
        let Some(name) = type_name(kind, element.is_none()) else { return };
        count(&mut all);
        count(by_type.entry(name).or_default());
        if let Some(element) = element.filter(|_| kind.is_tool()) {
            let tool = survey.pairs.tool(stream, element).unwrap_or("unknown".into());
            count(by_tool.entry(tool.into_owned()).or_default());
        }
    };
    for (element, event) in stream.events().iter().enumerate() {
        let weight = survey.estimate.weight(element);
        add(Some(element), event.kind, &|sizes| sizes.raw += weight);
    }
    for item in survey.view.items() {
        let weight = survey.estimate.shown(&item.part);
        let (element, kind) = match &item.part {
            Part::Kept(element) | Part::Emptied(element) | Part::Replaced(element, _) => {
                (Some(*element), stream.events()[*element].kind)
            }
            Part::SummaryStart { .. } => (None, Kind::TurnStart),
            Part::SummaryRequest { .. } => (None, Kind::ChatRequest),
            Part::SummaryResponse { .. } => (None, Kind::Message),
        };
        add(element, kind, &|sizes| sizes.view += weight);
    }
    let in_tokens = |sizes: &mut Sizes| *sizes = Sizes { raw: tokens(sizes.raw), view: tokens(sizes.view) };
    in_tokens(&mut all);
    by_type.values_mut().for_each(in_tokens);
    by_tool.values_mut().for_each(in_tokens);
    Totals { all, by_type, by_tool }
}

fn type_name(kind: Kind, synthetic: bool) -> Option<&'static str> {
    Some(match kind {
        Kind::ChatRequest | Kind::Message if synthetic => "summaries",
        Kind::ChatRequest => "user",
        Kind::Message | Kind::Data => "assistant",
        Kind::Reasoning => "reasoning",
        Kind::ToolRequest => "tool_requests",
        Kind::ToolResponse { .. } => "tool_responses",
        _ => return None,
    })
}
