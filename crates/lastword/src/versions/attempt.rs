//! One worker's running transaction: begin, take back. (Pisces, section 3.1, algorithm 1, lines 1
//! to 5.)

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use words::Stop;

use super::commit::{LOOKS, LOOKS_MAX, PATIENT};
use super::copies::Space;
use super::link::EMPTY;
use super::member::Member;
use super::owned::Owned;
use super::{Home, Versions, link_of};
use crate::perform::Obstacle;
use crate::sync::{AtomicU64, Ordering, fence};

/// What one worker keeps of its transactions.
pub(crate) struct Attempt {
    /// `attempt` counts attempts of this worker that have written, this one included once it does.
    pub(super) owned: Owned,
    pub(super) start: u64,
    /// The entry that was written last.
    pub(super) last: usize,
    /// New objects, which have no link yet: the entry of each, and the place of its copy.
    pub(super) fresh: FxHashMap<usize, (usize, usize)>,
    /// Different words written.
    pub(super) words: usize,
    /// What it shares with others of its group.
    pub(super) member: Member,
    pub(super) space: Space,
    /// Attempts up to the first number are over and have no link since before this time: their
    /// space is free when no transaction runs that began before it.
    pub(super) unlinked: VecDeque<(u64, u64)>,
    /// The last attempt that is known to have no link.
    pub(super) home_up_to: u64,
    /// The last attempt in `unlinked`.
    pub(super) timed_up_to: u64,
    /// So many of its next commits wait longer for the end of their grace period.
    pub(super) patient: u32,
    /// What it could not have.
    pub(super) blocked: Option<Blocked>,
    /// The worker that has what it could not have.
    pub(super) held_by: Option<usize>,
    /// Why its last attempt ended with a conflict.
    pub(super) obstacle: Obstacle,
    /// It has read a copy of this worker's that is not home.
    pub(super) met: Option<usize>,
}

/// Why an attempt could not go on, where waiting helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// There was no room for copies.
    Space,
    /// This object is written, and its copy is not home.
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
            home_up_to: 0,
            timed_up_to: 0,
            patient: PATIENT,
            blocked: None,
            held_by: None,
            obstacle: Obstacle::Unknown,
            met: None,
        }
    }

    /// The last transaction that it may have seen.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// What it has to itself.
    #[inline(always)]
    pub(crate) fn owned(&self) -> &Owned {
        &self.owned
    }

    /// How many different words it has written.
    #[inline(always)]
    pub(crate) fn words_written(&self) -> usize {
        self.words
    }

    /// Whether it has nothing to itself.
    #[inline(always)]
    pub(crate) fn is_read_only(&self) -> bool {
        self.owned.entries.is_empty()
    }

    /// Whether all that it has to itself is what it has protected; what its group has is not.
    #[inline(always)]
    pub(crate) fn only_protects(&self) -> bool {
        self.words == 0 && self.member.first == 0
    }

    /// Whether it could not go on for something that has to be waited for.
    #[inline(always)]
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// It does not wait any longer: what it runs next may need something else.
    pub(crate) fn gives_up(&mut self) {
        self.blocked = None;
    }

    /// Whether it could not go on for what another worker has.
    #[inline(always)]
    pub(crate) fn has_met_others(&self) -> bool {
        self.blocked.is_some() || self.held_by.is_some()
    }

    /// How often it looks for the end of its grace period: more often when it has lately met
    /// objects that it had written itself, and not waited for.
    pub(crate) fn looks(&self) -> u32 {
        if self.patient > 0 { LOOKS_MAX } else { LOOKS }
    }

    /// Another worker has ended the group that it was to join.
    pub(crate) fn lost_its_group(&mut self) -> Stop {
        self.obstacle = Obstacle::Untracked;
        Stop::Conflict
    }

    /// Why its last attempt ended with a conflict, if it is asked for the first time.
    pub(crate) fn obstacle(&mut self) -> Obstacle {
        std::mem::take(&mut self.obstacle)
    }

    /// The worker whose object it could not have, if it is asked for the first time.
    #[inline(always)]
    pub(crate) fn was_held_by(&mut self) -> Option<usize> {
        self.held_by.take()
    }

    /// Memory will come back in which objects may begin elsewhere.
    pub(crate) fn gives_chunks_back(&mut self) {
        self.owned.gives_chunks_back = true;
    }

    /// Forgets what it has done.
    pub(super) fn clear(&mut self) {
        self.owned.entries.clear();
        self.fresh.clear();
        (self.owned.end, self.owned.gives_chunks_back) = (None, false);
        (self.last, self.words, self.met) = (0, 0, None);
        self.member.clear();
    }
}

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Begins an attempt. Waits for nobody.
    #[inline(always)]
    pub(crate) fn begin(&self, attempt: &mut Attempt) {
        attempt.start = self.seats.seat(attempt.owned.number).begin(&self.clock);
    }

    /// Takes the attempt back. Answers the last transaction that it may have seen.
    pub(crate) fn roll_back(&self, home: &impl Home, attempt: &mut Attempt) -> u64 {
        // Who finds no link finds what others have brought home, as this one did when it locked.
        fence(Ordering::Release);
        for entry in attempt.owned.entries.iter().filter(|entry| !entry.fresh) {
            // Its space is not used again before nobody can have the link.
            home.store(link_of(entry.object), EMPTY);
        }
        attempt.clear();
        self.seats.seat(attempt.owned.number).over();
        attempt.start
    }

    /// Where a worker's copies are.
    #[inline(always)]
    pub(super) fn memory(&self, number: usize) -> &[AtomicU64] {
        self.seats.seat(number).copies.get().map_or(&[], |memory| memory.as_ref())
    }
}
