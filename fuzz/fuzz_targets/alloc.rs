//! The target `alloc`; its body is `crash::hostile::alloc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| crash::hostile::alloc(input));
