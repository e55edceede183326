//! Tests of recovery, in one program so that the pool's code is compiled once.
//!
//! `cargo test -p lastword-crash-tests --test suite explore::` runs the tests of one file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agree;
mod edits;
mod explore;
mod guided;
mod hostile;
mod injected;
mod programs;
mod regressions;
mod renew;
mod rot;
#[path = "../mutants/slot_losses.rs"]
mod slot_losses;
mod slot_witnesses;
mod threads;
mod users_crate;
mod witnesses;
