//! Integration tests of the simulated machine. They are one program, because each further one would
//! compile all workloads again.

#![allow(clippy::duplicate_mod, reason = "the example design is a program of its own too")]

#[path = "../bare/mod.rs"]
mod bare;
#[path = "../common/mod.rs"]
mod common;

mod add_a_design;
mod bandwidth;
mod before_and_while;
mod deadlock;
mod fall_back;
mod lad;
mod litmus;
mod redu;
mod ssp;
mod unloaded;
mod workloads;
mod write_sets;
