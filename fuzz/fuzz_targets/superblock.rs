//! The target `superblock`; its body is `crash::hostile::superblock`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| crash::hostile::superblock(input));
