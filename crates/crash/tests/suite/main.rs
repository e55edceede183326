//! Tests of recovery, in one program: the pool's code is compiled for it once.
//!
//! `cargo test -p lastword-crash --test suite explore::` runs those of one file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agree;
mod explore;
mod guided;
mod hostile;
mod injected;
mod regressions;
mod renew;
mod rot;
mod threads;
