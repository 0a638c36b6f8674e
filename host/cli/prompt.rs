//! Questions to the user at a terminal, for example whether to trust a plugin and which permissions to grant. The
//! caller of [`ask`] or [`read_answer`] must check that there is a terminal. Without one, it fails with a hint, or
//! continues without the permissions.

use std::io;
use std::sync::Arc;
use std::thread;

use jp_compact_conformance::TestedPlugin;
use jp_compact_engine::plan::TrustPrompt;
use jp_compact_runtime::trust::{Candidate, DescribeOutcome, Grant, grants};
use serde_json::json;

use crate::error::Report;
use crate::interrupt::until_interrupted;
use crate::lines::EscapedLines;
use crate::output;

/// Returns the callback that asks the user to trust a plugin and to grant the permissions that it requests.
pub(crate) fn trust_prompt() -> TrustPrompt {
    Arc::new(|candidate| {
        let path = candidate.plugin.real.to_string_lossy();
        let fields = json!({ "name": candidate.plugin.name, "path": path, "sha256": candidate.sha256 });
        output::introduction("asks for trust", &fields, &introduction(candidate));
        Box::pin(async {
            Ok(is_yes(&ask("Trust this plugin and grant the permissions above? [y/N] ").await?))
        })
    })
}

/// Prints a question, and waits for the line that the user types. An interrupt ends the wait.
pub(crate) async fn ask(question: &'static str) -> io::Result<String> {
    output::question(question);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A read of stdin cannot be canceled. So a thread reads, and may remain until the process ends.
    thread::spawn(move || {
        let mut line = String::new();
        let result = io::stdin().read_line(&mut line).map(|_| line);
        // After an interrupt, there is no receiver.
        let _ = sender.send(result);
    });
    receiver.await.map_err(io::Error::other)?
}

/// Returns whether an answer is `y` or `yes`. Every other answer is a no.
pub(crate) fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// Asks the user to grant the missing permissions for one run. Without a terminal, it returns no permission.
pub(crate) fn grants_for(subject: &TestedPlugin) -> Result<Vec<Grant>, Report> {
    let missing = subject.missing();
    if missing.is_empty() || !output::can_ask() {
        return Ok(Vec::new());
    }
    let mut text = EscapedLines::for_consent();
    text.line(format_args!("Strategy `{}` asks for permissions.", subject.name));
    missing.iter().for_each(|grant| text.line(format_args!("  asks      {grant}")));
    let permissions: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let fields = json!({ "name": subject.name, "permissions": permissions });
    output::introduction("asks for permissions", &fields, &text);
    let line = read_answer("Grant these permissions for this run? [y/N] ")?;
    Ok(if is_yes(&line) { missing } else { Vec::new() })
}

/// Prints a question, and blocks until the user has typed a line or interrupts the command. After that, only
/// [`until_interrupted`] reacts to signals, so the caller must use it for all further waits.
pub(crate) fn read_answer(question: &'static str) -> Result<String, Report> {
    let read_failure = |error| Report::of_system("failed to read the answer", &error);
    until_interrupted(async { ask(question).await.map_err(read_failure) })
}

/// Returns the text that precedes the question whether to trust a plugin.
fn introduction(candidate: &Candidate) -> EscapedLines {
    let mut text = EscapedLines::for_consent();
    let name = &candidate.plugin.name;
    if candidate.changed {
        text.line(format_args!("Strategy `{name}` has changed since it was trusted."));
    } else {
        text.line(format_args!("Strategy `{name}` is not trusted yet."));
    }
    add_facts(candidate, &mut text);
    text
}

/// Adds the facts about a plugin: its digest, manifest, description and requested permissions.
pub(crate) fn add_facts(candidate: &Candidate, text: &mut EscapedLines) {
    let plugin = &candidate.plugin;
    let mut row = |label: &str, value: String| text.line(format_args!("  {label:<8}  {value}"));
    row("path", plugin.real.display().to_string());
    row("sha256", candidate.sha256.clone());
    if let Some(manifest) = plugin.manifest() {
        row("manifest", format!("{} {}: {}", manifest.name, manifest.version, manifest.description));
    }
    match &candidate.outcome {
        DescribeOutcome::NotAsked => {}
        DescribeOutcome::Failed(reason) => row("describe", format!("failed: {reason}")),
        DescribeOutcome::Description(description) => {
            row(
                "describe",
                format!("{} {}: {}", description.name, description.version, description.description),
            );
            let kinds = description.produces.iter().filter_map(|kind| serde_json::to_value(kind).ok());
            let names: Vec<_> = kinds.filter_map(|kind| kind.as_str().map(str::to_owned)).collect();
            row("produces", names.join(", "));
            if !description.needs.is_empty() {
                row("needs", description.needs.join(", "));
            }
        }
    }
    if let Some(timeout) = plugin.timeout() {
        row("timeout", format!("{timeout:?} for one request"));
    }
    for file in candidate.runs() {
        row("runs", format!("{} (trusted with the plugin)", file.real.display()));
    }
    row("asks", permission_list(&candidate.questions()));
}

/// Formats permissions as a list in one line.
pub(crate) fn permission_list(permissions: &[Grant]) -> String {
    if permissions.is_empty() { "no permission".into() } else { grants::joined(permissions) }
}
