//! Transactions of one worker that end together: a group.
//!
//! ```text
//!   first member    begin  write           over | not ended
//!   second                                      | begin  write         over |
//!   last                                        |                           | begin  write  end
//! ```
//!
//! All members have one end, so all of their copies are shown at once, and one write-back brings
//! them home. Until then the objects stay locked, others read what was there before, and the worker
//! reads its own copies. A member that is taken back takes back what it has changed of its
//! predecessors' copies, and no more.
//!
//! Between two members the group lies where anybody can end it ([`Owned`], lent by its attempt).
//! The worker may begin and read meanwhile: it goes by the end's place, which it has kept, so it
//! sees its group whether another ends it or not, and home cannot change under it, as it began
//! before that end. Who wants to write takes the group back first, and gives way if it is over.
//!
//! (Pisces, section 4, *group commit*.)

use super::copies::COPY_HEAD_WORDS;
use super::end::{RUNNING, when};
use super::link::EMPTY;
use super::owned::{Entry, MASKS, Owned};
use super::{Attempt, Home, Versions, link_of};
use crate::sync::{AtomicU64, Ordering, fence};

/// What a transaction shares with those before it in its group.
#[derive(Default)]
pub(super) struct Member {
    /// Entries of those before it.
    pub(super) first: usize,
    /// The group lies where others can end it.
    lent: bool,
    /// The ID of the last one before it.
    id: u64,
    /// What it has changed of theirs, as it was.
    saved: Vec<Saved>,
    words: Vec<u64>,
}

/// An entry as it was.
struct Saved {
    entry: usize,
    at: usize,
    words: usize,
    mask: [u64; MASKS],
    /// Its words are from this one on in the member's.
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
    /// Whether its group lies where others can end it.
    #[inline(always)]
    pub(crate) fn is_lent(&self) -> bool {
        self.member.lent
    }

    /// Whether it has its group, and others in it before it.
    #[inline(always)]
    pub(crate) fn joins(&self) -> bool {
        self.member.first > 0
    }

    /// The last ID that it may have seen.
    pub(crate) fn seen(&self) -> u64 {
        self.start.max(self.member.id)
    }

    /// Gives its group away, to be ended by anybody.
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

    /// The member is over and stays in its group, by this ID.
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
    /// Keeps what an entry is that a member is about to change.
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
        // So that the words of each member are counted by themselves.
        (entry.is_saved, entry.mask) = (true, [0; MASKS]);
    }

    /// Takes back what a member has done, and no more. Answers the last transaction that it may
    /// have seen.
    pub(crate) fn roll_back_member(&self, home: &impl Home, attempt: &mut Attempt) -> u64 {
        let (number, first) = (attempt.owned.number, attempt.member.first);
        // As in `roll_back`.
        fence(Ordering::Release);
        for entry in attempt.owned.entries.drain(first..) {
            match entry.fresh {
                true => drop(attempt.fresh.remove(&entry.object)),
                false => home.store(link_of(entry.object), EMPTY),
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
                self.relink(home, entry, number);
            }
        }
        attempt.member.words = words;
        attempt.member.words.clear();
        // A group ends with who gives chunks back, so none before it does.
        attempt.owned.gives_chunks_back = false;
        self.seats.seat(number).over();
        attempt.seen()
    }

    /// Leads an object's link to where its copy is by now.
    pub(super) fn relink(&self, home: &impl Home, entry: &Entry, number: usize) {
        let at = link_of(entry.object);
        // An exchange for its Release: whoever follows the link finds the copy's head.
        let link = home.words()[at].load(Ordering::Relaxed);
        let done = home.exchange(at, link, self.links.to(number, entry.at - COPY_HEAD_WORDS));
        done.expect("nobody else changes the link of an object that is locked");
    }

    /// Whether the group that an attempt has lent was ended by somebody.
    #[inline]
    pub(crate) fn is_over(&self, attempt: &Attempt) -> bool {
        self.end_of(&attempt.owned) != RUNNING
    }

    /// When it ended; waits while its time is drawn.
    fn end_of(&self, owned: &Owned) -> u64 {
        owned.end.map_or(RUNNING, |place| when(&self.memory(owned.number)[place]))
    }

    /// A member commits, the first of its group: from here on its words are on their way. Answers
    /// its ID; see `seats`.
    pub(crate) fn pends(&self, owned: &Owned) -> u64 {
        self.seats.seat(owned.number).pends(owned.start, &self.clock)
    }

    /// The ID of a later member.
    pub(crate) fn goes_on(&self, owned: &Owned) -> u64 {
        self.seats.seat(owned.number).goes_on(&self.clock)
    }

    /// A group commits, by whatever thread.
    pub(crate) fn group_commits(&self, owned: &Owned) {
        self.seats.seat(owned.number).commit_apart(owned.start, &self.clock);
    }

    /// It is durable, and shown.
    pub(crate) fn group_is_shown(&self, owned: &Owned) {
        self.seats.seat(owned.number).group_is_shown();
    }

    /// The worker has noticed that its group is over, and nobody is at it any more: the lock that
    /// who ends it holds was taken since. `entries` is memory for reuse.
    pub(crate) fn group_is_over(&self, attempt: &mut Attempt, entries: Vec<Entry>) {
        let end = self.end_of(&attempt.owned);
        debug_assert!(end != RUNNING);
        attempt.owned.entries = entries;
        let finished = self.look_at_queue(&attempt.owned);
        self.ended(attempt, end, finished);
    }

    /// The ID before the first one of the worker's group, if there is one that is not durable.
    pub(crate) fn pending(&self, number: usize) -> Option<u64> {
        self.seats.seat(number).pending()
    }

    /// The largest ID that anybody was given.
    pub(crate) fn given(&self) -> u64 {
        self.seats.given(&self.clock)
    }

    /// The largest ID such that it and all before it are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.seats.durable(&self.clock)
    }

    /// A word that a group has written, if that has not ended.
    pub(crate) fn written(&self, owned: &Owned, index: usize) -> Option<u64> {
        if self.end_of(owned) != RUNNING {
            return None; // its end was unwound later: the queue has it, or it is home
        }
        let memory = self.memory(owned.number);
        owned.entries.iter().find_map(|entry| {
            let word = index.checked_sub(super::header_of(entry.object))?;
            let is_written = word < entry.words && entry.mask[word / 64] >> (word % 64) & 1 > 0;
            is_written.then(|| memory[entry.at + word].load(Ordering::Relaxed))
        })
    }
}
