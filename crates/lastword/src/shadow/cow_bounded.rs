//! `cow` with a bound: a private mapping of the heap image whose copies are dropped after
//! reproduction.
//!
//! A worker that begins an attempt while more is copied than the bound drops copies first, outside
//! of any attempt. [`copied_pages`](super::copied_pages) has the protocol. This module chooses
//! pages and times:
//! - The evictor marks pages and records the attempts in progress. A worker that begins after those
//!   have ended drops the pages still marked. Until then the marks stay, and no other page is
//!   marked.
//! - Up to twice the bound, no worker waits, neither for attempts of others nor for the evictor.
//! - Beyond, a beginning worker waits a moment for those attempts, once for each set of marks. One
//!   body that runs long must not make every other worker slow.
//!
//! So the copies exceed the bound by the writes of running transactions. While one body runs long
//! and other workers write, they grow: that lifts the bound.
//!
//! The kernel does the paging. An uncopied page belongs to the page cache: it takes no memory of
//! the process, is not bounded, and costs no check. It may be read from the disk again, and a
//! sector that cannot be read kills the process (see [`Memory::copy_on_write`]).
//!
//! Marks may outlast many attempts. A worker that begins after the marks sees them and sets back a
//! page that it writes; the grace period covers the attempts before.
//!
//! (DudeTM, section 4.3, uses hardware translation for its second kind of paging. Here the kernel's
//! page table translates, and the process drops pages itself.)

use medium::mutants::{Mutant, injected};
use medium::sync::Arc;
use medium::{Memory, PoolFile, cpu};
use words::{Stop, TxId};

use super::copied_pages::{Attempts, CopiedPages, Grace};
use super::{ShadowCounts, ShadowMemory, design_for, last_writer_id, pages_in};
use crate::perform::{Heap, Space};
use crate::pipeline::PipelineView;
use crate::sync::{AtomicU64, Mutex, Ordering, lock, spin_loop, thread, try_lock};
use crate::{Error, Options, Shadow};

/// The share of the bound that is dropped at a time, so that pages share a grace period and a scan
/// of the table. Chosen: a sixteenth keeps most of the bound in use.
const SHARE: usize = 16;
const BATCH_MAX: usize = 256;

/// Failed checks for the end of other attempts, for one set of marks. A body that waits for
/// something must not delay every worker. Chosen: about a millisecond.
const PATIENCE: u32 = 1000;

/// A private mapping whose copies are bounded.
#[derive(Debug)]
pub struct Evicting {
    memory: Memory,
    copies: CopiedPages,
    /// Shift from a word index to its page number.
    page_shift: u32,
    /// Most copied pages, unless attempts of other workers hold more.
    bound: usize,
    evictor: Mutex<Evictor>,
    evictions: AtomicU64,
    page_waits: AtomicU64,
}

/// The state of the thread that evicts.
#[derive(Debug, Default)]
struct Evictor {
    /// The page to check next.
    hand: usize,
    /// Pages marked at one time; attempts may have set some of them back.
    marked: Vec<usize>,
    /// The attempts in progress at that time.
    grace: Grace,
    /// Checks left for which a thread waits.
    patience: u32,
}

impl ShadowMemory for Evicting {
    type Part = Attempts;

    fn check(options: &Options) -> Result<(), Error> {
        if options.shadow != Shadow::CopyOnWrite {
            let asked = if options.shadow == Shadow::Full { "full" } else { "software" };
            return Err(Error::OtherShadow { asked, design: design_for(options) });
        }
        let pages = options.shadow_bytes.map(|bytes| pages_in(bytes, Memory::page_bytes()));
        pages.transpose().map(drop)
    }

    fn memory_bytes(_options: &Options, _heap_bytes: u64) -> u64 {
        0
    }

    fn open(
        options: &Options,
        file: &Arc<PoolFile>,
        offset: u64,
        bytes: u64,
    ) -> Result<Evicting, Error> {
        let (page_bytes, room) = (Memory::page_bytes(), options.room(bytes));
        Ok(Evicting {
            memory: Memory::copy_on_write_growing(Arc::clone(file), offset, bytes, room)?,
            copies: CopiedPages::new(room.div_ceil(page_bytes) as usize),
            page_shift: (page_bytes / 8).trailing_zeros(),
            bound: pages_in(options.shadow_bytes.unwrap_or(bytes), page_bytes)?,
            evictor: Mutex::default(),
            evictions: AtomicU64::new(0),
            page_waits: AtomicU64::new(0),
        })
    }

    #[inline]
    fn words(&self) -> usize {
        self.memory.words().len()
    }

    fn part(&self) -> Attempts {
        self.copies.attempts()
    }

    fn leave(&self, part: &mut Attempts) {
        self.copies.leave(part);
    }

    #[inline]
    fn begin(&self, part: &mut Attempts, pipeline: PipelineView<'_>) -> Result<(), Error> {
        if self.copies.copied() > self.bound {
            self.evict(pipeline)?;
        }
        part.begin();
        Ok(())
    }

    #[inline(always)]
    fn space<'a>(
        &'a self,
        _part: &'a mut Attempts,
        _pipeline: PipelineView<'a>,
    ) -> impl Space + 'a {
        Private(self)
    }

    #[inline(always)]
    fn hints(&self) -> impl Space {
        self.memory.words()
    }

    #[inline]
    fn end(&self, part: &mut Attempts) {
        part.end();
    }

    #[inline]
    fn peek(&self, index: usize, _pipeline: PipelineView<'_>) -> u64 {
        self.memory.words()[index].load(Ordering::Relaxed)
    }

    fn poke(&self, index: usize, value: u64, _pipeline: PipelineView<'_>) {
        let attempts = self.copies.attempts();
        attempts.begin();
        self.copies.open(index >> self.page_shift);
        self.memory.words()[index].store(value, Ordering::Relaxed);
        attempts.end();
        self.copies.leave(&attempts);
    }

    fn counts(&self) -> ShadowCounts {
        ShadowCounts {
            page_ins: 0, // the kernel's
            evictions: self.evictions.load(Ordering::Relaxed),
            page_waits: self.page_waits.load(Ordering::Relaxed),
        }
    }
}

impl Evicting {
    /// Drops copies until the count is within the bound, or attempts of other workers prevent it.
    #[cold]
    fn evict(&self, pipeline: PipelineView<'_>) -> Result<(), Error> {
        // Threads that wait here have not begun an attempt, so no thread waits for them.
        let evictor = match self.is_far_beyond() {
            true => Some(lock(&self.evictor)),
            false => try_lock(&self.evictor),
        };
        let Some(mut evictor) = evictor else { return Ok(()) };
        let batch = (self.bound / SHARE).clamp(1, BATCH_MAX);
        // Attempts may have set back all older marks.
        let mut are_fresh = false;
        while self.copies.copied() > self.bound {
            if evictor.marked.is_empty() {
                are_fresh = true;
                let wanted = batch + self.copies.copied().saturating_sub(self.bound);
                if !self.mark(&mut evictor, wanted, pipeline) {
                    // No copy is reproduced.
                    self.page_waits.fetch_add(1, Ordering::Relaxed);
                    pipeline.wait_reproduced(pipeline.committed())?;
                    self.mark(&mut evictor, wanted, pipeline);
                }
                // After the marks: the grace period must include attempts that may have missed
                // them.
                (evictor.grace, evictor.patience) = (self.copies.grace(), PATIENCE);
            }
            if !self.wait_for_others(&mut evictor) {
                break;
            }
            match self.drop_marked(&mut evictor, pipeline) {
                Ok(dropped) if are_fresh && !dropped => break,
                Ok(_) => {}
                Err(error) => {
                    // `poison` is called without a lock.
                    drop(evictor);
                    return Err(pipeline.poison(error.into()));
                }
            }
        }
        Ok(())
    }

    /// Whether more than twice the bound is copied.
    fn is_far_beyond(&self) -> bool {
        self.copies.copied() / 2 >= self.bound
    }

    /// Marks up to `wanted` reproduced pages; returns whether any page is marked.
    fn mark(&self, evictor: &mut Evictor, wanted: usize, pipeline: PipelineView<'_>) -> bool {
        let reproduced = match injected(Mutant::LastWriterIgnored) {
            true => u64::MAX,
            false => pipeline.reproduced(),
        };
        let mut newer = 0;
        for _ in 0..self.copies.len() {
            if evictor.marked.len() >= wanted {
                break;
            }
            let page = evictor.hand;
            evictor.hand = (page + 1) % self.copies.len();
            match self.copies.mark(page, reproduced) {
                (_, true) => evictor.marked.push(page),
                (copied, false) => newer += usize::from(copied),
            }
        }
        if newer > evictor.marked.len() {
            pipeline.expedite();
        }
        !evictor.marked.is_empty()
    }

    /// Drops the marked pages that may be dropped, after the grace period; returns whether any was
    /// dropped.
    ///
    /// # Errors
    /// The system's, which keeps the rest; the caller poisons the pool.
    fn drop_marked(
        &self,
        evictor: &mut Evictor,
        pipeline: PipelineView<'_>,
    ) -> Result<bool, medium::Error> {
        let reproduced = match injected(Mutant::LastWriterIgnored) {
            true => u64::MAX,
            false => pipeline.reproduced(),
        };
        evictor.marked.retain(|page| self.copies.begin_drop(*page, reproduced));
        // Neighbours with one call: a separate call for each page costs four times as much.
        evictor.marked.sort_unstable();
        let (mut dropped, mut refused) = (0, None);
        for run in evictor.marked.chunk_by(|page, next| page + 1 == *next) {
            let (first, words) = (run[0] << self.page_shift, run.len() << self.page_shift);
            let forgotten = refused.is_none()
                && self.memory.forget(first, words).map_err(|error| refused = Some(error)).is_ok();
            if forgotten {
                run.iter().for_each(|page| self.copies.dropped(*page));
                dropped += run.len();
            } else {
                // A writer must not wait for these pages forever. The system may have dropped some
                // of them: the file has the same words.
                run.iter().for_each(|page| self.copies.stays(*page));
            }
        }
        evictor.marked.clear();
        self.evictions.fetch_add(dropped as u64, Ordering::Relaxed);
        refused.map_or(Ok(dropped > 0), Err)
    }

    /// Returns whether every attempt in progress at the marks has ended. Waits for that, within its
    /// patience, while far beyond the bound.
    fn wait_for_others(&self, evictor: &mut Evictor) -> bool {
        loop {
            if evictor.grace.is_over() {
                return true;
            }
            if evictor.patience == 0 || !self.is_far_beyond() {
                return false;
            }
            evictor.patience -= 1;
            let is_first = evictor.patience > PATIENCE / 10 * 9;
            if is_first { spin_loop() } else { thread::yield_now() }
        }
    }
}

/// The words as one attempt sees them: a heap in one piece, except for the first write to a page.
struct Private<'a>(&'a Evicting);

impl Private<'_> {
    #[inline(always)]
    fn heap(&self) -> &Heap {
        self.0.memory.words()
    }

    #[inline(always)]
    fn page(&self, index: usize) -> usize {
        index >> self.0.page_shift
    }
}

impl Space for Private<'_> {
    #[inline(always)]
    fn load(&mut self, index: usize) -> Result<u64, Stop> {
        Ok(self.heap()[index].load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        self.heap().load_run(index, out)
    }

    #[inline(always)]
    fn open(&mut self, stripe_begin: usize) -> Result<(), Stop> {
        self.0.copies.open(self.page(stripe_begin));
        Ok(())
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        self.heap()[index].store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        self.heap()[index].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn touched(&mut self, stripe_begin: usize, id: TxId) {
        if let Some(id) = last_writer_id(id) {
            self.0.copies.touch(self.page(stripe_begin), id);
        }
    }

    #[inline(always)]
    fn prefetch_read(&self, index: usize) {
        cpu::prefetch_read(self.heap(), index);
    }

    #[inline(always)]
    fn prefetch_write(&self, index: usize) {
        cpu::prefetch_write(self.heap(), index);
    }
}
