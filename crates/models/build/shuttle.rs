//! Mutants that shuttle must detect: the changed line, and the failure that must follow.

use crate::loom::{FRONTIER, STM};
use crate::mutant::{
    Folder::{Design, Perform, Persist, Pipeline},
    Mutant, Tool,
};

const HISTORY: Mutant = Mutant {
    tool: Tool::Shuttle,
    model: "history",
    check: "stm_is_serializable_in_id_order",
    says: "history",
    ..STM
};

const PIPELINE: Mutant = Mutant {
    tool: Tool::Shuttle,
    folders: &[Persist, Perform],
    model: "merging",
    check: "merged_log_is_the_history",
    ..FRONTIER
};

const LISTS: Mutant = Mutant {
    tool: Tool::Shuttle,
    folders: &[Perform, Persist, Pipeline, Design],
    file: "perform/stm.rs",
    beside: &["pool"],
    model: "lists",
    check: "every_crash_leaves_a_prefix_of_a_serial_history",
    says: "crash",
    ..STM
};

const STARVING: Mutant = Mutant {
    model: "starving",
    check: "starving_transaction_commits_before_pool_waits",
    says: "starves",
    ..HISTORY
};

/// All of these mutants.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a_history_whose_reads_are_not_checked",
        number: Some(32),
        changes: &[(
            "if id.0 != attempt.snapshot + 1 && !self.reads_hold(attempt) {",
            "if false {",
        )],
        ..HISTORY
    },
    Mutant {
        name: "a_history_whose_extensions_check_nothing",
        number: Some(31),
        changes: &[(
            "        if forgot || !self.reads_hold(attempt) {
            self.name_what_changed(attempt);
            return Err(Stop::Conflict);
        }
        attempt.snapshot = now;",
            "        attempt.snapshot = now;",
        )],
        ..HISTORY
    },
    Mutant {
        name: "a_history_whose_aborts_release_the_old_version",
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
        ..HISTORY
    },
    Mutant {
        name: "a_history_with_ids_drawn_after_the_records_are_released",
        changes: &[(
            "        let id = self.draw(redo);
        // When no other",
            "        self.release(attempt, &mut space, TxId(attempt.snapshot));
        let id = self.draw(redo);
        // When no other",
        )],
        ..HISTORY
    },
    Mutant {
        name: "a_reserved_record_that_others_take",
        changes: &[(
            "if self.gate.is_reserved(number as u64, (attempt.tag >> ATTEMPT_BITS) as usize) {",
            "if false {",
        )],
        ..STARVING
    },
    Mutant {
        name: "a_starving_transaction_that_reserves_nothing",
        file: "perform/contention.rs",
        changes: &[("            turn.reserve(met);\n", "")],
        ..STARVING
    },
    Mutant {
        name: "losses_of_a_transaction_in_parts_are_forgotten",
        file: "perform/contention.rs",
        changes: &[("let losses = fortune.losses - PATIENCE;", "let losses = 0;")],
        check: "starving_transaction_in_parts_closes_gate",
        ..STARVING
    },
    Mutant {
        name: "transaction_in_parts_closes_no_gate",
        file: "perform/contention.rs",
        changes: &[(" || self.losses > RESERVATIONS {", " {")],
        check: "starving_transaction_in_parts_closes_gate",
        ..STARVING
    },
    Mutant {
        name: "a_serial_memory_that_never_waits",
        file: "perform/serial.rs",
        changes: &[(
            "while self.held.swap(true, Ordering::Acquire) {",
            "while self.held.swap(true, Ordering::Acquire) && tries == 0 {",
        )],
        check: "serial_is_serializable_in_id_order",
        ..HISTORY
    },
    Mutant {
        name: "a_merge_of_what_is_not_published",
        changes: &[("self.committing.store(clock, Ordering::Release)", "let _ = clock")],
        says: "in no ring",
        ..PIPELINE
    },
    Mutant {
        name: "a_merge_of_cursors_read_too_early",
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
        says: "in no ring",
        ..PIPELINE
    },
    Mutant {
        name: "a_hole_that_is_not_recorded",
        number: Some(34),
        file: "perform/stm.rs",
        changes: &[("        redo.record(id, Written::nothing());\n", "")],
        says: "in no ring",
        ..PIPELINE
    },
    Mutant {
        name: "an_acknowledgement_that_nobody_is_told_of",
        file: "persist/waiters.rs",
        changes: &[("if turn == Turn::Awaited || step.is_err() {", "if step.is_err() {")],
        says: "deadlock",
        ..PIPELINE
    },
    Mutant {
        name: "a_thread_that_sleeps_without_looking_at_the_clock",
        file: "persist/background.rs",
        changes: &[("if last_drawn == last {", "let _ = (last_drawn, last);\n if true {")],
        says: "deadlock",
        ..PIPELINE
    },
    Mutant {
        name: "a_reader_that_is_acknowledged_before_what_it_has_read",
        number: Some(33),
        changes: &[(
            "let seen = TxId(attempt.snapshot);
            attempt.clear();
            return Ok(seen);",
            "let seen = TxId(attempt.snapshot.saturating_sub(1));
            attempt.clear();
            return Ok(seen);",
        )],
        says: "crash: Unfounded",
        ..LISTS
    },
    Mutant {
        name: "a_group_acknowledged_when_it_is_sent",
        number: Some(5),
        file: "persist/mod.rs",
        changes: &[
            (
                "        self.progress.advance(flight.last);\n",
                "        if self.is_memory() {
            self.progress.advance(flight.last);
        }\n",
            ),
            (
                "        debug_assert!(durable.is_none(), \"a device acknowledges\");",
                "        self.progress.advance(flight.last);
        let _ = durable;",
            ),
        ],
        ..LISTS
    },
    Mutant {
        name: "a_superblock_written_before_home_is_durable",
        number: Some(7),
        file: "reproduce/mod.rs",
        changes: &[(
            "        if planted(Mutant::HeadBeforeHome) {",
            "        if !planted(Mutant::HeadBeforeHome) {",
        )],
        ..LISTS
    },
    Mutant {
        name: "a_log_recycled_before_it_is_home",
        number: Some(9),
        file: "reproduce/mod.rs",
        changes: &[(
            "            let panic = turn.on_panic(\"reproduce\");\n",
            "            let panic = turn.on_panic(\"reproduce\");
            let ends = batch.iter().map(|queued| queued.flight.end).max();
            persist.queue.tail.store(ends.unwrap_or(0), Ordering::Release);\n",
        )],
        ..LISTS
    },
    Mutant {
        name: "a_superblock_written_before_all_parts_are_at_home",
        number: Some(72),
        file: "reproduce/board.rs",
        changes: &[("            if round.at_work == 0 {", "            if round.claimed > 0 {")],
        says: "",
        ..LISTS
    },
    Mutant {
        name: "a_batch_that_is_taken_before_the_turn",
        file: "reproduce/mod.rs",
        changes: &[
            ("            let batch = persist.queue.take(log_bytes);\n", ""),
            (
                "        take_turn(&self.superblocks,",
                "        let batch = persist.queue.take(log_bytes);
        let _ = self.superblocks.try_lock().map(drop);
        take_turn(&self.superblocks,",
            ),
        ],
        says: "",
        ..LISTS
    },
    Mutant {
        name: "a_listener_that_is_left_without_a_look",
        file: "persist/waiters.rs",
        changes: &[(
            "        if let Some(outcome) = self.outcome(id) {",
            "        if let Some(outcome) = self.outcome(id).filter(|_| id == 0) {",
        )],
        says: "",
        ..LISTS
    },
    Mutant {
        name: "a_poll_that_leaves_nobody_to_wake",
        file: "ticket.rs",
        changes: &[(
            "design.listen(id, context.waker(), &mut self.registration)",
            "design.listen(id, std::task::Waker::noop(), &mut self.registration)",
        )],
        says: "deadlock",
        ..LISTS
    },
    Mutant {
        name: "a_poll_that_does_not_look_again",
        file: "ticket.rs",
        changes: &[("outcome().map_or(Poll::Pending, Poll::Ready)", "Poll::Pending")],
        says: "deadlock",
        ..LISTS
    },
    Mutant {
        name: "a_full_log_that_is_waited_for_without_giving_way",
        file: "pipeline.rs",
        changes: &[(
            "Step::Busy | Step::Nothing if self.persist.is_memory() => Step::Nothing,",
            "",
        )],
        says: "exceeded max_steps",
        ..LISTS
    },
    Mutant {
        name: "a_persist_thread_that_rings_for_itself",
        file: "pipeline.rs",
        changes: &[("if (self.blocks || helped) && self.is_due() {", "if self.is_due() {")],
        says: "exceeded max_steps",
        ..LISTS
    },
];
