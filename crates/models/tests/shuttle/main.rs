//! The protocols under shuttle; see the library, and tests/loom/main.rs for the crate names.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::duplicate_mod,
    clippy::useless_conversion,
    reason = "a model compiles protocol files whole and calls a part of each, once more for each \
              mutant, with the medium's error in the product's place"
)]

extern crate self as lw_log;
extern crate self as medium;

#[path = "../protocols/around.rs"]
mod around;
mod generated;
mod history;
#[path = "../../../lastword/src/error/limit.rs"]
mod limit;
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

use options as ideal;
use options as mvcc;
use options as shadow;
use options as slots;
use options as storage;

use around::{Error, Memory, cpu, signals, superblock};
use generated::whole::{design, inside, pipeline, recover, reproduce, ticket};
use limit::Limit;
use options::Options;
use persistent::{PersistentRing, Place, Sent};
use pool::Pool;
use real_log::{
    Combiner, Found, GROUP_HEADER_WORDS, Group, Identity, Lz4, Packed, Scan, Transactions,
};
use real_medium::{Buffer, Counts, HomeMedium, LogMedium, Parts, ReadLog, mutants, writes};
use ring::{RECORD_HEAD_WORDS, RECORD_WORDS_MAX, Ring, Writer};
use std::process::ExitCode;

/// The media that a design can request.
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
            ("merging::merged_log_is_the_history", merging::merged_log_is_the_history),
            (
                "lists::every_crash_leaves_a_prefix_of_a_serial_history",
                lists::every_crash_leaves_a_prefix_of_a_serial_history,
            ),
            (
                "starving::starving_transaction_commits_before_pool_waits",
                starving::starving_transaction_commits_before_pool_waits,
            ),
            (
                "starving::starving_transaction_in_parts_closes_gate",
                starving::starving_transaction_in_parts_closes_gate,
            ),
        ],
        generated::ALL,
    )
}
