//! `undo`: transactions write in place, after the old values are durable.
//!
//! ```text
//!   first write of a granule   record: old values       -> slot          barrier
//!                              store the words, in place
//!   commit                     lines written back       -> heap image    barrier
//!                              head: the records are void                barrier
//!                              release the ownership records, return
//! ```
//!
//! NVML (libpmemobj) works this way. A granule here is a cache line, so neighbouring words and
//! repeated writes share one record. One write that spans lines costs one record and one barrier.
//!
//! On `file` a stored word reaches the heap image only when the design writes it, so the first
//! barrier may wait. A transaction then has a single record, written at commit before its first
//! page.
//!
//! Write orders, and the failure without each:
//! - The record is durable before its words are stored. The cache may write a word back at any time
//!   (A1), and a crash would leave it without its old value.
//! - The words are durable in the heap image before the head voids the records. Otherwise a crash
//!   loses them.
//! - The head is durable before ownership records are released. Otherwise another transaction could
//!   read and acknowledge values that recovery rolls back. It could also write the words, and the
//!   rollback would destroy its writes.
//! - A rollback writes the old values to the heap image in the same order.
//!
//! Rollback applies records newest first. A granule may be recorded twice, because the table of
//! recorded granules is small and evicts entries. The older record has the values from before the
//! transaction.
//!
//! Source: DudeTM, sections 2.2 and 5.2.2.

mod live;

use std::ops::Range;
use std::path::Path;

use medium::mutants::{Mutant, injected};
use medium::writes::run;
use medium::{FrozenImage, Scrubbed};
use words::{Stop, TxId};

use super::format::{Head, Key, RECORD_HEAD_WORDS};
use super::store::{SlotStore, Words};
use super::workers::Workers;
use crate::design::{At, Design};
use crate::metrics::Metrics;
use crate::perform::{
    Obstacle, Redo as Recorder, STRIPE_WORDS, Space, StarvationLock, Stm, Tm, Written,
};
use crate::persist::Listener;
use crate::pool::Shape;
use crate::storage::{Opened, ReadyPool, Storage};
use crate::superblock::GrowthStep;
use crate::sync::{Arc, AtomicU64, Ordering};
#[cfg(test)]
use crate::worker::panic_injection;
use crate::{Error, Options};

/// Words of a granule: a cache line.
const GRANULE_WORDS: usize = 8;
/// Entries of the table of recorded granules.
const KNOWN: usize = 64;
/// Maximum words of a record: it holds a stripe of the transactional memory, and no first write is
/// longer.
const RECORD_WORDS_MAX: usize = (RECORD_HEAD_WORDS + 1 + STRIPE_WORDS).next_multiple_of(8);

/// Undo logging in place, over the transactional memory `stm`.
pub struct Undo {
    memory: Stm,
    store: SlotStore,
    workers: Workers,
}

/// State of one worker.
pub struct Local {
    attempt: <Stm as Tm>::Attempt,
    log: Log,
}

/// The records of one worker.
struct Log {
    slot: usize,
    key: Key,
    /// The sequence of the running transaction.
    sequence: u64,
    /// Words of records in the slot; on `file`, words that commit will write.
    at: usize,
    /// First word and length of each recorded run.
    runs: Vec<(usize, usize)>,
    known: Box<[Granule; KNOWN]>,
    /// On `file`, the record that commit writes.
    record: Vec<u64>,
    /// Whether the attempt was assigned an ID.
    has_id: bool,
}

/// A granule that the transaction with this sequence has recorded.
#[derive(Clone, Copy, Default)]
struct Granule {
    number: usize,
    sequence: u64,
}

/// The heap, while a transaction body runs.
struct Running<'a> {
    undo: &'a Undo,
    log: &'a mut Log,
}

/// The heap, at the end of an attempt.
struct Ending<'a>(&'a Undo);

impl Space for Running<'_> {
    #[inline(always)]
    fn load(&mut self, index: usize) -> Result<u64, Stop> {
        Ok(self.peek(index))
    }

    #[inline(always)]
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        Space::load_run(&mut self.undo.store.heap(), index, out)
    }

    #[inline(always)]
    fn first_write(&mut self, index: usize, words: usize) -> Result<(), Stop> {
        let (first, last) = (index / GRANULE_WORDS, (index + words - 1) / GRANULE_WORDS);
        if (first..=last).all(|granule| self.log.knows(granule)) {
            return Ok(());
        }
        self.log.keep(self.undo, first, last)
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        self.undo.store(index, value);
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        self.undo.store.heap()[index].load(Ordering::Relaxed)
    }
}

impl Space for Ending<'_> {
    #[inline(always)]
    fn load(&mut self, index: usize) -> Result<u64, Stop> {
        Ok(self.peek(index))
    }

    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        Space::load_run(&mut self.0.store.heap(), index, out)
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        self.0.store(index, value);
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        self.0.store.heap()[index].load(Ordering::Relaxed)
    }
}

impl Log {
    #[inline(always)]
    fn knows(&self, granule: usize) -> bool {
        let known = &self.known[granule % KNOWN];
        known.number == granule && known.sequence == self.sequence
    }

    /// Records the current values of granules. On mapped media the record is durable on return: one
    /// persist barrier.
    #[inline(never)]
    fn keep(&mut self, undo: &Undo, first: usize, last: usize) -> Result<(), Stop> {
        let Undo { store, workers, .. } = undo;
        // A failed commit has released its ownership records, while its words are in place and not
        // durable. A record of such words, written after the record that rolls them back, would
        // restore them at recovery. The failure is stored before the release, so a transaction that
        // owns the words now sees it.
        if workers.poison.check().is_err() {
            return Err(Stop::Conflict); // the next attempt fails to begin
        }
        let (index, words) = (first * GRANULE_WORDS, (last + 1 - first) * GRANULE_WORDS);
        let batch = [run(index as u64, words)].into_iter();
        let was = store.heap()[index..index + words].iter();
        let batch = batch.chain(was.map(|word| word.load(Ordering::Relaxed)));
        let capacity = store.layout.record_words();
        if store.is_in_place() {
            let mut record = [0; RECORD_WORDS_MAX];
            let record = &mut record[..store.room(RECORD_HEAD_WORDS + 1 + words)];
            if self.at + record.len() > capacity {
                return Err(Stop::TooLarge);
            }
            let sealed = &mut record[..RECORD_HEAD_WORDS + 1 + words];
            sealed[RECORD_HEAD_WORDS..].iter_mut().zip(batch).for_each(|(to, word)| *to = word);
            self.key.seal(self.at, self.sequence, sealed);
            let meter = &workers.slot(self.slot).meter;
            meter.payload(sealed.len());
            let says = (self.sequence, (self.at + record.len()) as u64);
            let written = store.write_record((self.slot, &self.key), self.at, record, says, meter);
            if let Err(error) = written {
                workers.poison.put(error);
                return Err(Stop::Conflict); // the next attempt fails to begin
            }
            self.at += record.len();
            workers.slot(self.slot).publish_record(self.at);
        } else {
            if store.room(self.record.len() + 1 + words) > capacity {
                return Err(Stop::TooLarge);
            }
            self.record.extend(batch);
        }
        self.runs.push((index, words));
        for number in first..=last {
            self.known[number % KNOWN] = Granule { number, sequence: self.sequence };
        }
        Ok(())
    }

    /// Makes the end of an attempt durable, commit or rollback. Three persist barriers on `file`,
    /// two on mapped media, one if nothing has changed.
    fn end(&mut self, undo: &Undo, id: TxId, new: &[u64]) -> Result<(), Error> {
        let Undo { store, workers, .. } = undo;
        let slot = workers.slot(self.slot);
        slot.assigned(id.0);
        workers.boundary.pass(id.0, &workers.poison);
        workers.poison.check()?;
        if store.has_images_in_place() {
            self.runs.iter().for_each(|&(index, words)| undo.keep(index, words));
        }
        let head = Head { sequence: self.sequence, id: id.0, last: 0 };
        if injected(Mutant::EntriesDroppedFirst) {
            store.write_head(self.slot, &self.key, head, &slot.meter)?;
        }
        if store.is_in_place() {
            let lines = self.runs.iter().map(|&(index, words)| store.write_back(index, words));
            match lines.sum() {
                0 => {}
                lines => store.flush_lines(lines, &slot.meter)?,
            }
        } else if !new.is_empty() {
            let words = self.record.len();
            self.key.seal(0, self.sequence, &mut self.record);
            self.record.resize(store.room(words), 0);
            slot.meter.payload(words);
            if injected(Mutant::InPlaceFirst) {
                store.write_pages(&[new], &slot.meter)?;
            }
            // The record before the pages: a crash between them rolls the transaction back.
            let says = (self.sequence, self.record.len() as u64);
            store.write_record((self.slot, &self.key), 0, &self.record, says, &slot.meter)?;
            store.write_pages(&[new], &slot.meter)?;
        }
        // Last: it voids the records, so the words must be durable before it.
        store.write_head(self.slot, &self.key, head, &slot.meter)?;
        self.sequence += 1;
        self.reset();
        slot.filled.store(0, Ordering::Release);
        Ok(())
    }

    fn reset(&mut self) {
        self.at = 0;
        self.runs.clear();
        self.record.clear();
        self.record.extend([0; RECORD_HEAD_WORDS]);
    }
}

/// Receives the end of a writing attempt from the transactional memory.
struct End<'a> {
    undo: &'a Undo,
    log: &'a mut Log,
}

impl Recorder for End<'_> {
    #[inline]
    fn has_room(&mut self, _words: usize) -> bool {
        true // checked at each write
    }

    #[inline]
    fn assigning(&mut self, clock: u64) {
        self.log.has_id = true;
        self.undo.workers.slot(self.log.slot).assigning(clock);
    }

    #[inline]
    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        let End { undo, log } = self;
        let guard = undo.workers.poison.on_panic("commit");
        #[cfg(test)]
        panic_injection::point(panic_injection::Point::Assigned);
        let mut new = Vec::new();
        if !undo.store.is_in_place() {
            batch_of(&written, &mut new);
        }
        // The ID cannot be taken back, so a failed write poisons the pool.
        if let Err(error) = log.end(undo, id, &new) {
            undo.workers.poison.put(error);
        }
        guard.disarm();
        #[cfg(test)]
        panic_injection::point(panic_injection::Point::Recorded);
    }
}

/// Appends a transaction's writes to a batch.
pub(super) fn batch_of(written: &Written<'_, impl Space>, batch: &mut Vec<u64>) {
    written.runs(
        batch,
        |batch| {
            batch.push(0);
            batch.len() as u64 - 1
        },
        |batch, value| batch.push(value),
        |batch, at, head| batch[at as usize] = head,
    );
}

impl Undo {
    fn start(opened: Opened, options: &Options) -> Result<(Undo, Shape), Error> {
        let open = |storage: &Storage| Words::with_records(storage, options);
        let ReadyPool { storage, words: (words, memory), last } =
            opened.begin(Self::NAME, open, |_| ())?;
        let shape = Shape::of::<Self>(&storage, options);
        let store = SlotStore::new(storage, words, true);
        let memory = memory.starting_after(last);
        let workers = Workers::new(store.layout.slots, last.0);
        Ok((Undo { memory, store, workers }, shape))
    }

    fn clock(&self) -> &AtomicU64 {
        self.memory.clock()
    }

    /// Reports an assigned ID as finished, if it was made durable. Otherwise the ID stays in flight
    /// for ever, so no transaction that needs it is acknowledged. Returns whether it is durable.
    #[inline]
    fn settle(&self, log: &mut Log) -> bool {
        let durable = !log.has_id || self.workers.poison.check().is_ok();
        if std::mem::take(&mut log.has_id) && durable {
            self.workers.slot(log.slot).idle();
        }
        durable
    }
}

impl Design for Undo {
    const NAME: &'static str = "undo";
    const DURABLE: bool = true;
    const HAS_RECORDS: bool = true;
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
        self.store(index, value);
    }

    fn local(&self, number: usize) -> Result<Local, Error> {
        self.workers.enter(Self::NAME, number)?;
        let sequence = 1 + *crate::sync::lock(&self.workers.slot(number).sequence);
        let mut log = Log {
            slot: number,
            key: self.store.key(number),
            sequence,
            at: 0,
            runs: Vec::new(),
            known: Box::new([Granule::default(); KNOWN]),
            record: Vec::new(),
            has_id: false,
        };
        log.reset();
        Ok(Local { attempt: self.memory.attempt(number), log })
    }

    fn close_local(&self, local: &mut Local) {
        let slot = self.workers.slot(local.log.slot);
        *crate::sync::lock(&slot.sequence) = local.log.sequence - 1;
    }

    fn words_max(&self) -> usize {
        // An upper bound for any placement of the words; `Log::keep` checks each granule as it
        // records it.
        self.store.layout.record_words()
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        self.workers.poison.check()
    }

    #[inline]
    fn begin(&self, local: &mut Local, read_only: bool) -> Result<(), Error> {
        self.check()?;
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
        self.memory.read(&mut local.attempt, self.store.heap(), at.index)
    }

    #[inline]
    fn read_run(&self, local: &mut Local, at: At, out: &mut [u64]) -> Result<(), Stop> {
        self.memory.read_run(&mut local.attempt, self.store.heap(), at.index, out)
    }

    #[inline(always)]
    fn write(&self, local: &mut Local, at: At, value: u64) -> Result<(), Stop> {
        let space = Running { undo: self, log: &mut local.log };
        self.memory.write(&mut local.attempt, space, at.index, value)
    }

    #[inline(always)]
    fn write_run(&self, local: &mut Local, at: At, values: &[u64]) -> Result<(), Stop> {
        let space = Running { undo: self, log: &mut local.log };
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
        let Local { attempt, log } = local;
        let mut end = End { undo: self, log };
        let committed = self.memory.commit(attempt, Ending(self), &mut end);
        let assigned = log.has_id;
        if !self.settle(log) {
            return Err(Stop::Conflict); // the next attempt fails to begin, with the error
        }
        let id = committed?;
        if assigned {
            // A commit is acknowledged when all earlier IDs are durable, too.
            let slot = self.workers.slot(log.slot);
            let acknowledged = self.workers.acknowledge(slot, self.clock(), id.0);
            acknowledged.map_err(|_| Stop::Conflict)?;
        }
        Ok(id)
    }

    fn roll_back(&self, local: &mut Local) -> TxId {
        let Local { attempt, log } = local;
        let mut end = End { undo: self, log };
        let seen = self.memory.roll_back(attempt, Ending(self), &mut end);
        self.settle(log);
        seen
    }

    fn end_panicked(&self, _local: &mut Local, step: &'static str) {
        // Its words stay in place, on mapped media in the heap image. Recovery restores them unless
        // the head that voids their records is durable.
        self.workers.poison.put(Error::StepPanicked { step });
    }

    fn committed_id(&self) -> TxId {
        TxId(self.clock().load(Ordering::Acquire))
    }

    fn durable_id(&self) -> TxId {
        TxId(self.workers.durable(self.clock()))
    }

    fn reproduced_id(&self) -> TxId {
        self.durable_id()
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
        self.wait(self.committed_id())
    }

    fn freeze(&self, image: &Arc<FrozenImage>) -> Result<TxId, Error> {
        self.workers.at_boundary(self.clock(), |last| {
            self.store.freeze(image);
            TxId(last)
        })
    }

    fn copy_frozen(&self, image: &FrozenImage, pages: Range<usize>) -> Result<(), Error> {
        self.store.copy_frozen(image, pages, &|first, out| self.lay_over(first, out));
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
        self.wait(self.committed_id())?;
        if self.is_open_in_place() {
            return Ok(());
        }
        self.store.seal().map_err(|error| self.workers.poison.put(error))
    }

    fn mark_clean(&self) -> Result<bool, Error> {
        if self.is_open_in_place() {
            // With the mark of a clean shutdown its words would stay. Without it, opening the pool
            // rolls them back from these records, as after a crash.
            return Ok(false);
        }
        let marked = self.store.mark_clean(self.committed_id().0);
        marked.map(|()| true).map_err(|error| self.workers.poison.put(error))
    }

    fn fail(&self, error: Error) {
        self.workers.poison.put(error);
    }

    fn metrics(&self) -> Metrics {
        self.workers.metrics()
    }
}

#[cfg(test)]
mod tests;
