//! The options of a request, on top of a preset or of the defaults.

use serde::Deserialize;

use crate::preset::Preset;
use crate::rule::TrimRule;

/// The options of a request. An absent one has the value of the preset.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrimOptions {
    preset: Option<Preset>,
    keep_results: Option<usize>,
    keep_steps: Option<usize>,
    keep_turns: Option<usize>,
    keep_tokens: Option<u64>,
    first: Option<usize>,
    last: Option<usize>,
    min_chars: Option<usize>,
    placeholder: Option<String>,
    exempt: Option<Vec<String>>,
    keep_errors: Option<bool>,
    arguments: Option<bool>,
    min_gain: Option<u64>,
}

impl TrimOptions {
    /// Returns the complete rule.
    pub(crate) fn rule(self) -> TrimRule {
        let base = self.preset.map(Preset::rule).unwrap_or_default();
        TrimRule {
            keep_results: self.keep_results.unwrap_or(base.keep_results),
            keep_steps: self.keep_steps.unwrap_or(base.keep_steps),
            keep_turns: self.keep_turns.unwrap_or(base.keep_turns),
            keep_tokens: self.keep_tokens.unwrap_or(base.keep_tokens),
            first: self.first.unwrap_or(base.first),
            last: self.last.unwrap_or(base.last),
            min_chars: self.min_chars.unwrap_or(base.min_chars),
            placeholder: self.placeholder.unwrap_or(base.placeholder),
            exempt: self.exempt.unwrap_or(base.exempt),
            keep_errors: self.keep_errors.unwrap_or(base.keep_errors),
            arguments: self.arguments.unwrap_or(base.arguments),
            min_gain: self.min_gain.unwrap_or(base.min_gain),
        }
    }
}
