//! The question whether a plugin is trusted, on a terminal; anywhere else nobody is asked, and the command that
//! trusts it is what the error ends with.

use jp_compact_engine::compact::Preparation;
use jp_compact_engine::failure::{Failure, StrategyFailure};
use jp_compact_engine::kit::Subject;
use jp_compact_engine::trust::{Candidate, Grant, Said, Trust, grants};

use crate::error::Report;
use crate::lines::Lines;
use crate::output;

/// Lets a plugin that is not trusted say what it is, where somebody is going to be asked about it.
pub(crate) async fn introduce(mut failure: Failure, preparation: &Preparation<'_>) -> Failure {
    if let Failure::Strategy { name, source } = &mut failure
        && let StrategyFailure::NotTrusted(candidate) = source.as_mut()
        && output::can_ask()
        && let Err(source) = preparation.introduce(candidate).await
    {
        return Failure::of_strategy(name, source);
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
    let granted = trust.grant(candidate, &candidate.questions());
    granted.map(drop).map_err(|source| Failure::of_strategy(name, source).into())
}

async fn ask(candidate: &Candidate) -> Result<String, Report> {
    output::people(&told(candidate));
    answer("Trust this plugin and grant the permissions above? [y/N] ").await
}

/// What the user answers to a question.
pub(crate) async fn answer(question: &'static str) -> Result<String, Report> {
    output::question(question);
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

pub(crate) fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// What a strategy that is only tried out is granted beside what was typed: what it asks for, if the user is there and
/// says yes.
pub(crate) fn grants_for(subject: &Subject) -> Result<Vec<Grant>, Report> {
    let missing = subject.missing();
    if missing.is_empty() || !output::can_ask() {
        return Ok(Vec::new());
    }
    let mut text = Lines::for_consent();
    text.line(format_args!(
        "Strategy `{}` asks for permissions. It is not trusted; it runs in a jail.",
        subject.name
    ));
    missing.iter().for_each(|grant| text.line(format_args!("  asks      {grant}")));
    output::people(&text);
    output::question("Grant these permissions for this run? [y/N] ");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(if is_yes(&line) { missing } else { Vec::new() })
}

fn told(candidate: &Candidate) -> Lines {
    let mut text = Lines::for_consent();
    let name = &candidate.plugin.name;
    if candidate.changed {
        text.line(format_args!("Strategy `{name}` has changed since it was trusted."));
    } else {
        text.line(format_args!("Strategy `{name}` is not trusted yet."));
    }
    facts(candidate, &mut text);
    text
}

/// What is known of a plugin, before it has run: its manifest, what it says of itself, what it asks for.
pub(crate) fn facts(candidate: &Candidate, text: &mut Lines) {
    let plugin = &candidate.plugin;
    let mut row = |label: &str, value: String| text.line(format_args!("  {label:<8}  {value}"));
    row("path", plugin.real.display().to_string());
    row("sha256", candidate.sha256.clone());
    if let Some(manifest) = plugin.manifest() {
        row("manifest", format!("{} {}: {}", manifest.name, manifest.version, manifest.description));
    }
    match &candidate.said {
        Said::Unasked => {}
        Said::Nothing(why) => row("says", format!("nothing: {why}")),
        Said::Description(said) => {
            row("says", format!("{} {}: {}", said.name, said.version, said.description));
            let kinds = said.produces.iter().filter_map(|kind| serde_json::to_value(kind).ok());
            row(
                "produces",
                kinds.filter_map(|kind| kind.as_str().map(str::to_owned)).collect::<Vec<_>>().join(", "),
            );
            if !said.needs.is_empty() {
                row("needs", said.needs.join(", "));
            }
        }
    }
    if let Some(timeout) = plugin.timeout() {
        row("takes", format!("up to {timeout:?} for one request"));
    }
    for runs in candidate.runs() {
        row("runs", format!("{}, which is trusted with it", runs.real.display()));
    }
    row("asks", list(&candidate.questions()));
}

/// Permissions as people read them.
pub(crate) fn list(permissions: &[Grant]) -> String {
    if permissions.is_empty() { "no permission".into() } else { grants::line(permissions) }
}
