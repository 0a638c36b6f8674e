//! The command that a user probably meant with an unknown word: the nearest command, or the command for another
//! program's word.

use crate::nearest::nearest;

/// Words of other programs, each with the command or option that does the same here. The empty text represents
/// compaction, which needs neither a command nor an option.
const SYNONYMS: [(&str, &str); 10] = [
    ("undo", "--reset"),
    ("reset", "--reset"),
    ("revert", "--reset"),
    ("restore", "--reset"),
    ("preview", "--dry-run"),
    ("dry-run", "--dry-run"),
    ("compact", ""),
    ("run", ""),
    ("view", "print"),
    ("check", "lint"),
];

/// The commands whose first argument is a conversation.
pub const COMMANDS_OF_CONVERSATION: [&str; 8] =
    ["auto", "diff", "fork", "lint", "print", "query", "show", "stats"];

/// Returns the command or option that the user probably meant, or the empty text for compacting.
#[must_use]
pub fn intended_command(argument: &str, commands: &[String]) -> Option<String> {
    let words: Vec<_> =
        commands.iter().map(|command| (command.as_str(), command.as_str())).chain(SYNONYMS).collect();
    let near = nearest(argument, words.iter().map(|(word, _)| *word))?;
    words.into_iter().find(|(word, _)| *word == near).map(|(_, meaning)| meaning.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(argument: &str, expected: Option<&str>) {
        let commands = ["print", "query", "show", "stats", "schema", "strategy"].map(str::to_owned);
        assert_eq!(intended_command(argument, &commands).as_deref(), expected);
    }

    #[test]
    fn suggests_nearest_command() {
        check("prin", Some("print"));
        check("shwo", Some("show"));
        check("Stat", Some("stats"));
        check("schemas", Some("schema"));
        check("strategies", None);
    }

    #[test]
    fn recognizes_words_of_other_programs() {
        check("undo", Some("--reset"));
        check("reset", Some("--reset"));
        check("preview", Some("--dry-run"));
        check("dryrun", Some("--dry-run"));
        check("compact", Some(""));
    }

    #[test]
    fn suggests_nothing_for_distant_words() {
        for argument in ["conversation", "cat", "x", "nowhere", "ünïcode"] {
            check(argument, None);
        }
    }
}
