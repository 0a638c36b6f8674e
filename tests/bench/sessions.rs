//! Cost of requests: a worker's round trip, a strategy that receives only the header, and the trust check.
//! Unless a row says otherwise, the reference is a spawn of `true`. The strategy is `strip-tools`.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use jp_compact_core::request::{self, RequestParameters};
use jp_compact_core::{Stream, Survey, TurnRange};
use jp_compact_engine::compact::{Preparation, Sandbox};
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_runtime::session::{Body, Described, OnStop, Sessions, Starter};
use jp_compact_runtime::trust::{Trust, TrustOverrides};
use jp_compact_schema::{CompactRequest, Input};
use serde_json::Map;

use crate::measure::{Usage, alternate, command, run};
use crate::table::Table;

const TRUE: &str = "/bin/true";
/// Number of requests per run, because one request is too short to be measured.
const REQUESTS: u32 = 200;
/// Size of the executable for the trust row.
const TRUSTED_BYTES: usize = 5 << 20;
const TRUSTED: &str = "known";
/// The element that starts a turn. [`merge_turns`] changes it, so that a large stream has as many turns as a small one.
const TURN_START: &[u8] = b"\"type\": \"turn_start\"";

/// The streams that the requests are about.
pub(crate) struct Streams<'a> {
    /// 100 KB.
    pub(crate) small: &'a Path,
    /// 1 MB.
    pub(crate) middle: &'a Path,
    /// The size is an argument of the benchmark.
    pub(crate) large: &'a Path,
}

/// Trusts an executable that is never run. Call this some time before the trust check is measured: the check reads a
/// recently changed file every time, because it could still change within the same clock tick.
pub(crate) fn trust(folder: &Path) -> io::Result<()> {
    let path = folder.join(TRUSTED);
    let mut script = b"#!/bin/sh\nexit 64\n".to_vec();
    script.resize(TRUSTED_BYTES, b'#');
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
    let folders = ExtraFolders { trust_dirs: &[], plugin_dirs: &[] };
    Registry::discover(environment, &folders).map_err(io::Error::other)
}

fn trusted(environment: &Environment) -> io::Result<Trust> {
    Trust::open(environment, &TrustOverrides { lock: None, dirs: &[] }).map_err(io::Error::other)
}

/// Adds the rows of this module to the table.
pub(crate) fn add_rows(
    table: &mut Table,
    folder: &Path,
    runs: usize,
    streams: &Streams<'_>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let environment = environment(folder);
    let (registry, trust) = (registry(&environment)?, trusted(&environment)?);
    let starter = || Starter::new(registry.runner(), folder);
    let described = runtime.block_on(async {
        let preparation = Preparation {
            registry: &registry,
            trust: &trust,
            descriptions: &Descriptions::open(&environment),
            starter: &starter(),
            sandbox: Sandbox::Unspecified,
            abilities: Abilities::detect(),
        };
        let plugin = registry.find("strip-tools").map_err(io::Error::other)?;
        preparation.describe(&plugin).await.map_err(io::Error::other)
    })?;
    let request_of = |input: Input, bytes: Vec<u8>| -> io::Result<(Described, CompactRequest)> {
        let mut described = described.clone();
        described.description.input = input;
        let stream = Stream::parse(bytes.into()).map_err(io::Error::other)?;
        let header = header(&described, &stream);
        Ok((described, header))
    };
    let sessions = Sessions::new(starter(), Duration::from_secs(60)).with_workers(1);
    let measure = |(described, header): &(Described, CompactRequest)| {
        runtime.block_on(async {
            let started = Instant::now();
            for _ in 0..REQUESTS {
                let header = CompactRequest { id: sessions.id(), ..header.clone() };
                let answer = sessions.ask(described, header, &Body::Nothing, OnStop::Refuse).await;
                answer.map_err(io::Error::other)?;
            }
            Ok(Usage { wall: started.elapsed() / REQUESTS, ..Usage::default() })
        })
    };
    let outline = request_of(Input::Outline, fs::read(streams.small)?)?;
    let middle = request_of(Input::None, fs::read(streams.middle)?)?;
    let turns = middle.1.context.turns.len();
    let large = request_of(Input::None, fs::read(streams.large)?)?;
    let same_turns = request_of(Input::None, merge_turns(fs::read(streams.large)?, turns))?;
    let mut spawn = || run(&mut command(TRUE, folder));
    let sides: [crate::measure::Side<'_>; 5] = [
        &mut spawn,
        &mut || measure(&outline),
        &mut || measure(&middle),
        &mut || measure(&large),
        &mut || measure(&same_turns),
    ];
    let [spawned, with_outline, middle, large, same_turns] = alternate(runs, sides)?;
    runtime.block_on(sessions.close());
    table.add_times(
        "worker, 100 KB with outline / spawn of true",
        with_outline.wall,
        spawned.wall,
        Some(0.15),
    );
    table.add_times(
        "worker, header only, large stream with the turns of 1 MB / 1 MB",
        same_turns.wall,
        middle.wall,
        Some(1.25),
    );
    table.add_times("worker, header only, large stream / 1 MB", large.wall, middle.wall, None);

    let plugin = registry.find(&folder.join(TRUSTED).to_string_lossy()).map_err(io::Error::other)?;
    let mut cleared = || {
        let started = Instant::now();
        let cleared = trust.clear(&plugin).map_err(io::Error::other)?;
        let usage = Usage { wall: started.elapsed(), ..Usage::default() };
        drop(cleared);
        Ok(usage)
    };
    let [cleared] = alternate(runs * 10, [&mut cleared])?;
    table.add_times(
        "trust check of a 5 MB executable / spawn of true",
        cleared.wall,
        spawned.wall,
        Some(1.0),
    );
    Ok(())
}

/// Returns a request for all turns of a stream.
fn header(described: &Described, stream: &Stream) -> CompactRequest {
    let range = TurnRange::new(0, stream.turns().saturating_sub(1)).unwrap_or_else(|| unreachable!());
    let options = Map::new();
    let parameters =
        RequestParameters::new("c0", &described.description, range, &options, jiff::Timestamp::UNIX_EPOCH);
    request::header(&Survey::new(stream), &parameters, None)
}

/// Reduces a stream to `turns` turns. The start elements of later turns get an unknown type, so the size of the
/// stream is unchanged.
fn merge_turns(mut bytes: Vec<u8>, turns: usize) -> Vec<u8> {
    for start in turn_starts(&bytes).into_iter().skip(turns) {
        bytes[start + TURN_START.len() - 2] = b'x';
    }
    bytes
}

fn turn_starts(bytes: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(TURN_START.len()).enumerate();
    windows.filter(|(_, window)| *window == TURN_START).map(|(index, _)| index).collect()
}
