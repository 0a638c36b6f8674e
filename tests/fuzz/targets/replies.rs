//! libFuzzer entry point for replies of strategies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jp_compact_fuzz::replies::check(data));
