//! The target `log`; its body is `crash::hostile::log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| crash::hostile::log(input));
