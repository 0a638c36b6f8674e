//! `jp-compact query`: one more turn with the conversation's model, compacted before if that is wished, and after
//! it where it is due (RFD 064, "The `--compact` Flag on `query`").

use std::ffi::OsString;

use clap::Parser;
use jp_compact_core::append::Held;
use jp_compact_core::select::Wanted;
use jp_compact_engine::clock::Clock;
use jp_compact_engine::compact::{self, OnLowSaving, Opened};
use jp_compact_engine::config::Config;
use jp_compact_engine::consent::Asker;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::query;
use jp_compact_schema::Completion;
use serde_json::{Value, json};

use crate::args::Running;
use crate::commands::auto::{self, Due};
use crate::commands::{compact::named, short, until_interrupted};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::setup::Setup;
use crate::told::{as_json, as_text};
use crate::{escape, output};

/// Ask the conversation's model, and append the turn
///
/// The model is sent the view and TEXT, and is offered no tools: calls and their answers are told to it as text. Its answer is printed on stdout. With --compact the conversation is compacted before, unless that saves too little; that stands, whatever the model does. Behind the turn it is compacted where `auto` is enabled and it is due.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact query 17738399468 --compact -- Continue\n  jp-compact query 17738399468 --compact=heavy --model anthropic/claude-haiku-4-5 -- Why?"
)]
pub(crate) struct Args {
    /// A conversation folder, an events.json, or a conversation's id
    #[arg(value_name = "TRANSCRIPT")]
    transcript: OsString,
    /// What the user says
    #[arg(value_name = "TEXT", value_parser = said)]
    text: String,
    /// Compact before: with the default profile, a PROFILE, or JP's inline form
    #[arg(long, value_name = "PROFILE|SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "", hide_default_value = true)]
    compact: Option<String>,
    #[command(flatten)]
    running: Running,
}

fn said(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("a model cannot be asked nothing".into());
    }
    Ok(text.to_owned())
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    until_interrupted(async {
        let mut setup = Setup::open(&args.running, false, quiet, Asker::Query, environment)?;
        let done = hold(args, quiet, &mut setup, environment).await;
        setup.close().await;
        done.map(|()| Exit::Done)
    })
}

/// The turn: what is compacted before, the model, the append, and what is due behind it.
async fn hold(
    args: &Args,
    quiet: bool,
    setup: &mut Setup<'_>,
    environment: &Environment,
) -> Result<(), Report> {
    let say = |text: &Lines| {
        if !quiet && !args.running.json {
            output::people(text);
        }
    };
    let mut opened = compact::open_as(&args.transcript, args.running.written.format, environment)?;
    let config = setup.config(&opened)?;
    let mut json = json!({
        "path": opened.place.path().to_string_lossy(),
        "conversation_id": opened.place.id(),
        "dry_run": args.running.dry_run,
        "compaction": null,
        "turn": null,
        "model": null,
        "answer": null,
        "usage": null,
        "auto": null,
        "error": null,
    });
    if let Some(form) = &args.compact {
        let (told, text) = before(form, setup, &config, &opened, environment).await?;
        json["compaction"] = told;
        say(&text);
        opened = compact::open_as(&args.transcript, args.running.written.format, environment)?;
    }
    let held = if args.running.dry_run {
        let path = short(opened.place.path(), environment);
        say(&Lines::of(format_args!("{path}: no model is asked by a dry run, and no turn appended")));
        query::check(&opened).map_err(Report::from)
    } else {
        turn(args, setup, &config, &opened, &mut json).await
    };
    if held.is_ok() && !args.running.dry_run && config.auto.enabled {
        let due = Due {
            profile: None,
            context_window: None,
            estimator: args.running.counting.tokens.estimator(),
            unasked: config.unasked(),
        };
        let done = auto::one(&due, setup, &args.transcript, environment).await;
        match done {
            Ok((told, text)) => {
                if told["due"] == true || told["always"] != json!([]) {
                    say(&text);
                }
                json["auto"] = told;
            }
            Err(report) => return Err(failed(args, json, report)?),
        }
    }
    match held {
        Err(report) => Err(failed(args, json, report)?),
        Ok(()) if args.running.json => Ok(output::json_line(&json)?),
        Ok(()) => Ok(()),
    }
}

/// Compacts by a profile or a form; what saves too little is not done.
async fn before(
    form: &str,
    setup: &mut Setup<'_>,
    config: &Config,
    opened: &Opened,
    environment: &Environment,
) -> Result<(Value, Lines), Report> {
    let planned = named(form, config)?;
    let strategies = setup.prepare_calls(&planned).await?;
    let wanted = Wanted { from: None, to: None, keep: config.keep(planned.profile) };
    let run = setup.run(strategies, config, wanted, OnLowSaving::Decline);
    let report = compact::compact(&run, opened).await?;
    Ok((as_json(&report, &run), as_text(&report, &run, environment)))
}

/// Asks, prints and appends. What was answered is printed before it is appended: it was paid for.
async fn turn(
    args: &Args,
    setup: &Setup<'_>,
    config: &Config,
    opened: &Opened,
    json: &mut Value,
) -> Result<(), Report> {
    let clock = args.running.now.map_or(Clock::System, Clock::Fixed);
    let asked = clock.now();
    let allowed = query::allow(&setup.models, config, &setup.consent(config))?;
    let answer = query::ask(opened, &args.text, &setup.models, &allowed).await?;
    let Completion { text, model, usage } = &answer;
    json["model"] = model.as_str().into();
    json["answer"] = text.as_str().into();
    json["usage"] = json!(usage);
    if !args.running.json {
        output::data(|out| writeln!(out, "{}", escape::text(text.trim_end())))?;
    }
    let held = Held { request: &args.text, asked, response: text, answered: clock.now() };
    query::append(opened, &held, args.running.lock_timeout).await?;
    json["turn"] = opened.stream.turns().into();
    Ok(())
}

/// A failure, told to a script with what was done before it.
fn failed(args: &Args, mut json: Value, report: Report) -> Result<Report, Report> {
    if args.running.json {
        json["error"] = json!(report);
        output::json_line(&json)?;
    }
    Ok(report)
}
