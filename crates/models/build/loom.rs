//! The twins that loom must find: which line is changed, and what must go wrong then.

use crate::twin::{
    Folder::{Log, Perform, Persist},
    Tool, Twin,
};

const RING: Twin = Twin {
    name: "",
    mutant: None,
    tool: Tool::Loom,
    folders: &[Log],
    file: "ring.rs",
    changes: &[],
    model: "laps",
    check: "records_are_taken_whole",
    says: "",
};

pub(crate) const FRONTIER: Twin = Twin {
    folders: &[Persist],
    file: "frontier.rs",
    model: "claims",
    check: "only_what_is_published_is_claimed",
    says: "claimed",
    ..RING
};

const WAKE: Twin = Twin {
    folders: &[Persist],
    file: "wake.rs",
    model: "waiting",
    check: "no_wake_up_is_lost",
    says: "deadlock",
    ..RING
};

const HELP: Twin = Twin {
    file: "help.rs",
    model: "helping",
    check: "who_finds_the_step_taken_is_not_forgotten",
    ..WAKE
};

const SLEEP: Twin =
    Twin { file: "background.rs", model: "sleeping", check: "a_commit_wakes_the_thread", ..WAKE };

const PROGRESS: Twin = Twin { file: "progress.rs", ..HELP };

pub(crate) const STM: Twin = Twin {
    folders: &[Perform],
    file: "stm.rs",
    model: "isolation",
    check: "a_body_never_sees_a_torn_pair",
    says: "torn",
    ..RING
};

const SKEW: Twin = Twin { check: "write_skew_never_happens", says: "skew", ..STM };

const PUBLICATION: Twin = Twin {
    folders: &[Persist, Perform],
    model: "publication",
    check: "a_commit_is_claimed_with_its_record",
    says: "claimed",
    ..STM
};

/// All of them.
pub(crate) const TWINS: &[Twin] = &[
    Twin {
        name: "a_record_published_relaxed",
        mutant: Some(11),
        changes: &[(
            "self.ring.written.store(self.at, Ordering::Release)",
            "self.ring.written.store(self.at, Ordering::Relaxed)",
        )],
        says: "record",
        ..RING
    },
    Twin {
        name: "a_cursor_read_relaxed",
        mutant: Some(11),
        changes: &[(
            "self.written.load(Ordering::Acquire)",
            "self.written.load(Ordering::Relaxed)",
        )],
        says: "record",
        ..RING
    },
    Twin {
        name: "space_given_back_relaxed",
        changes: &[(
            "self.taken.store(to, Ordering::Release)",
            "self.taken.store(to, Ordering::Relaxed)",
        )],
        says: "Causality violation",
        check: "space_is_overwritten_only_after_its_copy",
        ..RING
    },
    Twin {
        name: "space_seen_relaxed",
        changes: &[(
            "self.taken = ring.taken.load(Ordering::Acquire)",
            "self.taken = ring.taken.load(Ordering::Relaxed)",
        )],
        says: "Causality violation",
        check: "space_is_overwritten_only_after_its_copy",
        ..RING
    },
    Twin {
        name: "cursors_read_before_committing",
        mutant: Some(41),
        changes: &[
            (
                "    let oldest =",
                "    cursors.clear();
                 cursors.extend(slots.iter().map(|slot| slot.ring.written()));
                 let oldest =",
            ),
            (
                "    cursors.clear();
    cursors.extend(slots.iter().map(|slot| slot.ring.written()));
    now",
                "    now",
            ),
        ],
        ..FRONTIER
    },
    Twin {
        name: "committing_read_before_the_clock",
        changes: &[(
            "    cursors.clear();",
            "    let now = clock.load(Ordering::Acquire);
    cursors.clear();",
        )],
        ..FRONTIER
    },
    Twin {
        name: "committing_cleared_before_the_record_is_published",
        mutant: Some(42),
        file: "redo.rs",
        changes: &[(
            "        record.publish(id.0);
        self.slot.drawn();",
            "        self.slot.drawn();
        record.publish(id.0);",
        )],
        ..FRONTIER
    },
    Twin {
        name: "drawing_announced_relaxed",
        changes: &[(
            "self.committing.store(clock, Ordering::Release)",
            "self.committing.store(clock, Ordering::Relaxed)",
        )],
        ..FRONTIER
    },
    Twin {
        name: "the_idle_mark_stored_relaxed",
        changes: &[(
            "self.committing.store(IDLE, Ordering::Release)",
            "self.committing.store(IDLE, Ordering::Relaxed)",
        )],
        ..FRONTIER
    },
    Twin {
        name: "committing_read_relaxed",
        changes: &[(
            "slot.committing.load(Ordering::Acquire)",
            "slot.committing.load(Ordering::Relaxed)",
        )],
        ..FRONTIER
    },
    Twin {
        name: "no_committing_at_all",
        changes: &[(
            "self.committing.store(clock, Ordering::Release)",
            "let _ = clock",
        )],
        ..FRONTIER
    },
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
        changes: &[(
            "clock.fetch_add(0, Ordering::AcqRel)",
            "clock.load(Ordering::Acquire)",
        )],
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
                "        if last_drawn == durable() {",
                "        self.asleep.store(true, Ordering::Relaxed);
        if last_drawn == durable() {",
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
        name: "no_fence_after_taking",
        changes: &[("fence(Ordering::Release);", "")],
        ..STM
    },
    Twin {
        name: "no_fence_before_the_second_look",
        changes: &[(
            "fence(Ordering::Acquire);
        if before <= attempt.snapshot && record.load(Ordering::Relaxed) == before {
            attempt.remember(number);
            return Ok(value);",
            "if before <= attempt.snapshot && record.load(Ordering::Relaxed) == before {
            attempt.remember(number);
            return Ok(value);",
        )],
        ..STM
    },
    Twin {
        name: "no_fence_before_the_second_look_of_a_run",
        changes: &[(
            "            fence(Ordering::Acquire);
            if before <= attempt.snapshot && record.load(Ordering::Relaxed) == before {
                attempt.remember(number);
            } else if !attempt.owns(before) {",
            "            if before <= attempt.snapshot && record.load(Ordering::Relaxed) == before {
                attempt.remember(number);
            } else if !attempt.owns(before) {",
        )],
        check: "a_run_is_never_torn",
        ..STM
    },
    Twin {
        name: "no_fence_before_the_second_look_of_a_hard_read",
        changes: &[(
            "            fence(Ordering::Acquire);
            if record.load(Ordering::Relaxed) == before {",
            "            if record.load(Ordering::Relaxed) == before {",
        )],
        check: "an_extended_snapshot_is_one_moment",
        ..STM
    },
    Twin {
        name: "an_extension_that_checks_nothing",
        mutant: Some(31),
        changes: &[(
            "        if forgot || !self.reads_hold(attempt) {
            return Err(Stop::Conflict);
        }
        attempt.snapshot = now;",
            "        attempt.snapshot = now;",
        )],
        ..STM
    },
    Twin {
        name: "an_extension_that_reads_the_clock_after_its_check",
        changes: &[(
            "        attempt.snapshot = now;",
            "        attempt.snapshot = now.max(self.clock.load(Ordering::Acquire));",
        )],
        check: "an_extended_snapshot_is_one_moment",
        ..STM
    },
    Twin {
        name: "a_version_released_relaxed",
        changes: &[(
            "self.records[entry.owner as usize].store(id.0, Ordering::Release)",
            "self.records[entry.owner as usize].store(id.0, Ordering::Relaxed)",
        )],
        check: "what_is_taken_back_is_never_seen",
        // A version may be seen before the clock that drew it: the read extends its snapshot for
        // ever.
        says: "exceeded maximum number of branches",
        ..STM
    },
    Twin {
        name: "an_abort_that_releases_the_old_version",
        mutant: Some(40),
        changes: &[(
            "        self.release(attempt, id);
        attempt.clear();
    }",
            "        for entry in &attempt.written.entries {
            if entry.version != SHARED {
                self.records[entry.owner as usize].store(entry.version, Ordering::Release);
            }
        }
        attempt.clear();
    }",
        )],
        check: "what_is_taken_back_is_never_seen",
        says: "taken back",
        ..STM
    },
    Twin {
        name: "a_commit_that_does_not_check_its_reads",
        mutant: Some(32),
        changes: &[(
            "if id.0 != attempt.snapshot + 1 && !self.reads_hold(attempt) {",
            "if false {",
        )],
        ..SKEW
    },
    Twin {
        name: "a_commit_that_believes_the_clock_too_long",
        changes: &[(
            "if id.0 != attempt.snapshot + 1 &&",
            "if id.0 > attempt.snapshot + 2 &&",
        )],
        ..SKEW
    },
    Twin {
        name: "an_id_drawn_without_acquire",
        changes: &[(
            "self.clock.fetch_add(1, Ordering::AcqRel)",
            "self.clock.fetch_add(1, Ordering::Release)",
        )],
        ..SKEW
    },
    Twin {
        name: "an_id_drawn_without_release",
        changes: &[(
            "self.clock.fetch_add(1, Ordering::AcqRel)",
            "self.clock.fetch_add(1, Ordering::Acquire)",
        )],
        ..PUBLICATION
    },
    Twin {
        name: "an_id_drawn_before_the_slot_says_so",
        changes: &[(
            "        redo.drawing(self.clock.load(Ordering::Relaxed));
        // AcqRel: Release",
            "        let seen = self.clock.load(Ordering::Relaxed);
        // AcqRel: Release",
        ), (
            "        TxId(self.clock.fetch_add(1, Ordering::AcqRel) + 1)",
            "        let id = TxId(self.clock.fetch_add(1, Ordering::AcqRel) + 1);
        redo.drawing(seen);
        id",
        )],
        ..PUBLICATION
    },
    Twin {
        name: "an_extension_that_reads_the_clock_relaxed",
        changes: &[(
            "let now = self.clock.load(Ordering::Acquire)",
            "let now = self.clock.load(Ordering::Relaxed)",
        )],
        check: "an_extended_snapshot_is_one_moment",
        ..STM
    },
];
