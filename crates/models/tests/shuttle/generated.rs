//! The mutants that shuttle must detect: modules that build.rs generates.

#![allow(
    unused,
    clippy::all,
    clippy::too_many_lines,
    reason = "a mutant is product code with one change, which may leave names unused"
)]

include!(concat!(env!("OUT_DIR"), "/shuttle.rs"));
