//! The preparation of a run's strategies: it finds them, checks trust, describes them, and checks their options.
//! [`allow`] decides whether a plugin may run, and whether in a jail. Before that, it only describes itself in a jail.

use std::path::Path;

use jp_compact_core::select::{self, StrategyTraits};
use jp_compact_core::spec::Spec;
use jp_compact_runtime::describe_cache::{CheckedDescription, Descriptions};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::{Abilities, Tier, describe_missing};
use jp_compact_runtime::options;
use jp_compact_runtime::process::ProcessError;
use jp_compact_runtime::registry::{Plugin, Registry};
use jp_compact_runtime::session::{self, Confined, Described, Starter};
use jp_compact_runtime::trust::{self, Candidate, Cleared, DescribeOutcome, Grant, Trust, grants};
use serde_json::{Map, Value};

use super::error::Error;
use super::strategy_error::StrategyRunError;
use jp_compact_config::Provenance;

/// The value of `--sandbox`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// No value. On a machine without a jail, bundled strategies run contained and others do not run.
    #[default]
    Unspecified,
    /// `require`: nothing runs without a jail.
    Require,
    /// `contained`: everything may run without a jail.
    Contained,
}

/// A strategy that may run, with checked options.
#[derive(Debug, Clone)]
pub struct PreparedStrategy {
    /// The plugin, how it is confined, and its description.
    pub described: Described,
    pub options: Map<String, Value>,
    /// The strategy's own turns. They replace the turns of the run.
    pub range: Option<select::Selection>,
    /// The setting or argument that selected it.
    pub provenance: Provenance,
}

impl PreparedStrategy {
    #[must_use]
    pub fn needs_model(&self) -> bool {
        needs_model(&self.described)
    }

    /// Whether the strategy itself may send the conversation to an address.
    pub(super) fn has_network(&self) -> bool {
        self.described.confined.cleared.permissions.network
    }

    /// Returns the properties that its ranges depend on.
    #[must_use]
    pub fn traits(&self) -> StrategyTraits {
        StrategyTraits::new(&self.described.description)
    }
}

/// The dependencies of [`prepare`].
#[derive(Debug)]
pub struct Preparation<'a> {
    pub registry: &'a Registry,
    pub trust: &'a Trust,
    /// The cached descriptions.
    pub descriptions: &'a Descriptions,
    pub starter: &'a Starter,
    pub sandbox: Sandbox,
    /// The jail features of this machine.
    pub abilities: Abilities,
}

/// Finds, describes and checks the strategies of a run. They share one `provenance`.
///
/// # Errors
/// A strategy is not found, not allowed or not valid, or its options are wrong. The first error is returned.
pub async fn prepare(
    specs: &[Spec],
    provenance: &Provenance,
    preparation: &Preparation<'_>,
    environment: &Environment,
) -> Result<Vec<PreparedStrategy>, Error> {
    let mut strategies = Vec::with_capacity(specs.len());
    for spec in specs {
        let strategy = preparation
            .prepare(spec, provenance, environment)
            .await
            .map_err(|source| Error::strategy(&spec.name, source))?;
        strategies.push(strategy);
    }
    Ok(strategies)
}

impl Preparation<'_> {
    async fn prepare(
        &self,
        spec: &Spec,
        provenance: &Provenance,
        environment: &Environment,
    ) -> Result<PreparedStrategy, StrategyRunError> {
        let plugin = self.registry.find_to_run(&spec.name, |plugin| self.trust.is_trusted(plugin))?;
        let described = self.describe(&plugin).await?;
        check_needs(&described)?;
        let options = if described.takes_defaults && spec.options.is_empty() {
            options::defaults(&described.description)
        } else {
            options::resolve(&spec.options, &described.description, environment)
                .map_err(|reason| StrategyRunError::BadOptions { reason })?
        };
        Ok(PreparedStrategy { described, options, range: None, provenance: provenance.clone() })
    }

    /// Clears a plugin, and returns its description. If the executable is unchanged, the description comes from the
    /// cache.
    ///
    /// # Errors
    /// The plugin is not allowed, not trusted, or not valid.
    pub async fn describe(&self, plugin: &Plugin) -> Result<Described, StrategyRunError> {
        let confined = self.clear(plugin)?;
        let sha256 = &confined.cleared.sha256;
        let description = match self.descriptions.get(sha256) {
            Some(known) => known,
            None => {
                let result = self.starter.describe(&confined).await;
                let description = result.map_err(|error| error.of_run(&confined))?;
                self.descriptions.put(sha256, &description);
                description
            }
        };
        let described = Described::new(confined, description)?;
        match self.starter.spool.as_deref() {
            Some(spool) if described.description.has_feature("events.file") => {
                let temp_dir = &self.starter.temp_dir;
                let folder = spool.folder().map_err(|source| {
                    session::Error::Process(ProcessError::NoPrivateDir { temp_dir: temp_dir.clone(), source })
                })?;
                Ok(Described { confined: described.confined.with_spool(folder), ..described })
            }
            _ => Ok(described),
        }
    }

    /// Adds the description of an untrusted plugin to the trust prompt. It comes from the cache for the same bytes, or
    /// from a jail with nothing but the plugin's interpreter. Without both, the prompt shows no description.
    ///
    /// # Errors
    /// The description is for another plugin, or the host cannot use it. The plugin must not be trusted.
    pub async fn describe_candidate(&self, candidate: &mut Candidate) -> Result<(), StrategyRunError> {
        let description = match self.descriptions.get(&candidate.sha256) {
            Some(known) => Ok(known),
            None if self.abilities.tier() == Tier::Contained => {
                let missing = describe_missing(&self.abilities.missing());
                candidate.outcome = DescribeOutcome::Failed(format!("it cannot run in a jail: {missing}"));
                return Ok(());
            }
            None => self.describe_in_jail(candidate).await,
        };
        match description {
            Ok(known) => {
                session::check(&known, &candidate.plugin)?;
                candidate.set_description(known.description);
            }
            Err(error) => {
                let reason = with_stderr_tail(&error);
                // A script that starts programs cannot even describe itself without this permission.
                let lacks = session::guess(&reason, &candidate.asked, &candidate.plugin.real);
                candidate.asked.subprocess |= lacks == Some(Grant::Subprocess);
                candidate.outcome = DescribeOutcome::Failed(reason);
            }
        }
        Ok(())
    }

    async fn describe_in_jail(&self, candidate: &Candidate) -> Result<CheckedDescription, StrategyRunError> {
        let cleared = self.trust.clear_to_describe(candidate)?;
        let confined = Confined::jailed(cleared, self.abilities, &self.starter.runner)?;
        let description = self.starter.describe(&confined).await?;
        self.descriptions.put(&candidate.sha256, &description);
        Ok(description)
    }

    /// Decides whether a plugin may run, with which permissions, and how it is confined. Starts no process.
    ///
    /// # Errors
    /// The plugin is not allowed, or not trusted.
    pub fn clear(&self, plugin: &Plugin) -> Result<Confined, StrategyRunError> {
        let trust = self.trust.clear(plugin);
        let (cleared, tier) = allow(plugin.bundled(), self.sandbox, self.abilities, trust, &plugin.path)?;
        match tier {
            Tier::Contained => Ok(Confined::contained(cleared, &self.starter.runner)?),
            _ => Ok(Confined::jailed(cleared, self.abilities, &self.starter.runner)?),
        }
    }
}

/// Decides whether a plugin runs, and how it is confined. This depends on its origin, `--sandbox`, the machine, and
/// its trust. Only an explicit option lowers the tier, except for bundled plugins. The missing jail is reported
/// before the missing trust, because trust alone would not help.
///
/// # Errors
/// The plugin may not run.
pub fn allow<T>(
    bundled: bool,
    sandbox: Sandbox,
    abilities: Abilities,
    trust: Result<T, trust::Error>,
    path: &Path,
) -> Result<(T, Tier), StrategyRunError> {
    let tier = match (sandbox, abilities.tier()) {
        (Sandbox::Contained, _) => Tier::Contained,
        (Sandbox::Unspecified, Tier::Contained) if bundled => Tier::Contained,
        (Sandbox::Unspecified, Tier::Contained) => {
            return Err(StrategyRunError::NotContained {
                path: path.to_owned(),
                missing: abilities.missing(),
            });
        }
        (Sandbox::Require, Tier::Contained) => {
            return Err(session::Error::NoJail { missing: abilities.missing() }.into());
        }
        (Sandbox::Unspecified | Sandbox::Require, jailed) => jailed,
    };
    Ok((trust?, tier))
}

fn with_stderr_tail(error: &StrategyRunError) -> String {
    match error {
        StrategyRunError::Session(error) => error.with_stderr_tail(),
        _ => error.to_string(),
    }
}

fn needs_model(described: &Described) -> bool {
    described.description.needs.iter().any(|need| need == "llm")
}

/// Returns whether foreign values that lead to the strategy need the user's consent: it asks a model, or may use the
/// network.
#[must_use]
pub fn needs_consent(described: &Described) -> bool {
    needs_model(described) || described.confined.cleared.permissions.network
}

/// Checks that every need of a strategy was granted. Bundled strategies need no grants.
fn check_needs(described: &Described) -> Result<(), StrategyRunError> {
    let Cleared { plugin, permissions, .. } = &described.confined.cleared;
    let is_granted = |need: &str| plugin.bundled() || (need == "llm" && permissions.llm);
    let Some(need) = described.description.needs.iter().find(|need| !is_granted(need)) else { return Ok(()) };
    let command = need.parse::<Grant>().ok().map(|grant| {
        let with_grant = grants::add(permissions.clone(), &[grant]);
        described.confined.cleared.command(&with_grant)
    });
    Err(StrategyRunError::NotGranted { need: need.clone(), command })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Abilities = Abilities { landlock: 0, seccomp: true };
    const PARTIAL: Abilities = Abilities { landlock: 1, seccomp: true };
    const FULL: Abilities = Abilities { landlock: 6, seccomp: true };

    /// `expect` is the tier, or the beginning of the error.
    #[track_caller]
    fn check(
        bundled: bool,
        sandbox: Sandbox,
        abilities: Abilities,
        trusted: bool,
        expect: Result<Tier, &str>,
    ) {
        let trust = if trusted { Ok(()) } else { Err(trust::Error::NoState) };
        let result = allow(bundled, sandbox, abilities, trust, Path::new("/p"));
        match (result, expect) {
            (Err(error), Err(start)) => assert!(error.to_string().starts_with(start), "{error}"),
            (result, expect) => {
                let tier = result.map(|((), tier)| tier).map_err(|error| error.to_string());
                assert_eq!(tier, expect.map_err(str::to_owned));
            }
        }
    }

    const NO_TRUST: &str = "failed to find the state folder";

    #[test]
    fn jail_is_used_unless_user_opts_out() {
        for bundled in [true, false] {
            check(bundled, Sandbox::Unspecified, FULL, true, Ok(Tier::Isolated));
            check(bundled, Sandbox::Require, FULL, true, Ok(Tier::Isolated));
            check(bundled, Sandbox::Contained, FULL, true, Ok(Tier::Contained));
            check(bundled, Sandbox::Unspecified, PARTIAL, true, Ok(Tier::PartlyIsolated));
            check(bundled, Sandbox::Require, PARTIAL, true, Ok(Tier::PartlyIsolated));
        }
    }

    #[test]
    fn without_jail_only_bundled_plugins_run_by_default() {
        check(true, Sandbox::Unspecified, NONE, true, Ok(Tier::Contained));
        check(false, Sandbox::Unspecified, NONE, true, Err("/p is not bundled"));
        check(false, Sandbox::Contained, NONE, true, Ok(Tier::Contained));
        for bundled in [true, false] {
            check(bundled, Sandbox::Require, NONE, true, Err("a jail is required"));
        }
    }

    #[test]
    fn trust_is_required_at_every_tier() {
        check(false, Sandbox::Unspecified, FULL, false, Err(NO_TRUST));
        check(false, Sandbox::Contained, FULL, false, Err(NO_TRUST));
        check(false, Sandbox::Contained, NONE, false, Err(NO_TRUST));
    }

    #[test]
    fn missing_jail_is_reported_before_missing_trust() {
        check(false, Sandbox::Unspecified, NONE, false, Err("/p is not bundled"));
    }
}
