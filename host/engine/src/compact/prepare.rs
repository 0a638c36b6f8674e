//! Which strategies may run, before any transcript is read: found, allowed, trusted, described, their options
//! checked. [`allow`] is the one place that decides whether a plugin may run at all, and whether in a jail.

use std::path::Path;

use jp_compact_core::select;
use jp_compact_core::spec::Spec;
use serde_json::{Map, Value};

use crate::config::Lead;
use crate::describe_cache::{Descriptions, Known};
use crate::environment::Environment;
use crate::failure::{self, Failure, StrategyFailure};
use crate::jail::{Abilities, Tier};
use crate::options;
use crate::registry::{Plugin, Registry};
use crate::session::{self, Confined, Described, Starter};
use crate::trust::{Candidate, Cleared, Grant, Said, Trust, grants};

/// What the user says about jails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// Nothing: bundled strategies run contained where there is no jail, others do not run.
    #[default]
    Unsaid,
    /// `require`: nothing runs without a jail.
    Require,
    /// `contained`: everything may run without one.
    Contained,
}

/// A strategy that may run: found, described, allowed, its options checked.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The plugin, how it is confined, and its description.
    pub described: Described,
    /// Its options.
    pub options: Map<String, Value>,
    /// The turns that it brings itself, in place of those of the run.
    pub range: Option<select::Wanted>,
    /// What led to it.
    pub lead: Lead,
}

impl Ready {
    /// Whether it needs a model.
    #[must_use]
    pub fn needs_model(&self) -> bool {
        self.described.description.needs.iter().any(|need| need == "llm")
    }
}

/// What is known of strategies before a run, and what the user said of jails.
#[derive(Debug)]
pub struct Preparation<'a> {
    /// Which there are.
    pub registry: &'a Registry,
    /// Which are trusted.
    pub trust: &'a Trust,
    /// What they said of themselves.
    pub descriptions: &'a Descriptions,
    /// How they are started.
    pub starter: &'a Starter,
    /// What the user says about jails.
    pub sandbox: Sandbox,
    /// What this machine can do for a jail.
    pub abilities: Abilities,
}

/// Finds, describes and checks the strategies of a run, all of them for the same reason.
///
/// # Errors
/// The first that is not found, not allowed, not valid, or whose options are wrong.
pub async fn prepare(
    specs: &[Spec],
    lead: &Lead,
    preparation: &Preparation<'_>,
    environment: &Environment,
) -> Result<Vec<Ready>, Failure> {
    let mut ready = Vec::with_capacity(specs.len());
    for spec in specs {
        let failed = |source| Failure::of_strategy(&spec.name, source);
        let plugin = preparation.registry.find_to_run(&spec.name, preparation.trust)?;
        let described = preparation.describe(&plugin).await.map_err(failed)?;
        check_needs(&described).map_err(failed)?;
        let options = if described.takes_defaults && spec.options.is_empty() {
            options::defaults(&described.description)
        } else {
            options::resolve(&spec.options, &described.description, environment)
                .map_err(|what| failed(StrategyFailure::BadOptions { what }))?
        };
        ready.push(Ready { described, options, range: None, lead: lead.clone() });
    }
    Ok(ready)
}

impl Preparation<'_> {
    /// Clears a plugin and hears what it says of itself, or said when it was the same bytes.
    ///
    /// # Errors
    /// It is not allowed, not trusted, or not valid.
    pub async fn describe(&self, plugin: &Plugin) -> Result<Described, StrategyFailure> {
        let mut confined = self.clear(plugin)?;
        let cleared = &confined.cleared;
        let known = match self.descriptions.get(&cleared.sha256) {
            Some(known) => known,
            None => {
                let described = self.starter.describe(&confined).await;
                let known = Known::of(described.map_err(|error| error.of_run(&confined))?);
                self.descriptions.put(&cleared.sha256, &known);
                known
            }
        };
        session::check(&known, &cleared.plugin)?;
        let Known { description, takes_defaults } = known;
        if let Some(spool) = self.starter.spool.as_deref().filter(|_| description.has_feature("events.file"))
        {
            confined = confined.with_spool(spool.folder());
        }
        Ok(Described { confined, description, takes_defaults })
    }

    /// Lets an untrusted plugin introduce itself to whoever is asked about it: by what these very bytes said
    /// before, else in a jail with nothing but its interpreter. Where that cannot be, it stays silent.
    ///
    /// # Errors
    /// What it says is not of this plugin, or the host could not work with it: there is nothing to trust.
    pub async fn introduce(&self, candidate: &mut Candidate) -> Result<(), StrategyFailure> {
        let described = match self.descriptions.get(&candidate.sha256) {
            Some(known) => Ok(known),
            None if self.abilities.tier() == Tier::Contained => {
                let lacks = failure::lacks(&self.abilities.missing());
                candidate.said = Said::Nothing(format!("there is no jail to ask it in: {lacks}"));
                return Ok(());
            }
            None => self.ask_in_jail(candidate).await,
        };
        match described {
            Ok(known) => {
                session::check(&known, &candidate.plugin)?;
                candidate.hear(known.description);
            }
            Err(error) => candidate.said = Said::Nothing(error.with_last_words()),
        }
        Ok(())
    }

    async fn ask_in_jail(&self, candidate: &Candidate) -> Result<Known, StrategyFailure> {
        let cleared = self.trust.clear_to_describe(candidate)?;
        let confined = Confined::jailed(cleared, self.abilities, &self.starter.runner)?;
        let known = Known::of(self.starter.describe(&confined).await?);
        self.descriptions.put(&candidate.sha256, &known);
        Ok(known)
    }

    /// Whether a plugin may run, as what, and how it is confined. Nothing is started by that.
    ///
    /// # Errors
    /// It is not allowed, or not trusted.
    pub fn clear(&self, plugin: &Plugin) -> Result<Confined, StrategyFailure> {
        let trust = self.trust.clear(plugin);
        let (cleared, tier) = allow(plugin.bundled(), self.sandbox, self.abilities, trust, &plugin.path)?;
        match tier {
            Tier::Contained => Confined::contained(cleared, &self.starter.runner),
            _ => Confined::jailed(cleared, self.abilities, &self.starter.runner),
        }
    }
}

/// The one place that decides whether a plugin runs, and how far it is confined: by where it comes from, what the
/// user says of jails, what the machine can do, and whether it is trusted. There is no way down that was not
/// typed, but for what came with the host. Where trust would not help, the jail is what the refusal is about.
///
/// # Errors
/// It may not run.
pub fn allow<T>(
    bundled: bool,
    sandbox: Sandbox,
    abilities: Abilities,
    trust: Result<T, StrategyFailure>,
    path: &Path,
) -> Result<(T, Tier), StrategyFailure> {
    let missing = || abilities.missing();
    let tier = match (sandbox, abilities.tier()) {
        (Sandbox::Contained, _) => Tier::Contained,
        (Sandbox::Unsaid, Tier::Contained) if bundled => Tier::Contained,
        (Sandbox::Unsaid, Tier::Contained) => {
            return Err(StrategyFailure::NotContained { path: path.to_owned(), missing: missing() });
        }
        (Sandbox::Require, Tier::Contained) => {
            return Err(StrategyFailure::NoJail { missing: missing() });
        }
        (Sandbox::Unsaid | Sandbox::Require, jailed) => jailed,
    };
    trust.map(|cleared| (cleared, tier))
}

/// Whether everything that a strategy needs was granted. The bundled come with what they need.
fn check_needs(described: &Described) -> Result<(), StrategyFailure> {
    let Cleared { plugin, permissions, .. } = &described.confined.cleared;
    let is_granted = |need: &str| plugin.bundled() || (need == "llm" && permissions.llm);
    let Some(need) = described.description.needs.iter().find(|need| !is_granted(need)) else { return Ok(()) };
    let command = need.parse::<Grant>().ok().map(|grant| {
        let all = grants::with(permissions.clone(), &[grant]);
        described.confined.cleared.command(&all)
    });
    Err(StrategyFailure::NotGranted { need: need.clone(), command })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Abilities = Abilities { landlock: 0, seccomp: true };
    const PART: Abilities = Abilities { landlock: 1, seccomp: true };
    const WHOLE: Abilities = Abilities { landlock: 6, seccomp: true };

    /// What becomes of a plugin: at which tier it runs, or the first words of the refusal.
    #[track_caller]
    fn check(
        bundled: bool,
        sandbox: Sandbox,
        abilities: Abilities,
        trusted: bool,
        expect: Result<Tier, &str>,
    ) {
        let trust = if trusted { Ok(()) } else { Err(StrategyFailure::NoState) };
        let found = allow(bundled, sandbox, abilities, trust, Path::new("/p"));
        let found = found.map(|((), tier)| tier).map_err(|error| error.to_string());
        match (&found, expect) {
            (Err(text), Err(start)) => assert!(text.starts_with(start), "{text}"),
            (found, expect) => assert_eq!(*found, expect.map_err(str::to_owned)),
        }
    }

    const NO_TRUST: &str = "there is no folder";

    #[test]
    fn with_a_jail_everybody_is_jailed_unless_the_user_says_otherwise() {
        for bundled in [true, false] {
            check(bundled, Sandbox::Unsaid, WHOLE, true, Ok(Tier::Isolated));
            check(bundled, Sandbox::Require, WHOLE, true, Ok(Tier::Isolated));
            check(bundled, Sandbox::Contained, WHOLE, true, Ok(Tier::Contained));
            check(bundled, Sandbox::Unsaid, PART, true, Ok(Tier::PartlyIsolated));
            check(bundled, Sandbox::Require, PART, true, Ok(Tier::PartlyIsolated));
        }
    }

    #[test]
    fn without_a_jail_only_the_bundled_run_unasked() {
        check(true, Sandbox::Unsaid, NONE, true, Ok(Tier::Contained));
        check(false, Sandbox::Unsaid, NONE, true, Err("/p is not bundled"));
        check(false, Sandbox::Contained, NONE, true, Ok(Tier::Contained));
        for bundled in [true, false] {
            check(bundled, Sandbox::Require, NONE, true, Err("`--sandbox=require`"));
        }
    }

    #[test]
    fn trust_is_needed_at_either_tier() {
        check(false, Sandbox::Unsaid, WHOLE, false, Err(NO_TRUST));
        check(false, Sandbox::Contained, WHOLE, false, Err(NO_TRUST));
        check(false, Sandbox::Contained, NONE, false, Err(NO_TRUST));
    }

    #[test]
    fn where_trust_would_not_help_the_jail_is_what_is_missing() {
        check(false, Sandbox::Unsaid, NONE, false, Err("/p is not bundled"));
    }
}
