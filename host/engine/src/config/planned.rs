//! What is to run, by the name that somebody gave it: the calls of a profile, and which values that are not the
//! user's own led there. The command line cannot get calls of a profile without their lead.

use jp_compact_core::call::Call;

use super::foreign::{Foreign, Lead, Named, Scope, Subject};
use super::{AUTO, COMPACTION, Config, DEFAULT_PROFILE, Profile, RULES};
use crate::failure::Failure;

/// Calls, and what led to them.
#[derive(Debug, Clone)]
pub struct Planned<'a> {
    /// The calls.
    pub calls: Vec<Call>,
    /// The profile that they are of, if they are of one.
    pub profile: Option<&'a Profile>,
    /// The values that led to them and are not the user's own.
    pub lead: Lead,
}

impl Planned<'_> {
    /// Calls that the user typed.
    #[must_use]
    pub fn typed(calls: Vec<Call>) -> Self {
        Self { calls, profile: None, lead: Lead::typed() }
    }

    /// The same, where this value led to it too.
    #[must_use]
    pub fn led_by(mut self, foreign: Option<&Foreign>) -> Self {
        self.lead.0.extend(foreign.cloned());
        self
    }
}

impl Config {
    /// The profile of a name that the user typed.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn named(&self, name: &str) -> Result<Planned<'_>, Failure> {
        let profile = self.profile(name)?;
        Ok(Planned {
            calls: profile.calls.clone(),
            profile: Some(profile),
            lead: Lead(self.definition(profile).into_iter().collect()),
        })
    }

    /// The profile that runs where the user named none.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn by_default(&self) -> Result<Planned<'_>, Failure> {
        self.chosen(&DEFAULT_PROFILE, "default_profile", &self.default_profile)
    }

    /// The profile that runs once a conversation is too large.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn by_auto(&self) -> Result<Planned<'_>, Failure> {
        self.chosen(&[&AUTO[..], &["profile"]].concat(), "auto.profile", &self.auto.profile)
    }

    /// The profiles that run before.
    ///
    /// # Errors
    /// There is none of a name.
    pub fn by_always(&self) -> Result<Vec<Planned<'_>>, Failure> {
        let key = [&AUTO[..], &["always"]].concat();
        self.auto.always.iter().map(|name| self.chosen(&key, "auto.always", name)).collect()
    }

    /// The value that lets `query` compact without being asked to, where it is not the user's own.
    #[must_use]
    pub fn unasked(&self) -> Option<Foreign> {
        let origin = self.merged.origin(&[&AUTO[..], &["enabled"]].concat());
        Foreign::of(origin, || Subject::Unasked)
    }

    fn chosen(&self, key: &[&str], shown: &'static str, name: &str) -> Result<Planned<'_>, Failure> {
        let mut planned = self.named(name)?;
        // What a profile does that is not the user's own is a value of its own.
        let calls = if planned.lead.0.is_empty() { planned.calls.clone() } else { Vec::new() };
        planned.lead.0.extend(Foreign::of(self.merged.origin(key), || Subject::Choice {
            key: shown,
            profile: name.to_owned(),
            calls,
        }));
        Ok(planned)
    }

    /// A profile that is not all the user's own.
    pub(super) fn definition(&self, profile: &Profile) -> Option<Foreign> {
        let below = [COMPACTION[0], COMPACTION[1], "profiles", &profile.name];
        let subject = || Subject::Profile { name: profile.name.clone(), calls: profile.calls.clone() };
        let layers = self.merged.origins_below(&below).find_map(|origin| Foreign::of(Some(origin), subject));
        let rules = self.jp.rules.as_ref().filter(|(rules, _)| profile.name == RULES && rules == profile);
        layers.or_else(|| Foreign::of(rules.map(|(_, origin)| origin), subject))
    }

    /// The model that is configured.
    #[must_use]
    pub fn configured_model(&self) -> Option<Named> {
        let model = self.llm.model.clone()?;
        let origin = self.merged.origin(&["llm", "model"]);
        let foreign = Foreign::of(origin, || Subject::Model { model: model.clone(), key: "llm.model" });
        Some(Named { model, foreign })
    }

    /// The model that the conversation is held with.
    #[must_use]
    pub fn conversation_model(&self) -> Option<Named> {
        self.jp.named()
    }

    /// Whose files count.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Every value that is not the user's own and that leads to a model, or says what it is asked; `asks` knows of a
    /// call whether it asks one.
    #[must_use]
    pub fn foreign(&self, asks: impl Fn(&Call) -> bool) -> Vec<Foreign> {
        let mut found: Vec<Foreign> =
            self.profiles.values().filter_map(|profile| self.definition(profile)).collect();
        let chosen = [self.by_default(), self.by_auto()].into_iter().flatten();
        let always = self.by_always().into_iter().flatten();
        for planned in chosen.chain(always) {
            for foreign in planned.lead.0 {
                if !found.contains(&foreign) {
                    found.push(foreign);
                }
            }
        }
        found.retain(|foreign| match &foreign.subject {
            Subject::Choice { profile: name, .. } | Subject::Profile { name, .. } => {
                self.profiles.get(name).is_none_or(|profile| profile.calls.iter().any(&asks))
            }
            Subject::Unasked | Subject::Model { .. } => true,
        });
        let runs = [self.by_auto()].into_iter().flatten().chain(self.by_always().into_iter().flatten());
        let unasked = self.unasked().filter(|_| self.auto.enabled);
        found.extend(unasked.filter(|_| runs.into_iter().any(|planned| planned.calls.iter().any(&asks))));
        let models = [self.configured_model(), self.conversation_model()];
        found.extend(models.into_iter().flatten().filter_map(|named| named.foreign));
        found
    }
}
