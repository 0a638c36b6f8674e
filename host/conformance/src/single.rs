//! The checks with a new process for each round of a request: ordinary and unusual requests.

use jp_compact_core::select::Selection;
use jp_compact_core::{Bound, Position};
use jp_compact_schema::{ContentKind, Input, STEPS};
use serde_json::Value;

use super::ask::Request;
use super::conversation::Surveys;
use super::exchange::{Case, CheckFailure, failure};
use super::{CheckContext, Findings, truncated};

/// Returns the ordinary requests with a label for each. Their ids begin with `id_prefix`, because the ids of a test
/// must be unique.
pub(super) fn ordinary_requests<'a>(
    context: &'a CheckContext<'_>,
    surveys: &'a Surveys,
    id_prefix: &str,
) -> Vec<(&'static str, Request<'a>)> {
    let id = |suffix: &str| format!("{id_prefix}{suffix}");
    let cases = [
        ("the plain conversation", context.request(&surveys.plain, &id("1"), None)),
        ("one turn of the plain conversation", context.request(&surveys.plain, &id("2"), Some(1))),
        ("an unusual id", context.request(&surveys.plain, &id("\"\\/\u{1F980}\u{7f} \u{e9}"), None)),
        ("a conversation without tool calls", context.request(&surveys.without_calls, &id("3"), None)),
        ("a conversation with overlays", context.request(&surveys.overlaid, &id("4"), None)),
    ];
    cases.into_iter().filter_map(|(name, request)| Some((name, request?))).collect()
}

/// Sends the ordinary requests. If all of them succeed, it sends the requests for an exact range and for steps, and
/// returns the answers to the ordinary requests.
pub(super) async fn check_ordinary(
    context: &CheckContext<'_>,
    surveys: &Surveys,
    findings: &mut Findings,
) -> Option<Vec<Value>> {
    let (mut answers, mut failed) = (Vec::new(), Vec::new());
    for (name, request) in ordinary_requests(context, surveys, "c") {
        match context.send(request, Case::Plain).await {
            Ok(answer) => answers.push(answer),
            Err(failure) => {
                failed.push(failure.id);
                findings.fail(CheckFailure { why: format!("{name}: {}", failure.why), ..failure });
                // A strategy that hangs would hang for every request.
                if failed.last() == Some(&"R01") {
                    break;
                }
            }
        }
    }
    if answers.is_empty() {
        skip_unanswered(&failed, findings);
    }
    if answers.is_empty() || !failed.is_empty() {
        return None;
    }
    check_exact_range(context, surveys, findings).await;
    check_steps(context, surveys, findings).await;
    Some(answers)
}

/// Skips the checks of the content of replies, unless a request failed after its reply was read. An `error` has no
/// content, but is a reply.
fn skip_unanswered(failed: &[&str], findings: &mut Findings) {
    if failed.iter().any(|id| !id.starts_with(['R', 'S'])) {
        return;
    }
    findings.skip_prefixes(&["P", "N"], "no request got an answer");
    if !failed.contains(&"R11") {
        findings.skip_prefixes(&["R"], "no request got an answer");
    }
}

/// Checks a summary for an exact range.
async fn check_exact_range(context: &CheckContext<'_>, surveys: &Surveys, findings: &mut Findings) {
    if !context.description.produces.contains(&ContentKind::Summary) {
        findings.skip(&["P12"], "it writes no summary");
        return;
    }
    // The existing summary begins before the requested range.
    let selection =
        Selection { from: Some(Bound::turn(1)), to: Some(Bound::FromEnd(1)), ..Selection::default() };
    let Some(request) = context.request_for(&surveys.overlaid, "p12", selection) else { return };
    if let Err(failure) = context.send(request.with_exact_range(), Case::Plain).await {
        findings.fail(CheckFailure { id: "P12", why: failure.why });
    }
}

/// Checks requests for ranges that end, or also begin, inside a turn.
async fn check_steps(context: &CheckContext<'_>, surveys: &Surveys, findings: &mut Findings) {
    if !context.description.has_feature(STEPS) {
        findings.skip(&["P14"], "it compacts whole turns only");
        return;
    }
    // Turn 1 has four steps.
    let last = Bound::At(Position::step(1, 1));
    for (id, from) in [("p14", Bound::turn(0)), ("p14b", Bound::At(Position::step(1, 0))), ("p14c", last)] {
        let selection = Selection { from: Some(from), to: Some(last), ..Selection::default() };
        let Some(request) = context.request_for(&surveys.plain, id, selection) else { continue };
        if let Err(failure) = context.send(request, Case::Plain).await {
            findings.fail(CheckFailure { id: "P14", why: failure.why });
        }
    }
}

/// Sends the unusual requests, each for its check.
pub(super) async fn check_unusual(
    context: &CheckContext<'_>,
    surveys: &Surveys,
    ordinary: &[Value],
    findings: &mut Findings,
) {
    let Some(plain) = ordinary.first() else { return };
    let plain_request = |id| context.request(&surveys.plain, id, None);
    // If a strategy varies its answer to the same request, its answers to unusual requests cannot be compared.
    let mut is_comparable = context.is_pure();
    if !is_comparable {
        findings.skip(&["F07"], "it is stochastic");
    } else if let Some(request) = plain_request("f7") {
        let second_answer = context.send(request, Case::Plain).await;
        is_comparable = second_answer.as_ref() == Ok(plain);
        if !is_comparable {
            let why = second_answer
                .map_or_else(|failure| failure.why, |answer| format!("it answered {}", truncated(&answer)));
            findings.fail(CheckFailure { id: "F07", why });
        }
    }
    let cases = [
        ("F01", plain_request("f1").map(Request::with_unknown_keys), true),
        ("F02", plain_request("f2").map(Request::with_unknown_messages), true),
        ("F03", plain_request("f3").map(Request::with_blank_lines), true),
        ("F04", context.request(&surveys.long, "f4", None), false),
        ("F05", context.request(&surveys.special_characters, "f5", None), false),
        ("F06", plain_request("f6").map(Request::into_dry_run), true),
        ("F08", plain_request("f8").map(Request::without_last_newline), true),
        ("F10", context.request(&surveys.empty_turn, "f10", Some(1)), false),
        ("F11", context.request(&surveys.unknown, "f11", None), false),
    ];
    for (id, request, must_equal_plain) in cases {
        let Some(request) = request else { continue };
        let answer = context.send(request, Case::Plain).await;
        compare(id, answer, (is_comparable && must_equal_plain).then_some(plain), findings);
    }
    if !accepts_files(context) {
        findings.skip(&["F12"], "it does not accept a file");
    } else if let Some(request) = plain_request("f12") {
        let answer = match request.with_file(context.spool) {
            Ok(request) => context.send(request, Case::Plain).await,
            Err(error) => Err(failure("F12", format!("failed to write the file: {error}"))),
        };
        compare("F12", answer, is_comparable.then_some(plain), findings);
    }
    if context.description.options_schema.is_some() {
        findings.skip(&["F09"], "it has an `options_schema`");
    } else if let Some(request) = plain_request("f9") {
        match context.send(request.with_unknown_option(), Case::Invalid).await {
            Err(error) => findings.fail(failure("F09", error.why)),
            Ok(answer) if answer["type"] == "error" && answer["code"] != "options_invalid" => {
                findings
                    .fail(failure("F09", format!("its code is {}, not `options_invalid`", answer["code"])));
            }
            Ok(_) => {}
        }
    }
    if context.description.needs.is_empty() {
        findings.skip(&["N05"], "it needs nothing");
    } else if let Some(request) = plain_request("n5")
        && let Err(failure) = context.send(request, Case::Refused).await
    {
        findings.fail(CheckFailure { id: "N05", why: failure.why });
    }
}

/// Checks that an answer equals `expected`, if there is one to compare.
fn compare(
    id: &'static str,
    answer: Result<Value, CheckFailure>,
    expected: Option<&Value>,
    findings: &mut Findings,
) {
    match answer {
        Err(error) => findings.fail(failure(id, error.why)),
        Ok(answer) if expected.is_some_and(|expected| answer != *expected) => {
            findings.fail(failure(id, format!("it answered {}", truncated(&answer))));
        }
        Ok(_) => {}
    }
}

/// Returns whether the strategy accepts events in a file.
pub(super) fn accepts_files(context: &CheckContext<'_>) -> bool {
    context.description.input == Input::Full && context.description.has_feature("events.file")
}
