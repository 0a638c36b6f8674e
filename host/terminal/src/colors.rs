//! The decision whether text is colored, and the styles of messages. A style adds escape codes around a text after it
//! was escaped, so that foreign text never contains a code.

use anstyle::{AnsiColor, Style};

/// The value of `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ColorMode {
    /// Colors on a terminal.
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorMode {
    /// Returns the mode with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "always" => Some(Self::Always),
            "never" => Some(Self::Never),
            _ => None,
        }
    }

    /// Returns whether text is colored. `NO_COLOR` disables colors, and `CLICOLOR_FORCE` enables them without a
    /// terminal, unless the mode is `Always` or `Never`. `variable` must treat an empty variable as unset.
    pub fn has_colors(self, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
        let is_zero = |name: &str| variable(name).is_some_and(|value| value == "0");
        match self {
            Self::Always => return true,
            Self::Never => return false,
            Self::Auto => {}
        }
        if variable("NO_COLOR").is_some() {
            return false;
        }
        if variable("CLICOLOR_FORCE").is_some() && !is_zero("CLICOLOR_FORCE") {
            return true;
        }
        let is_dumb = variable("TERM").is_none_or(|terminal| terminal == "dumb");
        is_terminal && !is_dumb && !is_zero("CLICOLOR")
    }
}

/// The style of the first line of a table.
pub const TABLE_HEADING: Style = Style::new().bold();
/// The labels at the beginnings of the host's lines, each with its style. A path can also begin a line.
const LABELS: [(&str, Style); 6] = [
    ("error:", AnsiColor::Red.on_default().bold()),
    ("failed:", AnsiColor::Red.on_default().bold()),
    ("warning:", AnsiColor::Yellow.on_default().bold()),
    ("hint:", AnsiColor::Cyan.on_default().bold()),
    ("note:", AnsiColor::Cyan.on_default().bold()),
    ("Caused by:", Style::new().bold()),
];

/// Colors the labels of messages at the beginnings of lines.
#[must_use]
pub fn with_colored_labels(text: &str) -> String {
    let mut colored = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        match LABELS.iter().find(|(label, _)| line.starts_with(label)) {
            Some((label, style)) => {
                colored += &format!("{style}{label}{style:#}{}", &line[label.len()..]);
            }
            None => colored += line,
        }
    }
    colored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is_terminal: bool, variables: &[(&str, &str)], expected: bool) {
        let get = |name: &str| {
            let variable = variables.iter().find(|(other, _)| *other == name);
            variable.map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(ColorMode::Auto.has_colors(is_terminal, get), expected, "{is_terminal} {variables:?}");
        assert!(
            ColorMode::Always.has_colors(is_terminal, get) && !ColorMode::Never.has_colors(is_terminal, get)
        );
    }

    #[test]
    fn terminal_and_variables_decide_about_colors() {
        check(true, &[("TERM", "xterm")], true);
        check(true, &[], false);
        check(true, &[("TERM", "dumb")], false);
        check(true, &[("TERM", "xterm"), ("NO_COLOR", "1")], false);
        check(true, &[("TERM", "xterm"), ("CLICOLOR", "0")], false);
        check(false, &[("TERM", "xterm")], false);
        check(false, &[("CLICOLOR_FORCE", "1")], true);
        check(false, &[("CLICOLOR_FORCE", "0")], false);
        check(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false);
    }

    #[test]
    fn only_labels_at_the_beginning_of_a_line_are_colored() {
        let text = "error: no\n\nCaused by:\n  an error: x\n\nhint: y\n";
        let expected = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m no\n\n\u{1b}[1mCaused by:\u{1b}[0m\n  an error: x\n\n\
                        \u{1b}[1m\u{1b}[36mhint:\u{1b}[0m y\n";
        assert_eq!(with_colored_labels(text), expected);
    }
}
