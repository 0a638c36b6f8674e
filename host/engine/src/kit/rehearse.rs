//! One request, on a conversation of the user's, through all rounds that it takes: what was sent, what came back, and
//! what the host would make of it. Nothing is appended, and what a model is asked has a fixed answer.

use std::fs;
use std::io;
use std::path::Path;

use jp_compact_core::Survey;
use jp_compact_core::reply::Terminal;
use jp_compact_core::select::Wanted;
use jp_compact_core::spec::Options;
use jp_compact_schema::{Description, agree};
use serde_json::json;

use super::ask::Request;
use super::describe;
use super::exchange::{Case, Failed, Place, Speaker, put};
use super::subject::Subject;
use crate::environment::Environment;
use crate::failure::StrategyFailure;
use crate::options;

/// An exchange that was played through.
#[derive(Debug)]
pub struct Rehearsal {
    /// What the strategy says of itself.
    pub description: Description,
    /// What was said, line by line.
    pub said: Vec<(Speaker, String)>,
    /// What the host would make of the answer.
    pub verdict: Result<String, NotTaken>,
}

/// Why the host would take nothing.
#[derive(Debug)]
pub enum NotTaken {
    /// A rule of the protocol was broken.
    Broken {
        /// The number of its check in the kit.
        check: &'static str,
        /// What the strategy did.
        why: String,
    },
    /// Nothing was asked, as in a run.
    NotAsked(StrategyFailure),
    /// There is nothing to ask for: no turn is left.
    Nothing,
}

impl From<Failed> for NotTaken {
    fn from(Failed { id, why }: Failed) -> Self {
        Self::Broken { check: id, why }
    }
}

/// Puts a request for these turns to the strategy.
///
/// # Errors
/// There is nothing to put: it does not describe itself, does not take the options, or no turn is left.
pub async fn rehearse(
    place: &Place<'_>,
    subject: &Subject,
    survey: &Survey<'_>,
    wanted: Wanted,
    options: &Options,
    environment: &Environment,
) -> Result<Rehearsal, NotTaken> {
    let description = describe::once(place, subject).await?;
    agree(&description.protocols)
        .map_err(|mismatch| NotTaken::NotAsked(StrategyFailure::Version(mismatch)))?;
    describe::statements(subject, &description).into_iter().next().map_or(Ok(()), Err)?;
    let options = options::resolve(options, &description, environment)
        .map_err(|what| NotTaken::NotAsked(StrategyFailure::BadOptions { what }))?;
    let mut request = Request::of_turns(survey, &description, &options, "c1", wanted, place.deadline)
        .ok_or(NotTaken::Nothing)?;
    let mut said = Vec::new();
    let mut hear = |speaker, bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        said.extend(text.split_terminator('\n').map(|line| (speaker, line.to_owned())));
    };
    let judged = put(place, subject, &mut request, Case::Plain, &mut hear).await;
    let verdict = judged.map_err(NotTaken::from).map(|terminal| match terminal {
        Terminal::Result(result) => match result.compactions.len() {
            1 => "the host would append its compaction".to_owned(),
            count => format!("the host would append its {count} compactions"),
        },
        Terminal::Decline(decline) => format!("it declines: {}", decline.reason),
        // Every round was played.
        Terminal::Needs(_) => String::new(),
        Terminal::Error(error) => error.message,
    });
    Ok(Rehearsal { description, said, verdict })
}

impl Rehearsal {
    /// Writes the exchange to a new file, a line of JSON for each line of it.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub fn record(&self, file: &Path) -> io::Result<()> {
        let from = |speaker: &Speaker| match speaker {
            Speaker::Host => "host",
            Speaker::Strategy => "strategy",
            Speaker::Aside => "stderr",
        };
        let lines = self.said.iter();
        let text: String = lines
            .map(|(speaker, line)| json!({"from": from(speaker), "line": line}).to_string() + "\n")
            .collect();
        let mut new = fs::OpenOptions::new().write(true).create_new(true).open(file)?;
        io::Write::write_all(&mut new, text.as_bytes())
    }
}
