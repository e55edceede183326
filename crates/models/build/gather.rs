//! Mutants of workers that share records, which loom must detect.

use crate::loom::RING;
use crate::mutant::{Folder::Slots, Mutant};

const GATHER: Mutant = Mutant {
    folders: &[Slots],
    file: "gather.rs",
    model: "gathering",
    check: "every_batch_is_in_one_record",
    says: "deadlock",
    ..RING
};

const FAILURE: Mutant = Mutant { check: "failed_write_fails_all_its_batches", ..GATHER };

/// All of these mutants.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a_batch_that_is_taken_and_waits_on",
        changes: &[(
            "            self.taken.extend(queue.waiting.pop_front());",
            "            let batch = first.batch.clone();
            self.taken.push(Member { worker: first.worker, batch });",
        )],
        says: "every batch is in one record",
        ..GATHER
    },
    Mutant {
        name: "batches_taken_behind_the_write",
        changes: &[(
            "            lead.take(room.min(RECORD_WORDS).saturating_sub(batch.len() + BESIDES));
            write(batch, lead.taken)",
            "            let written = write(batch, lead.taken);
            lead.take(room.min(RECORD_WORDS).saturating_sub(batch.len() + BESIDES));
            written",
        )],
        says: "reported durable, and not written",
        ..GATHER
    },
    Mutant {
        name: "one_that_leads_too_many",
        changes: &[("if queue.leading < self.leaders {", "if queue.leading <= self.leaders {")],
        says: "too many leaders",
        ..GATHER
    },
    Mutant {
        name: "a_look_at_who_leads_before_the_lock_under_which_it_waits",
        changes: &[(
            "            queue.waiting.push_back(",
            "            drop(queue);
            let mut queue = lock(&self.queue);
            queue.waiting.push_back(",
        )],
        ..GATHER
    },
    Mutant {
        name: "who_waits_is_not_let_lead",
        changes: &[(
            "            let next = queue.waiting.pop_front();",
            "            let next: Option<Member> = None;",
        )],
        ..GATHER
    },
    Mutant {
        name: "one_less_leads_though_another_is_let_lead",
        changes: &[(
            "queue.leading -= usize::from(next.is_none());",
            "queue.leading = queue.leading.saturating_sub(1);",
        )],
        says: "too many leaders",
        ..GATHER
    },
    Mutant {
        name: "who_is_told_is_not_woken",
        changes: &[("        place.bell.notify_all();\n", "")],
        ..GATHER
    },
    Mutant {
        name: "a_failure_that_is_told_as_durable",
        changes: &[("lead.durable = done.is_ok();", "lead.durable = true;")],
        says: "reported durable, and it failed",
        ..FAILURE
    },
    Mutant {
        name: "a_failure_that_is_told_before_it_poisons",
        changes: &[("        let done = done.map_err(|error| poison.put(error));\n", "")],
        says: "written after a failure",
        ..FAILURE
    },
    Mutant {
        name: "who_leads_behind_a_failure_and_does_not_look",
        changes: &[(
            "let done = poison.check().and_then(|()| {",
            "let done = Ok::<(), Error>(()).and_then(|()| {",
        )],
        says: "written after a failure",
        ..FAILURE
    },
];
