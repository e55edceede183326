//! `stm`: a time-based software transactional memory, in place, locks at the first write.
//!
//! ```text
//!   word index  ... | stripe (64 words) | word in stripe |
//!                           |
//!                           v modulo table size
//!   ownership record   | 0 |               version                |    ID of the last writer
//!                      | 1 | worker (15) | attempt (16) | entry (32) |    taken: its write set
//!                       63
//! ```
//!
//! A transaction reads the clock when it begins (its *snapshot*) and reads only words whose version
//! is not above it. When it meets a newer version, it reads the clock again and checks that its
//! reads have not changed (*snapshot extension*). So a body never sees a torn state. It takes a
//! stripe's ownership record and then writes in place. At commit it assigns an ID from the clock
//! with one locked instruction. It checks its reads if others have committed since, and releases
//! its records with the ID as their version.
//!
//! Invariants:
//! - All words read so far belong to the state of one moment, that of `snapshot`.
//! - The version in an entry of the write set is not above `snapshot`.
//! - A record is released with an ID that was assigned after it was taken, also by a roll-back, so
//!   no reader has seen its version before. Otherwise a reader could see version, dirty value and
//!   the same version, and accept the dirty value.
//! - Every assigned ID is recorded once, by a no-op record if the transaction rolls back.
//!
//! Orderings. Writer: take the record (compare-exchange), `fence(Release)`, store values, store the
//! new version with Release. Reader: load the record with Acquire, load the value,
//! `fence(Acquire)`, load the record again. Suppose that the reader saw a value of the writer. The
//! two fences then make its second load see the taken record or something later, never the old
//! version again. Without the writer's fence the value could become visible before the record is
//! taken. Without the reader's fence the second load could precede that of the value.
//!
//! (DudeTM, section 4.1, on TinySTM's write-through variant; the clock's values are DudeTM's IDs.)

use super::records::Records;
use super::write_set::{Entry, STRIPE_SHIFT, STRIPE_WORDS, WriteSet, in_stripe, record_words_max};
use super::{Obstacle, Redo, Space, StarvationLock, Tm, Written};
use crate::Error;
use crate::sync::{AtomicU64, Ordering, fence_unless};
use crossbeam_utils::CachePadded;
use medium::cpu;
use medium::mutants::{Mutant, injected, relax, weaken};
use words::{Stop, TxId};

const TAKEN: u64 = 1 << 63;
/// Bits of the attempt number in a tag, below the worker number.
const ATTEMPT_BITS: u32 = 16;
const ATTEMPTS: u64 = (1 << ATTEMPT_BITS) - 1;
/// Workers of one memory: the numbers of worker and attempt fill the 31 bits of a tag.
const WORKERS_MAX: usize = 1 << 15;
/// Initial capacity for reads.
const READS: usize = 1024;
const NO_ENTRY: u32 = u32::MAX;

/// The transactional memory.
#[derive(Debug)]
pub struct Stm {
    /// The last assigned ID. Alone on its cache line: every commit of every worker advances it.
    clock: CachePadded<AtomicU64>,
    records: Records,
    /// Alone on its cache line, too: every begin reads it, and writes are rare.
    starvation_lock: CachePadded<StarvationLock>,
}

/// The running transaction of one worker.
#[derive(Debug)]
pub struct Attempt {
    /// Worker and attempt, as a taken record contains them. The attempt number distinguishes a
    /// record that a transaction keeps from a record that its worker has taken again.
    tag: u64,
    snapshot: u64,
    /// Ownership records that were read. If a record's version is not above `snapshot` at the
    /// check, it has not changed since the read. So the versions need not be kept.
    reads: Vec<u32>,
    /// Number of valid entries; the rest of `reads` is capacity.
    read_count: usize,
    /// The last record read, so that a scan of one stripe adds it once.
    last_read: u32,
    /// 1 if reads are tracked, 0 for a read-only attempt. Such an attempt needs no read set: every
    /// read belongs to the snapshot, and it has no commit at which its reads must still hold. A
    /// number, so that adding a read has no branch.
    tracks: usize,
    written: WriteSet,
    /// The last stripe written, and its entry.
    last_stripe: usize,
    last_entry: usize,
    /// Why the last attempt ended with a conflict.
    obstacle: Obstacle,
}

impl Attempt {
    fn clear(&mut self) {
        self.tag = (self.tag & !ATTEMPTS) | (self.tag.wrapping_add(1) & ATTEMPTS);
        self.read_count = 0;
        self.written.clear();
        self.last_read = NO_ENTRY;
        self.last_stripe = usize::MAX;
    }
}

impl Tm for Stm {
    const NAME: &'static str = "stm";
    type Attempt = Attempt;

    fn sized(heap_words: usize, records: u64) -> Result<Stm, Error> {
        let (clock, starvation_lock) = (AtomicU64::new(0), StarvationLock::default());
        let records = Records::new(heap_words, records)?;
        Ok(Stm {
            clock: CachePadded::new(clock),
            records,
            starvation_lock: CachePadded::new(starvation_lock),
        })
    }

    fn attempt(&self, worker: usize) -> Attempt {
        assert!(worker < WORKERS_MAX, "a worker's number fits in a taken record");
        Attempt {
            tag: (worker as u64) << ATTEMPT_BITS,
            snapshot: 0,
            reads: vec![0; READS],
            read_count: 0,
            last_read: NO_ENTRY,
            tracks: 1,
            written: WriteSet::default(),
            last_stripe: usize::MAX,
            last_entry: 0,
            obstacle: Obstacle::Unknown,
        }
    }

    fn clock(&self) -> &AtomicU64 {
        &self.clock
    }

    fn starvation_lock(&self) -> &StarvationLock {
        &self.starvation_lock
    }

    fn obstacle(&self, attempt: &mut Attempt) -> Obstacle {
        std::mem::take(&mut attempt.obstacle)
    }

    fn holder(&self, key: u64, seen: u64) -> Option<usize> {
        // Relaxed: only decides whether to wait longer. The next attempt looks again with Acquire.
        let is_held = self.records.get(key as usize).load(Ordering::Relaxed) == seen;
        is_held.then_some(((seen & !TAKEN) >> 32 >> ATTEMPT_BITS) as usize)
    }

    #[inline]
    fn begin(&self, attempt: &mut Attempt) {
        debug_assert!(attempt.written.entries.is_empty() && attempt.read_count == 0);
        // Acquire: a version up to this clock was released by a commit whose values must be
        // visible, or its record is still taken. Pairs with the AcqRel addition in `assign`.
        attempt.snapshot = self.clock.load(Ordering::Acquire);
        attempt.tracks = 1;
    }

    #[inline]
    fn begin_read(&self, attempt: &mut Attempt) {
        self.begin(attempt);
        attempt.tracks = 0;
    }

    #[inline(always)]
    fn read(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        index: usize,
    ) -> Result<u64, Stop> {
        let number = self.records.number(index >> STRIPE_SHIFT);
        let record = self.records.get(number);
        let before = record.load(Ordering::Acquire);
        let value = space.load(index)?;
        // See the module doc: pairs with the Release fence in `own`.
        fence_unless(Mutant::NoFenceInRead, Ordering::Acquire);
        if before <= attempt.snapshot && record.load(Ordering::Relaxed) == before {
            attempt.remember(number);
            return Ok(value);
        }
        self.read_slow(attempt, &mut space, index)
    }

    #[inline]
    fn read_run(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        index: usize,
        out: &mut [u64],
    ) -> Result<(), Stop> {
        let mut at = index;
        let mut rest = out;
        while !rest.is_empty() {
            let here = in_stripe(at, rest.len());
            let (now, later) = rest.split_at_mut(here);
            let number = self.records.number(at >> STRIPE_SHIFT);
            let record = self.records.get(number);
            let before = record.load(Ordering::Acquire);
            space.load_run(at, now)?;
            // As in `read`, once for the whole stripe.
            fence_unless(Mutant::NoFenceInReadOfRun, Ordering::Acquire);
            if before <= attempt.snapshot && record.load(Ordering::Relaxed) == before {
                attempt.remember(number);
            } else if !attempt.owns(before) {
                for (i, value) in now.iter_mut().enumerate() {
                    *value = self.read_slow(attempt, &mut space, at + i)?;
                }
            }
            at += here;
            rest = later;
        }
        Ok(())
    }

    #[inline(always)]
    fn write(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        index: usize,
        value: u64,
    ) -> Result<(), Stop> {
        let stripe = index >> STRIPE_SHIFT;
        if stripe != attempt.last_stripe {
            attempt.last_entry = self.own(attempt, &mut space, stripe)?;
            attempt.last_stripe = stripe;
        }
        attempt.written.write(attempt.last_entry, &mut space, index, value)
    }

    #[inline(always)]
    fn write_run(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        index: usize,
        values: &[u64],
    ) -> Result<(), Stop> {
        let (mut at, mut rest) = (index, values);
        // Common case: all words in one stripe. No loop, so the compiler can use a known length.
        if in_stripe(at, rest.len()) == rest.len() {
            let stripe = at >> STRIPE_SHIFT;
            if stripe != attempt.last_stripe {
                attempt.last_entry = self.own(attempt, &mut space, stripe)?;
                attempt.last_stripe = stripe;
            }
            return attempt.written.write_run(attempt.last_entry, &mut space, at, rest);
        }
        while !rest.is_empty() {
            let (now, later) = rest.split_at(in_stripe(at, rest.len()));
            let stripe = at >> STRIPE_SHIFT;
            if stripe != attempt.last_stripe {
                attempt.last_entry = self.own(attempt, &mut space, stripe)?;
                attempt.last_stripe = stripe;
            }
            attempt.written.write_run(attempt.last_entry, &mut space, at, now)?;
            (at, rest) = (at + now.len(), later);
        }
        Ok(())
    }

    #[inline]
    fn will_read(&self, space: impl Space, index: usize, words: usize) {
        each(index, words, cpu::LINE_WORDS, |at| space.prefetch_read(at));
        each(index, words, STRIPE_WORDS, |at| {
            cpu::prefetch_read(self.records.all(), self.records.number(at >> STRIPE_SHIFT));
        });
    }

    #[inline]
    fn will_write(&self, space: impl Space, index: usize, words: usize) {
        each(index, words, cpu::LINE_WORDS, |at| space.prefetch_write(at));
        each(index, words, STRIPE_WORDS, |at| {
            cpu::prefetch_write(self.records.all(), self.records.number(at >> STRIPE_SHIFT));
        });
    }

    #[inline]
    fn words_written(&self, attempt: &Attempt) -> usize {
        attempt.written.words()
    }

    #[inline]
    fn commit(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        redo: &mut impl Redo,
    ) -> Result<TxId, Stop> {
        if attempt.written.entries.is_empty() {
            // All reads belong to the state of this ID, so a wait for it covers them.
            let early = u64::from(injected(Mutant::ReadAcknowledgedTooEarly));
            let seen = TxId(attempt.snapshot.saturating_sub(early));
            attempt.clear();
            return Ok(seen);
        }
        // Before an ID is assigned: the merge waits for the record of every ID, so no wait for room
        // may lie between the two.
        if !redo.has_room(record_words_max(attempt.written.words())) {
            attempt.obstacle = Obstacle::Room;
            return Err(Stop::Conflict);
        }
        if injected(Mutant::IdAssignedAfterRelease) {
            self.release(attempt, &mut space, TxId(attempt.snapshot));
        }
        let id = self.assign(redo);
        // The reads are checked after the ID: a transaction that takes a record later has a later
        // ID. When no other ID was assigned since the snapshot, no read can have changed.
        let is_next = match injected(Mutant::CommitTrustsClockTooLong) {
            true => id.0 <= attempt.snapshot + 2,
            false => id.0 == attempt.snapshot + 1,
        } || injected(Mutant::CommitNotValidated);
        if !is_next && !self.reads_hold(attempt) {
            self.name_what_changed(attempt);
            self.abort(attempt, &mut space, redo, id);
            return Err(Stop::Conflict);
        }
        // Record before the release: until then the values belong to this transaction.
        redo.record(id, Written::new(&attempt.written, &space));
        self.release(attempt, &mut space, id);
        attempt.clear();
        Ok(id)
    }

    fn roll_back(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        redo: &mut impl Redo,
    ) -> TxId {
        let seen = TxId(attempt.snapshot);
        if !attempt.written.entries.is_empty() {
            let id = self.assign(redo);
            self.abort(attempt, &mut space, redo, id);
        }
        attempt.clear();
        seen
    }
}

impl Attempt {
    /// Adds a record to the read set.
    #[inline(always)]
    fn remember(&mut self, number: usize) {
        let number = number as u32; // `RECORDS_MAX` fits
        let Some(place) = self.reads.get_mut(self.read_count) else {
            return self.grow_reads(number);
        };
        *place = number;
        // No branch: in a tree, whether two reads share a record is unpredictable, and a
        // misprediction discards the work begun after it.
        self.read_count += if number == self.last_read { 0 } else { self.tracks };
        self.last_read = number;
    }

    /// [`remember`](Attempt::remember) without spare capacity.
    #[cold]
    #[inline(never)]
    fn grow_reads(&mut self, number: u32) {
        self.reads.resize(2 * self.reads.len(), 0);
        self.remember(number as usize);
    }

    fn owns(&self, record: u64) -> bool {
        record & TAKEN != 0 && (record & !TAKEN) >> 32 == self.tag
    }

    /// Ends the attempt at a record that a running transaction holds.
    #[cold]
    fn blocked(&mut self, number: usize, record: u64) -> Stop {
        self.obstacle = Obstacle::Held { key: number as u64, seen: record };
        Stop::Conflict
    }
}

impl Stm {
    /// Reads a word whose record is taken or newer.
    #[inline(never)]
    fn read_slow(
        &self,
        attempt: &mut Attempt,
        space: &mut impl Space,
        index: usize,
    ) -> Result<u64, Stop> {
        let number = self.records.number(index >> STRIPE_SHIFT);
        let record = self.records.get(number);
        loop {
            let before = record.load(Ordering::Acquire);
            if attempt.owns(before) {
                return space.load(index);
            }
            if before & TAKEN != 0 {
                return Err(attempt.blocked(number, before));
            }
            if before > attempt.snapshot {
                self.extend(attempt)?;
                continue;
            }
            let value = space.load(index)?;
            fence_unless(Mutant::NoFenceInSlowRead, Ordering::Acquire);
            if record.load(Ordering::Relaxed) == before {
                attempt.remember(number);
                return Ok(value);
            }
        }
    }

    /// Extends the snapshot to this moment, unless a read has changed.
    #[cold]
    fn extend(&self, attempt: &mut Attempt) -> Result<(), Stop> {
        // Read the clock first: a transaction that takes a record after this check is assigned a
        // later ID. All checked reads then belong to the state of this moment. Acquire as in
        // `begin`.
        let now = self.clock.load(relax(Ordering::Acquire, Mutant::ExtensionReadsClockRelaxed));
        let forgot = attempt.tracks == 0 && attempt.last_read != NO_ENTRY;
        let holds = !forgot && self.reads_hold(attempt) || injected(Mutant::ExtensionNotValidated);
        if !holds {
            self.name_what_changed(attempt);
            return Err(Stop::Conflict);
        }
        attempt.snapshot = match injected(Mutant::ExtensionReadsClockLast) {
            true => now.max(self.clock.load(Ordering::Acquire)),
            false => now,
        };
        Ok(())
    }

    /// Whether no record that was read has changed since the snapshot.
    fn reads_hold(&self, attempt: &Attempt) -> bool {
        attempt.reads[..attempt.read_count].iter().all(|&number| {
            let record = self.records.get(number as usize).load(Ordering::Acquire);
            // The version of a record of ours was not above the snapshot when we took it: see
            // `own`.
            record <= attempt.snapshot || attempt.owns(record)
        })
    }

    /// Sets the obstacle to the first changed record. A taken record counts, since it will change.
    #[cold]
    fn name_what_changed(&self, attempt: &mut Attempt) {
        let changed = attempt.reads[..attempt.read_count].iter().find_map(|&number| {
            let record = self.records.get(number as usize).load(Ordering::Relaxed);
            let holds = record <= attempt.snapshot || attempt.owns(record);
            (!holds).then_some((u64::from(number), record))
        });
        attempt.obstacle = match changed {
            Some((key, seen)) if seen & TAKEN != 0 => Obstacle::Held { key, seen },
            Some((key, _)) => Obstacle::Changed { key },
            // Untracked reads: the next attempt tracks them.
            None => Obstacle::Untracked,
        };
    }

    /// Returns the write set's entry for a stripe; takes its ownership record first if needed.
    #[inline]
    fn own(
        &self,
        attempt: &mut Attempt,
        space: &mut impl Space,
        stripe: usize,
    ) -> Result<usize, Stop> {
        // Open before taking the record, since a page may cause a wait.
        space.open(stripe << STRIPE_SHIFT)?;
        let number = self.records.number(stripe);
        let record = self.records.get(number);
        loop {
            let before = record.load(Ordering::Acquire);
            if before & TAKEN != 0 {
                if !attempt.owns(before) {
                    return Err(attempt.blocked(number, before));
                }
                return Ok(attempt.entry_under(before as u32, number, stripe));
            }
            if before > attempt.snapshot {
                // Also for a stripe that was not read: its version must not be above the snapshot.
                self.extend(attempt)?;
                continue;
            }
            let worker = (attempt.tag >> ATTEMPT_BITS) as usize;
            let reserved = self.starvation_lock.is_reserved(number as u64, worker);
            if reserved && !injected(Mutant::ReservationIgnored) {
                attempt.obstacle = Obstacle::Reserved { key: number as u64 };
                return Err(Stop::Conflict);
            }
            let entry = attempt.written.entries.len();
            let taken = TAKEN | attempt.tag << 32 | entry as u64;
            // Acquire: the values of its last writer. It also keeps our stores after it.
            if record.compare_exchange(before, taken, Ordering::Acquire, Ordering::Relaxed).is_err()
            {
                continue;
            }
            // See the module doc: no value may become visible before the record is taken.
            fence_unless(Mutant::NoFenceAfterOwning, Ordering::Release);
            attempt.push_entry(stripe, number, before, NO_ENTRY);
            return Ok(entry);
        }
    }

    /// Assigns the next ID.
    #[inline]
    fn assign(&self, redo: &mut impl Redo) -> TxId {
        let seen = self.clock.load(Ordering::Relaxed);
        if !injected(Mutant::IdAssignedBeforeAnnounced) {
            redo.assigning(seen);
        }
        // AcqRel: Release shows the announcement of `assigning`, and the taken records, to a thread
        // that reads a clock with this ID. Acquire makes the check of the reads see the records
        // that earlier IDs took.
        let order = weaken(Ordering::AcqRel, Ordering::Release, Mutant::IdAssignedWithoutAcquire);
        let order = weaken(order, Ordering::Acquire, Mutant::IdAssignedWithoutRelease);
        let id = TxId(self.clock.fetch_add(1, order) + 1);
        if injected(Mutant::IdAssignedBeforeAnnounced) {
            redo.assigning(seen);
        }
        id
    }

    /// Restores the heap, adds a no-op record, and releases with an ID that no reader has seen.
    #[cold]
    fn abort(&self, attempt: &mut Attempt, space: &mut impl Space, redo: &mut impl Redo, id: TxId) {
        // Before the release: until then no other transaction accepts a read of these words.
        attempt.written.restore(space);
        // The ID is assigned, and the merge waits for the record of every ID.
        if !injected(Mutant::NoOpRecordLeftOut) {
            redo.record(id, Written::nothing());
        }
        if injected(Mutant::AbortReleasesOldVersion) {
            for entry in attempt.written.entries.iter().filter(|entry| entry.version != SHARED) {
                let record = self.records.get(entry.owner as usize);
                record.store(entry.version, Ordering::Release);
            }
        } else {
            // With a new version: a reader that loaded a value of this attempt between two loads of
            // the record would find the old version twice, and would keep the value.
            self.release(attempt, space, id);
        }
        attempt.clear();
    }

    /// Releases all taken ownership records.
    #[inline]
    fn release(&self, attempt: &Attempt, space: &mut impl Space, id: TxId) {
        for entry in &attempt.written.entries {
            space.touched(entry.stripe << STRIPE_SHIFT, id);
            if entry.version != SHARED {
                // Release: a thread that sees the version sees the values.
                let release = relax(Ordering::Release, Mutant::VersionReleasedRelaxed);
                self.records.get(entry.owner as usize).store(id.0, release);
            }
        }
    }
}

/// Calls `hint` for the first of these words and then for one word in each `step`.
#[inline(always)]
fn each(first: usize, words: usize, step: usize, hint: impl Fn(usize)) {
    hint(first); // most hints cover few words: no loop for them
    let mut left = words.saturating_sub(1) / step;
    let mut at = first;
    while left > 0 {
        at += step;
        hint(at);
        left -= 1;
    }
}

/// Version of an entry that shares the ownership record of another entry in the write set.
const SHARED: u64 = TAKEN;

impl Attempt {
    #[inline]
    fn push_entry(&mut self, stripe: usize, owner: usize, version: u64, next: u32) {
        self.written.entries.push(Entry { stripe, version, mask: 0, owner: owner as u32, next });
    }

    /// Returns the entry of a stripe whose record is ours. Two stripes may share a record.
    fn entry_under(&mut self, head: u32, number: usize, stripe: usize) -> usize {
        let mut at = head;
        loop {
            let entry = &self.written.entries[at as usize];
            if entry.stripe == stripe {
                return at as usize;
            }
            if entry.next == NO_ENTRY {
                break;
            }
            at = entry.next;
        }
        let new = self.written.entries.len();
        self.written.entries[at as usize].next = new as u32;
        self.push_entry(stripe, number, SHARED, NO_ENTRY);
        new
    }
}

#[cfg(test)]
mod tests;
