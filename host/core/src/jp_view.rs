//! The view that JP itself sends, if it differs from ours. JP applies every `compaction` by its own grammar, which has
//! neither `jp_compact_overlay` nor `over`. Reports to users of JP must count this view. Otherwise they would report
//! savings of tokens that JP still sends.

use std::fmt;

use crate::overlay::Overlay;
use crate::pairs::Pairs;
use crate::projection::{project_with_overlays, project_with_pairs};
use crate::stream::Stream;
use crate::view::View;

/// The maximum number of overlays to list.
const NUMBERS_MAX: usize = 5;

/// The view that JP sends, if it differs from ours.
#[derive(Debug, Clone, PartialEq)]
pub struct JpView {
    /// The projection with the overlays that JP applies.
    pub view: View,
    pub difference: Difference,
}

/// The overlays that JP treats differently, by their numbers in the list that `show` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Overlays with a policy that JP does not know.
    pub unknown: Vec<usize>,
    /// Overlays that begin or end inside a turn. JP's grammar has no steps.
    pub stepped: Vec<usize>,
    /// Overlays with the condition `over`. JP ignores the condition and applies them. We do not apply them.
    pub over: Vec<usize>,
}

/// Returns the view that JP sends of a stream with `overlays`. `None` if JP applies all overlays as we do.
#[must_use]
pub fn jp_view(stream: &Stream, overlays: &[Overlay]) -> Option<JpView> {
    let difference = difference(overlays)?;
    Some(JpView { view: project_with_overlays(stream, &applied_by_jp(overlays)), difference })
}

/// Same as [`jp_view()`], with known pairs.
#[must_use]
pub fn jp_view_with(stream: &Stream, pairs: &Pairs, overlays: &[Overlay]) -> Option<JpView> {
    let difference = difference(overlays)?;
    Some(JpView { view: project_with_pairs(stream, pairs, &applied_by_jp(overlays)), difference })
}

fn difference(overlays: &[Overlay]) -> Option<Difference> {
    let numbers = |matches: fn(&Overlay) -> bool| -> Vec<usize> {
        (1..).zip(overlays).filter(|(_, overlay)| matches(overlay)).map(|(number, _)| number).collect()
    };
    let found = Difference {
        unknown: numbers(|overlay| !overlay.applied_by_jp && !overlay.has_steps()),
        stepped: numbers(Overlay::has_steps),
        over: numbers(|overlay| overlay.applied_by_jp && overlay.is_conditional()),
    };
    let lists = [&found.unknown, &found.stepped, &found.over];
    lists.iter().any(|list| !list.is_empty()).then_some(found)
}

/// Returns the overlays that JP applies, without the `over` that JP ignores.
fn applied_by_jp(overlays: &[Overlay]) -> Vec<Overlay> {
    let applied = overlays.iter().filter(|overlay| overlay.applied_by_jp).cloned();
    applied.map(|overlay| Overlay { not_applied: Vec::new(), ..overlay }).collect()
}

/// Returns each overlay's number in `jp conversation compact --reset=N`. `None` for overlays that JP does not count.
#[must_use]
pub fn jp_numbers(overlays: &[Overlay]) -> Vec<Option<usize>> {
    let mut numbers = 1..;
    overlays.iter().map(|overlay| if overlay.applied_by_jp { numbers.next() } else { None }).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.unknown.is_empty() {
            parts.push(format!("JP does not apply {}", list(&self.unknown)));
        }
        if !self.stepped.is_empty() {
            let ranges = if self.stepped.len() == 1 { "its range has" } else { "their ranges have" };
            parts.push(format!("JP does not apply {}, because {ranges} steps", list(&self.stepped)));
        }
        if !self.over.is_empty() {
            parts.push(format!("JP applies {} without `over`", list(&self.over)));
        }
        out.write_str(&parts.join(", and "))
    }
}

/// Lists overlays: `overlay 2`, or `overlays 2, 5, 6, 7, 9 and 3 more`.
fn list(numbers: &[usize]) -> String {
    let listed: Vec<_> = numbers.iter().take(NUMBERS_MAX).map(ToString::to_string).collect();
    let rest = match numbers.len() - listed.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let noun = if numbers.len() == 1 { "overlay" } else { "overlays" };
    format!("{noun} {}{rest}", listed.join(", "))
}
