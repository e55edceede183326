//! The slot store: the heap that transactions work on, and one log slot per worker.
//!
//! `undo`, `redo` and `snapshot` share it. It hides the medium from them:
//!
//! | medium | transactions work on | a record becomes durable by | the heap image is written by |
//! |---|---|---|---|
//! | mapped | the heap image | non-temporal stores, a fence | line write-backs, a fence |
//! | `file` | a copy of it in memory | one write with `RWF_DSYNC` | page writes, one sync |
//!
//! On `file` no word leaves memory before the design writes it. On mapped media the cache may write
//! back any stored word at any time (A1), so correctness rests on the order of stores and barriers.
//! Each design documents its order.

use std::path::PathBuf;

use medium::mutants::{Mutant, injected};
use medium::{Domain, FrozenMemory, HeapMedium, InPlace, LogMedium, Memory, Parts, PoolFile};

use super::format::{Head, Key, Layout, UNIT_WORDS, WITNESS_WORDS, WITNESSES};
use super::witnesses::{Says, Witnesses};
use super::workers::Meter;
use crate::design::Design;
use crate::perform::{Heap, Stm, Tm, records_of};
use crate::shadow::{PAGE_BYTES, ShadowHeap, ShadowMemory};
use crate::storage::{Demand, Storage};
use crate::superblock::{GrowthStep, Superblock, Superblocks};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, lock};
use crate::{Error, Medium, Options};

/// Words in a block of a log file. A record fills whole blocks, so no write shares one with
/// another.
const BLOCK_WORDS: usize = 512;

/// The heap and the log slots of an open pool.
pub(super) struct SlotStore {
    /// The heap: the image itself, or a copy of it. Kept outside `place` so that a load does not
    /// branch on the medium.
    memory: Arc<Memory>,
    pub(super) place: Place,
    superblocks: Mutex<Superblocks>,
    superblock: Superblock,
    /// The file that holds the log, for errors.
    log_path: PathBuf,
    pub(super) layout: Layout,
    witnesses: Witnesses,
}

pub(super) enum Place {
    Mapped {
        heap: InPlace,
        log: InPlace,
    },
    Files {
        image: Mutex<Parts>,
        /// Commits and truncations that wait for `image`.
        waiting: AtomicUsize,
        /// Frozen images of the heap in memory. `None`: those of `image`.
        memory: Option<FrozenMemory>,
        log: Arc<PoolFile>,
        /// Holds the lock on the log's file.
        _log: Arc<dyn LogMedium>,
    },
}

/// The heap that transactions will work on, of a pool whose heap image is consistent.
pub(super) enum Words {
    /// The mapped heap image and the mapped log.
    Mapped(Box<(InPlace, InPlace)>),
    Image(ShadowHeap),
}

impl Words {
    /// Opens the heap as [`open`](Words::open) does, and creates a transactional memory for it.
    pub(super) fn with_records(
        storage: &Storage,
        options: &Options,
    ) -> Result<(Words, Stm), Error> {
        let words = Words::open(storage, options)?;
        let room = options.room(storage.superblocks.current().heap_bytes);
        Ok((words, Stm::sized(room as usize / 8, options.ownership_records)?))
    }

    /// Returns the anonymous memory that a pool of this design needs.
    pub(super) fn demand<D: Design>(options: &Options, medium: Medium, bytes: u64) -> Demand {
        let heap_bytes = match medium {
            Medium::File => ShadowHeap::memory_bytes(options, bytes),
            Medium::Dax | Medium::PersistentCache | Medium::Emulated { .. } => 0,
        };
        let records = || records_of(options.room(bytes) as usize / 8, options.ownership_records);
        Demand { heap_bytes, records: if D::HAS_RECORDS { records() } else { 0 } }
    }

    /// Maps the heap image and the log, or reads the heap image into memory.
    pub(super) fn open(storage: &Storage, options: &Options) -> Result<Words, Error> {
        ShadowHeap::check(options)?;
        let superblock = storage.superblocks.current();
        let Superblock { heap_offset, heap_bytes, log_offset, log_bytes, .. } = *superblock;
        let map = |offset, bytes, room, domain: &Domain| {
            InPlace::growing(Arc::clone(&storage.file), offset, bytes, room, domain)
        };
        Ok(match &storage.domain {
            Some(domain) => {
                let heap = map(heap_offset, heap_bytes, options.room(heap_bytes), domain)?;
                let heap = heap.as_heap(storage.sums.of_mapping());
                Words::Mapped(Box::new((heap, map(log_offset, log_bytes, log_bytes, domain)?)))
            }
            None => {
                Words::Image(ShadowHeap::open(options, &storage.file, heap_offset, heap_bytes)?)
            }
        })
    }
}

impl SlotStore {
    /// `early`: transactions store words where others see them before they commit.
    pub(super) fn new(storage: Storage, words: Words, early: bool) -> SlotStore {
        let superblock = *storage.superblocks.current();
        let log_path = storage.log_path().to_path_buf();
        let (memory, place) = match words {
            Words::Mapped(both) => {
                let (heap, log) = *both;
                (heap.memory(), Place::Mapped { heap, log })
            }
            Words::Image(image) => {
                let image = image.into_memory();
                let memory = (!early).then(|| FrozenMemory::new(image.words().len()));
                let place = Place::Files {
                    image: Mutex::new(storage.heap_image),
                    waiting: AtomicUsize::new(0),
                    memory,
                    log: storage.log_file.unwrap_or(storage.file),
                    _log: storage.log,
                };
                (Arc::new(image), place)
            }
        };
        let superblocks = Mutex::new(storage.superblocks);
        let layout = Layout::of(superblock.log_bytes);
        let witnesses = Witnesses::new(layout.slots, early);
        SlotStore { memory, place, superblocks, superblock, log_path, layout, witnesses }
    }

    /// Whether transactions work on the heap image itself.
    #[inline(always)]
    pub(super) fn is_in_place(&self) -> bool {
        matches!(self.place, Place::Mapped { .. })
    }

    /// Returns the words of the heap.
    #[inline(always)]
    pub(super) fn heap(&self) -> &Heap {
        self.memory.words()
    }

    /// Stores a word where other threads see it.
    #[inline(always)]
    pub(super) fn store(&self, index: usize, value: u64) {
        self.store_over(index, value, |_, _| ());
    }

    /// Does the same where frozen images need the `lay_over` of
    /// [`copy_frozen`](SlotStore::copy_frozen).
    #[inline(always)]
    pub(super) fn store_over(
        &self,
        index: usize,
        value: u64,
        lay_over: impl Fn(usize, &mut [u64]),
    ) {
        match &self.place {
            Place::Mapped { heap, .. } => heap.store_over(index, value, lay_over),
            Place::Files { memory, .. } => {
                self.before_store(memory.as_ref(), index);
                self.heap()[index].store(value, Ordering::Relaxed);
            }
        }
    }

    /// Whether there are any frozen images of a mapped heap image.
    #[inline]
    pub(super) fn has_images_in_place(&self) -> bool {
        matches!(&self.place, Place::Mapped { heap, .. } if heap.has_images())
    }

    /// Copies pages of a mapped heap image before their words' records are voided; see
    /// [`InPlace::keep`].
    pub(super) fn keep(&self, first: usize, words: usize, lay_over: impl Fn(usize, &mut [u64])) {
        if let Place::Mapped { heap, .. } = &self.place {
            heap.keep(first, words, lay_over);
        }
    }

    #[inline(always)]
    fn before_store(&self, memory: Option<&FrozenMemory>, index: usize) {
        if let Some(memory) = memory
            && memory.is_watched(index)
        {
            self.first_store(memory, index);
        }
    }

    /// Stores a word where other threads see it if it still holds `current`; see
    /// [`InPlace::exchange`].
    #[inline(always)]
    pub(super) fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
        match &self.place {
            Place::Mapped { heap, .. } => heap.exchange(index, current, new),
            Place::Files { memory, .. } => {
                self.before_store(memory.as_ref(), index);
                let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                self.heap()[index].compare_exchange(current, new, success, failure)
            }
        }
    }

    /// Whether stores no longer reach the medium (a simulated power failure), or never do by
    /// themselves.
    pub(super) fn is_detached(&self) -> bool {
        match &self.place {
            Place::Mapped { heap, .. } => heap.is_off(),
            Place::Files { .. } => true,
        }
    }

    /// Returns the last transaction of earlier generations. A mark of `redo` holds an ID relative
    /// to it, because a whole ID does not fit.
    #[inline(always)]
    pub(super) fn base(&self) -> u64 {
        self.superblock.reproduced
    }

    /// Returns the error for a transaction whose records do not fit even into an empty slot. The
    /// design lets it write at most `words_max` words.
    pub(super) fn slot_too_small(&self, design: &'static str, words_max: usize) -> Error {
        let (slots, slot_bytes) = (self.layout.slots, 8 * self.layout.record_words() as u64);
        let log_bytes = self.superblock.log_bytes;
        Error::SlotTooSmall { design, words_max, slot_bytes, slots, log_bytes }
    }

    /// Returns the key that seals the records of a slot.
    pub(super) fn key(&self, slot: usize) -> Key {
        Key::new(self.superblock.pool, self.superblock.generation, slot)
    }

    /// Returns the words that a record occupies in its slot: whole units, so that no write shares a
    /// unit with another.
    #[inline(always)]
    pub(super) fn room(&self, words: usize) -> usize {
        words.next_multiple_of(if self.is_in_place() { UNIT_WORDS } else { BLOCK_WORDS })
    }

    /// Writes a record, in whole units, to word `at` of a slot's records. Durable on return: one
    /// persist barrier. `says` are the first words of its witness; see [`Key::witness`].
    #[inline]
    pub(super) fn write_record(
        &self,
        (slot, key): (usize, &Key),
        at: usize,
        record: &[u64],
        says: Says,
        meter: &Meter,
    ) -> Result<(), Error> {
        debug_assert_eq!(record.len(), self.room(record.len()));
        meter.logged(record.len());
        let left = injected(Mutant::InPlaceFirst) || injected(Mutant::ReleasedFirst) && slot == 0;
        if injected(Mutant::WitnessBeforeRecord) {
            self.leave_witness((slot, key), (at, at + record.len()), says);
        }
        let due = self.store_due(slot, at);
        let place = self.layout.records_at(slot) + 8 * at as u64;
        self.write_log(&[(place, record)], due, meter, !left)?;
        // After the barrier: a crash may keep the witness, and would then lose the record.
        self.leave_witness((slot, key), (at, at + record.len()), says);
        Ok(())
    }

    /// Leaves the witness of the durable record at these words in the cache. No barrier: it only
    /// has to outlive the process.
    #[inline(always)]
    fn leave_witness(&self, (slot, key): (usize, &Key), record: (usize, usize), says: Says) {
        if let Place::Mapped { log, .. } = &self.place
            && !injected(Mutant::WitnessLeftOut)
        {
            let number = self.witnesses.next_line(slot);
            let at = self.layout.record_witness_at(slot, number) / 8;
            log.leave(at as usize, &key.witness(says.0, says.1));
            if !log.is_cache_durable() {
                self.witnesses.durable(slot, record, says);
            }
        }
    }

    /// Stores due witnesses past the cache, for the barrier of the record at word `at` of a slot.
    /// Returns the number of lines.
    #[inline(always)]
    fn store_due(&self, slot: usize, at: usize) -> u64 {
        let Place::Mapped { log, .. } = &self.place else { return 0 };
        self.witnesses.take((slot, at), |slot, number, (a, b)| {
            // A whole line, so that none has to be read.
            let mut line = [0; UNIT_WORDS];
            line[..WITNESS_WORDS].copy_from_slice(&self.key(slot).witness(a, b));
            let first = (self.layout.page_witness_at(slot, number) / 8) as usize;
            match injected(Mutant::SlotPageWitnessIntoCache) {
                false => log.stream(first, &line),
                true => log.leave(first, &line),
            }
        })
    }

    /// Prepares the witnesses of the first `slots` slots for a head that frees the records up to
    /// this ID or stamp. Returns the number of cache lines for the caller's next barrier.
    pub(super) fn keep_witnesses(&self, frontier: u64, slots: usize) -> u64 {
        let Place::Mapped { log, .. } = &self.place else { return 0 };
        self.witnesses.freeing(frontier);
        if log.is_cache_durable() || injected(Mutant::SlotWitnessNotKept) {
            return 0;
        }
        for slot in 0..slots {
            for number in 0..WITNESSES {
                log.write_back((self.layout.record_witness_at(slot, number) / 8) as usize);
            }
        }
        (WITNESSES * slots) as u64
    }

    /// Writes a slot's head, on mapped media twice. Durable on return: one persist barrier.
    #[inline]
    pub(super) fn write_head(
        &self,
        slot: usize,
        key: &Key,
        head: Head,
        meter: &Meter,
    ) -> Result<(), Error> {
        let (layout, words) = (&self.layout, key.head(head));
        let first = (layout.head_at(slot, head.sequence), &words[..]);
        // One barrier: recovery takes either copy, so it may find one without the other.
        let second = (layout.second_head_at(slot, head.sequence), &words[..]);
        let is_doubled = self.is_in_place() && !injected(Mutant::HeadNotDoubled);
        let copies = if is_doubled { &[first, second][..] } else { &[first] };
        self.write_log(copies, 0, meter, !injected(Mutant::HeadLeft))
    }

    /// Writes parts to the log, on `file` one. The barrier also waits for `more` stored lines. Only
    /// mutants pass `waits: false` and skip the barrier.
    #[inline(always)]
    fn write_log(
        &self,
        parts: &[(u64, &[u64])],
        more: u64,
        meter: &Meter,
        waits: bool,
    ) -> Result<(), Error> {
        let mut lines = more;
        for (at, words) in parts {
            match &self.place {
                Place::Mapped { log, .. } => {
                    log.stream((at / 8) as usize, words);
                    lines += (words.len() / UNIT_WORDS) as u64;
                }
                Place::Files { log, .. } if !waits => {
                    log.write_at(self.superblock.log_offset + at, words)?;
                }
                Place::Files { log, .. } => {
                    log.write_durable_at(self.superblock.log_offset + at, words)?;
                    meter.barrier(1, 0);
                }
            }
        }
        if let Place::Mapped { log, .. } = &self.place
            && waits
        {
            meter.barrier(lines, log.barrier(lines)?);
        }
        Ok(())
    }

    /// Reads a part of a slot's records back.
    pub(super) fn read_records(
        &self,
        slot: usize,
        at: usize,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let byte = self.layout.records_at(slot) + 8 * at as u64;
        match &self.place {
            Place::Mapped { log, .. } => {
                let first = (byte / 8) as usize;
                let words = &log.words()[first..first + out.len()];
                for (out, word) in out.iter_mut().zip(words) {
                    *out = word.load(Ordering::Relaxed);
                }
            }
            Place::Files { log, .. } => log.read_at(self.superblock.log_offset + byte, out)?,
        }
        Ok(())
    }

    /// Returns the error for a record at word `at` of a slot that has changed since it was written.
    #[cold]
    pub(super) fn changed_record(&self, slot: usize, at: usize) -> Error {
        let at = self.superblock.log_offset + self.layout.records_at(slot) + 8 * at as u64;
        Error::Changed { path: self.log_path.clone(), at }
    }

    /// Starts the write-back of words stored in the heap image. Returns the number of cache lines,
    /// which is 0 on `file`.
    #[inline]
    pub(super) fn write_back(&self, first: usize, words: usize) -> u64 {
        let Place::Mapped { heap, .. } = &self.place else { return 0 };
        let (first_line, last_line) = (first / UNIT_WORDS, (first + words - 1) / UNIT_WORDS);
        for line in first_line..=last_line {
            heap.write_back(line * UNIT_WORDS);
        }
        (last_line - first_line + 1) as u64
    }

    /// Waits until the `lines` that this thread has written back are durable. One persist barrier.
    #[inline]
    pub(super) fn flush_lines(&self, lines: u64, meter: &Meter) -> Result<(), Error> {
        let Place::Mapped { heap, .. } = &self.place else { return Ok(()) };
        meter.applied(lines * 64);
        meter.barrier(lines, heap.barrier(lines)?);
        Ok(())
    }

    /// Writes batches to the heap image, bypassing the copy in memory. Durable on return: one
    /// persist barrier.
    pub(super) fn write_pages(&self, batches: &[&[u64]], meter: &Meter) -> Result<(), Error> {
        let Place::Files { image, waiting, .. } = &self.place else { return Ok(()) };
        waiting.fetch_add(1, Ordering::Relaxed);
        let mut image = lock(image);
        waiting.fetch_sub(1, Ordering::Relaxed);
        let before = image.counts();
        for batch in batches {
            image.write_back(batch)?;
        }
        image.barrier()?;
        let after = image.counts();
        meter.applied(after.bytes - before.bytes);
        meter.device(after.device_writes - before.device_writes);
        meter.barriers(after.persist_barriers - before.persist_barriers);
        Ok(())
    }

    /// Records a step of the heap's growth. Two persist barriers.
    pub(super) fn record_growth(&self, step: GrowthStep) -> Result<(), Error> {
        Ok(lock(&self.superblocks).update(|now| now.record_growth(step))?)
    }

    /// Computes the unknown page checksums. No worker is left. Two persist barriers on
    /// mapped media, and one on `file`; none if no page has changed.
    pub(super) fn seal(&self) -> Result<(), Error> {
        let heap_bytes = lock(&self.superblocks).current().heap_bytes;
        match &self.place {
            Place::Mapped { heap, .. } => heap.seal(heap_bytes)?,
            Place::Files { image, .. } => {
                lock(image).seal(0..(heap_bytes / PAGE_BYTES) as usize)?;
            }
        }
        Ok(())
    }

    /// Records a clean shutdown: everything up to `last` is in the heap image. Two persist
    /// barriers.
    pub(super) fn mark_clean(&self, last: u64) -> Result<(), Error> {
        let mut superblocks = lock(&self.superblocks);
        superblocks.update(|now| {
            now.clean = true;
            now.reproduced = last;
        })?;
        Ok(())
    }
}
