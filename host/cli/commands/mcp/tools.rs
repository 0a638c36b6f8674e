//! The MCP tools and their descriptions for agents. Every tool must check that the transcript is inside the served folder
//! before it reads or writes anything.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use jp_compact_core::source::Reset;
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::CommandLineChoice;
use jp_compact_llm::Models;
use jp_compact_mcp::REFUSED;
use jp_compact_runtime::environment::Environment;
use jp_compact_store as store;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::arguments;
use super::tool_output::{ToolOutput, result};
use crate::args::RunArgs;
use crate::compaction::{self, RunningCompaction};
use crate::error::Report;
use crate::exit::Exit;
use crate::human::relative_path;
use crate::input::{read, stdin_not_appendable};
use crate::lines::EscapedLines;
use crate::reports::{conversation, overlays, stats};
use crate::setup::Setup;

const INSTRUCTIONS: &str = "\
Compacts conversations with language models without losing anything. It appends overlays to a transcript, and a model \
then receives a smaller view. `stats` counts the tokens. `compact` makes the conversation smaller; its `focus` names the \
information that a summary must preserve. `show` lists the overlays. `print` prints the conversation, or with `compacted` \
the view. `reset` removes overlays. Only transcripts inside the served folder can be used. The hint of an error is often \
a command for the user: pass it on.";

/// The state that all calls share.
pub(super) struct McpServer {
    run_args: RunArgs,
    quiet: bool,
    /// Whether a client may call a model.
    allow_model: bool,
    environment: Environment,
    /// The models with the budget of all calls. The first compaction opens them. Every tool that writes holds the lock,
    /// because two runs at once would not see each other's overlays.
    models: Mutex<Option<Arc<Models>>>,
}

/// Handles the requests of the protocol.
pub(super) struct Handler(pub(super) Arc<McpServer>);

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("jp-compact", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    /// Answers a request that replaces a refused line, and an unknown request, with an error.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let reason = request.params.as_ref().and_then(|params| params["reason"].as_str());
        Err(match reason {
            Some(reason) if request.method == REFUSED => ErrorData::invalid_request(reason.to_owned(), None),
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let call = Arc::clone(&self.0).call(request.name.into_owned(), arguments);
        // In a separate task, a bug fails only this call.
        let mut task = AbortOnDrop(tokio::spawn(call));
        let outcome = tokio::select! {
            joined = &mut task.0 => joined.unwrap_or_else(|_| Err(Report::bug())),
            () = context.ct.cancelled() => Err(Report::new(Exit::Interrupted, "canceled", None)),
        };
        Ok(result(outcome).into())
    }
}

/// A task that is aborted when it is dropped.
struct AbortOnDrop(JoinHandle<Result<ToolOutput, Report>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl McpServer {
    pub(super) fn new(run_args: RunArgs, quiet: bool, allow_model: bool, environment: Environment) -> Self {
        Self { run_args, quiet, allow_model, environment, models: Mutex::default() }
    }

    async fn call(self: Arc<Self>, name: String, arguments: JsonObject) -> Result<ToolOutput, Report> {
        match name.as_str() {
            "compact" => self.compact(parse(&name, arguments)?).await,
            "stats" => self.stats(&parse(&name, arguments)?),
            "show" => self.show(&parse(&name, arguments)?),
            "print" => self.print(&parse(&name, arguments)?),
            "reset" => self.reset(&parse(&name, arguments)?).await,
            _ => {
                let hint = "the tools are compact, stats, show, print and reset";
                Err(Report::new(Exit::Usage, format!("unknown tool `{name}`"), Some(hint)))
            }
        }
    }

    async fn compact(&self, arguments: arguments::Compact) -> Result<ToolOutput, Report> {
        let mut run_args = self.run_args.clone();
        let selection = arguments.selection()?;
        let profile = nonblank(arguments.profile);
        run_args.focus = nonblank(arguments.focus).or(run_args.focus);
        run_args.dry_run |= arguments.dry_run.unwrap_or_default();
        run_args.require_constraints |= arguments.require_constraints.unwrap_or_default();
        let transcript = self.check_transcript(&arguments.transcript)?;
        let mut locked_models = self.models.lock().await;
        let models = match &*locked_models {
            Some(models) => Arc::clone(models),
            None => Arc::clone(locked_models.insert(Setup::models(&self.run_args, &self.environment)?)),
        };
        let asker = Asker::Client { allowed: self.allow_model };
        let mut setup = Setup::with(models, &run_args, false, self.quiet, asker, &self.environment)?;
        let typed =
            CommandLineChoice { profile: profile.as_deref(), selection, ..CommandLineChoice::default() };
        let outcome = match RunningCompaction::start(&mut setup, &typed, &transcript).await {
            Ok(compaction) => compaction.report(&self.environment).await,
            Err(report) => Err(report),
        };
        setup.planner.close().await;
        outcome.and_then(tool_output)
    }

    async fn reset(&self, arguments: &arguments::Reset) -> Result<ToolOutput, Report> {
        let transcript = self.check_transcript(&arguments.transcript)?;
        let reset = arguments.number.map_or(Reset::All, |number| Reset::One(number.get()));
        let settings = (self.run_args.dry_run, self.run_args.lock_timeout);
        let estimator = self.run_args.counting.tokens.estimator();
        let _lock = self.models.lock().await;
        compaction::reset(&transcript, reset, estimator, settings, &self.environment).and_then(tool_output)
    }

    fn stats(&self, arguments: &arguments::Inspect) -> Result<ToolOutput, Report> {
        let read = read(&self.check_transcript(&arguments.transcript)?, &self.environment)?;
        let estimator = self.run_args.counting.tokens.estimator();
        let sums = stats::count(&read, estimator);
        let text = stats::text(&relative_path(&read.path, &self.environment), &sums, estimator);
        tool_output((stats::document(&read, &sums, estimator), text))
    }

    fn show(&self, arguments: &arguments::Inspect) -> Result<ToolOutput, Report> {
        let read = read(&self.check_transcript(&arguments.transcript)?, &self.environment)?;
        let estimator = self.run_args.counting.tokens.estimator();
        tool_output(overlays::report(&read, estimator, &self.environment))
    }

    fn print(&self, arguments: &arguments::Print) -> Result<ToolOutput, Report> {
        let form = arguments.form.as_deref().unwrap_or("text").parse();
        let form = form.map_err(|error: String| Report::new(Exit::Usage, format!("`as`: {error}"), None))?;
        let read = read(&self.check_transcript(&arguments.transcript)?, &self.environment)?;
        let mut out = Vec::new();
        conversation::write(&read, arguments.compacted.unwrap_or_default(), form, &mut out)?;
        Ok(ToolOutput { text: String::from_utf8(out).map_err(|_| Report::bug())?, json: None })
    }

    /// Checks that a transcript is inside the served folder.
    fn check_transcript(&self, transcript: &str) -> Result<OsString, Report> {
        if transcript == "-" {
            return Err(stdin_not_appendable());
        }
        // This reports the error early. Opening a transcript checks its folder again.
        store::locate(OsStr::new(transcript), &self.environment)?;
        Ok(transcript.into())
    }
}

/// Removes a blank text. A model may send one for an argument that it does not use.
fn nonblank(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn tool_output((document, text): (impl Serialize, EscapedLines)) -> Result<ToolOutput, Report> {
    let json = serde_json::to_value(document).map_err(|_| Report::bug())?;
    Ok(ToolOutput { text: text.as_str().to_owned(), json: Some(json) })
}

/// Parses the arguments of a tool.
fn parse<T: DeserializeOwned>(tool: &str, arguments: JsonObject) -> Result<T, Report> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let mut report = Report::new(Exit::Usage, format!("invalid arguments for `{tool}`"), None);
        report.causes.push(error.to_string());
        report
    })
}

/// Returns the tools of the server, with their descriptions.
fn tools() -> Vec<Tool> {
    let reading = || ToolAnnotations::new().read_only(true).open_world(false);
    let writing = || ToolAnnotations::new().read_only(false);
    vec![
        tool(
            "compact",
            "Compact a conversation",
            "Make a conversation smaller to free up context window. Use this when the conversation is getting long, or \
             before its next phase. History is never changed: overlays are appended that hide parts of all turns except \
             the last ones, and `reset` removes them. The result reports the tokens that a model receives, before and \
             after, and the overlays. The default profile calls no model. For a summary, give a `profile`, and in `focus` \
             the information to preserve. A model is called only if the user started this server with --allow-model.",
            writing().destructive(false).open_world(true),
        )
        .with_input_schema::<arguments::Compact>(),
        tool(
            "stats",
            "Count the tokens",
            "Count the tokens and bytes of a conversation, by content type and by tool: in the history, in the view, and \
             as sent by JP. Use this to decide whether compacting is useful.",
            reading(),
        )
        .with_input_schema::<arguments::Inspect>(),
        tool(
            "show",
            "List the overlays",
            "List the overlays of a conversation with their numbers, turns, kinds, strategies and savings.",
            reading(),
        )
        .with_input_schema::<arguments::Inspect>(),
        tool(
            "print",
            "Print a conversation",
            "Print a conversation, whole or with `compacted` as a model receives it. The output is not truncated; `stats` \
             reports its length in advance.",
            reading(),
        )
        .with_input_schema::<arguments::Print>(),
        tool(
            "reset",
            "Remove overlays",
            "Remove one overlay of a conversation, or all. A model then receives the hidden parts again. The events stay \
             unchanged, byte for byte.",
            writing().destructive(true).idempotent(false).open_world(false),
        )
        .with_input_schema::<arguments::Reset>(),
    ]
}

fn tool(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, Arc::<JsonObject>::default()).with_title(title).with_annotations(annotations)
}
