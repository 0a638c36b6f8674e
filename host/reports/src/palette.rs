//! The colors of text on a terminal. A style adds escape codes around a line after its text was escaped, so that foreign
//! text never contains a code. Without a terminal, and with `NO_COLOR`, there must be no codes at all.

use anstyle::{AnsiColor, Style};
use jp_compact_runtime::environment::Environment;

/// The styles of a difference, as in git.
#[derive(Debug, Clone, Copy, Default)]
pub struct Palette {
    pub heading: Style,
    pub hunk: Style,
    pub removed: Style,
    pub added: Style,
}

impl Palette {
    /// Returns the styles for stdout. `NO_COLOR` disables them, and `CLICOLOR_FORCE` enables them without a terminal.
    pub fn for_stdout(is_terminal: bool, environment: &Environment) -> Self {
        if has_colors(is_terminal, |name| environment.variables.get(name)) {
            Self::colored()
        } else {
            Self::default()
        }
    }

    fn colored() -> Self {
        Self {
            heading: Style::new().bold(),
            hunk: AnsiColor::Cyan.on_default(),
            removed: AnsiColor::Red.on_default(),
            added: AnsiColor::Green.on_default(),
        }
    }
}

/// Returns whether text is colored. An empty variable counts as unset.
fn has_colors(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_zero = |name: &str| variable(name).is_some_and(|value| value == "0");
    if variable("NO_COLOR").is_some() {
        return false;
    }
    if variable("CLICOLOR_FORCE").is_some() && !is_zero("CLICOLOR_FORCE") {
        return true;
    }
    let is_dumb = variable("TERM").is_none_or(|terminal| terminal == "dumb");
    is_terminal && !is_dumb && !is_zero("CLICOLOR")
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
        assert_eq!(has_colors(is_terminal, get), expected, "{is_terminal} {variables:?}");
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
}
