//! The list of all sessions, as a JSON document.

use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{ListedSession, SessionListReport};
use jp_compact_transcripts::Format;

use crate::agent::Agent;
use crate::error::SessionError;
use crate::find::find_all;
use crate::jp::jp_conversations;
use crate::list::describe;
use crate::opencode_cli::OpenCode;

/// The sessions that a user wants to see.
#[derive(Debug, Clone, Copy)]
pub struct ListRequest {
    /// An agent, or JP. `None` lists all.
    pub agent: Option<Format>,
    pub only_forks: bool,
    pub max: usize,
}

/// Lists sessions, newest first. Also returns the number of sessions that the maximum leaves out.
///
/// # Errors
/// JP's conversations cannot be listed. A failure of OpenCode is a note.
pub async fn list_sessions(
    request: &ListRequest,
    environment: &Environment,
) -> Result<(SessionListReport, usize), SessionError> {
    let agents: Vec<Agent> = match request.agent {
        Some(format) => Agent::of_format(format).into_iter().collect(),
        None => Agent::ALL.to_vec(),
    };
    let (files, mut notes) = (find_all(&agents, environment), Vec::new());
    // Only the listed files are read. A fork is recognized by its content.
    let read_max = if request.only_forks { files.len() } else { request.max };
    let mut hidden = files.len().saturating_sub(read_max);
    let mut rows: Vec<ListedSession> =
        files.into_iter().take(read_max).map(|file| describe(file).into()).collect();
    if agents.contains(&Agent::Opencode)
        && let Some(program) = OpenCode::find(environment)
    {
        match program.list().await {
            Ok(listed) => rows.extend(listed.into_iter().map(ListedSession::from)),
            Err(error) => notes.push(error.to_string()),
        }
    }
    if request.agent.is_none_or(|format| format == Format::Jp) {
        rows.extend(jp_conversations(environment)?.into_iter().map(ListedSession::from));
    }
    rows.retain(|row| !request.only_forks || row.fork_of.is_some());
    rows.sort_by(|left, right| (&right.modified, &right.id).cmp(&(&left.modified, &left.id)));
    hidden += rows.len().saturating_sub(request.max);
    rows.truncate(request.max);
    Ok((SessionListReport { sessions: rows, notes }, hidden))
}

/// Returns the sessions of all agents and JP's conversations, newest first. In contrast to [`list_sessions`], no
/// program is asked, so the sessions in OpenCode's database are missing. A folder that cannot be read counts as empty.
#[must_use]
pub fn recorded_sessions(max: usize, environment: &Environment) -> Vec<ListedSession> {
    let files = find_all(&Agent::ALL, environment);
    let mut rows: Vec<ListedSession> =
        files.into_iter().take(max).map(|file| describe(file).into()).collect();
    let conversations = jp_conversations(environment).unwrap_or_default();
    rows.extend(conversations.into_iter().map(ListedSession::from));
    rows.sort_by(|left, right| (&right.modified, &right.id).cmp(&(&left.modified, &left.id)));
    rows.truncate(max);
    rows
}

/// Returns the ids of the sessions of all agents, with which [`crate::find`] compares an id. No session is read.
#[must_use]
pub fn file_ids(environment: &Environment) -> Vec<String> {
    find_all(&Agent::ALL, environment).into_iter().map(|file| file.id).collect()
}

/// Returns the ids of the sessions of all agents and of JP's conversations. No session is read.
#[must_use]
pub fn session_ids(max: usize, environment: &Environment) -> Vec<String> {
    let conversations = jp_conversations(environment).unwrap_or_default();
    let ids = conversations.into_iter().map(|conversation| conversation.id);
    ids.chain(file_ids(environment)).take(max).collect()
}
