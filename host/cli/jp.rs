//! The answers to JP. JP starts `jp-compact` without arguments, and writes one line: `describe`, or `init` with the
//! arguments of `jp compact [ARGS]`. A command then runs in JP's workspace, and its output becomes messages. A person
//! or another program that starts the executable in this way gets the overview of the current folder, or the usage
//! hint.

use std::ffi::OsString;
use std::io::{self, BufRead as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use jp_compact_help::overview;
use jp_compact_jp_plugin::{
    Connection, CurrentConversation, HostMessage, Init, PROTOCOL_VERSION, PluginDescription, PluginMessage,
    current_conversation,
};
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::environment::Environment;
use jp_compact_terminal::colors::ColorMode;
use serde_json::{Value, json};

use crate::commands;
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::shut_down;
use crate::lines::EscapedLines;
use crate::output;

/// The maximum time to wait for JP's line. Without a line, a person or another program started the executable.
const FIRST_LINE_WAIT_MAX: Duration = Duration::from_secs(2);
/// JP's current conversation, as an argument.
const CURRENT: &str = ".";
const NAME: &str = "jp compact";
const USAGE: &str = "jp compact [OPTIONS] [CONVERSATION]...\n       jp compact <COMMAND> [CONVERSATION]";
const INTRODUCTION: &str = "\
CONVERSATION is an id, the beginning of one, a title, a path, or `.`. `.` is the current conversation of this terminal,
else the conversation that was activated last. Without CONVERSATION, `.` is used, and its id is printed.

Turns are numbered from 0. `@N` is turn N as JP numbers it, from 1: `--from @3 --to @5` is `--from 2 --to 4`.

Questions cannot be asked inside of JP. An error names the flag or the command that answers the question.";
/// The commands that need stdin or the whole process.
const REFUSED: [(&str, &str); 2] = [
    ("mcp", "a client of MCP must start `jp-compact mcp` itself"),
    ("resume", "`jp-compact resume SESSION` starts the agent in this terminal"),
];

/// Runs a command line, and reports its failure.
type RunArguments = fn(Vec<OsString>) -> Exit;

/// Answers JP, or prints the overview of the current folder or the usage hint.
pub(crate) fn serve(run: RunArguments) -> Exit {
    let first = if output::stdin_is_terminal() { None } else { first_json() };
    if first.is_none() {
        output::set_colors(ColorMode::default());
    }
    if first.is_none() && print_overview() {
        return Exit::Done;
    }
    let message = first.flatten();
    let Some(message) =
        message.filter(|message| !matches!(message, HostMessage::Unknown | HostMessage::Shutdown))
    else {
        let report = Report::no_transcript();
        output::failure(&report.failure(None), &report.text());
        return Exit::Usage;
    };
    let Ok(jp) = output::connect_jp() else { return Exit::Transcript };
    let HostMessage::Init(init) = message else {
        return end(jp.send(&PluginMessage::Describe(description())));
    };
    if jp.send(&PluginMessage::Ready).is_err() {
        return Exit::Transcript;
    }
    let exit = catch_unwind(AssertUnwindSafe(|| serve_command(&init, jp, run))).unwrap_or_else(|_| {
        report(&Report::bug());
        Exit::Bug
    });
    end(jp.exit(exit.code()))
}

/// Prints the conversations of the current folder, if there are any.
fn print_overview() -> bool {
    let Ok(environment) = Environment::of_process() else { return false };
    let Some(lines) = overview(&Clock::System.local_now(), &environment) else { return false };
    let mut text = EscapedLines::new();
    lines.iter().for_each(|line| text.line(line));
    output::text(&text).is_ok()
}

/// Returns the exit code of the process. JP reads the result from the messages, so a delivered failure is a success,
/// too.
fn end(sent: io::Result<()>) -> Exit {
    if sent.is_ok() { Exit::Done } else { Exit::Transcript }
}

fn description() -> PluginDescription {
    PluginDescription {
        name: "compact",
        version: env!("CARGO_PKG_VERSION"),
        description: env!("CARGO_PKG_DESCRIPTION"),
        command: vec!["compact"],
        author: "the maintainers of jp-compact",
        help: commands::help_of(NAME, USAGE, INTRODUCTION),
        repository: option_env!("CARGO_PKG_REPOSITORY").filter(|url| !url.is_empty()),
    }
}

fn report(report: &Report) {
    output::failure(&report.failure(None), &report.text());
}

fn serve_command(init: &Init, jp: &Connection, run: RunArguments) -> Exit {
    let arguments = match command_line(init, jp) {
        Ok(arguments) => arguments,
        Err(refusal) => {
            report(&refusal);
            return refusal.exit;
        }
    };
    run(arguments)
}

/// Returns the command line of an `init`, with the conversation that it implies.
fn command_line(init: &Init, jp: &Connection) -> Result<Vec<OsString>, Report> {
    if init.version != PROTOCOL_VERSION {
        let message = format!("JP's plugin protocol {} is not supported", init.version);
        let hint = format!(
            "this jp-compact supports version {PROTOCOL_VERSION}; run `jp-compact` directly, not through JP"
        );
        return Err(Report::new(Exit::Usage, message, Some(&hint)));
    }
    let enter = |error: io::Error| Report::of_system("failed to enter JP's workspace", &error);
    Environment::enter(&init.workspace.root).map_err(enter)?;
    let environment = Environment::of_process().map_err(enter)?;
    let mut arguments: Vec<OsString> = vec![NAME.into()];
    // The typed `--quiet` contradicts JP's log level.
    let is_quiet = init.args.iter().any(|argument| argument == "-q" || argument == "--quiet");
    arguments.extend(verbosity(init.log_level).filter(|_| !is_quiet).map(OsString::from));
    let first = arguments.len();
    arguments.extend(init.args.iter().map(OsString::from));
    refuse(&arguments)?;
    let typed = commands::position_of_conversation(&arguments, CURRENT);
    let missing = || commands::missing_conversation(&arguments);
    let mut choice = None;
    if let Some(position) = typed.or_else(missing) {
        let current = current_conversation(init.paths.user_workspace.as_deref(), &environment)?;
        let current = current.ok_or_else(|| {
            let hint = "begin a conversation with `jp query`, or give the path of one";
            Report::new(Exit::Transcript, "this workspace of JP has no conversation", Some(hint))
        })?;
        if typed.is_some() {
            arguments.remove(position);
        }
        // The verbosity precedes the typed arguments.
        arguments.insert(position.max(first), OsString::from(&current.id));
        choice = Some(current);
    }
    if commands::writes_data(&arguments) {
        jp.set_data();
    }
    if !init.options.is_empty() {
        output::warning("`plugins.command.compact.options` of JP's configuration is not read");
    }
    if let Some(choice) = &choice {
        report_choice(choice);
    }
    Ok(arguments)
}

/// Returns the option for the level of JP's log.
fn verbosity(log_level: u8) -> Option<&'static str> {
    match log_level {
        0 | 1 => None,
        2 => Some("-v"),
        3 => Some("-vv"),
        _ => Some("-vvv"),
    }
}

/// Refuses a command that needs the whole process, or stdin, which carries the protocol.
fn refuse(arguments: &[OsString]) -> Result<(), Report> {
    let command = commands::name(arguments);
    let refused = command.and_then(|command| REFUSED.iter().find(|(name, _)| command == *name));
    if let Some((name, hint)) = refused {
        let message = format!("`{NAME} {name}` cannot run inside of JP");
        return Err(Report::new(Exit::Usage, message, Some(hint)));
    }
    let has_dash = arguments.iter().any(|argument| argument == "-");
    let flag = commands::stdin_flag(arguments).map(|flag| format!("--{flag}"));
    if let Some(reader) = has_dash.then(|| "-".to_owned()).or(flag) {
        let message = format!("stdin (`{reader}`) cannot be read inside of JP");
        let hint = "give a file, or pipe into `jp-compact` itself";
        return Err(Report::new(Exit::Usage, message, Some(hint)));
    }
    Ok(())
}

/// Reports which conversation is used.
fn report_choice(current: &CurrentConversation) {
    let CurrentConversation { id, title, is_of_terminal } = current;
    let reason = if *is_of_terminal { "active in this terminal" } else { "activated last" };
    let title = title.as_deref().map(|title| format!(" \"{title}\"")).unwrap_or_default();
    let text = EscapedLines::single(format_args!("conversation jp-c{id}{title}, {reason}"));
    output::info("current conversation", &json!({ "conversation_id": id }), &text);
}

/// Returns the first line on stdin if it arrives in time and is JSON: a message, or `None` for any other JSON. The thread
/// that reads remains, and waits for `shutdown`.
fn first_json() -> Option<Option<HostMessage>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = io::stdin().lock().lines();
        let Some(Ok(line)) = lines.next() else { return };
        let is_json = serde_json::from_str::<Value>(&line).is_ok();
        // The receiver is gone after the timeout.
        if sender.send(is_json.then(|| HostMessage::parse(&line))).is_err() {
            return;
        }
        let is_shutdown = |line: &String| HostMessage::parse(line) == Some(HostMessage::Shutdown);
        // JP keeps stdin open until the command ends. A closed stdin means that JP is gone.
        while lines.next().and_then(Result::ok).is_some_and(|line| !is_shutdown(&line)) {}
        shut_down();
    });
    receiver.recv_timeout(FIRST_LINE_WAIT_MAX).ok().flatten()
}
