//! Foreign values: values of a configuration that are not the user's own and that select a model or its prompt. This
//! module only describes them. `consent` decides whether they may lead to a request to a model.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::call::Call;
use jp_compact_runtime::digest;
use serde_json::Value;

use super::Origin;
use super::origin::Source;
use jp_compact_llm::ModelName;
use jp_compact_store as store;

/// A configured value that is not the user's own, with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignValue {
    /// The decision that the value makes.
    pub decision: ModelDecision,
    /// The origin of the value.
    pub origin: Origin,
}

/// A decision about a model or its prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelDecision {
    /// A key selects a profile.
    Choice {
        /// The key, below `conversation.compaction`.
        key: &'static str,
        profile: String,
        /// The calls of the profile, if the profile is the user's own.
        calls: Vec<Call>,
    },
    /// `query` compacts automatically.
    AutoCompact,
    /// A profile is defined or changed.
    Profile {
        /// The name of the profile.
        name: String,
        /// The calls of the profile.
        calls: Vec<Call>,
    },
    /// A model is selected.
    Model {
        model: ModelName,
        /// The key that selects it.
        key: &'static str,
    },
}

/// JP's key for the model of a conversation.
const CONVERSATION_MODEL_KEY: &str = "assistant.model";

impl ForeignValue {
    /// Returns a decision with its origin, or `None` if the origin is the user's own.
    pub(super) fn from_origin(
        origin: Option<&Origin>,
        decision: impl FnOnce() -> ModelDecision,
    ) -> Option<Self> {
        let origin = origin.filter(|origin| !origin.source.is_users_own())?;
        Some(Self { decision: decision(), origin: origin.clone() })
    }
}

impl fmt::Display for ForeignValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = &self.origin;
        match &self.decision {
            ModelDecision::Choice { key, profile, .. } => {
                write!(f, "{origin} chooses profile `{profile}` (`{key}`)")
            }
            ModelDecision::AutoCompact => {
                write!(f, "{origin} lets `query` compact on its own (`auto.enabled`)")
            }
            ModelDecision::Profile { name, .. } => write!(f, "{origin} defines or changes profile `{name}`"),
            ModelDecision::Model { model, .. } => write!(f, "{origin} names the model `{model}`"),
        }
    }
}

impl ModelDecision {
    /// Returns all parts of the decision as pairs of label and text. The user reads these rows, and an approval is a
    /// digest of them.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String)> {
        let row = |label: &str, value: &str| (label.to_owned(), value.to_owned());
        match self {
            Self::Choice { key, profile, calls } => {
                [row("key", key), row("profile", profile)].into_iter().chain(call_rows(calls)).collect()
            }
            Self::AutoCompact => vec![row("key", "auto.enabled")],
            Self::Profile { name, calls } => {
                [row("profile", name)].into_iter().chain(call_rows(calls)).collect()
            }
            Self::Model { model, key } => {
                vec![row("key", key), row("provider", model.provider()), row("model", model.name())]
            }
        }
    }

    /// Returns the digest of the rows.
    #[must_use]
    pub fn sha256(&self) -> String {
        let rows = self.rows().into_iter().map(|(label, text)| vec![label, text]);
        digest::of_bytes(Value::from_iter(rows).to_string().as_bytes())
    }
}

fn call_rows(calls: &[Call]) -> impl Iterator<Item = (String, String)> {
    calls.iter().flat_map(|call| {
        let mut rows = vec![("strategy".to_owned(), call.strategy.clone())];
        for (name, value) in &call.options {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match text.parse::<ModelName>() {
                Ok(model) if name == "model" => {
                    rows.push(("provider".to_owned(), model.provider().to_owned()));
                    rows.push(("model".to_owned(), model.name().to_owned()));
                }
                _ => rows.push((name.clone(), text)),
            }
        }
        rows
    })
}

/// The values that led to a call of a strategy and are not the user's own. Empty if the user typed or configured the
/// call, or if it is built in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance(pub(super) Vec<ForeignValue>);

impl Provenance {
    /// Creates an empty provenance for a strategy and options that the user typed.
    #[must_use]
    pub fn typed() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn foreign(&self) -> &[ForeignValue] {
        &self.0
    }
}

/// A model from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredModel {
    pub model: ModelName,
    /// The value that selected the model, if it is not the user's own.
    pub foreign: Option<ForeignValue>,
}

impl ConfiguredModel {
    /// Returns the model of a conversation from a file of JP.
    #[must_use]
    pub fn of_conversation(model: ModelName, origin: &Origin) -> Self {
        let foreign = ForeignValue::from_origin(Some(origin), || ModelDecision::Model {
            model: model.clone(),
            key: CONVERSATION_MODEL_KEY,
        });
        Self { model, foreign }
    }

    /// Returns whether a file of JP selected it for the conversation.
    #[must_use]
    pub fn is_of_conversation(&self) -> bool {
        let decision = self.foreign.as_ref().map(|foreign| &foreign.decision);
        matches!(decision, Some(ModelDecision::Model { key, .. }) if *key == CONVERSATION_MODEL_KEY)
    }
}

/// The folder whose configuration applies to a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigScope {
    /// The folder whose configuration applies.
    pub(super) root: Option<PathBuf>,
    /// Whether the transcript is in `root`.
    pub(super) contains_transcript: bool,
    /// The folder of the transcript.
    pub(super) transcript_folder: Option<PathBuf>,
}

impl ConfigScope {
    /// Returns the folder whose configuration applies.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Returns the folder for which the user can approve a value from this origin. `None` if the user cannot approve
    /// it, because the transcript is in another folder than the value.
    #[must_use]
    pub fn folder_to_approve(&self, origin: &Origin) -> Option<&Path> {
        self.approval_folder().filter(|_| self.contains_transcript || self.is_of_transcript(origin))
    }

    /// Returns the folder of all approvals for the transcript.
    #[must_use]
    pub fn approval_folder(&self) -> Option<&Path> {
        if self.contains_transcript { self.root.as_deref() } else { self.transcript_folder.as_deref() }
    }

    /// Returns the folder for which `config trust` shows a value from this origin. For the settings of a conversation,
    /// returns the conversation.
    #[must_use]
    pub fn shown_with(&self, origin: &Origin) -> Option<PathBuf> {
        if let Source::Conversation(path) = &origin.source {
            return store::transcript_of_settings(path);
        }
        let folder = if self.is_of_transcript(origin) {
            self.transcript_folder.as_deref()
        } else {
            self.root.as_deref()
        };
        folder.map(Path::to_path_buf)
    }

    /// Returns whether a value is in the transcript or in a file next to it.
    fn is_of_transcript(&self, origin: &Origin) -> bool {
        match &origin.source {
            Source::Conversation(_) => true,
            Source::Jp(path) => {
                self.transcript_folder.is_some() && path.parent() == self.transcript_folder.as_deref()
            }
            _ => false,
        }
    }

    /// Returns the scope without the folder of the transcript. Equal scopes can share a plan if no setting comes from
    /// the folder of a transcript.
    #[must_use]
    pub fn without_transcript_folder(self) -> Self {
        Self { transcript_folder: None, ..self }
    }
}
