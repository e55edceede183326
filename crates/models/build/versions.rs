//! Mutants of objects with two versions, which loom must detect.

use crate::loom::RING;
use crate::mutant::{Folder::Versions, Mutant};

const SNAPSHOT: Mutant = Mutant {
    folders: &[Versions],
    file: "versions/end.rs",
    model: "snapshots",
    check: "snapshot_is_consistent",
    says: "not of this snapshot",
    ..RING
};

const SEATS: Mutant = Mutant { file: "versions/seats.rs", ..SNAPSHOT };

const WRITE_BACK: Mutant = Mutant { file: "versions/write_back.rs", ..SNAPSHOT };

const FRONTIER: Mutant = Mutant {
    file: "versions/seats.rs",
    check: "frontier_is_applied_to_heap_image",
    says: "forgotten",
    ..SNAPSHOT
};

const DURABLE: Mutant = Mutant {
    file: "versions/seats.rs",
    check: "reported_durable_id_is_durable",
    says: "not durable",
    ..SNAPSHOT
};

/// All of these mutants.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a_time_drawn_without_a_mark",
        changes: &[("    end.store(IN_CRITICAL, Ordering::Relaxed);\n", "")],
        ..SNAPSHOT
    },
    Mutant {
        name: "a_time_drawn_without_release",
        changes: &[(
            "clock.fetch_add(1, Ordering::AcqRel)",
            "clock.fetch_add(1, Ordering::Acquire)",
        )],
        ..SNAPSHOT
    },
    Mutant {
        name: "a_beginning_that_is_stored_and_not_announced",
        changes: &[(
            "announce(&self.active, early)",
            "self.active.store(early, Ordering::Release)",
        )],
        ..SEATS
    },
    Mutant {
        name: "a_beginning_at_the_time_before_it_was_announced",
        changes: &[("let start = clock.load(Ordering::SeqCst)", "let start = early")],
        ..SEATS
    },
    Mutant {
        name: "no_fence_before_the_oldest_is_looked_for",
        changes: &[(
            "        fence(Ordering::SeqCst);
        // Acquire: pairs with `over`.",
            "",
        )],
        ..SEATS
    },
    Mutant {
        name: "a_write_back_that_waits_for_nobody",
        changes: &[("if done.stays || is_needed {", "if done.stays {")],
        ..WRITE_BACK
    },
    Mutant {
        name: "no_fence_before_links_are_taken_away",
        changes: &[("            fence(Ordering::Release);\n", "")],
        ..WRITE_BACK
    },
    Mutant {
        name: "links_taken_away_before_the_words_are_home",
        changes: &[(
            "            store(home, &done.batch);
",
            "            for object in &done.objects {
                home.store(super::link_of(*object), EMPTY);
            }
            store(home, &done.batch);
",
        )],
        ..WRITE_BACK
    },
    Mutant {
        name: "a_link_read_relaxed",
        file: "versions/read.rs",
        changes: &[(
            "let link = words[link_of(at.object)].load(Ordering::Acquire);
        if link != EMPTY || is_fresh(words, attempt, at.object) {",
            "let link = words[link_of(at.object)].load(Ordering::Relaxed);
        if link != EMPTY || is_fresh(words, attempt, at.object) {",
        )],
        ..SNAPSHOT
    },
    Mutant {
        name: "space_given_back_at_any_time",
        file: "versions/commit.rs",
        changes: &[("            && time <= oldest\n", "")],
        check: "copy_space_is_not_reused_under_a_reader",
        ..SNAPSHOT
    },
    Mutant {
        name: "committing_cleared_before_it_waits_to_come_home",
        file: "versions/commit.rs",
        changes: &[(
            "        seat.waits_from(queue.start());
        seat.committed();",
            "        seat.committed();
        seat.waits_from(queue.start());",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "an_attempt_over_before_it_commits",
        changes: &[(
            "        self.committing.store(start, Ordering::Release);
        self.over();",
            "        self.over();
        self.committing.store(start, Ordering::Release);",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "what_is_unfinished_read_from_right_to_left",
        changes: &[(
            "        let active = self.active.load(Ordering::Acquire);
        let committing = self.committing.load(Ordering::Acquire);
        active.min(committing).min(self.waiting.load(Ordering::Acquire))",
            "        let waiting = self.waiting.load(Ordering::Acquire);
        let committing = self.committing.load(Ordering::Acquire);
        waiting.min(committing).min(self.active.load(Ordering::Acquire))",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "a_group_that_is_stored_and_not_announced",
        changes: &[(
            "announce(&self.pending, early);",
            "self.pending.store(early, Ordering::Release);",
        )],
        ..DURABLE
    },
    Mutant {
        name: "an_id_read_before_its_group_is_announced",
        changes: &[(
            "let now = clock.load(Ordering::SeqCst);
        if now != early {",
            "let now = early;
        if now != early {",
        )],
        ..DURABLE
    },
    Mutant {
        name: "durable_asked_of_the_clock_last",
        changes: &[(
            "let known = pending.min().unwrap_or(IDLE).min(now);",
            "let known = pending.min().unwrap_or(IDLE);
        let known = known.min(clock.load(Ordering::Acquire).max(now));",
        )],
        ..DURABLE
    },
    Mutant {
        name: "no_fence_before_groups_are_looked_for",
        changes: &[(
            "        let now = clock.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        // Acquire: pairs with `group_is_shown`.",
            "        let now = clock.load(Ordering::Acquire);",
        )],
        ..DURABLE
    },
    Mutant {
        name: "what_was_said_to_be_durable_forgotten",
        changes: &[("self.told.fetch_max(known, Ordering::AcqRel).max(known)", "known")],
        says: "no longer",
        ..DURABLE
    },
    Mutant {
        name: "chunks_given_back_beside_who_writes_there",
        changes: &[(
            "done.end > oldest || done.gives_chunks_back && done.end > beside();",
            "{
                let _ = beside;
                done.end > oldest
            };",
        )],
        check: "chunk_release_waits_for_older_transactions",
        says: "released memory",
        ..WRITE_BACK
    },
    Mutant {
        name: "chunks_given_back_beside_a_group",
        changes: &[(
            "active.min(grouped).min(self.unfinished())",
            "{
            let _ = grouped;
            active.min(self.unfinished())
        }",
        )],
        check: "chunk_release_waits_for_older_groups",
        says: "released memory",
        ..SEATS
    },
    Mutant {
        name: "an_id_guessed_from_the_groups_that_are_there",
        changes: &[(
            "let given = self.used().map(|seat| seat.given.load(Ordering::Acquire)).max();
        given.unwrap_or(0).max(clock.load(Ordering::Acquire))",
            "let before = clock.load(Ordering::Acquire);
        let is_ahead = self.used().any(|seat| seat.pending().is_some());
        clock.load(Ordering::Acquire).max(before + u64::from(is_ahead))",
        )],
        check: "given_id_is_assigned_when_its_group_ends",
        says: "never assigned",
        ..DURABLE
    },
    Mutant {
        name: "a_group_that_commits_without_saying_so",
        changes: &[(
            "announce(&self.committing, start);",
            "self.committing.store(start, Ordering::Release);",
        )],
        check: "group_frontier_is_applied_to_heap_image",
        ..FRONTIER
    },
    Mutant {
        name: "a_group_that_its_worker_does_not_see_in_its_end",
        file: "versions/read.rs",
        changes: &[("if worker == number && Some(copy.end) == attempt.owned.end {", "if false {")],
        check: "worker_sees_its_group_while_another_ends_it",
        ..SNAPSHOT
    },
    Mutant {
        name: "no_fence_before_what_is_unfinished_is_looked_for",
        changes: &[(
            "        fence(Ordering::SeqCst);
        self.used().map(Seat::unfinished)",
            "        self.used().map(Seat::unfinished)",
        )],
        ..FRONTIER
    },
    Mutant {
        name: "a_frontier_that_reads_the_clock_last",
        changes: &[(
            "self.used().map(Seat::unfinished).min().unwrap_or(IDLE).min(now)",
            "self.used().map(Seat::unfinished).min().unwrap_or(IDLE)
            .min(clock.load(Ordering::Acquire).max(now))",
        )],
        ..FRONTIER
    },
];
