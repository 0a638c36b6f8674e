//! The last line of a batch for people: counts, tokens, time. The report has the same numbers for programs.

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
                "JP sends {sent}, and jp-compact's own views have {views}: JP does not apply every overlay"
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
