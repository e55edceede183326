//! The protocols under shuttle; see the library, and tests/loom/main.rs for the crate names.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::duplicate_mod,
    clippy::useless_conversion,
    reason = "a model compiles protocol files whole and calls a part of each, with the medium's \
              error in the product's place"
)]

extern crate self as lw_log;
extern crate self as medium;

#[path = "../protocols/around.rs"]
mod around;
#[path = "../../../log/src/circular.rs"]
mod circular;
mod closing;
#[path = "../../../lastword/src/design/mod.rs"]
mod design;
mod history;
#[path = "../../../lastword/src/inside.rs"]
mod inside;
mod lists;
#[path = "../../../lastword/src/error/log_damage.rs"]
mod log_damage;
#[path = "../../../lastword/src/log_growth.rs"]
mod log_growth;
mod machine;
mod merging;
#[path = "../../../lastword/src/metrics.rs"]
mod metrics;
mod options;
#[path = "../../../lastword/src/perform/mod.rs"]
mod perform;
#[path = "../../../lastword/src/persist/mod.rs"]
mod persist;
#[path = "../../../lastword/src/pipeline.rs"]
mod pipeline;
#[path = "../../../lastword/src/poison.rs"]
mod poison;
mod pool;
#[path = "../../../lastword/src/rate_limit.rs"]
mod rate_limit;
#[path = "../../../lastword/src/recover/mod.rs"]
mod recover;
mod regions;
#[path = "../../../lastword/src/reproduce/mod.rs"]
mod reproduce;
#[path = "../../../log/src/ring.rs"]
mod ring;
mod schedules;
mod starving;
#[path = "../../../lastword/src/error/still_used.rs"]
mod still_used;
mod sync;
#[path = "../../../lastword/src/ticket.rs"]
mod ticket;
#[path = "../../../lastword/src/error/transaction_limit.rs"]
mod transaction_limit;
mod trials;
#[path = "../../../lastword/src/write_pace.rs"]
mod write_pace;

use options as ideal;
use options as mvcc;
use options as shadow;
use options as slots;
use options as storage;
use pool as file_check;

/// The path under which some files import errors.
mod error {
    pub(crate) use crate::around::{Error, ReplicationError};
    pub(crate) use crate::log_damage::LogDamage;
    pub(crate) use crate::still_used::StillUsed;
}

use around::{Error, Memory, cpu, signals, superblock};
use circular::{CircularLog, Place, Sent};
use options::Options;
use pool::Pool;
use real_log::{
    Combiner, Found, GROUP_HEADER_WORDS, Group, Identity, Lz4, Packed, Scan, Transactions,
    WitnessKey,
};
use real_medium::{
    Ahead, Buffer, Counts, FrozenImage, HeapMedium, LogMedium, Parts, ReadLog, Scrubbed, Unwritten,
    mutants, writes,
};
use ring::{RECORD_HEAD_WORDS, RECORD_WORDS_MAX, REGION_WORDS, Ring, RingMemory, Writer};
use std::process::ExitCode;
use transaction_limit::Limit;

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
        "shuttle",
        &[
            ("history::stm_is_serializable_in_id_order", history::stm_is_serializable_in_id_order),
            (
                "history::serial_is_serializable_in_id_order",
                history::serial_is_serializable_in_id_order,
            ),
            ("merging::merged_log_is_the_history", merging::merged_log_is_the_history),
            (
                "regions::records_survive_moves_between_regions",
                regions::records_survive_moves_between_regions,
            ),
            (
                "lists::every_crash_leaves_a_prefix_of_a_serial_history",
                lists::every_crash_leaves_a_prefix_of_a_serial_history,
            ),
            (
                "starving::starving_transaction_commits_before_pool_waits",
                starving::starving_transaction_commits_before_pool_waits,
            ),
            (
                "starving::starving_transaction_in_parts_closes_lock",
                starving::starving_transaction_in_parts_closes_lock,
            ),
            (
                "closing::ended_reservations_leave_lock_open",
                closing::ended_reservations_leave_lock_open,
            ),
            (
                "closing::closed_lock_wait_sees_each_closing",
                closing::closed_lock_wait_sees_each_closing,
            ),
        ],
        trials::ALL,
    )
}
