//! The errors that occur while a run is planned.

use std::io;

use jp_compact_config as config;

use crate::compact;

/// A run cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No strategy has the option `focus`.
    #[error("`--focus` has no effect: {}", focus_cause(.strategies))]
    UnusedFocus { strategies: Vec<String> },
    /// The user typed bounds, but the inline form has its own bounds.
    #[error("the inline form already selects turns")]
    ConflictingTurns,
    /// The value of `--compact` is neither a profile nor an inline form.
    #[error("invalid value `{text}` for `--compact`")]
    BadInline {
        text: String,
        /// The syntax error.
        reason: String,
        /// The existing profiles.
        profiles: Vec<String>,
    },
    /// The async runtime cannot be created.
    #[error("failed to start the runtime")]
    Runtime(#[source] io::Error),
    /// The answer to the trust prompt cannot be read.
    #[error("failed to read the answer")]
    Prompt(#[source] io::Error),
    /// A summary failed, and the configuration makes that an error.
    #[error(transparent)]
    Summary(compact::Error),
    /// A transcript or a strategy cannot be used.
    #[error(transparent)]
    Run(#[from] compact::Error),
    #[error(transparent)]
    Config(#[from] config::Error),
}

/// Returns the reason why a focus has no effect on these strategies.
fn focus_cause(strategies: &[String]) -> String {
    match strategies {
        [] => "no strategy runs".to_owned(),
        [name] => format!("strategy `{name}` has no option `focus`"),
        names => format!("the strategies {} have no option `focus`", names.join(", ")),
    }
}
