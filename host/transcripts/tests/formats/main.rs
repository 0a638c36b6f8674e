//! Tests of the transcript formats. Each sample is read, and written back with and without overlays. The samples in
//! `samples/` are ours. Samples of the programs themselves are read if they are present.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod anthropic;
mod atif;
mod bodies;
mod check;
mod claude_code;
mod cline;
mod codex;
mod coverage;
mod detection;
mod event_kinds;
mod event_list;
mod event_members;
mod event_text;
mod gemini;
mod gemini_cli;
mod irregular;
mod j_cli;
mod kimi_cli;
mod model_input;
mod model_provider;
mod ollama;
mod openai_chat;
mod openai_responses;
mod opencode;
mod openhands;
mod partial_summaries;
mod pi;
mod qwen_code;
mod random_summaries;
mod record;
mod samples;
mod sidecar;
mod step_notes;
mod steps;
mod strip_length;
mod surrogates;
mod swe_agent;
mod title;
mod windows;

use check::check;
use jp_compact_transcripts::Format;

#[track_caller]
fn check_format(format: Format, folder: &str) {
    let samples = samples::project_samples(format);
    assert!(!samples.is_empty(), "{format} has no sample of ours");
    for sample in samples.into_iter().chain(samples::program_samples(folder)) {
        check(format, &sample);
    }
}

#[test]
fn claude_code_samples_round_trip() {
    check_format(Format::ClaudeCode, "claude-code");
}

#[test]
fn openai_chat_samples_round_trip() {
    check_format(Format::OpenaiChat, "openai-chat");
}

#[test]
fn atif_samples_round_trip() {
    check_format(Format::Atif, "atif");
}

#[test]
fn openhands_samples_round_trip() {
    check_format(Format::OpenHands, "openhands");
}

#[test]
fn swe_agent_samples_round_trip() {
    check_format(Format::SweAgent, "swe-agent");
}

#[test]
fn codex_samples_round_trip() {
    check_format(Format::Codex, "codex");
}

#[test]
fn opencode_samples_round_trip() {
    check_format(Format::Opencode, "opencode");
}

#[test]
fn anthropic_samples_round_trip() {
    check_format(Format::Anthropic, "anthropic-messages");
}

#[test]
fn openai_responses_samples_round_trip() {
    check_format(Format::OpenaiResponses, "openai-responses");
}

#[test]
fn ollama_samples_round_trip() {
    check_format(Format::Ollama, "ollama");
}

#[test]
fn j_cli_samples_round_trip() {
    check_format(Format::JCli, "j-cli");
}
