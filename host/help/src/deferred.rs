//! The arguments of a command, declared only if a command line uses the command. A declaration of all commands takes
//! longer than the rest of the parsing. Help, completions, and errors need all declarations, so only [`parse`] defers.

use std::cell::Cell;
use std::ffi::OsString;
use std::ops::Deref;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, CommandFactory, Error, FromArgMatches, Id};

thread_local! {
    /// Whether the declarations of this thread are deferred.
    static DEFERS: Cell<bool> = const { Cell::new(false) };
}

/// Parses a command line. `arguments` begin with the name of the program.
///
/// # Errors
/// The command line is invalid, or requests the help or the version.
pub fn parse<T: CommandFactory>(arguments: &[OsString]) -> Result<ArgMatches, Error> {
    let matches = match parser::<T>().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayVersion => return Err(error),
        // The complete declaration finds the same error, with its complete text.
        Err(_) => T::command().try_get_matches_from(arguments)?,
    };
    reject_options_before_command::<T>(&matches)?;
    Ok(matches)
}

/// Returns the position of the first argument `text` that is the value of one of these parameters of the command.
#[must_use]
pub fn position_of_value<T: CommandFactory>(
    arguments: &[OsString],
    text: &str,
    ids: &[&str],
) -> Option<usize> {
    const PROBE: &str = "the probed argument";
    let has_probe = |matches: &ArgMatches, id| {
        let values = matches.try_get_raw(id).ok().flatten();
        values.is_some_and(|mut values| values.any(|value| value == PROBE))
    };
    let is_value = |position: &usize| {
        let mut arguments = arguments.to_vec();
        arguments[*position] = PROBE.into();
        let Ok(matches) = parse::<T>(&arguments) else { return false };
        let mut innermost = &matches;
        while let Some((_, matches)) = innermost.subcommand() {
            innermost = matches;
        }
        ids.iter().any(|id| has_probe(innermost, id))
    };
    (0..arguments.len()).filter(|position| arguments[*position] == text).find(is_value)
}

/// Rejects `jp-compact --keep-last 1 print ...`. clap would parse the option and ignore it.
fn reject_options_before_command<T: CommandFactory>(matches: &ArgMatches) -> Result<(), Error> {
    let Some(command) = matches.subcommand_name() else { return Ok(()) };
    let cli = parser::<T>();
    let precedes_command = |argument: &&Arg| {
        !argument.is_global_set()
            && matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let Some(argument) = cli.get_arguments().find(precedes_command) else { return Ok(()) };
    let option = match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().to_string(),
    };
    let message = format!(
        "`{option}` cannot precede the command `{command}`\n\n\
         hint: put the options after the command; if `{command}` is a transcript, write `./{command}`"
    );
    Err(T::command().error(ErrorKind::ArgumentConflict, message))
}

/// Returns the parser of a command line. Its errors lack texts of the commands that the command line does not use.
fn parser<T: CommandFactory>() -> Command {
    DEFERS.set(true);
    let command = T::command();
    DEFERS.set(false);
    command
}

/// The arguments of a command, on the heap because they are large.
#[derive(Debug)]
pub struct Deferred<T>(Box<T>);

impl<T> Deferred<T> {
    #[must_use]
    pub fn into_inner(self) -> T {
        *self.0
    }
}

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        if DEFERS.get() { command.defer(T::augment_args) } else { T::augment_args(command) }
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }

    fn group_id() -> Option<Id> {
        T::group_id()
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Box::new).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Box::new).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, Subcommand};

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[arg(long, global = true)]
        quiet: bool,
        #[command(subcommand)]
        command: Option<Commands>,
    }

    #[derive(Debug, Subcommand)]
    enum Commands {
        One(Deferred<One>),
        Two(Deferred<Two>),
    }

    /// Does one thing
    #[derive(Debug, Args)]
    struct One {
        #[arg(long, default_value_t = 7)]
        number: u8,
    }

    #[derive(Debug, Args)]
    struct Two {
        #[command(subcommand)]
        inner: Option<Inner>,
    }

    #[derive(Debug, Subcommand)]
    enum Inner {
        Deep(Deferred<One>),
    }

    #[track_caller]
    fn check(line: &[&str], expected: &str) {
        for command in [parser::<Cli>(), Cli::command()] {
            let matches = command.try_get_matches_from(["program"].iter().chain(line));
            let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
            let text = parsed.map(|cli| format!("{:?} {:?}", cli.quiet, cli.command));
            assert_eq!(text.unwrap_or_else(|error| error.kind().to_string()), expected);
        }
    }

    #[test]
    fn deferred_commands_are_parsed_as_declared() {
        check(&[], "false None");
        check(&["--quiet"], "true None");
        check(&["one"], "false Some(One(Deferred(One { number: 7 })))");
        check(&["--quiet", "one", "--number", "8"], "true Some(One(Deferred(One { number: 8 })))");
        check(&["one", "--quiet"], "true Some(One(Deferred(One { number: 7 })))");
        check(
            &["two", "deep", "--number=9", "--quiet"],
            "true Some(Two(Deferred(Two { inner: Some(Deep(Deferred(One { number: 9 }))) })))",
        );
        check(&["one", "--other"], "unexpected argument found");
        check(&["three"], "unrecognized subcommand");
    }

    #[test]
    fn complete_declaration_is_not_deferred() {
        let has_number = |command: &Command| {
            let one = command.find_subcommand("one").unwrap();
            one.get_arguments().any(|argument| argument.get_id() == "number")
        };
        assert!(!has_number(&parser::<Cli>()));
        assert!(has_number(&Cli::command()));
    }
}
