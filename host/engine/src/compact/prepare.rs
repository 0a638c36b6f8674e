//! Which strategies may run, before any transcript is read: found, allowed, described, their options checked.

use std::path::Path;

use jp_compact_core::spec::Spec;
use serde_json::{Map, Value};

use crate::environment::Environment;
use crate::failure::{Failure, StrategyFailure};
use crate::options;
use crate::registry::Registry;
use crate::session::{Described, Starter};

/// How far strategies are confined in this version: deadline, caps, environment, descriptors, process group.
pub const TIER: &str = "contained";

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
    /// Its options.
    pub options: Map<String, Value>,
}

/// Finds, describes and checks the strategies of a run.
///
/// # Errors
/// The first that is not found, not allowed, not valid, or whose options are wrong.
pub async fn prepare(
    specs: &[Spec],
    registry: &Registry,
    starter: &Starter,
    sandbox: Sandbox,
    environment: &Environment,
) -> Result<Vec<Ready>, Failure> {
    let mut ready: Vec<Ready> = Vec::with_capacity(specs.len());
    for spec in specs {
        let failed = |source| Failure::of_strategy(&spec.name, source);
        let plugin = registry.find(&spec.name)?;
        allow(plugin.bundled, sandbox, &plugin.path).map_err(failed)?;
        // One that is asked twice describes itself once.
        let known = ready.iter().map(|other| &other.described).find(|other| other.plugin == *plugin).cloned();
        let described = match known {
            Some(described) => described,
            None => starter.describe(plugin).await.map_err(failed)?,
        };
        if let Some(need) = described.description.needs.first() {
            return Err(failed(StrategyFailure::NotGranted { need: need.clone() }));
        }
        let options = options::resolve(&spec.options, &described.description, environment)
            .map_err(|what| failed(StrategyFailure::BadOptions { what }))?;
        ready.push(Ready { described, options });
    }
    Ok(ready)
}

/// Whether a plugin may run at all where there is no jail.
///
/// # Errors
/// It may not.
pub fn allow(bundled: bool, sandbox: Sandbox, path: &Path) -> Result<(), StrategyFailure> {
    match sandbox {
        Sandbox::Require => Err(StrategyFailure::NoJail),
        Sandbox::Contained => Ok(()),
        Sandbox::Unsaid if bundled => Ok(()),
        Sandbox::Unsaid => Err(StrategyFailure::NotContained { path: path.to_owned() }),
    }
}
