//! The protocols under loom; see the library.
//!
//! The protocol files say `medium` and `lw_log`. Here both are this crate: it has `cpu` hints that
//! do nothing and the ring beside loom's atomics, and hands on the rest of the real ones. It is
//! `lw_alloc` and `rustc_hash`, too, for the little that is asked of them.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::duplicate_mod,
    clippy::useless_conversion,
    reason = "a model compiles protocol files whole and calls a part of each, once more for each \
              mutant, with the medium's error in the product's place"
)]

extern crate self as lw_alloc;
extern crate self as lw_log;
extern crate self as medium;
extern crate self as rustc_hash;

mod acknowledging;
#[path = "../protocols/around.rs"]
mod around;
mod claims;
#[path = "../../../lastword/src/shadow/copies.rs"]
mod copies;
mod explore;
#[path = "../../../lastword/src/slots/gather.rs"]
mod gather;
mod gathering;
mod helping;
#[path = "../../../lastword/src/inside.rs"]
mod inside;
mod isolation;
mod laps;
#[path = "../../../lastword/src/metrics.rs"]
mod metrics;
mod ordering;
mod paging;
#[path = "../../../lastword/src/perform/mod.rs"]
mod perform;
#[path = "../../../lastword/src/persist/mod.rs"]
mod persist;
#[path = "../../../log/src/persistent.rs"]
mod persistent;
#[path = "../../../lastword/src/poison.rs"]
mod poison;
mod publication;
mod recycling;
#[path = "../../../log/src/ring.rs"]
mod ring;
mod sleeping;
mod snapshots;
mod sync;
#[path = "../../../lastword/src/shadow/table.rs"]
mod table;
mod telling;
mod twins;
mod waiting;
#[path = "../../../lastword/src/slots/workers.rs"]
mod workers;

/// Where a word is, as transactions say it.
mod design {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct At {
        pub(crate) object: usize,
        pub(crate) index: usize,
    }
}

/// Headers of the models' objects: their bytes.
pub(crate) mod header {
    pub(crate) fn extent_bytes(header: u64, _object_offset: u64) -> Option<u64> {
        (header > 0).then_some(header)
    }
}

/// What the workers of slots know of their format.
mod format {
    pub(super) const SLOTS_MAX: usize = 2;
}

use around::{Error, Memory, cpu, superblock};
use persistent::{PersistentRing, Place, Sent};
use real_log::{Combiner, GROUP_HEADER_WORDS, Group, Identity, Lz4, Packed, Transactions};
use real_medium::{Buffer, Counts, HomeMedium, LogMedium, Parts, ReadLog, mutants, writes};
use ring::{RECORD_HEAD_WORDS, RECORD_WORDS_MAX, Ring, Writer};
use std::collections::HashMap as FxHashMap;
use std::process::ExitCode;
use twins::whole::{pipeline, reproduce, versions};

/// The models, each by its name.
const MODELS: &[(&str, fn())] = &[
    ("laps::records_are_taken_whole", laps::records_are_taken_whole),
    (
        "laps::space_is_overwritten_only_after_its_copy",
        laps::space_is_overwritten_only_after_its_copy,
    ),
    ("claims::only_what_is_published_is_claimed", claims::only_what_is_published_is_claimed),
    ("claims::an_idle_worker_holds_nothing_back", claims::an_idle_worker_holds_nothing_back),
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
    ("isolation::what_is_taken_back_is_never_seen", isolation::what_is_taken_back_is_never_seen),
    ("isolation::write_skew_never_happens", isolation::write_skew_never_happens),
    (
        "isolation::dependent_transactions_commit_in_id_order",
        isolation::dependent_transactions_commit_in_id_order,
    ),
    (
        "publication::a_commit_is_claimed_with_its_record",
        publication::a_commit_is_claimed_with_its_record,
    ),
    ("telling::a_listener_is_told_once", telling::a_listener_is_told_once),
    ("telling::a_failure_is_told_to_all", telling::a_failure_is_told_to_all),
    ("telling::failure_outside_of_turns_wakes_all", telling::failure_outside_of_turns_wakes_all),
    ("telling::a_task_is_woken", telling::a_task_is_woken),
    ("telling::waker_of_last_poll_is_called", telling::waker_of_last_poll_is_called),
    ("telling::dropped_future_leaves_nothing", telling::dropped_future_leaves_nothing),
    (
        "telling::what_is_durable_is_seen_with_its_group",
        telling::what_is_durable_is_seen_with_its_group,
    ),
    (
        "recycling::a_log_is_overwritten_only_when_it_is_recycled",
        recycling::a_log_is_overwritten_only_when_it_is_recycled,
    ),
    (
        "recycling::what_is_reproduced_is_seen_at_home",
        recycling::what_is_reproduced_is_seen_at_home,
    ),
    (
        "recycling::two_that_bring_home_keep_the_order",
        recycling::two_that_bring_home_keep_the_order,
    ),
    (
        "recycling::parts_are_at_home_before_it_is_said",
        recycling::parts_are_at_home_before_it_is_said,
    ),
    (
        "recycling::a_part_that_fails_is_told_to_who_leads",
        recycling::a_part_that_fails_is_told_to_who_leads,
    ),
    ("ordering::groups_are_acknowledged_in_order", ordering::groups_are_acknowledged_in_order),
    (
        "acknowledging::what_is_told_is_durable_and_stays",
        acknowledging::what_is_told_is_durable_and_stays,
    ),
    ("gathering::every_batch_is_in_one_record", gathering::every_batch_is_in_one_record),
    (
        "gathering::a_failure_is_told_to_all_whom_it_concerns",
        gathering::a_failure_is_told_to_all_whom_it_concerns,
    ),
    ("paging::a_read_never_sees_another_pages_word", paging::a_read_never_sees_another_pages_word),
    (
        "paging::a_page_that_is_written_stays_and_is_touched",
        paging::a_page_that_is_written_stays_and_is_touched,
    ),
    (
        "paging::a_copy_is_not_dropped_with_what_is_written",
        paging::a_copy_is_not_dropped_with_what_is_written,
    ),
    ("paging::the_next_attempt_sees_the_mark", paging::the_next_attempt_sees_the_mark),
    ("snapshots::a_snapshot_is_one_moment", snapshots::a_snapshot_is_one_moment),
    (
        "snapshots::two_objects_are_seen_at_one_moment",
        snapshots::two_objects_are_seen_at_one_moment,
    ),
    (
        "snapshots::a_copys_space_is_not_used_again_under_a_reader",
        snapshots::a_copys_space_is_not_used_again_under_a_reader,
    ),
    (
        "snapshots::what_is_up_to_the_frontier_is_at_home",
        snapshots::what_is_up_to_the_frontier_is_at_home,
    ),
    (
        "snapshots::what_is_up_to_the_frontier_of_a_group_is_at_home",
        snapshots::what_is_up_to_the_frontier_of_a_group_is_at_home,
    ),
    ("snapshots::what_is_said_to_be_durable_is", snapshots::what_is_said_to_be_durable_is),
    (
        "snapshots::who_gives_chunks_back_comes_home_behind_others",
        snapshots::who_gives_chunks_back_comes_home_behind_others,
    ),
    (
        "snapshots::who_gives_chunks_back_comes_home_behind_groups",
        snapshots::who_gives_chunks_back_comes_home_behind_groups,
    ),
    (
        "snapshots::an_id_that_was_given_is_drawn_when_its_group_has_ended",
        snapshots::an_id_that_was_given_is_drawn_when_its_group_has_ended,
    ),
    (
        "snapshots::a_worker_sees_its_group_while_another_ends_it",
        snapshots::a_worker_sees_its_group_while_another_ends_it,
    ),
];

fn main() -> ExitCode {
    models::trials::run(MODELS, twins::ALL)
}
