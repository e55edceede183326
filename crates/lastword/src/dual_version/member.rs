//! Group commit: transactions of one worker that end together.
//!
//! ```text
//!   first member    begin  write           over | not ended
//!   second                                      | begin  write         over |
//!   last                                        |                           | begin  write  end
//! ```
//!
//! All members share one end, so one store shows all of their copies, and one write-back applies
//! them. Until then the objects stay locked. Other workers read the old versions, and the worker
//! reads its own copies. A member that rolls back undoes its own changes to its predecessors'
//! copies, and no more.
//!
//! Between two members the group lies where any thread can end it ([`Owned`], lent by its attempt).
//! The worker may begin and read meanwhile. It recognizes its group's copies by the place of their
//! end, which it has kept, so it sees them whether another thread ends the group or not. The heap
//! cannot change under it, because it began before that end. To write, it first takes the group
//! back, and it conflicts if the group has ended.
//!
//! Source: Pisces, section 4, *group commit*.

use super::copy_memory::COPY_HEAD_WORDS;
use super::end::{RUNNING, when};
use super::link::EMPTY;
use super::owned::{Entry, MASKS, Owned};
use super::{Attempt, ObjectHeap, Versions, link_of};
use crate::sync::{AtomicU64, Ordering, fence};

/// State that a transaction shares with earlier members of its group.
#[derive(Default)]
pub(super) struct Member {
    /// Number of entries of earlier members.
    pub(super) first: usize,
    /// Whether the group lies where other threads can end it.
    lent: bool,
    /// The ID of the previous member.
    id: u64,
    /// Old values of its changes to earlier members' copies.
    saved: Vec<Saved>,
    words: Vec<u64>,
}

/// An entry as it was before the member changed it.
struct Saved {
    entry: usize,
    at: usize,
    words: usize,
    mask: [u64; MASKS],
    /// Index of its words in `Member::words`.
    from: usize,
}

impl Member {
    pub(super) fn clear(&mut self) {
        (self.first, self.lent, self.id) = (0, false, 0);
        self.saved.clear();
        self.words.clear();
    }
}

impl Attempt {
    /// Whether its group lies where other threads can end it.
    #[inline(always)]
    pub(crate) fn is_lent(&self) -> bool {
        self.member.lent
    }

    /// Whether it has its group, with earlier members in it.
    #[inline(always)]
    pub(crate) fn joins(&self) -> bool {
        self.member.first > 0
    }

    /// Returns the last ID that it may have seen.
    pub(crate) fn seen(&self) -> u64 {
        self.start.max(self.member.id)
    }

    /// Gives its group away, so that any thread can end it.
    pub(crate) fn lend(&mut self) -> Owned {
        let Owned { number, attempt, end, .. } = self.owned;
        let id = self.member.id;
        self.member.clear();
        (self.member.lent, self.member.id) = (true, id);
        (self.last, self.words) = (0, 0);
        let nothing = Owned { end, ..Owned::nothing(number, attempt, Vec::new()) };
        std::mem::replace(&mut self.owned, nothing)
    }

    /// Takes its group back, which has not ended, to write in it.
    pub(crate) fn join(&mut self, owned: Owned) {
        self.member.lent = false;
        self.member.first = owned.entries.len();
        self.owned = owned;
    }

    /// Ends the member, which stays in its group with this ID.
    pub(crate) fn stays(&mut self, id: u64) {
        self.member.id = id;
        for saved in self.member.saved.drain(..) {
            let entry = &mut self.owned.entries[saved.entry];
            entry.is_saved = false;
            entry.mask.iter_mut().zip(saved.mask).for_each(|(mask, before)| *mask |= before);
        }
        self.member.words.clear();
    }
}

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Saves an entry that the member is about to change.
    #[inline]
    pub(super) fn save(&self, attempt: &mut Attempt, number: usize) {
        if number < attempt.member.first && !attempt.owned.entries[number].is_saved {
            self.save_now(attempt, number);
        }
    }

    #[inline(never)]
    fn save_now(&self, attempt: &mut Attempt, number: usize) {
        let memory = self.memory(attempt.owned.number);
        let (member, entry) = (&mut attempt.member, &mut attempt.owned.entries[number]);
        let Entry { at, words, mask, .. } = *entry;
        member.saved.push(Saved { entry: number, at, words, mask, from: member.words.len() });
        let copy = memory[at..at + words].iter();
        member.words.extend(copy.map(|word| word.load(Ordering::Relaxed)));
        // Cleared, so that each member counts its own words.
        (entry.is_saved, entry.mask) = (true, [0; MASKS]);
    }

    /// Rolls back one member. Returns the last transaction that it may have seen.
    pub(crate) fn roll_back_member(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
    ) -> u64 {
        let (number, first) = (attempt.owned.number, attempt.member.first);
        // As in `roll_back`.
        fence(Ordering::Release);
        for entry in attempt.owned.entries.drain(first..) {
            match entry.fresh {
                true => drop(attempt.fresh.remove(&entry.object)),
                false => heap_image.store(link_of(entry.object), EMPTY),
            }
        }
        let memory = self.memory(number);
        let words = std::mem::take(&mut attempt.member.words);
        for saved in attempt.member.saved.drain(..) {
            let entry = &mut attempt.owned.entries[saved.entry];
            for (word, value) in memory[saved.at..].iter().zip(&words[saved.from..][..saved.words])
            {
                word.store(*value, Ordering::Relaxed);
            }
            let moved = entry.at != saved.at;
            (entry.at, entry.words, entry.mask) = (saved.at, saved.words, saved.mask);
            entry.is_saved = false;
            if moved && entry.fresh {
                attempt.fresh.insert(entry.object, (saved.entry, saved.at));
            } else if moved {
                self.relink(heap_image, entry, number);
            }
        }
        attempt.member.words = words;
        attempt.member.words.clear();
        // A member that frees a run is the last of its group, so no earlier one does.
        attempt.owned.gives_runs_back = false;
        self.table.entry(number).end_reads();
        attempt.seen()
    }

    /// Updates an object's link to its copy's new place.
    pub(super) fn relink(&self, heap_image: &impl ObjectHeap, entry: &Entry, number: usize) {
        let at = link_of(entry.object);
        // An exchange for its Release: a reader that follows the link sees the copy's head.
        let link = heap_image.words()[at].load(Ordering::Relaxed);
        let done = heap_image.exchange(at, link, self.links.to(number, entry.at - COPY_HEAD_WORDS));
        done.expect("only its owner changes the link of a locked object");
    }

    /// Whether another thread has ended the group that the attempt has lent.
    #[inline]
    pub(crate) fn is_over(&self, attempt: &Attempt) -> bool {
        self.end_of(&attempt.owned) != RUNNING
    }

    /// Returns when it ended; waits while its timestamp is assigned.
    fn end_of(&self, owned: &Owned) -> u64 {
        owned.end.map_or(RUNNING, |place| when(&self.memory(owned.number)[place]))
    }

    /// Commits the first member of a group: from here on its words await durability. Returns its
    /// ID; see `transaction_table`.
    pub(crate) fn begin_group(&self, owned: &Owned) -> u64 {
        self.table.entry(owned.number).begin_group(owned.start, &self.clock)
    }

    /// Returns the ID of a later member.
    pub(crate) fn continue_group(&self, owned: &Owned) -> u64 {
        self.table.entry(owned.number).continue_group(&self.clock)
    }

    /// Starts the commit of a group, on any thread.
    pub(crate) fn group_commits(&self, owned: &Owned) {
        self.table.entry(owned.number).commit_apart(owned.start, &self.clock);
    }

    /// Ends the commit of a group, which is durable and shown.
    pub(crate) fn group_is_shown(&self, owned: &Owned) {
        self.table.entry(owned.number).group_is_shown();
    }

    /// Notes that the worker's group has ended. The thread that ended it has finished: the caller
    /// has taken the lock that it held. `entries` is memory for reuse.
    pub(crate) fn group_is_over(&self, attempt: &mut Attempt, entries: Vec<Entry>) {
        let end = self.end_of(&attempt.owned);
        debug_assert!(end != RUNNING);
        attempt.owned.entries = entries;
        let finished = self.look_at_queue(&attempt.owned);
        self.ended(attempt, end, finished);
    }

    /// Returns the ID before the first one of the worker's group, if it has a group that is not
    /// durable.
    pub(crate) fn pending(&self, number: usize) -> Option<u64> {
        self.table.entry(number).pending()
    }

    /// Returns the largest ID ever assigned.
    pub(crate) fn last_assigned(&self) -> u64 {
        self.table.last_assigned(&self.clock)
    }

    /// Returns the durable watermark: the largest ID such that it and all before it are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.table.durable(&self.clock)
    }

    /// Copies those words that a group has written and that are in `out`, which begins with the
    /// word `first`, if the group has not ended.
    pub(crate) fn written(&self, owned: &Owned, first: usize, out: &mut [u64]) {
        if self.end_of(owned) != RUNNING {
            return; // unwound after its end: the queue or the heap has it
        }
        let memory = self.memory(owned.number);
        for entry in &owned.entries {
            let is_written = |word: &usize| entry.mask[word / 64] >> (word % 64) & 1 > 0;
            for word in (0..entry.words).filter(is_written) {
                let index = super::header_of(entry.object) + word;
                if let Some(out) = index.checked_sub(first).and_then(|at| out.get_mut(at)) {
                    *out = memory[entry.at + word].load(Ordering::Relaxed);
                }
            }
        }
    }
}
