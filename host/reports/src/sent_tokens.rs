//! The number of tokens that a model receives. JP ignores some overlays, and the condition `over` of others, so it may
//! send more or less than the view of jp-compact has. Every report on a conversation of JP must state JP's number
//! first.

use jp_compact_core::estimate::Estimator;
use jp_compact_core::jp_view::jp_view;
use jp_compact_core::stats::{SizeChange, Stats};
use jp_compact_core::{Stream, Survey};
use jp_compact_engine::compact::{self, RunSettings};
use jp_compact_schema::document::{self, TokenCounts};

use jp_compact_terminal::numbers::{counted, grouped, percent_change};

/// The beginning of a sentence about tokens that JP sends.
const JP_SENDS: &str = "JP sends";
/// The beginning of a sentence about a view that JP does not send.
const OWN_VIEW_HAS: &str = "jp-compact's own view has";
/// The beginning of a sentence about the view of another agent's transcript. Other agents apply no overlays.
const PRINTED_VIEW_HAS: &str = "the view has";

/// The tokens that JP sends, summed over conversations.
#[derive(Debug, Clone, Default)]
pub struct SentTotals {
    /// The number of conversations, in all formats.
    conversations: usize,
    /// The sums over the conversations in JP's format, if there are any.
    jp: Option<JpTokens>,
}

/// The sums over the conversations in JP's format.
#[derive(Debug, Clone, Default)]
struct JpTokens {
    conversations: usize,
    /// The tokens without overlays.
    raw: u64,
    /// The tokens of JP's view.
    view: u64,
    /// The reason why JP's view differs from ours, if it does.
    difference: Option<String>,
}

impl SentTotals {
    /// Counts the tokens of a conversation.
    #[must_use]
    pub fn count(survey: &Survey<'_>) -> Self {
        let stream = survey.stream;
        let jp = stream.is_jp().then(|| {
            let jp_view = jp_view(stream, stream.overlays());
            let view = jp_view.as_ref().map_or(&survey.view, |jp_view| &jp_view.view);
            JpTokens {
                conversations: 1,
                raw: survey.estimate.stream_tokens(),
                view: survey.estimate.view_tokens(view),
                difference: jp_view.map(|jp_view| jp_view.difference.to_string()),
            }
        });
        Self { conversations: 1, jp }
    }

    /// Adds the tokens of other conversations.
    pub fn add(&mut self, other: &Self) {
        if self.conversations == 0 {
            self.clone_from(other);
            return;
        }
        self.conversations += other.conversations;
        let Some(other_jp) = &other.jp else { return };
        let jp = self.jp.get_or_insert_default();
        jp.conversations += other_jp.conversations;
        jp.raw += other_jp.raw;
        jp.view += other_jp.view;
        if jp.difference.is_some() || other_jp.difference.is_some() {
            let difference =
                "JP does not apply every overlay as jp-compact does; `show` names the differences";
            jp.difference = Some(difference.to_owned());
        }
    }

    /// Returns the tokens for a document, including the tokens of the view.
    #[must_use]
    pub fn document(&self, all: &SizeChange) -> TokenCounts {
        let jp = self.jp.as_ref().map(|jp| document::JpTokens {
            raw: jp.raw,
            view_before: jp.view,
            view_after: jp.view,
        });
        let (raw, view) = (all.tokens.before, all.tokens.after);
        TokenCounts { raw, view_before: view, view_after: view, jp }
    }

    /// Returns the tokens as lines of text.
    #[must_use]
    pub fn text(&self, stats: &Stats, estimator: Estimator) -> Vec<String> {
        let (SizeChange { tokens, bytes }, prefix) = (stats.all, estimate_prefix(estimator));
        let ratio = |view, raw| format!("{prefix}{} of {} tokens", grouped(view), grouped(raw));
        let in_bytes = format!("{} of {} bytes of text", grouped(bytes.after), grouped(bytes.before));
        let our_view = format!("{}, {in_bytes}", ratio(tokens.after, tokens.before));
        let Some(jp) = &self.jp else { return vec![format!("{PRINTED_VIEW_HAS} {our_view}")] };
        if jp.conversations < self.conversations {
            let conversations = counted(jp.conversations, "conversation");
            return vec![
                format!("{JP_SENDS} {} of its own {conversations}", ratio(jp.view, jp.raw)),
                format!("all views together have {our_view}"),
            ];
        }
        match &jp.difference {
            None => vec![format!("{JP_SENDS} {our_view}")],
            Some(difference) => vec![
                format!("{JP_SENDS} {}", ratio(jp.view, jp.raw)),
                format!("{OWN_VIEW_HAS} {our_view}: {difference}"),
            ],
        }
    }
}

/// Returns the beginning of a sentence about the tokens of the view.
#[must_use]
pub fn view_has(stream: &Stream) -> &'static str {
    if !stream.is_jp() {
        return PRINTED_VIEW_HAS;
    }
    match jp_view(stream, stream.overlays()) {
        Some(_) => OWN_VIEW_HAS,
        None => JP_SENDS,
    }
}

/// Returns the tokens before and after a run, as lines of text.
#[must_use]
pub fn run_text(report: &compact::RunReport, run: &RunSettings) -> Vec<String> {
    let method = counting_method(run.io.estimator.name());
    let comparison = |before, after| {
        let (prefix, tokens) = (estimate_prefix(run.io.estimator), grouped(after));
        if before == after {
            return format!("{prefix}{tokens} tokens, as before ({method})");
        }
        let change = percent_change(before, after);
        format!("{prefix}{tokens} tokens instead of {} ({change}, {method})", grouped(before))
    };
    let our_view = comparison(report.tokens_before, report.tokens_after);
    let Some(jp) = &report.sent_by_jp else { return vec![format!("{PRINTED_VIEW_HAS} {our_view}")] };
    let jp_sends = if run.io.dry_run { "JP would send" } else { JP_SENDS };
    let mut lines = vec![format!("{jp_sends} {}", comparison(jp.before, jp.after))];
    if let Some(difference) = &jp.difference {
        lines.push(format!("{OWN_VIEW_HAS} {our_view}: {difference}"));
    }
    lines
}

/// Returns the text for a method of counting tokens: `estimated`, or the name of the tokenizer.
#[must_use]
pub fn counting_method(estimator: &str) -> &str {
    if estimator == Estimator::Pieces.name() { "estimated" } else { estimator }
}

/// Returns the word before a number of tokens. It marks an estimate, and is empty for an exact count.
#[must_use]
pub fn estimate_prefix(estimator: Estimator) -> &'static str {
    match estimator {
        Estimator::Pieces => "about ",
        Estimator::Exact(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(difference: Option<&str>) -> SentTotals {
        let difference = difference.map(str::to_owned);
        SentTotals { conversations: 1, jp: Some(JpTokens { conversations: 1, raw: 10, view: 5, difference }) }
    }

    #[test]
    fn text_about_several_conversations_does_not_depend_on_their_order() {
        let (different, same) = (totals(Some("JP does not apply overlay 1")), totals(None));
        for [first, second] in [[&different, &same], [&same, &different], [&different, &different]] {
            let mut sum = first.clone();
            sum.add(second);
            let text = sum.jp.and_then(|jp| jp.difference).unwrap_or_default();
            assert_eq!(
                text,
                "JP does not apply every overlay as jp-compact does; `show` names the differences"
            );
        }
        let mut sum = same.clone();
        sum.add(&same);
        assert_eq!(sum.jp.and_then(|jp| jp.difference), None);
    }
}
