//! A simulated multi-core machine with persistent memory, for designs in hardware.
//!
//! | module | what it is |
//! |---|---|
//! | [`machine`] | what every design runs on: cores, caches, network, memory controllers |
//! | [`design`] | how a machine makes transactions durable: a file a design |
//! | [`crash`] | power cuts at any cycle, and whether recovery makes of them what it must |
//! | [`image`] | a heap without a machine |
//! | [`mutants`] | bugs to plant |
//! | [`persist`] | when what is persistent changes |
//! | [`program`] | what it runs |
//! | [`report`] | what it has found |
//! | [`sweep`] | many simulations |
//!
//! docs/research/simulator.md says what is modelled, and what each number of a machine is.
//!
//! All that happens has a time, in cycles of the cores' clock. Equal programs on equal machines
//! have equal results, to the last bit: nothing here depends on the host.
#![forbid(unsafe_code)]

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
