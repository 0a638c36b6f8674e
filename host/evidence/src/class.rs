//! The classes of anchors. An anchor is a text in a transcript that later events may use again.

/// A class of anchors. Reports list the classes in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A path of a file.
    Path,
    /// A number of at least three digits.
    Number,
    /// A name in snake case or camel case.
    Identifier,
    /// A rare lower-case word of at least seven letters.
    Word,
    /// The first line of a shell command.
    Command,
    /// A line of a tool result that reports an error.
    Error,
    /// A run of eight words of a tool result.
    Quote,
    /// A sentence in which the user sets a rule.
    Constraint,
}

impl Class {
    pub const ALL: [Self; 8] = [
        Self::Path,
        Self::Number,
        Self::Identifier,
        Self::Word,
        Self::Command,
        Self::Error,
        Self::Quote,
        Self::Constraint,
    ];

    /// Returns the name in reports and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Number => "number",
            Self::Identifier => "identifier",
            Self::Word => "word",
            Self::Command => "command",
            Self::Error => "error",
            Self::Quote => "quote",
            Self::Constraint => "constraint",
        }
    }
}

impl std::str::FromStr for Class {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|class| class.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str);
            format!("unknown class `{name}`; the classes are {}", names.join(", "))
        })
    }
}
