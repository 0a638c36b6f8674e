//! Transcripts of other programs: each sample is read, and written back with and without overlays. Samples of ours lie
//! beside, one or more a format, named by it; those of the programs themselves are read where they are there.

#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod anthropic;
mod atif;
mod beside;
mod bodies;
mod check;
mod claude_code;
mod codex;
mod gemini;
mod gemini_cli;
mod halves;
mod j_cli;
mod look;
mod odd;
mod ollama;
mod openai_chat;
mod openai_responses;
mod opencode;
mod openhands;
mod pi;
mod samples;
mod sent;
mod shape;
mod shorter;
mod shown;
mod swe_agent;
mod told;
mod told_apart;
mod understood;

use check::check;
use jp_compact_core::formats::Format;

/// Every sample of a format, ours and others'.
#[track_caller]
fn check_format(format: Format, folder: &str) {
    let ours = samples::ours(format);
    assert!(!ours.is_empty(), "{format} has no sample of ours");
    for sample in ours.into_iter().chain(samples::theirs(folder)) {
        check(format, &sample);
    }
}

#[test]
fn claude_code() {
    check_format(Format::ClaudeCode, "claude-code");
}

#[test]
fn openai_chat() {
    check_format(Format::OpenaiChat, "openai-chat");
}

#[test]
fn atif() {
    check_format(Format::Atif, "atif");
}

#[test]
fn openhands() {
    check_format(Format::OpenHands, "openhands");
}

#[test]
fn swe_agent() {
    check_format(Format::SweAgent, "swe-agent");
}

#[test]
fn codex_holds() {
    check_format(Format::Codex, "codex");
}

#[test]
fn opencode_holds() {
    check_format(Format::Opencode, "opencode");
}

#[test]
fn anthropic() {
    check_format(Format::Anthropic, "anthropic-messages");
}

#[test]
fn openai_responses() {
    check_format(Format::OpenaiResponses, "openai-responses");
}

#[test]
fn ollama() {
    check_format(Format::Ollama, "ollama");
}

#[test]
fn j_cli() {
    check_format(Format::JCli, "j-cli");
}
