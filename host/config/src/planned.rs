//! The calls of a selected profile, with their provenance: the configured values that led to them and are not the
//! user's own. The planner accepts the calls of a profile only together with their provenance, which consent needs.

use jp_compact_core::select::{RequestedSelection, Selection};

use crate::call::Call;

use super::Error;
use super::foreign::{ConfigScope, ConfiguredModel, ForeignValue, ModelDecision, Provenance};
use super::{Config, Profile, RULES_PROFILE, compaction_key};

/// Calls with their provenance.
#[derive(Debug, Clone)]
pub struct PlannedCalls<'a> {
    pub calls: Vec<Call>,
    /// The profile that the calls belong to, if any.
    pub profile: Option<&'a Profile>,
    /// The values that led to the calls and are not the user's own.
    pub provenance: Provenance,
}

impl PlannedCalls<'_> {
    /// Returns calls that the user typed.
    #[must_use]
    pub fn typed(calls: Vec<Call>) -> Self {
        Self { calls, profile: None, provenance: Provenance::typed() }
    }

    /// Adds a value to the provenance of the calls, because it led to them.
    #[must_use]
    pub fn with_foreign_value(mut self, foreign: Option<&ForeignValue>) -> Self {
        self.provenance.0.extend(foreign.cloned());
        self
    }

    /// Overrides the bounds of JP's rules with the typed bounds.
    #[must_use]
    pub fn with_bounds(mut self, typed: RequestedSelection) -> Self {
        for range in self.calls.iter_mut().filter_map(|call| call.range.as_mut()) {
            let Selection { from, to, keep_last, keep } = *range;
            *range = typed.or(RequestedSelection { from, to, keep_last }).with(keep);
        }
        self
    }
}

impl Config {
    /// Returns the calls of the profile that the user named.
    ///
    /// # Errors
    /// The profile does not exist.
    pub fn calls_of(&self, name: &str) -> Result<PlannedCalls<'_>, Error> {
        let profile = self.profile(name)?;
        Ok(PlannedCalls {
            calls: profile.calls.clone(),
            profile: Some(profile),
            provenance: Provenance(self.foreign_definition(profile).into_iter().collect()),
        })
    }

    /// Returns the calls of the default profile.
    ///
    /// # Errors
    /// The profile does not exist.
    pub fn default_calls(&self) -> Result<PlannedCalls<'_>, Error> {
        self.selected_by("default_profile", &self.default_profile)
    }

    /// Returns the calls of the profile for automatic compaction.
    ///
    /// # Errors
    /// The profile does not exist.
    pub fn auto_calls(&self) -> Result<PlannedCalls<'_>, Error> {
        self.selected_by("auto.profile", &self.auto.profile)
    }

    /// Returns the calls of the profile that runs if the conversation is still too large after the profile for
    /// automatic compaction.
    ///
    /// # Errors
    /// The profile does not exist.
    pub fn fallback_calls(&self) -> Result<Option<PlannedCalls<'_>>, Error> {
        let name = self.auto.fallback_profile.as_deref();
        name.map(|name| self.selected_by("auto.fallback_profile", name)).transpose()
    }

    /// Returns the calls of the profiles that run before the automatic compaction.
    ///
    /// # Errors
    /// A profile does not exist.
    pub fn always_calls(&self) -> Result<Vec<PlannedCalls<'_>>, Error> {
        self.auto.always.iter().map(|name| self.selected_by("auto.always", name)).collect()
    }

    /// Returns the value that enables automatic compaction, if it is not the user's own.
    #[must_use]
    pub fn foreign_auto(&self) -> Option<ForeignValue> {
        let origin = self.merged.origin(&compaction_key(&["auto", "enabled"]));
        ForeignValue::from_origin(origin, || ModelDecision::AutoCompact)
    }

    /// Returns the calls of the profile that the value of a key selects. The key is below `conversation.compaction`.
    fn selected_by(&self, key: &'static str, profile: &str) -> Result<PlannedCalls<'_>, Error> {
        let mut planned = self.calls_of(profile)?;
        // If the profile is foreign too, its definition has the calls. The user approves the definition separately.
        let calls = if planned.provenance.0.is_empty() { planned.calls.clone() } else { Vec::new() };
        let path = compaction_key(&key.split('.').collect::<Vec<_>>());
        let foreign_choice = ForeignValue::from_origin(self.merged.origin(&path), || ModelDecision::Choice {
            key,
            profile: profile.to_owned(),
            calls,
        });
        planned.provenance.0.extend(foreign_choice);
        Ok(planned)
    }

    /// Returns the definition of a profile if a part of it is not the user's own.
    fn foreign_definition(&self, profile: &Profile) -> Option<ForeignValue> {
        let decision = || ModelDecision::Profile { name: profile.name.clone(), calls: profile.calls.clone() };
        let path = compaction_key(&["profiles", &profile.name]);
        let mut origins = self.merged.origins_below(&path);
        if let Some(foreign) = origins.find_map(|origin| ForeignValue::from_origin(Some(origin), decision)) {
            return Some(foreign);
        }
        let (rules, origin) = self.jp.rules.as_ref()?;
        if profile.name != RULES_PROFILE || rules != profile {
            return None;
        }
        ForeignValue::from_origin(Some(origin), decision)
    }

    /// Returns the configured model.
    #[must_use]
    pub fn configured_model(&self) -> Option<ConfiguredModel> {
        let model = self.llm.model.clone()?;
        let origin = self.merged.origin(&["llm", "model"]);
        let foreign = ForeignValue::from_origin(origin, || ModelDecision::Model {
            model: model.clone(),
            key: "llm.model",
        });
        Some(ConfiguredModel { model, foreign })
    }

    /// Returns the model of the conversation.
    #[must_use]
    pub fn conversation_model(&self) -> Option<ConfiguredModel> {
        self.jp.conversation_model()
    }

    /// Returns the folder whose configuration applies.
    #[must_use]
    pub fn scope(&self) -> &ConfigScope {
        &self.scope
    }

    /// Returns every value that is not the user's own and that selects a model or its prompt. `asks_model` returns
    /// whether a call asks a model.
    #[must_use]
    pub fn foreign(&self, asks_model: impl Fn(&Call) -> bool) -> Vec<ForeignValue> {
        let (default, auto) = (self.default_calls().ok(), self.auto_calls().ok());
        let mut always = self.always_calls().unwrap_or_default();
        always.extend(self.fallback_calls().ok().flatten());
        let mut values: Vec<ForeignValue> =
            self.profiles.values().filter_map(|profile| self.foreign_definition(profile)).collect();
        for planned in default.iter().chain(&auto).chain(&always) {
            for foreign in planned.provenance.foreign() {
                if !values.contains(foreign) {
                    values.push(foreign.clone());
                }
            }
        }
        values.retain(|foreign| match &foreign.decision {
            ModelDecision::Choice { profile: name, .. } | ModelDecision::Profile { name, .. } => {
                self.profiles.get(name).is_none_or(|profile| profile.calls.iter().any(&asks_model))
            }
            ModelDecision::AutoCompact | ModelDecision::Model { .. } => true,
        });
        let mut automatic_calls = auto.iter().chain(&always).flat_map(|planned| &planned.calls);
        if self.auto.enabled && automatic_calls.any(&asks_model) {
            values.extend(self.foreign_auto());
        }
        let models = [self.configured_model(), self.conversation_model()];
        values.extend(models.into_iter().flatten().filter_map(|model| model.foreign));
        values
    }
}
