//! The simulated machine from outside: one program, since every one of them would compile all
//! workloads again.

#![allow(clippy::duplicate_mod, reason = "the example of a design is a program of its own, too")]

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
