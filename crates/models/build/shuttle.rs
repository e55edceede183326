//! The twins that shuttle must find: which line is changed, and what must go wrong then.

use crate::loom::{FRONTIER, STM};
use crate::twin::{
    Folder::{Perform, Persist},
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
    model: "pipeline",
    check: "what_is_merged_is_the_history",
    ..FRONTIER
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
        ..HISTORY
    },
    Twin {
        name: "a_history_with_ids_drawn_after_the_records_are_released",
        changes: &[(
            "        let id = self.draw(redo);
        // When no other",
            "        self.release(attempt, TxId(attempt.snapshot));
        let id = self.draw(redo);
        // When no other",
        )],
        ..HISTORY
    },
    Twin {
        name: "a_serial_memory_that_never_waits",
        file: "serial.rs",
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
        file: "stm.rs",
        changes: &[("        redo.record(id, Written::nothing());\n", "")],
        says: "in no ring",
        ..PIPELINE
    },
    Twin {
        name: "an_acknowledgement_that_nobody_is_told_of",
        file: "help.rs",
        changes: &[("if turn == Turn::Awaited || step.is_err() {", "if step.is_err() {")],
        says: "deadlock",
        ..PIPELINE
    },
    Twin {
        name: "a_thread_that_sleeps_without_looking_at_the_clock",
        file: "background.rs",
        changes: &[(
            "if last_drawn == durable() {",
            "let _ = (last_drawn, durable());\n if true {",
        )],
        says: "deadlock",
        ..PIPELINE
    },
];
