//! The refusal of a transcript of which its reader understood too little. An edit of such a file could destroy records
//! that the reader does not know.

use std::fmt;

use jp_compact_core::event::{Event, Kind};

use crate::coverage::Coverage;
use crate::format::Format;
use crate::transcript::Transcript;
use crate::unsupported;

/// The reason for the refusal of a transcript that can be read: too little of it was understood.
#[derive(Debug, Clone)]
pub struct NotUnderstood {
    format: Format,
    coverage: Coverage,
    /// The unsupported program that wrote the file, if it can be recognized.
    program: Option<&'static str>,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, coverage, program } = self;
        let Coverage { understood, lost, records } = *coverage;
        if understood >= lost {
            write!(out, "the reader of `{format}` found no messages in the transcript")?;
        } else {
            write!(
                out,
                "the reader of `{format}` understands only {understood} of {} bytes of text ({} %) and does not \
                 know {records} {}",
                understood + lost,
                coverage.percent(),
                if records == 1 { "record" } else { "records" },
            )?;
        }
        match program {
            Some(program) => write!(out, "; it looks like a transcript of {program}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NotUnderstood {}

/// Checks that enough of a transcript was understood. Returns a warning if less than 90 % of its text was.
///
/// # Errors
/// Less than half of the text was understood, or nothing: a file of another program that is not blank has no turn, or
/// all elements of a JP file are unknown.
pub fn examine(transcript: &Transcript) -> Result<Option<String>, NotUnderstood> {
    let (coverage, is_empty) = match transcript.source() {
        Some(map) => {
            let is_blank = transcript.index().kept().is_none() && transcript.bytes().trim_ascii().is_empty();
            (map.coverage, transcript.turns() == 0 && !is_blank)
        }
        // JP keeps elements that it does not know and never sends them. One known element is enough.
        None => {
            let is_known = |event: &Event| event.kind != Kind::Unknown;
            let is_all_unknown = !transcript.events().is_empty() && !transcript.events().iter().any(is_known);
            (Coverage::default(), is_all_unknown)
        }
    };
    let Coverage { understood, lost, records } = coverage;
    if is_empty || understood < lost {
        let program = unsupported::program(transcript.bytes());
        return Err(NotUnderstood { format: transcript.format(), coverage, program });
    }
    let has_gaps = coverage.percent() < 90;
    Ok(has_gaps.then(|| {
        format!(
            "the reader of `{2}` does not know {records} {1} ({lost} of {0} bytes of text): unknown records stay in \
             the file, and no overlay covers them",
            understood + lost,
            if records == 1 { "record" } else { "records" },
            transcript.format(),
        )
    }))
}
