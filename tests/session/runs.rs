//! Strategies on a conversation: ranges that are asked for again, many events, the bundled either way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use assert_cmd::cargo::cargo_bin;
use jp_compact_core::select::Wanted;
use jp_compact_core::{Bound, Overlap};
use jp_compact_engine::compact::{
    MIN_SAVING, OnLowSaving, Preparation, Ready, Run, Sandbox, compact, open, prepare,
};
use jp_compact_engine::config::{Lead, Scope};
use jp_compact_engine::consent::{Asker, Consent};
use jp_compact_engine::describe_cache::Descriptions;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::jail::Abilities;
use jp_compact_engine::llm::{Models, Settings, Wishes};
use jp_compact_engine::registry::{Registry, Wanted as Folders};
use jp_compact_engine::session::{Sessions, Spool};
use jp_compact_engine::trust::{Trust, Word};
use jp_compact_schema::Input;
use serde_json::json;
use std::fs;

use crate::world::{NEVER, World, block_on, starter};

/// A conversation of so many turns, with a summary of turns 1 to 3, each request that long.
fn conversation(folder: &Path, turns: usize, request_chars: usize) -> PathBuf {
    let mut events = Vec::new();
    for turn in 0..turns {
        let at = |second: usize| format!("2026-01-01 00:{turn:02}:{second:02}.0");
        events.push(json!({"timestamp": at(0), "type": "turn_start"}));
        events
            .push(json!({"timestamp": at(1), "type": "chat_request", "content": "x".repeat(request_chars)}));
        events.push(json!({"timestamp": at(2), "type": "chat_response", "message": "answer"}));
    }
    events.push(
        json!({"timestamp": "2026-01-02 00:00:00.0", "type": "compaction", "from_turn": 1, "to_turn": 3,
        "summary": {"summary": "older"}}),
    );
    let place = folder.join("17738399468-sample");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("events.json"), serde_json::to_string_pretty(&events).unwrap()).unwrap();
    place
}

fn run(sessions: Sessions, strategies: Vec<Ready>, dry_run: bool) -> Run {
    Run {
        strategies,
        sessions: sessions.into(),
        models: Models::open(Settings::default(), &Wishes::default(), &Environment::bare("/"))
            .unwrap()
            .into(),
        consent: Consent::new(Scope::default(), Asker::User, &Environment::bare("/")),
        model: None,
        conversation_model: None,
        wanted: Wanted { to: Some(Bound::FromEnd(0)), ..Wanted::default() },
        hints: std::collections::BTreeMap::new(),
        estimator: jp_compact_core::estimate::Estimator::Characters,
        overlap: Overlap::Partial,
        lock_wait: NEVER,
        now: "2026-02-01T00:00:00Z".parse().unwrap(),
        dry_run,
        hands_over: false,
        skips: false,
        allow_invalid: false,
        providers: Vec::new(),
        min_saving: 0.0,
        on_low_saving: OnLowSaving::Warn,
        paid: None,
    }
}

/// Runs a mode on a conversation, and returns what the report shows of it.
fn compacted(world: &World, transcript: &Path, run: &Run) -> Result<String, String> {
    let environment = Environment::bare(world.folder.path());
    let report =
        block_on(compact(run, &open(transcript.as_os_str(), &environment).unwrap())).map_err(|failure| {
            std::error::Error::source(&failure).map(ToString::to_string).unwrap_or_default()
        })?;
    Ok(report.steps.iter().map(|step| format!("{:?}\n", step.outcome)).collect())
}

fn ready(world: &World, mode: &str, input: Input) -> Ready {
    let mut described = world.described();
    described.description.input = input;
    Ready { described, options: world.header(mode).options, range: None, lead: Lead::typed() }
}

#[test]
fn what_saves_too_little_is_declined_where_a_run_says_so() {
    let world = World::new(0);
    let transcript = conversation(world.folder.path(), 6, 400);
    let bytes = || fs::read(transcript.join("events.json")).unwrap();
    let before = bytes();
    let declining = |min_saving| {
        let sessions = Sessions::new(starter(world.folder.path(), None), NEVER);
        let strategies = vec![ready(&world, "chooses-its-own-range", Input::None)];
        Run { min_saving, on_low_saving: OnLowSaving::Decline, ..run(sessions, strategies, false) }
    };
    let declined = compacted(&world, &transcript, &declining(0.99)).unwrap();
    assert!(declined.starts_with("Declined(\"it would save "), "{declined}");
    assert!(declined.contains("% of the view, and 99 % is the least"), "{declined}");
    assert!(bytes() == before, "nothing is written");
    let made = compacted(&world, &transcript, &declining(MIN_SAVING)).unwrap();
    assert!(made.starts_with("Made("), "{made}");
    assert!(bytes() != before);
}

#[test]
fn a_range_that_is_not_closed_is_asked_for_exactly_once_more() {
    for workers_max in [0, 1] {
        let world = World::new(workers_max);
        let transcript = conversation(world.folder.path(), 6, 1);
        let sessions = || Sessions::new(starter(world.folder.path(), None), NEVER).with_workers(workers_max);
        let own = run(sessions(), vec![ready(&world, "chooses-its-own-range", Input::None)], true);
        let made = compacted(&world, &transcript, &own).unwrap();
        assert!(made.contains("from_turn: 1, to_turn: 4"), "{made}");
        assert_eq!(world.arrivals().len(), 2);
        assert!(world.arrivals().iter().all(|(_, id)| id == "c1"));

        let insisting = run(sessions(), vec![ready(&world, "insists-on-its-own-range", Input::None)], true);
        let refused = compacted(&world, &transcript, &insisting).unwrap_err();
        assert!(refused.contains("range_not_closed"), "{refused}");
        assert_eq!(world.arrivals().len(), 4);
    }
}

#[test]
fn many_events_are_read_from_a_private_file_that_is_removed() {
    let world = World { features: vec!["worker".into(), "events.file".into()], ..World::new(0) };
    let transcript = conversation(world.folder.path(), 9, 1_000_000);
    let spool = Arc::new(Spool::make(world.folder.path()).unwrap());
    let folder = spool.folder().to_owned();
    let sessions = Sessions::new(starter(world.folder.path(), Some(spool)), NEVER);
    let twice = vec![ready(&world, "reads-a-file", Input::Full), ready(&world, "reads-a-file", Input::Full)];
    let run = run(sessions, twice, true);
    let declined = compacted(&world, &transcript, &run).unwrap();
    let (first, second) = declined.trim().split_once('\n').unwrap();
    assert_eq!(first, second, "one file for each range and scope");
    let path = first.strip_prefix("Declined(\"400 27 ").unwrap().strip_suffix("\")").unwrap();
    assert_eq!(Path::new(path).parent(), Some(folder.as_path()));
    assert!(!Path::new(path).exists());
    assert!(folder.exists());
    drop(run);
    assert!(!folder.exists());
}

#[test]
fn without_the_feature_events_come_inline() {
    let world = World::new(0);
    let transcript = conversation(world.folder.path(), 9, 1_000_000);
    let spool = Arc::new(Spool::make(world.folder.path()).unwrap());
    let sessions = Sessions::new(starter(world.folder.path(), Some(spool)), NEVER);
    let run = run(sessions, vec![ready(&world, "is-sent-events", Input::Full)], true);
    assert_eq!(compacted(&world, &transcript, &run).unwrap(), "Declined(\"inline\")\n");
}

#[test]
fn bundled_strategies_answer_the_same_either_way() {
    let world = World::new(0);
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/events.json");
    let environment =
        Environment { exe: Some(cargo_bin("jp-compact")), ..Environment::bare(world.folder.path()) };
    let registry = Registry::discover(&environment, &Folders::default()).unwrap();
    let trust = Trust::open(&environment, &Word::default()).unwrap();
    let answers = [0, 1, 3].map(|workers_max| {
        let starter = starter(world.folder.path(), None);
        let specs =
            ["strip-reasoning", "strip-tools", "strip-tools:mode=omit"].map(|spec| spec.parse().unwrap());
        let preparation = Preparation {
            registry: &registry,
            trust: &trust,
            descriptions: &Descriptions::open(&environment),
            starter: &starter,
            sandbox: Sandbox::Unsaid,
            abilities: Abilities::of_machine(),
        };
        let strategies = block_on(prepare(&specs, &Lead::typed(), &preparation, &environment));
        let run = run(Sessions::new(starter, NEVER).with_workers(workers_max), strategies.unwrap(), true);
        compacted(&world, &sample, &run).unwrap()
    });
    assert!(answers[0].contains("Made("), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}
