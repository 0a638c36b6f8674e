//! The sessions of other agents: where they are kept, their list, and new sessions that an agent resumes.
//!
//! A new session is a copy of a view. Ids that the agent issued are replaced, and ids that a provider issued stay. The
//! original is not changed. A new session is written completely or not at all, and only its owner can read it.
//!
//! The interface is not stable.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

mod age;
mod agent;
mod agents;
mod document;
mod error;
mod find;
mod fork;
mod give_back;
mod hook;
mod ids;
mod jp;
mod json_edit;
mod list;
mod opencode_cli;
mod origin;
mod places;
mod records;
mod replace;
mod report;
mod resume_command;
mod table;

pub use age::age;
pub use agent::Agent;
pub use error::SessionError;
pub use find::{SessionFile, find};
pub use fork::{ForkSource, NewSession, prepare};
pub use give_back::{GIVE_BACK_TOKENS, compacted_part, context_answer};
pub use hook::{HookInput, session_of_hook};
pub use opencode_cli::{ExportedSession, OpenCode, export, install};
pub use origin::{applied_overlays, origin_line, session_origin};
pub use replace::{EarlierFork, earlier_fork};
pub use report::{ListRequest, file_ids, list_sessions, recorded_sessions, session_ids};
pub use resume_command::ResumeCommand;
pub use table::{short_ids, table};
