//! The names of the transcript formats. They are part of the command line and of sidecars, so a name must not
//! change.

use std::str::FromStr;

use jp_compact_core::render::Provider;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// JP's `events.json`.
    Jp,
    /// Claude Code's sessions, JSONL.
    ClaudeCode,
    /// `OpenAI`'s chat: a body, a bare list of messages, or a line for fine-tuning.
    OpenaiChat,
    Codex,
    Opencode,
    Pi,
    GeminiCli,
    /// `OpenAI`'s Responses API.
    OpenaiResponses,
    /// Anthropic's Messages API.
    Anthropic,
    /// The `contents` of Google's Gemini API.
    Gemini,
    Ollama,
    JCli,
    Atif,
    SweAgent,
    OpenHands,
    QwenCode,
    KimiCli,
    Cline,
}

impl Format {
    /// All formats, in the order of detection.
    pub const ALL: [Self; 18] = [
        Self::Jp,
        Self::QwenCode,
        Self::KimiCli,
        Self::Cline,
        Self::ClaudeCode,
        Self::Codex,
        Self::Opencode,
        Self::Pi,
        Self::GeminiCli,
        Self::Atif,
        Self::OpenHands,
        Self::SweAgent,
        Self::OpenaiResponses,
        Self::Anthropic,
        Self::Gemini,
        Self::Ollama,
        Self::JCli,
        Self::OpenaiChat,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jp => "jp",
            Self::ClaudeCode => "claude-code",
            Self::OpenaiChat => "openai-chat",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Pi => "pi",
            Self::GeminiCli => "gemini-cli",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::JCli => "j-cli",
            Self::Atif => "atif",
            Self::SweAgent => "swe-agent",
            Self::OpenHands => "openhands",
            Self::QwenCode => "qwen-code",
            Self::KimiCli => "kimi-cli",
            Self::Cline => "cline",
        }
    }

    /// Returns whether each record of the assistant is one response of the model.
    #[must_use]
    pub fn has_record_per_response(self) -> bool {
        match self {
            Self::Pi
            | Self::GeminiCli
            | Self::QwenCode
            | Self::KimiCli
            | Self::Cline
            | Self::Atif
            | Self::SweAgent
            | Self::Anthropic
            | Self::OpenaiChat
            | Self::Gemini
            | Self::Ollama
            | Self::JCli => true,
            // The reader marks responses itself, or the format has one record for each part of a response.
            Self::Jp
            | Self::ClaudeCode
            | Self::Codex
            | Self::Opencode
            | Self::OpenaiResponses
            | Self::OpenHands => false,
        }
    }

    /// Returns whether an agent other than JP writes this format. The rest are JP's own format and request bodies.
    #[must_use]
    pub fn is_of_other_agent(self) -> bool {
        self != Self::Jp && self.provider().is_none()
    }

    /// Returns the provider whose request bodies have this form.
    #[must_use]
    pub fn provider(self) -> Option<Provider> {
        match self {
            Self::Anthropic => Some(Provider::Anthropic),
            Self::OpenaiChat => Some(Provider::Openai),
            Self::OpenaiResponses => Some(Provider::OpenaiResponses),
            Self::Gemini => Some(Provider::Gemini),
            Self::Ollama => Some(Provider::Ollama),
            _ => None,
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(|format| format!("`{format}`"));
            format!("unknown format `{text}`, expected one of {}", names.join(", "))
        })
    }
}
