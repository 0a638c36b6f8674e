//! libFuzzer entry point for plugin manifests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jp_compact_fuzz::manifest::check(data));
