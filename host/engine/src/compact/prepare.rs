//! Which strategies may run, before any transcript is read: found, allowed, trusted, described, their options
//! checked. [`allow`] is the one place that decides whether a plugin may run at all.

use std::path::Path;

use jp_compact_core::spec::Spec;
use serde_json::{Map, Value};

use crate::describe_cache::Descriptions;
use crate::environment::Environment;
use crate::failure::{Failure, StrategyFailure};
use crate::options;
use crate::registry::{Plugin, Registry};
use crate::session::{self, Described, Starter};
use crate::trust::{Cleared, Grant, Trust, grants};

/// How far a strategy is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Deadline, caps, environment, descriptors, process group.
    Contained,
    /// And no file and no network but what was granted.
    Isolated,
}

impl Tier {
    /// The word that receipts record.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Contained => "contained",
            Self::Isolated => "isolated",
        }
    }
}

/// How far this version can confine: it has no jail yet.
pub const REACHABLE: Tier = Tier::Contained;

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
    /// The plugin and its description.
    pub described: Described,
    /// How far it is confined.
    pub tier: Tier,
    /// Its options.
    pub options: Map<String, Value>,
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
    /// How far this machine can confine.
    pub reachable: Tier,
}

/// Finds, describes and checks the strategies of a run.
///
/// # Errors
/// The first that is not found, not allowed, not valid, or whose options are wrong.
pub async fn prepare(
    specs: &[Spec],
    preparation: &Preparation<'_>,
    environment: &Environment,
) -> Result<Vec<Ready>, Failure> {
    let mut ready = Vec::with_capacity(specs.len());
    for spec in specs {
        let failed = |source| Failure::of_strategy(&spec.name, source);
        let plugin = preparation.registry.find_to_run(&spec.name, preparation.trust)?;
        let (described, tier) = preparation.describe(&plugin).await.map_err(failed)?;
        check_needs(&described).map_err(failed)?;
        let options = options::resolve(&spec.options, &described.description, environment)
            .map_err(|what| failed(StrategyFailure::BadOptions { what }))?;
        ready.push(Ready { described, tier, options });
    }
    Ok(ready)
}

impl Preparation<'_> {
    /// Clears a plugin and hears what it says of itself, or said when it was the same bytes.
    ///
    /// # Errors
    /// It is not allowed, not trusted, or not valid.
    pub async fn describe(&self, plugin: &Plugin) -> Result<(Described, Tier), StrategyFailure> {
        let (cleared, tier) = self.clear(plugin).map_err(|error| self.introduce(error))?;
        let description = match self.descriptions.get(&cleared.sha256) {
            Some(description) => description,
            None => {
                let description =
                    self.starter.describe(&cleared).await.map_err(|error| error.of_run(&cleared))?;
                self.descriptions.put(&cleared.sha256, &description);
                description
            }
        };
        session::check(&description, &cleared)?;
        Ok((Described { cleared, description }, tier))
    }

    /// Adds what these very bytes said of themselves before to what the user is asked about. Nobody is asked to
    /// describe itself before it is trusted, unless in a jail.
    fn introduce(&self, mut error: StrategyFailure) -> StrategyFailure {
        if let StrategyFailure::NotTrusted(candidate) = &mut error {
            candidate.description = self.descriptions.get(&candidate.sha256);
        }
        error
    }

    /// Whether a plugin may run, and as what. Nothing is started by that.
    ///
    /// # Errors
    /// It is not allowed, or not trusted.
    pub fn clear(&self, plugin: &Plugin) -> Result<(Cleared, Tier), StrategyFailure> {
        allow(plugin.bundled(), self.sandbox, self.reachable, self.trust.clear(plugin), &plugin.path)
    }
}

/// The one place that decides whether a plugin runs, and how far it is confined: by where it comes from, what the
/// user says of jails, what the machine can do, and whether it is trusted. Where trust would not help, the jail
/// is what the refusal is about.
///
/// # Errors
/// It may not run.
pub fn allow<T>(
    bundled: bool,
    sandbox: Sandbox,
    reachable: Tier,
    trust: Result<T, StrategyFailure>,
    path: &Path,
) -> Result<(T, Tier), StrategyFailure> {
    let tier = match (sandbox, reachable) {
        (Sandbox::Contained, _) => Tier::Contained,
        (Sandbox::Unsaid | Sandbox::Require, Tier::Isolated) => Tier::Isolated,
        (Sandbox::Unsaid, Tier::Contained) if bundled => Tier::Contained,
        (Sandbox::Unsaid, Tier::Contained) => {
            return Err(StrategyFailure::NotContained { path: path.to_owned() });
        }
        (Sandbox::Require, Tier::Contained) => return Err(StrategyFailure::NoJail),
    };
    trust.map(|cleared| (cleared, tier))
}

/// Whether everything that a strategy needs was granted. The bundled come with what they need.
fn check_needs(described: &Described) -> Result<(), StrategyFailure> {
    let Cleared { plugin, permissions, .. } = &described.cleared;
    let is_granted = |need: &str| plugin.bundled() || (need == "llm" && permissions.llm);
    let Some(need) = described.description.needs.iter().find(|need| !is_granted(need)) else { return Ok(()) };
    let command = need.parse::<Grant>().ok().map(|grant| {
        let all = grants::with(permissions.clone(), &[grant]);
        described.cleared.command(&all)
    });
    Err(StrategyFailure::NotGranted { need: need.clone(), command })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a plugin: at which tier it runs, or the first words of the refusal.
    #[track_caller]
    fn check(bundled: bool, sandbox: Sandbox, reachable: Tier, trusted: bool, expect: Result<Tier, &str>) {
        let trust = if trusted { Ok(()) } else { Err(StrategyFailure::NoState) };
        let found = allow(bundled, sandbox, reachable, trust, Path::new("/p"));
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
            check(bundled, Sandbox::Unsaid, Tier::Isolated, true, Ok(Tier::Isolated));
            check(bundled, Sandbox::Require, Tier::Isolated, true, Ok(Tier::Isolated));
            check(bundled, Sandbox::Contained, Tier::Isolated, true, Ok(Tier::Contained));
        }
    }

    #[test]
    fn without_a_jail_only_the_bundled_run_unasked() {
        check(true, Sandbox::Unsaid, Tier::Contained, true, Ok(Tier::Contained));
        check(false, Sandbox::Unsaid, Tier::Contained, true, Err("/p is not bundled"));
        check(false, Sandbox::Contained, Tier::Contained, true, Ok(Tier::Contained));
        for bundled in [true, false] {
            check(bundled, Sandbox::Require, Tier::Contained, true, Err("`--sandbox=require`"));
        }
    }

    #[test]
    fn trust_is_needed_at_either_tier() {
        check(false, Sandbox::Unsaid, Tier::Isolated, false, Err(NO_TRUST));
        check(false, Sandbox::Contained, Tier::Isolated, false, Err(NO_TRUST));
        check(false, Sandbox::Contained, Tier::Contained, false, Err(NO_TRUST));
    }

    #[test]
    fn where_trust_would_not_help_the_jail_is_what_is_missing() {
        check(false, Sandbox::Unsaid, Tier::Contained, false, Err("/p is not bundled"));
    }
}
