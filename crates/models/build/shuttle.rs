//! The twins that shuttle must find: which line is changed, and what must go wrong then.

use crate::loom::{FRONTIER, STM};
use crate::twin::{
    Folder::{Design, Perform, Persist, Pipeline},
    Tool, Twin,
};

const HISTORY: Twin = Twin {
    tool: Tool::Shuttle,
    model: "history",
    check: "stm_is_serializable_in_id_order",
    says: "history",
    ..STM
};

const PIPELINE: Twin = Twin {
    tool: Tool::Shuttle,
    folders: &[Persist, Perform],
    model: "merging",
    check: "what_is_merged_is_the_history",
    ..FRONTIER
};

const LISTS: Twin = Twin {
    tool: Tool::Shuttle,
    folders: &[Perform, Persist, Pipeline, Design],
    file: "perform/stm.rs",
    beside: &["pool"],
    model: "lists",
    check: "every_crash_leaves_a_prefix_of_a_serial_history",
    says: "crash",
    ..STM
};

const STARVING: Twin = Twin {
    model: "starving",
    check: "starving_transaction_commits_before_gate_closes",
    says: "starves",
    ..HISTORY
};

/// All of them.
pub(crate) const TWINS: &[Twin] = &[
    Twin {
        name: "a_history_whose_reads_are_not_checked",
        mutant: Some(32),
        changes: &[(
            "if id.0 != attempt.snapshot + 1 && !self.reads_hold(attempt) {",
            "if false {",
        )],
        ..HISTORY
    },
    Twin {
        name: "a_history_whose_extensions_check_nothing",
        mutant: Some(31),
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
    Twin {
        name: "a_history_whose_aborts_release_the_old_version",
        mutant: Some(40),
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
    Twin {
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
    Twin {
        name: "a_reserved_record_that_others_take",
        changes: &[(
            "if self.gate.is_reserved(number as u64, (attempt.tag >> ATTEMPT_BITS) as usize) {",
            "if false {",
        )],
        ..STARVING
    },
    Twin {
        name: "a_starving_transaction_that_reserves_nothing",
        file: "perform/contention.rs",
        changes: &[("            turn.reserve(met);\n", "")],
        ..STARVING
    },
    Twin {
        name: "a_transaction_in_parts_whose_losses_are_forgotten",
        file: "perform/contention.rs",
        changes: &[("let losses = fortune.losses - PATIENCE;", "let losses = 0;")],
        check: "starving_transaction_in_parts_closes_gate",
        ..STARVING
    },
    Twin {
        name: "a_transaction_in_parts_that_closes_no_gate",
        file: "perform/contention.rs",
        changes: &[(" || self.losses > RESERVATIONS {", " {")],
        check: "starving_transaction_in_parts_closes_gate",
        ..STARVING
    },
    Twin {
        name: "a_serial_memory_that_never_waits",
        file: "perform/serial.rs",
        changes: &[(
            "while self.held.swap(true, Ordering::Acquire) {",
            "while self.held.swap(true, Ordering::Acquire) && tries == 0 {",
        )],
        check: "serial_is_serializable_in_id_order",
        ..HISTORY
    },
    Twin {
        name: "a_merge_of_what_is_not_published",
        changes: &[("self.committing.store(clock, Ordering::Release)", "let _ = clock")],
        says: "in no ring",
        ..PIPELINE
    },
    Twin {
        name: "a_merge_of_cursors_read_too_early",
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
        says: "in no ring",
        ..PIPELINE
    },
    Twin {
        name: "a_hole_that_is_not_recorded",
        mutant: Some(34),
        file: "perform/stm.rs",
        changes: &[("        redo.record(id, Written::nothing());\n", "")],
        says: "in no ring",
        ..PIPELINE
    },
    Twin {
        name: "an_acknowledgement_that_nobody_is_told_of",
        file: "persist/help.rs",
        changes: &[("if turn == Turn::Awaited || step.is_err() {", "if step.is_err() {")],
        says: "deadlock",
        ..PIPELINE
    },
    Twin {
        name: "a_thread_that_sleeps_without_looking_at_the_clock",
        file: "persist/background.rs",
        changes: &[("if last_drawn == last {", "let _ = (last_drawn, last);\n if true {")],
        says: "deadlock",
        ..PIPELINE
    },
    Twin {
        name: "a_reader_that_is_acknowledged_before_what_it_has_read",
        mutant: Some(33),
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
    Twin {
        name: "a_group_acknowledged_when_it_is_sent",
        mutant: Some(5),
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
    Twin {
        name: "a_superblock_written_before_home_is_durable",
        mutant: Some(7),
        file: "reproduce/mod.rs",
        changes: &[(
            "        if planted(Mutant::HeadBeforeHome) {",
            "        if !planted(Mutant::HeadBeforeHome) {",
        )],
        ..LISTS
    },
    Twin {
        name: "a_log_recycled_before_it_is_home",
        mutant: Some(9),
        file: "reproduce/mod.rs",
        changes: &[(
            "            let panic = turn.on_panic(\"reproduce\");\n",
            "            let panic = turn.on_panic(\"reproduce\");
            let ends = batch.iter().map(|queued| queued.flight.end).max();
            persist.queue.tail.store(ends.unwrap_or(0), Ordering::Release);\n",
        )],
        ..LISTS
    },
    Twin {
        name: "a_superblock_written_before_all_parts_are_at_home",
        mutant: Some(72),
        file: "reproduce/board.rs",
        changes: &[("            if round.at_work == 0 {", "            if round.claimed > 0 {")],
        says: "",
        ..LISTS
    },
    Twin {
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
    Twin {
        name: "a_listener_that_is_left_without_a_look",
        file: "persist/progress.rs",
        changes: &[(
            "        if let Some(outcome) = self.outcome(id) {",
            "        if let Some(outcome) = self.outcome(id).filter(|_| id == 0) {",
        )],
        says: "",
        ..LISTS
    },
    Twin {
        name: "a_poll_that_leaves_nobody_to_wake",
        file: "ticket.rs",
        changes: &[(
            "design.listen(id, context.waker(), &mut self.registration)",
            "design.listen(id, std::task::Waker::noop(), &mut self.registration)",
        )],
        says: "deadlock",
        ..LISTS
    },
    Twin {
        name: "a_poll_that_does_not_look_again",
        file: "ticket.rs",
        changes: &[("outcome().map_or(Poll::Pending, Poll::Ready)", "Poll::Pending")],
        says: "deadlock",
        ..LISTS
    },
    Twin {
        name: "a_full_log_that_is_waited_for_without_giving_way",
        file: "pipeline.rs",
        changes: &[(
            "Step::Busy | Step::Nothing if self.persist.is_memory() => Step::Nothing,",
            "",
        )],
        says: "exceeded max_steps",
        ..LISTS
    },
    Twin {
        name: "a_persist_thread_that_rings_for_itself",
        file: "pipeline.rs",
        changes: &[("if (self.blocks || helped) && self.is_due() {", "if self.is_due() {")],
        says: "exceeded max_steps",
        ..LISTS
    },
];
