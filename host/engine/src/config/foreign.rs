//! The values of a configuration that are not the user's own and that lead to a model, or say what it is asked.
//! A function of the layers; whether a model may be asked all the same is decided in `consent`.

use std::fmt;
use std::path::{Path, PathBuf};

use jp_compact_core::call::Call;
use serde_json::Value;

use super::Origin;
use super::origin::Source;
use crate::digest;
use crate::llm::ModelName;

/// A value that is not the user's own, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// What it decides.
    pub subject: Subject,
    /// Where it is.
    pub origin: Origin,
}

/// A decision that leads to a model, or that the model is asked by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A key chooses a profile.
    Choice {
        /// The key, below `conversation.compaction`.
        key: &'static str,
        /// The profile.
        profile: String,
        /// What the profile calls, where that is the user's own.
        calls: Vec<Call>,
    },
    /// `query` compacts without being asked to.
    Unasked,
    /// A profile is defined, or a part of it is changed.
    Profile {
        /// Its name.
        name: String,
        /// What it calls.
        calls: Vec<Call>,
    },
    /// A model is named.
    Model {
        /// The model.
        model: ModelName,
        /// The key that names it.
        key: &'static str,
    },
}

/// The key of the model that a conversation is held with.
const OWN_MODEL: &str = "assistant.model";

impl Foreign {
    /// A value, where its source is not the user's own.
    pub(super) fn of(origin: Option<&Origin>, subject: impl FnOnce() -> Subject) -> Option<Self> {
        let origin = origin.filter(|origin| !origin.source.is_the_users())?;
        Some(Self { subject: subject(), origin: origin.clone() })
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = &self.origin;
        match &self.subject {
            Subject::Choice { key, profile, .. } => {
                write!(f, "{origin} chooses profile `{profile}` (`{key}`)")
            }
            Subject::Unasked => write!(f, "{origin} lets `query` compact on its own (`auto.enabled`)"),
            Subject::Profile { name, .. } => write!(f, "{origin} defines or changes profile `{name}`"),
            Subject::Model { model, .. } => write!(f, "{origin} names the model `{model}`"),
        }
    }
}

impl Subject {
    /// All of it in words: what the user is shown, and what an approval is a digest of.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String)> {
        let row = |label: &str, value: &str| (label.to_owned(), value.to_owned());
        match self {
            Self::Choice { key, profile, calls } => {
                [row("key", key), row("profile", profile)].into_iter().chain(of_calls(calls)).collect()
            }
            Self::Unasked => vec![row("key", "auto.enabled")],
            Self::Profile { name, calls } => {
                [row("profile", name)].into_iter().chain(of_calls(calls)).collect()
            }
            Self::Model { model, key } => {
                vec![row("key", key), row("provider", model.provider()), row("model", model.name())]
            }
        }
    }

    /// The digest of what is shown.
    #[must_use]
    pub fn sha256(&self) -> String {
        digest::of_bytes(
            Value::from_iter(self.rows().into_iter().map(|(label, text)| vec![label, text]))
                .to_string()
                .as_bytes(),
        )
    }
}

fn of_calls(calls: &[Call]) -> impl Iterator<Item = (String, String)> {
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

/// The values that led to a strategy and are not the user's own. None of them: the user typed it, configured it, or
/// it is built in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lead(pub(super) Vec<Foreign>);

impl Lead {
    /// The user typed the strategy and its options.
    #[must_use]
    pub fn typed() -> Self {
        Self::default()
    }

    /// The values.
    #[must_use]
    pub fn foreign(&self) -> &[Foreign] {
        &self.0
    }
}

/// A model that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The model.
    pub model: ModelName,
    /// Why it is not the user's own choice, if it is not.
    pub foreign: Option<Foreign>,
}

impl Named {
    /// The model that a conversation is held with, as a file of JP's names it.
    #[must_use]
    pub fn of_conversation(model: ModelName, origin: &Origin) -> Self {
        let foreign = Foreign::of(Some(origin), || Subject::Model { model: model.clone(), key: OWN_MODEL });
        Self { model, foreign }
    }

    /// Whether it is the model that the conversation is held with.
    #[must_use]
    pub fn is_of_conversation(&self) -> bool {
        let subject = self.foreign.as_ref().map(|foreign| &foreign.subject);
        matches!(subject, Some(Subject::Model { key, .. }) if *key == OWN_MODEL)
    }
}

/// Whose files count for a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The folder whose files count.
    pub(super) root: Option<PathBuf>,
    /// Whether the transcript is in it.
    pub(super) contains: bool,
    /// The transcript's own folder.
    pub(super) own: Option<PathBuf>,
}

impl Scope {
    /// The folder whose files count.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The folder that has to be approved for a value from there to count. None: no approval is enough, because the
    /// transcript is somewhere else.
    #[must_use]
    pub fn approved_by(&self, origin: &Origin) -> Option<&Path> {
        if self.contains {
            return self.root.as_deref();
        }
        self.own.as_deref().filter(|_| self.is_of_transcript(origin))
    }

    /// The folder to show to the user who approves a value from there.
    #[must_use]
    pub fn shown_by(&self, origin: &Origin) -> Option<&Path> {
        if self.is_of_transcript(origin) { self.own.as_deref() } else { self.root.as_deref() }
    }

    /// Whether a value is in the transcript, or in a file next to it.
    fn is_of_transcript(&self, origin: &Origin) -> bool {
        matches!(&origin.source, Source::Jp(path) if self.own.is_some() && path.parent() == self.own.as_deref())
    }

    /// The same for transcripts that differ in nothing but their folder, where that folder decides nothing.
    #[must_use]
    pub fn without_own(self) -> Self {
        Self { own: None, ..self }
    }
}
