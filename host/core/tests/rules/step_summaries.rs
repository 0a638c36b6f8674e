//! Summaries that begin or end inside a turn: the ranges that the host offers for them, the open turn with thinking,
//! and the view after one or several of them.

use bytes::Bytes;
use jp_compact_core::append::{append, stamped_overlays};
use jp_compact_core::event::Kind;
use jp_compact_core::lint::{self, Rule};
use jp_compact_core::overlap::Overlap;
use jp_compact_core::projection::project;
use jp_compact_core::render::{self, Provider, is_signed};
use jp_compact_core::select::{
    NothingToCompact, Selected, Selection, StrategyTraits, resolve, select_for_strategy, select_for_summary,
};
use jp_compact_core::splice::concat;
use jp_compact_core::validate::{Refusal, ValidationContext, validate};
use jp_compact_core::view::Part;
use jp_compact_core::{Bound, Position, Stream, Survey, TurnRange, open};
use jp_compact_schema::ContentKind::Summary;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::append::entries_of;
use crate::build::{Build, base64, compaction, format_projection, step_overlay, timestamp};

const TRAITS: StrategyTraits =
    StrategyTraits { accepts_steps: true, strips_reasoning: false, writes_summary: true };

/// Selects the range for a summary between two positions.
fn selected(stream: &Stream, from: &str, to: &str, overlap: Overlap) -> Result<Selected, NothingToCompact> {
    let survey = Survey::new(stream);
    let bound = |text: &str| text.parse().ok().map(Bound::At);
    let selection = Selection { from: bound(from), to: bound(to), ..Selection::default() };
    let range = resolve(&survey, selection, timestamp(0))?;
    select_for_summary(&survey, &select_for_strategy(&survey, range, TRAITS)?, TRAITS, &[], overlap)
}

#[track_caller]
fn check(build: &Build, from: &str, to: &str, expected: &str) {
    let found = match selected(&build.stream(), from, to, Overlap::Partial) {
        Ok(selected) => {
            let notes = selected.notes.iter().map(ToString::to_string);
            [selected.range.to_string()].into_iter().chain(notes).collect::<Vec<_>>().join("\n")
        }
        Err(nothing) => nothing.to_string(),
    };
    assert_eq!(found, expected, "{from}..{to}");
}

/// Returns a short turn, and a turn with steps. `T` is a step that begins with a signed thought, `-` is a step without
/// a thought, and `?` is a message of the user.
fn steps(steps: &str) -> Build {
    let first = Build::default().turn().ask("hello").say("hi").turn().ask("go");
    steps.chars().enumerate().fold(first, |build, (step, mark)| {
        let id = format!("c{step}");
        let build = match mark {
            '?' => return build.ask(&format!("more{step}")),
            'T' => build.element(json!({
                "timestamp": "2026-04-02 09:10:00.0", "type": "chat_response", "reasoning": format!("t{step}"),
                "metadata": {"anthropic_thinking_signature": base64("sig")},
            })),
            _ => build,
        };
        build.call(&id, "read").answer(&id, &format!("{} {step}", "body".repeat(20)))
    })
}

#[test]
fn row_of_a_cut_turn_counts_only_summaries_in_the_range() {
    let summary = step_overlay(60, "1.0", "1.1", json!({"summary": {"summary": "text".repeat(100)}}));
    let build = steps("------");
    let view_tokens = |build: &Build, from: &str, to: &str| {
        let stream = build.stream();
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        Survey::new(&stream).turn_table_in(TurnRange::between(from, to).unwrap())[1].view_tokens
    };
    let with_summary = build.clone().element(summary);
    assert_eq!(view_tokens(&with_summary, "1.4", "1.5"), view_tokens(&build, "1.4", "1.5"));
    assert!(view_tokens(&with_summary, "1.0", "1.1") > 100);
}

#[test]
fn a_summary_begins_with_a_turn_or_its_first_step() {
    let done = steps("-----").say("end");
    check(&done, "0", "1.3", "turns 0-1.3");
    check(&done, "1.0", "1.3", "steps 1.0-1.3");
    let extended =
        "extended steps 1.2-1.3 to steps 1.0-1.3: a summary begins with a turn or a turn's first step";
    check(&done, "1.2", "1.3", &format!("steps 1.0-1.3\n{extended}"));
    check(&done, "1", "1", "turn 1");
}

#[test]
fn a_summary_in_the_open_turn_ends_before_a_step_that_thinks() {
    let closed = "turn 1 is compacted up to step 1.5: the turn is not finished";
    let thinking = |from: &str, to: &str| {
        format!(
            "reduced {from} to {to}: turn 1 is open, and the step after a summary in it must begin with thinking"
        )
    };
    check(&steps("------"), "0", "1.4", "turns 0-1.4");
    check(&steps("------"), "0", "1", &format!("turns 0-1.5\n{closed}"));
    check(&steps("TT-T--"), "0", "1.2", "turns 0-1.2");
    check(&steps("TT-T--"), "0", "1.0", "turns 0-1.0");
    check(&steps("TT-T--"), "0", "1.4", &format!("turns 0-1.2\n{}", thinking("turns 0-1.4", "turns 0-1.2")));
    let both = format!("turns 0-1.2\n{closed}\n{}", thinking("turns 0-1.5", "turns 0-1.2"));
    check(&steps("TT-T--"), "0", "1", &both);
    check(&steps("T-----"), "0", "1.4", &format!("turn 0\n{}", thinking("turns 0-1.4", "turn 0")));
    check(
        &steps("T-----"),
        "1",
        "1.4",
        "nothing to compact: turn 1 is open, and a summary may end only before a step that begins with thinking; no such \
         step follows in turns 1-1.4; use a strategy that strips, such as `strip-tools`",
    );
    check(&steps("T-----").say("end"), "1", "1.4", "turns 1-1.4");
    check(&steps("T-----").say("end").turn().ask("next"), "0", "1.4", "turns 0-1.4");
}

#[test]
fn nothing_is_left_if_no_requested_step_can_be_summarized() {
    let found = selected(&steps("TT---").stream(), "1.1", "1.3", Overlap::Partial);
    assert!(matches!(found, Err(NothingToCompact::Thinking { .. })), "{found:?}");
}

#[test]
fn an_older_summary_of_steps_extends_the_range() {
    let older = step_overlay(60, "0", "1.2", json!({"summary": {"summary": "S"}}));
    let extended = "extended turns 1-1.3 to turns 0-1.3, to include older summaries completely";
    check(&steps("-----").element(older.clone()), "1", "1.3", &format!("turns 0-1.3\n{extended}"));
    check(&steps("-----").element(older.clone()), "0", "1.3", "turns 0-1.3");
    let note = "the summary of turns 1-1.1 is inside the summary of turns 0-1.2: the view shows the older summary for \
                the rest of its range; `--overlap union` writes one summary for both";
    check(&steps("-----").element(older), "1", "1.1", &format!("turns 1-1.1\n{note}"));
    let whole = compaction(60, 0, 1, json!({"summary": {"summary": "S"}}));
    let grown = steps("---").say("end").turn().ask("next").call("n", "t").answer("n", "x").say("more");
    check(
        &grown.element(whole),
        "1",
        "2.0",
        "turns 0-2.0\nextended turns 1-2.0 to turns 0-2.0, to include older summaries completely",
    );
}

#[track_caller]
fn refused(build: &Build, from: &str, to: &str) -> Option<Refusal> {
    let stream = build.stream();
    let survey = Survey::new(&stream);
    let (from, to): (Position, Position) = (from.parse().unwrap(), to.parse().unwrap());
    let range = TurnRange::between(Position::turn(0), Position::step(1, 4)).unwrap();
    let asked = ValidationContext {
        allows_steps: true,
        ..ValidationContext::new(&stream, &survey.pairs, range, &[Summary])
    };
    validate(&asked, serde_json::from_value(payload(from, to)).unwrap()).err()
}

fn payload(from: Position, to: Position) -> Value {
    let mut payload = json!({"from_turn": from.turn, "to_turn": to.turn, "summary": {"summary": "S"}});
    for (name, step) in [("from_step", from.step), ("to_step", to.step)] {
        if let Some(step) = step {
            payload[name] = step.into();
        }
    }
    json!([payload])
}

#[test]
fn a_strategy_cannot_choose_a_range_that_the_host_would_not_offer() {
    assert_eq!(refused(&steps("TT-T--"), "0", "1.2"), None);
    assert_eq!(refused(&steps("TT-T--"), "1.0", "1.2"), None);
    assert!(matches!(refused(&steps("TT-T--"), "1.1", "1.2"), Some(Refusal::SummaryInsideTurn(_))));
    assert!(matches!(refused(&steps("TT-T--"), "0", "1.3"), Some(Refusal::SummaryBeforeThinking(_))));
    assert_eq!(refused(&steps("TT-T--").say("end"), "0", "1.3"), None);
}

/// Returns a conversation in which at most one call has no result, and output follows every thought.
fn conversation() -> impl Strategy<Value = Build> {
    let step = (0..3u8, 0..3usize, any::<bool>());
    let steps = prop::collection::vec((step, prop::bool::weighted(0.1)), 0..7);
    let turn = (steps, any::<bool>());
    (prop::collection::vec(turn, 1..4), 0..3u8).prop_map(|(turns, end)| {
        let mut build = Build::default();
        let mut id = 0;
        for (steps, ends) in &turns {
            build = build.turn().ask("asks");
            for ((thought, calls, has_text), is_interrupted) in steps {
                build = step_of(build, *thought, *calls, *has_text, &mut id);
                if *is_interrupted {
                    build = build.ask("and");
                }
            }
            if *ends || steps.is_empty() {
                build = build.say("says");
            }
        }
        match end {
            0 => build.call("open", "read"),
            1 => build.call("open", "read").call("other", "read").answer("other", "done"),
            _ => build,
        }
    })
}

fn step_of(build: Build, thought: u8, calls: usize, has_text: bool, id: &mut usize) -> Build {
    let thought_event = |metadata: Value| json!({"timestamp": "2026-04-02 09:10:00.0", "type": "chat_response", "reasoning": "thinks", "metadata": metadata});
    let mut build = match thought {
        0 => build,
        1 => build.element(thought_event(json!({"anthropic_thinking_signature": base64("sig")}))),
        _ => build.element(thought_event(json!({
            "openai_item_id": base64("rs_1"), "openai_encrypted_content": base64("x"),
        }))),
    };
    if has_text || calls == 0 {
        build = build.say("looks");
    }
    let first = *id;
    *id += calls;
    let build = (first..*id).fold(build, |build, call| build.call(&format!("c{call}"), "read"));
    (first..*id).fold(build, |build, call| build.answer(&format!("c{call}"), "body"))
}

fn position() -> impl Strategy<Value = Position> {
    (0..4usize, prop::option::weighted(0.7, 0..7usize)).prop_map(|(turn, step)| Position { turn, step })
}

/// Returns the rules that a view and its renderings violate.
fn violated(stream: &Stream) -> Vec<Rule> {
    let view = project(stream);
    let mut rules: Vec<Rule> =
        lint::check_view(stream, stream.overlays(), &view).iter().map(|found| found.rule).collect();
    for provider in Provider::ALL {
        let rendered = render::render_unrepaired(stream, &view, provider);
        rules.extend(lint::check_body(provider, &rendered).iter().map(|found| found.rule));
        assert_eq!(lint::check_body(provider, &render::render(stream, &view, provider)), [], "{provider}");
    }
    rules.sort_unstable_by_key(ToString::to_string);
    rules.dedup();
    rules
}

/// Returns the stream with a summary of the range, as the host appends it.
fn summarized(
    stream: &Stream,
    range: TurnRange,
    survey: &Survey<'_>,
    requested: TurnRange,
    overlap: Overlap,
) -> Stream {
    let asked = ValidationContext {
        allows_steps: true,
        requested_range: requested,
        overlap,
        ..ValidationContext::new(stream, &survey.pairs, range, &[Summary])
    };
    let proposal = serde_json::from_value(payload(range.start(), range.end())).unwrap();
    let compactions = validate(&asked, proposal).unwrap_or_else(|refusal| panic!("{range}: {refusal}"));
    let entries = entries_of(compactions);
    let made = stamped_overlays(stream, &entries, timestamp(100)).unwrap();
    let bytes: Bytes = concat(&append(stream, &entries, &made), stream.bytes()).into();
    Stream::parse(bytes).unwrap()
}

/// Returns whether the first step that the view shows of the last turn begins with signed thinking. `None` if the
/// turn is closed, or if none of its steps begins with signed thinking.
fn first_step_thinks(stream: &Stream, survey: &Survey<'_>) -> Option<bool> {
    open::open_reason(stream, &survey.pairs, true)?;
    let last = stream.turns() - 1;
    let in_turn = |element: &usize| stream.events()[*element].turn == last;
    let signed =
        |element: usize| stream.events()[element].kind == Kind::Reasoning && is_signed(stream, element);
    let all: Vec<usize> = (0..stream.events().len()).filter(in_turn).collect();
    let starts_step = |element: usize, of: &[usize]| {
        let step = stream.steps().step(element);
        of.iter().find(|other| stream.steps().step(**other) == step) == Some(&element)
    };
    all.iter().find(|element| signed(**element) && starts_step(**element, &all))?;
    let view = project(stream);
    let mut shown = view.items().iter().filter_map(|item| item.part.element()).filter(in_turn);
    shown.find(|element| stream.steps().step(*element).is_some()).map(signed)
}

proptest! {
    #[test]
    fn summaries_of_any_steps_keep_every_rule(
        build in conversation(),
        ranges in prop::collection::vec((position(), position()), 1..4),
        union in any::<bool>(),
    ) {
        let overlap = if union { Overlap::Union } else { Overlap::Partial };
        let mut stream = build.stream();
        let before = violated(&stream);
        let users = format_projection(&stream).matches("?asks").count();
        for (from, to) in ranges {
            let survey = Survey::new(&stream);
            let Ok(selected) = selected(&stream, &from.to_string(), &to.to_string(), overlap) else { continue };
            let range = selected.range;
            prop_assert!(range.covers(selected.requested));
            let grown = summarized(&stream, range, &survey, selected.requested, overlap);
            prop_assert!(stream.raw_input().eq(grown.raw_input()));
            let view = project(&grown);
            let is_kept = |element: &usize| !grown.is_in(range, *element);
            let kept = view.items().iter().filter_map(|item| item.part.element());
            prop_assert!(kept.clone().all(|element| is_kept(&element)), "{} shows a covered event", range);
            let summaries = view.items().iter().filter(|item| {
                let shown = item.origin.summarized().map(|shown| (shown.start(), shown.to()));
                shown == Some((range.start(), range.to()))
                    && matches!(item.part, Part::SummaryResponse { .. } | Part::SummaryNote { .. })
            });
            // If the range is inside an older summary, the view shows parts of both summaries.
            let is_nested = stream.summaries().any(|older| older.covers(range));
            prop_assert!(is_nested || summaries.count() == 1, "{}: {}", range, format_projection(&grown));
            // An event outside of all summaries stays.
            let all: Vec<TurnRange> = grown.summaries().collect();
            let shown_elements: Vec<usize> = kept.collect();
            for (element, event) in grown.events().iter().enumerate() {
                let is_covered = all.iter().any(|summary| grown.is_in(*summary, element));
                if event.kind.is_conversation() && !is_covered {
                    prop_assert!(shown_elements.contains(&element), "{}: {}", range, format_projection(&grown));
                }
            }
            let new: Vec<Rule> = violated(&grown).into_iter().filter(|rule| !before.contains(rule)).collect();
            prop_assert_eq!(new, [], "{}: {}", range, format_projection(&grown));
            prop_assert!(range.to() + 1 < grown.turns() || first_step_thinks(&grown, &Survey::new(&grown)) != Some(false)
                || range.end().step.is_none(), "{}: {}", range, format_projection(&grown));
            stream = grown;
        }
        prop_assert!(format_projection(&stream).matches("?asks").count() <= users);
    }
}
