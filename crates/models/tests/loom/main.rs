//! The protocols under loom; see the library.
//!
//! The protocol files say `medium` and `lw_log`. Here both are this crate: it has `cpu` hints that
//! do nothing and the ring beside loom's atomics, and hands on the rest of the real ones.
#![forbid(unsafe_code)]
// Protocol files are compiled whole, and no model calls everything in them. A model is compiled
// again for each of its twins.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::duplicate_mod)]

extern crate self as lw_log;
extern crate self as medium;

mod claims;
mod explore;
mod helping;
mod isolation;
mod laps;
#[path = "../../../lastword/src/perform/mod.rs"]
mod perform;
#[path = "../protocols/persist.rs"]
mod persist;
#[path = "../../../lastword/src/poison.rs"]
mod poison;
mod publication;
#[path = "../../../log/src/ring.rs"]
mod ring;
mod sleeping;
mod sync;
mod twins;
mod waiting;

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
            ("laps::records_are_taken_whole", laps::records_are_taken_whole),
            (
                "laps::space_is_overwritten_only_after_its_copy",
                laps::space_is_overwritten_only_after_its_copy,
            ),
            (
                "claims::only_what_is_published_is_claimed",
                claims::only_what_is_published_is_claimed,
            ),
            (
                "claims::an_idle_worker_holds_nothing_back",
                claims::an_idle_worker_holds_nothing_back,
            ),
            ("waiting::no_wake_up_is_lost", waiting::no_wake_up_is_lost),
            (
                "helping::who_finds_the_step_taken_is_not_forgotten",
                helping::who_finds_the_step_taken_is_not_forgotten,
            ),
            ("helping::two_that_help_each_other_end", helping::two_that_help_each_other_end),
            ("sleeping::a_commit_wakes_the_thread", sleeping::a_commit_wakes_the_thread),
            ("isolation::a_body_never_sees_a_torn_pair", isolation::a_body_never_sees_a_torn_pair),
            ("isolation::a_run_is_never_torn", isolation::a_run_is_never_torn),
            (
                "isolation::an_extended_snapshot_is_one_moment",
                isolation::an_extended_snapshot_is_one_moment,
            ),
            (
                "isolation::what_is_taken_back_is_never_seen",
                isolation::what_is_taken_back_is_never_seen,
            ),
            ("isolation::write_skew_never_happens", isolation::write_skew_never_happens),
            (
                "isolation::dependent_transactions_commit_in_id_order",
                isolation::dependent_transactions_commit_in_id_order,
            ),
            (
                "publication::a_commit_is_claimed_with_its_record",
                publication::a_commit_is_claimed_with_its_record,
            ),
        ],
        twins::ALL,
    )
}
