//! What `undo`, `redo` and `snapshot` stand on: words that transactions work on, and a log that
//! each worker writes by itself.
//!
//! | medium | transactions work on | a record is durable by | words come home by |
//! |---|---|---|---|
//! | mapped | home itself | stores past the cache and a fence | lines written back, a fence |
//! | `file` | an image of home in memory | one write with `RWF_DSYNC` | pages, one sync |
//!
//! On `file` no undurable word can leave memory by itself; on mapped media any word that is stored
//! can (A1), so there the order of stores and barriers is everything: see the designs.

use std::path::PathBuf;

use medium::mutants::{Mutant, planted};
use medium::{Domain, HomeMedium, InPlace, LogMedium, Memory, Parts, PoolFile};

use super::format::{Head, Key, Layout, UNIT_WORDS};
use super::workers::Meter;
use crate::perform::{Heap, Stm, Tm};
use crate::shadow::{ShadowHeap, ShadowMemory};
use crate::storage::Storage;
use crate::superblock::{Superblock, Superblocks};
use crate::sync::{Arc, Mutex, Ordering, lock};
use crate::{Error, Medium, Options};

/// Words in a block of a log file: what one write shares with no other.
const BLOCK_WORDS: usize = 512;

/// Where an open pool's words and records are.
pub(super) struct Ground {
    /// What has the words: home, or an image of it. Here, whatever the place, so that a load asks
    /// nothing before it.
    memory: Arc<Memory>,
    place: Place,
    superblocks: Mutex<Superblocks>,
    superblock: Superblock,
    /// The file that has the log, for errors.
    log_path: PathBuf,
    pub(super) layout: Layout,
}

enum Place {
    /// Mapped media.
    Mapped { heap: InPlace, log: InPlace },
    /// Files.
    Files {
        home: Mutex<Parts>,
        log: Arc<PoolFile>,
        /// Has the lock on the log's file.
        _log: Arc<dyn LogMedium>,
    },
}

/// The words that transactions will work on, of a pool whose home is in order.
pub(super) enum Words {
    /// Home, and the log.
    Mapped(Box<(InPlace, InPlace)>),
    Image(ShadowHeap),
}

impl Words {
    /// Words as [`open`](Words::open), and a transactional memory for them.
    pub(super) fn with_records(
        storage: &Storage,
        options: &Options,
    ) -> Result<(Words, Stm), Error> {
        let words = Words::open(storage, options)?;
        let heap_words = storage.superblocks.current().heap_bytes as usize / 8;
        Ok((words, Stm::sized(heap_words, options.ownership_records)?))
    }

    /// Bytes of anonymous memory that [`open`](Words::open) asks for.
    pub(super) fn memory_bytes(options: &Options, medium: Medium, heap_bytes: u64) -> u64 {
        match medium {
            Medium::File => ShadowHeap::memory_bytes(options, heap_bytes),
            Medium::Dax | Medium::PersistentCache | Medium::Emulated { .. } => 0,
        }
    }

    /// Maps home and log, or reads home.
    pub(super) fn open(storage: &Storage, options: &Options) -> Result<Words, Error> {
        ShadowHeap::check(options)?;
        let superblock = storage.superblocks.current();
        let Superblock { heap_offset, heap_bytes, log_offset, log_bytes, .. } = *superblock;
        let map = |offset, bytes, domain: &Domain| {
            InPlace::new(Arc::clone(&storage.file), offset, bytes, domain)
        };
        Ok(match &storage.domain {
            Some(domain) => {
                let heap = map(heap_offset, heap_bytes, domain)?;
                Words::Mapped(Box::new((heap, map(log_offset, log_bytes, domain)?)))
            }
            None => {
                Words::Image(ShadowHeap::open(options, &storage.file, heap_offset, heap_bytes)?)
            }
        })
    }
}

impl Ground {
    pub(super) fn new(storage: Storage, words: Words) -> Ground {
        let superblock = *storage.superblocks.current();
        let log_path = storage.log_path().to_path_buf();
        let (memory, place) = match words {
            Words::Mapped(both) => {
                let (heap, log) = *both;
                (heap.memory(), Place::Mapped { heap, log })
            }
            Words::Image(image) => {
                let place = Place::Files {
                    home: Mutex::new(storage.home),
                    log: storage.log_file.unwrap_or(storage.file),
                    _log: storage.log,
                };
                (Arc::new(image.into_memory()), place)
            }
        };
        let superblocks = Mutex::new(storage.superblocks);
        let layout = Layout::of(superblock.log_bytes);
        Ground { memory, place, superblocks, superblock, log_path, layout }
    }

    /// Whether transactions work on home itself.
    #[inline(always)]
    pub(super) fn is_home(&self) -> bool {
        matches!(self.place, Place::Mapped { .. })
    }

    /// The words.
    #[inline(always)]
    pub(super) fn heap(&self) -> &Heap {
        self.memory.words()
    }

    /// Stores a word for others to see.
    #[inline(always)]
    pub(super) fn store(&self, index: usize, value: u64) {
        match &self.place {
            Place::Mapped { heap, .. } => heap.store(index, value),
            Place::Files { .. } => self.heap()[index].store(value, Ordering::Relaxed),
        }
    }

    /// Stores a word for others to see if `current` is there; see [`InPlace::exchange`].
    #[inline(always)]
    pub(super) fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
        match &self.place {
            Place::Mapped { heap, .. } => heap.exchange(index, current, new),
            Place::Files { .. } => self.heap()[index].compare_exchange(
                current,
                new,
                Ordering::AcqRel,
                Ordering::Acquire,
            ),
        }
    }

    /// Whether what is stored reaches nothing durable any more, or never by itself.
    pub(super) fn is_apart(&self) -> bool {
        match &self.place {
            Place::Mapped { heap, .. } => heap.is_off(),
            Place::Files { .. } => true,
        }
    }

    /// The last transaction before this generation: what the marks of `redo` count from, which have
    /// no room for a whole ID.
    #[inline(always)]
    pub(super) fn base(&self) -> u64 {
        self.superblock.reproduced
    }

    /// Why a transaction's records find no room, however empty their slot is.
    pub(super) fn slot_too_small(&self, design: &'static str) -> Error {
        let (slots, slot_bytes) = (self.layout.slots, 8 * self.layout.record_words() as u64);
        Error::SlotTooSmall { design, slot_bytes, slots, log_bytes: self.superblock.log_bytes }
    }

    /// What seals the records of a slot.
    pub(super) fn key(&self, slot: usize) -> Key {
        Key::new(self.superblock.pool, self.superblock.generation, slot)
    }

    /// Words that a record takes in its slot: whole units of what one write may share with another.
    #[inline(always)]
    pub(super) fn room(&self, words: usize) -> usize {
        words.next_multiple_of(if self.is_home() { UNIT_WORDS } else { BLOCK_WORDS })
    }

    /// Writes a record, in whole units, to word `at` of a slot's records. Durable on return: one
    /// persist barrier.
    #[inline]
    pub(super) fn write_record(
        &self,
        slot: usize,
        at: usize,
        record: &[u64],
        meter: &Meter,
    ) -> Result<(), Error> {
        debug_assert_eq!(record.len(), self.room(record.len()));
        meter.logged(record.len());
        let left = planted(Mutant::InPlaceFirst) || planted(Mutant::ReleasedFirst) && slot == 0;
        self.write_log(self.layout.records_at(slot) + 8 * at as u64, record, meter, !left)
    }

    /// Writes a slot's head. Durable on return: one persist barrier.
    #[inline]
    pub(super) fn write_head(
        &self,
        slot: usize,
        key: &Key,
        head: Head,
        meter: &Meter,
    ) -> Result<(), Error> {
        let (at, waits) = (self.layout.head_at(slot, head.sequence), !planted(Mutant::HeadLeft));
        self.write_log(at, &key.head(head), meter, waits)
    }

    /// Writes to the log; whoever does not wait is a mutant.
    #[inline(always)]
    fn write_log(&self, at: u64, words: &[u64], meter: &Meter, waits: bool) -> Result<(), Error> {
        match &self.place {
            Place::Mapped { log, .. } => {
                log.stream((at / 8) as usize, words);
                if !waits {
                    return Ok(());
                }
                let lines = (words.len() / UNIT_WORDS) as u64;
                meter.barrier(lines, log.barrier(lines)?);
            }
            Place::Files { log, .. } if !waits => {
                log.write_at(self.superblock.log_offset + at, words)?;
            }
            Place::Files { log, .. } => {
                log.write_durable_at(self.superblock.log_offset + at, words)?;
                meter.barrier(1, 0);
            }
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

    /// The error of a record at word `at` of a slot's records that is not what was written there.
    #[cold]
    pub(super) fn changed_record(&self, slot: usize, at: usize) -> Error {
        let at = self.superblock.log_offset + self.layout.records_at(slot) + 8 * at as u64;
        Error::Changed { path: self.log_path.clone(), at }
    }

    /// Starts to write home words back that were stored, where they were stored at home; answers
    /// how many lines they are.
    #[inline]
    pub(super) fn write_back(&self, first: usize, words: usize) -> u64 {
        let Place::Mapped { heap, .. } = &self.place else { return 0 };
        let (first_line, last_line) = (first / UNIT_WORDS, (first + words - 1) / UNIT_WORDS);
        for line in first_line..=last_line {
            heap.write_back(line * UNIT_WORDS);
        }
        (last_line - first_line + 1) as u64
    }

    /// Makes durable what this thread has written back: so many lines. One persist barrier.
    #[inline]
    pub(super) fn lines_home(&self, lines: u64, meter: &Meter) -> Result<(), Error> {
        let Place::Mapped { heap, .. } = &self.place else { return Ok(()) };
        meter.home(lines * 64);
        meter.barrier(lines, heap.barrier(lines)?);
        Ok(())
    }

    /// Brings a batch home, past the image. Durable on return: one persist barrier.
    pub(super) fn pages_home(&self, batches: &[&[u64]], meter: &Meter) -> Result<(), Error> {
        let Place::Files { home, .. } = &self.place else { return Ok(()) };
        let mut home = lock(home);
        let before = home.counts();
        for batch in batches {
            home.write_back(batch)?;
        }
        home.barrier()?;
        let after = home.counts();
        meter.home(after.bytes - before.bytes);
        meter.device(after.device_writes - before.device_writes);
        meter.barriers(after.persist_barriers - before.persist_barriers);
        Ok(())
    }

    /// Marks the pool as left in good order: everything up to `last` is at home. Two persist
    /// barriers.
    pub(super) fn close(&self, last: u64) -> Result<(), Error> {
        let mut superblocks = lock(&self.superblocks);
        superblocks.update(|now| {
            now.clean = true;
            now.reproduced = last;
        })?;
        Ok(())
    }
}
