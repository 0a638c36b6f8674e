//! `jp-compact list`: lists the sessions of agents, and JP's conversations of the workspace. It must not write.

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jp_compact_engine::session_counts::add_counts;
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::environment::Environment;
use jp_compact_sessions::{self as sessions, Agent, ListRequest};
use jp_compact_transcripts::Format;

use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::output;

/// List the sessions of agents, and JP's conversations
///
/// JP's conversations are those of the current workspace. OpenCode's sessions are those of the current project, as
/// `opencode` lists them. An id can be shortened to the printed part.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact list\n  jp-compact list --agent codex --json | jq -r '.sessions[0].id'"
)]
pub(crate) struct Args {
    /// List only sessions of this agent
    #[arg(long, value_name = "NAME", value_parser = agents())]
    agent: Option<Format>,
    /// List only forks by jp-compact
    #[arg(long)]
    forks: bool,
    /// List at most N sessions
    #[arg(short = 'n', long = "max", value_name = "N", default_value_t = 40)]
    max: usize,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

fn agents() -> impl TypedValueParser<Value = Format> {
    let names = Agent::ALL.into_iter().map(Agent::name).chain([Format::Jp.as_str()]);
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let request = ListRequest { agent: args.agent, only_forks: args.forks, max: args.max };
    let (mut document, hidden) =
        until_interrupted(async { Ok(sessions::list_sessions(&request, environment).await?) })?;
    add_counts(&mut document.sessions, environment);
    if args.json {
        output::json_line(&document)?;
    } else {
        let now = &Clock::System.local_now();
        let ids = sessions::file_ids(environment);
        output::table(&sessions::table(&document, hidden, output::columns(), &ids, now, environment))?;
    }
    Ok(Exit::Done)
}
