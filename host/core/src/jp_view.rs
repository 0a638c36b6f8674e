//! What JP itself sends of a stream, where that is not our view. JP applies every `compaction` by its own grammar, which
//! knows neither a `jp_compact_overlay` nor `over`. Reports that count what a model is sent need it: a user of JP must not
//! read that something is saved while JP sends it.

use std::fmt;

use crate::overlay::Overlay;
use crate::projection::project_through;
use crate::stream::Stream;
use crate::view::View;

/// How many overlays are named by their numbers.
const NUMBERS_MAX: usize = 5;

/// What JP sends, where that differs from our view.
#[derive(Debug, Clone, PartialEq)]
pub struct JpView {
    /// The projection through the overlays that JP applies.
    pub view: View,
    /// Why it differs.
    pub why: Difference,
}

/// The overlays that JP treats otherwise, by the numbers that `show` lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// JP does not know their type.
    pub unknown: Vec<usize>,
    /// JP applies them without their `over`; we don't apply them.
    pub over: Vec<usize>,
}

/// What JP sends of a stream that holds `overlays`. None where that is our view.
#[must_use]
pub fn jp_view(stream: &Stream, overlays: &[Overlay]) -> Option<JpView> {
    let numbers = |differs: fn(&Overlay) -> bool| -> Vec<usize> {
        (1..).zip(overlays).filter(|(_, overlay)| differs(overlay)).map(|(number, _)| number).collect()
    };
    let why = Difference {
        unknown: numbers(|overlay| !overlay.applied_by_jp),
        over: numbers(|overlay| overlay.applied_by_jp && overlay.is_conditional()),
    };
    if why.unknown.is_empty() && why.over.is_empty() {
        return None;
    }
    let of_jp = |overlay: &&Overlay| overlay.applied_by_jp;
    let applied = overlays.iter().filter(of_jp).cloned().map(|mut overlay| {
        overlay.not_applied.clear();
        overlay
    });
    Some(JpView { view: project_through(stream, &applied.collect::<Vec<_>>()), why })
}

/// The number that JP gives each overlay in `jp conversation compact --reset=N`. None for those that JP does not count.
#[must_use]
pub fn jp_numbers(overlays: &[Overlay]) -> Vec<Option<usize>> {
    let mut numbers = 1..;
    overlays.iter().map(|overlay| if overlay.applied_by_jp { numbers.next() } else { None }).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.unknown.is_empty() {
            parts.push(format!("JP does not apply {}", named(&self.unknown)));
        }
        if !self.over.is_empty() {
            parts.push(format!("JP applies {} without `over`", named(&self.over)));
        }
        out.write_str(&parts.join(", and "))
    }
}

/// Overlays by their numbers: `overlay 2`, or `overlays 2, 5 and 7 more`.
fn named(numbers: &[usize]) -> String {
    let shown: Vec<_> = numbers.iter().take(NUMBERS_MAX).map(ToString::to_string).collect();
    let more = numbers.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let what = if numbers.len() == 1 { "overlay" } else { "overlays" };
    format!("{what} {}{more}", shown.join(", "))
}
