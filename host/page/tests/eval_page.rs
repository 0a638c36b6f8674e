//! The page of `eval`, made from a small evaluation with hostile texts.

use jp_compact_eval::Evaluation;
use jp_compact_eval::page::{PageConstraint, PageCut, PageEvent, PageEventKind, PageRow, PageUse, Shown};
use jp_compact_page::{Texts, eval_page};
use jp_compact_schema::document::EvalReport;
use serde_json::{Value, json};

/// Texts that run a script in a page that does not escape them.
const ATTACKS: [&str; 5] = [
    "<script>window.forged=1</script>",
    "</title></style></pre><img src=x onerror=window.forged=1>",
    "\"><svg onload=window.forged=1>",
    "javascript:window.forged=1",
    "' onmouseover='window.forged=1",
];

fn count(kept: u64, at_risk: u64) -> Value {
    let percent = (at_risk >= 20).then(|| 100.0 * kept as f64 / at_risk as f64);
    json!({"kept": kept, "at_risk": at_risk, "percent": percent, "interval": percent.map(|p| [p, p])})
}

fn recall(kept: u64) -> Value {
    let classes = ["path", "number", "identifier", "word", "command", "error", "quote", "constraint"];
    classes
        .iter()
        .map(|class| ((*class).to_owned(), count(kept, 100)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn row(name: &str, percent: f64, kept: u64) -> Value {
    let control = json!({"tokens": 40, "recall": recall(30)});
    json!({
        "name": name, "label": name, "options": {}, "answers": null, "status": "ok", "error": null, "failed_on": null,
        "cuts": 1, "declines": 0, "decline_reasons": [],
        "tokens": {"raw": 100, "view_before": 100, "view_after": 40, "jp": null},
        "saved": {"tokens": 60, "percent": percent, "of": "view_before"},
        "recall": recall(kept),
        "cache": {"prefix_kept_percent": 2.0, "break_even_requests": 17.25, "families": [{
            "family": "anthropic", "prefix_tokens": 10, "summary": 0.0, "one_time_warm": 90.0, "one_time_cold": 0.0,
            "per_request_before": 10.0, "per_request_after": 4.0, "break_even_requests": 17.25}]},
        "replay": {"cost": 1234.5, "requests": 9, "largest_context": 99, "compactions": 2, "above_window": 0},
        "controls": {"newest": control, "random": control},
        "rounds": [{"n": 1, "view_before": 100, "view_after": 40, "recall": recall(kept)},
                   {"n": 10, "view_before": 100, "view_after": 40, "recall": recall(kept)}],
        "rules_broken": 0
    })
}

fn report() -> Value {
    json!({
        "transcripts": [{"path": "/tmp/a.jsonl", "sha256": "00", "format": "codex", "events": 3, "results": 2, "cuts": 1,
            "cut_points": [], "not_enough_data": null, "error": null}],
        "strategies": [row("none", 0.0, 100), row("extract", 58.0, 93), row("trim", 48.9, 96), row("strip-tools", 91.4, 40)],
        "estimator": "pieces",
        "prices": {"source": "a list", "date": "2026-11-01", "verified": false, "families": []},
        "window": 200_000, "threshold_percent": 75.0, "at_risk_min": 20, "gates": []
    })
}

fn event(kind: PageEventKind, text: &str) -> PageEvent {
    let tool = matches!(kind, PageEventKind::Call | PageEventKind::Result).then(|| ATTACKS[0].to_owned());
    PageEvent {
        turn: 0,
        step: Some(1),
        kind,
        tool,
        tokens: 10,
        excerpt: text.into(),
        chars: text.chars().count() + 7,
    }
}

fn evaluation(report: Value) -> Evaluation {
    let report: EvalReport = serde_json::from_value(report).expect("a report");
    let uses = ATTACKS.map(|text| PageUse {
        class: "path",
        text: text.into(),
        source: 1,
        use_event: 2,
        kept: false,
    });
    let kept = PageUse { class: "number", text: "12345".into(), source: 0, use_event: 2, kept: true };
    let row = PageRow {
        row: 2,
        shown: vec![Shown::Kept, Shown::Shortened(3)],
        tokens_before: 20,
        tokens_after: 13,
        uses: uses.into_iter().chain([kept]).collect(),
        lost_constraints: vec![PageConstraint { text: ATTACKS[1].into(), source: 0 }],
    };
    let events = vec![
        event(PageEventKind::User, ATTACKS[1]),
        event(PageEventKind::Result, ATTACKS[2]),
        event(PageEventKind::Assistant, ATTACKS[4]),
    ];
    let cut = PageCut { transcript: 0, cut: 0, events, prefix: 2, rows: vec![row] };
    Evaluation { report, cuts: vec![cut] }
}

/// Returns the sentence at the beginning of a page.
fn lead(page: &str) -> &str {
    page.split("class=\"lead\">").nth(1).and_then(|rest| rest.split("</p>").next()).unwrap_or_default()
}

#[test]
fn no_saving_is_not_a_lack_of_data() {
    let mut report = report();
    for row in report["strategies"].as_array_mut().into_iter().flatten() {
        row["saved"]["tokens"] = 0.into();
    }
    // A row without enough data does not count, even if it saves tokens.
    let mut other = report["strategies"][0].clone();
    other["saved"]["tokens"] = 5.into();
    for class in ["path", "number", "identifier"] {
        other["recall"][class] = count(1, 2);
    }
    report["strategies"].as_array_mut().unwrap().push(other);
    let page = eval_page(&evaluation(report.clone()), Texts::Shown);
    assert_eq!(lead(&page), "No strategy with enough data saves tokens.");
    for row in report["strategies"].as_array_mut().into_iter().flatten() {
        for class in ["path", "number", "identifier"] {
            row["recall"][class] = count(1, 2);
        }
    }
    let page = eval_page(&evaluation(report), Texts::Shown);
    assert!(lead(&page).starts_with("There is not enough data for a result."), "{}", lead(&page));
}

#[test]
fn row_that_saves_nothing_never_pays_back() {
    let mut report = report();
    for row in report["strategies"].as_array_mut().into_iter().flatten() {
        row["cache"]["break_even_requests"] = Value::Null;
        row["cache"]["families"][0]["break_even_requests"] = Value::Null;
    }
    let page = eval_page(&evaluation(report), Texts::Shown);
    // Four rows, and one family of models.
    assert_eq!(page.matches("<td class=\"n\">never</td>").count(), 5);
    assert!(!page.contains("not enough data"));
}

#[test]
fn sentence_is_about_rows_that_save_tokens() {
    let mut report = report();
    report["strategies"] =
        json!([row("none", 0.0, 100), row("micro", 0.0, 100), row("strip-tools", 29.7, 40)]);
    report["strategies"][1]["saved"]["tokens"] = 0.into();
    let page = eval_page(&evaluation(report), Texts::Shown);
    assert!(lead(&page).contains("strip-tools"));
    assert!(page.contains("No row that saves tokens keeps 95 %"));
}

#[test]
fn constraint_lost_at_several_cuts_is_listed_once() {
    let mut evaluation = evaluation(report());
    let cut = evaluation.cuts[0].clone();
    evaluation.cuts.push(cut);
    let page = eval_page(&evaluation, Texts::Shown);
    assert!(page.contains("Constraints of the user that the view no longer has: 1<"));
}

#[test]
fn caption_mentions_only_a_crossing_that_the_chart_shows() {
    for (break_even, crosses) in [(json!(17.25), true), (json!(690.0), false), (json!(null), false)] {
        let mut report = report();
        report["strategies"][2]["cache"]["families"][0]["break_even_requests"] = break_even;
        let page = eval_page(&evaluation(report), Texts::Shown);
        assert_eq!(page.contains("The lines cross"), crosses);
    }
}

#[test]
fn sentence_is_about_the_row_that_saves_most_and_keeps_names() {
    let page = eval_page(&evaluation(report()), Texts::Shown);
    // `extract` saves more, but keeps too few paths.
    let sentence = lead(&page);
    for part in ["<code>trim</code> saves ", ">48.9 %<", ">96.0 %<", ">17.2<"] {
        assert!(sentence.contains(part), "{part} is not in {sentence}");
    }
}

#[test]
fn sections_have_a_fixed_order() {
    let page = eval_page(&evaluation(report()), Texts::Shown);
    let positions = ["result", "frontier", "conversation", "lost", "cost", "rounds"]
        .map(|id| page.find(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("{id} is missing")));
    assert!(positions.is_sorted(), "{positions:?}");
    assert_eq!(page.matches("<circle").count(), 3, "one dot for each strategy, and none for a control");
    assert_eq!((page.matches("class=\"arc lost\"").count(), page.matches("class=\"arc\"").count()), (5, 1));
}

#[test]
fn hostile_texts_are_escaped() {
    let page = eval_page(&evaluation(report()), Texts::Shown);
    for element in ["<script", "<img", "<svg onload", "\"><svg onload"] {
        assert!(!page.contains(element), "{element} is not escaped");
    }
    assert!(page.contains("&lt;script&gt;window.forged=1"), "the page has the escaped text");
}

#[test]
fn page_without_texts_has_no_text_of_the_conversation() {
    let evaluation = evaluation(report());
    let marks = ["window.forged", "12345"];
    let shown = eval_page(&evaluation, Texts::Shown);
    assert!(shown.contains(marks[0]));
    // The name of a tool stays, so the hostile name is replaced here.
    let mut named = evaluation;
    for event in &mut named.cuts[0].events {
        event.tool = Some("bash".into());
    }
    let hidden = eval_page(&named, Texts::Hidden);
    for mark in marks {
        assert!(!hidden.contains(mark), "{mark} is in the page");
    }
    assert!(
        hidden.contains("bash") && hidden.contains("class=\"arc lost\""),
        "names, numbers, and arcs stay"
    );
}

#[test]
fn not_enough_data_and_failures_are_sentences() {
    let mut document = report();
    document["transcripts"][0]["not_enough_data"] = json!("3 results, and 12 are needed");
    for row in document["strategies"].as_array_mut().expect("rows") {
        row["status"] = json!("not_enough_data");
    }
    document["strategies"][1]["status"] = json!("failed");
    document["strategies"][1]["error"] = json!({
        "code": 16, "kind": "strategy_error", "message": "it quotes this", "causes": [], "hint": null, "retryable": false,
    });
    let page = eval_page(&evaluation(document.clone()), Texts::Shown);
    for text in
        ["There is not enough data for a result.", "3 results, and 12 are needed", "failed: it quotes this"]
    {
        assert!(page.contains(text), "{text} is missing");
    }
    // The message of a strategy can have a text of the conversation.
    let page = eval_page(&evaluation(document), Texts::Hidden);
    assert!(page.contains(">failed<") && !page.contains("it quotes this"));
}

#[test]
fn too_many_events_have_no_ribbon() {
    let mut evaluation = evaluation(report());
    let event = evaluation.cuts[0].events[1].clone();
    evaluation.cuts[0].events.resize(6_000, event);
    let page = eval_page(&evaluation, Texts::Shown);
    assert!(!page.contains("<rect class=\"kept\" x="), "no ribbon");
    assert!(page.contains("too many for a page"), "the page reports the missing ribbon");
}
