//! A profile: an ordered list of strategies to call.

use jp_compact_core::call::{self, Call};
use jp_compact_core::select::KeepLast;

use super::file;
use super::merge::Merged;
use super::origin::{ConfigError, Source};

/// A profile: the calls, and the turns that it keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The name of the profile.
    pub name: String,
    /// The calls in order. Never empty.
    pub calls: Vec<Call>,
    /// The turns, steps or tokens to keep at the end. Any of them overrides the configuration.
    pub keep_last: KeepLast,
    /// The number of turns to keep at the start. Overrides the configuration.
    pub keep_first: Option<usize>,
    /// The fraction of the context window above which it is due. Overrides the configuration.
    pub trigger_ratio: Option<f64>,
}

/// Builds a profile from the merged layers.
pub(super) fn resolve(name: &str, raw: &file::Profile, merged: &Merged) -> Result<Profile, ConfigError> {
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
            || ConfigError::new(&Source::BuiltIn, what.clone()),
            |origin| ConfigError::with(origin, what.clone()),
        ));
    }
    Ok(Profile {
        name: name.to_owned(),
        calls,
        keep_last: raw.keep_last(),
        keep_first: raw.keep_first,
        trigger_ratio: raw.trigger_ratio,
    })
}
