//! The number of tokens that a model receives. JP sends only what its own grammar can apply, which may be more than the
//! view of jp-compact has. Every report must name JP's number, and name it first.

use jp_compact_core::estimate::Estimator;
use jp_compact_core::jp_view::jp_view;
use jp_compact_core::stats::{SizeChange, Stats};
use jp_compact_core::{Stream, Survey};
use jp_compact_engine::compact::{self, RunSettings};
use jp_compact_schema::document::{self, TokenCounts};

use crate::human::{change, counted, grouped};
use crate::tokens::about;

/// The sentence for a view that JP does not send.
const OURS: &str = "jp-compact's own view has";
/// The sentence for transcripts of other agents, which apply no overlay.
const PRINTED: &str = "the view that `print --compacted` prints has";

/// The tokens that JP sends of conversations.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentTotals {
    /// The number of conversations.
    conversations: usize,
    /// The part for JP's conversations.
    jp: Option<JpTokens>,
}

/// The tokens that JP sends of its own conversations.
#[derive(Debug, Clone, Default)]
struct JpTokens {
    conversations: usize,
    before: u64,
    after: u64,
    /// Why they differ from the view, if they do.
    why: Option<String>,
}

impl SentTotals {
    /// Counts the tokens of a conversation.
    pub(crate) fn count(survey: &Survey<'_>) -> Self {
        let stream = survey.stream;
        let jp = stream.is_jp().then(|| {
            let differs = jp_view(stream, stream.overlays());
            let view = differs.as_ref().map_or(&survey.view, |differs| &differs.view);
            JpTokens {
                conversations: 1,
                before: survey.estimate.stream_tokens(),
                after: survey.estimate.view_tokens(view),
                why: differs.map(|differs| differs.why.to_string()),
            }
        });
        Self { conversations: 1, jp }
    }

    /// Adds the tokens of other conversations.
    pub(crate) fn add(&mut self, other: &Self) {
        if self.conversations == 0 {
            self.clone_from(other);
            return;
        }
        self.conversations += other.conversations;
        let Some(more) = &other.jp else { return };
        let jp = self.jp.get_or_insert_default();
        jp.conversations += more.conversations;
        jp.before += more.before;
        jp.after += more.after;
        if more.why.is_some() {
            jp.why = Some("JP does not apply every overlay; `show` names them".to_owned());
        }
    }

    /// The tokens for a document, with those of the view.
    pub(crate) fn document(&self, all: &SizeChange) -> TokenCounts {
        let jp = self.jp.as_ref().map(|jp| document::JpTokens {
            raw: jp.before,
            view_before: jp.after,
            view_after: jp.after,
        });
        let (raw, view) = (all.tokens.before, all.tokens.after);
        TokenCounts { raw, view_before: view, view_after: view, jp }
    }

    /// The tokens as lines of text.
    pub(crate) fn text(&self, stats: &Stats, estimator: Estimator) -> Vec<String> {
        let (SizeChange { tokens, bytes }, about) = (stats.all, about(estimator));
        let ratio = |after, before| format!("{about}{} of {} tokens", grouped(after), grouped(before));
        let in_bytes = format!("{} of {} bytes of text", grouped(bytes.after), grouped(bytes.before));
        let view = format!("{}, {in_bytes}", ratio(tokens.after, tokens.before));
        match &self.jp {
            None => vec![format!("{PRINTED} {view}")],
            Some(jp) if jp.conversations < self.conversations => {
                let its = counted(jp.conversations, "conversation");
                let sends = ratio(jp.after, jp.before);
                vec![
                    format!("JP sends a model {sends} of its own {its}"),
                    format!("all views together have {view}"),
                ]
            }
            Some(JpTokens { why: None, .. }) => vec![format!("JP sends a model {view}")],
            Some(JpTokens { after, before, why: Some(why), .. }) => {
                vec![format!("JP sends a model {}", ratio(*after, *before)), format!("{OURS} {view}: {why}")]
            }
        }
    }
}

/// The beginning of a sentence about the tokens of the view.
pub(crate) fn view_has(stream: &Stream) -> &'static str {
    match jp_view(stream, stream.overlays()) {
        _ if !stream.is_jp() => PRINTED,
        Some(_) => OURS,
        None => "JP sends a model",
    }
}

/// The tokens before and after a run, as lines of text.
pub(crate) fn run_text(report: &compact::RunReport, run: &RunSettings) -> Vec<String> {
    let name = run.io.estimator.name();
    let was = |before, after| {
        let (about, change) = (about(run.io.estimator), change(before, after));
        format!("{about}{} tokens, was {} ({change}, {name})", grouped(after), grouped(before))
    };
    let view = was(report.tokens_before, report.tokens_after);
    let Some(jp) = &report.jp else { return vec![format!("{PRINTED} {view}")] };
    let sends = if run.io.dry_run { "JP would send" } else { "JP sends" };
    let mut lines = vec![format!("{sends} a model {}", was(jp.before, jp.after))];
    if let Some(why) = &jp.why {
        lines.push(format!("{OURS} {view}: {why}"));
    }
    lines
}
