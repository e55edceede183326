//! The twins that loom must find in shadows with a bound: which line is changed, and what must go
//! wrong then.

use crate::loom::RING;
use crate::twin::{Folder::Shadow, Twin};

const READ: Twin = Twin {
    folders: &[Shadow],
    file: "table.rs",
    model: "paging",
    check: "a_read_never_sees_another_pages_word",
    says: "another page's word",
    ..RING
};

const PINNED: Twin =
    Twin { check: "a_page_that_is_written_stays_and_is_touched", says: "", ..READ };

const COPIES: Twin = Twin {
    file: "copies.rs",
    check: "a_copy_is_not_dropped_with_what_is_written",
    says: "dropped",
    ..READ
};

/// All of them.
pub(crate) const TWINS: &[Twin] = &[
    Twin {
        name: "a_frame_that_is_filled_without_a_fence",
        changes: &[("        fence(Ordering::Release);\n", "")],
        ..READ
    },
    Twin {
        name: "a_second_look_at_the_map_without_a_fence",
        changes: &[("        fence(Ordering::Acquire);\n", "")],
        ..READ
    },
    Twin {
        name: "no_second_look_at_the_map",
        changes: &[(
            "(self.map[page].load(Ordering::Relaxed) ^ place.0) & !USED == 0",
            "self.map.len() > page && place.0 != 0",
        )],
        ..READ
    },
    Twin {
        name: "a_place_that_comes_again",
        changes: &[("table.place(page).0.wrapping_add(TIME)", "table.place(page).0")],
        ..READ
    },
    Twin {
        name: "a_place_shown_relaxed",
        changes: &[(
            "table.map[page].store(times | USED | (number as u64 + 1), Ordering::Release)",
            "table.map[page].store(times | USED | (number as u64 + 1), Ordering::Relaxed)",
        )],
        ..READ
    },
    Twin {
        name: "a_place_looked_up_relaxed",
        changes: &[(
            "let place = Place(self.map[page].load(Ordering::Acquire));",
            "let place = Place(self.map[page].load(Ordering::Relaxed));",
        )],
        ..READ
    },
    Twin {
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
    Twin {
        name: "a_pin_that_does_not_see_the_last_mover",
        changes: &[(
            "self.uses[page].pins.fetch_add(1, Ordering::Acquire)",
            "self.uses[page].pins.fetch_add(1, Ordering::Relaxed)",
        )],
        ..PINNED
    },
    Twin {
        name: "an_unpinned_page_whose_writes_are_not_shown",
        changes: &[(
            "self.uses[page].pins.fetch_sub(1, Ordering::Release)",
            "self.uses[page].pins.fetch_sub(1, Ordering::Relaxed)",
        )],
        ..PINNED
    },
    Twin {
        name: "a_mover_that_does_not_see_the_last_pin",
        changes: &[(
            "compare_exchange(0, MOVING, Ordering::Acquire, Ordering::Relaxed)",
            "compare_exchange(0, MOVING, Ordering::Relaxed, Ordering::Relaxed)",
        )],
        ..PINNED
    },
    Twin {
        name: "a_copy_dropped_without_a_grace_period",
        changes: &[("        self.0.is_empty()\n", "        true\n")],
        ..COPIES
    },
    Twin {
        name: "an_attempt_that_is_not_announced",
        changes: &[
            ("self.active.attempts.fetch_add(1, Ordering::Acquire)", "()"),
            ("self.active.attempts.fetch_add(1, Ordering::Release)", "()"),
        ],
        ..COPIES
    },
    Twin {
        name: "an_attempt_that_begins_without_seeing_the_marks",
        changes: &[(
            "self.active.attempts.fetch_add(1, Ordering::Acquire)",
            "self.active.attempts.fetch_add(1, Ordering::Relaxed)",
        )],
        ..COPIES
    },
    Twin {
        name: "marks_that_are_not_shown",
        changes: &[(
            "active.attempts.fetch_add(0, Ordering::AcqRel)",
            "active.attempts.fetch_add(0, Ordering::Acquire)",
        )],
        ..COPIES
    },
    Twin {
        name: "a_writer_that_leaves_the_mark",
        changes: &[(
            "                HOT => return,\n",
            "                HOT | EVICTING => return,\n",
        )],
        ..COPIES
    },
    Twin {
        name: "a_touching_id_that_is_not_looked_at",
        mutant: Some(80),
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
