//! The twins that loom must find among objects with two versions.

use crate::loom::RING;
use crate::twin::{Folder::Versions, Twin};

const SNAPSHOT: Twin = Twin {
    folders: &[Versions],
    file: "versions/end.rs",
    model: "snapshots",
    check: "a_snapshot_is_one_moment",
    says: "another moment",
    ..RING
};

const SEATS: Twin = Twin { file: "versions/seats.rs", ..SNAPSHOT };

const WRITE_BACK: Twin = Twin { file: "versions/write_back.rs", ..SNAPSHOT };

const FRONTIER: Twin = Twin {
    file: "versions/seats.rs",
    check: "what_is_up_to_the_frontier_is_at_home",
    says: "forgotten",
    ..SNAPSHOT
};

const DURABLE: Twin = Twin {
    file: "versions/seats.rs",
    check: "what_is_said_to_be_durable_is",
    says: "not durable",
    ..SNAPSHOT
};

/// All of them.
pub(crate) const TWINS: &[Twin] = &[
    Twin {
        name: "a_time_drawn_without_a_mark",
        changes: &[("    end.store(IN_CRITICAL, Ordering::Relaxed);\n", "")],
        ..SNAPSHOT
    },
    Twin {
        name: "a_time_drawn_without_release",
        changes: &[(
            "clock.fetch_add(1, Ordering::AcqRel)",
            "clock.fetch_add(1, Ordering::Acquire)",
        )],
        ..SNAPSHOT
    },
    Twin {
        name: "a_beginning_that_is_stored_and_not_announced",
        changes: &[(
            "announce(&self.active, early)",
            "self.active.store(early, Ordering::Release)",
        )],
        ..SEATS
    },
    Twin {
        name: "a_beginning_at_the_time_before_it_was_announced",
        changes: &[("let start = clock.load(Ordering::SeqCst)", "let start = early")],
        ..SEATS
    },
    Twin {
        name: "no_fence_before_the_oldest_is_looked_for",
        changes: &[(
            "        fence(Ordering::SeqCst);
        // Acquire: pairs with `over`.",
            "",
        )],
        ..SEATS
    },
    Twin {
        name: "a_write_back_that_waits_for_nobody",
        changes: &[("if done.stays || is_needed {", "if done.stays {")],
        ..WRITE_BACK
    },
    Twin {
        name: "no_fence_before_links_are_taken_away",
        changes: &[("            fence(Ordering::Release);\n", "")],
        ..WRITE_BACK
    },
    Twin {
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
    Twin {
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
    Twin {
        name: "space_given_back_at_any_time",
        file: "versions/commit.rs",
        changes: &[("            && time <= oldest\n", "")],
        check: "a_copys_space_is_not_used_again_under_a_reader",
        ..SNAPSHOT
    },
    Twin {
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
    Twin {
        name: "an_attempt_over_before_it_commits",
        changes: &[(
            "        self.committing.store(start, Ordering::Release);
        self.over();",
            "        self.over();
        self.committing.store(start, Ordering::Release);",
        )],
        ..FRONTIER
    },
    Twin {
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
    Twin {
        name: "a_group_that_is_stored_and_not_announced",
        changes: &[(
            "announce(&self.pending, early);",
            "self.pending.store(early, Ordering::Release);",
        )],
        ..DURABLE
    },
    Twin {
        name: "an_id_read_before_its_group_is_announced",
        changes: &[(
            "let now = clock.load(Ordering::SeqCst);
        if now != early {",
            "let now = early;
        if now != early {",
        )],
        ..DURABLE
    },
    Twin {
        name: "durable_asked_of_the_clock_last",
        changes: &[(
            "let known = pending.min().unwrap_or(IDLE).min(now);",
            "let known = pending.min().unwrap_or(IDLE);
        let known = known.min(clock.load(Ordering::Acquire).max(now));",
        )],
        ..DURABLE
    },
    Twin {
        name: "no_fence_before_groups_are_looked_for",
        changes: &[(
            "        let now = clock.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        // Acquire: pairs with `group_is_shown`.",
            "        let now = clock.load(Ordering::Acquire);",
        )],
        ..DURABLE
    },
    Twin {
        name: "what_was_said_to_be_durable_forgotten",
        changes: &[("self.told.fetch_max(known, Ordering::AcqRel).max(known)", "known")],
        says: "no longer",
        ..DURABLE
    },
    Twin {
        name: "chunks_given_back_beside_who_writes_there",
        changes: &[(
            "done.end > oldest || done.gives_chunks_back && done.end > beside();",
            "{
                let _ = beside;
                done.end > oldest
            };",
        )],
        check: "who_gives_chunks_back_comes_home_behind_others",
        says: "given back",
        ..WRITE_BACK
    },
    Twin {
        name: "chunks_given_back_beside_a_group",
        changes: &[(
            "active.min(grouped).min(self.unfinished())",
            "{
            let _ = grouped;
            active.min(self.unfinished())
        }",
        )],
        check: "who_gives_chunks_back_comes_home_behind_groups",
        says: "given back",
        ..SEATS
    },
    Twin {
        name: "an_id_guessed_from_the_groups_that_are_there",
        changes: &[(
            "let given = self.used().map(|seat| seat.given.load(Ordering::Acquire)).max();
        given.unwrap_or(0).max(clock.load(Ordering::Acquire))",
            "let before = clock.load(Ordering::Acquire);
        let is_ahead = self.used().any(|seat| seat.pending().is_some());
        clock.load(Ordering::Acquire).max(before + u64::from(is_ahead))",
        )],
        check: "an_id_that_was_given_is_drawn_when_its_group_has_ended",
        says: "nobody's",
        ..DURABLE
    },
    Twin {
        name: "a_group_that_commits_without_saying_so",
        changes: &[(
            "announce(&self.committing, start);",
            "self.committing.store(start, Ordering::Release);",
        )],
        check: "what_is_up_to_the_frontier_of_a_group_is_at_home",
        ..FRONTIER
    },
    Twin {
        name: "a_group_that_its_worker_does_not_see_in_its_end",
        file: "versions/read.rs",
        changes: &[("if worker == number && Some(copy.end) == attempt.owned.end {", "if false {")],
        check: "a_worker_sees_its_group_while_another_ends_it",
        ..SNAPSHOT
    },
    Twin {
        name: "no_fence_before_what_is_unfinished_is_looked_for",
        changes: &[(
            "        fence(Ordering::SeqCst);
        self.used().map(Seat::unfinished)",
            "        self.used().map(Seat::unfinished)",
        )],
        ..FRONTIER
    },
    Twin {
        name: "a_frontier_that_reads_the_clock_last",
        changes: &[(
            "self.used().map(Seat::unfinished).min().unwrap_or(IDLE).min(now)",
            "self.used().map(Seat::unfinished).min().unwrap_or(IDLE)
            .min(clock.load(Ordering::Acquire).max(now))",
        )],
        ..FRONTIER
    },
];
