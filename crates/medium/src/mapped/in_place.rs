//! Mapped memory for transactions that run in place and for log slots that are stored to.
//!
//! A [`MappedHeap`](super::MappedHeap) takes batches from one thread. Here many threads load, store
//! and wait for their own stores. The callers arrange the order of stores to each word.
//!
//! ```text
//!   load           what was stored last, durable or not
//!   store          into the cache: a crash may keep it or not, as the cache likes (A1)
//!   write_back     starts to write a line back                  } durable at the
//!   stream         past the cache                               } thread's next barrier (A2, A3)
//! ```
//!
//! On a simulated machine, loads read a copy of the words in ordinary memory. A load does not
//! affect the state after a crash, so it costs the same everywhere.

use std::ops::Range;

use crate::area::Area;
use crate::cpu::{LINE_BYTES, LINE_WORDS, LineWriteBack};
use crate::error::Error;
use crate::frozen::{FrozenImage, PAGE_WORDS};
use crate::frozen_memory::{FrozenMemory, read_pages};
use crate::mapped::checksums::MappedChecksums;
use crate::mapped::domain::Domain;
use crate::mapped::emulation::Emulation;
use crate::mapped::stores::{Mapped, Stores};
use crate::memory::Memory;
use crate::pool_file::PoolFile;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::traits::Scrubbed;
use system::SimulatedMemory;
use system::mutants::{Mutant, injected};

/// A mapped part of a file, for many threads. A barrier costs a fence, and the device's delay if it
/// is emulated; it covers what its own thread has stored.
///
/// ```
/// use medium::{Domain, Emulation, InPlace, PoolFile, Prewrite, sync::Arc};
///
/// let dir = tempfile::tempdir()?;
/// let file = Arc::new(PoolFile::create(dir.path().join("bank.pool"), 1 << 20, Prewrite::No)?);
/// let domain = Domain::dax(&file).unwrap_or(Domain::emulated(Emulation::new(1000, 0)));
/// let heap = InPlace::new(file, 4096, (1 << 20) - 4096, &domain)?;
/// heap.store(10, 42); // others see it; a crash may take it
/// heap.write_back(10);
/// heap.barrier(1)?; // durable
/// assert_eq!(heap.words()[10].load(medium::sync::Ordering::Relaxed), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct InPlace {
    /// Memory that loads read: the mapping itself, or a simulated machine's copy of it.
    view: Arc<Memory>,
    /// With its place, for errors.
    simulated: Option<(Box<dyn SimulatedMemory>, Area)>,
    write_back: Option<LineWriteBack>,
    emulation: Option<Arc<Emulation>>,
    /// The checksums of the pages, if this is a heap that has them.
    sums: Option<Arc<MappedChecksums>>,
    /// Frozen images of a heap. Pages with a checksum are watched, too.
    frozen: FrozenMemory,
}

impl InPlace {
    /// The area of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`]; [`Error::NoDax`], [`Error::ReadOnly`], [`Error::NoMemory`] (addresses or
    /// page tables) or [`Error::Io`] when it cannot be mapped.
    pub fn new(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        domain: &Domain,
    ) -> Result<InPlace, Error> {
        InPlace::growing(file, offset, bytes, bytes, domain)
    }

    /// The same for an area that [grows](PoolFile::grow) with the file up to `room` bytes. An
    /// access to words that the file does not have kills the process (`SIGBUS`).
    ///
    /// # Errors
    /// As [`new`](InPlace::new).
    pub fn growing(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        room: u64,
        domain: &Domain,
    ) -> Result<InPlace, Error> {
        let area = Area::with_room(file, offset, bytes, room)?;
        let (view, simulated) = match domain.map(&area)? {
            Mapped::Real(mapping) => (Memory::of_area(mapping, area), None),
            Mapped::Simulated(memory) => {
                let mut copy = Memory::anonymous(room)?;
                memory.read(0, &mut copy.words_mut()[..bytes as usize / 8]);
                (copy, Some((memory, area)))
            }
        };
        let (write_back, emulation) = (domain.write_back(), domain.emulation());
        let (view, sums, frozen) = (Arc::new(view), None, FrozenMemory::default());
        Ok(InPlace { view, simulated, write_back, emulation, sums, frozen })
    }

    /// Makes it a heap, which has frozen images and keeps the checksums of its pages, if it has
    /// any. Nothing may have been stored yet.
    pub fn as_heap(self, sums: Option<Arc<MappedChecksums>>) -> InPlace {
        let frozen = FrozenMemory::new(self.words().len());
        if sums.is_some() {
            frozen.watch();
        }
        InPlace { sums, frozen, ..self }
    }

    /// Marks a word's page as changed, before the word is stored, and copies it to the frozen
    /// images that lack it.
    #[inline(always)]
    fn before_store(&self, index: usize, lay_over: impl Fn(usize, &mut [u64])) {
        if self.frozen.is_watched(index) {
            self.first_store(index, &lay_over);
        }
    }

    #[cold]
    fn first_store(&self, index: usize, lay_over: &dyn Fn(usize, &mut [u64])) {
        let now = |first, out: &mut [u64]| self.now(first, out, lay_over);
        self.frozen.first_store_then(index, &now, || {
            // After the copy, which compares the page with this checksum.
            if let Some(sums) = &self.sums {
                sums.before_store(index, |page, out| self.read_page(page, out));
            }
        });
    }

    /// Reads neighboring pages for a frozen image.
    fn now(
        &self,
        first: usize,
        out: &mut [u64],
        lay_over: &dyn Fn(usize, &mut [u64]),
    ) -> Result<(), Error> {
        read_pages(self.words(), first, out);
        self.sums.as_ref().map_or(Ok(()), |sums| sums.check(first, out))?;
        lay_over(first, out);
        Ok(())
    }

    /// Begins a frozen image of a heap; see [`FrozenMemory::freeze`].
    pub fn freeze(&self, image: &Arc<FrozenImage>) {
        self.frozen.freeze(image);
    }

    /// Copies pages to a frozen image, as [`FrozenMemory::copy`]. `lay_over` gets the first page
    /// and the words of neighboring pages, and replaces those that the image has otherwise.
    pub fn copy_frozen(
        &self,
        image: &FrozenImage,
        pages: Range<usize>,
        lay_over: &dyn Fn(usize, &mut [u64]),
    ) {
        self.frozen.copy(image, pages, &|first, out| self.now(first, out, lay_over));
    }

    /// Whether there are any frozen images.
    #[inline]
    pub fn has_images(&self) -> bool {
        self.frozen.has_images()
    }

    /// Copies the pages of words to the frozen images that lack them: the caller is about to forget
    /// what `lay_over` knows of these words.
    #[inline]
    pub fn keep(&self, first: usize, words: usize, lay_over: impl Fn(usize, &mut [u64])) {
        for page in first / PAGE_WORDS..(first + words).div_ceil(PAGE_WORDS) {
            self.before_store(page * PAGE_WORDS, &lay_over);
        }
    }

    /// Ends a frozen image.
    pub fn thaw(&self, image: &Arc<FrozenImage>) {
        self.frozen.thaw(image);
    }

    /// Compares pages with their checksums, and adds the result. Damaged pages are marked, durably.
    /// The first stores to pages that have a checksum wait.
    pub fn scrub(&self, pages: Range<usize>, scrubbed: &mut Scrubbed) {
        if let Some(sums) = &self.sums {
            sums.scrub(pages, scrubbed, |page, out| self.read_page(page, out));
        }
    }

    /// Makes the changed pages of a heap of so many bytes durable, then computes their checksums
    /// and makes those durable. No thread stores to it meanwhile. Two persist barriers, or none if
    /// no page has changed.
    ///
    /// # Errors
    /// [`Error::DamagedPages`] of pages that differed from their checksums before they changed; as
    /// [`barrier`](InPlace::barrier).
    pub fn seal(&self, heap_bytes: u64) -> Result<(), Error> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let settle = |page: usize| {
            let lines = (page * PAGE_WORDS..(page + 1) * PAGE_WORDS).step_by(LINE_WORDS);
            lines.map(|word| self.write_back(word)).count() as u64
        };
        let pages = 0..(heap_bytes / 8) as usize / PAGE_WORDS;
        let barrier = |lines| self.barrier(lines).map(drop);
        sums.seal(pages, settle, barrier, |page, out| self.read_page(page, out))?;
        self.frozen.watch();
        Ok(())
    }

    fn read_page(&self, page: usize, out: &mut [u64]) {
        read_pages(self.words(), page, out);
    }

    /// Returns the words for loads. A simulated machine does not see stores that bypass
    /// [`store`](InPlace::store).
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        self.view.words()
    }

    /// Returns the memory that has the words, for callers that mostly load.
    pub fn memory(&self) -> Arc<Memory> {
        Arc::clone(&self.view)
    }

    /// Stores a word into the cache. Relaxed: the caller orders it for other threads.
    #[inline(always)]
    pub fn store(&self, index: usize, value: u64) {
        self.store_over(index, value, |_, _| ());
    }

    /// Does the same in a heap whose frozen images need the `lay_over` of
    /// [`copy_frozen`](InPlace::copy_frozen).
    #[inline(always)]
    pub fn store_over(&self, index: usize, value: u64, lay_over: impl Fn(usize, &mut [u64])) {
        self.before_store(index, lay_over);
        self.words()[index].store(value, Ordering::Relaxed);
        if let Some((memory, _)) = &self.simulated {
            memory.store(index, &[value]);
        }
    }

    /// Stores a word into the cache if the word is `current`; returns the old value. Orders as a
    /// lock does: a thread that loads the new word with Acquire sees all stores before this one.
    ///
    /// # Errors
    /// The value found instead.
    #[inline(always)]
    pub fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
        self.before_store(index, |_, _| ());
        let (word, done) = (&self.words()[index], Ordering::AcqRel);
        let was = word.compare_exchange(current, new, done, Ordering::Acquire)?;
        if let Some((memory, _)) = &self.simulated {
            memory.store(index, &[new]);
        }
        Ok(was)
    }

    /// Stores words such that the thread's next barrier makes them durable: past the cache, unless
    /// the cache is durable.
    #[inline(always)]
    pub fn stream(&self, first: usize, words: &[u64]) {
        // A log or a table, whose pages nothing watches.
        debug_assert!(self.sums.is_none());
        match self.write_back {
            Some(_) => self.words().stream(first, words),
            None => self.words().store(first, words),
        }
        if let Some((memory, _)) = &self.simulated {
            match self.write_back {
                Some(_) => memory.stream(first, words),
                None => memory.store(first, words),
            }
        }
    }

    /// Stores words into the cache, and leaves the time of their write-back to it (A1).
    #[inline(always)]
    pub fn leave(&self, first: usize, words: &[u64]) {
        debug_assert!(self.sums.is_none());
        self.words().store(first, words);
        if let Some((memory, _)) = &self.simulated {
            memory.store(first, words);
        }
    }

    /// Starts to write a word's line back, with all that was stored to it by any thread and that
    /// this one sees; the thread's next barrier makes it durable. Nothing where the cache is
    /// durable.
    #[inline(always)]
    pub fn write_back(&self, index: usize) {
        let Some(way) = self.write_back else { return };
        match &self.simulated {
            None if injected(Mutant::LineInPlaceNotWrittenBack) => {}
            None => way.line(self.words(), index),
            Some((memory, _)) => memory.write_back(index),
        }
    }

    /// Whether stores are durable once they are in the cache.
    #[inline(always)]
    pub fn is_cache_durable(&self) -> bool {
        self.write_back.is_none()
    }

    /// Returns whether the simulated machine's power is off; stores are lost from then on.
    pub fn is_off(&self) -> bool {
        self.simulated.as_ref().is_some_and(|(memory, _)| memory.is_off())
    }

    /// Persist barrier: this thread's write-backs and streamed stores are durable when it returns.
    /// `lines` is their number since the last barrier, for the emulated device. Returns the cycles
    /// that the emulated device took.
    ///
    /// # Errors
    /// [`Error::Poisoned`] on a simulated machine whose power went while this thread unwinds.
    #[inline(always)]
    pub fn barrier(&self, lines: u64) -> Result<u64, Error> {
        self.words().fence();
        if let Some((memory, area)) = &self.simulated {
            // Ask the fence itself: another thread may cut the power right after it.
            if !memory.fence() {
                return Err(area.poisoned());
            }
        }
        Ok(self.emulation.as_ref().map_or(0, |device| device.wait(lines * LINE_BYTES as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};

    #[test]
    fn what_is_stored_and_streamed_is_in_the_file() {
        for domain in suite::domains() {
            let (_dir, file) = suite::pool();
            let heap_image = InPlace::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
            heap_image.store(3, 33);
            heap_image.write_back(3);
            heap_image.stream(9, &[99, 100]);
            heap_image.barrier(2).unwrap();
            let mut words = [0; 11];
            file.read_at(HEAP_OFFSET, &mut words).unwrap();
            assert_eq!(words, [0, 0, 0, 33, 0, 0, 0, 0, 0, 99, 100]);
            assert_eq!(heap_image.words()[10].load(Ordering::Relaxed), 100);
        }
    }

    #[test]
    fn only_emulated_device_delays_barriers() {
        let (_dir, file) = suite::pool();
        let of = |domain| InPlace::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
        assert_eq!(of(Domain::persistent_cache()).barrier(1).unwrap(), 0);
        let device = Emulation::new(1000, 0);
        assert!(of(Domain::emulated(device)).barrier(1).unwrap() >= 1000);
    }
}
