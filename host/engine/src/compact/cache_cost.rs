//! The cost of a run in the prompt cache of the provider. A compaction changes the beginning of a conversation, so the
//! next request writes the rest into the cache again.

use jp_compact_core::append::NewOverlay;
use jp_compact_core::estimate::tokens;
use jp_compact_core::jp_view::jp_view_with;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::view::{Item, timestamp_text};
use jp_compact_core::{Survey, TurnRange, View};
use jp_compact_evidence::cache::{CompactionCost, CompactionSizes};
use jp_compact_evidence::prices::PriceFamily;
use jp_compact_evidence::prompt_cache::{CacheAge, UnchangedPrefix, last_request};
use jp_compact_llm::ModelName;
use jp_compact_schema::document::{CacheCost, CacheState};

use super::guard::all_overlays;
use super::preflight::max_saving;
use super::settings::RunSettings;

/// The tokens that a model read and wrote for the summaries of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SummaryTokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// Returns the cost of new overlays, if the run reports it. For a conversation of JP, this is the cost of the request
/// that JP sends.
pub(super) fn cost_of(
    run: &RunSettings,
    survey: &Survey<'_>,
    model: Option<&ModelName>,
    (new_overlays, view): (&[NewOverlay], &View),
    summary: SummaryTokens,
) -> Option<CacheCost> {
    let family = family(run, model)?;
    let stream = survey.stream;
    let jp_view = |overlays: &[Overlay]| {
        let jp_view = jp_view_with(stream, &survey.pairs, overlays).filter(|_| stream.is_jp());
        jp_view.map(|jp_view| jp_view.view)
    };
    let jp_views = (jp_view(stream.overlays()), jp_view(&all_overlays(stream, new_overlays)));
    let (before, after) = (jp_views.0.as_ref().unwrap_or(&survey.view), jp_views.1.as_ref().unwrap_or(view));
    let unchanged = UnchangedPrefix::new(stream, &survey.estimate, before, after).cached_tokens(family);
    let sizes = CompactionSizes {
        before: survey.estimate.view_tokens(before),
        after: survey.estimate.view_tokens(after),
        unchanged,
        summary_input: summary.input,
        summary_output: summary.output,
    };
    Some(document(run, survey, family, &sizes))
}

/// Returns the minimum cost of a summary of this range: the cost of a summary without text.
pub(super) fn least_cost_of_summary(
    run: &RunSettings,
    survey: &Survey<'_>,
    model: Option<&ModelName>,
    range: TurnRange,
) -> Option<CacheCost> {
    let family = family(run, model)?;
    let (stream, estimate) = (survey.stream, &survey.estimate);
    let is_before = |item: &&Item| item.part.element().is_some_and(|element| !stream.is_in(range, element));
    let leading = survey.view.items().iter().take_while(is_before);
    let before = estimate.view_tokens(&survey.view);
    let sizes = CompactionSizes {
        before,
        after: before.saturating_sub(max_saving(survey, range)),
        unchanged: tokens(leading.map(|item| estimate.part_weight(&item.part)).sum()),
        summary_input: survey.raw_tokens_in(range),
        summary_output: 0,
    };
    Some(document(run, survey, family, &sizes))
}

/// Returns the prices of a model, if the run reports costs.
fn family<'a>(run: &'a RunSettings, model: Option<&ModelName>) -> Option<&'a PriceFamily> {
    let name = model.map(ToString::to_string);
    let name = name.as_deref().and_then(|name| name.split_once('/'));
    Some(run.io.prices.as_ref()?.family_of(name))
}

fn document(
    run: &RunSettings,
    survey: &Survey<'_>,
    family: &PriceFamily,
    sizes: &CompactionSizes,
) -> CacheCost {
    let cost = CompactionCost::new(sizes, family);
    let last_request = last_request(survey.stream);
    let state = match CacheAge::new(last_request, run.io.now, family) {
        CacheAge::Fresh => CacheState::Warm,
        CacheAge::Expired => CacheState::Cold,
        CacheAge::Unknown => CacheState::Unknown,
    };
    let one_time = if state == CacheState::Cold { cost.one_time_cold } else { cost.one_time_warm };
    CacheCost {
        family: family.name.clone(),
        state,
        last_request: last_request.map(timestamp_text),
        ttl_minutes: family.ttl_minutes,
        prefix_tokens: sizes.unchanged,
        rewritten_tokens: sizes.after.saturating_sub(sizes.unchanged),
        summary: rounded(cost.summary),
        one_time: rounded(one_time),
        one_time_warm: rounded(cost.one_time_warm),
        one_time_cold: rounded(cost.one_time_cold),
        per_request_before: rounded(cost.per_request_before),
        per_request_after: rounded(cost.per_request_after),
        break_even_requests: cost.break_even_of(one_time).map(rounded),
    }
}

/// Rounds to one decimal place. Adding 0 turns a negative zero into zero.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0 + 0.0
}
