//! The checks of how a strategy starts and describes itself.

use std::path::Path;

use jp_compact_schema::version::EXIT_USAGE;
use jp_compact_schema::{DescribeRequest, Description, Host, StrategyName, agree, from_line, to_line};
use serde_json::{Map, Value};

use super::checks::CheckLevel;
use super::exchange::{CheckFailure, CheckSetup, failure};
use super::plugin::ENV;
use super::{Findings, TestedPlugin};
use jp_compact_runtime::options;
use jp_compact_runtime::process::{self, Ended, ProcessError};

/// Runs the checks. Returns the description and the options for requests, unless a failed check prevents
/// requests.
pub(super) async fn check(
    setup: &CheckSetup<'_>,
    plugin: &TestedPlugin,
    options: &Map<String, Value>,
    level: CheckLevel,
    findings: &mut Findings,
) -> Option<(Description, Map<String, Value>)> {
    let (setup, request) = (&with_describe_deadline(setup), request());
    let description = match send_describe(setup, plugin, request.clone()).await {
        Ok(description) => description,
        Err(failure) => {
            let skipped: &[&str] = match failure.id {
                "S01" => &["S02", "S03", "S04", "D"],
                "D01" => &["D02", "D03", "D04", "D05", "D06", "D07", "D08", "D09", "D10"],
                _ => &["D03", "D04", "D05", "D06", "D07", "D08", "D09", "D10"],
            };
            if failure.id != "S01" {
                check_usage_errors(setup, plugin, findings).await;
            }
            findings.fail(failure);
            findings.skip_prefixes(skipped, "it did not describe itself");
            return None;
        }
    };
    check_usage_errors(setup, plugin, findings).await;
    check_description(plugin, &description).into_iter().for_each(|failure| findings.fail(failure));
    // A missing mandatory option fails here. The requests are then sent without it.
    let options = resolve_options(&description, options).unwrap_or_else(|failure| {
        findings.fail(failure);
        options.clone()
    });
    match send_describe(setup, plugin, request.clone()).await {
        Ok(second) if second == description => {}
        Ok(_) => findings.fail(failure("D08", "the second description differs")),
        Err(error) => findings.fail(failure("D08", error.why)),
    }
    if findings.failures.contains_key("D08") {
        findings.skip(&["D09"], "its description differs each time");
    } else if level == CheckLevel::Full {
        let mut unusual: Value = serde_json::from_slice(&request).unwrap_or_default();
        unusual["x_later"] = serde_json::json!({"type": "compact"});
        match send_describe(setup, plugin, format!("{unusual}\n").into_bytes()).await {
            Ok(second) if second == description => {}
            Ok(_) => findings.fail(failure("D09", "its description differs")),
            Err(error) => findings.fail(failure("D09", error.why)),
        }
    }
    // Requests need a common protocol version and a policy that the strategy produces.
    let can_be_asked = agree(&description.protocols).is_ok() && !description.produces.is_empty();
    can_be_asked.then_some((description, options))
}

/// Returns the description without running the checks.
pub(super) async fn describe(
    setup: &CheckSetup<'_>,
    plugin: &TestedPlugin,
) -> Result<Description, CheckFailure> {
    send_describe(&with_describe_deadline(setup), plugin, request()).await
}

/// Returns the setup with the time limit for a description.
fn with_describe_deadline<'a>(setup: &CheckSetup<'a>) -> CheckSetup<'a> {
    CheckSetup { deadline: setup.describe_deadline, ..*setup }
}

fn request() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION").into();
    let host = Host { name: "jp-compact".into(), version, features: Vec::new() };
    to_line(&DescribeRequest::new(host)).unwrap_or_default()
}

async fn send_describe(
    setup: &CheckSetup<'_>,
    plugin: &TestedPlugin,
    request: Vec<u8>,
) -> Result<Description, CheckFailure> {
    let ended = setup.start(plugin, "describe", request).await.map_err(|error| match error {
        ProcessError::Start { .. } | ProcessError::Runner { .. } => failure("S01", error),
        _ => failure("D01", error),
    })?;
    if !ended.status.success() {
        let last_lines = ended.stderr.last_lines(3);
        return Err(failure("D01", format!("it ended with {}: {last_lines}", ended.status)));
    }
    let text = std::str::from_utf8(&ended.stdout)
        .map_err(|error| failure("D02", format!("it is not UTF-8: {error}")))?;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    match (lines.next(), lines.next()) {
        (Some(line), None) => from_line(line.as_bytes()).map_err(|error| failure("D02", error)),
        (None, _) => Err(failure("D02", "it wrote nothing")),
        (Some(_), Some(_)) => Err(failure("D02", "it wrote more than one line")),
    }
}

/// Checks the description by itself and against the manifest.
pub(super) fn check_description(plugin: &TestedPlugin, description: &Description) -> Vec<CheckFailure> {
    let mut failures = Vec::new();
    match StrategyName::parse(&description.name) {
        Err(error) => failures.push(failure("D03", format!("`{}`: {error}", description.name))),
        Ok(_) if description.name != plugin.name => {
            failures.push(failure(
                "D03",
                format!("it describes itself as `{}`, but its name is `{}`", description.name, plugin.name),
            ));
        }
        Ok(_) => {}
    }
    if let Err(mismatch) = agree(&description.protocols) {
        failures.push(failure("D04", mismatch));
    }
    if description.produces.is_empty() {
        failures.push(failure("D05", "`produces` is empty"));
    }
    if let Some(manifest) = &plugin.manifest
        && (manifest.version != description.version || manifest.protocols != description.protocols)
    {
        let (described, declared) =
            ((&description.version, &description.protocols), (&manifest.version, &manifest.protocols));
        failures
            .push(failure("D07", format!("the description has {described:?}, the manifest {declared:?}")));
    }
    if let Some(manifest) = &plugin.manifest
        && !manifest.permissions.llm
        && description.needs.iter().any(|need| need == "llm")
    {
        failures
            .push(failure("D10", "it needs `llm`, but `[permissions]` of its manifest does not ask for it"));
    }
    failures
}

/// Returns the given options with the defaults of the schema. The result must be valid.
fn resolve_options(
    description: &Description,
    given_options: &Map<String, Value>,
) -> Result<Map<String, Value>, CheckFailure> {
    let Some(schema) = &description.options_schema else { return Ok(given_options.clone()) };
    let validator = jsonschema::validator_for(schema)
        .map_err(|error| failure("D06", format!("it is not a valid JSON Schema: {error}")))?;
    let mut options = given_options.clone();
    for (name, default) in options::defaults(description) {
        options.entry(name).or_insert(default);
    }
    let options = Value::Object(options);
    let result = validator.validate(&options).map_err(|error| {
        let hint = if given_options.is_empty() { "; pass mandatory options with `--options`" } else { "" };
        failure("D06", format!("it rejects {options}: {error}{hint}"))
    });
    result.map(|()| options.as_object().cloned().unwrap_or_default())
}

/// Runs the checks S02 to S04, which start the plugin as a person would from a shell.
async fn check_usage_errors(setup: &CheckSetup<'_>, plugin: &TestedPlugin, findings: &mut Findings) {
    match setup.start(plugin, "x-no-verb", Vec::new()).await {
        Ok(ended) => findings.failures.extend(usage_failure("S03", &ended)),
        Err(error) => findings.fail(failure("S03", error)),
    }
    match process::run_at_terminal(setup.launch(&plugin.program, &plugin.arguments("run"), Vec::new())).await
    {
        Ok(ended) => findings.failures.extend(usage_failure("S04", &ended)),
        Err(error) => findings.fail(failure("S04", error)),
    }
    // The runner sets the variable for every strategy, and `env` removes it.
    let Some(program) = plugin.program.to_str() else {
        findings.skip(&["S02"], "the path of its program is not UTF-8");
        return;
    };
    let arguments = [&["-u", "JP_COMPACT_PROTOCOL", program][..], &plugin.arguments("run")].concat();
    match process::run(setup.launch(Path::new(ENV), &arguments, Vec::new())).await {
        Ok(ended) => findings.failures.extend(usage_failure("S02", &ended)),
        Err(ProcessError::Start { reason, .. }) => findings.skip(&["S02"], &reason),
        Err(error) => findings.fail(failure("S02", error)),
    }
}

/// Returns the failure of a process that must print only a usage error.
fn usage_failure(id: &'static str, ended: &Ended) -> Option<(&'static str, String)> {
    let is_silent = ended.stdout.is_empty();
    let is_correct = ended.status.code() == Some(EXIT_USAGE.into()) && is_silent;
    let output = if is_silent { "" } else { ", and wrote to stdout" };
    (!is_correct).then(|| (id, format!("it ended with {}{output}", ended.status)))
}
