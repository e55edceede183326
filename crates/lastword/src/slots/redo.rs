//! `redo`: transactions write to a buffer; new values are durable before they are stored.
//!
//! ```text
//!   write      to the buffer, which every read searches
//!   commit     record: ID, new values             -> slot          barrier
//!              store the words
//!              release the ownership records, return
//!   slot full  lines written back, of every slot  -> heap image    barrier     } truncation,
//!              head: the image has all up to this ID               barrier     } once per slot
//! ```
//!
//! Mnemosyne works this way, over a write-back transactional memory. Here that is `stm` over a
//! buffer, with ownership records taken at the first write. A transaction costs one barrier,
//! because the record's checksum serves as its commit mark. Mnemosyne's asynchronous mode leaves
//! truncation to another thread. Here the worker whose slot is full truncates, so measurements
//! include its whole cost. A line that many transactions have written is written back once.
//!
//! Write orders, and the failure without each:
//! - The record is durable before its words are stored. On mapped media the cache may write them
//!   back at any time (A1), and a crash would leave a part of a transaction.
//! - The words are stored before ownership records are released. Otherwise other transactions read
//!   old values.
//! - The record is durable before ownership records are released. So a value that another
//!   transaction reads is durable before that transaction is.
//! - The heap image is durable before the head says so, and the head before a slot restarts from
//!   its beginning. Otherwise a crash finds words in neither place.
//! - Truncation goes by ID over all slots, up to the frontier. Slot by slot, the newer value of a
//!   word could be applied and freed in one slot; recovery would then replay an older value from
//!   another.
//!
//! On `file` transactions work on a copy of the heap image in memory, whose words are all durable
//! in the log. Truncation writes their current values, once per page.
//!
//! Source: DudeTM, sections 2.2 and 5.2.2.

use std::ops::Range;
use std::path::Path;

use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces, mark};
use medium::{FrozenImage, Scrubbed};
use words::{Stop, TxId};

use super::buffer::Buffer;
use super::format::{Key, RECORD_HEAD_WORDS};
use super::store::{SlotStore, Words};
use super::truncation::Truncation;
use super::undo::batch_of;
use super::workers::Workers;
use crate::design::{At, Design};
use crate::metrics::Metrics;
use crate::perform::{Obstacle, Redo as Recorder, Space, StarvationLock, Stm, Tm, Written};
use crate::persist::Listener;
use crate::pool::Shape;
use crate::storage::{Opened, ReadyPool, Storage};
use crate::superblock::GrowthStep;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock, spin_loop, thread};
#[cfg(test)]
use crate::worker::panic_injection;
use crate::{Error, Options};

/// Words of a record before its runs: head and mark.
const BEFORE_RUNS: usize = RECORD_HEAD_WORDS + 1;

/// Redo logging over a write buffer, with the transactional memory `stm`.
pub struct Redo {
    memory: Stm,
    store: SlotStore,
    workers: Workers,
    truncation: Mutex<Truncation>,
}

/// State of one worker.
pub struct Local {
    attempt: <Stm as Tm>::Attempt,
    buffer: Buffer,
    log: Log,
}

/// The records of one worker.
struct Log {
    slot: usize,
    key: Key,
    /// The sequence of the next record.
    sequence: u64,
    /// Words of records in the slot.
    at: usize,
    /// Words of a record that did not fit.
    wanted: usize,
    record: Vec<u64>,
    /// Whether the attempt was assigned an ID.
    has_id: bool,
}

/// The heap as one transaction sees it.
struct Buffered<'a> {
    store: &'a SlotStore,
    buffer: &'a mut Buffer,
}

impl Space for Buffered<'_> {
    #[inline(always)]
    fn load(&mut self, index: usize) -> Result<u64, Stop> {
        Ok(self.peek(index))
    }

    #[inline(always)]
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        self.buffer.load_run(self.store.heap(), index, out);
        Ok(())
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        self.buffer.store(index, value);
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        self.buffer.load(self.store.heap(), index)
    }
}

impl Log {
    /// Whether `words` words of runs fit in the slot, with space left for one no-op record.
    #[inline]
    fn has_room(&self, store: &SlotStore, words: usize) -> bool {
        let no_op = store.room(BEFORE_RUNS);
        self.at + store.room(BEFORE_RUNS + words) + no_op <= store.layout.record_words()
    }

    /// Makes a transaction durable, then stores its words. One persist barrier.
    #[inline]
    fn end(
        &mut self,
        redo: &Redo,
        id: TxId,
        written: &Written<'_, impl Space>,
    ) -> Result<(), Error> {
        let Redo { store, workers, .. } = redo;
        let slot = workers.slot(self.slot);
        slot.assigned(id.0);
        workers.boundary.pass(id.0, &workers.poison);
        workers.poison.check()?;
        self.record.extend([0, 0, mark(id.0 - store.base())]);
        batch_of(written, &mut self.record);
        self.key.seal(self.at, self.sequence, &mut self.record);
        let words = self.record.len();
        self.record.resize(store.room(words), 0);
        slot.meter.payload(words);
        if injected(Mutant::ShownFirst) {
            show(store, &self.record[BEFORE_RUNS..words]);
        }
        let (place, at, says) = ((self.slot, &self.key), self.at, (id.0, self.sequence));
        store.write_record(place, at, &self.record, says, &slot.meter)?;
        // Only now may the cache write the words back (A1): their record is durable.
        show(store, &self.record[BEFORE_RUNS..words]);
        self.sequence += 1;
        self.at += self.record.len();
        // Release: a thread that truncates up to this ID finds the record; see `Workers::frontier`.
        slot.filled.store(self.at, Ordering::Release);
        Ok(())
    }
}

/// Stores a batch where other threads see it.
#[inline]
fn show(store: &SlotStore, batch: &[u64]) {
    for piece in Pieces::new(batch) {
        let Piece::Run(index, words) = piece else { continue };
        for (value, index) in words.iter().zip(index as usize..) {
            store.store(index, *value);
        }
    }
}

/// Receives the end of a writing attempt from the transactional memory.
struct End<'a> {
    redo: &'a Redo,
    log: &'a mut Log,
}

impl Recorder for End<'_> {
    #[inline]
    fn has_room(&mut self, words: usize) -> bool {
        let fits = self.log.has_room(&self.redo.store, words);
        if !fits {
            self.log.wanted = words;
        }
        fits
    }

    #[inline]
    fn assigning(&mut self, clock: u64) {
        self.log.has_id = true;
        // `end_panicked` shows this record, never one of an earlier transaction.
        self.log.record.clear();
        self.redo.workers.slot(self.log.slot).assigning(clock);
    }

    #[inline]
    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        let End { redo, log } = self;
        let guard = redo.workers.poison.on_panic("commit");
        #[cfg(test)]
        panic_injection::point(panic_injection::Point::Assigned);
        // The ID cannot be taken back, so a failed write poisons the pool.
        if let Err(error) = log.end(redo, id, &written) {
            redo.workers.poison.put(error);
        }
        guard.disarm();
        #[cfg(test)]
        panic_injection::point(panic_injection::Point::Recorded);
    }
}

impl Redo {
    fn start(opened: Opened, options: &Options) -> Result<(Redo, Shape), Error> {
        let open = |storage: &Storage| Words::with_records(storage, options);
        let ReadyPool { storage, words: (words, memory), last } =
            opened.begin(Self::NAME, open, |_| ())?;
        let shape = Shape::of::<Self>(&storage, options);
        let store = SlotStore::new(storage, words, false);
        let memory = memory.starting_after(last);
        let workers = Workers::new(store.layout.slots, last.0);
        let truncation = Mutex::new(Truncation::new(&store, last.0));
        Ok((Redo { memory, store, workers, truncation }, shape))
    }

    fn clock(&self) -> &AtomicU64 {
        self.memory.clock()
    }

    /// Does the same as `Undo::settle`.
    #[inline]
    fn settle(&self, log: &mut Log) -> bool {
        let durable = !log.has_id || self.workers.poison.check().is_ok();
        if std::mem::take(&mut log.has_id) && durable {
            self.workers.slot(log.slot).idle();
        }
        durable
    }

    /// Frees a worker's slot by truncation: the heap image has all of its records then.
    #[cold]
    fn make_room(&self, log: &mut Log) -> Result<(), Error> {
        let slot = self.workers.slot(log.slot);
        loop {
            let mut truncation = lock(&self.truncation);
            if truncation.tail(log.slot) < log.at {
                self.truncate(&mut truncation)?;
            }
            if truncation.restart(log.slot, (log.at, log.sequence - 1), &slot.filled) {
                log.at = 0;
                return Ok(());
            }
            // A commit with a lower ID is in flight.
            drop(truncation);
            spin_loop();
            thread::yield_now();
        }
    }

    /// Truncates the records of all slots up to the frontier. Two persist barriers.
    fn truncate(&self, truncation: &mut MutexGuard<'_, Truncation>) -> Result<(), Error> {
        self.workers.poison.check()?;
        let guard = self.workers.poison.on_panic("truncation");
        let done = self.forget(truncation).map_err(|error| self.workers.poison.put(error));
        guard.disarm();
        done
    }

    fn forget(&self, truncation: &mut Truncation) -> Result<(), Error> {
        // The largest frontier ever computed, because the frontier itself may decrease (see
        // `workers`). If the head decreased, recovery would replay records that newer heads had
        // passed, from slots that may have restarted by then. All up to this value is durable: the
        // thread that computed it saw so, and `durable` acquires what that thread saw.
        let frontier = self.workers.durable(self.clock());
        truncation.forget(&self.store, &self.workers, frontier, || 0)
    }
}

impl Design for Redo {
    const NAME: &'static str = "redo";
    const DURABLE: bool = true;
    const HAS_RECORDS: bool = true;
    const READS_LOG: bool = true;
    const WORKERS_MAX: usize = super::format::SLOTS_MAX;
    type Local = Local;

    fn create(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        let (storage, created) = Storage::create(path, options, Self::NAME, Words::demand::<Self>)?;
        created.or_remove(|| Self::start(Opened::created(storage)?, options))
    }

    fn open(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        Self::start(Opened::open(path, options, Words::demand::<Self>)?, options)
    }

    fn record_growth(&self, step: Result<GrowthStep, Error>) -> Result<(), Error> {
        let recorded = step.and_then(|step| self.store.record_growth(step));
        recorded.map_err(|error| self.workers.poison.put(error))
    }

    #[inline]
    fn words(&self) -> usize {
        self.store.heap().len()
    }

    #[inline]
    fn peek(&self, index: usize) -> u64 {
        self.store.heap()[index].load(Ordering::Relaxed)
    }

    fn observe(&self, first: usize, out: &mut [u64]) {
        medium::cpu::load(&self.store.heap()[first..first + out.len()], out);
    }

    fn poke(&self, index: usize, value: u64) {
        self.store.store(index, value);
    }

    fn local(&self, number: usize) -> Result<Local, Error> {
        self.workers.enter(Self::NAME, number)?;
        let slot = self.workers.slot(number);
        let log = Log {
            slot: number,
            key: self.store.key(number),
            sequence: 1 + *lock(&slot.sequence),
            at: slot.filled.load(Ordering::Acquire),
            wanted: 0,
            record: Vec::new(),
            has_id: false,
        };
        Ok(Local { attempt: self.memory.attempt(number), buffer: Buffer::new(), log })
    }

    fn close_local(&self, local: &mut Local) {
        *lock(&self.workers.slot(local.log.slot).sequence) = local.log.sequence - 1;
    }

    fn words_max(&self) -> usize {
        let words = self.store.layout.record_words();
        let left = words.saturating_sub(2 * self.store.room(BEFORE_RUNS));
        left / 2 // each word a run of its own
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        self.workers.poison.check()
    }

    #[inline]
    fn begin(&self, local: &mut Local, read_only: bool) -> Result<(), Error> {
        self.check()?;
        // A rollback writes a no-op record and must not wait, so space for one is reserved here.
        // `wanted` is reset: the next transaction may be smaller.
        let wanted = std::mem::take(&mut local.log.wanted);
        if !local.log.has_room(&self.store, wanted) {
            self.make_room(&mut local.log)?;
        }
        match read_only {
            false => self.memory.begin(&mut local.attempt),
            true => self.memory.begin_read(&mut local.attempt),
        }
        Ok(())
    }

    fn starvation_lock(&self) -> &StarvationLock {
        self.memory.starvation_lock()
    }

    fn obstacle(&self, local: &mut Local) -> Obstacle {
        self.memory.obstacle(&mut local.attempt)
    }

    fn holder(&self, key: u64, seen: u64) -> Option<usize> {
        self.memory.holder(key, seen)
    }

    #[inline(always)]
    fn read(&self, local: &mut Local, at: At) -> Result<u64, Stop> {
        let space = Buffered { store: &self.store, buffer: &mut local.buffer };
        self.memory.read(&mut local.attempt, space, at.index)
    }

    #[inline]
    fn read_run(&self, local: &mut Local, at: At, out: &mut [u64]) -> Result<(), Stop> {
        let space = Buffered { store: &self.store, buffer: &mut local.buffer };
        self.memory.read_run(&mut local.attempt, space, at.index, out)
    }

    #[inline(always)]
    fn write(&self, local: &mut Local, at: At, value: u64) -> Result<(), Stop> {
        let space = Buffered { store: &self.store, buffer: &mut local.buffer };
        self.memory.write(&mut local.attempt, space, at.index, value)
    }

    #[inline(always)]
    fn write_run(&self, local: &mut Local, at: At, values: &[u64]) -> Result<(), Stop> {
        let space = Buffered { store: &self.store, buffer: &mut local.buffer };
        self.memory.write_run(&mut local.attempt, space, at.index, values)
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        self.memory.will_read(self.store.heap(), index, words);
    }

    #[inline]
    fn will_write(&self, index: usize, words: usize) {
        self.memory.will_write(self.store.heap(), index, words);
    }

    #[inline]
    fn words_written(&self, local: &Local) -> usize {
        self.memory.words_written(&local.attempt)
    }

    fn why_too_large(&self, _local: &Local) -> Option<Error> {
        Some(self.store.slot_too_small(Self::NAME, self.words_max()))
    }

    fn commit(&self, local: &mut Local) -> Result<TxId, Stop> {
        let Local { attempt, buffer, log } = local;
        let space = Buffered { store: &self.store, buffer };
        let mut end = End { redo: self, log };
        let committed = self.memory.commit(attempt, space, &mut end);
        let assigned = log.has_id;
        if !self.settle(log) {
            return Err(Stop::Conflict); // the next attempt fails to begin, with the error
        }
        let id = committed?;
        buffer.clear();
        if assigned {
            // A commit is acknowledged when all earlier IDs are durable, too.
            let slot = self.workers.slot(log.slot);
            let acknowledged = self.workers.acknowledge(slot, self.clock(), id.0);
            acknowledged.map_err(|_| Stop::Conflict)?;
        }
        Ok(id)
    }

    fn roll_back(&self, local: &mut Local) -> TxId {
        let Local { attempt, buffer, log } = local;
        let space = Buffered { store: &self.store, buffer };
        let mut end = End { redo: self, log };
        let seen = self.memory.roll_back(attempt, space, &mut end);
        self.settle(log);
        buffer.clear();
        seen
    }

    fn end_panicked(&self, local: &mut Local, step: &'static str) {
        self.workers.poison.put(Error::StepPanicked { step });
        // A commit that a simulated power failure unwound. A test then observes the heap as other
        // transactions would have seen it, so the words of its record are shown. An attempt that
        // has not assigned an ID has an empty record.
        let record = &local.log.record;
        if local.log.has_id && self.store.is_detached() {
            let words = RECORD_HEAD_WORDS + record.get(1).map_or(0, |word| *word >> 32) as usize;
            show(&self.store, record.get(BEFORE_RUNS..words).unwrap_or_default());
        }
    }

    fn committed_id(&self) -> TxId {
        TxId(self.clock().load(Ordering::Acquire))
    }

    fn durable_id(&self) -> TxId {
        TxId(self.workers.durable(self.clock()))
    }

    fn reproduced_id(&self) -> TxId {
        TxId(lock(&self.truncation).head().id)
    }

    fn wait(&self, id: TxId) -> Result<(), Error> {
        self.workers.wait(self.clock(), id.0)
    }

    fn outcome(&self, id: TxId) -> Option<Result<(), Error>> {
        match self.durable_id() >= id {
            true => Some(Ok(())),
            false => self.workers.poison.check().err().map(Err),
        }
    }

    fn notify(&self, id: TxId, listener: Listener) -> Result<(), Error> {
        listener.notify(self.wait(id));
        Ok(())
    }

    fn checkpoint(&self) -> Result<(), Error> {
        let committed = self.committed_id();
        self.wait(committed)?;
        while self.reproduced_id() < committed {
            self.truncate(&mut lock(&self.truncation))?;
        }
        Ok(())
    }

    fn freeze(&self, image: &Arc<FrozenImage>) -> Result<TxId, Error> {
        self.workers.at_boundary(self.clock(), |last| {
            self.store.freeze(image);
            TxId(last)
        })
    }

    fn copy_frozen(&self, image: &FrozenImage, pages: Range<usize>) -> Result<(), Error> {
        self.store.copy_frozen(image, pages, &|_, _| ());
        self.check()
    }

    fn thaw(&self, image: &Arc<FrozenImage>) {
        self.store.thaw(image);
    }

    fn scrub(&self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        let done = self.store.scrub(pages, scrubbed);
        done.and_then(|()| self.check()).map_err(|error| self.workers.poison.put(error))
    }

    fn close(&self) -> Result<(), Error> {
        self.checkpoint()?;
        self.store.seal().map_err(|error| self.workers.poison.put(error))
    }

    fn mark_clean(&self) -> Result<bool, Error> {
        let marked = self.store.mark_clean(self.committed_id().0);
        marked.map(|()| true).map_err(|error| self.workers.poison.put(error))
    }

    fn fail(&self, error: Error) {
        self.workers.poison.put(error);
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = self.workers.metrics();
        lock(&self.truncation).meter().add_to(&mut metrics);
        metrics
    }
}

#[cfg(test)]
mod tests;
