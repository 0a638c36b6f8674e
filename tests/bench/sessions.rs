//! What it costs to ask: a worker's round trip, a strategy that is sent the header alone, and trust. What is
//! compared with is a spawn of `true`, but where the rows say otherwise. The strategy is `strip-tools`.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use jp_compact_core::request::{self, Ask};
use jp_compact_core::{Stream, Survey, TurnRange};
use jp_compact_engine::compact::{Preparation, Sandbox};
use jp_compact_engine::describe_cache::Descriptions;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::jail::Abilities;
use jp_compact_engine::process::PRIVATE_BYTES_MAX;
use jp_compact_engine::registry::{Registry, Wanted};
use jp_compact_engine::session::{Body, Described, Sessions, Starter};
use jp_compact_engine::trust::{Trust, Word};
use jp_compact_schema::{CompactRequest, Input, Limits};
use serde_json::Map;

use crate::measure::{Used, command, in_turns, run};
use crate::table::Table;

const TRUE: &str = "/bin/true";
/// One request is too short to be measured; this many are one run.
const TRIPS: u32 = 200;
/// An executable as large as trust is measured with.
const KNOWN_BYTES: usize = 5 << 20;
const KNOWN: &str = "known";
/// Events of which the turns of a stream are merged, so that a large one has the turn table of a small one.
const TURN_START: &[u8] = b"\"type\": \"turn_start\"";

/// Conversations of which a request is made.
pub(crate) struct Streams<'a> {
    /// 100 KB.
    pub(crate) small: &'a Path,
    /// 1 MB.
    pub(crate) middle: &'a Path,
    /// As large as the bench was told.
    pub(crate) large: &'a Path,
}

/// Trusts an executable that was never run. It and its copy have to be a while old once trust is measured: a younger
/// file could change again within the same tick of the clock, and is read each time.
pub(crate) fn trust(folder: &Path) -> io::Result<()> {
    let path = folder.join(KNOWN);
    let mut script = b"#!/bin/sh\nexit 64\n".to_vec();
    script.resize(KNOWN_BYTES, b'#');
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    let environment = environment(folder);
    let (registry, mut trust) = (registry(&environment)?, trusted(&environment)?);
    let plugin = registry.find(&path.to_string_lossy()).map_err(io::Error::other)?;
    let candidate = trust.candidate(&plugin).map_err(io::Error::other)?;
    trust.grant(&candidate, &[]).map(drop).map_err(io::Error::other)
}

fn environment(folder: &Path) -> Environment {
    let exe = Some(env!("CARGO_BIN_EXE_jp-compact").into());
    Environment { exe, home: Some(folder.to_owned()), ..Environment::bare(folder) }
}

fn registry(environment: &Environment) -> io::Result<Registry> {
    let wanted = Wanted { trust_dirs: &[], plugin_dirs: &[] };
    Registry::discover(environment, &wanted).map_err(io::Error::other)
}

fn trusted(environment: &Environment) -> io::Result<Trust> {
    Trust::open(environment, &Word { lock: None, dirs: &[] }).map_err(io::Error::other)
}

/// Adds its rows to the table.
pub(crate) fn rows(table: &mut Table, folder: &Path, runs: usize, streams: &Streams<'_>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let environment = environment(folder);
    let (registry, trust) = (registry(&environment)?, trusted(&environment)?);
    let starter = || Starter {
        runner: registry.runner().to_owned(),
        temp_dir: folder.to_owned(),
        private_bytes_max: PRIVATE_BYTES_MAX,
        spool: None,
    };
    let described = runtime.block_on(async {
        let preparation = Preparation {
            registry: &registry,
            trust: &trust,
            descriptions: &Descriptions::open(&environment),
            starter: &starter(),
            sandbox: Sandbox::Unsaid,
            abilities: Abilities::of_machine(),
        };
        let plugin = registry.find("strip-tools").map_err(io::Error::other)?;
        preparation.describe(&plugin).await.map_err(io::Error::other)
    })?;
    let asking = |input: Input, bytes: Vec<u8>| -> io::Result<(Described, CompactRequest)> {
        let mut described = described.clone();
        described.description.input = input;
        let stream = Stream::parse(bytes.into()).map_err(io::Error::other)?;
        let header = header(&described, &stream);
        Ok((described, header))
    };
    let sessions = Sessions::new(starter(), Duration::from_secs(60)).with_workers(1);
    let trips = |(described, header): &(Described, CompactRequest)| {
        runtime.block_on(async {
            let begun = Instant::now();
            for _ in 0..TRIPS {
                let header = CompactRequest { id: sessions.id(), ..header.clone() };
                let answer = sessions.ask(described, header, &Body::Nothing).await;
                answer.map_err(io::Error::other)?;
            }
            Ok(Used { wall: begun.elapsed() / TRIPS, ..Used::default() })
        })
    };
    let outline = asking(Input::Outline, fs::read(streams.small)?)?;
    let middle = asking(Input::None, fs::read(streams.middle)?)?;
    let turns = middle.1.context.turns.len();
    let large = asking(Input::None, fs::read(streams.large)?)?;
    let same_turns = asking(Input::None, merged(fs::read(streams.large)?, turns))?;
    let mut spawn = || run(&mut command(TRUE, folder));
    let sides: [crate::measure::Side<'_>; 5] =
        [&mut spawn, &mut || trips(&outline), &mut || trips(&middle), &mut || trips(&large), &mut || {
            trips(&same_turns)
        }];
    let [spawned, outlined, middle, large, same_turns] = in_turns(runs, sides)?;
    runtime.block_on(sessions.close());
    table.times("worker, 100 KB with outline / spawn of true", outlined.wall, spawned.wall, Some(0.15));
    table.times(
        "`none` of the large stream / of 1 MB, as many turns",
        same_turns.wall,
        middle.wall,
        Some(1.25),
    );
    table.times("`none` of the large stream / of 1 MB", large.wall, middle.wall, None);

    let plugin = registry.find(&folder.join(KNOWN).to_string_lossy()).map_err(io::Error::other)?;
    let mut cleared = || {
        let begun = Instant::now();
        let cleared = trust.clear(&plugin).map_err(io::Error::other)?;
        let used = Used { wall: begun.elapsed(), ..Used::default() };
        drop(cleared);
        Ok(used)
    };
    let [cleared] = in_turns(runs * 10, [&mut cleared])?;
    table.times("trust of a known executable of 5 MB / spawn of true", cleared.wall, spawned.wall, Some(1.0));
    Ok(())
}

/// A request for all turns of a stream.
fn header(described: &Described, stream: &Stream) -> CompactRequest {
    let range = TurnRange::new(0, stream.turns().saturating_sub(1)).unwrap_or_else(|| unreachable!());
    let ask = Ask {
        id: "c0",
        description: &described.description,
        conversation: None,
        digest: None,
        range,
        requested: range,
        range_exact: false,
        options: &Map::new(),
        hints: &std::collections::BTreeMap::new(),
        now: jiff::Timestamp::UNIX_EPOCH,
        limits: Limits { deadline_ms: 60_000, result_bytes_max: 8 << 20 },
        dry_run: false,
        llm: None,
        context_window: None,
    };
    request::header(&Survey::of(stream), &ask, None)
}

/// The same bytes with so many turns: what begins the later ones is something that nobody knows.
fn merged(mut bytes: Vec<u8>, turns: usize) -> Vec<u8> {
    for start in starts(&bytes).into_iter().skip(turns) {
        bytes[start + TURN_START.len() - 2] = b'x';
    }
    bytes
}

fn starts(bytes: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(TURN_START.len()).enumerate();
    windows.filter(|(_, window)| *window == TURN_START).map(|(at, _)| at).collect()
}
