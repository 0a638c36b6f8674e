//! `jp-compact mcp`: a server that speaks the Model Context Protocol on stdin and stdout, through which an agent
//! compacts its own conversation (J-CLI's third layer). It ends with its input.

mod answer;
mod input;
mod tools;
mod wanted;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::store::Fence;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;

use crate::args::Running;
use crate::commands::until_interrupted;
use crate::error::Report;
use crate::exit::Exit;
use crate::output;
use input::Input;
use tools::{House, Server};

const EXAMPLE: &str = r#"Examples:
  jp-compact mcp
  jp-compact mcp ~/project --allow-model --llm-budget-tokens 200000

An agent starts it itself. Most read a file like this one (`.mcp.json`, `mcp.json`):
  {"mcpServers": {"jp-compact": {"command": "jp-compact", "args": ["mcp", "/home/me/project"]}}}"#;

/// Serve an agent over the Model Context Protocol, on stdin and stdout
///
/// The tools `compact`, `stats`, `show`, `print` and `reset` do what the commands do, for transcripts inside FOLDER and for no others. All else is as if jp-compact had been started in FOLDER: its workspace, its configuration, relative paths. The options hold for every `compact`; with --dry-run nothing is ever written. Nobody is asked anything: a strategy that is not trusted is an error.
#[derive(Debug, Parser)]
#[command(
    after_help = EXAMPLE,
    mut_arg("json", |argument| argument.hide(true)),
    mut_arg("focus", |argument| argument.hide(true))
)]
pub(crate) struct Args {
    /// Where transcripts may lie
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Let clients have a model asked, by the profiles that are yours or approved
    ///
    /// Without it a tool that would ask a model is an error: the arguments of a client are not yours.
    #[arg(long)]
    allow_model: bool,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn run(args: Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let fence = Fence::around(&args.folder, environment)?;
    let cwd = fence.folder().to_owned();
    let environment = Environment { cwd, fence: Some(fence), ..environment.clone() };
    let house = Arc::new(House::new(args.running, quiet, args.allow_model, environment));
    until_interrupted(async {
        let (from, to) = output::protocol();
        let service = match Server(house).serve((Input::of(from), to)).await {
            // It went before it said anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Done),
            service => service.map_err(|error| broken(&error))?,
        };
        service.waiting().await.map(|_| Exit::Done).map_err(|error| broken(&error))
    })
}

fn broken(error: &dyn std::error::Error) -> Report {
    let hint = "an agent starts it, and speaks first; see `jp-compact mcp --help`";
    let mut report = Report::new(Exit::Usage, "failed to speak the Model Context Protocol", Some(hint));
    report.causes.push(error.to_string());
    report
}
