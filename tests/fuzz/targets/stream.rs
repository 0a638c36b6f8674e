//! libFuzzer entry point for JP's stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jp_compact_fuzz::stream::check(data));
