//! What the user has to decide about: a plugin that nobody trusts yet, what it asks for, and what it says of itself.

use std::path::PathBuf;

use jp_compact_schema::{Description, Permissions, Runtime};

use super::grants::{self, Grant};
use super::runs::{Identity, Runs};
use super::{command, shebang, start};
use crate::jail::is_of_system;
use crate::registry::{Form, Plugin};

/// What the user has to decide about.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The plugin.
    pub plugin: Plugin,
    /// The digest of the bytes that are asked about.
    pub sha256: String,
    /// What it asks for: by its manifest, by its first line, and by what it says that it needs.
    pub asked: Permissions,
    /// Whether other bytes at its path were trusted.
    pub changed: bool,
    /// What it says of itself.
    pub said: Said,
    pub(super) identity: Identity,
    /// The lock file that was named.
    lock: Option<PathBuf>,
}

/// What a plugin says of itself before it is trusted.
#[derive(Debug, Clone, Default)]
pub enum Said {
    /// It was not asked.
    #[default]
    Unasked,
    /// It described itself.
    Description(Box<Description>),
    /// It could not be asked, or gave no description, and why.
    Nothing(String),
}

impl Candidate {
    pub(super) fn new(plugin: &Plugin, identity: Identity, changed: bool, lock: Option<PathBuf>) -> Self {
        let (asked, said, sha256) = (asked(plugin), Said::Unasked, identity.sha256.clone());
        Self { plugin: plugin.clone(), sha256, asked, changed, said, identity, lock }
    }

    /// The files outside the system's folders that it runs, and that are trusted with it.
    #[must_use]
    pub fn runs(&self) -> &[Runs] {
        &self.identity.runs
    }

    /// What the user has to decide about: not the interpreter, where that needs no question.
    #[must_use]
    pub fn questions(&self) -> Vec<Grant> {
        grants::missing(&self.asked, &unasked(&self.plugin))
    }

    /// Takes down what it says of itself: what it needs is asked for as well.
    pub(crate) fn hear(&mut self, description: Description) {
        self.asked.llm |= description.needs.iter().any(|need| need == "llm");
        self.said = Said::Description(Box::new(description));
    }

    /// The command that trusts it with what it asks for.
    #[must_use]
    pub fn command(&self) -> String {
        self.command_with(&self.asked)
    }

    /// The command that trusts it with these permissions.
    #[must_use]
    pub fn command_with(&self, permissions: &Permissions) -> String {
        let named = grants::missing(permissions, &unasked(&self.plugin));
        command::trust(&self.plugin, &named, self.lock.as_deref())
    }
}

/// What a plugin asks for: as its manifest says, or, being a script, its interpreter.
#[must_use]
pub fn asked(plugin: &Plugin) -> Permissions {
    match &plugin.form {
        Form::Folder(manifest) => manifest.permissions.clone(),
        Form::Executable => {
            let runtime = start::interpreter(plugin).map_or(Runtime::None, |path| shebang::runtime(&path));
            Permissions { runtime, ..Permissions::default() }
        }
        Form::Dylib | Form::Broken(_) => Permissions::default(),
    }
}

/// What is granted with the trust in it, without being named: the interpreter of a bare script, and that of a manifest
/// in the system's folders.
pub(super) fn unasked(plugin: &Plugin) -> Permissions {
    let is_of_system = || start::interpreter(plugin).is_some_and(|path| is_of_system(&path));
    let needs_no_question = plugin.manifest().is_none() || is_of_system();
    let runtime = if needs_no_question { asked(plugin).runtime } else { Runtime::None };
    Permissions { runtime, ..Permissions::default() }
}

/// These permissions, and what is granted without being named.
pub(super) fn with_unasked(plugin: &Plugin, permissions: Permissions) -> Permissions {
    grants::with(permissions, &grants::grants(&unasked(plugin)))
}
