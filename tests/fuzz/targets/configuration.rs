//! libFuzzer entry point for the configuration.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jp_compact_fuzz::configuration::check(data));
