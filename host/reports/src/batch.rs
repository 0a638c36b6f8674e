//! The last line of a batch for people: counts, tokens, time. The report has the same numbers for programs.

use std::path::PathBuf;

use jp_compact_engine::batch::Tally;
use jp_compact_schema::document::{Saved, SavedOf, TokenCounts};

use jp_compact_terminal::numbers::grouped;

#[must_use]
pub fn summary(tally: &Tally, dry_run: bool) -> String {
    let total = &tally.total;
    let mut counts = Vec::new();
    for (count, result) in [
        (total.compacted, "compacted"),
        (total.unchanged, "unchanged"),
        (total.skipped, "skipped"),
        (total.failed, "failed"),
    ] {
        if count > 0 {
            counts.push(format!("{} {result}", grouped(count)));
        }
    }
    if total.resumed > 0 {
        counts.push(format!("{} of them in an earlier run", grouped(total.resumed)));
    }
    let noun = if total.transcripts == 1 { "transcript" } else { "transcripts" };
    let mut line = format!("{} {noun}", grouped(total.transcripts));
    if !counts.is_empty() {
        line += &format!(": {}", counts.join(", "));
    }
    if dry_run {
        line += " (dry run)";
    }
    if total.size.tokens.raw > 0 {
        line += &format!("; {}", tokens(total.size.tokens));
    }
    line += &format!("; {:.1} s", total.elapsed_ms / 1e3);
    line
}

/// The maximum number of printed names of files that are not transcripts.
const OTHER_FILES_MAX: usize = 3;

/// Describes the files that were skipped because their content is not a transcript. Returns `None` if there are none.
#[must_use]
pub fn other_files(paths: &[PathBuf]) -> Option<String> {
    let names: Vec<_> = paths.iter().take(OTHER_FILES_MAX).map(|path| path.display().to_string()).collect();
    let more = match paths.len().saturating_sub(OTHER_FILES_MAX) {
        0 => String::new(),
        more => format!(", and {} more", grouped(more as u64)),
    };
    let files =
        if paths.len() == 1 { "1 file that is not a transcript" } else { "files that are not transcripts" };
    let count = if paths.len() == 1 { String::new() } else { format!("{} ", grouped(paths.len() as u64)) };
    (!paths.is_empty()).then(|| format!("skipped {count}{files}: {}{more}", names.join(", ")))
}

/// Returns the tokens that JP sends, and the tokens of the views.
fn tokens(TokenCounts { raw, view_after, jp, .. }: TokenCounts) -> String {
    let views = reduction(view_after, raw);
    match jp {
        None => format!("the views have {views}"),
        Some(jp) if jp.raw < raw => {
            let sent = reduction(jp.view_after, jp.raw);
            format!(
                "JP sends {sent} of JP's own conversations, and the views of all transcripts have {views}"
            )
        }
        Some(jp) if jp.view_after == view_after => format!("JP sends {views}"),
        Some(jp) => {
            let sent = reduction(jp.view_after, jp.raw);
            format!(
                "JP sends {sent}, and jp-compact's own views have {views}: JP does not apply every overlay as \
                 jp-compact does"
            )
        }
    }
}

/// Formats a reduction as text: `40 of 100 tokens (-60.0 %)`.
fn reduction(after: u64, before: u64) -> String {
    let percent = Saved::new(SavedOf::Raw, before, after).percent;
    let change = if after == before { "unchanged".to_owned() } else { format!("{:+.1} %", -percent) };
    format!("{} of {} tokens ({change})", grouped(after), grouped(before))
}
