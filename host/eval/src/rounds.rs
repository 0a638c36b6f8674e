//! The recall after several compactions at equally spaced steps. It shows whether each compaction loses more, as a
//! summary of a summary does.

use jp_compact_engine::compact::{Error, RunSettings};
use jp_compact_evidence::recall::recall;

use crate::automatic::compact_again;
use crate::options::ROUNDS;
use crate::outcome::RoundOutcome;
use crate::subject::{StoredOverlays, Subject};

/// Evaluates a strategy at the last cut after 1, 2, 3, 5, and 10 compactions. The last compaction is at the cut.
pub(crate) async fn evaluate_rounds(
    subject: &Subject<'_>,
    run: &mut RunSettings,
) -> Result<Vec<RoundOutcome>, Error> {
    let Some(cut) = subject.cuts.last() else { return Ok(Vec::new()) };
    let events = cut.cut.events;
    let steps = subject.requests.partition_point(|request| *request < events);
    let mut rounds = Vec::new();
    for n in ROUNDS.into_iter().filter(|n| *n <= steps) {
        let mut overlays = StoredOverlays::default();
        for round in 1..n {
            compact_again(subject, run, subject.requests[steps * round / n], false, &mut overlays).await?;
        }
        let last = compact_again(subject, run, events, true, &mut overlays).await?;
        rounds.push(RoundOutcome {
            n,
            view_before: subject.tokens_between(0, events),
            view_after: last.tokens,
            recall: recall(&subject.session, events, &cut.at_risk, &subject.session.read_view(&last.view)),
        });
    }
    Ok(rounds)
}
