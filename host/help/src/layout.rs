//! The layout of the help: headings, and for `-h` the common options, short texts, and two examples. `--help` shows
//! every option. The layout is a separate table, so that a shared option looks the same in all commands. The table must
//! not change how a command line is parsed.

use std::ffi::OsString;

use clap::builder::styling::Style;
use clap::{Arg, ArgAction, ColorChoice, Command};
use jp_compact_terminal::colors::ColorMode;

use crate::examples::EXAMPLES;
use crate::texts::{ABOUTS, COMMON, HEADINGS, TEXTS};

/// The heading of options that are listed under no other heading.
const OTHER_OPTIONS: &str = "Advanced";
/// The maximum number of options that `-h` lists without headings.
const UNGROUPED_MAX: usize = 7;
/// The widest line of `-h`.
const COLUMNS: usize = 80;

/// The form of the help: short for `-h`, long for `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
}

/// Returns the command line with the layout and the colors of its help. `arguments` are the arguments of the process.
#[must_use]
pub fn with_layout(cli: Command, arguments: &[OsString]) -> Command {
    let color = match typed_color(arguments) {
        ColorMode::Auto => ColorChoice::Auto,
        ColorMode::Always => ColorChoice::Always,
        ColorMode::Never => ColorChoice::Never,
    };
    let is_long = arguments.iter().any(|argument| argument == "--help" || argument == "help");
    if is_long {
        return arrange(cli.color(color), "", Form::Long);
    }
    let names_command = arguments.iter().skip(1).any(|argument| cli.find_subcommand(argument).is_some());
    let cli = arrange(cli.color(color), "", Form::Short);
    // The help of the command itself has the whole description.
    if names_command { cli } else { cli.mut_subcommands(with_short_about) }
}

/// Returns a command with its description in the list of commands.
fn with_short_about(command: Command) -> Command {
    match ABOUTS.iter().find(|(name, _)| *name == command.get_name()) {
        Some((_, about)) => command.about(*about),
        None => command,
    }
}

/// Returns the value of `--color`. The raw arguments are searched, because errors of the command line are colored, too.
#[must_use]
pub fn typed_color(arguments: &[OsString]) -> ColorMode {
    let following = arguments.iter().skip(1).map(Some).chain([None]);
    let value = arguments.iter().zip(following).filter_map(|(argument, next)| {
        match argument.to_str()?.strip_prefix("--color")? {
            "" => next?.to_str(),
            value => value.strip_prefix('='),
        }
    });
    value.filter_map(ColorMode::of_name).last().unwrap_or_default()
}

/// Returns the command line with the layout of `--help`.
pub fn with_long_layout(cli: Command) -> Command {
    arrange(cli, "", Form::Long)
}

fn arrange(command: Command, path: &str, form: Form) -> Command {
    let common = COMMON.iter().find(|(command, _)| *command == path).map(|(_, common)| *common);
    let is_common = |id: &str| common.is_none_or(|common| common.contains(&id));
    let is_shown = |arg: &Arg| {
        !arg.is_hide_set() && (arg.is_positional() || !is_global(arg) && is_common(arg.get_id().as_str()))
    };
    let shown = command.get_arguments().filter(|arg| is_shown(arg) && !arg.is_positional()).count();
    let is_grouped = form == Form::Long || shown > UNGROUPED_MAX;
    let mut command = command.mut_args(|arg| {
        let shown = is_shown(&arg);
        let arg = with_heading(arg, is_grouped);
        if form == Form::Short { shortened(arg, shown) } else { arg }
    });
    command = command.disable_help_flag(true).arg(help_flag(is_grouped));
    command = with_examples(command, path, form);
    if form == Form::Short {
        // `jp-compact help COMMAND` and `--version` still work; every program has them.
        command = command.disable_help_subcommand(true);
        if path.is_empty() {
            command =
                command.disable_version_flag(true).mut_arg("transcripts", |arg| arg.hide_short_help(true));
        }
    }
    command.mut_subcommands(|subcommand| {
        let name = subcommand.get_name();
        let path = if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
        arrange(subcommand, &path, form)
    })
}

/// Returns whether an option is one of those that every command has.
fn is_global(arg: &Arg) -> bool {
    ["verbose", "quiet", "log_format", "color"].contains(&arg.get_id().as_str())
}

fn with_heading(arg: Arg, is_grouped: bool) -> Arg {
    if arg.is_positional() {
        return arg;
    }
    let id = arg.get_id().as_str();
    let listed = HEADINGS.iter().find(|(_, ids)| ids.contains(&id));
    let heading = listed.map_or(OTHER_OPTIONS, |(heading, _)| *heading);
    let is_own = arg.get_help_heading().is_some_and(|own| ["Gates", "Records", "Evaluation"].contains(&own));
    if is_own && is_grouped { arg } else { arg.help_heading(is_grouped.then_some(heading)) }
}

/// Returns an option for `-h`: hidden if it is rare, and with a text that fits one line.
fn shortened(arg: Arg, shown: bool) -> Arg {
    let id = arg.get_id().to_string();
    let mut arg = arg.hide_short_help(!shown);
    if let Some((_, value, text)) = TEXTS.iter().find(|(other, _, _)| *other == id) {
        arg = arg.help(*text);
        if arg.get_action().takes_values() {
            arg = arg.hide_possible_values(true).hide_default_value(true);
        }
        if !value.is_empty() {
            arg = arg.value_name(*value);
        }
    }
    arg
}

fn help_flag(is_grouped: bool) -> Arg {
    let flag = Arg::new("help").short('h').long("help").action(ArgAction::Help);
    let flag = flag.help("Print help; `--help` shows every option").display_order(999);
    flag.help_heading(is_grouped.then_some("Output"))
}

/// Adds two examples to `-h`. `--help` has all examples of the command.
fn with_examples(command: Command, path: &str, form: Form) -> Command {
    let Some((_, examples)) = EXAMPLES.iter().find(|(command, _)| *command == path) else { return command };
    debug_assert!(examples.iter().all(|example| example.len() + 2 <= COLUMNS), "{path}");
    let bold = if form == Form::Short { Style::new().bold() } else { Style::new() };
    let examples = format!("{bold}Examples:{bold:#}\n  {}\n  {}", examples[0], examples[1]);
    if form == Form::Long {
        let has_own = command.get_after_help().is_some() || command.get_after_long_help().is_some();
        return if has_own { command } else { command.after_help(examples) };
    }
    command.after_help(examples)
}
