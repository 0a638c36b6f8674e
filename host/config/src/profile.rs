//! Profiles: lists of strategies to call, with the turns to keep.

use crate::call::{self, Call};
use jp_compact_core::select::KeepLast;

use super::compaction_key;
use super::file::{self, ToolCalls};
use super::merge::Merged;
use super::origin::{ConfigError, Source};

/// A list of calls, with the turns to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The name of the profile.
    pub name: String,
    /// The calls in order. Never empty.
    pub calls: Vec<Call>,
    /// The turns, steps or tokens to keep at the end. If one of them is set, it overrides `Config::keep_last`.
    pub keep_last: KeepLast,
    /// The number of turns to keep at the start. Overrides `Config::keep_first`.
    pub keep_first: Option<usize>,
    /// The fraction of the context window above which a compaction is due. Overrides `Auto::trigger_ratio`.
    pub trigger_ratio: Option<f64>,
}

/// Builds a profile from the merged layers.
pub(super) fn resolve(name: &str, raw: &file::Profile, merged: &Merged) -> Result<Profile, ConfigError> {
    let summary = raw.summary.as_ref().map(|summary| {
        let model = summary.model.as_ref().map(ToString::to_string);
        Call::summary(model.as_deref(), summary.instructions.as_deref())
    });
    let tools_mode = raw.tool_calls.as_ref().map(|&ToolCalls(mode)| mode);
    let mut calls = call::calls_for_policies(raw.reasoning.is_some(), tools_mode, summary);
    calls.extend(raw.strategies.iter().flatten().map(|strategy| strategy.0.clone()));
    if calls.is_empty() {
        let message = format!(
            "profile `{name}` does nothing: give it `reasoning`, `tool_calls`, `summary`, or `strategies`"
        );
        let path = compaction_key(&["profiles", name]);
        return Err(match merged.origins_below(&path).next() {
            Some(origin) => ConfigError::at_origin(origin, message),
            None => ConfigError::new(&Source::BuiltIn, message),
        });
    }
    Ok(Profile {
        name: name.to_owned(),
        calls,
        keep_last: raw.keep_last(),
        keep_first: raw.keep_first,
        trigger_ratio: raw.trigger_ratio,
    })
}
