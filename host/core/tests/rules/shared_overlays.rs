//! One overlay for several strategies: its stored form, and its receipts (RFD 064, "The `Compaction` Type").

use jp_compact_core::append::{self, Entry, Receipt};
use jp_compact_core::fork::{ForkEffect, fork};
use jp_compact_core::receipts::{kinds, receipts};
use jp_compact_core::source::{Reset, reset};
use jp_compact_core::splice::concat;
use jp_compact_core::validate::{ValidationContext, validate};
use jp_compact_core::{Pairs, Stream, TurnRange};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use serde_json::{Map, Value, json};

use crate::build::{Build, timestamp};

/// Returns an entry for each proposal. Proposal N is made by the strategy `sN`.
#[track_caller]
fn entries(stream: &Stream, proposals: &[Value]) -> Vec<Entry> {
    let pairs = Pairs::new(stream);
    let range = TurnRange::new(0, stream.turns() - 1).unwrap();
    let produces = [Summary, Reasoning, ToolCalls];
    let mut entries = Vec::new();
    for (number, proposal) in proposals.iter().enumerate() {
        let context = ValidationContext {
            allows_steps: true,
            ..ValidationContext::new(stream, &pairs, range, &produces)
        };
        let payload = serde_json::from_value(proposal.clone()).unwrap();
        for compaction in validate(&context, vec![payload]).unwrap() {
            let receipt = Receipt {
                strategy: format!("s{number}").try_into().unwrap(),
                version: "1.0.0".into(),
                executable_sha256: "e".into(),
                options: Map::new(),
                input_sha256: "i".into(),
                tier: "isolated".into(),
                merges: Some(1),
            };
            entries.push(Entry { compaction, receipt });
        }
    }
    entries
}

/// Appends the proposals of one run, and returns the new stream.
#[track_caller]
fn run(stream: &Stream, proposals: &[Value]) -> Stream {
    let entries = entries(stream, proposals);
    let stamped = append::stamped_overlays(stream, &entries, timestamp(100)).unwrap();
    Stream::parse(concat(&append::append(stream, &entries, &stamped), stream.bytes()).into()).unwrap()
}

/// Returns the policies of each overlay, with the strategies of its receipts and their kinds.
fn overlays(stream: &Stream) -> Vec<String> {
    let lines = stream.overlays().iter().zip(receipts(stream)).map(|(overlay, receipts)| {
        let makers = receipts.iter().map(|receipt| {
            let kinds = kinds(receipt).map_or("all".to_owned(), |kinds| kinds.join("+"));
            format!("{}={kinds}", receipt["strategy"].as_str().unwrap())
        });
        format!("{}: {}", overlay.policy_names().join("+"), makers.collect::<Vec<_>>().join(" "))
    });
    lines.collect()
}

#[track_caller]
fn check(proposals: &[Value], expected: &[&str]) -> Stream {
    let stream = run(&Build::turns(3).stream(), proposals);
    assert_eq!(overlays(&stream), expected);
    stream
}

fn reasoning() -> Value {
    json!({"from_turn": 0, "to_turn": 1, "reasoning": "strip"})
}

fn tools() -> Value {
    json!({"from_turn": 0, "to_turn": 1, "tool_calls": {"policy": "strip", "request": true, "response": true}})
}

#[test]
fn equal_ranges_share_an_overlay() {
    let stream = check(&[reasoning(), tools()], &["reasoning+tool_calls: s0=reasoning s1=tool_calls"]);
    let elements: Vec<Value> = serde_json::from_slice(stream.bytes()).unwrap();
    let types: Vec<_> = elements[18..].iter().map(|element| element["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["compaction", "jp_compact_receipt", "jp_compact_receipt"]);
    assert!(elements[18..].windows(2).all(|pair| pair[0]["timestamp"] == pair[1]["timestamp"]));
    assert_eq!(elements[19].get("merges"), None, "only a summary has merges");
}

#[test]
fn shared_overlay_has_the_effect_of_separate_ones() {
    let shared = run(&Build::turns(3).stream(), &[reasoning(), tools()]);
    let separate = run(&run(&Build::turns(3).stream(), &[reasoning()]), &[tools()]);
    assert_eq!(crate::build::format_projection(&shared), crate::build::format_projection(&separate));
    assert_eq!((shared.overlays().len(), separate.overlays().len()), (1, 2));
}

#[test]
fn summary_and_policies_share_an_overlay() {
    let summary = json!({"from_turn": 0, "to_turn": 1, "summary": {"summary": "S"}});
    let stream = check(
        &[reasoning(), tools(), summary],
        &["summary+reasoning+tool_calls: s0=reasoning s1=tool_calls s2=summary"],
    );
    assert_eq!(receipts(&stream)[0].iter().filter(|receipt| receipt.contains_key("merges")).count(), 1);
}

#[test]
fn different_ranges_equal_kinds_and_own_grammar_stay_separate() {
    let later = json!({"from_turn": 0, "to_turn": 2, "tool_calls": {"policy": "omit"}});
    check(&[reasoning(), later], &["reasoning: s0=all", "tool_calls: s1=all"]);
    check(&[tools(), tools()], &["tool_calls: s0=all", "tool_calls: s1=all"]);
    let listed = json!({"from_turn": 0, "to_turn": 1,
                        "tool_calls": {"policy": "selective", "calls": [{"seq": 4, "response": "strip"}]}});
    check(&[reasoning(), listed], &["reasoning: s0=all", "tool_calls: s1=all"]);
    let steps = |policy: Value| {
        let mut payload = json!({"from_turn": 0, "to_turn": 0, "to_step": 0});
        payload.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
        payload
    };
    let (omit, strip) = (json!({"tool_calls": {"policy": "omit"}}), json!({"reasoning": "strip"}));
    check(&[steps(omit), steps(strip)], &["tool_calls: s0=all", "reasoning: s1=all"]);
}

#[test]
fn receipt_of_a_single_strategy_lists_no_kinds() {
    check(&[tools()], &["tool_calls: s0=all"]);
}

#[test]
fn reset_removes_the_overlay_and_all_receipts() {
    let source = Build::turns(3).stream();
    let stream = run(&source, &[reasoning(), tools()]);
    for target in [Reset::One(1), Reset::All] {
        let removal = reset(stream.index(), target).unwrap();
        assert_eq!((removal.overlays, removal.receipts), (1, 2));
        assert_eq!(concat(&removal.pieces, stream.bytes()), **source.bytes());
    }
}

#[test]
fn fork_copies_the_receipts_of_the_remaining_policies() {
    let summary = json!({"from_turn": 0, "to_turn": 1, "summary": {"summary": "S"}});
    let stream = run(&Build::turns(3).stream(), &[reasoning(), tools(), summary]);
    let copy = fork(&stream, Some(2));
    assert_eq!(copy.effects, [ForkEffect::SummaryDropped]);
    let copied = Stream::parse(concat(&copy.pieces, stream.bytes()).into()).unwrap();
    assert_eq!(overlays(&copied), ["reasoning+tool_calls: s0=reasoning s1=tool_calls"]);
    let whole = fork(&stream, None);
    assert_eq!(concat(&whole.pieces, stream.bytes()), **stream.bytes());
}
