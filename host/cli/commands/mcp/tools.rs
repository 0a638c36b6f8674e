//! The MCP tools and their descriptions for agents. Before a tool reads or writes anything, it must check that the
//! transcript is inside the served folder, or is a session of an agent that worked in this folder.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use jp_compact_core::select::RequestedSelection;
use jp_compact_core::source::Reset;
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::CommandLineChoice;
use jp_compact_engine::session_counts::add_counts;
use jp_compact_llm::Models;
use jp_compact_mcp::{
    ClientChoice, CompactAnswer, CompactArguments, ExpandArguments, ForkArguments, INSTRUCTIONS,
    InspectArguments, ListArguments, PrintArguments, REFUSED, ReadTranscript, ResetArguments,
    SearchArguments, ToolAnswer, ToolEffect, changes, expand, find_text, page_of, session_path, sessions_of,
    takes_effect, tool_names, tools,
};
use jp_compact_reports::stats;
use jp_compact_runtime::clock::Clock;
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

use super::tool_output::result;
use crate::args::RunArgs;
use crate::compaction::{self, RunningCompaction};
use crate::error::Report;
use crate::exit::Exit;
use crate::human::relative_path;
use crate::input::{InputTranscript, open_as, read};
use crate::lines::EscapedLines;
use crate::reports::conversation::{self, PrintForm};
use crate::reports::overlays;
use crate::selection::{KeptTurns, SelectionArgs};
use crate::session_fork::{self, SessionForkRequest};
use crate::session_source::SessionSource;
use crate::setup::Setup;

/// The state that all calls share.
pub(super) struct McpServer {
    run_args: RunArgs,
    quiet: bool,
    /// Whether a client may call a model.
    allow_model: bool,
    environment: Environment,
    /// The models with the budget of all calls. The first `compact` or `fork` opens them. Every tool that writes holds
    /// the lock, because two runs at once would not see each other's overlays.
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

    /// Answers an unknown request with an error. A line that the input refuses arrives here, too, replaced by the
    /// request `REFUSED`.
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
        Ok(ListToolsResult::with_all_items(listed_tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let call = Arc::clone(&self.0).call(request.name.into_owned(), arguments);
        // The call runs in a separate task, so that a bug fails only this call.
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
            "fork" => self.fork(parse(&name, arguments)?).await,
            "list" => {
                let list: ListArguments = parse(&name, arguments)?;
                Ok(sessions_of(&self.environment.cwd, list.max, add_counts, &self.environment))
            }
            "diff" => {
                let diff: InspectArguments = parse(&name, arguments)?;
                let estimator = self.run_args.counting.tokens.estimator(&self.environment)?;
                let InputTranscript { path, id, stream } = self.read(&diff.transcript)?;
                let read = ReadTranscript { path: &path, id: id.as_deref(), stream: &stream };
                Ok(changes(read, estimator))
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
                    let hint = match events.len().checked_sub(1) {
                        Some(last) => format!("the events are 0 to {last}; `search` returns their numbers"),
                        None => "the conversation has no events".to_owned(),
                    };
                    Report::new(Exit::Usage, message, Some(&hint))
                })
            }
            "stats" => self.stats(&parse(&name, arguments)?),
            "show" => self.show(&parse(&name, arguments)?),
            "print" => self.print(&parse(&name, arguments)?),
            "reset" => self.reset(&parse(&name, arguments)?).await,
            _ => {
                let hint = format!("the tools are {}", tool_names());
                Err(Report::new(Exit::Usage, format!("unknown tool `{name}`"), Some(&hint)))
            }
        }
    }

    async fn compact(&self, arguments: CompactArguments) -> Result<ToolAnswer, Report> {
        let selection = selection(&arguments)?;
        let choice = ClientChoice::new(&arguments).map_err(|reason| {
            Report::new(Exit::Usage, reason, Some("`jp-compact strategy list` lists the strategies"))
        })?;
        let mut run_args = self.client_run_args(arguments.focus, arguments.dry_run);
        run_args.require_constraints |= arguments.require_constraints.unwrap_or_default();
        let (transcript, environment) = self.check_transcript(&arguments.transcript)?;
        let mut locked_models = self.models.lock().await;
        let models = self.shared_models(&mut locked_models)?;
        let mut setup = Setup::with(models, &run_args, false, self.quiet, self.asker(), &environment)?;
        let typed = CommandLineChoice {
            strategies: &choice.strategies,
            profile: choice.profile.as_deref(),
            inline: choice.inline.as_deref(),
            selection,
        };
        let outcome = match RunningCompaction::start(&mut setup, &typed, &transcript).await {
            Ok(compaction) => compaction.report(&environment).await,
            Err(report) => Err(report),
        };
        setup.planner.close().await;
        let (report, mut text) = outcome?;
        let takes_effect = takes_effect(&report);
        if !report.overlays.is_empty() && !run_args.dry_run {
            text.line(&takes_effect);
        }
        tool_output((CompactAnswer { report, takes_effect }, text))
    }

    /// Copies a session of the served folder to a new session next to it. Refuses a path, because the client could name
    /// any file: its content would decide the folder of the new session, and the files next to it would be copied.
    async fn fork(&self, arguments: ForkArguments) -> Result<ToolAnswer, Report> {
        let session = self.session(&arguments.transcript)?.ok_or_else(|| {
            let message = format!("no session of this folder has the id `{}`", arguments.transcript);
            let hint = "`list` lists the ids; JP's conversations are compacted in place, with `compact`";
            Report::new(Exit::Transcript, message, Some(hint))
        })?;
        let (path, environment) = self.inside_own_folder(session)?;
        let run_args = self.client_run_args(arguments.focus, arguments.dry_run);
        let (keep_last, keep_steps) = (arguments.keep_last.map(KeptTurns::Count), arguments.keep_steps);
        let mut locked_models = self.models.lock().await;
        let models = self.shared_models(&mut locked_models)?;
        let request = SessionForkRequest {
            dest: None,
            profile: nonblank(arguments.profile.as_deref()),
            selection: SelectionArgs { keep_last, keep_steps, ..SelectionArgs::default() }.selection(),
            run_args: &run_args,
            quiet: self.quiet,
            command: "mcp",
            is_started: false,
            replace: None,
            client: Some((models, self.asker())),
        };
        let source = SessionSource::Opened(Box::new(open_as(&path, None, &environment)?));
        let fork = session_fork::fork(source, &request, &environment).await?;
        let mut text = fork.text;
        if !run_args.dry_run {
            text.line(format_args!("the user resumes the copy with: {}", fork.session.resume));
        }
        tool_output((fork.document, text))
    }

    /// Returns the options of a call. With the server's `--dry-run`, no call writes.
    fn client_run_args(&self, focus: Option<String>, dry_run: Option<bool>) -> RunArgs {
        let mut run_args = self.run_args.clone();
        run_args.focus = nonblank(focus).or(run_args.focus);
        run_args.dry_run |= dry_run.unwrap_or_default();
        run_args
    }

    fn asker(&self) -> Asker {
        Asker::Client { allowed: self.allow_model }
    }

    /// Opens the models for the first call.
    fn shared_models(&self, locked: &mut Option<Arc<Models>>) -> Result<Arc<Models>, Report> {
        Ok(match locked {
            Some(models) => Arc::clone(models),
            None => Arc::clone(locked.insert(Setup::models(&self.run_args, &self.environment)?)),
        })
    }

    async fn reset(&self, arguments: &ResetArguments) -> Result<ToolAnswer, Report> {
        let (transcript, environment) = self.check_transcript(&arguments.transcript)?;
        let reset = arguments.number.map_or(Reset::All, |number| Reset::One(number.get()));
        let estimator = self.run_args.counting.tokens.estimator(&self.environment)?;
        let _lock = self.models.lock().await;
        compaction::reset(&transcript, reset, estimator, &self.run_args, &environment).and_then(tool_output)
    }

    fn stats(&self, arguments: &InspectArguments) -> Result<ToolAnswer, Report> {
        let read = self.read(&arguments.transcript)?;
        let estimator = self.run_args.counting.tokens.estimator(&self.environment)?;
        let sums = stats::count(&read.stream, estimator);
        let text = stats::text(&relative_path(&read.path, &self.environment), &sums, estimator, None);
        tool_output((stats::document((&read.path, read.id.as_deref()), &sums, estimator), text))
    }

    fn show(&self, arguments: &InspectArguments) -> Result<ToolAnswer, Report> {
        let read = self.read(&arguments.transcript)?;
        let estimator = self.run_args.counting.tokens.estimator(&self.environment)?;
        tool_output(overlays::report(&read, estimator, &self.environment, &Clock::System.local_now()))
    }

    fn print(&self, arguments: &PrintArguments) -> Result<ToolAnswer, Report> {
        let form = nonblank(arguments.form.as_deref()).unwrap_or("text").parse();
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

    /// Checks that a transcript is inside the served folder, or the id of a session whose agent worked in this folder.
    /// Such a session is in the agent's own folder, and may be opened only there.
    fn check_transcript(&self, transcript: &str) -> Result<(OsString, Environment), Report> {
        if transcript == "-" {
            return Err(stdin_refused());
        }
        // This reports the error early. Opening a transcript checks its folder again.
        let Err(error) = store::locate(OsStr::new(transcript), &self.environment) else {
            return Ok((transcript.into(), self.environment.clone()));
        };
        match self.session(transcript)? {
            Some(path) => self.inside_own_folder(path),
            None => Err(error.into()),
        }
    }

    /// Returns the file of a session that recorded the served folder, by its id.
    fn session(&self, id: &str) -> Result<Option<PathBuf>, Report> {
        if id == "-" {
            return Err(stdin_refused());
        }
        let is_id = !id.is_empty() && !id.contains(['/', '.']);
        Ok(is_id.then(|| session_path(id, &self.environment.cwd, &self.environment)).flatten())
    }

    /// Returns a session with an environment in which only its folder may be read. The served folder stays the current
    /// folder, so its configuration and the server's relative options apply.
    fn inside_own_folder(&self, path: PathBuf) -> Result<(OsString, Environment), Report> {
        let root = store::allowed_root(path.parent().unwrap_or(&path), &self.environment)?;
        Ok((path.into(), Environment { allowed_root: Some(root), ..self.environment.clone() }))
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

/// Returns the error of the transcript `-`. Stdin carries the protocol.
fn stdin_refused() -> Report {
    let hint = "`list` lists the ids of the sessions";
    Report::new(Exit::Usage, "stdin (`-`) cannot be read by the server", Some(hint))
}

/// Removes a blank text. A model may send one for an argument that it does not use.
fn nonblank<T: AsRef<str>>(text: Option<T>) -> Option<T> {
    text.filter(|text| !text.as_ref().trim().is_empty())
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

/// Returns the tools of the server.
fn listed_tools() -> Vec<Tool> {
    let forms: Vec<_> = PrintForm::names().collect();
    let listed = tools(&forms).into_iter().map(|tool| {
        let annotations = match tool.effect {
            ToolEffect::Reads => ToolAnnotations::new().read_only(true).open_world(false),
            ToolEffect::Adds => ToolAnnotations::new().read_only(false).destructive(false).open_world(true),
            ToolEffect::Removes => {
                ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(false)
            }
        };
        Tool::new(tool.name, tool.description, Arc::new(tool.input))
            .with_title(tool.title)
            .with_annotations(annotations)
            .with_raw_output_schema(Arc::new(tool.output))
    });
    listed.collect()
}
