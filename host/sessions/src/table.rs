//! The list of sessions as lines of text: one line for each session, cut to the width of the terminal. The caller
//! escapes the lines, because titles are foreign text.

use jiff::Zoned;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{ListedSession, SessionCounts, SessionListReport};
use jp_compact_terminal::width::{columns as columns_of, cut_end, cut_start, padded};

use crate::age::age;

/// The shortest printed part of an id.
const ID_CHARS_MIN: usize = 8;
/// The longest printed folder. Of a longer folder, only the end is printed.
const FOLDER_WIDTH_MAX: usize = 24;
/// The list shows folders only in a terminal that has at least this many columns.
const FOLDER_COLUMNS: usize = 100;
/// The list shows sizes only in a terminal that has at least this many columns.
const SIZE_COLUMNS: usize = 75;
/// The list shows the numbers of turns, steps, tokens, and overlays in a terminal that has at least this many columns.
const COUNT_COLUMNS: usize = 132;
/// The headers of these numbers. Also the widths of their columns.
const COUNTS: [&str; 4] = ["TURNS", "STEPS", " TOKENS", "OVERLAYS"];

/// Returns the lines of the list. `hidden` is the number of sessions that are not listed, `columns` the width of the
/// terminal, if there is one. A narrow terminal shows fewer cells of a row. For `all_ids`, see [`short_ids`].
#[must_use]
pub fn table(
    report: &SessionListReport,
    hidden: usize,
    columns: Option<usize>,
    all_ids: &[String],
    now: &Zoned,
    environment: &Environment,
) -> Vec<String> {
    let mut lines = Vec::new();
    if report.sessions.is_empty() {
        lines.push("no sessions".to_owned());
    } else {
        let ids = short_ids(&report.sessions, all_ids);
        let cells: Vec<[String; 7]> =
            report.sessions.iter().zip(ids).map(|(row, id)| cells(row, id, now, environment)).collect();
        let header =
            ["WHEN", "AGENT", "ID", "SIZE", &COUNTS.join("  "), "FOLDER", "TITLE"].map(str::to_owned);
        let rows = || std::iter::once(&header).chain(&cells);
        let width = |cell: usize| rows().map(|row| columns_of(&row[cell])).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        let columns_max = columns.unwrap_or(usize::MAX);
        lines.extend(rows().map(|row| cut_end(line(row, widths, columns).trim_end(), columns_max, '…')));
    }
    if hidden > 0 {
        lines.push(format!("{hidden} more; `--max N` lists more"));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines
}

/// Returns a row before it is cut. The title is the last cell, so that only the title is cut.
fn line(row: &[String; 7], widths: [usize; 6], columns: Option<usize>) -> String {
    let [time, agent, id, size, counts, folder] = widths;
    let has_room = |needed: usize| columns.is_none_or(|columns| columns >= needed);
    let mut line = format!("{:>time$}  {:agent$}  {:id$}  ", row[0], row[1], row[2]);
    if has_room(SIZE_COLUMNS) {
        line += &format!("{:>size$}  ", row[3]);
    }
    if has_room(COUNT_COLUMNS) {
        line += &format!("{:counts$}  ", row[4]);
    }
    if has_room(FOLDER_COLUMNS) {
        line += &format!("{}  ", padded(&row[5], folder));
    }
    line + &row[6]
}

fn cells(row: &ListedSession, id: String, now: &Zoned, environment: &Environment) -> [String; 7] {
    let time = age(&row.modified, now);
    let size = row.bytes.map(size).unwrap_or_default();
    let title = row.title.as_deref().unwrap_or_default();
    let mark = if row.fork_of.is_some() && !title.ends_with("(compacted)") { " (fork)" } else { "" };
    [time, row.agent.clone(), id, size, counts(row), folder(row, environment), format!("{title}{mark}")]
}

/// Returns the numbers of a session in columns. Empty if they are unknown.
fn counts(row: &ListedSession) -> String {
    let Some(SessionCounts { turns, steps, tokens, overlays }) = row.counts else { return String::new() };
    let numbers = [turns as u64, steps as u64, tokens, overlays as u64];
    let cells = COUNTS.iter().zip(numbers).map(|(name, number)| format!("{number:>0$}", name.len()));
    cells.collect::<Vec<_>>().join("  ")
}

/// Returns the folder, with `~` for the home folder. The end of a long path is kept.
fn folder(row: &ListedSession, environment: &Environment) -> String {
    let Some(folder) = row.folder.as_deref() else { return String::new() };
    let home = environment.home.as_ref().and_then(|home| home.to_str());
    let short = match home.and_then(|home| folder.strip_prefix(home)) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => folder.to_owned(),
    };
    cut_start(&short, FOLDER_WIDTH_MAX)
}

/// Returns the printed part of each id. Ids of OpenCode and JP are printed whole. All others are cut to one length, at
/// which each names one session of `all_ids`, the ids of all sessions on this machine (see [`crate::file_ids`]).
#[must_use]
pub fn short_ids(rows: &[ListedSession], all_ids: &[String]) -> Vec<String> {
    let is_unique = |id: &str, length: usize| {
        let start = id.get(..length);
        start.is_none() || all_ids.iter().filter(|id| id.get(..length) == start).count() <= 1
    };
    // OpenCode accepts only whole ids. The first digits of JP's ids rarely differ.
    let is_whole = |row: &ListedSession| row.path.is_none() || row.agent == "jp";
    let shortened = || rows.iter().filter(|row| !is_whole(row));
    let longest = shortened().map(|row| row.id.len()).max().unwrap_or(0);
    let length = (ID_CHARS_MIN..longest).find(|length| shortened().all(|row| is_unique(&row.id, *length)));
    let length = length.unwrap_or(longest);
    rows.iter()
        .map(
            |row| {
                if is_whole(row) {
                    row.id.clone()
                } else {
                    row.id.get(..length).unwrap_or(&row.id).to_owned()
                }
            },
        )
        .collect()
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, title: &str) -> ListedSession {
        ListedSession {
            agent: "codex".into(),
            id: id.into(),
            title: Some(title.into()),
            modified: "2026-11-23T05:00:00Z".into(),
            bytes: Some(157_400),
            path: Some("/s".into()),
            folder: Some("/home/u/work/a-project-with-a-long-name".into()),
            fork_of: None,
            counts: Some(SessionCounts { turns: 5, steps: 18, tokens: 48_739, overlays: 0 }),
        }
    }

    #[test]
    fn whole_ids_do_not_lengthen_other_ids() {
        let of_jp = |id: &str| ListedSession { agent: "jp".into(), ..row(id, "One") };
        let rows = [
            of_jp("17738399468"),
            of_jp("17738399469"),
            row("4dee0fbb-25ed", "Two"),
            row("5dee0fbb-25ed", "Two"),
        ];
        let ids = ["4dee0fbb-25ed", "5dee0fbb-25ed"].map(str::to_owned);
        assert_eq!(short_ids(&rows, &ids), ["17738399468", "17738399469", "4dee0fbb", "5dee0fbb"]);
    }

    #[test]
    fn columns_align_after_a_folder_with_wide_characters() {
        let wide = ListedSession { folder: Some("/工作/项目".into()), ..row("01a1fd18-25ed", "One") };
        let sessions = vec![wide, row("71a1fd18-eacc", "One")];
        let report = SessionListReport { sessions, notes: Vec::new() };
        let now = &"2026-11-23T08:00:00Z[UTC]".parse().unwrap();
        let lines = table(&report, 0, Some(120), &[], now, &Environment::bare("/"));
        let widths: Vec<_> = lines.iter().map(|line| columns_of(line)).collect();
        assert_eq!(widths[1], widths[2], "{lines:#?}");
    }

    #[test]
    fn lines_fit_the_terminal_and_ids_are_unique() {
        // The second session is not listed, but its id is similar.
        let ids = ["01a1fd18-25ed", "01a1fd18-eacc", "71a1fd18-eacc"].map(str::to_owned);
        let sessions = vec![row(&ids[0], "One"), row(&ids[2], &"word 工作 ".repeat(30))];
        let report = SessionListReport { sessions, notes: Vec::new() };
        let environment = Environment { home: Some("/home/u".into()), ..Environment::bare("/") };
        let now = &"2026-11-23T08:00:00Z[UTC]".parse().unwrap();
        let table = |columns| table(&report, 3, Some(columns), &ids, now, &environment);
        let lines = table(120);
        assert_eq!(lines[0], "   WHEN  AGENT  ID            SIZE  FOLDER                    TITLE");
        assert_eq!(lines[1], "3 h ago  codex  01a1fd18-2  157 kB  …roject-with-a-long-name  One");
        assert_eq!(lines[3], "3 more; `--max N` lists more");
        let wide = table(160);
        assert!(wide[0].contains("SIZE  TURNS  STEPS   TOKENS  OVERLAYS  FOLDER"), "{wide:#?}");
        assert!(wide[1].contains("157 kB      5     18    48739         0  …roject"), "{wide:#?}");
        assert_eq!(table(80)[1], "3 h ago  codex  01a1fd18-2  157 kB  One");
        assert_eq!(table(60)[1], "3 h ago  codex  01a1fd18-2  One");
        for columns in [60, 80, 120, 160] {
            let lines = table(columns);
            assert!(lines.iter().all(|line| columns_of(line) <= columns), "{lines:#?}");
        }
    }
}
