//! Mutants of the steps from a commit to the frontier, which loom must detect: the changed line,
//! and the failure that must follow.

use crate::mutant::{
    Folder::{Perform, Persist, Ring},
    Mutant, Tool,
};

pub(crate) const RING: Mutant = Mutant {
    name: "",
    number: None,
    tool: Tool::Loom,
    folders: &[Ring],
    file: "ring.rs",
    changes: &[],
    beside: &[],
    model: "wraps",
    check: "records_are_taken_whole",
    says: "",
};

pub(crate) const FRONTIER: Mutant = Mutant {
    folders: &[Persist],
    file: "persist/frontier.rs",
    model: "claims",
    check: "only_published_records_are_claimed",
    says: "claimed",
    ..RING
};

pub(crate) const STM: Mutant = Mutant {
    folders: &[Perform],
    file: "perform/stm.rs",
    model: "isolation",
    check: "body_never_sees_a_torn_pair",
    says: "torn",
    ..RING
};

const SKEW: Mutant = Mutant { check: "write_skew_never_happens", says: "skew", ..STM };

const PUBLICATION: Mutant = Mutant {
    folders: &[Persist, Perform],
    model: "publication",
    check: "commit_is_claimed_with_its_record",
    says: "claimed",
    ..STM
};

/// All of these mutants.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a_record_published_relaxed",
        number: Some(11),
        changes: &[(
            "self.ring.written.store(self.at, Ordering::Release)",
            "self.ring.written.store(self.at, Ordering::Relaxed)",
        )],
        says: "record",
        ..RING
    },
    Mutant {
        name: "a_cursor_read_relaxed",
        number: Some(11),
        changes: &[(
            "self.written.load(Ordering::Acquire)",
            "self.written.load(Ordering::Relaxed)",
        )],
        says: "record",
        ..RING
    },
    Mutant {
        name: "space_given_back_relaxed",
        changes: &[(
            "self.taken.store(to, Ordering::Release)",
            "self.taken.store(to, Ordering::Relaxed)",
        )],
        says: "Causality violation",
        check: "space_is_overwritten_only_after_its_copy",
        ..RING
    },
    Mutant {
        name: "space_seen_relaxed",
        changes: &[(
            "self.taken = ring.taken.load(Ordering::Acquire)",
            "self.taken = ring.taken.load(Ordering::Relaxed)",
        )],
        says: "Causality violation",
        check: "space_is_overwritten_only_after_its_copy",
        ..RING
    },
    Mutant {
        name: "cursors_read_before_committing",
        number: Some(41),
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
    Mutant {
        name: "committing_read_before_the_clock",
        changes: &[(
            "    cursors.clear();",
            "    let now = clock.load(Ordering::Acquire);
    cursors.clear();",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "committing_cleared_before_the_record_is_published",
        number: Some(42),
        file: "persist/redo.rs",
        changes: &[(
            "        record.publish(id.0);
        self.slot.drawn();",
            "        self.slot.drawn();
        record.publish(id.0);",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "drawing_announced_relaxed",
        changes: &[(
            "self.committing.store(clock, Ordering::Release)",
            "self.committing.store(clock, Ordering::Relaxed)",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "the_idle_mark_stored_relaxed",
        changes: &[(
            "self.committing.store(IDLE, Ordering::Release)",
            "self.committing.store(IDLE, Ordering::Relaxed)",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "committing_read_relaxed",
        changes: &[(
            "slot.committing.load(Ordering::Acquire)",
            "slot.committing.load(Ordering::Relaxed)",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "no_committing_at_all",
        changes: &[(
            "self.committing.store(clock, Ordering::Release)",
            "let _ = clock",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "no_fence_after_taking",
        changes: &[("fence(Ordering::Release);", "")],
        ..STM
    },
    Mutant {
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
    Mutant {
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
        check: "run_is_never_torn",
        ..STM
    },
    Mutant {
        name: "no_fence_before_the_second_look_of_a_hard_read",
        changes: &[(
            "            fence(Ordering::Acquire);
            if record.load(Ordering::Relaxed) == before {",
            "            if record.load(Ordering::Relaxed) == before {",
        )],
        check: "extended_snapshot_is_consistent",
        ..STM
    },
    Mutant {
        name: "an_extension_that_checks_nothing",
        number: Some(31),
        changes: &[(
            "        if forgot || !self.reads_hold(attempt) {
            self.name_what_changed(attempt);
            return Err(Stop::Conflict);
        }
        attempt.snapshot = now;",
            "        attempt.snapshot = now;",
        )],
        ..STM
    },
    Mutant {
        name: "an_extension_that_reads_the_clock_after_its_check",
        changes: &[(
            "        attempt.snapshot = now;",
            "        attempt.snapshot = now.max(self.clock.load(Ordering::Acquire));",
        )],
        check: "extended_snapshot_is_consistent",
        ..STM
    },
    Mutant {
        name: "a_version_released_relaxed",
        changes: &[(
            "self.records.get(entry.owner as usize).store(id.0, Ordering::Release)",
            "self.records.get(entry.owner as usize).store(id.0, Ordering::Relaxed)",
        )],
        check: "rolled_back_value_is_never_seen",
        // A version may be visible before the clock value that it came from: the read then extends
        // its snapshot forever.
        says: "exceeded maximum number of branches",
        ..STM
    },
    Mutant {
        name: "an_abort_that_releases_the_old_version",
        number: Some(40),
        changes: &[(
            "        self.release(attempt, space, id);
        attempt.clear();
    }",
            "        for entry in &attempt.written.entries {
            if entry.version != SHARED {
                self.records.get(entry.owner as usize).store(entry.version, Ordering::Release);
            }
        }
        attempt.clear();
    }",
        )],
        check: "rolled_back_value_is_never_seen",
        says: "rolled back",
        ..STM
    },
    Mutant {
        name: "a_commit_that_does_not_check_its_reads",
        number: Some(32),
        changes: &[(
            "if id.0 != attempt.snapshot + 1 && !self.reads_hold(attempt) {",
            "if false {",
        )],
        ..SKEW
    },
    Mutant {
        name: "a_commit_that_believes_the_clock_too_long",
        changes: &[(
            "if id.0 != attempt.snapshot + 1 &&",
            "if id.0 > attempt.snapshot + 2 &&",
        )],
        ..SKEW
    },
    Mutant {
        name: "an_id_drawn_without_acquire",
        changes: &[(
            "self.clock.fetch_add(1, Ordering::AcqRel)",
            "self.clock.fetch_add(1, Ordering::Release)",
        )],
        ..SKEW
    },
    Mutant {
        name: "an_id_drawn_without_release",
        changes: &[(
            "self.clock.fetch_add(1, Ordering::AcqRel)",
            "self.clock.fetch_add(1, Ordering::Acquire)",
        )],
        ..PUBLICATION
    },
    Mutant {
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
    Mutant {
        name: "an_extension_that_reads_the_clock_relaxed",
        changes: &[(
            "let now = self.clock.load(Ordering::Acquire)",
            "let now = self.clock.load(Ordering::Relaxed)",
        )],
        check: "extended_snapshot_is_consistent",
        ..STM
    },
];
