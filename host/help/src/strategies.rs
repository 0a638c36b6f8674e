//! The table of `strategy list`, and the descriptions of the bundled strategies. The bundled strategies are known here,
//! so that the list is complete without executing them. A test compares these descriptions with the executables' own.

use jp_compact_terminal::width::{columns as columns_of, cut_end, padded};

/// The descriptions of the bundled strategies, by name.
pub const BUNDLED: [(&str, &str); 8] = [
    ("collapse", "Let a model summarize the oldest turns, and merge earlier summaries"),
    ("digest", "Replace turns with a list of requests, files, commands and errors, without a model"),
    ("extract", "Shorten old tool calls to the lines that introduce names"),
    ("micro", "Replace old and long tool results with placeholders"),
    ("strip-reasoning", "Remove reasoning from the view"),
    ("strip-tools", "Strip or omit tool calls"),
    ("summarize", "Let a model write a summary of the turns"),
    ("trim", "Clear or cut old tool results by a fixed rule"),
];

/// Returns the description of a bundled strategy.
#[must_use]
pub fn bundled_description(name: &str) -> Option<&'static str> {
    BUNDLED.iter().find(|(bundled, _)| *bundled == name).map(|(_, description)| *description)
}

/// A row of the table.
#[derive(Debug, Clone)]
pub struct StrategyLine {
    pub name: String,
    pub origin: String,
    pub trust: String,
    pub description: String,
    /// The path of a plugin that is not bundled.
    pub path: Option<String>,
}

/// The narrowest terminal that the table fits.
const COLUMNS_MIN: usize = 60;

/// Returns the lines of the table, at most as wide as the terminal, if there is one. The path of a plugin is on a
/// separate line, and is not cut, so that a user can copy it.
#[must_use]
pub fn table(rows: &[StrategyLine], columns: Option<usize>) -> Vec<String> {
    let columns = columns.map_or(usize::MAX, |columns| columns.max(COLUMNS_MIN));
    let width = |heading: &str, cell: fn(&StrategyLine) -> &str| {
        rows.iter().map(|row| columns_of(cell(row))).max().unwrap_or(0).max(heading.len())
    };
    let (name, origin, trust) =
        (width("NAME", |row| &row.name), width("FROM", |row| &row.origin), width("TRUST", |row| &row.trust));
    let line = |cells: [&str; 4]| {
        let [name, origin, trust] =
            [(0, name), (1, origin), (2, trust)].map(|(cell, width)| padded(cells[cell], width));
        cut_end(format!("{name}  {origin}  {trust}  {}", cells[3]).trim_end(), columns, '…')
    };
    let mut lines = vec![line(["NAME", "FROM", "TRUST", "DESCRIPTION"])];
    for row in rows {
        lines.push(line([&row.name, &row.origin, &row.trust, &row.description]));
        lines.extend(row.path.as_ref().map(|path| format!("  {path}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_paths_have_their_own_line() {
        let row = |name: &str, path: Option<&str>| StrategyLine {
            name: name.into(),
            origin: "bundled".into(),
            trust: "trusted".into(),
            description: "word 工作 ".repeat(30),
            path: path.map(str::to_owned),
        };
        let rows = [row("strip-reasoning", None), row("mine", Some("/home/u/mine"))];
        for columns in [60, 80, 120] {
            let lines = table(&rows, Some(columns));
            assert!(lines.iter().all(|line| columns_of(line) <= columns), "{lines:#?}");
            assert_eq!(lines[0], "NAME             FROM     TRUST    DESCRIPTION");
            assert_eq!(lines[3], "  /home/u/mine");
        }
    }
}
