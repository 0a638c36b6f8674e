//! The MCP tools and their descriptions for agents. Every tool must check that the transcript is inside the served
//! folder before it reads or writes anything.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use jp_compact_core::select::RequestedSelection;
use jp_compact_core::source::Reset;
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::CommandLineChoice;
use jp_compact_llm::Models;
use jp_compact_mcp::{
    CompactArguments, ExpandArguments, InspectArguments, ListArguments, PrintArguments, REFUSED,
    ResetArguments, SearchArguments, ToolAnswer, changes, expand, find_text, page_of, result_schema,
    session_path, sessions_of, with_choices, with_single_types,
};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_schema::catalog::{self, NamedSchema};
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

use super::tool_output::result;
use crate::args::RunArgs;
use crate::compaction::{self, RunningCompaction};
use crate::error::Report;
use crate::exit::Exit;
use crate::human::relative_path;
use crate::input::{InputTranscript, read, stdin_not_appendable};
use crate::lines::EscapedLines;
use crate::reports::conversation::{self, PrintForm};
use crate::reports::{overlays, stats};
use crate::selection::{KeptTurns, SelectionArgs};
use crate::setup::Setup;

const INSTRUCTIONS: &str = "\
Compacts conversations with language models without losing anything. It appends overlays to a transcript, and a model \
then receives a smaller view. Your own running context does not shrink: the view takes effect when the session is \
resumed from a copy. `list` lists the sessions of this folder. `search` and `expand` give back any detail that an overlay \
hides. `diff` shows what overlays remove. `stats` counts the tokens. `compact` makes the conversation smaller; its `focus` names the \
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
struct AbortOnDrop(JoinHandle<Result<ToolAnswer, Report>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl McpServer {
    pub(super) fn new(run_args: RunArgs, quiet: bool, allow_model: bool, environment: Environment) -> Self {
        Self { run_args, quiet, allow_model, environment, models: Mutex::default() }
    }

    async fn call(self: Arc<Self>, name: String, arguments: JsonObject) -> Result<ToolAnswer, Report> {
        match name.as_str() {
            "compact" => self.compact(parse(&name, arguments)?).await,
            "list" => {
                let list: ListArguments = parse(&name, arguments)?;
                Ok(sessions_of(&self.environment.cwd, list.max, &self.environment))
            }
            "diff" => {
                let diff: InspectArguments = parse(&name, arguments)?;
                let estimator = self.run_args.counting.tokens.estimator();
                Ok(changes(self.read(&diff.transcript)?.stream.stream(), estimator))
            }
            "search" => {
                let search: SearchArguments = parse(&name, arguments)?;
                if search.query.trim().is_empty() {
                    return Err(Report::new(Exit::Usage, "the query is empty", None));
                }
                Ok(find_text(&self.raw_events(&search.transcript)?, &search))
            }
            "expand" => {
                let arguments: ExpandArguments = parse(&name, arguments)?;
                let events = self.raw_events(&arguments.transcript)?;
                expand(&events, &arguments).ok_or_else(|| {
                    let message = format!("the conversation has no event {}", arguments.event);
                    let last = events.len().saturating_sub(1);
                    let hint = format!("the events are 0 to {last}; `search` returns their numbers");
                    Report::new(Exit::Usage, message, Some(&hint))
                })
            }
            "stats" => self.stats(&parse(&name, arguments)?),
            "show" => self.show(&parse(&name, arguments)?),
            "print" => self.print(&parse(&name, arguments)?),
            "reset" => self.reset(&parse(&name, arguments)?).await,
            _ => {
                let hint = "the tools are list, compact, stats, show, diff, print, search, expand, and reset";
                Err(Report::new(Exit::Usage, format!("unknown tool `{name}`"), Some(hint)))
            }
        }
    }

    async fn compact(&self, arguments: CompactArguments) -> Result<ToolAnswer, Report> {
        let mut run_args = self.run_args.clone();
        let selection = selection(&arguments)?;
        let profile = nonblank(arguments.profile);
        run_args.focus = nonblank(arguments.focus).or(run_args.focus);
        run_args.dry_run |= arguments.dry_run.unwrap_or_default();
        run_args.require_constraints |= arguments.require_constraints.unwrap_or_default();
        let (transcript, environment) = self.check_transcript(&arguments.transcript)?;
        let mut locked_models = self.models.lock().await;
        let models = match &*locked_models {
            Some(models) => Arc::clone(models),
            None => Arc::clone(locked_models.insert(Setup::models(&self.run_args, &self.environment)?)),
        };
        let asker = Asker::Client { allowed: self.allow_model };
        let mut setup = Setup::with(models, &run_args, false, self.quiet, asker, &environment)?;
        let typed =
            CommandLineChoice { profile: profile.as_deref(), selection, ..CommandLineChoice::default() };
        let outcome = match RunningCompaction::start(&mut setup, &typed, &transcript).await {
            Ok(compaction) => compaction.report(&environment).await,
            Err(report) => Err(report),
        };
        setup.planner.close().await;
        let (document, mut text) = outcome?;
        // A running agent has its context in memory, so an overlay cannot make it smaller.
        if !document.overlays.is_empty() && !run_args.dry_run && document.tokens.jp.is_none() {
            let session = quoted(Path::new(&document.path));
            text.line(format_args!(
                "recorded; takes effect when the session is resumed from a copy: `jp-compact resume {session}`"
            ));
        }
        tool_output((document, text))
    }

    async fn reset(&self, arguments: &ResetArguments) -> Result<ToolAnswer, Report> {
        let (transcript, environment) = self.check_transcript(&arguments.transcript)?;
        let reset = arguments.number.map_or(Reset::All, |number| Reset::One(number.get()));
        let settings = (self.run_args.dry_run, self.run_args.lock_timeout);
        let estimator = self.run_args.counting.tokens.estimator();
        let _lock = self.models.lock().await;
        compaction::reset(&transcript, reset, estimator, settings, &environment).and_then(tool_output)
    }

    fn stats(&self, arguments: &InspectArguments) -> Result<ToolAnswer, Report> {
        let read = self.read(&arguments.transcript)?;
        let estimator = self.run_args.counting.tokens.estimator();
        let sums = stats::count(&read, estimator);
        let text = stats::text(&relative_path(&read.path, &self.environment), &sums, estimator);
        tool_output((stats::document(&read, &sums, estimator), text))
    }

    fn show(&self, arguments: &InspectArguments) -> Result<ToolAnswer, Report> {
        let read = self.read(&arguments.transcript)?;
        let estimator = self.run_args.counting.tokens.estimator();
        tool_output(overlays::report(&read, estimator, &self.environment))
    }

    fn print(&self, arguments: &PrintArguments) -> Result<ToolAnswer, Report> {
        let form = arguments.form.as_deref().unwrap_or("text").parse();
        let form = form.map_err(|error: String| Report::new(Exit::Usage, format!("`as`: {error}"), None))?;
        let read = self.read(&arguments.transcript)?;
        let mut out = Vec::new();
        conversation::write(&read, arguments.compacted.unwrap_or_default(), form, &mut out)?;
        let text = String::from_utf8(out).map_err(|_| Report::bug())?;
        Ok(page_of(&text, arguments.offset, arguments.max_chars))
    }

    /// Returns all raw events of a transcript, decoded.
    fn raw_events(&self, transcript: &str) -> Result<Vec<Value>, Report> {
        let mut json = Vec::new();
        conversation::write(&self.read(transcript)?, false, PrintForm::Json, &mut json)?;
        serde_json::from_slice(&json).map_err(|_| Report::bug())
    }

    fn read(&self, transcript: &str) -> Result<InputTranscript, Report> {
        let (transcript, environment) = self.check_transcript(transcript)?;
        read(&transcript, &environment)
    }

    /// Checks that a transcript is inside the served folder, or the id of a session that recorded this folder. Such a
    /// session is in the agent's own folder, and may be opened only there.
    fn check_transcript(&self, transcript: &str) -> Result<(OsString, Environment), Report> {
        if transcript == "-" {
            return Err(stdin_not_appendable());
        }
        // This reports the error early. Opening a transcript checks its folder again.
        let Err(error) = store::locate(OsStr::new(transcript), &self.environment) else {
            return Ok((transcript.into(), self.environment.clone()));
        };
        let is_id = !transcript.is_empty() && !transcript.contains(['/', '.']);
        let path = is_id.then(|| session_path(transcript, &self.environment.cwd, &self.environment));
        let Some(path) = path.flatten() else { return Err(error.into()) };
        let cwd = path.parent().unwrap_or(&path).to_path_buf();
        let root = store::allowed_root(&cwd, &self.environment)?;
        Ok((path.into(), Environment { cwd, allowed_root: Some(root), ..self.environment.clone() }))
    }
}

/// Returns the selected turns and steps. The rules are the same as on the command line.
fn selection(arguments: &CompactArguments) -> Result<RequestedSelection, Report> {
    let &CompactArguments { from, to, keep_first, keep_last, keep_steps, keep_tokens, .. } = arguments;
    let (keep_first, keep_last) = (keep_first.map(KeptTurns::Count), keep_last.map(KeptTurns::Count));
    let typed = SelectionArgs { from, to, keep_first, keep_last, keep_steps, keep_tokens };
    match typed.contradiction() {
        None => Ok(typed.selection()),
        Some((bound, keep)) => {
            let message = format!("`{bound}` and `{keep}` select the same side of the range");
            Err(Report::new(Exit::Usage, message, Some("give only one of them")))
        }
    }
}

/// Removes a blank text. A model may send one for an argument that it does not use.
fn nonblank(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn tool_output((document, text): (impl Serialize, EscapedLines)) -> Result<ToolAnswer, Report> {
    let json = serde_json::to_value(document).map_err(|_| Report::bug())?;
    Ok(ToolAnswer { text: text.as_str().to_owned(), json: Some(json) })
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
    let mut tools = vec![
        tool(
            "list",
            "List the sessions",
            "List the sessions that agents such as Claude Code and Codex recorded in this folder, and JP's conversations \
             of its workspace, newest first. The other tools accept their ids.",
            reading(),
        )
        .with_input_schema::<ListArguments>()
        .with_raw_output_schema(output_schema("list-report")),
        tool(
            "compact",
            "Compact a conversation",
            "Make a conversation smaller to free up context window. Use this when the conversation is getting long, or \
             before its next phase. History is never changed: appended overlays hide parts of all turns except \
             the last ones, and `reset` removes them. The result reports the tokens that a model receives, before and \
             after, and the overlays. The default profile calls no model. For a summary, give a `profile`, and in `focus` \
             the information to preserve. A model is called only if the user started this server with --allow-model. \
             The running context stays as it is: the result names the command that resumes a smaller copy.",
            writing().destructive(false).open_world(true),
        )
        .with_input_schema::<CompactArguments>()
        .with_raw_output_schema(output_schema("compact-report")),
        tool(
            "stats",
            "Count the tokens",
            "Count the tokens and bytes of a conversation, by content type and by tool: in the history, in the view, and \
             as sent by JP. Use this to decide whether compacting is useful.",
            reading(),
        )
        .with_input_schema::<InspectArguments>()
        .with_raw_output_schema(output_schema("stats-report")),
        tool(
            "show",
            "List the overlays",
            "List the overlays of a conversation with their numbers, turns, kinds, strategies and savings.",
            reading(),
        )
        .with_input_schema::<InspectArguments>()
        .with_raw_output_schema(output_schema("show-report")),
        tool(
            "diff",
            "Show what overlays remove",
            "List each event that overlays change, with its tokens before and after, and the overlay that changed it.",
            reading(),
        )
        .with_input_schema::<InspectArguments>(),
        tool(
            "print",
            "Print a conversation",
            "Print a conversation, whole or with `compacted` as a model receives it, in pages of at most \
             `max_chars` characters.",
            reading(),
        )
        .with_input_schema::<PrintArguments>(),
        tool(
            "search",
            "Find a text in the history",
            "Find the raw events that contain a text, including those that an overlay hides. Use this if a detail is missing: a \
             path, a number, an error message.",
            reading(),
        )
        .with_input_schema::<SearchArguments>(),
        tool(
            "expand",
            "Print one event of the history",
            "Print the whole text of one raw event, by the number that `search` returns. An overlay does not hide it.",
            reading(),
        )
        .with_input_schema::<ExpandArguments>(),
        tool(
            "reset",
            "Remove overlays",
            "Remove one overlay of a conversation, or all. A model then receives the hidden parts again. The events stay \
             unchanged, byte for byte.",
            writing().destructive(true).idempotent(false).open_world(false),
        )
        .with_input_schema::<ResetArguments>()
        .with_raw_output_schema(output_schema("reset-report")),
    ];
    for tool in &mut tools {
        let schema = Arc::make_mut(&mut tool.input_schema);
        with_single_types(schema);
        with_choices(schema, "as", &PrintForm::names().collect::<Vec<_>>());
    }
    tools
}

/// Returns the schema of a result: the document with this published schema, or a failure.
fn output_schema(name: &str) -> Arc<JsonObject> {
    let [document, failure] =
        [name, "failure"].map(|name| catalog::get(name).map(NamedSchema::json).unwrap_or_default());
    Arc::new(result_schema(document, failure))
}

fn tool(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, Arc::<JsonObject>::default()).with_title(title).with_annotations(annotations)
}
