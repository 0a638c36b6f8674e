//! The user's selection on a command line or in a call of an MCP tool. The configuration supplies each missing part. A
//! strategy or profile that is named here may make a view larger. A configured one may not. In a batch, only
//! `--restore` allows it.

use jp_compact_core::select::RequestedSelection;
use jp_compact_core::spec::Spec;

use crate::compact::OnGrowth;

/// The user's selection: the strategies or the profile, and the turns. The configuration supplies each missing part.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandLineChoice<'a> {
    /// The strategies. They exclude a profile and an inline form.
    pub strategies: &'a [Spec],
    /// The name of a profile.
    pub profile: Option<&'a str>,
    /// The value of `--compact`: empty, a profile, or JP's inline form.
    pub inline: Option<&'a str>,
    /// The turns and steps to compact.
    pub selection: RequestedSelection,
}

impl CommandLineChoice<'_> {
    /// Returns whether a proposal may make the view larger: only if the user named the strategy or the profile.
    pub(super) fn on_growth(&self) -> OnGrowth {
        let has_inline = self.inline.is_some_and(|text| !text.is_empty());
        if has_inline || self.profile.is_some() || !self.strategies.is_empty() {
            OnGrowth::Append
        } else {
            OnGrowth::DeclineConfigured
        }
    }
}
