//! Mutants of bounded shadows, which loom must detect: the changed line, and the failure that must
//! follow.

use crate::loom::RING;
use crate::mutant::{Folder::Shadow, Mutant};

const READ: Mutant = Mutant {
    folders: &[Shadow],
    file: "table.rs",
    model: "paging",
    check: "read_never_sees_another_pages_word",
    says: "another page's word",
    ..RING
};

const PINNED: Mutant =
    Mutant { check: "written_page_stays_and_gets_last_writer", says: "", ..READ };

const COPIES: Mutant =
    Mutant { file: "copies.rs", check: "written_copy_is_not_dropped", says: "dropped", ..READ };

/// All of these mutants.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a_frame_that_is_filled_without_a_fence",
        changes: &[("        fence(Ordering::Release);\n", "")],
        ..READ
    },
    Mutant {
        name: "a_second_look_at_the_map_without_a_fence",
        changes: &[("        fence(Ordering::Acquire);\n", "")],
        ..READ
    },
    Mutant {
        name: "no_second_look_at_the_map",
        changes: &[(
            "(self.map[page].load(Ordering::Relaxed) ^ place.0) & !USED == 0",
            "self.map.len() > page && place.0 != 0",
        )],
        ..READ
    },
    Mutant {
        name: "a_place_that_comes_again",
        changes: &[("table.place(page).0.wrapping_add(TIME)", "table.place(page).0")],
        ..READ
    },
    Mutant {
        name: "a_place_shown_relaxed",
        changes: &[(
            "table.map[page].store(times | USED | (number as u64 + 1), Ordering::Release)",
            "table.map[page].store(times | USED | (number as u64 + 1), Ordering::Relaxed)",
        )],
        ..READ
    },
    Mutant {
        name: "a_place_looked_up_relaxed",
        changes: &[(
            "let place = Place(self.map[page].load(Ordering::Acquire));",
            "let place = Place(self.map[page].load(Ordering::Relaxed));",
        )],
        ..READ
    },
    Mutant {
        name: "a_pin_that_counts_nothing",
        changes: &[
            (
                "self.uses[page].pins.fetch_add(1, Ordering::Acquire)",
                "self.uses[page].pins.fetch_add(0, Ordering::Acquire)",
            ),
            (
                "self.uses[page].pins.fetch_sub(1, Ordering::Release)",
                "self.uses[page].pins.fetch_sub(0, Ordering::Release)",
            ),
            ("fetch_sub(MOVING - 1, Ordering::Release)", "fetch_sub(MOVING, Ordering::Release)"),
        ],
        ..PINNED
    },
    Mutant {
        name: "a_pin_that_does_not_see_the_last_mover",
        changes: &[(
            "self.uses[page].pins.fetch_add(1, Ordering::Acquire)",
            "self.uses[page].pins.fetch_add(1, Ordering::Relaxed)",
        )],
        ..PINNED
    },
    Mutant {
        name: "an_unpinned_page_whose_writes_are_not_shown",
        changes: &[(
            "self.uses[page].pins.fetch_sub(1, Ordering::Release)",
            "self.uses[page].pins.fetch_sub(1, Ordering::Relaxed)",
        )],
        ..PINNED
    },
    Mutant {
        name: "a_mover_that_does_not_see_the_last_pin",
        changes: &[(
            "compare_exchange(0, MOVING, Ordering::Acquire, Ordering::Relaxed)",
            "compare_exchange(0, MOVING, Ordering::Relaxed, Ordering::Relaxed)",
        )],
        ..PINNED
    },
    Mutant {
        name: "a_copy_dropped_without_a_grace_period",
        changes: &[("        self.0.is_empty()\n", "        true\n")],
        ..COPIES
    },
    Mutant {
        name: "an_attempt_that_is_not_announced",
        changes: &[
            ("self.active.attempts.fetch_add(1, Ordering::Acquire)", "()"),
            ("self.active.attempts.fetch_add(1, Ordering::Release)", "()"),
        ],
        ..COPIES
    },
    Mutant {
        name: "an_attempt_that_begins_without_seeing_the_marks",
        changes: &[(
            "self.active.attempts.fetch_add(1, Ordering::Acquire)",
            "self.active.attempts.fetch_add(1, Ordering::Relaxed)",
        )],
        ..COPIES
    },
    Mutant {
        name: "marks_that_are_not_shown",
        changes: &[(
            "active.attempts.fetch_add(0, Ordering::AcqRel)",
            "active.attempts.fetch_add(0, Ordering::Acquire)",
        )],
        ..COPIES
    },
    Mutant {
        name: "a_writer_that_leaves_the_mark",
        changes: &[(
            "                HOT => return,\n",
            "                HOT | EVICTING => return,\n",
        )],
        ..COPIES
    },
    Mutant {
        name: "a_touching_id_that_is_not_looked_at",
        number: Some(80),
        changes: &[(
            "        if now >> STATE_BITS > reproduced {
            self.unmark(page);
            return false;
        }
",
            "        let _ = reproduced;
",
        )],
        ..COPIES
    },
];
