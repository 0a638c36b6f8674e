//! The kinds of facts that the section "Kept verbatim" lists.

/// The kind of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FactKind {
    /// A sentence in which the user sets a rule.
    Constraint,
    /// The first line of a command.
    Command,
    /// The code of an error, such as `E0308`.
    ErrorCode,
    /// The path of a file.
    Path,
}

impl FactKind {
    pub(super) const ALL: [Self; 4] = [Self::Constraint, Self::Command, Self::ErrorCode, Self::Path];

    /// Returns a count of facts of this kind as text.
    pub(super) fn counted(self, count: usize) -> String {
        let name = match self {
            Self::Constraint => "constraint",
            Self::Command => "command",
            Self::ErrorCode => "error code",
            Self::Path => "path",
        };
        format!("{count} {name}{}", if count == 1 { "" } else { "s" })
    }
}
