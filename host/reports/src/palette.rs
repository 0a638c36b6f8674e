//! The colors of text on a terminal. A style adds escape codes around a line after its text was escaped, so that
//! foreign text never contains a code. The caller decides whether there are colors. Without them, there are no codes.

use anstyle::{AnsiColor, Style};

/// The styles of a difference, as in git.
#[derive(Debug, Clone, Copy, Default)]
pub struct Palette {
    pub heading: Style,
    pub hunk: Style,
    pub removed: Style,
    pub added: Style,
}

impl Palette {
    /// Returns the styles of text with or without colors.
    #[must_use]
    pub fn new(is_colored: bool) -> Self {
        if is_colored { Self::colored() } else { Self::default() }
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
