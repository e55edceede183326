//! Reproduction of the evaluations of five papers: their tables and figures, measured here and
//! printed beside the published numbers.
//!
//! A file of targets says what a paper reports and which range a reproduction must meet. A recipe
//! per experiment plans the trials or the simulations that it needs, and computes its rows from
//! their results. The `lastword` program supplies the trials ([`Runner`]), so this crate knows
//! commands and results but no command line, no pool and no design.
//!
//! ```text
//!   targets (targets/*.toml)      published values, and the range that each row must meet
//!   recipes (dudetm/, pisces/ ..) what an experiment needs, and how its rows follow from that
//!      |            \
//!   trials       simulations      run in interleaved rounds | each run once
//!   store        points           kept in DIR/trials.jsonl    | kept in DIR/points
//!      \            /
//!   sheet, rows                   values of rows, curves of figures
//!   results                       rows held against their targets
//!   output/                       terminal table, CSV, SVG charts, HTML page
//! ```
//!
//! The book has a page of each paper, [`book_page()`], written from its targets alone.
//!
//! Invariants:
//! - Several experiments share a trial that has the same command: it runs once a round.
//! - A ratio is taken between trials of one round, which run within a minute of each other.
//! - The workload's own check runs after a command's last round.
//! - Whether a row holds follows from its target and from its median over rounds, and from nothing
//!   else.
#![forbid(unsafe_code)]

mod book_page;
mod budget;
mod comparison;
mod cuts;
mod dudetm;
mod error;
mod lad;
pub mod machine;
mod output;
mod pisces;
pub mod points;
pub mod program;
mod recipe;
mod redu;
mod registry;
mod reproduce;
mod results;
mod rows;
mod runner;
#[cfg(test)]
mod sample;
mod sheet;
mod simulations;
mod ssp;
pub mod statistics;
mod store;
mod targets;
mod trial;
mod trials;

pub use book_page::book_page;
pub use error::Error;
pub use registry::{NAMES, Plan, plan};
pub use reproduce::{Reproduction, Request, list, list_table, reproduce};
pub use results::{Axis, Experiment, Figure, Listed, Point, Results, Row, Series};
pub use runner::{Progress, Runner, TrialRequest, TrialResult};
pub use trial::Trial;
