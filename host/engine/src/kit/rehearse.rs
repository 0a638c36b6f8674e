//! One request to one process, on a conversation of the user's: what was sent, what came back, and what the host
//! would make of it. Nothing is appended.

use std::fs;
use std::io;
use std::path::Path;

use jp_compact_core::Survey;
use jp_compact_core::reply::Terminal;
use jp_compact_core::select::Wanted;
use jp_compact_core::spec::Options;
use jp_compact_schema::Description;
use serde_json::json;

use super::ask::Request;
use super::describe;
use super::exchange::{Failed, Model, Place, failed, judge, process_failed, terminal};
use super::subject::Subject;
use crate::environment::Environment;
use crate::options;

/// An exchange that was played through.
#[derive(Debug)]
pub struct Rehearsal {
    /// What the strategy says of itself.
    pub description: Description,
    /// The lines that it was sent.
    pub sent: Vec<String>,
    /// The lines that it answered.
    pub heard: Vec<String>,
    /// What it wrote to stderr.
    pub stderr: String,
    /// What the host would make of the answer.
    pub verdict: Result<String, NotTaken>,
}

/// Why the host would take nothing, and the check of the kit that says so.
#[derive(Debug)]
pub struct NotTaken {
    /// The check's number.
    pub check: &'static str,
    /// What the strategy did.
    pub why: String,
}

impl From<Failed> for NotTaken {
    fn from(failed: Failed) -> Self {
        Self { check: failed.id, why: failed.why }
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
    let options = options::resolve(options, &description, environment).map_err(|what| failed("R11", what))?;
    let request = Request::of_turns(survey, &description, &options, "c1", wanted, place.deadline)
        .ok_or_else(|| failed("P01", "no turn is left to compact"))?;
    let sent = request.bytes();
    let (mut heard, mut stderr) = (Vec::new(), String::new());
    let judged = match place.start(subject, "run", sent.clone()).await {
        Err(error) => Err(process_failed(&error)),
        Ok(ended) => {
            heard = lines(&ended.stdout);
            stderr = ended.stderr.text();
            terminal(&ended, "c1").and_then(|terminal| judge(&request, terminal, Model::Answers))
        }
    };
    let verdict = judged.map_err(NotTaken::from).map(|terminal| match terminal {
        Terminal::Result(result) => match result.compactions.len() {
            1 => "the host would append its compaction".to_owned(),
            count => format!("the host would append its {count} compactions"),
        },
        Terminal::Decline(decline) => format!("it declines: {}", decline.reason),
        Terminal::Needs(needs) => {
            let keys: Vec<_> = needs.requests.into_keys().collect();
            format!("it asks for {} before it goes on", keys.join(", "))
        }
        Terminal::Error(error) => error.message,
    });
    Ok(Rehearsal { description, sent: lines(&sent), heard, stderr, verdict })
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).split_terminator('\n').map(str::to_owned).collect()
}

impl Rehearsal {
    /// Writes the exchange to a new file, a line of JSON for each line of it.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub fn record(&self, file: &Path) -> io::Result<()> {
        let said = |who: &'static str, lines: &[String]| -> String {
            lines.iter().map(|line| json!({"from": who, "line": line}).to_string() + "\n").collect()
        };
        let text = said("host", &self.sent) + &said("strategy", &self.heard);
        let mut new = fs::OpenOptions::new().write(true).create_new(true).open(file)?;
        io::Write::write_all(&mut new, text.as_bytes())
    }
}
