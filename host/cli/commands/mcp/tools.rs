//! The MCP tools and their descriptions for agents. Every tool must check that the transcript is inside the served folder
//! before it does anything else.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use jp_compact_core::source::Reset;
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::Typed;
use jp_compact_llm::Models;
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
use super::input::REFUSED;
use super::tool_output::{ToolOutput, result};
use crate::args::RunArgs;
use crate::compaction::{self, RunningCompaction};
use crate::error::Report;
use crate::exit::Exit;
use crate::human::short;
use crate::input::{read, stdin_is_only_read};
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
    running: RunArgs,
    quiet: bool,
    /// Whether a client may call a model.
    allow_model: bool,
    environment: Environment,
    /// The models with their budget, after the first compaction. Locked during a write, because two runs at once would not
    /// see each other's overlays.
    writing: Mutex<Option<Arc<Models>>>,
}

/// Handles the requests of the protocol.
pub(super) struct Handler(pub(super) Arc<McpServer>);

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let us = Implementation::new("jp-compact", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(us)
            .with_instructions(INSTRUCTIONS)
    }

    /// Answers the replacement of a rejected line, and unknown requests, with an error.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let what = request.params.as_ref().and_then(|params| params["what"].as_str());
        Err(match what.filter(|_| request.method == REFUSED) {
            Some(what) => ErrorData::invalid_request(what.to_owned(), None),
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
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
        // In a separate task, a bug fails only this call.
        let mut work =
            AbortOnDrop(tokio::spawn(Arc::clone(&self.0).call(request.name.into_owned(), arguments)));
        let done = tokio::select! {
            done = &mut work.0 => done.unwrap_or_else(|_| Err(Report::bug())),
            () = context.ct.cancelled() => Err(Report::new(Exit::Interrupted, "cancelled", None)),
        };
        Ok(result(done).into())
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
    pub(super) fn new(running: RunArgs, quiet: bool, allow_model: bool, environment: Environment) -> Self {
        Self { running, quiet, allow_model, environment, writing: Mutex::default() }
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
        let mut running = self.running.clone();
        let selection = arguments.selection()?;
        let profile = nonblank(arguments.profile);
        running.focus = nonblank(arguments.focus).or(running.focus);
        running.dry_run |= arguments.dry_run.unwrap_or_default();
        let transcript = self.admit(&arguments.transcript)?;
        let mut models = self.writing.lock().await;
        let models = match &*models {
            Some(models) => Arc::clone(models),
            None => Arc::clone(models.insert(Setup::models(&self.running, &self.environment)?)),
        };
        let asker = Asker::Client { allowed: self.allow_model };
        let mut setup = Setup::with(models, &running, false, self.quiet, asker, &self.environment)?;
        let typed = Typed { profile: profile.as_deref(), selection, ..Typed::default() };
        let done = match RunningCompaction::start(&mut setup, &typed, &transcript).await {
            Ok(work) => work.report(&self.environment).await,
            Err(report) => Err(report),
        };
        setup.planner.close().await;
        done.and_then(both)
    }

    async fn reset(&self, arguments: &arguments::Reset) -> Result<ToolOutput, Report> {
        let transcript = self.admit(&arguments.transcript)?;
        let which = arguments.number.map_or(Reset::All, |number| Reset::One(number.get()));
        let settings = (self.running.dry_run, self.running.lock_timeout);
        let _alone = self.writing.lock().await;
        let estimator = self.running.counting.tokens.estimator();
        compaction::reset(&transcript, which, estimator, settings, &self.environment).and_then(both)
    }

    fn stats(&self, arguments: &arguments::Look) -> Result<ToolOutput, Report> {
        let read = read(&self.admit(&arguments.transcript)?, &self.environment)?;
        let estimator = self.running.counting.tokens.estimator();
        let sums = stats::sums(&read, estimator);
        let text = stats::text(&short(&read.path, &self.environment), &sums, estimator);
        both((stats::document(&read, &sums, estimator), text))
    }

    fn show(&self, arguments: &arguments::Look) -> Result<ToolOutput, Report> {
        let read = read(&self.admit(&arguments.transcript)?, &self.environment)?;
        both(overlays::report(&read, self.running.counting.tokens.estimator(), &self.environment))
    }

    fn print(&self, arguments: &arguments::Print) -> Result<ToolOutput, Report> {
        let form = arguments.form.as_deref().unwrap_or("text").parse();
        let form = form.map_err(|what: String| Report::new(Exit::Usage, format!("`as`: {what}"), None))?;
        let read = read(&self.admit(&arguments.transcript)?, &self.environment)?;
        let mut out = Vec::new();
        conversation::write(&read, arguments.compacted.unwrap_or_default(), form, &mut out)?;
        Ok(ToolOutput { text: String::from_utf8(out).map_err(|_| Report::bug())?, json: None })
    }

    /// Checks that a transcript is inside the served folder.
    fn admit(&self, transcript: &str) -> Result<OsString, Report> {
        if transcript == "-" {
            return Err(stdin_is_only_read());
        }
        // This reports the error early. Opening a transcript checks its folder again.
        store::locate(OsStr::new(transcript), &self.environment)?;
        Ok(transcript.into())
    }
}

/// Removes blank texts, because models fill in optional arguments.
fn nonblank(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn both((document, text): (impl Serialize, EscapedLines)) -> Result<ToolOutput, Report> {
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

/// The tools with their descriptions.
fn tools() -> Vec<Tool> {
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    let writes = || ToolAnnotations::new().read_only(false);
    vec![
        tool(
            "compact",
            "Compact a conversation",
            "Make a conversation smaller to free up context window. Use this when the conversation is getting long, or \
             before its next phase. History is never changed: overlays are appended that hide parts of all turns except \
             the last ones, and `reset` removes them. The result reports the tokens that a model receives, before and \
             after, and the overlays. The default profile calls no model. For a summary, give a `profile`, and in `focus` \
             the information to preserve. A model is called only if the user started this server with --allow-model.",
            writes().destructive(false).open_world(true),
        )
        .with_input_schema::<arguments::Compact>(),
        tool(
            "stats",
            "Count the tokens",
            "Count the tokens and bytes of a conversation, by content type and by tool: in the history, in the view, and \
             as sent by JP. Use this to decide whether compacting is useful.",
            reads(),
        )
        .with_input_schema::<arguments::Look>(),
        tool(
            "show",
            "List the overlays",
            "List the overlays of a conversation with their numbers, turns, kinds, strategies and savings.",
            reads(),
        )
        .with_input_schema::<arguments::Look>(),
        tool(
            "print",
            "Print a conversation",
            "Print a conversation, whole or with `compacted` as a model receives it. The output is not truncated; `stats` \
             reports its length in advance.",
            reads(),
        )
        .with_input_schema::<arguments::Print>(),
        tool(
            "reset",
            "Remove overlays",
            "Remove one overlay of a conversation, or all. A model then receives the hidden parts again. The events stay \
             unchanged, byte for byte.",
            writes().destructive(true).idempotent(false).open_world(false),
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
