//! The protocols under shuttle; see the library, and tests/loom/main.rs for the names.
#![forbid(unsafe_code)]
// Protocol files are compiled whole, and no model calls everything in them. A model is compiled
// again for each of its twins. The medium's error is here the product's.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::duplicate_mod,
    clippy::useless_conversion
)]

extern crate self as lw_log;
extern crate self as medium;

#[path = "../protocols/around.rs"]
mod around;
mod history;
mod lists;
mod machine;
mod merging;
#[path = "../../../lastword/src/metrics.rs"]
mod metrics;
mod options;
#[path = "../../../lastword/src/perform/mod.rs"]
mod perform;
#[path = "../../../lastword/src/persist/mod.rs"]
mod persist;
#[path = "../../../log/src/persistent.rs"]
mod persistent;
#[path = "../../../lastword/src/poison.rs"]
mod poison;
mod pool;
#[path = "../../../log/src/ring.rs"]
mod ring;
mod schedules;
mod starving;
mod sync;
mod twins;

use options as ideal;
use options as mvcc;
use options as shadow;
use options as slots;
use options as storage;

use around::{Error, Memory, cpu, signals, superblock};
use options::Options;
use persistent::{PersistentRing, Place, Sent};
use pool::Pool;
use real_log::{
    Combiner, Found, GROUP_HEADER_WORDS, Group, Identity, Lz4, Packed, Scan, Transactions,
};
use real_medium::{Buffer, Counts, HomeMedium, LogMedium, Parts, ReadLog, mutants, writes};
use ring::{RECORD_HEAD_WORDS, RECORD_WORDS_MAX, Ring, Writer};
use std::process::ExitCode;
use twins::whole::{design, inside, pipeline, recover, reproduce, ticket};

/// Media that a design asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    File,
    Dax,
}

impl Medium {
    fn name(self) -> &'static str {
        "model"
    }
}

fn main() -> ExitCode {
    models::trials::run(
        &[
            ("history::stm_is_serializable_in_id_order", history::stm_is_serializable_in_id_order),
            (
                "history::serial_is_serializable_in_id_order",
                history::serial_is_serializable_in_id_order,
            ),
            ("merging::what_is_merged_is_the_history", merging::what_is_merged_is_the_history),
            (
                "lists::every_crash_leaves_a_prefix_of_a_serial_history",
                lists::every_crash_leaves_a_prefix_of_a_serial_history,
            ),
            (
                "starving::starving_transaction_commits_before_gate_closes",
                starving::starving_transaction_commits_before_gate_closes,
            ),
            (
                "starving::starving_transaction_in_parts_closes_gate",
                starving::starving_transaction_in_parts_closes_gate,
            ),
        ],
        twins::ALL,
    )
}
