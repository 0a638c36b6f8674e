//! Summaries of random ranges of turns and steps, alone and combined, in the samples of all formats: the written file
//! shows the events of the view, in the same order.

use jp_compact_core::overlay::Overlay;
use jp_compact_transcripts::{Format, Transcript};

use crate::check::{check_compacted, overlay, read};
use crate::samples;

/// The number of random combinations for each sample.
const COMBINATIONS: usize = 20;

/// Returns all ranges of the last three turns and of the first three steps in each, as overlays without a summary.
fn ranges(stream: &Transcript) -> Vec<Overlay> {
    let steps = stream.steps();
    let turns = stream.turns().saturating_sub(3)..stream.turns();
    let positions: Vec<_> = turns
        .flat_map(|turn| {
            let steps = 0..steps.count(turn).min(3);
            std::iter::once((turn, None)).chain(steps.map(move |step| (turn, Some(step))))
        })
        .collect();
    let mut ranges = Vec::new();
    for (from_turn, from_step) in &positions {
        for (to_turn, to_step) in &positions {
            let is_in_order = match (from_step, to_step) {
                (Some(from), Some(to)) if from_turn == to_turn => from <= to,
                _ => from_turn <= to_turn,
            };
            if is_in_order {
                let (from_step, to_step) = (*from_step, *to_step);
                ranges.push(Overlay { from_step, to_step, ..overlay(*from_turn, *to_turn) });
            }
        }
    }
    ranges
}

fn with_text(overlay: &Overlay, text: &str) -> Overlay {
    Overlay { summary: Some(text.into()), ..overlay.clone() }
}

/// Returns each range alone, and random combinations of two or three ranges.
fn cases(stream: &Transcript) -> Vec<Vec<Overlay>> {
    let ranges = ranges(stream);
    let mut cases: Vec<Vec<Overlay>> =
        ranges.iter().map(|range| vec![with_text(range, "They spoke.")]).collect();
    // A linear congruential generator: the same cases in each run.
    let mut state = stream.bytes().len();
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..COMBINATIONS {
        let texts = ["They spoke.", "They wrote.", "They sang."];
        let count = 2 + random(2);
        cases
            .push(texts[..count].iter().map(|text| with_text(&ranges[random(ranges.len())], text)).collect());
    }
    cases
}

fn describe(overlays: &[Overlay]) -> String {
    let position = |turn: usize, step: Option<usize>| {
        step.map_or_else(|| turn.to_string(), |step| format!("{turn}.{step}"))
    };
    let range = |overlay: &Overlay| {
        let from = position(overlay.from_turn, overlay.from_step);
        format!("{from} to {}", position(overlay.to_turn, overlay.to_step))
    };
    overlays.iter().map(range).collect::<Vec<_>>().join(", ")
}

#[test]
fn written_files_show_random_summaries_where_the_view_has_them() {
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Jp) {
        for sample in samples::project_samples(format) {
            let stream = read(format, &sample.name, &sample.bytes);
            for overlays in cases(&stream) {
                let name = format!("{}, {}", sample.name, describe(&overlays));
                check_compacted(format, &name, &stream, &overlays, &[]);
            }
        }
    }
}
