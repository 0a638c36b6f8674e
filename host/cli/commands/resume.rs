//! `jp-compact resume`: forks and compacts a session, and replaces its own process with the agent that resumes the
//! fork.

use std::ffi::OsString;

use clap::Parser;
use jp_compact_runtime::environment::Environment;
use jp_compact_transcripts::Format;
use serde_json::json;

use crate::args::RunArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::lines::EscapedLines;
use crate::output;
use crate::selection::SelectionArgs;
use crate::session_fork::{self, SessionForkRequest};
use crate::session_source::{SessionSource, session_source};

/// Compact a copy of a session and resume it in its agent
///
/// Does the same as `fork SESSION --compact` followed by the command that it prints. The original session is not
/// changed.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact resume 3dee0fbb\n  jp-compact resume 3dee0fbb --compact=heavy --dry-run"
)]
pub(crate) struct Args {
    /// A session: its path, or its id in `list`
    #[arg(value_name = "SESSION")]
    session: OsString,
    /// Compact the copy with this profile or JP's inline form [default: the default profile]
    #[arg(long, value_name = "PROFILE|SPEC", default_value = "", hide_default_value = true)]
    compact: String,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    run_args: RunArgs,
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let source = session_source(&args.session, args.run_args.input.format, environment)?;
    if matches!(&source, SessionSource::Opened(source) if source.stream.format() == Format::Jp) {
        let hint = "`jp-compact TRANSCRIPT` compacts a conversation of JP, and `jp query` continues it";
        return Err(Report::new(
            Exit::Usage,
            "failed to resume: JP's conversations are compacted in place",
            Some(hint),
        ));
    }
    let request = SessionForkRequest {
        dest: None,
        profile: Some(&args.compact),
        selection: args.selection.selection(),
        run_args: &args.run_args,
        quiet,
        command: "resume",
        is_started: true,
        replace: None,
        client: None,
    };
    let mut fork = until_interrupted(async { session_fork::fork(source, &request, environment).await })?;
    if !args.run_args.dry_run {
        // The folder can be foreign.
        fork.text.line(format_args!("  resumed by: {}", fork.session.resume));
    }
    if args.run_args.json {
        output::json_line(&fork.document).map_err(|error| {
            Report::from(error)
                .with_hint("`jp-compact list --forks` lists the forks that were made".to_owned())
        })?;
    } else if !quiet {
        output::info("forked", &json!({ "report": fork.document }), &fork.text);
    }
    if args.run_args.dry_run {
        if !args.run_args.json {
            output::texts([EscapedLines::single(&fork.session.resume)])?;
        }
        return Ok(Exit::Done);
    }
    let error = fork.session.resume.exec(environment);
    let mut report = Report::of_system("failed to start the agent", &error);
    report = report.with_hint(format!("the fork is ready: `{}`", fork.session.resume));
    Err(if args.run_args.json { report.printed() } else { report })
}
