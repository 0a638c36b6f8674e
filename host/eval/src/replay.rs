//! The replay of a whole session: one request before each step of the assistant, with the view of everything before it.
//! `auto` compacts before a request that would exceed the threshold.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jp_compact_core::View;
use jp_compact_core::view::Part;
use jp_compact_engine::compact::{Error, RunSettings};
use jp_compact_evidence::event_text::changed_text;

use crate::automatic::compact_again;
use crate::options::{EvalOptions, RowKind};
use crate::outcome::ReplayOutcome;
use crate::subject::{StoredOverlays, Subject};

/// After a compaction that leaves the context above the threshold, the context grows by its tokens divided by this
/// number before the next attempt. Attempts before each request would take quadratic time, because each attempt reads
/// the whole prefix.
const RETRY_PART: u64 = 10;

/// The context of a request: a compacted view, and the unchanged events after it.
#[derive(Default)]
struct Context {
    /// The texts of the compacted view, in order.
    view: Vec<ShownText>,
    view_tokens: u64,
    /// The first event after the view.
    from: usize,
}

/// A text of a context.
#[derive(PartialEq, Eq)]
enum ShownText {
    Whole(usize),
    /// Only the digest of the text is kept, because the texts of a large session would need much memory.
    Changed {
        element: Option<usize>,
        digest: u64,
        tokens: u64,
    },
}

impl Context {
    fn tokens(&self, subject: &Subject<'_>, to: usize) -> u64 {
        self.view_tokens + subject.tokens_between(self.from, to)
    }

    fn new(subject: &Subject<'_>, view: &View, view_tokens: u64, from: usize) -> Self {
        let shown = view.items().iter().filter_map(|item| shown_text(subject, &item.part));
        Self { view: shown.collect(), view_tokens, from }
    }

    /// Returns the tokens of the leading texts of this view that are equal in `other`, a context with the events up to
    /// `to`.
    fn common_tokens(&self, other: &Self, to: usize, subject: &Subject<'_>) -> u64 {
        let old_events = (other.from..to).map(ShownText::Whole);
        let mut tokens = 0;
        let mut old_view = other.view.iter();
        let mut old_events = old_events.into_iter();
        for text in &self.view {
            let is_equal = match old_view.next() {
                Some(old) => old == text,
                None => old_events.next().is_some_and(|old| old == *text),
            };
            if !is_equal {
                break;
            }
            tokens += match text {
                ShownText::Whole(event) => subject.event_tokens[*event],
                ShownText::Changed { tokens, .. } => *tokens,
            };
        }
        tokens.min(self.view_tokens)
    }
}

fn shown_text(subject: &Subject<'_>, part: &Part) -> Option<ShownText> {
    match part {
        Part::Kept(element) | Part::Short(element) => {
            subject.session.event_of(*element).map(ShownText::Whole)
        }
        Part::Emptied(element) => Some(changed(subject, Some(*element), "")),
        part => {
            let (_, text) = changed_text(part)?;
            Some(changed(subject, part.element(), &text))
        }
    }
}

fn changed(subject: &Subject<'_>, element: Option<usize>, text: &str) -> ShownText {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    ShownText::Changed { element, digest: hasher.finish(), tokens: subject.estimator.tokens(text) }
}

/// Returns the size of the context at the next attempt to compact it. A context that is larger than the window fits
/// into no request, so it must double before the next attempt.
fn retry_after(tokens: u64, window: u64) -> u64 {
    tokens + if tokens > window { tokens } else { tokens / RETRY_PART }
}

/// Replays a session with the strategy of a row.
pub(crate) async fn replay(
    subject: &Subject<'_>,
    options: &EvalOptions,
    kind: RowKind,
    mut run: Option<&mut RunSettings>,
) -> Result<ReplayOutcome, Error> {
    let prices = &options.prices.families[0];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a window times a part of at most 1"
    )]
    let threshold = (options.window as f64 * options.threshold_percent / 100.0) as u64;
    let mut outcome = ReplayOutcome::default();
    let (mut context, mut overlays) = (Context::default(), StoredOverlays::default());
    // The end of the last request, and its tokens.
    let (mut last_event, mut last_tokens) = (0, 0);
    let mut retry_at = 0;
    for event in &subject.requests {
        let mut tokens = context.tokens(subject, *event);
        let mut cached = last_tokens;
        if tokens > threshold && tokens >= retry_at && kind != RowKind::Whole {
            let (compacted, summary) = match &mut run {
                None => (Some(Context { from: *event, ..Context::default() }), (0, 0)),
                Some(run) => {
                    let compacted = compact_again(subject, run, *event, false, &mut overlays).await?;
                    let new = || Context::new(subject, &compacted.view, compacted.tokens, *event);
                    (compacted.is_changed.then(new), compacted.summary)
                }
            };
            match compacted {
                Some(compacted) => {
                    cached = compacted.common_tokens(&context, last_event, subject).min(last_tokens);
                    context = compacted;
                    tokens = context.tokens(subject, *event);
                    retry_at = if tokens > threshold { retry_after(tokens, options.window) } else { 0 };
                    outcome.compactions += 1;
                    outcome.cost += summary.0 as f64 + summary.1 as f64 * prices.output;
                }
                None => retry_at = retry_after(tokens, options.window),
            }
        }
        if prices.block > 0 {
            cached -= cached % prices.block;
        }
        let cached = cached.min(tokens);
        outcome.cost += cached as f64 * prices.read + (tokens - cached) as f64 * prices.write;
        outcome.requests += 1;
        outcome.largest_context = outcome.largest_context.max(tokens);
        outcome.above_window += usize::from(tokens > options.window);
        (last_event, last_tokens) = (*event, tokens);
    }
    Ok(outcome)
}
