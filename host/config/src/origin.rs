//! The origin of a value, and errors with their position.

use std::fmt;
use std::path::{Path, PathBuf};

/// The source of a configured value: a layer, or a file of JP. The layers are in their order, and later layers override
/// earlier layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The built-in defaults.
    BuiltIn,
    /// The user's file.
    User(PathBuf),
    /// The file of a workspace. The user may not have written it, so it may set only some keys.
    Workspace(PathBuf),
    /// The settings of one conversation, in a file next to its transcript. The file has the limits of a workspace file.
    Conversation(PathBuf),
    /// A file from `--config`.
    File(PathBuf),
    /// The text of a `--set`.
    Set(String),
    /// A file of JP: `config.toml`, `base_config.json`, or `events.json`.
    Jp(PathBuf),
}

impl Source {
    /// Returns whether the layer is the user's own: built in, in the user's configuration, or typed.
    #[must_use]
    pub fn is_users_own(&self) -> bool {
        match self {
            Self::BuiltIn | Self::User(_) | Self::File(_) | Self::Set(_) => true,
            Self::Workspace(_) | Self::Conversation(_) | Self::Jp(_) => false,
        }
    }

    /// Returns the path of a workspace file, or of the settings of a conversation. The user could also pass it to
    /// `--config`.
    #[must_use]
    pub fn workspace_file(&self) -> Option<&Path> {
        match self {
            Self::Workspace(path) | Self::Conversation(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::User(path)
            | Self::Workspace(path)
            | Self::Conversation(path)
            | Self::File(path)
            | Self::Jp(path) => {
                write!(f, "{}", path.display())
            }
            Self::Set(text) => write!(f, "--set {text}"),
        }
    }
}

/// The layer and the line of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The layer.
    pub source: Source,
    /// The line, counted from 1, if the layer is a file.
    pub line: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// An error in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The layer.
    pub source: Source,
    /// Line and column, counted from 1, if the layer is a file.
    pub position: Option<(usize, Option<usize>)>,
    /// The problem, and the expected value.
    pub message: String,
    /// Whether the value would be valid in the user's own file, but not in a workspace file.
    pub allowed_in_user_file: bool,
}

impl ConfigError {
    /// Returns an error about a whole layer.
    pub(super) fn new(source: &Source, message: impl Into<String>) -> Self {
        Self { source: source.clone(), position: None, message: message.into(), allowed_in_user_file: false }
    }

    /// Adds the position of an offset in the text of the layer. The text of a `--set` needs no position.
    pub(super) fn with_position(self, text: &str, offset: usize) -> Self {
        if matches!(self.source, Source::Set(_)) {
            return self;
        }
        let (line, column) = line_and_column(text, offset);
        Self { position: Some((line, Some(column))), ..self }
    }

    /// Returns an error about a merged value.
    pub(super) fn at_origin(origin: &Origin, message: impl Into<String>) -> Self {
        Self { position: origin.line.map(|line| (line, None)), ..Self::new(&origin.source, message) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, Some(column))) => write!(f, "line {line}, column {column}: {}", self.message),
            Some((line, None)) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Returns line and column of a byte offset, in characters, counted from 1.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
    (line, column)
}
