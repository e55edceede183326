//! A simulated multi-core machine with persistent memory, for hardware designs.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | the machine of every design: cores, caches, network, memory controllers |
//! | [`design`] | how a machine makes transactions durable: one file per design |
//! | [`crash`] | power failures at any cycle, and the check of the recovered state |
//! | [`image`] | a heap without a machine |
//! | [`mutants`] | injected bugs |
//! | [`persist`] | the persistent state, and each change of it |
//! | [`program`] | the programs that a machine runs |
//! | [`report`] | the results of a run |
//! | [`sweep`] | many simulations |
//!
//! docs/research/simulator.md describes the model and each number of a machine.
//!
//! Every event has a time in cycles of the cores' clock. Equal programs on equal machines have
//! equal results, bit by bit, because nothing here depends on the host.

#[cfg(test)]
extern crate self as sim;

pub mod crash;
pub mod design;
pub mod error;
pub mod image;
pub mod machine;
pub mod mutants;
pub mod persist;
pub mod program;
pub mod report;
mod run;
pub mod sweep;

pub use error::Error;
pub use run::{Progress, Setup, WARM_UP, check, run, run_design};
