//! The running transaction of one worker: begin and rollback.
//!
//! Source: Pisces, section 3.1, algorithm 1, lines 1 to 5.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use words::Stop;

use super::commit::{LOOKS, LOOKS_MAX, PATIENT};
use super::copy_memory::Space;
use super::link::EMPTY;
use super::member::Member;
use super::owned::Owned;
use super::{ObjectHeap, Versions, link_of};
use crate::perform::Obstacle;
use crate::sync::{AtomicU64, Ordering, fence};

/// State of one worker's transactions, reused from attempt to attempt.
pub(crate) struct Attempt {
    /// `owned.attempt` counts this worker's writing attempts, including this one once it writes.
    pub(super) owned: Owned,
    pub(super) start: u64,
    /// The entry that was written last.
    pub(super) last: usize,
    /// New objects, which have no link yet: the entry of each, and the place of its copy.
    pub(super) fresh: FxHashMap<usize, (usize, usize)>,
    /// Distinct words written.
    pub(super) words: usize,
    /// State of this attempt as a member of a group.
    pub(super) member: Member,
    pub(super) space: Space,
    /// Pairs of an attempt number and a timestamp. Attempts up to the number have had no link since
    /// the timestamp. Their space is free when every transaction that began before it has ended.
    pub(super) unlinked: VecDeque<(u64, u64)>,
    /// The last attempt whose links, and all earlier ones, are known to be removed.
    pub(super) applied_up_to: u64,
    /// The last attempt in `unlinked`.
    pub(super) timed_up_to: u64,
    /// Number of next commits that wait longer for the end of their grace period.
    pub(super) patient: u32,
    /// The obstacle to wait for before the next attempt.
    pub(super) blocked: Option<Blocked>,
    /// The worker whose lock stopped the last attempt.
    pub(super) held_by: Option<usize>,
    /// The reason for the last attempt's conflict.
    pub(super) obstacle: Obstacle,
    /// A worker whose copy it has read, because the heap lacks that version.
    pub(super) met: Option<usize>,
}

/// An obstacle that waiting removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Memory for copies was full.
    Space,
    /// The object is locked by a transaction whose copy is not in the heap yet.
    Link { object: usize, link: u64 },
}

impl Attempt {
    pub(super) fn new(number: usize, space: Space) -> Attempt {
        Attempt {
            owned: Owned::nothing(number, 0, Vec::new()),
            start: 0,
            last: 0,
            fresh: FxHashMap::default(),
            words: 0,
            member: Member::default(),
            space,
            unlinked: VecDeque::new(),
            applied_up_to: 0,
            timed_up_to: 0,
            patient: PATIENT,
            blocked: None,
            held_by: None,
            obstacle: Obstacle::Unknown,
            met: None,
        }
    }

    /// Returns the last transaction that it may have seen.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the objects that it has locked.
    #[inline(always)]
    pub(crate) fn owned(&self) -> &Owned {
        &self.owned
    }

    /// Returns the number of distinct words written.
    #[inline(always)]
    pub(crate) fn words_written(&self) -> usize {
        self.words
    }

    /// Whether it has locked no object.
    #[inline(always)]
    pub(crate) fn is_read_only(&self) -> bool {
        self.owned.entries.is_empty()
    }

    /// Whether it has written nothing and only protects objects; false with members before it in
    /// its group.
    #[inline(always)]
    pub(crate) fn only_protects(&self) -> bool {
        self.words == 0 && self.member.first == 0
    }

    /// Whether it must wait for an obstacle.
    #[inline(always)]
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Stops waiting for the obstacle: the next transaction may not need it.
    pub(crate) fn gives_up(&mut self) {
        self.blocked = None;
    }

    /// Whether another worker stopped the last attempt.
    #[inline(always)]
    pub(crate) fn has_met_others(&self) -> bool {
        self.blocked.is_some() || self.held_by.is_some()
    }

    /// Returns how often a commit polls for the end of its grace period. A worker that has lately
    /// met its own unapplied copies polls more often.
    pub(crate) fn looks(&self) -> u32 {
        if self.patient > 0 { LOOKS_MAX } else { LOOKS }
    }

    /// Returns a conflict: another thread has ended the group that this attempt was to join.
    pub(crate) fn lost_its_group(&mut self) -> Stop {
        self.obstacle = Obstacle::Untracked;
        Stop::Conflict
    }

    /// Returns and clears the reason for the last attempt's conflict.
    pub(crate) fn obstacle(&mut self) -> Obstacle {
        std::mem::take(&mut self.obstacle)
    }

    /// Returns and clears the worker whose lock stopped the last attempt.
    #[inline(always)]
    pub(crate) fn was_held_by(&mut self) -> Option<usize> {
        self.held_by.take()
    }

    /// Notes that the attempt frees a run, so that later objects in it may begin at other offsets.
    pub(crate) fn gives_runs_back(&mut self) {
        self.owned.gives_runs_back = true;
    }

    /// Resets the attempt.
    pub(super) fn clear(&mut self) {
        self.owned.entries.clear();
        self.fresh.clear();
        (self.owned.end, self.owned.gives_runs_back) = (None, false);
        (self.last, self.words, self.met) = (0, 0, None);
        self.member.clear();
    }
}

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Begins an attempt. Does not wait.
    #[inline(always)]
    pub(crate) fn begin(&self, attempt: &mut Attempt) {
        attempt.start = self.table.entry(attempt.owned.number).begin(&self.clock);
    }

    /// Rolls the attempt back. Returns the last transaction that it may have seen.
    pub(crate) fn roll_back(&self, heap_image: &impl ObjectHeap, attempt: &mut Attempt) -> u64 {
        // Release: this attempt acquired the words that others applied when it locked the object. A
        // reader that finds no link must see them, too.
        fence(Ordering::Release);
        for entry in attempt.owned.entries.iter().filter(|entry| !entry.fresh) {
            // Safe: the copy's space is not reused while a reader may hold this link.
            heap_image.store(link_of(entry.object), EMPTY);
        }
        attempt.clear();
        self.table.entry(attempt.owned.number).end_reads();
        attempt.start
    }

    /// Returns the memory for a worker's copies.
    #[inline(always)]
    pub(super) fn memory(&self, number: usize) -> &[AtomicU64] {
        self.table.entry(number).copies.get().map_or(&[], |memory| memory.as_ref())
    }
}
