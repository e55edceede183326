//! The twins that loom must find among workers that share records.

use crate::loom::RING;
use crate::twin::{Folder::Slots, Twin};

const GATHER: Twin = Twin {
    folders: &[Slots],
    file: "gather.rs",
    model: "gathering",
    check: "every_batch_is_in_one_record",
    says: "deadlock",
    ..RING
};

const FAILURE: Twin = Twin { check: "a_failure_is_told_to_all_whom_it_concerns", ..GATHER };

/// All of them.
pub(crate) const TWINS: &[Twin] = &[
    Twin {
        name: "a_batch_that_is_taken_and_waits_on",
        changes: &[(
            "            self.taken.extend(queue.waiting.pop_front());",
            "            let batch = first.batch.clone();
            self.taken.push(Member { worker: first.worker, batch });",
        )],
        says: "every batch is in one record",
        ..GATHER
    },
    Twin {
        name: "batches_taken_behind_the_write",
        changes: &[(
            "            lead.take(room.min(RECORD_WORDS).saturating_sub(batch.len() + BESIDES));
            write(batch, lead.taken)",
            "            let written = write(batch, lead.taken);
            lead.take(room.min(RECORD_WORDS).saturating_sub(batch.len() + BESIDES));
            written",
        )],
        says: "told, and not written",
        ..GATHER
    },
    Twin {
        name: "one_that_leads_too_many",
        changes: &[("if queue.leading < self.leaders {", "if queue.leading <= self.leaders {")],
        says: "more lead than may",
        ..GATHER
    },
    Twin {
        name: "a_look_at_who_leads_before_the_lock_under_which_it_waits",
        changes: &[(
            "            queue.waiting.push_back(",
            "            drop(queue);
            let mut queue = lock(&self.queue);
            queue.waiting.push_back(",
        )],
        ..GATHER
    },
    Twin {
        name: "who_waits_is_not_let_lead",
        changes: &[(
            "            let next = queue.waiting.pop_front();",
            "            let next: Option<Member> = None;",
        )],
        ..GATHER
    },
    Twin {
        name: "one_less_leads_though_another_is_let_lead",
        changes: &[(
            "queue.leading -= usize::from(next.is_none());",
            "queue.leading = queue.leading.saturating_sub(1);",
        )],
        says: "more lead than may",
        ..GATHER
    },
    Twin {
        name: "who_is_told_is_not_woken",
        changes: &[("        place.bell.notify_all();\n", "")],
        ..GATHER
    },
    Twin {
        name: "a_failure_that_is_told_as_durable",
        changes: &[("lead.durable = done.is_ok();", "lead.durable = true;")],
        says: "told durable, and it failed",
        ..FAILURE
    },
    Twin {
        name: "a_failure_that_is_told_before_it_poisons",
        changes: &[("        let done = done.map_err(|error| poison.put(error));\n", "")],
        says: "written behind a failure",
        ..FAILURE
    },
    Twin {
        name: "who_leads_behind_a_failure_and_does_not_look",
        changes: &[(
            "let done = poison.check().and_then(|()| {",
            "let done = Ok::<(), Error>(()).and_then(|()| {",
        )],
        says: "written behind a failure",
        ..FAILURE
    },
];
