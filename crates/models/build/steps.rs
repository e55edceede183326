//! Mutants of the steps, which loom must detect: waiting, helping, notifying, recycling.

use crate::loom::RING;
use crate::mutant::{
    Folder::{Persist, PersistentRing, Pipeline, Slots},
    Mutant,
};

const WAKE: Mutant = Mutant {
    folders: &[Persist],
    file: "persist/waiters.rs",
    model: "waiting",
    check: "no_wake_up_is_lost",
    says: "deadlock",
    ..RING
};

const HELP: Mutant =
    Mutant { model: "helping", check: "helper_that_finds_step_busy_is_woken", ..WAKE };

const SLEEP: Mutant = Mutant {
    file: "persist/background.rs",
    model: "sleeping",
    check: "commit_wakes_the_sleeping_thread",
    ..WAKE
};

const NOTIFYING: Mutant = Mutant {
    model: "notifying",
    check: "listener_is_notified_once",
    says: "notified once",
    ..HELP
};

const RECYCLING: Mutant = Mutant {
    folders: &[Persist, Pipeline],
    file: "persist/queue.rs",
    model: "recycling",
    check: "log_is_overwritten_only_after_recycling",
    says: "not recycled",
    ..RING
};

const PARTS: Mutant =
    Mutant { file: "reproduce/board.rs", check: "superblock_waits_for_all_parts", ..REPRODUCED };

const FAILED_PART: Mutant = Mutant { check: "failed_part_fails_the_leader", says: "", ..PARTS };

const REPRODUCED: Mutant = Mutant {
    file: "reproduce/mod.rs",
    check: "reproduced_id_publishes_heap_image",
    says: "not at home",
    ..RECYCLING
};

const ORDER: Mutant = Mutant {
    file: "persist/flights.rs",
    model: "ordering",
    check: "groups_are_acknowledged_in_order",
    says: "the durable ID went back",
    ..WAKE
};

const SLOTS: Mutant = Mutant {
    folders: &[Slots],
    file: "workers.rs",
    model: "acknowledging",
    check: "reported_durable_id_is_durable_and_stays",
    says: "reported durable too early",
    ..WAKE
};

/// All of these mutants.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a_waiter_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        let mut guard",
            "        let mut guard",
        )],
        ..WAKE
    },
    Mutant {
        name: "a_notifier_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        if self.waiters",
            "        if self.waiters",
        )],
        ..WAKE
    },
    Mutant {
        name: "a_notifier_that_does_not_take_the_lock",
        changes: &[("drop(lock(&self.mutex));", "")],
        ..WAKE
    },
    Mutant {
        name: "an_epoch_raised_relaxed",
        changes: &[(
            "Acquire loads above.
        self.epoch.fetch_add(1, Ordering::Release)",
            "Acquire loads above.
        self.epoch.fetch_add(1, Ordering::Relaxed)",
        )],
        ..WAKE
    },
    Mutant {
        name: "an_epoch_read_after_the_step",
        changes: &[(
            "Step::Busy => progress.sleep(epoch, id),",
            "Step::Busy => progress.sleep({ let _ = epoch; progress.epoch() }, id),",
        )],
        ..HELP
    },
    Mutant {
        name: "a_step_that_tells_only_when_it_has_done_something",
        changes: &[(
            "    if turn == Turn::Awaited || step.is_err() {",
            "    if matches!(step, Ok(Step::Done)) {",
        )],
        ..HELP
    },
    Mutant {
        name: "a_step_that_tells_before_it_unlocks",
        changes: &[
            ("    drop(state);\n", ""),
            (
                "        progress.turn_is_over();
    }
    step",
                "        progress.turn_is_over();
    }
    drop(state);
    step",
            ),
        ],
        ..HELP
    },
    Mutant {
        name: "a_sleeper_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        {",
            "        {",
        )],
        ..HELP
    },
    Mutant {
        name: "a_turn_that_ends_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        if self.waiting",
            "        if self.waiting",
        )],
        ..HELP
    },
    Mutant {
        name: "a_sleeper_that_does_not_look_again",
        changes: &[("if self.epoch.load(Ordering::Acquire) != epoch {", "if epoch == u64::MAX {")],
        ..HELP
    },
    Mutant {
        name: "a_turn_that_wakes_only_whom_it_has_served",
        changes: &[("            sleepers.extend(lists.sleepers.pop()); // one more", "")],
        ..HELP
    },
    Mutant {
        name: "a_clock_looked_at_without_the_locked_addition",
        changes: &[("clock.fetch_add(0, Ordering::AcqRel)", "clock.load(Ordering::Acquire)")],
        ..SLEEP
    },
    Mutant {
        name: "a_clock_looked_at_before_it_is_said",
        changes: &[
            (
                "        self.asleep.store(true, Ordering::Relaxed);
        // AcqRel",
                "        // AcqRel",
            ),
            (
                "        if last_drawn == last {",
                "        self.asleep.store(true, Ordering::Relaxed);
        if last_drawn == last {",
            ),
        ],
        ..SLEEP
    },
    Mutant {
        name: "a_clock_looked_at_without_release",
        changes: &[(
            "clock.fetch_add(0, Ordering::AcqRel)",
            "clock.fetch_add(0, Ordering::Acquire)",
        )],
        ..SLEEP
    },
    Mutant {
        name: "a_durable_id_stored_relaxed",
        number: Some(30),
        changes: &[(
            "self.durable.store(id, Ordering::Release)",
            "self.durable.store(id, Ordering::Relaxed)",
        )],
        check: "durable_id_publishes_its_group",
        says: "not seen in the log",
        ..NOTIFYING
    },
    Mutant {
        name: "a_durable_id_read_relaxed",
        number: Some(30),
        changes: &[(
            "self.durable.load(Ordering::Acquire)",
            "self.durable.load(Ordering::Relaxed)",
        )],
        check: "durable_id_publishes_its_group",
        says: "not seen in the log",
        ..NOTIFYING
    },
    Mutant {
        name: "a_listener_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        let mut lists",
            "        let mut lists",
        )],
        ..NOTIFYING
    },
    Mutant {
        name: "a_turn_that_tells_listeners_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        if self.waiting",
            "        if self.waiting",
        )],
        ..NOTIFYING
    },
    Mutant {
        name: "a_listener_that_looks_before_it_says_so",
        changes: &[
            (
                "        self.waiting.fetch_add(1, Ordering::Relaxed);
        // As in",
                "        let before = self.outcome(id);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // As in",
            ),
            (
                "        if let Some(outcome) = self.outcome(id) {\n            drop(lists)",
                "        if let Some(outcome) = before {\n            drop(lists)",
            ),
        ],
        ..NOTIFYING
    },
    Mutant {
        name: "a_failure_that_is_told_to_the_served_alone",
        changes: &[(
            "served = |id: u64| failed || id <= durable;",
            "served = |id: u64| id <= durable;",
        )],
        check: "failure_notifies_all_listeners",
        ..NOTIFYING
    },
    Mutant {
        name: "a_failure_that_nobody_is_told_of",
        changes: &[("    if turn == Turn::Awaited || step.is_err() {", "    if step.is_ok() {")],
        check: "failure_notifies_all_listeners",
        ..NOTIFYING
    },
    Mutant {
        name: "a_failure_outside_of_turns_that_ends_none",
        changes: &[(
            "        let error = self.poison.put(error);
        self.turn_is_over();
        error",
            "        self.poison.put(error)",
        )],
        check: "failure_outside_of_turns_wakes_all",
        says: "deadlock",
        ..NOTIFYING
    },
    Mutant {
        name: "a_failure_outside_of_turns_that_is_kept_too_late",
        changes: &[(
            "        let error = self.poison.put(error);
        self.turn_is_over();
        error",
            "        self.turn_is_over();
        self.poison.put(error)",
        )],
        check: "failure_outside_of_turns_wakes_all",
        says: "deadlock",
        ..NOTIFYING
    },
    Mutant {
        name: "a_waker_that_is_not_replaced",
        file: "persist/listeners.rs",
        changes: &[(
            "                Ok(std::mem::replace(current, waker))",
            "                Ok(waker)",
        )],
        check: "waker_of_last_poll_is_called",
        says: "deadlock",
        ..NOTIFYING
    },
    Mutant {
        name: "a_dropped_future_that_counts_on",
        changes: &[("        if removed.is_some() {", "        if removed.is_none() {")],
        check: "dropped_future_leaves_nothing",
        says: "none is left",
        ..NOTIFYING
    },
    Mutant {
        name: "a_mark_of_poison_set_before_its_cause",
        file: "poison.rs",
        changes: &[(
            "        let cause = self.cause.get_or_init(|| Arc::new(error));",
            "        self.set.store(true, Ordering::Release);
        crate::sync::thread::yield_now(); // the cause is nothing that loom sees
        let cause = self.cause.get_or_init(|| Arc::new(error));",
        )],
        check: "failure_notifies_all_listeners",
        says: "the cause is kept before",
        ..NOTIFYING
    },
    Mutant {
        name: "a_task_whose_waker_is_left_without_a_look",
        changes: &[(
            "if let Some(outcome) = self.outcome(id) {\n            drop(lists)",
            "if let Some(outcome) = self.outcome(id).filter(|_| id == 0) {
            drop(lists)",
        )],
        check: "listener_is_notified_once",
        ..NOTIFYING
    },
    Mutant {
        name: "a_task_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        let mut lists",
            "        let mut lists",
        )],
        check: "waiting_task_is_woken",
        says: "deadlock",
        ..NOTIFYING
    },
    Mutant {
        name: "a_tail_moved_relaxed",
        number: Some(12),
        changes: &[(
            "self.tail.store(end, Ordering::Release)",
            "self.tail.store(end, Ordering::Relaxed)",
        )],
        ..RECYCLING
    },
    Mutant {
        name: "a_tail_read_relaxed",
        number: Some(12),
        folders: &[PersistentRing, Persist, Pipeline],
        file: "persistent.rs",
        changes: &[("tail.load(Ordering::Acquire)", "tail.load(Ordering::Relaxed)")],
        ..RECYCLING
    },
    Mutant {
        name: "a_reproduced_id_stored_relaxed",
        changes: &[(
            "self.reproduced.store(batch.last, Ordering::Release)",
            "self.reproduced.store(batch.last, Ordering::Relaxed)",
        )],
        ..REPRODUCED
    },
    Mutant {
        name: "a_reproduced_id_read_relaxed",
        changes: &[(
            "TxId(self.reproduced.load(Ordering::Acquire))",
            "TxId(self.reproduced.load(Ordering::Relaxed))",
        )],
        ..REPRODUCED
    },
    Mutant {
        name: "a_batch_taken_by_two",
        changes: &[
            ("            let batch = persist.queue.take(log_bytes);\n", ""),
            (
                "        take_turn(&self.superblocks,",
                "        let batch = persist.queue.take(log_bytes);
        take_turn(&self.superblocks,",
            ),
        ],
        check: "concurrent_reproducers_keep_order",
        says: "home",
        ..REPRODUCED
    },
    Mutant {
        name: "a_leader_that_does_not_wait_for_parts_at_work",
        number: Some(72),
        changes: &[("            if round.at_work == 0 {", "            if round.claimed > 0 {")],
        ..PARTS
    },
    Mutant {
        name: "a_part_that_is_through_before_its_barrier",
        changes: &[(
            "        let done = self.write_out();
        panic.disarm();",
            "        lock(&self.board.round).at_work -= 1;
        self.board.through.notify();
        let done = self.write_out();
        lock(&self.board.round).at_work += 1;
        panic.disarm();",
        )],
        ..PARTS
    },
    Mutant {
        name: "a_part_that_tells_nobody_that_it_is_through",
        changes: &[("            self.board.through.notify();", "")],
        says: "deadlock",
        ..PARTS
    },
    Mutant {
        name: "a_part_that_fails_and_is_taken_for_done",
        changes: &[(
            "            (round.failed, round.batch) = (true, None);",
            "            round.batch = None;",
        )],
        ..FAILED_PART
    },
    Mutant {
        name: "a_part_that_fails_before_it_poisons",
        changes: &[(
            "        let done = done.map_err(|error| turn.fail(error.into()));
        self.end(done.is_err());
        done",
            "        self.end(done.is_err());
        done.map_err(|error| turn.fail(error.into()))",
        )],
        says: "a part that fails poisons",
        ..FAILED_PART
    },
    Mutant {
        name: "a_group_acknowledged_when_it_lands",
        number: Some(33),
        changes: &[(
            "        while let Some(front) = under_way.front_mut()
            && let Some(memory) = front.durable.take()
        {
            acknowledged(memory, front.flight);
            under_way.pop_front();
        }",
            "        while let Some(at) = under_way.iter().position(|group| group.durable.is_some())
            && let Some(mut group) = under_way.remove(at)
            && let Some(memory) = group.durable.take()
        {
            acknowledged(memory, group.flight);
        }",
        )],
        ..ORDER
    },
    Mutant {
        name: "groups_that_are_acknowledged_without_the_lock",
        changes: &[(
            "            acknowledged(memory, front.flight);
            under_way.pop_front();
        }",
            "            let flight = front.flight;
            under_way.pop_front();
            drop(under_way);
            acknowledged(memory, flight);
            under_way = lock(&self.under_way);
        }",
        )],
        says: "all are acknowledged in the end",
        ..ORDER
    },
    Mutant {
        name: "a_committer_that_does_not_say_so",
        changes: &[("        self.committing.store(clock, Ordering::Release);\n", "")],
        ..SLOTS
    },
    Mutant {
        name: "an_id_that_counts_before_it_is_durable",
        changes: &[("self.committing.store(id - 1,", "self.committing.store(id,")],
        ..SLOTS
    },
    Mutant {
        name: "committers_looked_at_before_the_clock",
        changes: &[
            (
                "        let now = clock.load(Ordering::Acquire);
        // Acquire: pairs with steps",
                "        // Acquire: pairs with steps",
            ),
            (
                "        committing.min().unwrap_or(IDLE).min(now)",
                "        let first = committing.min().unwrap_or(IDLE);
        first.min(clock.load(Ordering::Acquire))",
            ),
        ],
        ..SLOTS
    },
    Mutant {
        name: "an_end_of_a_commit_stored_relaxed",
        changes: &[("store(IDLE, Ordering::Release)", "store(IDLE, Ordering::Relaxed)")],
        ..SLOTS
    },
    Mutant {
        name: "an_acknowledgement_that_nobody_keeps",
        changes: &[("        slot.acknowledged.store(id, Ordering::Release);\n", "")],
        says: "acknowledged, and no longer durable",
        ..SLOTS
    },
];
