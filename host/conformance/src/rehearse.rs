//! The rehearsal of a strategy: one request for a conversation of the user through all rounds, with the exchange and
//! the verdict of the host. Nothing is appended, and the answers of models are fixed.

use std::fs;
use std::io;
use std::path::Path;

use jp_compact_core::Survey;
use jp_compact_core::reply::Terminal;
use jp_compact_core::select::Selection;
use jp_compact_core::spec::Options;
use jp_compact_schema::{Description, Mismatch, agree};
use serde_json::json;

use super::ask::Request;
use super::describe;
use super::exchange::{Case, CheckFailure, CheckSetup, Speaker, exchange};
use super::plugin::TestedPlugin;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::options;

/// An exchange and its verdict.
#[derive(Debug)]
pub struct Rehearsal {
    /// The description of the strategy.
    pub description: Description,
    /// The exchange, line by line.
    pub exchanged: Vec<(Speaker, String)>,
    /// The host's reaction to the answer.
    pub verdict: Result<String, Rejection>,
}

/// The reason why the host would not accept the answer.
#[derive(Debug)]
pub enum Rejection {
    /// The strategy violated the protocol.
    Broken {
        /// The id of the conformance check.
        check: &'static str,
        /// The behavior that was observed.
        why: String,
    },
    /// The strategy and the host have no protocol version in common.
    Version(Mismatch),
    /// The strategy does not accept the options.
    BadOptions { reason: String },
    /// No turn is left to compact.
    NoTurns,
}

impl From<CheckFailure> for Rejection {
    fn from(CheckFailure { id, why }: CheckFailure) -> Self {
        Self::Broken { check: id, why }
    }
}

/// Sends a request for these turns to the strategy.
///
/// # Errors
/// No request was sent: the strategy returned no valid description, has no protocol version in common with the host, or
/// does not accept the options, or no turn is left.
pub async fn rehearse(
    setup: &CheckSetup<'_>,
    plugin: &TestedPlugin,
    survey: &Survey<'_>,
    selection: Selection,
    options: &Options,
    environment: &Environment,
) -> Result<Rehearsal, Rejection> {
    let description = describe::describe(setup, plugin).await?;
    agree(&description.protocols).map_err(Rejection::Version)?;
    describe::check_description(plugin, &description).into_iter().next().map_or(Ok(()), Err)?;
    let options = options::resolve(options, &description, environment)
        .map_err(|reason| Rejection::BadOptions { reason })?;
    let mut request = Request::of_turns(survey, &description, &options, "c1", selection, setup.deadline)
        .ok_or(Rejection::NoTurns)?;
    let mut exchanged = Vec::new();
    let mut on_output = |speaker, bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        exchanged.extend(text.split_terminator('\n').map(|line| (speaker, line.to_owned())));
    };
    let reply = exchange(setup, plugin, &mut request, Case::Plain, &mut on_output).await;
    let verdict = reply.map_err(Rejection::from).map(|terminal| match terminal {
        Terminal::Result(result) => match result.compactions.len() {
            1 => "the host would append its compaction".to_owned(),
            count => format!("the host would append its {count} compactions"),
        },
        Terminal::Decline(decline) => format!("it declines: {}", decline.reason),
        // Unreachable: `exchange` answers `needs` and sends the request again.
        Terminal::Needs(_) => String::new(),
        Terminal::Error(error) => error.message,
    });
    Ok(Rehearsal { description, exchanged, verdict })
}

impl Rehearsal {
    /// Writes the exchange to a new file, as one JSON object per line.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn record(&self, file: &Path) -> io::Result<()> {
        let source = |speaker: &Speaker| match speaker {
            Speaker::Host => "host",
            Speaker::Strategy => "strategy",
            Speaker::Stderr => "stderr",
        };
        let lines = self.exchanged.iter();
        let text: String = lines
            .map(|(speaker, line)| json!({"from": source(speaker), "line": line}).to_string() + "\n")
            .collect();
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(file)?;
        io::Write::write_all(&mut file, text.as_bytes())
    }
}
