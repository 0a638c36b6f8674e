//! The moment at which a recorded compaction makes a request smaller. A running program has its context in memory, so an
//! overlay cannot change it. This text must not promise more.

use std::path::Path;

use jp_compact_runtime::trust::quoted;
use jp_compact_schema::document::CompactionReport;
use jp_compact_sessions::Agent;
use jp_compact_transcripts::Format;

/// Returns when a compaction takes effect, and by which command.
#[must_use]
pub fn takes_effect(report: &CompactionReport) -> String {
    if report.dry_run {
        return "not at all: nothing was written".to_owned();
    }
    if report.overlays.is_empty() {
        return "not at all: no overlay was appended".to_owned();
    }
    let path = quoted(Path::new(&report.path));
    match report.format.parse() {
        Ok(Format::Jp) => {
            "recorded; takes effect with the next `jp query`, not in a running one. If `jp` has the \
                           conversation loaded now, its next save can lose the overlay"
                .to_owned()
        }
        Ok(format) if Agent::of_format(format).is_some() => format!(
            "recorded; takes effect when the session is resumed from a copy, not in the running session: \
             `jp-compact fork {path}` makes the copy and prints the command that resumes it"
        ),
        _ => format!(
            "recorded; takes effect in a new file: `jp-compact print {path} --compacted --as source -o NEW` writes it"
        ),
    }
}
