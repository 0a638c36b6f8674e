//! libFuzzer entry point for batch records.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jp_compact_fuzz::records::check(data));
