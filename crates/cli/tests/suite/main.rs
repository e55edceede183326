//! Tests of the command line in one program, but for `kill` and `power`.
//!
//! `cargo test -p lastword-cli --test suite pool::` runs the tests of one file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collections;
mod common;
mod compare;
mod crash;
mod dump;
mod full_disk;
#[path = "../../src/kill_round.rs"]
#[allow(dead_code, reason = "the program and `tests/kill.rs` use the rest")]
mod kill_round;
mod limits;
mod manual;
mod measure;
mod operating;
mod output;
mod pool;
mod readers;
mod replica;
mod reproduce;
mod run;
mod signals;
mod sim;
mod sweep;
mod temporary;
mod transfer;
