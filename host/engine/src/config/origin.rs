//! Where a value came from, and what is wrong with one. Values only.

use std::fmt;
use std::path::{Path, PathBuf};

/// A layer of the configuration: each goes before those that stand above it here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// What is built in.
    BuiltIn,
    /// The user's file.
    User(PathBuf),
    /// The file of a workspace: whoever wrote it is not the user, so that it may not say everything.
    Workspace(PathBuf),
    /// A file of `--config`.
    File(PathBuf),
    /// The text of a `--set`.
    Set(String),
    /// A file of JP's own: its `config.toml`, a `base_config.json`, an `events.json`.
    Jp(PathBuf),
}

impl Source {
    /// Whether it is the user's own: built in, in the user's configuration, or typed.
    #[must_use]
    pub fn is_the_users(&self) -> bool {
        match self {
            Self::BuiltIn | Self::User(_) | Self::File(_) | Self::Set(_) => true,
            Self::Workspace(_) | Self::Jp(_) => false,
        }
    }

    /// The file, where it is a configuration of ours and could be typed.
    #[must_use]
    pub fn configuration(&self) -> Option<&Path> {
        match self {
            Self::Workspace(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::User(path) | Self::Workspace(path) | Self::File(path) | Self::Jp(path) => {
                write!(f, "{}", path.display())
            }
            Self::Set(text) => write!(f, "--set {text}"),
        }
    }
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// In which layer.
    pub source: Source,
    /// In which line, counted from 1; of a file that has lines.
    pub line: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// In which layer.
    pub source: Source,
    /// Line and column, counted from 1; of a file.
    pub at: Option<(usize, Option<usize>)>,
    /// What was found, and what was expected.
    pub what: String,
    /// Whether it is only wrong for standing in a workspace's file.
    pub is_the_users: bool,
}

impl Wrong {
    /// Something that is wrong with a layer as a whole.
    pub(super) fn of(source: &Source, what: impl Into<String>) -> Self {
        Self { source: source.clone(), at: None, what: what.into(), is_the_users: false }
    }

    /// Something that is wrong at an offset of a layer's text.
    pub(super) fn at(source: &Source, text: &str, offset: usize, what: impl Into<String>) -> Self {
        let (line, column) = line_and_column(text, offset);
        let is_file = !matches!(source, Source::Set(_));
        Self { at: is_file.then_some((line, Some(column))), ..Self::of(source, what) }
    }

    /// Something that only shows once all layers are put together.
    pub(super) fn with(origin: &Origin, what: impl Into<String>) -> Self {
        Self { at: origin.line.map(|line| (line, None)), ..Self::of(&origin.source, what) }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, Some(column))) => write!(f, "line {line}, column {column}: {}", self.what),
            Some((line, None)) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Wrong {}

/// The line and the column, in characters, of a byte of a text; both counted from 1.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
    (line, column)
}
