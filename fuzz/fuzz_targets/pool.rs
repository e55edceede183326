//! The target `pool`; its body is `crash::hostile::pool`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| crash::hostile::pool(input));
