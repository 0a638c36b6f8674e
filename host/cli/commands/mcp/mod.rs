//! `jp-compact mcp`: a Model Context Protocol server on stdin and stdout. An agent uses it to compact its own
//! conversation (J-CLI's third layer). The server must only access transcripts inside the served folder, and sessions
//! of agents that worked in it. It ends when stdin ends.

mod tool_output;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use jp_compact_mcp::FilteredInput;
use jp_compact_runtime::environment::Environment;
use jp_compact_store::allowed_root;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;

use crate::args::RunArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::output;
use tools::{Handler, McpServer};

const EXAMPLE: &str = r#"Examples:
  jp-compact mcp
  jp-compact mcp ~/project --allow-model --llm-budget-tokens 200000

An agent starts the server itself. Most agents read a file like this one (`.mcp.json`, `mcp.json`):
  {"mcpServers": {"jp-compact": {"command": "jp-compact", "args": ["mcp", "/home/me/project"]}}}"#;

/// Serve an agent over the Model Context Protocol (MCP)
///
/// The server uses stdin and stdout. Its tools `list`, `compact`, `fork`, `stats`, `show`, `diff`, `print`, `search`,
/// `expand`, and `reset` work like the commands, but only for transcripts inside FOLDER, and for sessions of agents
/// that worked in FOLDER. The server works as if started in FOLDER, which determines the workspace, the configuration,
/// and relative paths. The options apply to every `compact` and `fork`; with --dry-run, nothing is ever written. The
/// server never asks the user; an untrusted strategy is an error.
#[derive(Debug, Parser)]
#[command(
    after_help = EXAMPLE,
    mut_arg("json", |argument| argument.hide(true)),
    mut_arg("focus", |argument| argument.hide(true))
)]
pub(crate) struct Args {
    /// The folder with the transcripts
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Allow clients to call a model through your own or approved profiles
    ///
    /// Without this option, a call that needs a model, or a strategy that may use the network, fails, because the client chose its arguments, and not you.
    #[arg(long)]
    allow_model: bool,
    #[command(flatten)]
    run_args: RunArgs,
}

pub(crate) fn run(args: Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let root = allowed_root(&args.folder, environment)?;
    let cwd = root.folder().to_owned();
    let environment = Environment { cwd, allowed_root: Some(root), ..environment.clone() };
    let server = Arc::new(McpServer::new(args.run_args, quiet, args.allow_model, environment));
    until_interrupted(async {
        let (input, output) = output::protocol();
        let service = match Handler(server).serve((FilteredInput::new(input), output)).await {
            Ok(service) => service,
            // The client closed the connection before the first message.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Done),
            Err(error) => return Err(protocol_error(&error)),
        };
        service.waiting().await.map(|_| Exit::Done).map_err(|error| protocol_error(&error))
    })
}

fn protocol_error(error: &dyn std::error::Error) -> Report {
    let hint = "an agent starts this command and sends the first message; see `jp-compact mcp --help`";
    let mut report = Report::new(Exit::Usage, "failed to serve the Model Context Protocol", Some(hint));
    report.causes.push(error.to_string());
    report
}
