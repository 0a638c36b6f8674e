//! The checks with one process per request: ordinary requests and unusual ones.

use jp_compact_core::Bound;
use jp_compact_core::select::Selection;
use jp_compact_schema::{ContentKind, Input};
use serde_json::Value;

use super::ask::Request;
use super::conversation::Surveys;
use super::exchange::{Case, Failed, failed};
use super::{Bench, Findings, truncated};

/// The ordinary requests with a label for each. Each has its own id prefix, because ids must be unique.
pub(super) fn everyday<'a>(
    bench: &'a Bench<'_>,
    surveys: &'a Surveys<'a>,
    ids: &str,
) -> Vec<(&'static str, Request<'a>)> {
    let id = |rest: &str| format!("{ids}{rest}");
    let cases = [
        ("the plain conversation", bench.request(&surveys.plain, &id("1"), None)),
        ("one turn of the plain conversation", bench.request(&surveys.plain, &id("2"), Some(1))),
        ("an unusual id", bench.request(&surveys.plain, &id("\"\\/\u{1F980}\u{7f} \u{e9}"), None)),
        ("a conversation without tool calls", bench.request(&surveys.talk, &id("3"), None)),
        ("a conversation with overlays", bench.request(&surveys.overlaid, &id("4"), None)),
    ];
    cases.into_iter().filter_map(|(name, request)| Some((name, request?))).collect()
}

/// Sends the ordinary requests. Returns their answers if none of them fails.
pub(super) async fn core(
    bench: &Bench<'_>,
    surveys: &Surveys<'_>,
    findings: &mut Findings,
) -> Option<Vec<Value>> {
    let (mut answers, mut is_sound) = (Vec::new(), true);
    for (name, request) in everyday(bench, surveys, "c") {
        match bench.put(request, Case::Plain).await {
            Ok(answer) => answers.push(answer),
            Err(failed) => {
                let is_over = failed.id == "R01";
                is_sound = false;
                findings.fail(Failed { why: format!("{name}: {}", failed.why), ..failed });
                // A strategy that hangs would hang for every request.
                if is_over {
                    return None;
                }
            }
        }
    }
    if is_sound {
        exact(bench, surveys, findings).await;
    }
    is_sound.then_some(answers)
}

async fn exact(bench: &Bench<'_>, surveys: &Surveys<'_>, findings: &mut Findings) {
    if !bench.description.produces.contains(&ContentKind::Summary) {
        findings.skip(&["P12"], "it writes no summary");
        return;
    }
    // The older summary exceeds the requested range.
    let wanted =
        Selection { from: Some(Bound::Turn(1)), to: Some(Bound::FromEnd(1)), ..Selection::default() };
    let Some(request) = bench.request_of(&surveys.overlaid, "p12", wanted) else { return };
    if let Err(failed) = bench.put(request.exact(), Case::Plain).await {
        findings.fail(Failed { id: "P12", why: failed.why });
    }
}

/// Sends the unusual requests, each for its check.
pub(super) async fn odd(
    bench: &Bench<'_>,
    surveys: &Surveys<'_>,
    everyday: &[Value],
    findings: &mut Findings,
) {
    let Some(plain) = everyday.first() else { return };
    let same = |id| bench.request(&surveys.plain, id, None);
    // A strategy that varies its answer to the same request cannot be compared with unusual requests.
    let mut is_comparable = bench.is_pure();
    if !is_comparable {
        findings.skip(&["F07"], "it is stochastic");
    } else if let Some(request) = same("f7") {
        let again = bench.put(request, Case::Plain).await;
        is_comparable = again.as_ref() == Ok(plain);
        if !is_comparable {
            let why = again
                .map_or_else(|failed| failed.why, |answer| format!("it answered {}", truncated(&answer)));
            findings.fail(Failed { id: "F07", why });
        }
    }
    let cases = [
        ("F01", same("f1").map(Request::with_unknown_keys), true),
        ("F02", same("f2").map(Request::with_unknown_messages), true),
        ("F03", same("f3").map(Request::with_blank_lines), true),
        ("F04", bench.request(&surveys.long, "f4", None), false),
        ("F05", bench.request(&surveys.strange, "f5", None), false),
        ("F06", same("f6").map(Request::dry), true),
        ("F08", same("f8").map(Request::with_an_open_end), true),
        ("F10", bench.request(&surveys.bare, "f10", Some(1)), false),
        ("F11", bench.request(&surveys.unknown, "f11", None), false),
    ];
    for (id, request, is_same) in cases {
        let Some(request) = request else { continue };
        let answer = bench.put(request, Case::Plain).await;
        judge(id, answer, (is_comparable && is_same).then_some(plain), findings);
    }
    if !takes_files(bench) {
        findings.skip(&["F12"], "it does not accept a file");
    } else if let Some(request) = same("f12") {
        let answer = match request.with_file(bench.spool) {
            Ok(request) => bench.put(request, Case::Plain).await,
            Err(error) => Err(failed("F12", format!("failed to write the file: {error}"))),
        };
        judge("F12", answer, is_comparable.then_some(plain), findings);
    }
    if bench.description.options_schema.is_some() {
        findings.skip(&["F09"], "its schema rejects unknown options");
    } else if let Some(request) = same("f9") {
        match bench.put(request.with_unknown_option(), Case::Wrong).await {
            Err(error) => findings.fail(failed("F09", error.why)),
            Ok(answer) if answer["type"] == "error" && answer["code"] != "options_invalid" => {
                findings
                    .fail(failed("F09", format!("its code is {}, not `options_invalid`", answer["code"])));
            }
            Ok(_) => {}
        }
    }
    if bench.description.needs.is_empty() {
        findings.skip(&["N05"], "it needs nothing");
    } else if let Some(request) = same("n5")
        && let Err(failed) = bench.put(request, Case::Refused).await
    {
        findings.fail(Failed { id: "N05", why: failed.why });
    }
}

/// Checks that an answer equals `same`, if there is an answer to compare.
fn judge(id: &'static str, answer: Result<Value, Failed>, same: Option<&Value>, findings: &mut Findings) {
    match answer {
        Err(error) => findings.fail(failed(id, error.why)),
        Ok(answer) if same.is_some_and(|same| answer != *same) => {
            findings.fail(failed(id, format!("it answered {}", truncated(&answer))));
        }
        Ok(_) => {}
    }
}

/// Returns whether the strategy accepts events in a file.
pub(super) fn takes_files(bench: &Bench<'_>) -> bool {
    bench.description.input == Input::Full && bench.description.has_feature("events.file")
}
