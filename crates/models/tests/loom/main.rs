//! The protocols under loom; see the library.
//!
//! The protocol files name the crates `medium` and `lw_log`. Here both are this crate, with `cpu`
//! hints that do nothing and the ring over loom's atomics; all else comes from the real crates. It
//! is also `lw_alloc` and `rustc_hash`, for the few items that the protocols use.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::duplicate_mod,
    clippy::useless_conversion,
    reason = "a model compiles protocol files whole and calls a part of each, with the medium's \
              error in the product's place"
)]

extern crate self as lw_alloc;
extern crate self as lw_log;
extern crate self as medium;
extern crate self as rustc_hash;
extern crate self as system;

mod acknowledging;
#[path = "../../../lastword/src/pool/admission.rs"]
mod admission;
mod admitting;
#[path = "../protocols/around.rs"]
mod around;
#[path = "../../../lastword/src/slots/boundary.rs"]
mod boundary;
#[path = "../../../log/src/circular.rs"]
mod circular;
mod claims;
#[path = "../../../lastword/src/shadow/copied_pages.rs"]
mod copied_pages;
#[path = "../../../lastword/src/dual_version/mod.rs"]
mod dual_version;
mod explore;
mod finding;
#[path = "../../../lastword/src/file_check/findings.rs"]
mod findings;
mod frozen;
#[path = "../../../medium/src/frozen_memory.rs"]
mod frozen_memory;
#[path = "../../../lastword/src/slots/gather.rs"]
mod gather;
mod gathering;
mod growing;
#[path = "../../../lastword/src/pool/growth_budget.rs"]
mod growth_budget;
mod helping;
#[path = "../../../lastword/src/inside.rs"]
mod inside;
mod isolation;
#[path = "../../../lastword/src/error/log_damage.rs"]
mod log_damage;
#[path = "../../../lastword/src/log_growth.rs"]
mod log_growth;
#[path = "../../../lastword/src/metrics.rs"]
mod metrics;
mod notifying;
mod ordering;
#[path = "../../../medium/src/page_watch.rs"]
mod page_watch;
mod paging;
#[path = "../../../lastword/src/perform/mod.rs"]
mod perform;
#[path = "../../../lastword/src/persist/mod.rs"]
mod persist;
#[path = "../../../lastword/src/pipeline.rs"]
mod pipeline;
#[path = "../../../lastword/src/poison.rs"]
mod poison;
mod publication;
#[path = "../../../lastword/src/rate_limit.rs"]
mod rate_limit;
mod recycling;
#[path = "../../../lastword/src/reproduce/mod.rs"]
mod reproduce;
#[path = "../../../log/src/ring.rs"]
mod ring;
mod sleeping;
mod snapshots;
#[path = "../../../lastword/src/shadow/software_table.rs"]
mod software_table;
#[path = "../../../lastword/src/error/still_used.rs"]
mod still_used;
mod sync;
mod trials;
mod viewing;
mod waiting;
#[path = "../../../lastword/src/slots/workers.rs"]
mod workers;
mod wraps;
#[path = "../../../lastword/src/write_pace.rs"]
mod write_pace;

/// The place of a word, as transactions name it.
mod design {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct At {
        pub(crate) object: usize,
        pub(crate) index: usize,
    }
}

/// Headers of the models' objects: their sizes in bytes.
pub(crate) mod header {
    pub(crate) fn extent_bytes(header: u64, _object_offset: u64) -> Option<u64> {
        (header > 0).then_some(header)
    }
}

/// An offset that no object has: the models' heaps have no runs.
pub(crate) const PAGE_OBJECT: u64 = u64::MAX;

/// The limit that the slots' workers take from the file format.
mod format {
    pub(super) const SLOTS_MAX: usize = 2;
}

/// The path under which some files import errors.
mod error {
    pub(crate) use crate::around::{Error, ReplicationError};
    pub(crate) use crate::log_damage::LogDamage;
    pub(crate) use crate::still_used::StillUsed;
}

use around::{Error, Memory, cpu, superblock};
use circular::{CircularLog, Place, Sent};
use real_log::{
    Combiner, GROUP_HEADER_WORDS, Group, Identity, Lz4, Packed, Transactions, WitnessKey,
};
use real_medium::{
    Ahead, Buffer, Counts, FrozenImage, HeapMedium, LogMedium, Parts, Patience, ReadLog, Scrubbed,
    Unwritten, mutants, writes,
};
use ring::{RECORD_HEAD_WORDS, RECORD_WORDS_MAX, REGION_WORDS, Ring, RingMemory, Writer};
use std::collections::HashMap as FxHashMap;
use std::process::ExitCode;

/// The models by name.
const MODELS: &[(&str, fn())] = &[
    ("wraps::records_are_taken_whole", wraps::records_are_taken_whole),
    ("wraps::moved_records_are_taken_whole", wraps::moved_records_are_taken_whole),
    ("wraps::idle_release_keeps_claimed_words", wraps::idle_release_keeps_claimed_words),
    (
        "wraps::space_is_overwritten_only_after_its_copy",
        wraps::space_is_overwritten_only_after_its_copy,
    ),
    ("claims::only_published_records_are_claimed", claims::only_published_records_are_claimed),
    (
        "claims::idle_worker_does_not_hold_back_frontier",
        claims::idle_worker_does_not_hold_back_frontier,
    ),
    ("waiting::no_wake_up_is_lost", waiting::no_wake_up_is_lost),
    (
        "helping::helper_that_finds_step_busy_is_woken",
        helping::helper_that_finds_step_busy_is_woken,
    ),
    ("helping::concurrent_helpers_terminate", helping::concurrent_helpers_terminate),
    ("sleeping::commit_wakes_the_sleeping_thread", sleeping::commit_wakes_the_sleeping_thread),
    ("isolation::body_never_sees_a_torn_pair", isolation::body_never_sees_a_torn_pair),
    ("isolation::run_is_never_torn", isolation::run_is_never_torn),
    ("isolation::extended_snapshot_is_consistent", isolation::extended_snapshot_is_consistent),
    ("isolation::rolled_back_value_is_never_seen", isolation::rolled_back_value_is_never_seen),
    ("isolation::write_skew_never_happens", isolation::write_skew_never_happens),
    (
        "isolation::dependent_transactions_commit_in_id_order",
        isolation::dependent_transactions_commit_in_id_order,
    ),
    (
        "publication::commit_is_claimed_with_its_record",
        publication::commit_is_claimed_with_its_record,
    ),
    ("growing::full_heap_is_noticed", growing::full_heap_is_noticed),
    ("finding::cut_stays_found", finding::cut_stays_found),
    ("admitting::closed_pool_has_no_users", admitting::closed_pool_has_no_users),
    ("notifying::listener_is_notified_once", notifying::listener_is_notified_once),
    ("notifying::failure_notifies_all_listeners", notifying::failure_notifies_all_listeners),
    (
        "notifying::failure_outside_of_steps_wakes_all",
        notifying::failure_outside_of_steps_wakes_all,
    ),
    ("notifying::waiting_task_is_woken", notifying::waiting_task_is_woken),
    ("notifying::waker_of_last_poll_is_called", notifying::waker_of_last_poll_is_called),
    ("notifying::dropped_future_leaves_nothing", notifying::dropped_future_leaves_nothing),
    ("notifying::durable_id_publishes_its_group", notifying::durable_id_publishes_its_group),
    (
        "recycling::log_is_overwritten_only_after_recycling",
        recycling::log_is_overwritten_only_after_recycling,
    ),
    (
        "recycling::reproduced_id_publishes_heap_image",
        recycling::reproduced_id_publishes_heap_image,
    ),
    ("recycling::step_knows_worker_that_registers", recycling::step_knows_worker_that_registers),
    ("recycling::concurrent_reproducers_keep_order", recycling::concurrent_reproducers_keep_order),
    ("recycling::superblock_waits_for_all_parts", recycling::superblock_waits_for_all_parts),
    ("recycling::failed_part_fails_the_leader", recycling::failed_part_fails_the_leader),
    (
        "recycling::acknowledged_group_is_in_the_queue",
        recycling::acknowledged_group_is_in_the_queue,
    ),
    ("recycling::failed_group_is_the_last", recycling::failed_group_is_the_last),
    ("recycling::step_is_woken_after_visitor", recycling::step_is_woken_after_visitor),
    ("ordering::groups_are_acknowledged_in_order", ordering::groups_are_acknowledged_in_order),
    (
        "acknowledging::reported_durable_id_is_durable_and_stays",
        acknowledging::reported_durable_id_is_durable_and_stays,
    ),
    ("gathering::every_batch_is_in_one_record", gathering::every_batch_is_in_one_record),
    (
        "gathering::failed_write_fails_all_its_batches",
        gathering::failed_write_fails_all_its_batches,
    ),
    ("paging::read_never_sees_another_pages_word", paging::read_never_sees_another_pages_word),
    (
        "paging::written_page_stays_and_gets_last_writer",
        paging::written_page_stays_and_gets_last_writer,
    ),
    ("paging::written_copy_is_not_dropped", paging::written_copy_is_not_dropped),
    ("paging::next_attempt_sees_eviction_mark", paging::next_attempt_sees_eviction_mark),
    ("snapshots::snapshot_is_consistent", snapshots::snapshot_is_consistent),
    ("snapshots::two_objects_are_read_consistently", snapshots::two_objects_are_read_consistently),
    (
        "snapshots::copy_space_is_not_reused_under_a_reader",
        snapshots::copy_space_is_not_reused_under_a_reader,
    ),
    ("snapshots::frontier_is_applied_to_heap_image", snapshots::frontier_is_applied_to_heap_image),
    (
        "snapshots::group_frontier_is_applied_to_heap_image",
        snapshots::group_frontier_is_applied_to_heap_image,
    ),
    ("snapshots::reported_durable_id_is_durable", snapshots::reported_durable_id_is_durable),
    (
        "snapshots::chunk_release_waits_for_older_transactions",
        snapshots::chunk_release_waits_for_older_transactions,
    ),
    (
        "snapshots::chunk_release_waits_for_older_groups",
        snapshots::chunk_release_waits_for_older_groups,
    ),
    (
        "snapshots::last_assigned_id_is_durable_after_its_group",
        snapshots::last_assigned_id_is_durable_after_its_group,
    ),
    (
        "snapshots::worker_sees_its_group_while_another_ends_it",
        snapshots::worker_sees_its_group_while_another_ends_it,
    ),
    ("snapshots::view_is_as_of_its_transaction", snapshots::view_is_as_of_its_transaction),
    ("viewing::view_has_all_up_to_its_boundary", viewing::view_has_all_up_to_its_boundary),
    (
        "viewing::view_has_old_words_of_running_transaction",
        viewing::view_has_old_words_of_running_transaction,
    ),
];

fn main() -> ExitCode {
    models::trials::run("loom", MODELS, trials::ALL)
}
