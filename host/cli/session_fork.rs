//! The fork of another agent's session, with its report. `fork`, `resume`, and `mcp` use it. The view is made in
//! memory, so the source and its sidecar are only read.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::select::RequestedSelection;
use jp_compact_engine::compact::{self, OnLowSaving, Opened, RunReport, RunSettings};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::fork::session_view;
use jp_compact_images as images;
use jp_compact_llm::Models;
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::digest;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_schema::document::{ForkOverlays, ForkReport, ImageReport};
use jp_compact_sessions::{self as sessions, Agent, ForkSource, NewSession};
use jp_compact_transcripts::Format;

use crate::args::RunArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::human::{counted, grouped, relative_path};
use crate::input::{open_as, warnings};
use crate::lines::EscapedLines;
use crate::output;
use crate::reports::compaction;
use crate::session_source::SessionSource;
use crate::setup::Setup;

/// The fork that a user asked for.
pub(crate) struct SessionForkRequest<'a> {
    pub(crate) dest: Option<&'a Path>,
    /// The profile of `--compact`. The empty text is the default profile.
    pub(crate) profile: Option<&'a str>,
    pub(crate) selection: RequestedSelection,
    pub(crate) run_args: &'a RunArgs,
    pub(crate) quiet: bool,
    /// The name of the command. The new session records it as its origin.
    pub(crate) command: &'a str,
    /// Whether the agent is started with the new session.
    pub(crate) is_started: bool,
    /// An earlier fork that the new fork replaces.
    pub(crate) replace: Option<&'a OsStr>,
    /// The models of the server, and its client as the origin of the request. `None` if the user typed the command.
    pub(crate) client: Option<(Arc<Models>, Asker)>,
}

/// A new session. In a dry run, it was not written.
pub(crate) struct SessionFork {
    pub(crate) session: NewSession,
    pub(crate) document: ForkReport,
    pub(crate) text: EscapedLines,
}

/// Makes a new session with the view of another session.
pub(crate) async fn fork(
    source: SessionSource,
    request: &SessionForkRequest<'_>,
    environment: &Environment,
) -> Result<SessionFork, Report> {
    match source {
        SessionSource::Opened(source) => fork_opened(&source, false, request, environment).await,
        SessionSource::InOpencode(id) => {
            let exported = sessions::export(&id, environment).await?;
            let source = open_as(exported.path().as_os_str(), None, environment)?;
            fork_opened(&source, true, request, environment).await
        }
    }
}

async fn fork_opened(
    source: &Opened,
    in_opencode: bool,
    request: &SessionForkRequest<'_>,
    environment: &Environment,
) -> Result<SessionFork, Report> {
    let (path, format) = (source.place.path(), source.stream.format());
    for warning in warnings(&source.stream, path, environment) {
        output::warning(&warning);
    }
    let Some(agent) = Agent::of_format(format) else {
        let reason = match format {
            Format::Cline => "sessions of Cline cannot be forked".to_owned(),
            _ => format!("{format} has no sessions"),
        };
        let message = format!("failed to fork {}: {reason}", relative_path(path, environment));
        let hint = "`jp-compact print FILE --compacted --as source -o NEW` writes the smaller transcript";
        return Err(Report::new(Exit::Transcript, message, Some(hint)));
    };
    let now = request.run_args.now.unwrap_or_else(|| Clock::System.now());
    // The user of a client works in an unknown folder, so the command that resumes the session must enter its folder.
    let elsewhere = request.client.as_ref().map(|_| {
        let cwd = path.parent().unwrap_or(path).to_owned();
        Environment { cwd, ..environment.clone() }
    });
    let prepare = |sidecar| -> Result<_, Report> {
        let content = session_view(source, sidecar)?;
        let applied = sessions::applied_overlays(&content.transcript);
        let fork_source = ForkSource {
            agent,
            path,
            bytes: source.stream.bytes(),
            view: &content.bytes,
            sha256: &digest::of_bytes(source.stream.bytes()),
            command: request.command,
            applied: &applied,
        };
        let session =
            sessions::prepare(&fork_source, request.dest, now, elsewhere.as_ref().unwrap_or(environment))?;
        if request.is_started && !request.run_args.dry_run {
            session.resume.check(environment)?;
            if agent == Agent::Opencode && !in_opencode {
                let reason = "OpenCode has not imported it; `fork` prints the commands".to_owned();
                return Err(sessions::SessionError::NotStartable { reason }.into());
            }
        }
        Ok((content, applied.len(), session))
    };
    let replaced =
        request.replace.map(|fork| sessions::earlier_fork(fork, path, now, environment)).transpose()?;
    let (run, sidecar) = match request.profile {
        Some(profile) => {
            // An error after the compaction would lose a paid summary.
            prepare(None)?;
            let (run, report, sidecar) = compact_in_memory(source, profile, request, environment).await?;
            (Some((run, report)), sidecar)
        }
        None => (None, None),
    };
    let (content, overlays, mut session) = prepare(sidecar)?;
    if !request.run_args.dry_run {
        let is_imported = in_opencode && request.dest.is_none();
        sessions::install(&mut session, is_imported, environment).await?;
        if let Some(earlier) = replaced {
            let old = earlier.path().to_path_buf();
            let hidden = earlier.retire()?;
            let (old, hidden) = (quoted(&old), quoted(&hidden));
            session.notes.push(format!("the earlier fork is hidden; to restore it: mv {hidden} {old}"));
        }
    }
    let kept = images::count(&content.transcript, &content.view);
    let all = images::count(&source.stream, &project_with_overlays(&source.stream, &[]));
    let images = ImageReport { kept, lost: all.saturating_sub(kept) };
    Ok(report(source, session, (overlays, images), run, request, environment))
}

/// Compacts a session in memory. Returns the new sidecar if there are new overlays.
async fn compact_in_memory(
    source: &Opened,
    profile: &str,
    request: &SessionForkRequest<'_>,
    environment: &Environment,
) -> Result<(RunSettings, RunReport, Option<Vec<u8>>), Report> {
    let (models, asker) = match &request.client {
        Some((models, asker)) => (Arc::clone(models), *asker),
        None => (Setup::models(request.run_args, environment)?, Asker::User),
    };
    let mut setup = Setup::with(models, request.run_args, false, request.quiet, asker, environment)?;
    let config = setup.planner.config(source)?;
    let mut run = setup.planner.plan_inline(profile, request.selection, &config, OnLowSaving::Warn).await?;
    run.allow()?;
    run.io.in_memory = true;
    let outcome = compact::compact_in_memory(&run, source).await;
    setup.planner.close().await;
    let (report, sidecar) = outcome?;
    Ok((run, report, sidecar))
}

fn report(
    source: &Opened,
    session: NewSession,
    (overlays, images): (usize, ImageReport),
    run: Option<(RunSettings, RunReport)>,
    request: &SessionForkRequest<'_>,
    environment: &Environment,
) -> SessionFork {
    let source_path = source.place.path();
    let (turns, source_bytes, bytes) =
        (source.stream.turns(), source.stream.bytes().len() as u64, session.bytes.len() as u64);
    let dry_run = request.run_args.dry_run;
    let mut text = EscapedLines::single(format_args!(
        "{}: {} {} from {}, {} applied, {} bytes instead of {}",
        relative_path(&session.path, environment),
        counted(turns, "turn"),
        if dry_run { "would be copied" } else { "copied" },
        relative_path(source_path, environment),
        counted(overlays, "overlay"),
        grouped(bytes),
        grouped(source_bytes),
    ));
    let report = run.map(|(run, mut report)| {
        (report.path, report.written_to) = (session.path.clone(), session.path.clone());
        match report.nothing_to_compact {
            Some(nothing) => text.line(format_args!("  {nothing}")),
            None => text.append(&compaction::outcome_text(&report, &run)),
        }
        compaction::document(&report, &run)
    });
    if images.kept + images.lost > 0 {
        let all = counted(images.kept + images.lost, "image");
        text.line(format_args!("  {all}, {} left out (hidden by overlays)", images.lost));
    }
    text.list("  ", session.notes.iter().map(|note| format!("  note: {note}")));
    let document = ForkReport {
        path: session.path.to_string_lossy().into_owned(),
        source: source_path.to_string_lossy().into_owned(),
        dry_run,
        turns,
        cut: 0,
        overlays: ForkOverlays::default(),
        report,
        error: None,
        session: Some(session.document(source_bytes, overlays, images)),
    };
    SessionFork { session, document, text }
}
