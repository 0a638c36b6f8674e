//! The cut points of a session. A cut point is the position at which a given part of the characters of all tool results
//! has been seen, moved to the end of the step. All cut points of a short session are skipped.

use crate::event_text::TextRole;
use crate::session::Session;

/// The parts of the tool output at which a session is cut by default, in percent.
pub const DEFAULT_CUTS: [f64; 3] = [40.0, 60.0, 80.0];
/// The minimum number of tool results before a cut.
pub const RESULTS_MIN: usize = 12;
/// The minimum number of events of the assistant after a cut.
pub const ASSISTANT_MIN: usize = 3;

/// A point at which a session is compacted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut {
    /// The part of the tool output before the cut, in percent, as requested.
    pub percent: f64,
    /// The number of events of the prefix.
    pub events: usize,
    /// The number of tool results in the prefix.
    pub results: usize,
    /// The number of events of the assistant after the prefix.
    pub assistant_after: usize,
}

impl Cut {
    /// Returns the number of elements of the prefix.
    #[must_use]
    pub fn elements(&self, session: &Session<'_>) -> usize {
        match session.events.get(self.events) {
            Some(event) => event.element,
            None => session.stream.events().len(),
        }
    }

    /// Returns the reason to skip the cut. `None` if the session has enough data.
    #[must_use]
    pub fn reason_to_skip(&self) -> Option<String> {
        if self.results < RESULTS_MIN {
            let results = counted(self.results, "tool result");
            return Some(format!("{results} before the cut; at least {RESULTS_MIN} are needed"));
        }
        if self.assistant_after < ASSISTANT_MIN {
            let events = counted(self.assistant_after, "event");
            return Some(format!(
                "{events} of the assistant after the cut; at least {ASSISTANT_MIN} are needed"
            ));
        }
        None
    }
}

fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns the cut points of a session in order, each position once. Cut points that should be skipped are included.
#[must_use]
pub fn cut_points(session: &Session<'_>, percents: &[f64]) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    for percent in percents {
        let Some(cut) = cut_at(session, *percent) else { continue };
        if cuts.iter().all(|other| other.events != cut.events) {
            cuts.push(cut);
        }
    }
    cuts.sort_by_key(|cut| cut.events);
    cuts
}

fn cut_at(session: &Session<'_>, percent: f64) -> Option<Cut> {
    let is_result = |role| role == TextRole::Result;
    let results = session.events.iter().filter(|event| is_result(event.role));
    let total: usize = results.map(|event| event.chars).sum();
    if total == 0 {
        return None;
    }
    let target = total as f64 * percent / 100.0;
    let mut seen = 0;
    let reached = session.events.iter().position(|event| {
        seen += if is_result(event.role) { event.chars } else { 0 };
        is_result(event.role) && seen as f64 >= target
    })?;
    let step = |event: usize| (session.events[event].turn, session.events[event].step);
    // The events of a step may be mixed with the events of another step.
    let last = (reached..session.events.len()).rev().find(|event| step(*event) == step(reached))?;
    let (before, after) = session.events.split_at(last + 1);
    Some(Cut {
        percent,
        events: before.len(),
        results: before.iter().filter(|event| is_result(event.role)).count(),
        assistant_after: after.iter().filter(|event| event.role.is_of_model()).count(),
    })
}
