//! The checks of how a strategy starts and describes itself.

use std::path::Path;
use std::time::Duration;

use jp_compact_schema::version::{DESCRIBE_DEADLINE_MS, EXIT_USAGE};
use jp_compact_schema::{DescribeRequest, Description, Host, StrategyName, agree, from_line, to_line};
use serde_json::{Map, Value};

use super::checks::CheckLevel;
use super::exchange::{CheckSetup, Failed, failed};
use super::subject::ENV;
use super::{Findings, TestedPlugin};
use jp_compact_runtime::options;
use jp_compact_runtime::process::{self, Ended, ProcessError};

/// Runs the checks. Returns the description and the options for requests, unless a check prevents requests.
pub(super) async fn check(
    place: &CheckSetup<'_>,
    subject: &TestedPlugin,
    options: &Map<String, Value>,
    level: CheckLevel,
    findings: &mut Findings,
) -> Option<(Description, Map<String, Value>)> {
    let (place, question) = (&in_time(place), question());
    let description = match ask(place, subject, question.clone()).await {
        Ok(description) => description,
        Err(failed) => {
            let unasked: &[&str] = match failed.id {
                "S01" => &["S02", "S03", "S04", "D"],
                "D01" => &["D02", "D03", "D04", "D05", "D06", "D07", "D08", "D09", "D10"],
                _ => &["D03", "D04", "D05", "D06", "D07", "D08", "D09", "D10"],
            };
            if failed.id != "S01" {
                started_by_hand(place, subject, findings).await;
            }
            findings.fail(failed);
            findings.skip_from(unasked, "it did not describe itself");
            return None;
        }
    };
    started_by_hand(place, subject, findings).await;
    statements(subject, &description).into_iter().for_each(|failed| findings.fail(failed));
    // A missing mandatory option fails here. The requests are then sent without it.
    let options = options_of(&description, options).unwrap_or_else(|failed| {
        findings.fail(failed);
        options.clone()
    });
    match ask(place, subject, question.clone()).await {
        Ok(again) if again == description => {}
        Ok(_) => findings.fail(failed("D08", "the second description differs")),
        Err(error) => findings.fail(failed("D08", error.why)),
    }
    if findings.failed.contains_key("D08") {
        findings.skip(&["D09"], "its description differs each time");
    } else if level == CheckLevel::Full {
        let mut odd: Value = serde_json::from_slice(&question).unwrap_or_default();
        odd["x_later"] = serde_json::json!({"type": "compact"});
        match ask(place, subject, format!("{odd}\n").into_bytes()).await {
            Ok(again) if again == description => {}
            Ok(_) => findings.fail(failed("D09", "its description differs")),
            Err(error) => findings.fail(failed("D09", error.why)),
        }
    }
    // Requests need a common protocol version and a policy that the strategy produces.
    let can_be_asked = agree(&description.protocols).is_ok() && !description.produces.is_empty();
    can_be_asked.then_some((description, options))
}

/// Returns the description without running the checks.
pub(super) async fn once(place: &CheckSetup<'_>, subject: &TestedPlugin) -> Result<Description, Failed> {
    ask(&in_time(place), subject, question()).await
}

fn in_time<'a>(place: &CheckSetup<'a>) -> CheckSetup<'a> {
    CheckSetup { deadline: Duration::from_millis(DESCRIBE_DEADLINE_MS), ..*place }
}

fn question() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION").into();
    let host = Host { name: "jp-compact".into(), version, features: Vec::new() };
    to_line(&DescribeRequest::new(host)).unwrap_or_default()
}

async fn ask(
    place: &CheckSetup<'_>,
    subject: &TestedPlugin,
    question: Vec<u8>,
) -> Result<Description, Failed> {
    let ended = place.start(subject, "describe", question).await.map_err(|error| match error {
        ProcessError::Start { .. } | ProcessError::Runner { .. } => failed("S01", error),
        _ => failed("D01", error),
    })?;
    if !ended.status.success() {
        let words = ended.stderr.last_lines(3);
        return Err(failed("D01", format!("it ended with {}: {words}", ended.status)));
    }
    let text = std::str::from_utf8(&ended.stdout)
        .map_err(|error| failed("D02", format!("it is not UTF-8: {error}")))?;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    match (lines.next(), lines.next()) {
        (Some(line), None) => from_line(line.as_bytes()).map_err(|error| failed("D02", error)),
        (None, _) => Err(failed("D02", "it wrote nothing")),
        (Some(_), Some(_)) => Err(failed("D02", "it wrote more than one line")),
    }
}

/// Checks the description by itself and against the manifest.
pub(super) fn statements(subject: &TestedPlugin, description: &Description) -> Vec<Failed> {
    let mut wrong = Vec::new();
    match StrategyName::parse(&description.name) {
        Err(error) => wrong.push(failed("D03", format!("`{}`: {error}", description.name))),
        Ok(_) if description.name != subject.name => {
            wrong.push(failed(
                "D03",
                format!("it describes itself as `{}`, but its name is `{}`", description.name, subject.name),
            ));
        }
        Ok(_) => {}
    }
    if let Err(mismatch) = agree(&description.protocols) {
        wrong.push(failed("D04", mismatch));
    }
    if description.produces.is_empty() {
        wrong.push(failed("D05", "`produces` is empty"));
    }
    if let Some(manifest) = &subject.manifest
        && (manifest.version != description.version || manifest.protocols != description.protocols)
    {
        let (own, theirs) =
            ((&description.version, &description.protocols), (&manifest.version, &manifest.protocols));
        wrong.push(failed("D07", format!("the description has {own:?}, the manifest {theirs:?}")));
    }
    if let Some(manifest) = &subject.manifest
        && !manifest.permissions.llm
        && description.needs.iter().any(|need| need == "llm")
    {
        wrong.push(failed("D10", "it needs `llm`, but `[permissions]` of its manifest does not ask for it"));
    }
    wrong
}

/// Returns the given options with the defaults of the schema. The defaults must be valid.
fn options_of(description: &Description, given: &Map<String, Value>) -> Result<Map<String, Value>, Failed> {
    let Some(schema) = &description.options_schema else { return Ok(given.clone()) };
    let validator = jsonschema::validator_for(schema)
        .map_err(|error| failed("D06", format!("it is not a valid JSON Schema: {error}")))?;
    let mut options = given.clone();
    for (name, default) in options::defaults(description) {
        options.entry(name).or_insert(default);
    }
    let options = Value::Object(options);
    let wrong = validator.validate(&options).map_err(|error| {
        let hint = if given.is_empty() { "; pass mandatory options with `--options`" } else { "" };
        failed("D06", format!("it rejects {options}: {error}{hint}"))
    });
    wrong.map(|()| options.as_object().cloned().unwrap_or_default())
}

async fn started_by_hand(place: &CheckSetup<'_>, subject: &TestedPlugin, findings: &mut Findings) {
    match place.start(subject, "x-no-verb", Vec::new()).await {
        Ok(ended) => findings.failed.extend(usage("S03", &ended)),
        Err(error) => findings.fail(failed("S03", error)),
    }
    match process::run_at_terminal(place.launch(&subject.program, &subject.words("run"), Vec::new())).await {
        Ok(ended) => findings.failed.extend(usage("S04", &ended)),
        Err(error) => findings.fail(failed("S04", error)),
    }
    // The runner sets the variable for every strategy, and `env` removes it.
    let Some(program) = subject.program.to_str() else { return };
    let words = [&["-u", "JP_COMPACT_PROTOCOL", program][..], &subject.words("run")].concat();
    match process::run(place.launch(Path::new(ENV), &words, Vec::new())).await {
        Ok(ended) => findings.failed.extend(usage("S02", &ended)),
        Err(ProcessError::Start { reason, .. }) => findings.skip(&["S02"], &reason),
        Err(error) => findings.fail(failed("S02", error)),
    }
}

fn usage(id: &'static str, ended: &Ended) -> Option<(&'static str, String)> {
    let quiet = ended.stdout.is_empty();
    let right = ended.status.code() == Some(EXIT_USAGE.into()) && quiet;
    let what = if quiet { "" } else { ", and wrote to stdout" };
    (!right).then(|| (id, format!("it ended with {}{what}", ended.status)))
}
