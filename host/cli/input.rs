//! The input of commands: transcripts from files or stdin, and the warnings about them. This module must not write to a
//! transcript.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use jp_compact_engine::batch::FoundFiles;
use jp_compact_engine::compact::{self, Opened};
use jp_compact_help::nearest;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_sessions as sessions;
use jp_compact_store::{self as store, LargeTranscript};
use jp_compact_transcripts::{Format, Transcript};

use crate::error::Report;
use crate::exit::Exit;
use crate::human::relative_path;
use crate::output::{self, DataFile};

/// A transcript that is only read.
pub(crate) struct InputTranscript {
    pub(crate) path: PathBuf,
    pub(crate) id: Option<String>,
    pub(crate) stream: Transcript,
}

/// Reads a transcript, or stdin for `-`, and detects its format.
pub(crate) fn read(transcript: &OsStr, environment: &Environment) -> Result<InputTranscript, Report> {
    read_as(transcript, None, environment)
}

/// Reads a transcript, or stdin for `-`, in the given format.
pub(crate) fn read_as(
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Result<InputTranscript, Report> {
    if transcript == "-" {
        let path = PathBuf::from("standard input");
        let bytes = store::read_stdin()?;
        let stream = compact::read_bytes(bytes.clone(), format, &path).map_err(|error| {
            let detected = compact::read_bytes(bytes, None, &path).ok().map(|stream| stream.format());
            read_failure(error, format, detected)
        })?;
        print_warnings(&stream, &path, environment);
        return Ok(InputTranscript { path, id: None, stream });
    }
    let opened = open_as(transcript, format, environment)?;
    print_warnings(&opened.stream, opened.place.path(), environment);
    let id = opened.place.id().map(str::to_owned);
    Ok(InputTranscript { path: opened.place.path().to_owned(), id, stream: opened.stream })
}

fn print_warnings(stream: &Transcript, path: &Path, environment: &Environment) {
    for warning in warnings(stream, path, environment) {
        output::warning(&warning);
    }
}

/// Opens a transcript in the given format, or in the detected format.
pub(crate) fn open_as(
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Result<Opened, Report> {
    compact::open_as(transcript, format, environment)
        .map_err(|error| open_failure(error, transcript, format, environment))
}

/// Opens a transcript for a run that will append.
pub(crate) fn open_to_append(
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Result<Opened, Report> {
    compact::open_to_append(transcript, format, environment)
        .map_err(|error| open_failure(error, transcript, format, environment))
}

/// Opens a large transcript to print it compacted into `output`, and prints its warnings. `None` if it must be read
/// completely.
pub(crate) fn open_large(
    transcript: &OsStr,
    format: Option<Format>,
    output: Option<&DataFile>,
    environment: &Environment,
) -> Result<Option<LargeTranscript>, Report> {
    if transcript == "-" {
        return Ok(None);
    }
    let large = compact::open_large(transcript, format, output, environment)
        .map_err(|error| open_failure(error, transcript, format, environment))?;
    let Some(compact::LargePrint { place, transcript, warnings }) = large else { return Ok(None) };
    let path = relative_path(place.path(), environment);
    warnings.iter().for_each(|warning| output::warning(&format!("{path}: {warning}")));
    Ok(Some(transcript))
}

fn open_failure(
    error: compact::Error,
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Report {
    let detect = || compact::open(transcript, environment).ok().map(|opened| opened.stream.format());
    let detected = if format.is_some() { detect() } else { None };
    with_similar_id(read_failure(error, format, detected), transcript, environment)
}

/// Returns the error of a command that found no transcript in its folders.
pub(crate) fn no_transcript(paths: &[OsString]) -> Report {
    let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    let hint = "`jp-compact list` lists the sessions of this machine";
    Report::new(Exit::Transcript, format!("found no transcript in {}", paths.join(", ")), Some(hint))
}

/// The maximum number of sessions whose ids are compared with a mistyped id.
const IDS_MAX: usize = 1000;

/// Names the file of a session if the argument is the id of the session. Only `fork` and `resume` accept such an id.
pub(crate) fn session_hint(argument: &str, environment: &Environment) -> Option<String> {
    let session = sessions::find(argument, environment).ok()?;
    let path = quoted(&session.path);
    Some(format!("this is the id of a session of {}; give its file: {path}", session.agent))
}

/// Suggests the file of the session, or the nearest id, if the argument may be an id.
pub(crate) fn with_similar_id(report: Report, transcript: &OsStr, environment: &Environment) -> Report {
    let typed = transcript.to_str().filter(|typed| typed.len() >= 6 && !typed.contains(['/', '.']));
    let Some(typed) = typed.filter(|typed| !environment.cwd.join(typed).exists()) else { return report };
    if let Some(hint) = session_hint(typed, environment) {
        return report.with_hint(hint);
    }
    let ids = sessions::session_ids(IDS_MAX, environment);
    // The beginning of an id may be mistyped, too.
    let beginnings = ids.iter().filter_map(|id| id.get(..typed.len()));
    match nearest(typed, ids.iter().map(String::as_str).chain(beginnings)) {
        Some(near) if near != typed => {
            report.with_hint(format!("did you mean `{near}`? `jp-compact list` lists the ids"))
        }
        _ => report,
    }
}

/// Returns the report of a transcript that cannot be read. If the detected format differs from the requested one, the
/// hint is to leave out `--format`.
fn read_failure(error: compact::Error, requested: Option<Format>, detected: Option<Format>) -> Report {
    let report = Report::from(error);
    match (requested, detected) {
        (Some(requested), Some(detected)) if requested != detected => {
            report.with_hint(format!("this file is in the format {detected}; leave --format out"))
        }
        _ => report,
    }
}

/// Returns the warnings about a transcript, with its path.
pub(crate) fn warnings(stream: &Transcript, path: &Path, environment: &Environment) -> Vec<String> {
    let path = relative_path(path, environment);
    compact::warnings(stream).iter().map(|warning| format!("{path}: {warning}")).collect()
}

/// Returns the transcripts at the given paths. A folder that is not a conversation is searched in the same way as by
/// `batch`.
pub(crate) fn find_transcripts(paths: &[OsString], environment: &Environment) -> Vec<OsString> {
    let mut transcripts = Vec::new();
    for path in paths {
        let folder = environment.cwd.join(path);
        let must_search = !path.is_empty() && folder.is_dir() && !folder.join("events.json").exists();
        if !must_search {
            transcripts.push(path.clone());
            continue;
        }
        let files = FoundFiles::gather(std::slice::from_ref(path), None, None, environment);
        if files.is_empty() && files.faults().is_empty() {
            // Reading the folder itself fails with an error that names it.
            transcripts.push(path.clone());
        }
        transcripts.extend(files.faults().iter().map(|fault| fault.path.clone().into()));
        transcripts.extend(files.transcripts(environment).map(OsString::from));
    }
    transcripts
}

/// Returns the error of a command that needs a file, if its transcript is `-`.
pub(crate) fn stdin_refused(message: &str) -> Report {
    let hint = "`print -` and `show -` read stdin; to compact, give a conversation folder or a file";
    Report::new(Exit::Usage, message, Some(hint))
}
