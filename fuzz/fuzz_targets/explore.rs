//! The target `explore`; its body is `crash::guided::explore`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| crash::guided::explore(input));
