//! The tools: what an agent is told of them, and which command each is. A transcript is admitted before anything
//! is done with it.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use jp_compact_engine::consent::Asker;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::llm::Models;
use jp_compact_engine::store;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::answer::{Done, answer};
use super::input::REFUSED;
use super::wanted;
use crate::args::{self, ResetNumber, Running};
use crate::commands::{compact, only_read, print, read, short, show, stats};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::setup::Setup;

const INSTRUCTIONS: &str = "\
Makes conversations with language models small again without destroying anything: overlays are appended to a \
transcript, a model is sent the reduced view that they make of it, and `reset` takes them away. `stats` says where the \
tokens are; `compact` makes the conversation smaller, with `focus` for what a summary must preserve; `show` lists what \
was done; `print` shows the conversation, with `compacted` as a model is sent it. Only transcripts inside the served \
folder can be named. An error's hint is often a command for the user to run: pass it on.";

/// What all calls share.
pub(super) struct House {
    running: Running,
    quiet: bool,
    /// Whether a client may have a model asked.
    allow_model: bool,
    environment: Environment,
    /// The models with their budget, once somebody compacted. Held while a transcript is written: two runs at once
    /// would not see each other's overlays.
    writing: Mutex<Option<Arc<Models>>>,
}

/// Who answers.
pub(super) struct Server(pub(super) Arc<House>);

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let us = Implementation::new("jp-compact", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(us)
            .with_instructions(INSTRUCTIONS)
    }

    /// What stands for a line that could not be read, and what this server does not know.
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
        // A task of its own: a bug in one call is the failure of that call.
        let mut work = Ending(tokio::spawn(Arc::clone(&self.0).call(request.name.into_owned(), arguments)));
        let done = tokio::select! {
            done = &mut work.0 => done.unwrap_or_else(|_| Err(compact::bug())),
            () = context.ct.cancelled() => Err(Report::new(Exit::Interrupted, "cancelled", None)),
        };
        Ok(answer(done).into())
    }
}

/// Work that ends when nobody waits for it.
struct Ending(JoinHandle<Result<Done, Report>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl House {
    pub(super) fn new(running: Running, quiet: bool, allow_model: bool, environment: Environment) -> Self {
        Self { running, quiet, allow_model, environment, writing: Mutex::default() }
    }

    async fn call(self: Arc<Self>, name: String, arguments: JsonObject) -> Result<Done, Report> {
        match name.as_str() {
            "compact" => self.compact(wanted(&name, arguments)?).await,
            "stats" => self.stats(&wanted(&name, arguments)?),
            "show" => self.show(&wanted(&name, arguments)?),
            "print" => self.print(&wanted(&name, arguments)?),
            "reset" => self.reset(&wanted(&name, arguments)?).await,
            _ => {
                let hint = "the tools are compact, stats, show, print and reset";
                Err(Report::new(Exit::Usage, format!("there is no tool `{name}`"), Some(hint)))
            }
        }
    }

    async fn compact(&self, wanted: wanted::Compact) -> Result<Done, Report> {
        let mut args = args::Compact::of(self.running.clone());
        args.profile = said(wanted.profile);
        args.running.focus = said(wanted.focus).or(args.running.focus);
        args.running.dry_run |= wanted.dry_run.unwrap_or_default();
        let transcript = self.admit(&wanted.transcript)?;
        let mut models = self.writing.lock().await;
        let models = match &*models {
            Some(models) => Arc::clone(models),
            None => Arc::clone(models.insert(Setup::models(&self.running, &self.environment)?)),
        };
        let asker = Asker::Client { allowed: self.allow_model };
        let mut setup = Setup::with(models, &args.running, false, self.quiet, asker, &self.environment)?;
        let done = compact::one(&args, &mut setup, &transcript, &self.environment).await;
        setup.close().await;
        done.map(both)
    }

    async fn reset(&self, wanted: &wanted::Reset) -> Result<Done, Report> {
        let transcript = self.admit(&wanted.transcript)?;
        let which = wanted.number.map_or(ResetNumber::All, |number| ResetNumber::One(number.get()));
        let _alone = self.writing.lock().await;
        compact::reset(&self.running, which, &transcript, &self.environment).map(both)
    }

    fn stats(&self, wanted: &wanted::Look) -> Result<Done, Report> {
        let read = read(&self.admit(&wanted.transcript)?, &self.environment)?;
        let estimator = self.running.counting.tokens.estimator();
        let sums = stats::sums(&read, estimator);
        let text = stats::as_text(&short(&read.path, &self.environment), &sums, estimator);
        Ok(both((stats::as_json(&read, &sums, estimator), text)))
    }

    fn show(&self, wanted: &wanted::Look) -> Result<Done, Report> {
        let read = read(&self.admit(&wanted.transcript)?, &self.environment)?;
        Ok(both(show::told(&read, self.running.counting.tokens.estimator(), &self.environment)))
    }

    fn print(&self, wanted: &wanted::Print) -> Result<Done, Report> {
        let form = wanted.form.as_deref().unwrap_or("text").parse();
        let form = form.map_err(|what: String| Report::new(Exit::Usage, format!("`as`: {what}"), None))?;
        let read = read(&self.admit(&wanted.transcript)?, &self.environment)?;
        let mut out = Vec::new();
        print::write(&read, wanted.compacted.unwrap_or_default(), form, &mut out)?;
        Ok(Done { text: String::from_utf8(out).map_err(|_| compact::bug())?, json: None })
    }

    /// The transcript that is meant, if it may be meant.
    fn admit(&self, transcript: &str) -> Result<OsString, Report> {
        if transcript == "-" {
            return Err(only_read());
        }
        // Said before anything is prepared for it. What is opened later is inside the fence, too.
        store::locate(OsStr::new(transcript), &self.environment)?;
        Ok(transcript.into())
    }
}

/// Models fill in what may be left out.
fn said(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn both((json, text): (Value, Lines)) -> Done {
    Done { text: text.as_str().to_owned(), json: Some(json) }
}

/// Reads what a tool is told.
fn wanted<T: DeserializeOwned>(tool: &str, arguments: JsonObject) -> Result<T, Report> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let mut report = Report::new(Exit::Usage, format!("wrong arguments for `{tool}`"), None);
        report.causes.push(error.to_string());
        report
    })
}

/// The tools, as an agent is told of them.
fn tools() -> Vec<Tool> {
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    let writes = || ToolAnnotations::new().read_only(false);
    vec![
        tool(
            "compact",
            "Compact a conversation",
            "Make a conversation smaller, to free up context window. Use this when it is getting long, or before its \
             next phase, to continue working efficiently. History is never changed: overlays are appended that leave \
             out, of all but the last turns, what the profile names, and `reset` removes them again. The result says how \
             many tokens a model is sent, before and after, and which overlays were made or declined. Without \
             `profile` the configured one runs, which asks no model; for a summary give `profile`, and in `focus` what it \
             has to preserve. A model is asked only if the user started this server with --allow-model.",
            writes().destructive(false).open_world(true),
        )
        .with_input_schema::<wanted::Compact>(),
        tool(
            "stats",
            "Where the tokens are",
            "Show how many tokens and bytes a conversation has, how many of them JP sends a model and how many the view has, by content type \
             and by tool. Use this to see whether compacting is worth it, and what takes the room.",
            reads(),
        )
        .with_input_schema::<wanted::Look>(),
        tool(
            "show",
            "List the overlays",
            "List a conversation's overlays: their numbers, turns and kinds, which strategy made them and what each \
             saves.",
            reads(),
        )
        .with_input_schema::<wanted::Look>(),
        tool(
            "print",
            "Print a conversation",
            "Print a conversation, whole or with `compacted` as a model is sent it. It is printed to its end and may be \
             long: `stats` says how long before.",
            reads(),
        )
        .with_input_schema::<wanted::Print>(),
        tool(
            "reset",
            "Remove overlays",
            "Remove a conversation's overlays, one or all: a model is sent again what they left out. The events \
             themselves stay as they are, to the byte.",
            writes().destructive(true).idempotent(false).open_world(false),
        )
        .with_input_schema::<wanted::Reset>(),
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
