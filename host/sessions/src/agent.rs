//! The agents whose sessions are known. Their names are part of the command line and of JSON documents, so a name must
//! not change.

use std::fmt;
use std::str::FromStr;

use jp_compact_transcripts::Format;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Agent {
    ClaudeCode,
    Codex,
    Pi,
    GeminiCli,
    Opencode,
    OpenHands,
    QwenCode,
    KimiCli,
}

impl Agent {
    pub const ALL: [Self; 8] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Pi,
        Self::GeminiCli,
        Self::Opencode,
        Self::OpenHands,
        Self::QwenCode,
        Self::KimiCli,
    ];

    /// Returns the format of the agent's transcripts.
    #[must_use]
    pub fn format(self) -> Format {
        match self {
            Self::ClaudeCode => Format::ClaudeCode,
            Self::Codex => Format::Codex,
            Self::Pi => Format::Pi,
            Self::GeminiCli => Format::GeminiCli,
            Self::Opencode => Format::Opencode,
            Self::OpenHands => Format::OpenHands,
            Self::QwenCode => Format::QwenCode,
            Self::KimiCli => Format::KimiCli,
        }
    }

    /// Returns the agent that writes transcripts in this format.
    #[must_use]
    pub fn of_format(format: Format) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.format() == format)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.format().as_str()
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Agent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|agent| agent.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(|agent| format!("`{agent}`"));
            format!("unknown agent `{text}`, expected one of {}", names.join(", "))
        })
    }
}
