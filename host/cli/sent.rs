//! How many tokens a model is sent, and by whom. JP sends what its own grammar reads, whatever our view shows; every report
//! names it, and its number comes first.

use jp_compact_core::estimate::Estimator;
use jp_compact_core::formats::Format;
use jp_compact_core::jp_view::jp_view;
use jp_compact_core::stats::{Sizes, Stats};
use jp_compact_core::{Stream, Survey};
use jp_compact_engine::compact::{self, Run};
use serde_json::{Value, json};

use crate::commands::{change, counted, grouped};
use crate::tokens::about;

/// Whose view it is that JP does not send.
const OURS: &str = "jp-compact's own view has";
/// What there is to send of other programs' transcripts: they apply no overlay.
const PRINTED: &str = "the view that `print --compacted` prints has";

/// What is sent of conversations that were only read, in tokens of the raw events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    /// How many conversations it is about.
    conversations: usize,
    /// Of JP's conversations, what JP sends.
    jp: Option<ByJp>,
}

/// What JP sends.
#[derive(Debug, Clone, Default)]
struct ByJp {
    conversations: usize,
    before: u64,
    after: u64,
    /// Why that is not the view, where it is not.
    why: Option<String>,
}

impl Sent {
    /// What is sent of a conversation.
    pub(crate) fn of(survey: &Survey<'_>) -> Self {
        let stream = survey.stream;
        let jp = (stream.format() == Format::Jp).then(|| {
            let differs = jp_view(stream, stream.overlays());
            let view = differs.as_ref().map_or(&survey.view, |differs| &differs.view);
            ByJp {
                conversations: 1,
                before: survey.estimate.stream_tokens(),
                after: survey.estimate.view_tokens(view),
                why: differs.map(|differs| differs.why.to_string()),
            }
        });
        Self { conversations: 1, jp }
    }

    /// Adds what is sent of another.
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

    /// As JSON, beside what the view has.
    pub(crate) fn json(&self, all: &Sizes, estimator: Estimator) -> Value {
        json!({
            "before": all.tokens.before,
            "after": all.tokens.after,
            "jp": self.jp.as_ref().map(|jp| json!({ "before": jp.before, "after": jp.after })),
            "estimator": estimator.name(),
        })
    }

    /// A line for each sender.
    pub(crate) fn text(&self, stats: &Stats, estimator: Estimator) -> Vec<String> {
        let (Sizes { tokens, bytes }, about) = (stats.all, about(estimator));
        let of = |after, before| format!("{about}{} of {} tokens", grouped(after), grouped(before));
        let in_bytes = format!("{} of {} bytes of text", grouped(bytes.after), grouped(bytes.before));
        let view = format!("{}, {in_bytes}", of(tokens.after, tokens.before));
        match &self.jp {
            None => vec![format!("{PRINTED} {view}")],
            Some(jp) if jp.conversations < self.conversations => {
                let its = counted(jp.conversations, "conversation");
                let sends = of(jp.after, jp.before);
                vec![
                    format!("of {its} of its own JP sends a model {sends}"),
                    format!("all views together have {view}"),
                ]
            }
            Some(ByJp { why: None, .. }) => vec![format!("JP sends a model {view}")],
            Some(ByJp { after, before, why: Some(why), .. }) => {
                vec![format!("JP sends a model {}", of(*after, *before)), format!("{OURS} {view}: {why}")]
            }
        }
    }
}

/// The beginning of a sentence on how many tokens the view has: where JP sends just that, it is named.
pub(crate) fn view_has(stream: &Stream) -> &'static str {
    match jp_view(stream, stream.overlays()) {
        _ if stream.format() != Format::Jp => PRINTED,
        Some(_) => OURS,
        None => "JP sends a model",
    }
}

/// What a run changes of what is sent, as JSON.
pub(crate) fn run_json(report: &compact::Report, run: &Run) -> Value {
    json!({
        "before": report.tokens_before,
        "after": report.tokens_after,
        "jp": report.jp.as_ref().map(|jp| json!({ "before": jp.before, "after": jp.after })),
        "estimator": run.estimator.name(),
    })
}

/// What a run changes of what is sent: a line for each sender.
pub(crate) fn run_text(report: &compact::Report, run: &Run) -> Vec<String> {
    let name = run.estimator.name();
    let was = |before, after| {
        let (about, change) = (about(run.estimator), change(before, after));
        format!("{about}{} tokens, was {} ({change}, {name})", grouped(after), grouped(before))
    };
    let view = was(report.tokens_before, report.tokens_after);
    let Some(jp) = &report.jp else { return vec![format!("{PRINTED} {view}")] };
    let sends = if run.dry_run { "JP would send" } else { "JP sends" };
    let mut lines = vec![format!("{sends} a model {}", was(jp.before, jp.after))];
    if let Some(why) = &jp.why {
        lines.push(format!("{OURS} {view}: {why}"));
    }
    lines
}
