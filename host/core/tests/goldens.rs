//! Golden cases: JP's projections, turn counts, ranges, and extensions. The project's own cases are in `tests/cases`.
//! Cases made by JP's crate are outside the project, in `../shared/data/jp-golden`. If that folder is missing, the test
//! prints a message.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a panic fails the test, and it prints which cases are missing"
)]

use std::fs;
use std::path::{Path, PathBuf};

use jp_compact_core::bound::{self, Bound};
use jp_compact_core::overlap::{self, Overlap};
use jp_compact_core::projection::{project, project_with_overlays};
use jp_compact_core::render::{Provider, render};
use jp_compact_core::{Stream, TurnRange, lint};
use serde_json::Value;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut folders: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("events.json").is_file())
        .collect();
    folders.sort();
    folders
}

/// Returns all cases: the project's own, and JP's if they are present.
fn cases() -> Vec<PathBuf> {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let project_cases = folders(&manifest_dir.join("tests/cases"));
    assert!(!project_cases.is_empty(), "the project's own cases are missing");
    let jp_cases = folders(&manifest_dir.join("../../../shared/data/jp-golden"));
    if jp_cases.is_empty() {
        eprintln!("JP's golden projections are missing; only the project's own cases are checked");
    }
    project_cases.into_iter().chain(jp_cases).collect()
}

fn stream(case: &Path) -> Stream {
    Stream::parse(fs::read(case.join("events.json")).unwrap().into())
        .unwrap_or_else(|error| panic!("{}: {error}", case.display()))
}

fn parse_range(value: &Value) -> Option<TurnRange> {
    let turn = |name: &str| usize::try_from(value[name].as_u64().unwrap()).unwrap();
    (!value.is_null()).then(|| TurnRange::new(turn("from_turn"), turn("to_turn")).unwrap())
}

fn parse_bound(text: &str) -> Option<Bound> {
    match text.split_once(':') {
        None if text == "none" => None,
        None if text == "after-last" => Some(Bound::AfterLast),
        Some(("abs", turn)) => Some(Bound::turn(turn.parse().unwrap())),
        Some(("end", turns)) => Some(Bound::FromEnd(turns.parse().unwrap())),
        _ => panic!("unexpected bound: {text}"),
    }
}

#[test]
fn projections_match_jp() {
    for case in cases() {
        let stream = stream(&case);
        let mut out = Vec::new();
        project(&stream).write_json(&stream, &mut out).unwrap();
        let actual: Value = serde_json::from_slice(&out).unwrap();
        let expected = json(&case.join("projected.json"));
        if actual != expected {
            let (actual, expected) = (actual.as_array().unwrap(), expected.as_array().unwrap());
            let difference = actual.iter().zip(expected).position(|(actual, expected)| actual != expected);
            let index = difference.unwrap_or_else(|| actual.len().min(expected.len()));
            panic!(
                "{}: item {index} of {} and {}:\nours:   {:?}\ntheirs: {:?}",
                case.display(),
                actual.len(),
                expected.len(),
                actual.get(index),
                expected.get(index)
            );
        }
    }
}

#[test]
fn renderings_have_no_violations() {
    for case in cases() {
        let stream = stream(&case);
        let unreduced = (!stream.overlays().is_empty()).then(|| project_with_overlays(&stream, &[]));
        for view in std::iter::once(project(&stream)).chain(unreduced) {
            for provider in Provider::ALL {
                let rendered = render(&stream, &view, provider);
                assert_eq!(lint::check_body(provider, &rendered), [], "{}", case.display());
            }
        }
    }
}

#[test]
fn turn_counts_match_jp() {
    for case in cases() {
        let (stream, facts) = (stream(&case), json(&case.join("facts.json")));
        let count = |name: &str| usize::try_from(facts[name].as_u64().unwrap()).unwrap();
        assert_eq!(stream.turns(), count("turn_count"), "{}", case.display());
        assert_eq!(stream.conversation_events(), count("len"), "{}", case.display());
        assert_eq!(stream.overlays().len(), count("compactions"), "{}", case.display());
    }
}

#[test]
fn ranges_and_extensions_match_jp() {
    for case in cases() {
        let (stream, facts) = (stream(&case), json(&case.join("facts.json")));
        for range in facts["ranges"].as_array().unwrap() {
            let bound = |name: &str| parse_bound(range[name].as_str().unwrap());
            let resolved = bound::resolve(&stream, bound("from"), bound("to"), jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(resolved, parse_range(&range["result"]), "{}: {range}", case.display());
        }
        for extension in facts["extends"].as_array().unwrap() {
            let range = parse_range(extension).unwrap();
            let extended = overlap::extend(range, stream.summaries(), Overlap::Union);
            assert_eq!(Some(extended), parse_range(&extension["result"]), "{}: {extension}", case.display());
        }
    }
}
