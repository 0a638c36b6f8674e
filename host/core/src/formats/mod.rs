//! How transcripts are written down: JP's own form, and those of other programs, one file each (TRANSCRIPTS). A reader
//! makes events of a source's bytes and says where in them each lies; [`edit`] writes a view back into the same bytes.

mod anthropic;
mod atif;
mod claude_code;
mod codex;
mod coverage;
mod detect;
pub(crate) mod edit;
mod foreign;
mod gemini;
mod gemini_cli;
mod gemini_log;
mod j_cli;
pub mod jp;
mod mend;
mod name;
mod ollama;
mod openai_chat;
mod openai_responses;
mod opencode;
mod openhands;
mod pairs;
mod pi;
mod pi_path;
mod reading;
mod removed;
mod swe_agent;
mod title;
mod tree;
mod unsupported;
mod write;

use std::str::FromStr;

use bytes::Bytes;

pub use self::coverage::{NotUnderstood, examine};
use self::detect::Sample;
pub(crate) use self::foreign::{Foreign, Place};
use self::jp::Unreadable;
use self::pairs::Pair;
pub(crate) use self::reading::IMAGE;
use self::reading::Reading;
pub(crate) use self::title::title;
pub use self::unsupported::program;
use crate::render::Provider;
use crate::stream::Stream;

/// In which form a transcript is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// JP's `events.json`.
    Jp,
    /// Claude Code's sessions, JSONL.
    ClaudeCode,
    /// `OpenAI`'s chat: a body, its messages alone, or the JSONL of fine-tuning.
    OpenaiChat,
    /// Codex's rollouts.
    Codex,
    /// OpenCode's exports.
    Opencode,
    /// pi's sessions.
    Pi,
    /// Gemini CLI's chats.
    GeminiCli,
    /// `OpenAI`'s responses.
    OpenaiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's contents.
    Gemini,
    /// Ollama's chat.
    Ollama,
    /// J-CLI's transcripts.
    JCli,
    /// ATIF trajectories.
    Atif,
    /// SWE-agent's trajectories.
    SweAgent,
    /// OpenHands' events.
    OpenHands,
}

/// What a format has to say for itself.
trait Transcript: Sync {
    /// Whether bytes that begin like this are written in it. The first of [`Format::ALL`] that says so is it, so a
    /// form that another is a special case of comes behind that one.
    fn detects(&self, sample: &Sample<'_>) -> bool;

    /// Reads the events, in the order in which a model was sent them.
    ///
    /// # Errors
    /// Where the bytes are none of this format, by the byte.
    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable>;

    /// The records that stand for a summary: what the user says, then what the assistant answers. Without what parts
    /// records, which is written around them.
    fn pair(&self, pair: &Pair<'_>) -> Vec<String>;

    /// The member of a message that holds its blocks, where the provider wants the roles in turn: messages of one role
    /// that a change brought together become one.
    fn blocks(&self) -> Option<&'static str> {
        None
    }

    /// Whether what is read as a thought may be all that a message says: where it is the visible text. Elsewhere one goes
    /// with what it led to, because a provider takes none alone.
    fn says_thoughts(&self) -> bool {
        false
    }
}

impl Format {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Self; 15] = [
        Self::Jp,
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

    /// Its name, as the command line has it.
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
        }
    }

    /// Whose request bodies are written in it.
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

    /// What reads it; nothing for JP's, which is the stream's own.
    fn transcript(self) -> Option<&'static dyn Transcript> {
        Some(match self {
            Self::Jp => return None,
            Self::ClaudeCode => &claude_code::ClaudeCode,
            Self::OpenaiChat => &openai_chat::OpenaiChat,
            Self::Codex => &codex::Codex,
            Self::Opencode => &opencode::Opencode,
            Self::Pi => &pi::Pi,
            Self::GeminiCli => &gemini_cli::GeminiCli,
            Self::OpenaiResponses => &openai_responses::OpenaiResponses,
            Self::Anthropic => &anthropic::Anthropic,
            Self::Gemini => &gemini::Gemini,
            Self::Ollama => &ollama::Ollama,
            Self::JCli => &j_cli::JCli,
            Self::Atif => &atif::Atif,
            Self::SweAgent => &swe_agent::SweAgent,
            Self::OpenHands => &openhands::OpenHands,
        })
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
            format!("expected one of {}, not `{text}`", names.join(", "))
        })
    }
}

/// The format of a transcript, by what it holds. Another program's resembles one, and is of none.
#[must_use]
pub fn detect(bytes: &[u8]) -> Option<Format> {
    let found = detect::with_samples(bytes, |sample| {
        if unsupported::of(sample).is_some() {
            return Some(None);
        }
        let is_it = |format: &Format| match format.transcript() {
            Some(transcript) => transcript.detects(sample),
            None => detect::is_jp(sample),
        };
        Format::ALL.into_iter().find(is_it).map(Some)
    });
    found.flatten()
}

/// Whether lines are J-CLI's for certain, also where they stand in an array: bare messages could be `OpenAI`'s.
#[must_use]
pub fn is_surely_j_cli(lines: &[u8]) -> bool {
    detect::with_samples(lines, |sample| j_cli::is_sure(sample).then_some(())).is_some()
}

/// Where bytes of no known format stop being JSON, or lines of JSON; nothing where they do not.
#[must_use]
pub fn malformed(bytes: &[u8]) -> Option<Unreadable> {
    detect::malformed(bytes)
}

/// Whether a transcript is the body of a request to that provider already, with model and tools and all. A list of
/// messages is none, nor is an answer, a checkpoint or a line of a batch.
#[must_use]
pub fn is_body(stream: &Stream, provider: Provider) -> bool {
    stream.format().provider() == Some(provider)
        && detect::is_document_with(stream.bytes(), provider.conversation())
}

/// Reads a transcript in a format that is known.
///
/// # Errors
/// When the bytes are none of that format, by the byte.
pub fn read(format: Format, bytes: Bytes) -> Result<Stream, Unreadable> {
    let Some(transcript) = format.transcript() else { return Stream::parse(bytes) };
    let mut reading = Reading::of(bytes, format);
    transcript.read(&mut reading)?;
    reading.done()
}
