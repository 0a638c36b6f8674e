//! The limits on texts in a reply: the number of log lines and diagnostics, and the length of each text. A reply over a
//! limit is truncated, not rejected, because these texts are not stored. Compactions are stored, so `validate` rejects
//! too many of them.

use jp_compact_schema::version::{DIAGNOSTICS_MAX, LOGS_MAX, TEXT_BYTES_MAX};
use jp_compact_schema::{Diagnostic, Level, Log, Severity};

/// Truncates a text to the limit, and appends the number of bytes removed.
pub(crate) fn truncate(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        let removed = text.len() - end;
        text.truncate(end);
        text.push_str(&format!(" ... ({removed} bytes more)"));
    }
}

/// Truncates the list and its texts to the limits, and adds a diagnostic that counts the rest.
pub(crate) fn truncate_diagnostics(diagnostics: &mut Vec<Diagnostic>) {
    let removed = diagnostics.len().saturating_sub(DIAGNOSTICS_MAX);
    diagnostics.truncate(DIAGNOSTICS_MAX);
    for Diagnostic { code, message, .. } in &mut *diagnostics {
        truncate(code);
        truncate(message);
    }
    if removed > 0 {
        let message = format!("{removed} more diagnostics");
        let (severity, code) = (Severity::Info, "more_diagnostics".into());
        diagnostics.push(Diagnostic { severity, code, message, turn: None, seq: None });
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logs {
    kept: Vec<Log>,
    dropped: usize,
}

impl Logs {
    /// Adds a line. Returns the line if it was kept.
    pub fn push(&mut self, log: Log) -> Option<&Log> {
        if self.kept.len() < LOGS_MAX {
            self.kept.push(log);
            return self.kept.last();
        }
        self.dropped += 1;
        None
    }

    /// Returns the kept lines, followed by a line that counts the rest.
    #[must_use]
    pub fn into_lines(self) -> Vec<Log> {
        let Self { mut kept, dropped } = self;
        if dropped > 0 {
            let id = kept.first().map(|log| log.id.clone()).unwrap_or_default();
            kept.push(Log { id, level: Level::Warn, message: format!("{dropped} more log lines") });
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_texts_between_characters_and_counts_the_rest() {
        let mut text = "x".repeat(TEXT_BYTES_MAX);
        truncate(&mut text);
        assert_eq!(text.len(), TEXT_BYTES_MAX);
        let mut text = "x".repeat(TEXT_BYTES_MAX - 1) + "\u{e9}yz";
        truncate(&mut text);
        assert_eq!(text, "x".repeat(TEXT_BYTES_MAX - 1) + " ... (4 bytes more)");
    }

    #[test]
    fn keeps_log_lines_up_to_the_limit_and_counts_the_rest() {
        let log = |message: &str| Log { id: "c1".into(), level: Level::Info, message: message.into() };
        let mut logs = Logs::default();
        let kept = (0..LOGS_MAX + 3).filter(|_| logs.push(log("l")).is_some()).count();
        let lines = logs.into_lines();
        assert_eq!((kept, lines.len()), (LOGS_MAX, LOGS_MAX + 1));
        assert_eq!(lines[LOGS_MAX].message, "3 more log lines");
        let mut logs = Logs::default();
        logs.push(log("l"));
        assert_eq!(logs.into_lines(), [log("l")]);
    }
}
