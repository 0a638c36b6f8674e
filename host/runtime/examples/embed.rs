//! Asks the strategy `strip-tools` of a plugin folder to compact the conversation on stdin.
//!
//! Usage: `embed PLUGIN_FOLDER [--trust] < events.json`. The program needs `compact-runner` in its own folder.

use std::collections::BTreeMap;
use std::error::Error;
use std::{env, io};

use jp_compact_core::reply::Terminal;
use jp_compact_core::request::{self, Ask};
use jp_compact_core::validate::{Asked, Compaction, validate};
use jp_compact_core::{Overlap, Stream, Survey, TurnRange};
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::describe_cache::KnownDescription;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::options;
use jp_compact_runtime::process::PRIVATE_BYTES_MAX;
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_runtime::session::{self, Body, Confined, Described, Sessions, Starter};
use jp_compact_runtime::trust::{self, Trust, TrustOverrides};
use jp_compact_schema::version::{COMPACT_DEADLINE_MS, RESULT_BYTES_MAX};
use jp_compact_schema::{Events, Input, Limits};

/// Finds the strategy, checks its trust, starts it in a jail, and reads its description.
async fn start(folder: &str, grants_trust: bool) -> Result<(Starter, Described), Box<dyn Error>> {
    // Discovery executes nothing.
    let environment = Environment::of_process()?;
    let folders = [folder.into()];
    let registry =
        Registry::discover(&environment, &ExtraFolders { plugin_dirs: &folders, ..ExtraFolders::default() })?;
    let plugin = registry.find("strip-tools")?;

    // Trust covers exactly these bytes and permissions. `clear` returns an error for all other plugins.
    let mut records = Trust::open(&environment, &TrustOverrides::default())?;
    if grants_trust {
        let candidate = records.candidate(&plugin)?;
        records.grant(&candidate, &candidate.questions())?;
    }
    let cleared = match records.clear(&plugin) {
        Err(trust::Error::NotTrusted(_)) => {
            return Err(format!("`{}` is not trusted; review it, then pass --trust", plugin.name).into());
        }
        other => other?,
    };

    // `jailed` returns an error if this machine has no jail.
    let confined = Confined::jailed(cleared, Abilities::here(&environment), registry.runner())?;
    let starter = Starter {
        runner: registry.runner().to_owned(),
        temp_dir: environment.temp_dir,
        private_bytes_max: PRIVATE_BYTES_MAX,
        spool: None,
    };
    let known = KnownDescription::new(starter.describe(&confined).await?);
    session::check(&known, &plugin)?;
    let KnownDescription { description, takes_defaults } = known;
    Ok((starter, Described { confined, description, takes_defaults }))
}

/// Requests compactions for all turns except the last one.
async fn ask(
    starter: Starter,
    described: &Described,
    stream: &Stream,
) -> Result<Vec<Compaction>, Box<dyn Error>> {
    let last = stream.turns().checked_sub(2).ok_or("the conversation has fewer than two turns")?;
    let range = TurnRange::new(0, last).ok_or("the range is empty")?;
    let (survey, hints) = (Survey::new(stream), BTreeMap::new());
    let sessions = Sessions::new(starter, None);
    let ask = Ask {
        id: &sessions.id(),
        description: &described.description,
        conversation: None,
        digest: None,
        range,
        requested: range,
        options: &options::defaults(&described.description),
        hints: &hints,
        now: Clock::System.now(),
        range_exact: false,
        limits: Limits { deadline_ms: COMPACT_DEADLINE_MS, result_bytes_max: RESULT_BYTES_MAX },
        dry_run: false,
        llm: None,
        context_window: None,
    };
    let mut body = Body::Nothing;
    let mut events = None;
    if described.description.input == Input::Full {
        let mut lines = Vec::new();
        let count = request::write_events(&survey, &ask, &mut lines)?;
        body = Body::Events { lines: lines.into(), count };
        events = Some(Events::Inline { count });
    }
    let answer = sessions.ask(described, request::header(&survey, &ask, events), &body).await?;

    // A reply is only a proposal. `validate` checks it against the conversation and the request.
    let proposal = match answer.terminal {
        Terminal::Result(result) => result.compactions,
        Terminal::Decline(decline) => return Err(decline.reason.into()),
        other => return Err(format!("unexpected reply: {other:?}").into()),
    };
    let asked = Asked {
        stream,
        pairs: &survey.pairs,
        range,
        requested: range,
        produces: &described.description.produces,
        accepted: &[],
        overlap: Overlap::default(),
        hints: &hints,
        by_model: false,
    };
    Ok(validate(&asked, proposal)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let folder = arguments.next().ok_or("usage: embed PLUGIN_FOLDER [--trust] < events.json")?;
    let (starter, described) = start(&folder, arguments.next().is_some_and(|word| word == "--trust")).await?;
    let stream = Stream::parse(io::read_to_string(io::stdin())?.into_bytes().into())?;
    for compaction in ask(starter, &described, &stream).await? {
        let (range, tools) = (compaction.range(), compaction.tool_calls());
        #[expect(clippy::print_stdout, reason = "this is the output of the example")]
        {
            println!("turns {} to {}, tool calls: {tools:?}", range.from(), range.to());
        }
    }
    Ok(())
}
