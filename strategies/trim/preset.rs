//! The presets: rules that other projects published. `docs/reference/strategies.md` names the source of each preset,
//! and the parts that were left out.

use serde::Deserialize;

use crate::rule::TrimRule;

/// A published rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Preset {
    /// Anthropic's context editing, `clear_tool_uses_20250919`.
    ClearToolUses,
    /// OpenCode's pruning of tool output.
    OpencodePrune,
    /// Gemini CLI's masking of tool output.
    GeminiMask,
    /// Observation masking with a window of 10, from "The Complexity Trap", with the placeholder of SWE-agent.
    #[serde(rename = "mask-10")]
    Mask10,
    /// The first 300 characters of each result.
    #[serde(rename = "head-300")]
    Head300,
    /// A plain cap of 8,000 characters, the baseline in the evaluation of kompact.
    #[serde(rename = "cap-8000")]
    Cap8000,
}

impl Preset {
    /// The names, in the order of the documentation.
    pub(crate) const NAMES: [&str; 6] =
        ["clear-tool-uses", "opencode-prune", "gemini-mask", "mask-10", "head-300", "cap-8000"];

    pub(crate) fn rule(self) -> TrimRule {
        match self {
            // Defaults of the API: `keep` is 3 tool uses, no `clear_at_least`, no `exclude_tools`, arguments stay.
            Self::ClearToolUses => TrimRule {
                keep_results: 3,
                ..TrimRule::clear("[The result of this old call of {tool} was cleared]")
            },
            // PRUNE_PROTECT and PRUNE_MINIMUM. More than the minimum must be pruned, so one token is added.
            Self::OpencodePrune => TrimRule {
                keep_turns: 2,
                keep_tokens: 40_000,
                min_gain: 20_001,
                exempt: vec!["skill".to_owned()],
                keep_errors: true,
                ..TrimRule::clear("[Old tool result content cleared]")
            },
            // toolProtectionThreshold, minPrunableTokensThreshold, protectLatestTurn.
            Self::GeminiMask => TrimRule {
                keep_steps: 1,
                keep_tokens: 50_000,
                min_gain: 30_000,
                first: 250,
                last: 250,
                ..TrimRule::clear("... [TRUNCATED] ...")
            },
            Self::Mask10 => TrimRule {
                keep_results: 10,
                ..TrimRule::clear("Old environment output: ({lines} lines omitted)")
            },
            Self::Head300 => TrimRule { first: 300, ..TrimRule::clear("[... {chars} characters removed]") },
            Self::Cap8000 => TrimRule { first: 8_000, ..TrimRule::clear("[... {chars} characters removed]") },
        }
    }
}
