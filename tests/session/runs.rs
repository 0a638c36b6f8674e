//! Strategies on a conversation: repeated requests for closed ranges, large inputs, and bundled strategies
//! with and without workers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use assert_cmd::cargo::cargo_bin;
use jp_compact_config::{ConfigScope, Provenance};
use jp_compact_core::select::Selection;
use jp_compact_core::{Bound, Overlap};
use jp_compact_engine::compact::{
    MIN_SAVING, OnGrowth, OnLowSaving, Preparation, PreparedStrategy, RunIo, RunLimits, RunPolicy,
    RunSettings, Sandbox, compact, open, prepare,
};
use jp_compact_engine::consent::{Asker, ConsentContext};
use jp_compact_llm::{LlmOptions, Models, Settings};
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_runtime::session::{Sessions, Spool};
use jp_compact_runtime::trust::{Trust, TrustOverrides};
use jp_compact_schema::Input;
use serde_json::json;
use std::fs;

use crate::world::{NEVER, World, block_on, starter};

/// Creates a conversation of `turns` turns with a summary of turns 1 to 3. Each request has `request_chars`
/// characters.
fn conversation(folder: &Path, turns: usize, request_chars: usize) -> PathBuf {
    let mut events = Vec::new();
    for turn in 0..turns {
        let timestamp = |second: usize| format!("2026-01-01 00:{turn:02}:{second:02}.0");
        events.push(json!({"timestamp": timestamp(0), "type": "turn_start"}));
        events.push(
            json!({"timestamp": timestamp(1), "type": "chat_request", "content": "x".repeat(request_chars)}),
        );
        events.push(json!({"timestamp": timestamp(2), "type": "chat_response", "message": "answer"}));
    }
    events.push(
        json!({"timestamp": "2026-01-02 00:00:00.0", "type": "compaction", "from_turn": 1, "to_turn": 3,
        "summary": {"summary": "older"}}),
    );
    let path = folder.join("17738399468-sample");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("events.json"), serde_json::to_string_pretty(&events).unwrap()).unwrap();
    path
}

fn run_settings(sessions: Sessions, strategies: Vec<PreparedStrategy>, dry_run: bool) -> RunSettings {
    RunSettings {
        strategies,
        policy: RunPolicy {
            consent: ConsentContext::new(ConfigScope::default(), Asker::User, &Environment::bare("/")),
            model: None,
            conversation_model: None,
            selection: Selection { to: Some(Bound::FromEnd(0)), ..Selection::default() },
            hints: std::collections::BTreeMap::new(),
            overlap: Overlap::Partial,
            skip_existing: false,
            allow_invalid: false,
            require_constraints: false,
            providers: Vec::new(),
            on_low_saving: OnLowSaving::Warn,
            wait: None,
            on_growth: OnGrowth::Append,
        },
        io: RunIo {
            disk: None,
            sessions: sessions.into(),
            models: Models::open(Settings::default(), &LlmOptions::default(), &Environment::bare("/"))
                .unwrap()
                .into(),
            estimator: jp_compact_core::estimate::Estimator::Pieces,
            now: "2026-02-01T00:00:00Z".parse().unwrap(),
            dry_run,
            in_memory: false,
            estimate: None,
            prices: None,
            reports_losses: false,
            llm_failures: None,
        },
        limits: RunLimits { lock_wait: NEVER, min_saving: 0.0 },
    }
}

/// Compacts a transcript and returns the outcomes of the report, or the cause of the error.
fn outcomes(world: &World, transcript: &Path, settings: &RunSettings) -> Result<String, String> {
    let environment = Environment::bare(world.folder.path());
    let report = block_on(compact(settings, &open(transcript.as_os_str(), &environment).unwrap())).map_err(
        |failure| std::error::Error::source(&failure).map(ToString::to_string).unwrap_or_default(),
    )?;
    Ok(report.steps.iter().map(|step| format!("{:?}\n", step.outcome)).collect())
}

fn ready_strategy(world: &World, mode: &str, input: Input) -> PreparedStrategy {
    let mut described = world.described();
    described.description.input = input;
    PreparedStrategy {
        described,
        options: world.header(mode).options,
        range: None,
        provenance: Provenance::typed(),
    }
}

#[test]
fn low_saving_is_declined_if_the_run_requires_a_saving() {
    let world = World::new(0);
    let transcript = conversation(world.folder.path(), 6, 400);
    let bytes = || fs::read(transcript.join("events.json")).unwrap();
    let before = bytes();
    let settings_with_min_saving = |min_saving| {
        let sessions = Sessions::new(starter(world.folder.path(), None), NEVER);
        let strategies = vec![ready_strategy(&world, "chooses-its-own-range", Input::None)];
        let mut settings = run_settings(sessions, strategies, false);
        settings.limits.min_saving = min_saving;
        settings.policy.on_low_saving = OnLowSaving::Decline;
        settings
    };
    let declined = outcomes(&world, &transcript, &settings_with_min_saving(0.99)).unwrap();
    assert!(declined.starts_with("Declined(\"it would save "), "{declined}");
    assert!(declined.contains("% of the view; the minimum is 99 %"), "{declined}");
    assert!(bytes() == before, "a declined compaction must not be written");
    let accepted = outcomes(&world, &transcript, &settings_with_min_saving(MIN_SAVING)).unwrap();
    assert!(accepted.starts_with("NewOverlays("), "{accepted}");
    assert!(bytes() != before);
}

#[test]
fn range_that_is_not_closed_is_requested_exactly_once_more() {
    for workers_max in [0, 1] {
        let world = World::new(workers_max);
        let transcript = conversation(world.folder.path(), 6, 1);
        let sessions = || Sessions::new(starter(world.folder.path(), None), NEVER).with_workers(workers_max);
        let settings = run_settings(
            sessions(),
            vec![ready_strategy(&world, "chooses-its-own-range", Input::None)],
            true,
        );
        let outcome = outcomes(&world, &transcript, &settings).unwrap();
        assert!(outcome.contains("from_turn: 1, to_turn: 4"), "{outcome}");
        assert_eq!(world.arrivals().len(), 2);
        assert!(world.arrivals().iter().all(|(_, id)| id == "c1"));

        let insisting_settings = run_settings(
            sessions(),
            vec![ready_strategy(&world, "insists-on-its-own-range", Input::None)],
            true,
        );
        let error = outcomes(&world, &transcript, &insisting_settings).unwrap_err();
        assert!(error.contains("range_not_closed"), "{error}");
        assert_eq!(world.arrivals().len(), 4);
    }
}

#[test]
fn many_events_are_sent_in_a_private_file_that_is_removed() {
    let world = World { features: vec!["worker".into(), "events.file".into()], ..World::new(0) };
    let transcript = conversation(world.folder.path(), 9, 1_000_000);
    let spool = Arc::new(Spool::new(world.folder.path()));
    let folder = spool.folder().unwrap().to_owned();
    let sessions = Sessions::new(starter(world.folder.path(), Some(spool)), NEVER);
    let strategies = vec![
        ready_strategy(&world, "reads-a-file", Input::Full),
        ready_strategy(&world, "reads-a-file", Input::Full),
    ];
    let settings = run_settings(sessions, strategies, true);
    let declined = outcomes(&world, &transcript, &settings).unwrap();
    let (first, second) = declined.trim().split_once('\n').unwrap();
    assert_eq!(first, second, "a range and scope must have one file");
    let path = first.strip_prefix("Declined(\"400 27 ").unwrap().strip_suffix("\")").unwrap();
    assert_eq!(Path::new(path).parent(), Some(folder.as_path()));
    assert!(!Path::new(path).exists());
    assert!(folder.exists());
    drop(settings);
    assert!(!folder.exists());
}

#[test]
fn events_are_sent_inline_without_the_feature() {
    let world = World::new(0);
    let transcript = conversation(world.folder.path(), 9, 1_000_000);
    let spool = Arc::new(Spool::new(world.folder.path()));
    let sessions = Sessions::new(starter(world.folder.path(), Some(spool)), NEVER);
    let settings = run_settings(sessions, vec![ready_strategy(&world, "is-sent-events", Input::Full)], true);
    assert_eq!(outcomes(&world, &transcript, &settings).unwrap(), "Declined(\"inline\")\n");
}

#[test]
fn bundled_strategies_answer_equally_with_and_without_workers() {
    let world = World::new(0);
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/events.json");
    let environment =
        Environment { exe: Some(cargo_bin("jp-compact")), ..Environment::bare(world.folder.path()) };
    let registry = Registry::discover(&environment, &ExtraFolders::default()).unwrap();
    let trust = Trust::open(&environment, &TrustOverrides::default()).unwrap();
    let answers = [0, 1, 3].map(|workers_max| {
        let starter = starter(world.folder.path(), None);
        let specs =
            ["strip-reasoning", "strip-tools", "strip-tools:mode=omit"].map(|spec| spec.parse().unwrap());
        let preparation = Preparation {
            registry: &registry,
            trust: &trust,
            descriptions: &Descriptions::open(&environment),
            starter: &starter,
            sandbox: Sandbox::Unspecified,
            abilities: Abilities::detect(),
        };
        let strategies = block_on(prepare(&specs, &Provenance::typed(), &preparation, &environment));
        let settings =
            run_settings(Sessions::new(starter, NEVER).with_workers(workers_max), strategies.unwrap(), true);
        outcomes(&world, &sample, &settings).unwrap()
    });
    assert!(answers[0].contains("NewOverlays("), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}
