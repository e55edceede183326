//! The twins that loom must find in the steps: waiting, helping, telling, recycling.

use crate::loom::RING;
use crate::twin::{
    Folder::{Persist, PersistentRing, Pipeline, Slots},
    Twin,
};

const WAKE: Twin = Twin {
    folders: &[Persist],
    file: "persist/wake.rs",
    model: "waiting",
    check: "no_wake_up_is_lost",
    says: "deadlock",
    ..RING
};

const HELP: Twin = Twin {
    file: "persist/help.rs",
    model: "helping",
    check: "who_finds_the_step_taken_is_not_forgotten",
    ..WAKE
};

const SLEEP: Twin = Twin {
    file: "persist/background.rs",
    model: "sleeping",
    check: "a_commit_wakes_the_thread",
    ..WAKE
};

const PROGRESS: Twin = Twin { file: "persist/progress.rs", ..HELP };

const TELLING: Twin =
    Twin { model: "telling", check: "a_listener_is_told_once", says: "told once", ..PROGRESS };

const RECYCLING: Twin = Twin {
    folders: &[Persist, Pipeline],
    file: "persist/queue.rs",
    model: "recycling",
    check: "a_log_is_overwritten_only_when_it_is_recycled",
    says: "not recycled",
    ..RING
};

const PARTS: Twin =
    Twin { file: "reproduce/board.rs", check: "parts_are_at_home_before_it_is_said", ..AT_HOME };

const FAILED_PART: Twin =
    Twin { check: "a_part_that_fails_is_told_to_who_leads", says: "", ..PARTS };

const AT_HOME: Twin = Twin {
    file: "reproduce/mod.rs",
    check: "what_is_reproduced_is_seen_at_home",
    says: "not at home",
    ..RECYCLING
};

const ORDER: Twin = Twin {
    file: "persist/flights.rs",
    model: "ordering",
    check: "groups_are_acknowledged_in_order",
    says: "the durable ID went back",
    ..WAKE
};

const SLOTS: Twin = Twin {
    folders: &[Slots],
    file: "workers.rs",
    model: "acknowledging",
    check: "what_is_told_is_durable_and_stays",
    says: "told, and not durable",
    ..WAKE
};

/// All of them.
pub(crate) const TWINS: &[Twin] = &[
    Twin {
        name: "a_waiter_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        let mut guard",
            "        let mut guard",
        )],
        ..WAKE
    },
    Twin {
        name: "a_notifier_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        if self.waiters",
            "        if self.waiters",
        )],
        ..WAKE
    },
    Twin {
        name: "a_notifier_that_does_not_take_the_lock",
        changes: &[("drop(lock(&self.mutex));", "")],
        ..WAKE
    },
    Twin {
        name: "an_epoch_raised_relaxed",
        changes: &[(
            "self.epoch.fetch_add(1, Ordering::Release)",
            "self.epoch.fetch_add(1, Ordering::Relaxed)",
        )],
        ..WAKE
    },
    Twin {
        name: "an_epoch_read_after_the_step",
        changes: &[(
            "Step::Busy => progress.sleep(epoch, id),",
            "Step::Busy => progress.sleep({ let _ = epoch; progress.epoch() }, id),",
        )],
        ..HELP
    },
    Twin {
        name: "a_step_that_tells_only_when_it_has_done_something",
        changes: &[(
            "    if turn == Turn::Awaited || step.is_err() {",
            "    if matches!(step, Ok(Step::Done)) {",
        )],
        ..HELP
    },
    Twin {
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
    Twin {
        name: "a_sleeper_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        {",
            "        {",
        )],
        ..PROGRESS
    },
    Twin {
        name: "a_turn_that_ends_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        if self.waiting",
            "        if self.waiting",
        )],
        ..PROGRESS
    },
    Twin {
        name: "a_sleeper_that_does_not_look_again",
        changes: &[("if self.epoch.load(Ordering::Acquire) != epoch {", "if epoch == u64::MAX {")],
        ..PROGRESS
    },
    Twin {
        name: "a_turn_that_wakes_only_whom_it_has_served",
        changes: &[("            sleepers.extend(lists.sleepers.pop()); // one more", "")],
        ..PROGRESS
    },
    Twin {
        name: "a_clock_looked_at_without_the_locked_addition",
        changes: &[("clock.fetch_add(0, Ordering::AcqRel)", "clock.load(Ordering::Acquire)")],
        ..SLEEP
    },
    Twin {
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
    Twin {
        name: "a_clock_looked_at_without_release",
        changes: &[(
            "clock.fetch_add(0, Ordering::AcqRel)",
            "clock.fetch_add(0, Ordering::Acquire)",
        )],
        ..SLEEP
    },
    Twin {
        name: "a_durable_id_stored_relaxed",
        mutant: Some(30),
        changes: &[(
            "self.durable.store(id, Ordering::Release)",
            "self.durable.store(id, Ordering::Relaxed)",
        )],
        check: "what_is_durable_is_seen_with_its_group",
        says: "not seen in the log",
        ..TELLING
    },
    Twin {
        name: "a_durable_id_read_relaxed",
        mutant: Some(30),
        changes: &[(
            "self.durable.load(Ordering::Acquire)",
            "self.durable.load(Ordering::Relaxed)",
        )],
        check: "what_is_durable_is_seen_with_its_group",
        says: "not seen in the log",
        ..TELLING
    },
    Twin {
        name: "a_listener_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        let mut lists",
            "        let mut lists",
        )],
        ..TELLING
    },
    Twin {
        name: "a_turn_that_tells_listeners_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        if self.waiting",
            "        if self.waiting",
        )],
        ..TELLING
    },
    Twin {
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
        ..TELLING
    },
    Twin {
        name: "a_failure_that_is_told_to_the_served_alone",
        changes: &[(
            "served = |id: u64| failed || id <= durable;",
            "served = |id: u64| id <= durable;",
        )],
        check: "a_failure_is_told_to_all",
        ..TELLING
    },
    Twin {
        name: "a_failure_that_nobody_is_told_of",
        file: "persist/help.rs",
        changes: &[("    if turn == Turn::Awaited || step.is_err() {", "    if step.is_ok() {")],
        check: "a_failure_is_told_to_all",
        ..TELLING
    },
    Twin {
        name: "a_failure_outside_of_turns_that_ends_none",
        changes: &[(
            "        let error = self.poison.put(error);
        self.turn_is_over();
        error",
            "        self.poison.put(error)",
        )],
        check: "failure_outside_of_turns_wakes_all",
        says: "deadlock",
        ..TELLING
    },
    Twin {
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
        ..TELLING
    },
    Twin {
        name: "a_waker_that_is_not_replaced",
        file: "persist/listeners.rs",
        changes: &[(
            "                Ok(std::mem::replace(current, waker))",
            "                Ok(waker)",
        )],
        check: "waker_of_last_poll_is_called",
        says: "deadlock",
        ..TELLING
    },
    Twin {
        name: "a_dropped_future_that_counts_on",
        changes: &[("        if removed.is_some() {", "        if removed.is_none() {")],
        check: "dropped_future_leaves_nothing",
        says: "none is left",
        ..TELLING
    },
    Twin {
        name: "a_mark_of_poison_set_before_its_cause",
        file: "poison.rs",
        changes: &[(
            "        let cause = self.cause.get_or_init(|| Arc::new(error));",
            "        self.set.store(true, Ordering::Release);
        crate::sync::thread::yield_now(); // the cause is nothing that loom sees
        let cause = self.cause.get_or_init(|| Arc::new(error));",
        )],
        check: "a_failure_is_told_to_all",
        says: "the cause is kept before",
        ..TELLING
    },
    Twin {
        name: "a_task_whose_waker_is_left_without_a_look",
        changes: &[(
            "if let Some(outcome) = self.outcome(id) {\n            drop(lists)",
            "if let Some(outcome) = self.outcome(id).filter(|_| id == 0) {
            drop(lists)",
        )],
        check: "a_listener_is_told_once",
        ..TELLING
    },
    Twin {
        name: "a_task_without_its_fence",
        changes: &[(
            "        fence(Ordering::SeqCst);
        let mut lists",
            "        let mut lists",
        )],
        check: "a_task_is_woken",
        says: "deadlock",
        ..TELLING
    },
    Twin {
        name: "a_tail_moved_relaxed",
        mutant: Some(12),
        changes: &[(
            "self.tail.store(end, Ordering::Release)",
            "self.tail.store(end, Ordering::Relaxed)",
        )],
        ..RECYCLING
    },
    Twin {
        name: "a_tail_read_relaxed",
        mutant: Some(12),
        folders: &[PersistentRing, Persist, Pipeline],
        file: "persistent.rs",
        changes: &[("tail.load(Ordering::Acquire)", "tail.load(Ordering::Relaxed)")],
        ..RECYCLING
    },
    Twin {
        name: "a_reproduced_id_stored_relaxed",
        changes: &[(
            "self.reproduced.store(batch.last, Ordering::Release)",
            "self.reproduced.store(batch.last, Ordering::Relaxed)",
        )],
        ..AT_HOME
    },
    Twin {
        name: "a_reproduced_id_read_relaxed",
        changes: &[(
            "TxId(self.reproduced.load(Ordering::Acquire))",
            "TxId(self.reproduced.load(Ordering::Relaxed))",
        )],
        ..AT_HOME
    },
    Twin {
        name: "a_batch_taken_by_two",
        changes: &[
            ("            let batch = persist.queue.take(log_bytes);\n", ""),
            (
                "        take_turn(&self.superblocks,",
                "        let batch = persist.queue.take(log_bytes);
        take_turn(&self.superblocks,",
            ),
        ],
        check: "two_that_bring_home_keep_the_order",
        says: "home",
        ..AT_HOME
    },
    Twin {
        name: "a_leader_that_does_not_wait_for_parts_at_work",
        mutant: Some(72),
        changes: &[("            if round.at_work == 0 {", "            if round.claimed > 0 {")],
        ..PARTS
    },
    Twin {
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
    Twin {
        name: "a_part_that_tells_nobody_that_it_is_through",
        changes: &[("            self.board.through.notify();", "")],
        says: "deadlock",
        ..PARTS
    },
    Twin {
        name: "a_part_that_fails_and_is_taken_for_done",
        changes: &[(
            "            (round.failed, round.batch) = (true, None);",
            "            round.batch = None;",
        )],
        ..FAILED_PART
    },
    Twin {
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
    Twin {
        name: "a_group_acknowledged_when_it_lands",
        mutant: Some(33),
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
    Twin {
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
    Twin {
        name: "a_committer_that_does_not_say_so",
        changes: &[("        self.committing.store(clock, Ordering::Release);\n", "")],
        ..SLOTS
    },
    Twin {
        name: "an_id_that_counts_before_it_is_durable",
        changes: &[("self.committing.store(id - 1,", "self.committing.store(id,")],
        ..SLOTS
    },
    Twin {
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
    Twin {
        name: "an_end_of_a_commit_stored_relaxed",
        changes: &[("store(IDLE, Ordering::Release)", "store(IDLE, Ordering::Relaxed)")],
        ..SLOTS
    },
    Twin {
        name: "an_acknowledgement_that_nobody_keeps",
        changes: &[("        slot.acknowledged.store(id, Ordering::Release);\n", "")],
        says: "acknowledged, and not durable any more",
        ..SLOTS
    },
];
