//! The overview that `jp-compact` without arguments prints in a workspace of JP, or in a folder in which an agent
//! worked: the conversations of the folder, and the three commands that a user needs next. It must not execute another
//! program.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Zoned;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::ListedSession;
use jp_compact_sessions as sessions;

/// The maximum number of sessions to check, newest first.
const SESSIONS_MAX: usize = 200;
pub(crate) const JP: &str = "jp";
/// The longest printed title.
const TITLE_CHARS_MAX: usize = 40;

/// Returns the lines of the overview, or `None` if nothing is there.
#[must_use]
pub fn overview(now: &Zoned, environment: &Environment) -> Option<Vec<String>> {
    let all = sessions::recorded_sessions(SESSIONS_MAX, environment);
    let here: Vec<ListedSession> = all.into_iter().filter(|session| is_here(session, environment)).collect();
    let ids = sessions::short_ids(&here, &sessions::file_ids(environment));
    let last = here.first()?;
    let mut agents: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (index, session) in here.iter().enumerate() {
        agents.entry(&session.agent).or_insert((0, index)).0 += 1;
    }
    let mut lines = vec!["Conversations of this folder:".to_owned()];
    for (agent, (count, newest)) in &agents {
        let noun = if *agent == JP { "conversation" } else { "session" };
        let plural = if *count == 1 { "" } else { "s" };
        let newest_id = &ids[*newest];
        let age = sessions::age(&here[*newest].modified, now);
        let title = here[*newest].title.as_deref().map_or_else(String::new, quoted_title);
        lines.push(format!("  {agent}: {count} {noun}{plural}, the last is {newest_id} ({age}){title}"));
    }
    lines.extend([String::new(), "Next:".to_owned()]);
    let commands = next_commands(last, &ids[0]);
    let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    lines.extend(commands.iter().map(|(command, effect)| format!("  {command:width$}  {effect}")));
    lines.extend([
        String::new(),
        "`jp-compact -h` lists all commands, `jp-compact list` the newest sessions.".to_owned(),
    ]);
    Some(lines)
}

/// Returns whether a conversation belongs to the current folder. Of JP's conversations, the list has only those of this
/// workspace.
fn is_here(session: &ListedSession, environment: &Environment) -> bool {
    session.agent == JP
        || session.folder.as_deref().is_some_and(|folder| Path::new(folder) == environment.cwd)
}

fn quoted_title(title: &str) -> String {
    let short: String = title.chars().take(TITLE_CHARS_MAX).collect();
    let end = if short.len() < title.len() { "…" } else { "" };
    format!(" \u{201c}{short}{end}\u{201d}")
}

/// Returns three commands, each with its effect.
fn next_commands(session: &ListedSession, id: &str) -> [(String, &'static str); 3] {
    if session.agent == JP {
        return [
            (format!("jp-compact stats {id}"), "count its tokens"),
            (format!("jp-compact {id} --dry-run"), "show the possible saving"),
            (format!("jp-compact {id}"), "compact it"),
        ];
    }
    [
        (format!("jp-compact fork {id} --compact --dry-run"), "show the possible saving"),
        (format!("jp-compact resume {id}"), "compact a copy, and resume it"),
        (format!("jp-compact list --agent {}", session.agent), "list the other sessions"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_without_conversations_has_no_overview() {
        assert_eq!(overview(&Zoned::default(), &Environment::bare("/nowhere")), None);
    }

    #[test]
    fn long_titles_are_cut() {
        assert_eq!(quoted_title("A title"), " “A title”");
        assert_eq!(quoted_title(&"a".repeat(50)), format!(" “{}…”", "a".repeat(40)));
    }
}
