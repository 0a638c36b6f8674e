//! The option `focus` of strategies. A focus that no strategy uses must be an error, and never be ignored.

use jp_compact_config::{Config, PlannedCalls};
use jp_compact_runtime::options;

use super::{Error, Planner, resolve_inline};
use crate::compact::{self, PreparedStrategy, StrategyRunError};
use crate::consent::Asker;

impl Planner<'_> {
    /// Rejects the focus of a query if neither the profile before the turn nor the automatic compaction after it has a
    /// strategy with the option `focus`.
    ///
    /// # Errors
    /// A strategy cannot be used, or none has the option.
    pub async fn check_query_focus(&mut self, inline: Option<&str>, config: &Config) -> Result<(), Error> {
        if self.options.focus.is_none() {
            return Ok(());
        }
        let before = inline.map(|text| resolve_inline(text, config)).transpose()?;
        let after = if config.auto.enabled { Some(config.auto_calls()?) } else { None };
        let mut strategies = Vec::new();
        for planned in before.iter().chain(&after) {
            strategies.extend(self.prepare_calls(planned).await?);
        }
        self.require_focus(&strategies)
    }

    /// Rejects a focus if no strategy of the profile has the option `focus`. This does not depend on whether the
    /// profile is due.
    ///
    /// # Errors
    /// A strategy cannot be used, or no strategy has the option.
    pub async fn check_profile_focus(&mut self, planned: &PlannedCalls<'_>) -> Result<(), Error> {
        if self.options.focus.is_none() {
            return Ok(());
        }
        let strategies = self.prepare_calls(planned).await?;
        self.check_focus(&strategies)
    }

    /// Sets the option `focus` of a strategy that has it, if the user typed a focus.
    pub(super) fn set_focus(&self, strategy: &mut PreparedStrategy) -> Result<(), compact::Error> {
        let Some(focus) = &self.options.focus else { return Ok(()) };
        let description = &strategy.described.description;
        options::focus(&mut strategy.options, description, focus).map_err(|reason| {
            compact::Error::strategy(&description.name, StrategyRunError::BadOptions { reason })
        })
    }

    /// Rejects a focus if no strategy has the option `focus`. For a query, [`Self::check_query_focus`] checks it.
    pub(super) fn check_focus(&self, strategies: &[PreparedStrategy]) -> Result<(), Error> {
        if matches!(self.user.asker, Asker::Query) {
            return Ok(());
        }
        self.require_focus(strategies)
    }

    /// Rejects a focus if no strategy has the option `focus`.
    fn require_focus(&self, strategies: &[PreparedStrategy]) -> Result<(), Error> {
        let has_focus = |strategy: &PreparedStrategy| strategy.options.contains_key(options::FOCUS);
        if self.options.focus.is_none() || strategies.iter().any(has_focus) {
            return Ok(());
        }
        let names = strategies.iter().map(|strategy| strategy.described.description.name.to_string());
        Err(Error::UnusedFocus { strategies: names.collect() })
    }
}
