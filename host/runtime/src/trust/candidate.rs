//! A plugin that is not trusted yet, with everything that the user needs for a decision: its digest, the
//! permissions that it asks for, and its description.

use std::path::PathBuf;

use jp_compact_schema::{Description, Permissions, Runtime};

use super::command;
use super::grants::{self, Grant};
use super::runs::{ExecutedFile, Identity};
use super::start::{self, asked};
use crate::jail::is_of_system;
use crate::registry::Plugin;

/// A plugin that the user may trust.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The plugin as it was found.
    pub plugin: Plugin,
    /// The digest that would be trusted.
    pub sha256: String,
    /// The permissions from the manifest or the `#!` line, and from the description. If the plugin could not describe
    /// itself, a guessed `subprocess` may be added.
    pub asked: Permissions,
    /// Whether a record trusts other bytes at this path, or the bytes changed before they were trusted or copied.
    pub changed: bool,
    /// The result of asking the plugin for its description.
    pub outcome: DescribeOutcome,
    pub(super) identity: Identity,
    /// The path of `--trust-lock`.
    lock: Option<PathBuf>,
}

/// The result of asking an untrusted plugin for its description.
#[derive(Debug, Clone, Default)]
pub enum DescribeOutcome {
    /// The plugin was not asked.
    #[default]
    NotAsked,
    /// The plugin returned a description.
    Description(Box<Description>),
    /// The plugin could not be asked or returned no description. Holds the reason.
    Failed(String),
}

impl Candidate {
    pub(super) fn new(plugin: &Plugin, identity: Identity, changed: bool, lock: Option<PathBuf>) -> Self {
        let (asked, outcome, sha256) = (asked(plugin), DescribeOutcome::NotAsked, identity.sha256.clone());
        Self { plugin: plugin.clone(), sha256, asked, changed, outcome, identity, lock }
    }

    /// Returns the files outside the system folders that the plugin runs. They are trusted together with it.
    #[must_use]
    pub fn runs(&self) -> &[ExecutedFile] {
        &self.identity.runs
    }

    /// Returns the permissions that the user has to decide about. An interpreter that needs no approval is left out.
    #[must_use]
    pub fn questions(&self) -> Vec<Grant> {
        grants::missing(&self.asked, &implicit(&self.plugin))
    }

    /// Stores the description. Its needs are added to the permissions that the plugin asks for.
    pub fn set_description(&mut self, description: Description) {
        self.asked.llm |= description.needs.iter().any(|need| need == "llm");
        self.outcome = DescribeOutcome::Description(Box::new(description));
    }

    /// Returns the command that trusts the plugin with everything that it asks for.
    #[must_use]
    pub fn command(&self) -> String {
        self.command_with(&self.asked)
    }

    /// Returns the command that trusts the plugin with these permissions.
    #[must_use]
    pub fn command_with(&self, permissions: &Permissions) -> String {
        let explicit = grants::missing(permissions, &implicit(&self.plugin));
        command::trust(&self.plugin, &explicit, self.lock.as_deref())
    }
}

/// Returns the permissions that trust includes without a question: the interpreter of a script without a manifest, or
/// the interpreter that a manifest names if it is in a system folder.
pub(super) fn implicit(plugin: &Plugin) -> Permissions {
    let is_of_system = || start::interpreter(plugin).is_some_and(|path| is_of_system(&path));
    let needs_no_question = plugin.manifest().is_none() || is_of_system();
    let runtime = if needs_no_question { asked(plugin).runtime } else { Runtime::None };
    Permissions { runtime, ..Permissions::default() }
}

/// Adds the permissions that trust includes without a question.
pub(super) fn with_implicit(plugin: &Plugin, permissions: Permissions) -> Permissions {
    grants::add(permissions, &grants::grants(&implicit(plugin)))
}
