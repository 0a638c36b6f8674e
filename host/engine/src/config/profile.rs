//! What a profile comes to: strategies to call, in order.

use jp_compact_core::call::{self, Call};

use super::file;
use super::merge::Merged;
use super::origin::{Source, Wrong};

/// A profile: what is done, and how many turns it leaves alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it calls, in order. Never empty.
    pub calls: Vec<Call>,
    /// How many turns at the end it keeps, in place of what is configured.
    pub keep_last: Option<usize>,
    /// How many turns at the beginning it keeps, in place of what is configured.
    pub keep_first: Option<usize>,
    /// Above which share of the window it is due, in place of what is configured.
    pub trigger_ratio: Option<f64>,
}

/// Makes a profile of what the layers say of it.
pub(super) fn resolve(name: &str, raw: &file::Profile, merged: &Merged) -> Result<Profile, Wrong> {
    let summary = raw
        .summary
        .as_ref()
        .map(|summary| (summary.model.as_ref().map(ToString::to_string), summary.instructions.as_deref()))
        .map(|(model, instructions)| Call::summary(model.as_deref(), instructions));
    let mut calls =
        call::of_policies(raw.reasoning.is_some(), raw.tool_calls.as_ref().map(|mode| mode.0), summary);
    calls.extend(raw.strategies.iter().flatten().map(|strategy| strategy.0.clone()));
    if calls.is_empty() {
        let what = format!(
            "profile `{name}` does nothing: give it `reasoning`, `tool_calls`, `summary`, or `strategies`"
        );
        let origin = merged.origins_below(&["conversation", "compaction", "profiles", name]).next();
        return Err(origin.map_or_else(
            || Wrong::of(&Source::BuiltIn, what.clone()),
            |origin| Wrong::with(origin, what.clone()),
        ));
    }
    Ok(Profile {
        name: name.to_owned(),
        calls,
        keep_last: raw.keep_last,
        keep_first: raw.keep_first,
        trigger_ratio: raw.trigger_ratio,
    })
}
