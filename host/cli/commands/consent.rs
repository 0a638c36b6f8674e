//! The question whether a plugin is trusted, on a terminal; anywhere else nobody is asked, and the command that
//! trusts it is what the error ends with.

use jp_compact_engine::compact::Preparation;
use jp_compact_engine::failure::{Failure, StrategyFailure};
use jp_compact_engine::trust::{Candidate, Grant, Trust, grants};

use crate::error::Report;
use crate::{escape, output};

/// Lets a plugin that is not trusted say what it is, where somebody is going to be asked about it.
pub(crate) async fn introduce(mut failure: Failure, preparation: &Preparation<'_>) -> Failure {
    if let Failure::Strategy { source, .. } = &mut failure
        && let StrategyFailure::NotTrusted(candidate) = source.as_mut()
        && output::can_ask()
    {
        preparation.introduce(candidate).await;
    }
    failure
}

/// Settles a failure for want of trust, where somebody can be asked and says yes. Every other one stands.
pub(crate) async fn settle(failure: Failure, trust: &mut Trust) -> Result<(), Report> {
    let Failure::Strategy { name, source } = &failure else { return Err(failure.into()) };
    let StrategyFailure::NotTrusted(candidate) = source.as_ref() else { return Err(failure.into()) };
    if !output::can_ask() || !is_yes(&ask(candidate).await?) {
        return Err(failure.into());
    }
    let asked = grants::grants(&candidate.asked);
    let granted = trust.grant(candidate, &asked);
    granted.map(drop).map_err(|source| Failure::of_strategy(name, source).into())
}

async fn ask(candidate: &Candidate) -> Result<String, Report> {
    output::people(&escape::text(&told(candidate)));
    output::question("Trust these bytes, and grant that? [y/N] ");
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A thread of its own, so that an interrupt is heard while nobody answers; it ends with the process.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line).map(|_| line);
        // Nobody waits any more after an interrupt.
        let _ = sender.send(read);
    });
    Ok(receiver.await.map_err(std::io::Error::other)??)
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// What is known of it, before it has run.
fn told(candidate: &Candidate) -> String {
    let plugin = &candidate.plugin;
    let mut lines = vec![if candidate.changed {
        format!("Strategy `{}` has changed since it was trusted.", plugin.name)
    } else {
        format!("Strategy `{}` is not trusted yet.", plugin.name)
    }];
    lines.push(format!("  path    {}", plugin.real.display()));
    lines.push(format!("  sha256  {}", candidate.sha256));
    if let Some(manifest) = plugin.manifest() {
        lines.push(format!("  says    {} {}: {}", manifest.name, manifest.version, manifest.description));
    }
    if let Some(description) = &candidate.description {
        lines.push(format!(
            "  says    {} {}: {}",
            description.name, description.version, description.description
        ));
    }
    lines.push(format!("  asks    {}", list(&grants::grants(&candidate.asked))));
    lines.join("\n")
}

/// Permissions as people read them.
pub(crate) fn list(permissions: &[Grant]) -> String {
    if permissions.is_empty() { "no permission".into() } else { grants::line(permissions) }
}
