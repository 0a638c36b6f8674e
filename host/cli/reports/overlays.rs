//! The overlays of a conversation, as a document and as text.

use jiff::Zoned;
use jp_compact_config as config;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::halves::Halves;
use jp_compact_core::jp_view::jp_numbers;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::view_tokens_after_each;
use jp_compact_core::receipts::receipts;
use jp_compact_core::stats::stats;
use jp_compact_core::view::timestamp_text;
use jp_compact_core::{Stream, Survey};
use jp_compact_engine::compact;
use jp_compact_llm::{ContextWindow, ModelName, WindowSource};
use jp_compact_reports::lost_paths;
use jp_compact_reports::stats::{by_name, tables};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{ShowReport, ShownOverlay, ViewTokens};
use jp_compact_sessions::{age, origin_line, session_origin};
use jp_compact_transcripts::Format;
use serde_json::{Map, Value};

use crate::human::{counted, grouped, overlay_range, percent_change, relative_path};
use crate::input::InputTranscript;
use crate::lines::{EscapedLines, LISTED_MAX};
use crate::output;
use jp_compact_reports::sent_tokens::SentTotals;

/// One overlay, and its effect on the view of the overlays before it.
struct Row<'a> {
    overlay: &'a Overlay,
    receipts: Vec<Map<String, Value>>,
    before: u64,
    after: u64,
    remarks: Vec<String>,
}

/// Reports the overlays of a conversation.
pub(crate) fn report(
    input: &InputTranscript,
    estimator: Estimator,
    environment: &Environment,
    now: &Zoned,
) -> (ShowReport, EscapedLines) {
    let stream = &input.stream;
    let survey = Survey::with_estimator(stream, estimator);
    let (stats, sent) = (stats(&survey), SentTotals::count(&survey));
    let halves = Halves::new(stream, &survey.pairs);
    let sizes = view_tokens_after_each(stream, &survey.pairs, &survey.estimate);
    let jp_numbers = match stream.format() {
        Format::Jp => jp_numbers(stream.overlays()),
        _ => vec![None; stream.overlays().len()],
    };
    let overlays = stream.overlays().iter().zip(receipts(stream)).zip(sizes.windows(2)).enumerate();
    let rows: Vec<_> = overlays
        .map(|(index, ((overlay, receipts), sizes))| {
            let remarks = remarks(stream, &halves, index, jp_numbers[index]);
            Row { overlay, receipts, before: sizes[0], after: sizes[1], remarks }
        })
        .collect();
    let tokens = sent.document(&stats.all);
    let model = compact::model_of(stream);
    let window = model.as_ref().and_then(|model| config::known_window(model, environment));
    let document = ShowReport {
        path: input.path.to_string_lossy().into_owned(),
        format: stream.format().to_string(),
        conversation_id: input.id.clone(),
        model: model.as_ref().map(ToString::to_string),
        context_window: window.map(|window| window.tokens),
        estimator: estimator.name().to_owned(),
        turns: stream.turns(),
        events: stream.conversation_events(),
        file_bytes: stream.bytes().len() as u64,
        origin: session_origin(stream.bytes(), &input.path),
        overlays: (1..)
            .zip(rows.iter().zip(&jp_numbers))
            .map(|(number, (row, jp_number))| row.document(number, *jp_number))
            .collect(),
        tokens,
        saved: tokens.saved_of_raw(),
        lost_paths: compact::lost_paths(stream, stream.overlays(), &survey.view),
        bytes: stats.all.bytes.into(),
        by_type: by_name(&stats.by_type),
        by_tool: by_name(&stats.by_tool),
    };
    let mut text = EscapedLines::single(format_args!(
        "{}: {}, {}, {}",
        relative_path(&input.path, environment),
        counted(stream.turns(), "turn"),
        counted(stream.conversation_events(), "event"),
        counted(rows.len(), "overlay")
    ));
    if let Some(origin) = &document.origin {
        text.line(format_args!("  {}", origin_line(origin)));
    }
    if let Some(model) = &model {
        text.line(format_args!("  {}", model_line(model, window.as_ref())));
    }
    sent.text(&stats, estimator).iter().for_each(|line| text.line(line));
    let lost = document.lost_paths.as_ref().and_then(|paths| lost_paths::line(paths, false, ""));
    lost.iter().for_each(|line| text.line(line));
    // Newer overlays override older ones, so a long list omits the oldest.
    let hidden = rows.len().saturating_sub(LISTED_MAX);
    if hidden > 0 {
        text.line(format_args!(
            "  ... and {}; the JSON output lists all",
            counted(hidden, "earlier overlay")
        ));
    }
    let shown: Vec<_> = (1..).zip(&rows).skip(hidden).collect();
    add_rows(&shown, now, &mut text);
    tables(&stats, estimator, output::columns(), &mut text);
    (document, text)
}

/// Describes the model of a transcript and its context window.
fn model_line(model: &ModelName, window: Option<&ContextWindow>) -> String {
    match window {
        None => format!("model {model}, its context window is unknown"),
        Some(ContextWindow { tokens, source: WindowSource::Family }) => {
            format!("model {model}, assumed context window {} tokens", grouped(*tokens))
        }
        Some(ContextWindow { tokens, .. }) => {
            format!("model {model}, context window {} tokens", grouped(*tokens))
        }
    }
}

/// Explains why an overlay has less effect than its members suggest. Also names its number in JP if that differs.
fn remarks(stream: &Stream, halves: &Halves<'_>, index: usize, jp_number: Option<usize>) -> Vec<String> {
    let (mut remarks, overlay) = (Vec::new(), &stream.overlays()[index]);
    if overlay.stale {
        remarks.push("not applied, because the events in its range have changed".to_owned());
        return remarks;
    }
    if !overlay.applied_by_jp && stream.is_jp() {
        let reason = if overlay.has_steps() { ", because its range has steps" } else { "" };
        remarks.push(format!("JP does not apply this overlay{reason}"));
    }
    if let Some(number) = jp_number.filter(|number| *number != index + 1) {
        remarks.push(format!("JP numbers it {number}: `jp conversation compact --reset={number}`"));
    }
    let ignored = overlay.not_applied.iter().filter(|member| **member != "over");
    remarks.extend(ignored.map(|member| format!("its member `{member}` is kept, but not applied")));
    if overlay.is_conditional() {
        let in_jp = if overlay.applied_by_jp { "; JP ignores `over` and applies the rest" } else { "" };
        remarks.push(format!("no effect, because its condition `over` is not implemented{in_jp}"));
    }
    if overlay.from_turn > overlay.to_turn || overlay.from_turn >= stream.turns() {
        remarks.push("no effect, because its range contains no turn".to_owned());
    }
    if let Some(ToolPolicy::Selective(calls)) = &overlay.tool_calls {
        for call in calls.iter() {
            if let Err(error) = halves.find(overlay, call) {
                remarks.push(error.describe(call));
            }
        }
    }
    remarks
}

impl Row<'_> {
    fn document(&self, number: usize, jp_number: Option<usize>) -> ShownOverlay {
        ShownOverlay {
            number,
            jp_number,
            timestamp: timestamp_text(self.overlay.stamp),
            from_turn: self.overlay.from_turn,
            to_turn: self.overlay.to_turn,
            from_step: self.overlay.from_step,
            to_step: self.overlay.to_step,
            kinds: self.overlay.policy_names().into_iter().map(str::to_owned).collect(),
            applied_by_jp: self.overlay.applied_by_jp,
            receipts: self.receipts.clone(),
            tokens: ViewTokens { view_before: self.before, view_after: self.after },
            remarks: self.remarks.clone(),
        }
    }

    /// Returns the age of the overlay, and the strategies that made it.
    fn origin(&self, now: &Zoned) -> String {
        let origins = self.receipts.iter().map(|receipt| {
            let member = |name: &str| receipt.get(name).and_then(Value::as_str).unwrap_or("?");
            format!("by {} {}, {}", member("strategy"), member("version"), member("tier"))
        });
        let origins: Vec<_> = origins.collect();
        let origin = if origins.is_empty() { "without a receipt".to_owned() } else { origins.join("; ") };
        format!("{origin}, {}", age(&self.overlay.stamp.to_string(), now))
    }
}

/// Adds two lines for each overlay: its effect, and its origin. Its remarks follow.
fn add_rows(rows: &[(usize, &Row<'_>)], now: &Zoned, text: &mut EscapedLines) {
    let effects: Vec<_> = rows
        .iter()
        .map(|(_, row)| [grouped(row.before), grouped(row.after), percent_change(row.before, row.after)])
        .collect();
    let width = |column: usize| effects.iter().map(|effect| effect[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    if !rows.is_empty() {
        text.line(format_args!("overlays, with the tokens of the view before and after"));
    }
    for ((number, row), [before, after, change]) in rows.iter().zip(&effects) {
        text.line(format_args!(
            "{number:>3}  {before:>first$} -> {after:>second$}  {change:<third$}  {}: {}",
            overlay_range(row.overlay),
            row.overlay.policy_names().join(", "),
            first = widths[0],
            second = widths[1],
            third = widths[2],
        ));
        text.line(format_args!("     {}", row.origin(now)));
        text.list("     ", row.remarks.iter().map(|remark| format!("     note: {remark}")));
    }
}
