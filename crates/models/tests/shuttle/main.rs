//! The protocols under shuttle; see the library, and tests/loom/main.rs for the names.
#![forbid(unsafe_code)]
// Protocol files are compiled whole, and no model calls everything in them. A model is compiled
// again for each of its twins.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::duplicate_mod)]

extern crate self as lw_log;
extern crate self as medium;

mod history;
#[path = "../../../lastword/src/perform/mod.rs"]
mod perform;
#[path = "../protocols/persist.rs"]
mod persist;
mod pipeline;
#[path = "../../../lastword/src/poison.rs"]
mod poison;
#[path = "../../../log/src/ring.rs"]
mod ring;
mod schedules;
mod sync;
mod twins;

use real_log::{Group, Transactions};
use real_medium::{Buffer, writes};
use ring::{RECORD_HEAD_WORDS, Ring, Writer};
use std::process::ExitCode;

/// What protocols know of the product's error.
#[derive(Debug)]
enum Error {
    Poisoned { cause: std::sync::Arc<Error> },
    StepPanicked { step: &'static str },
}

/// What the processor offers, of which the protocols take only hints.
mod cpu {
    use crate::sync::AtomicU64;

    /// Short lines make short stripes: eight words.
    pub(crate) const LINE_WORDS: usize = 1;

    pub(crate) fn prefetch_read(_words: &[AtomicU64], _index: usize) {}

    pub(crate) fn prefetch_write(_words: &[AtomicU64], _index: usize) {}
}

fn main() -> ExitCode {
    models::trials::run(
        &[
            ("history::stm_is_serializable_in_id_order", history::stm_is_serializable_in_id_order),
            (
                "history::serial_is_serializable_in_id_order",
                history::serial_is_serializable_in_id_order,
            ),
            ("pipeline::what_is_merged_is_the_history", pipeline::what_is_merged_is_the_history),
        ],
        twins::ALL,
    )
}
