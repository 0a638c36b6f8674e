//! The last line of a batch for people: counts, tokens, time. The report has the same numbers for programs.

use jp_compact_engine::batch::Tally;
use jp_compact_schema::document::{Saved, SavedOf, TokenCounts};

use crate::args::RunArgs;
use crate::human::grouped;

pub(super) fn summary(tally: &Tally, running: &RunArgs) -> String {
    let total = &tally.total;
    let tokens = total.size.tokens;
    let would = if running.dry_run { " (dry run)" } else { "" };
    let mut parts = Vec::new();
    let resumed = total.resumed;
    for (count, what) in [
        (total.compacted, "compacted"),
        (total.unchanged, "unchanged"),
        (total.skipped, "skipped"),
        (total.failed, "failed"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", grouped(count)));
        }
    }
    if resumed > 0 {
        parts.push(format!("{} of them in an earlier run", grouped(resumed)));
    }
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let many = if total.transcripts == 1 { "transcript" } else { "transcripts" };
    let sent = if tokens.raw == 0 { String::new() } else { sent(tokens) };
    format!("{} {many}{parts}{would}{sent}; {:.1} s", grouped(total.transcripts), total.elapsed_ms / 1e3)
}

/// The tokens that JP sends, and those of the views.
fn sent(TokenCounts { raw, view_after, jp, .. }: TokenCounts) -> String {
    let of = |after, before| {
        let percent = Saved::new(SavedOf::Raw, before, after).percent;
        let change = if after == before { "unchanged".to_owned() } else { format!("{:+.1} %", -percent) };
        format!("{} of {} tokens ({change})", grouped(after), grouped(before))
    };
    match jp {
        None => format!("; the views have {}", of(view_after, raw)),
        Some(jp) if jp.raw < raw => {
            let (sends, views) = (of(jp.view_after, jp.raw), of(view_after, raw));
            format!("; JP sends a model {sends} of its own conversations, all views have {views}")
        }
        Some(jp) if jp.view_after == view_after => format!("; JP sends a model {}", of(view_after, raw)),
        Some(jp) => {
            let (sends, views) = (of(jp.view_after, jp.raw), of(view_after, raw));
            format!(
                "; JP sends a model {sends}, jp-compact's own views have {views}: JP does not apply every overlay"
            )
        }
    }
}
