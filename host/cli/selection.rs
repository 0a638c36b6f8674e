//! The selection of turns and steps. All commands that compact and the MCP server must use this one type, so that an
//! option means the same everywhere.

use std::str::FromStr;

use jiff::SignedDuration;
use jp_compact_core::select::{KeepLast, RequestedSelection};
use jp_compact_core::{Bound, bound};

use crate::args::parse_from;
use crate::error::Report;
use crate::exit::Exit;

/// Turns to keep at one end of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptTurns {
    Count(usize),
    /// The turns that began in the first or in the last period of this length.
    Within(SignedDuration),
}

impl FromStr for KeptTurns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(turns) = text.parse() {
            return Ok(Self::Count(turns));
        }
        let duration = bound::duration(text).map(Self::Within);
        duration.ok_or_else(|| "expected a number of turns, or a duration such as `1h` or `2d`".to_owned())
    }
}

/// The options that select turns and steps.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SelectionArgs {
    /// Start at this turn or step: N, N.STEP, -N from the end, 5h, `last`
    ///
    /// Turns and steps are numbered from 0. `4.10` is step 10 of turn 4. `@5` is turn 4, because JP counts from 1.
    /// `5h` is the time 5 hours ago. `last` is the position after all compactions; --from without a value
    /// means `last`. [default: as --keep-first]
    #[arg(help_heading = "Selection", long, value_name = "BOUND", num_args = 0..=1, default_missing_value = "last", value_parser = parse_from, allow_negative_numbers = true, conflicts_with = "keep_first")]
    pub(crate) from: Option<Bound>,
    /// End after this turn or step, written like --from
    #[arg(
        help_heading = "Selection",
        long,
        value_name = "BOUND",
        allow_negative_numbers = true,
        conflicts_with = "keep_last"
    )]
    pub(crate) to: Option<Bound>,
    /// Keep the first N turns unchanged, or a duration [default: as configured, else 0]
    ///
    /// `5h` keeps the turns that began in the first 5 hours of the conversation.
    #[arg(help_heading = "Selection", long, value_name = "N")]
    pub(crate) keep_first: Option<KeptTurns>,
    /// Keep the last N turns unchanged, or a duration [default: as configured, else 3]
    ///
    /// `1h` keeps the turns that began in the last hour. Durations have JP's form, such as `90m` or `1d 12h`.
    #[arg(help_heading = "Selection", long, value_name = "N", alias = "keep")]
    pub(crate) keep_last: Option<KeptTurns>,
    /// Keep only the newest N steps unchanged, in any turn
    ///
    /// A step is one response of the model and the tool results that answer it. This option replaces the configured
    /// `keep_last`. If --keep-last is given too, an event is compacted only if neither option keeps it.
    #[arg(help_heading = "Selection", long, value_name = "N")]
    pub(crate) keep_steps: Option<usize>,
    /// Keep only the newest steps that fit into N tokens unchanged
    #[arg(help_heading = "Selection", long, value_name = "N")]
    pub(crate) keep_tokens: Option<u64>,
}

impl SelectionArgs {
    pub(crate) fn selection(&self) -> RequestedSelection {
        let &Self { from, to, keep_first, keep_last, keep_steps, keep_tokens } = self;
        let (turns, kept_since) = match keep_last {
            Some(KeptTurns::Count(turns)) => (Some(turns), None),
            Some(KeptTurns::Within(duration)) => (None, Some(Bound::Ago(duration))),
            None => (None, None),
        };
        let kept_first = keep_first.map(|keep| match keep {
            KeptTurns::Count(turns) => Bound::turn(turns),
            KeptTurns::Within(duration) => Bound::WithinFirst(duration),
        });
        RequestedSelection {
            from: from.or(kept_first),
            to: to.or(kept_since),
            keep_last: KeepLast { turns, steps: keep_steps, tokens: keep_tokens },
        }
    }

    /// Rejects a selection if the option that uses it is missing.
    pub(crate) fn require(&self, is_used: bool, option: &str) -> Result<(), Report> {
        if is_used || self.selection().is_empty() {
            return Ok(());
        }
        let message = format!("turns and steps are selected, but {option} is missing");
        let hint = format!("add `{option}`, or `{option}=PROFILE`");
        Err(Report::new(Exit::Usage, message, Some(&hint)))
    }

    /// Returns two options that conflict because they set the same side of the range.
    pub(crate) fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self { from: Some(_), keep_first: Some(_), .. } => Some(("from", "keep_first")),
            Self { to: Some(_), keep_last: Some(_), .. } => Some(("to", "keep_last")),
            _ => None,
        }
    }
}
