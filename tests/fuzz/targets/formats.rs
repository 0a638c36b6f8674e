//! libFuzzer entry point for transcripts of all agents.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jp_compact_fuzz::formats::check(data));
