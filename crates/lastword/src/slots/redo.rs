//! `redo`: run in a buffer; what words become is durable before they are written home.
//!
//! ```text
//!   write      to the buffer, which every read searches
//!   commit     record: ID, what words become      -> slot      barrier
//!              store the words
//!              release the ownership records, return
//!   slot full  lines written back, of every slot  -> home      barrier     } truncation,
//!              head: up to this ID it is at home               barrier     } once a slot
//! ```
//!
//! This is how Mnemosyne does it: a write-back transactional memory (here `stm` over a buffer:
//! ownership records taken at the first write), one barrier a transaction, the record's checksum as
//! its commit mark, and truncation later, which Mnemosyne's asynchronous mode leaves to another
//! thread. Here it falls to the worker whose slot is full: nothing of it is left out of what is
//! measured, and a line that many transactions have written is written back once.
//!
//! Orders, and what goes wrong without them:
//! - The record is durable before the words are stored: on mapped media the cache may write them
//!   home at any time (A1), and a crash would leave a part of a transaction.
//! - Words are stored before ownership records are released, or others would read old ones.
//! - Ownership records are released when the record is durable: what another transaction has read
//!   is durable before that one is.
//! - Home is durable before the head says so, and that before a slot is written again from its
//!   beginning: a crash would find words neither here nor there.
//! - Truncation goes by ID over all slots, up to the frontier. By slots it would lose: this slot's
//!   newer value of a word is home and forgotten, an older one of another slot is replayed over it.
//!
//! On `file` transactions see an image in memory, whose words are all durable in the log: what goes
//! home at truncation is what it holds by then, once for each page.
//!
//! (DudeTM, sections 2.2 and 5.2.2.)

use std::path::Path;

use medium::mutants::{Mutant, planted};
use medium::writes::{Piece, Pieces, mark};
use words::{Stop, TxId};

use super::buffer::Buffer;
use super::format::{Key, RECORD_HEAD_WORDS};
use super::ground::{Ground, Words};
use super::truncation::Truncation;
use super::undo::batch_of;
use super::workers::Workers;
use crate::design::{At, Design};
use crate::metrics::Metrics;
use crate::perform::{Gate, Obstacle, Redo as Recorder, Space, Stm, Tm, Written};
use crate::persist::Listener;
use crate::pool::Shape;
use crate::storage::{Begun, Opened, Storage};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, spin_loop, thread};
use crate::{Error, Options};

/// Words of a record before its runs: head and mark.
const BEFORE_RUNS: usize = RECORD_HEAD_WORDS + 1;

/// Redo logging over a write buffer, with the transactional memory `stm`.
pub struct Redo {
    memory: Stm,
    ground: Ground,
    workers: Workers,
    truncation: Mutex<Truncation>,
}

/// What one worker owns.
pub struct Local {
    attempt: <Stm as Tm>::Attempt,
    buffer: Buffer,
    log: Log,
}

/// One worker's records.
struct Log {
    slot: usize,
    key: Key,
    /// That of the next record.
    sequence: u64,
    /// Words of records that are in the slot.
    at: usize,
    /// Words of a record that found no room.
    wanted: usize,
    record: Vec<u64>,
    /// An ID was drawn for the attempt.
    drawn: bool,
    /// The commit is not over; if the attempt ends so, it was unwound.
    committing: bool,
}

/// The words, as one transaction sees them.
struct Buffered<'a> {
    ground: &'a Ground,
    buffer: &'a mut Buffer,
}

impl Space for Buffered<'_> {
    #[inline(always)]
    fn load(&mut self, index: usize) -> Result<u64, Stop> {
        Ok(self.peek(index))
    }

    #[inline(always)]
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        self.buffer.load_run(self.ground.heap(), index, out);
        Ok(())
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        self.buffer.store(index, value);
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        self.buffer.load(self.ground.heap(), index)
    }
}

impl Log {
    /// Words that are left in the slot, in whole units, but for the room of one hole.
    #[inline]
    fn has_room(&self, ground: &Ground, words: usize) -> bool {
        let hole = ground.room(BEFORE_RUNS);
        self.at + ground.room(BEFORE_RUNS + words) + hole <= ground.layout.record_words()
    }

    /// Makes a transaction durable and shows it: one persist barrier.
    #[inline]
    fn end(
        &mut self,
        redo: &Redo,
        id: TxId,
        written: &Written<'_, impl Space>,
    ) -> Result<(), Error> {
        let Redo { ground, workers, .. } = redo;
        let slot = workers.slot(self.slot);
        slot.drawn(id.0);
        workers.poison.check()?;
        self.record.clear();
        self.record.extend([0, 0, mark(id.0 - ground.base())]);
        batch_of(written, &mut self.record);
        self.key.seal(self.at, self.sequence, &mut self.record);
        let words = self.record.len();
        self.record.resize(ground.room(words), 0);
        slot.meter.payload(words);
        if planted(Mutant::ShownFirst) {
            show(ground, &self.record[BEFORE_RUNS..words]);
        }
        ground.write_record(self.slot, self.at, &self.record, &slot.meter)?;
        show(ground, &self.record[BEFORE_RUNS..words]);
        self.sequence += 1;
        self.at += self.record.len();
        // Release: whoever truncates up to this ID finds the record; see `Workers::frontier`.
        slot.filled.store(self.at, Ordering::Release);
        Ok(())
    }
}

/// Stores a batch for others to see.
#[inline]
fn show(ground: &Ground, batch: &[u64]) {
    for piece in Pieces::new(batch) {
        let Piece::Run(index, words) = piece else { continue };
        for (value, index) in words.iter().zip(index as usize..) {
            ground.store(index, *value);
        }
    }
}

/// What the transactional memory calls at the end of an attempt that has written.
struct End<'a> {
    redo: &'a Redo,
    log: &'a mut Log,
}

impl Recorder for End<'_> {
    #[inline]
    fn has_room(&mut self, words: usize) -> bool {
        let fits = self.log.has_room(&self.redo.ground, words);
        if !fits {
            self.log.wanted = words;
        }
        fits
    }

    #[inline]
    fn drawing(&mut self, clock: u64) {
        (self.log.drawn, self.log.committing) = (true, true);
        self.redo.workers.slot(self.log.slot).drawing(clock);
    }

    #[inline]
    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        let End { redo, log } = self;
        let guard = redo.workers.poison.on_panic("commit");
        if let Err(error) = log.end(redo, id, &written) {
            redo.workers.poison.put(error);
        }
        guard.disarm();
        log.committing = false;
    }
}

impl Redo {
    fn start(opened: Opened, options: &Options) -> Result<(Redo, Shape), Error> {
        let open = |storage: &Storage| Words::with_records(storage, options);
        let Begun { storage, words: (words, memory), last } =
            opened.begin(Self::NAME, open, |_| ())?;
        let shape = Shape::of(&storage, options);
        let ground = Ground::new(storage, words);
        let memory = memory.starting_after(last);
        let workers = Workers::new(ground.layout.slots, last.0);
        let truncation = Mutex::new(Truncation::new(&ground, last.0));
        Ok((Redo { memory, ground, workers, truncation }, shape))
    }

    fn clock(&self) -> &AtomicU64 {
        self.memory.clock()
    }

    /// As in `undo`.
    #[inline]
    fn settle(&self, log: &mut Log) -> bool {
        let durable = !log.drawn || self.workers.poison.check().is_ok();
        if std::mem::take(&mut log.drawn) && durable {
            self.workers.slot(log.slot).idle();
        }
        durable
    }

    /// Makes room in a worker's slot, whose records are all at home then.
    #[cold]
    fn make_room(&self, log: &mut Log) -> Result<(), Error> {
        let slot = self.workers.slot(log.slot);
        loop {
            let mut truncation = lock(&self.truncation);
            if truncation.tail(log.slot) < log.at {
                self.truncate(&mut truncation)?;
            }
            if truncation.restart(log.slot, log.at, &slot.filled) {
                log.at = 0;
                return Ok(());
            }
            // A commit with a lower ID is under way.
            drop(truncation);
            spin_loop();
            thread::yield_now();
        }
    }

    /// Brings home what records up to the frontier say, and forgets them: two persist barriers.
    fn truncate(&self, truncation: &mut MutexGuard<'_, Truncation>) -> Result<(), Error> {
        self.workers.poison.check()?;
        let guard = self.workers.poison.on_panic("truncation");
        let done = self.forget(truncation).map_err(|error| self.workers.poison.put(error));
        guard.disarm();
        done
    }

    fn forget(&self, truncation: &mut Truncation) -> Result<(), Error> {
        // The largest frontier that was ever computed: the frontier itself may go back (see
        // `workers`), and a head that goes back lets a crash replay what newer heads have passed,
        // whose slots may be written again from their beginning by then. All up to it is durable:
        // who computed it saw so, and `durable` shows us what that one has seen.
        let frontier = self.workers.durable(self.clock());
        truncation.forget(&self.ground, &self.workers, frontier, || 0)
    }
}

impl Design for Redo {
    const NAME: &'static str = "redo";
    const DURABLE: bool = true;
    const WORKERS_MAX: usize = super::format::SLOTS_MAX;
    type Local = Local;

    fn create(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        let (storage, created) = Storage::create(path, options, Self::NAME, Words::memory_bytes)?;
        created.or_remove(|| Self::start(Opened::created(storage)?, options))
    }

    fn open(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        Self::start(Opened::open(path, options, Words::memory_bytes)?, options)
    }

    #[inline]
    fn words(&self) -> usize {
        self.ground.heap().len()
    }

    #[inline]
    fn peek(&self, index: usize) -> u64 {
        self.ground.heap()[index].load(Ordering::Relaxed)
    }

    fn poke(&self, index: usize, value: u64) {
        self.ground.store(index, value);
    }

    fn local(&self, number: usize) -> Result<Local, Error> {
        self.workers.enter(Self::NAME, number)?;
        let slot = self.workers.slot(number);
        let log = Log {
            slot: number,
            key: self.ground.key(number),
            sequence: 1 + *lock(&slot.sequence),
            at: slot.filled.load(Ordering::Acquire),
            wanted: 0,
            record: Vec::new(),
            drawn: false,
            committing: false,
        };
        Ok(Local { attempt: self.memory.attempt(number), buffer: Buffer::new(), log })
    }

    fn close_local(&self, local: &mut Local) {
        *lock(&self.workers.slot(local.log.slot).sequence) = local.log.sequence - 1;
    }

    fn words_max(&self) -> usize {
        let words = self.ground.layout.record_words();
        let left = words.saturating_sub(2 * self.ground.room(BEFORE_RUNS));
        left / 2 // each word a run of its own
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        self.workers.poison.check()
    }

    #[inline]
    fn begin(&self, local: &mut Local, read_only: bool) -> Result<(), Error> {
        self.check()?;
        // Room for a hole, always: an attempt that rolls back needs one, and must not wait.
        // What was wanted is forgotten: another transaction may want less.
        let wanted = std::mem::take(&mut local.log.wanted);
        if !local.log.has_room(&self.ground, wanted) {
            self.make_room(&mut local.log)?;
        }
        match read_only {
            false => self.memory.begin(&mut local.attempt),
            true => self.memory.begin_read(&mut local.attempt),
        }
        Ok(())
    }

    fn gate(&self) -> &Gate {
        self.memory.gate()
    }

    fn obstacle(&self, local: &mut Local) -> Obstacle {
        self.memory.obstacle(&mut local.attempt)
    }

    fn is_held(&self, key: u64, seen: u64) -> bool {
        self.memory.is_held(key, seen)
    }

    #[inline(always)]
    fn read(&self, local: &mut Local, at: At) -> Result<u64, Stop> {
        let space = Buffered { ground: &self.ground, buffer: &mut local.buffer };
        self.memory.read(&mut local.attempt, space, at.index)
    }

    #[inline]
    fn read_run(&self, local: &mut Local, at: At, out: &mut [u64]) -> Result<(), Stop> {
        let space = Buffered { ground: &self.ground, buffer: &mut local.buffer };
        self.memory.read_run(&mut local.attempt, space, at.index, out)
    }

    #[inline(always)]
    fn write(&self, local: &mut Local, at: At, value: u64) -> Result<(), Stop> {
        let space = Buffered { ground: &self.ground, buffer: &mut local.buffer };
        self.memory.write(&mut local.attempt, space, at.index, value)
    }

    #[inline(always)]
    fn write_run(&self, local: &mut Local, at: At, values: &[u64]) -> Result<(), Stop> {
        let space = Buffered { ground: &self.ground, buffer: &mut local.buffer };
        self.memory.write_run(&mut local.attempt, space, at.index, values)
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        self.memory.will_read(self.ground.heap(), index, words);
    }

    #[inline]
    fn will_write(&self, index: usize, words: usize) {
        self.memory.will_write(self.ground.heap(), index, words);
    }

    #[inline]
    fn words_written(&self, local: &Local) -> usize {
        self.memory.words_written(&local.attempt)
    }

    fn why_too_large(&self, _local: &Local) -> Option<Error> {
        Some(self.ground.slot_too_small(Self::NAME))
    }

    fn commit(&self, local: &mut Local) -> Result<TxId, Stop> {
        let Local { attempt, buffer, log } = local;
        let space = Buffered { ground: &self.ground, buffer };
        let mut end = End { redo: self, log };
        let committed = self.memory.commit(attempt, space, &mut end);
        let drew = log.drawn;
        if !self.settle(log) {
            return Err(Stop::Conflict); // the next attempt does not begin, and says why
        }
        let id = committed?;
        buffer.clear();
        if drew {
            // Acknowledged is what is durable with all before it.
            let slot = self.workers.slot(log.slot);
            let told = self.workers.acknowledge(slot, self.clock(), id.0);
            told.map_err(|_| Stop::Conflict)?;
        }
        Ok(id)
    }

    fn roll_back(&self, local: &mut Local) -> TxId {
        let Local { attempt, buffer, log } = local;
        if log.committing {
            // Unwound while it was made durable: as in `undo`. A tester whose machine's power went
            // wants to know what others would have seen.
            if self.ground.is_apart() {
                let record = &log.record;
                let words =
                    RECORD_HEAD_WORDS + record.get(1).map_or(0, |word| *word >> 32) as usize;
                show(&self.ground, record.get(BEFORE_RUNS..words).unwrap_or_default());
            }
            return self.committed_id();
        }
        let space = Buffered { ground: &self.ground, buffer };
        let mut end = End { redo: self, log };
        let seen = self.memory.roll_back(attempt, space, &mut end);
        self.settle(log);
        buffer.clear();
        seen
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

    fn tell(&self, id: TxId, listener: Listener) -> Result<(), Error> {
        listener.tell(self.wait(id));
        Ok(())
    }

    fn bring_home(&self) -> Result<(), Error> {
        let committed = self.committed_id();
        self.wait(committed)?;
        while self.reproduced_id() < committed {
            self.truncate(&mut lock(&self.truncation))?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.bring_home()?;
        self.ground.close(self.committed_id().0).map_err(|error| self.workers.poison.put(error))
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = self.workers.metrics();
        lock(&self.truncation).meter().add_to(&mut metrics);
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Medium;

    fn options() -> Options {
        Options::new().bytes(1 << 20).log_bytes(256 << 10).medium(Medium::PersistentCache)
    }

    fn write(redo: &Redo, local: &mut Local, value: u64) {
        redo.begin(local, false).unwrap();
        redo.write(local, At { object: 0, index: 100 }, value).unwrap();
        redo.commit(local).unwrap();
    }

    #[test]
    fn a_head_never_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let (redo, _) = Redo::create(&path, &options()).unwrap();
        let truncate = || {
            let mut truncation = lock(&redo.truncation);
            redo.truncate(&mut truncation).unwrap();
            truncation.head()
        };
        let mut local = redo.local(0).unwrap();
        redo.workers.enter(Redo::NAME, 1).unwrap();
        (1..=5).for_each(|value| write(&redo, &mut local, value));
        let clock = redo.clock().load(Ordering::Acquire);
        (6..=10).for_each(|value| write(&redo, &mut local, value));
        let head = truncate();
        assert_eq!(head.id, clock + 5);
        // It has read the clock, and waited until here.
        redo.workers.slot(1).drawing(clock);
        assert_eq!(redo.workers.frontier(redo.clock()), clock);
        assert_eq!(truncate(), head);
        assert_eq!(redo.durable_id().0, head.id);
        redo.workers.slot(1).idle();
        write(&redo, &mut local, 11);
        assert_eq!(truncate().id, head.id + 1);
    }

    #[test]
    fn ids_that_a_mark_cannot_hold_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        drop(Redo::create(&path, &options()).unwrap());
        let mut opened = Opened::open(&path, &options(), Words::memory_bytes).unwrap();
        opened.storage.superblocks.update(|now| now.reproduced = 1 << 50).unwrap();
        let (redo, _) = Redo::start(opened, &options()).unwrap();
        let mut local = redo.local(0).unwrap();
        (1..=3).for_each(|value| write(&redo, &mut local, value));
        drop(redo);
        let (redo, _) = Redo::open(&path, &options()).unwrap();
        assert_eq!((redo.committed_id().0, redo.peek(100)), ((1 << 50) + 3, 3));
    }
}
