//! The calls to run, selected by the name of a profile, with the values that led to them and are not the
//! user's own. Commands cannot get the calls of a profile without these values.

use jp_compact_core::call::Call;

use super::Error;
use super::foreign::{ConfigScope, ConfiguredModel, Foreign, ModelDecision, Provenance};
use super::{AUTO, COMPACTION, Config, DEFAULT_PROFILE, Profile, RULES};

/// Calls with the values that led to them.
#[derive(Debug, Clone)]
pub struct Planned<'a> {
    /// The calls.
    pub calls: Vec<Call>,
    /// The profile that they belong to, if any.
    pub profile: Option<&'a Profile>,
    /// The values that led to them and are not the user's own.
    pub provenance: Provenance,
}

impl Planned<'_> {
    /// Returns calls that the user typed.
    #[must_use]
    pub fn typed(calls: Vec<Call>) -> Self {
        Self { calls, profile: None, provenance: Provenance::typed() }
    }

    /// Adds a value that led to the calls.
    #[must_use]
    pub fn led_by(mut self, foreign: Option<&Foreign>) -> Self {
        self.provenance.0.extend(foreign.cloned());
        self
    }
}

impl Config {
    /// Returns the profile that the user named.
    ///
    /// # Errors
    /// The profile does not exist.
    pub fn named(&self, name: &str) -> Result<Planned<'_>, Error> {
        let profile = self.profile(name)?;
        Ok(Planned {
            calls: profile.calls.clone(),
            profile: Some(profile),
            provenance: Provenance(self.definition(profile).into_iter().collect()),
        })
    }

    /// Returns the default profile.
    ///
    /// # Errors
    /// The profile does not exist.
    pub fn by_default(&self) -> Result<Planned<'_>, Error> {
        self.chosen(&DEFAULT_PROFILE, "default_profile", &self.default_profile)
    }

    /// Returns the profile for automatic compaction.
    ///
    /// # Errors
    /// The profile does not exist.
    pub fn by_auto(&self) -> Result<Planned<'_>, Error> {
        self.chosen(&[&AUTO[..], &["profile"]].concat(), "auto.profile", &self.auto.profile)
    }

    /// Returns the profiles that run before the automatic compaction.
    ///
    /// # Errors
    /// A profile does not exist.
    pub fn by_always(&self) -> Result<Vec<Planned<'_>>, Error> {
        let key = [&AUTO[..], &["always"]].concat();
        self.auto.always.iter().map(|name| self.chosen(&key, "auto.always", name)).collect()
    }

    /// Returns the value that enables automatic compaction, if it is not the user's own.
    #[must_use]
    pub fn foreign_auto(&self) -> Option<Foreign> {
        let origin = self.merged.origin(&[&AUTO[..], &["enabled"]].concat());
        Foreign::from_origin(origin, || ModelDecision::AutoCompact)
    }

    fn chosen(&self, key: &[&str], shown: &'static str, name: &str) -> Result<Planned<'_>, Error> {
        let mut planned = self.named(name)?;
        // The calls of a foreign profile are a separate value.
        let calls = if planned.provenance.0.is_empty() { planned.calls.clone() } else { Vec::new() };
        planned.provenance.0.extend(Foreign::from_origin(self.merged.origin(key), || {
            ModelDecision::Choice { key: shown, profile: name.to_owned(), calls }
        }));
        Ok(planned)
    }

    /// Returns the definition of a profile if parts of it are not the user's own.
    pub(super) fn definition(&self, profile: &Profile) -> Option<Foreign> {
        let below = [COMPACTION[0], COMPACTION[1], "profiles", &profile.name];
        let subject = || ModelDecision::Profile { name: profile.name.clone(), calls: profile.calls.clone() };
        let layers =
            self.merged.origins_below(&below).find_map(|origin| Foreign::from_origin(Some(origin), subject));
        let rules = self.jp.rules.as_ref().filter(|(rules, _)| profile.name == RULES && rules == profile);
        layers.or_else(|| Foreign::from_origin(rules.map(|(_, origin)| origin), subject))
    }

    /// Returns the configured model.
    #[must_use]
    pub fn configured_model(&self) -> Option<ConfiguredModel> {
        let model = self.llm.model.clone()?;
        let origin = self.merged.origin(&["llm", "model"]);
        let foreign =
            Foreign::from_origin(origin, || ModelDecision::Model { model: model.clone(), key: "llm.model" });
        Some(ConfiguredModel { model, foreign })
    }

    /// Returns the model of the conversation.
    #[must_use]
    pub fn conversation_model(&self) -> Option<ConfiguredModel> {
        self.jp.conversation_model()
    }

    /// Returns the folder whose files apply.
    #[must_use]
    pub fn scope(&self) -> &ConfigScope {
        &self.scope
    }

    /// Returns every value that is not the user's own and that selects a model or its prompt. `asks` decides
    /// whether a call asks a model.
    #[must_use]
    pub fn foreign(&self, asks: impl Fn(&Call) -> bool) -> Vec<Foreign> {
        let mut found: Vec<Foreign> =
            self.profiles.values().filter_map(|profile| self.definition(profile)).collect();
        let chosen = [self.by_default(), self.by_auto()].into_iter().flatten();
        let always = self.by_always().into_iter().flatten();
        for planned in chosen.chain(always) {
            for foreign in planned.provenance.0 {
                if !found.contains(&foreign) {
                    found.push(foreign);
                }
            }
        }
        found.retain(|foreign| match &foreign.subject {
            ModelDecision::Choice { profile: name, .. } | ModelDecision::Profile { name, .. } => {
                self.profiles.get(name).is_none_or(|profile| profile.calls.iter().any(&asks))
            }
            ModelDecision::AutoCompact | ModelDecision::Model { .. } => true,
        });
        let runs = [self.by_auto()].into_iter().flatten().chain(self.by_always().into_iter().flatten());
        let foreign_auto = self.foreign_auto().filter(|_| self.auto.enabled);
        found
            .extend(foreign_auto.filter(|_| runs.into_iter().any(|planned| planned.calls.iter().any(&asks))));
        let models = [self.configured_model(), self.conversation_model()];
        found.extend(models.into_iter().flatten().filter_map(|named| named.foreign));
        found
    }
}
