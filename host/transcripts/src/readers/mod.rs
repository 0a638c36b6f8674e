//! The readers, one file per format, and the functions that choose a reader.

mod anthropic;
mod atif;
mod claude_code;
mod cline;
mod codex;
mod gemini;
mod gemini_cli;
mod gemini_log;
mod j_cli;
mod kimi_cli;
mod ollama;
mod openai_chat;
mod openai_responses;
mod opencode;
mod openhands;
mod pi;
mod pi_path;
mod qwen_code;
mod swe_agent;
mod values;

use bytes::Bytes;
use jp_compact_condensed::{CondensedSession, SessionLog};
use jp_compact_core::index::Unreadable;
use jp_compact_core::render::Provider;
use jp_compact_core::stream::Stream;

use crate::builder::EventBuilder;
use crate::format::Format;
use crate::reader::Reader;
use crate::sample::{self, Sample};
use crate::source::{ByteSource, WindowedFile};
use crate::transcript::Transcript;
use crate::unsupported;

/// Returns the reader of a format. `None` for JP's own files, which the core reads.
pub(crate) fn reader(format: Format) -> Option<&'static dyn Reader> {
    Some(match format {
        Format::Jp => return None,
        Format::ClaudeCode => &claude_code::ClaudeCode,
        Format::OpenaiChat => &openai_chat::OpenaiChat,
        Format::Codex => &codex::Codex,
        Format::Opencode => &opencode::Opencode,
        Format::Pi => &pi::Pi,
        Format::GeminiCli => &gemini_cli::GeminiCli,
        Format::OpenaiResponses => &openai_responses::OpenaiResponses,
        Format::Anthropic => &anthropic::Anthropic,
        Format::Gemini => &gemini::Gemini,
        Format::Ollama => &ollama::Ollama,
        Format::JCli => &j_cli::JCli,
        Format::Atif => &atif::Atif,
        Format::SweAgent => &swe_agent::SweAgent,
        Format::OpenHands => &openhands::OpenHands,
        Format::QwenCode => &qwen_code::QwenCode,
        Format::KimiCli => &kimi_cli::KimiCli,
        Format::Cline => &cline::Cline,
    })
}

/// Detects the format of a transcript. Returns `None` for an unsupported program, even if it resembles a supported one.
#[must_use]
pub fn detect(bytes: &[u8]) -> Option<Format> {
    sample::with_samples(bytes, format_of).flatten()
}

/// Like [`detect`], for the beginning of a file. Returns `None` if the whole file could have another format.
#[must_use]
pub fn detect_beginning(bytes: &[u8]) -> Option<Format> {
    sample::with_lines(bytes, format_of).flatten()
}

/// Returns `Some(None)` for a program that is not supported.
fn format_of(sample: &Sample<'_>) -> Option<Option<Format>> {
    if unsupported::program_of(sample).is_some() {
        return Some(None);
    }
    let matches = |format: &Format| match reader(*format) {
        Some(reader) => reader.detects(sample),
        None => sample::is_jp(sample),
    };
    Format::ALL.into_iter().find(matches).map(Some)
}

/// Returns whether lines are certainly J-CLI's. Bare messages could be `OpenAI`'s.
#[must_use]
pub fn is_surely_j_cli(lines: &[u8]) -> bool {
    sample::with_samples(lines, |sample| j_cli::is_sure(sample).then_some(())).is_some()
}

/// Returns whether a transcript is a complete request body for a provider: an object with a member for the
/// conversation, such as `messages`, and not a list, a response, a checkpoint, or a line of a batch.
#[must_use]
pub fn is_request_body(transcript: &Transcript, provider: Provider) -> bool {
    transcript.format().provider() == Some(provider)
        && sample::is_document_with(transcript.bytes(), provider.conversation())
}

/// Reads a transcript of a known format.
///
/// # Errors
/// The bytes are not of that format. The error carries the byte offset.
pub fn read(format: Format, bytes: Bytes) -> Result<Transcript, Unreadable> {
    let Some(reader) = reader(format) else { return Stream::parse(bytes).map(Transcript::from) };
    let mut builder = EventBuilder::new(ByteSource::whole(bytes), format);
    reader.read(&mut builder)?;
    builder.finish()
}

/// Reads a transcript of `size` bytes without its texts in memory, only for [`render`](crate::render) of a view without
/// summaries. `None` if the format cannot be read in this way. After an error, and if the stream has missed bytes, the
/// whole file must be read.
///
/// # Errors
/// The bytes are not of that format, or a line is malformed.
pub fn read_in_windows(
    format: Format,
    size: usize,
    file: Box<dyn WindowedFile>,
) -> Option<Result<Transcript, Unreadable>> {
    let reader = reader(format).filter(|reader| reader.reads_lines_once())?;
    let read = |source| {
        let mut builder = EventBuilder::new(source, format);
        reader.read(&mut builder)?;
        builder.finish()
    };
    Some(ByteSource::in_windows(size, file).and_then(read))
}

/// Like [`read_in_windows`], for overlays that [`can_be_condensed`](jp_compact_condensed::can_be_condensed) accepts.
/// The transcript has only the starts of the turns. `None` also after an error.
pub fn condense(
    format: Format,
    size: usize,
    file: Box<dyn WindowedFile>,
) -> Option<(Transcript, CondensedSession)> {
    let reader = reader(format).filter(|reader| reader.reads_lines_once())?;
    let mut builder = EventBuilder::new(ByteSource::in_windows(size, file).ok()?, format);
    builder.log = Some(SessionLog::for_file_of(size)?);
    reader.read(&mut builder).ok()?;
    builder.finish_condensed()
}
