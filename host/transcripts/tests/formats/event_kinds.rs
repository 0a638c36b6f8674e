//! Helpers for readable assertions: the kinds of a sample's events, and the sample after some changes.

use jiff::Timestamp;
use jp_compact_core::event::Kind;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::splice::concat;
use jp_compact_schema::Reasoning;
use jp_compact_transcripts::Transcript;
use jp_compact_transcripts::{self as transcripts, Format};

use crate::check::strip;

#[derive(Clone, Copy)]
pub(crate) enum Change {
    Strip,
    Omit,
    StripReasoning,
    Summarize(usize, usize),
}

fn read(format: Format, text: &str) -> Transcript {
    transcripts::read(format, text.as_bytes().to_vec().into()).unwrap()
}

/// Returns the kinds of the events, one line per turn.
pub(crate) fn kinds(format: Format, text: &str) -> Vec<String> {
    let stream = read(format, text);
    let mut turns = vec![Vec::new(); stream.turns()];
    for event in stream.events() {
        let kind = match event.kind {
            Kind::TurnStart => continue,
            Kind::ChatRequest => "request",
            Kind::Message => "message",
            Kind::Reasoning => "thought",
            Kind::ToolRequest => "call",
            Kind::ToolResponse { is_error: true } => "error",
            Kind::ToolResponse { .. } => "result",
            _ => "other",
        };
        turns[event.turn].push(kind);
    }
    turns.iter().map(|turn| turn.join(" ")).collect()
}

/// Returns the ids of calls and results, in order.
pub(crate) fn ids(format: Format, text: &str) -> Vec<String> {
    let stream = read(format, text);
    let view = project_with_overlays(&stream, &[]);
    view.events(&stream).filter_map(|event| Some(event.event.get("id")?.as_str()?.to_owned())).collect()
}

pub(crate) fn with_changes(format: Format, text: &str, changes: &[Change]) -> String {
    let stream = read(format, text);
    let overlays: Vec<Overlay> = changes.iter().map(|change| overlay(*change, &stream)).collect();
    let pieces = transcripts::render(&stream, &project_with_overlays(&stream, &overlays));
    String::from_utf8(concat(&pieces, stream.bytes())).unwrap()
}

fn overlay(change: Change, stream: &Transcript) -> Overlay {
    let last = stream.turns() - 1;
    let (from_turn, to_turn) = if let Change::Summarize(from, to) = change { (from, to) } else { (0, last) };
    Overlay {
        element: usize::MAX,
        stamp: Timestamp::UNIX_EPOCH,
        from_turn,
        to_turn,
        from_step: None,
        to_step: None,
        summary: matches!(change, Change::Summarize(..)).then(|| "In short.".into()),
        reasoning: matches!(change, Change::StripReasoning).then_some(Reasoning::Strip),
        tool_calls: match change {
            Change::Strip => Some(strip(stream)),
            Change::Omit => Some(ToolPolicy::Omit),
            _ => None,
        },
        applied_by_jp: true,
        not_applied: Vec::new(),
        stale: false,
    }
}
