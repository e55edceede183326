//! Heap image in mapped memory: words are stored through the mapping and leave the cache.
//!
//! A batch is stored in one of three modes, which is the same from one barrier to the next:
//!
//! | | when | how |
//! |---|---|---|
//! | straight | the cache is not durable | past the cache |
//! | combining | the same, and few lines take most writes | stored; a line is written back once |
//! | in cache | the cache is durable | stored |
//!
//! `cargo bench -p lastword-medium --bench write_back`: 512 MiB on tmpfs, batches of
//! 1 MiB of log, million words a second on one core (medians of 5; in brackets, lines sent for a
//! word). With a device of 1 GB/s the last column becomes 8.5 straight, 16.3 combining.
//!
//! | | uniform | runs of 4 | zipf, scattered | zipf, side by side | 9 of 10 to 1000 lines |
//! |---|---|---|---|---|---|
//! | straight | 23.0 (1.00) | 61.9 (.34) | 23.8 (1.00) | 23.9 (.98) | 23.4 (1.00) |
//! | combining | 16.7 (1.00) | 39.5 (.34) | 17.2 (.69) | 18.4 (.56) | 21.4 (.18) |
//! | in cache | 20.6 | 58.9 | 24.7 | 27.6 | 30.0 |
//!
//! The straight mode bypasses the cache, because a store into it must fetch its line first. Storing
//! and writing back line by line (CLWB) took a fifth to two thirds longer in a throw-away program,
//! but 4 to 15 % less in the last column. A partial line is cheap for DRAM; media that write whole
//! lines only were not measured.
//!
//! Three alternatives did not pay in that program:
//! - Writing lines back 16 to 256 lines after their stores: as slow as at once.
//! - A map of all lines touched, written back at the barrier: half as fast as straight.
//! - Prefetching lines 4 to 64 runs ahead in straight mode: 0 to 10 % slower, since the store
//!   buffer looks ahead far enough. While combining, prefetching 16 runs ahead gains up to a
//!   quarter on runs of four.

use std::ops::Range;

use crate::area::Area;
use crate::cpu::{LINE_WORDS, LineWriteBack};
use crate::error::Error;
use crate::frozen::{FrozenImage, FrozenImages, PAGE_WORDS};
use crate::mapped::checksums::MappedChecksums;
use crate::mapped::combiner::{Combiner, Combining, first_word};
use crate::mapped::domain::{Account, Domain};
use crate::mapped::stores::{Mapped, Stores};
use crate::parts::{Parts, Share};
use crate::pool_file::PoolFile;
use crate::sync::{Arc, Ordering};
use crate::traits::{Counts, HeapMedium, Scrubbed};
use crate::writes::{self, Piece, Pieces};
use system::mutants::{Mutant, injected};

/// Runs between the prefetch of a line and the store to it while combining.
const AHEAD: usize = 16;

/// The heap in mapped memory. A barrier costs a fence, and the device's delay if it is emulated.
///
/// ```
/// use medium::{Domain, Emulation, HeapMedium, MappedHeap, PoolFile, Prewrite, sync::Arc, writes};
///
/// let dir = tempfile::tempdir()?;
/// let file = Arc::new(PoolFile::create(dir.path().join("bank.pool"), 1 << 20, Prewrite::No)?);
/// let domain = Domain::dax(&file).unwrap_or(Domain::emulated(Emulation::new(1000, 0)));
/// let mut heap = MappedHeap::new(file, 4096, (1 << 20) - 4096, &domain)?;
/// heap.write_back(&[writes::run(10, 2), 42, 43])?; // words 10 and 11 of the heap
/// heap.barrier()?; // durable
/// assert_eq!(heap.counts().device_writes, 1); // one line
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MappedHeap {
    /// Keeps the file locked, and so its length, while it is mapped.
    area: Area,
    mapped: Arc<Mapped>,
    /// Subset of each batch that this part writes; `None`: all of it.
    share: Option<Share>,
    write_back: Option<LineWriteBack>,
    combiner: Combiner,
    account: Account,
    frozen: FrozenImages,
    /// The checksums of the pages, if the pool has them.
    sums: Option<Arc<MappedChecksums>>,
}

impl MappedHeap {
    /// The heap of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`]; [`Error::NoDax`], [`Error::ReadOnly`], [`Error::NoMemory`] (addresses or
    /// page tables) or [`Error::Io`] when it cannot be mapped.
    pub fn new(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        domain: &Domain,
    ) -> Result<MappedHeap, Error> {
        MappedHeap::growing(file, offset, bytes, bytes, domain)
    }

    /// The same for a heap that [grows](PoolFile::grow) with the file up to `room` bytes. The
    /// caller writes no word that the file does not have: that would kill the process (`SIGBUS`).
    ///
    /// # Errors
    /// As [`new`](MappedHeap::new).
    pub fn growing(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        room: u64,
        domain: &Domain,
    ) -> Result<MappedHeap, Error> {
        let area = Area::with_room(file, offset, bytes, room)?;
        Ok(MappedHeap {
            mapped: Arc::new(domain.map(&area)?),
            area,
            share: None,
            write_back: domain.write_back(),
            combiner: Combiner::new(Combining::WhenSkewed),
            account: Account::new(domain),
            frozen: FrozenImages::default(),
            sums: None,
        })
    }

    /// Selects whether lines are combined (default [`Combining::WhenSkewed`]). Nothing may have
    /// been written since the last barrier.
    ///
    /// # Panics
    /// If something was written since the last barrier: its lines may wait.
    pub fn with_combining(mut self, combining: Combining) -> MappedHeap {
        assert!(self.combiner.is_idle(), "the rules change between batches");
        self.combiner = Combiner::new(combining);
        self
    }

    /// Keeps the checksums of the pages. Nothing may have been written yet.
    pub fn with_checksums(mut self, sums: Arc<MappedChecksums>) -> MappedHeap {
        self.sums = Some(sums);
        self
    }

    /// Splits this heap image into parts, one for each thread, over one mapping. Each part decides
    /// by itself whether to combine lines. Nothing may have been written yet.
    pub fn in_parts(self, parts: usize) -> Parts {
        let part = |share| MappedHeap {
            area: self.area.clone(),
            mapped: Arc::clone(&self.mapped),
            share,
            write_back: self.write_back,
            combiner: self.combiner.anew(),
            account: self.account.anew(),
            frozen: FrozenImages::default(),
            sums: self.sums.clone(),
        };
        Share::all(parts, self.area.bytes() / 8).map(part).collect()
    }
}

impl HeapMedium for MappedHeap {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), Error> {
        let (combiner, way) = (&mut self.combiner, self.write_back);
        let writes = match &mut self.share {
            Some(share) => share.pick(writes)?,
            None => {
                writes::check(writes, self.area.bytes() / 8)?;
                writes
            }
        };
        if !self.frozen.is_empty() {
            let sums = self.sums.as_deref();
            self.frozen.before_writes(writes, |page, out| now(&self.mapped, sums, page, out));
        }
        if let Some(sums) = &self.sums {
            let read = |page, out: &mut [u64]| read(&self.mapped, page, out);
            self.account.add_barriers(sums.before_changes(pages_of(writes), read)?);
        }
        let lines = match &*self.mapped {
            Mapped::Real(mapping) => put(mapping.words(), writes, combiner, way),
            Mapped::Simulated(memory) => put(&**memory, writes, combiner, way),
        };
        self.account.add_lines(lines);
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), Error> {
        let (combiner, way) = (&mut self.combiner, self.write_back);
        let lines = match &*self.mapped {
            Mapped::Real(mapping) => finish(mapping.words(), combiner, way),
            Mapped::Simulated(memory) => finish(&**memory, combiner, way),
        };
        self.account.add_lines(lines);
        self.account.barrier();
        Ok(())
    }

    fn freeze(&mut self, image: &Arc<FrozenImage>) -> bool {
        self.frozen.add(image);
        true
    }

    fn copy_frozen(&mut self, image: &FrozenImage, pages: Range<usize>) {
        let share = &self.share;
        let owns = |page| share.as_ref().is_none_or(|share| share.has((page * PAGE_WORDS) as u64));
        let sums = self.sums.as_deref();
        image.copy(pages, owns, |first, out| now(&self.mapped, sums, first, out));
    }

    fn thaw(&mut self, image: &Arc<FrozenImage>) {
        self.frozen.remove(image);
    }

    fn seal(&mut self, pages: Range<usize>) -> Result<bool, Error> {
        let Some(sums) = &self.sums else { return Ok(false) };
        let present = (self.area.present_bytes() / 8) as usize / PAGE_WORDS;
        let pages = pages.start..pages.end.min(present);
        // The barrier has made all pages durable.
        sums.seal(pages, |_| 0, |_| Ok(()), |page, out| read(&self.mapped, page, out))
    }

    fn scrub(&mut self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let share = &self.share;
        let owns = |page| share.as_ref().is_none_or(|share| share.has((page * PAGE_WORDS) as u64));
        let pages = pages.filter(|page| owns(*page));
        sums.scrub(pages, scrubbed, |page, out| read(&self.mapped, page, out));
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.account.counts()
    }
}

/// Returns the pages of each run of a batch.
fn pages_of(writes: &[u64]) -> impl Iterator<Item = Range<usize>> + Clone {
    Pieces::new(writes).filter_map(|piece| match piece {
        Piece::Run(index, words) => {
            let (first, end) = (index as usize, index as usize + words.len());
            Some(first / PAGE_WORDS..end.div_ceil(PAGE_WORDS))
        }
        Piece::Mark(_) => None,
    })
}

/// Reads the current content of neighbouring pages.
fn now(
    mapped: &Mapped,
    sums: Option<&MappedChecksums>,
    first: usize,
    out: &mut [u64],
) -> Result<(), Error> {
    read(mapped, first, out);
    sums.map_or(Ok(()), |sums| sums.check(first, out))
}

fn read(mapped: &Mapped, first: usize, out: &mut [u64]) {
    let first = first * PAGE_WORDS;
    match mapped {
        Mapped::Real(mapping) => {
            // Relaxed: of this part's words only this thread stores to them.
            let words = &mapping.words()[first..first + out.len()];
            out.iter_mut().zip(words).for_each(|(out, word)| *out = word.load(Ordering::Relaxed));
        }
        Mapped::Simulated(memory) => memory.read(first, out),
    }
}

/// Stores a batch; returns the number of lines that leave the cache.
#[inline(always)]
fn put(
    heap: &(impl Stores + ?Sized),
    writes: &[u64],
    combiner: &mut Combiner,
    way: Option<LineWriteBack>,
) -> u64 {
    match way {
        Some(way) if combiner.is_combining() => combining(heap, writes, combiner, way),
        Some(_) if injected(Mutant::HeapNotWrittenBack) => {
            straight(writes, |first, words| heap.store(first, words))
        }
        Some(_) => {
            let lines = straight(writes, |first, words| heap.stream(first, words));
            // A fence covers the stores of its own thread, and another may call the barrier.
            if !injected(Mutant::HeapBarrierSkipped) && !injected(Mutant::FenceLeftToBarrier) {
                heap.fence();
            }
            combiner.pass(lines);
            lines
        }
        None => straight(writes, |first, words| heap.store(first, words)),
    }
}

/// Writes back the pending lines and waits for all of them; returns their number.
fn finish(
    heap: &(impl Stores + ?Sized),
    combiner: &mut Combiner,
    way: Option<LineWriteBack>,
) -> u64 {
    let mut lines = 0;
    if let Some(way) = way {
        combiner.end(|line| {
            heap.write_back(way, first_word(line));
            lines += 1;
        });
    }
    // The fence makes all lines of the batch durable: those written back, and those stored past the
    // cache, which need no write-back.
    if !injected(Mutant::HeapBarrierSkipped) {
        heap.fence();
    }
    lines
}

/// Stores each run; returns the lines touched, adjacent words of one line counted once.
#[inline(always)]
fn straight(writes: &[u64], put: impl Fn(usize, &[u64])) -> u64 {
    let mut lines = 0;
    // The number of no line: the last word of a heap is far below.
    let mut last_line = usize::MAX;
    for piece in Pieces::new(writes) {
        let Piece::Run(index, words) = piece else { continue };
        let first = index as usize; // checked: inside the heap, whose size is a usize
        let end = first + words.len();
        put(first, words);
        // The mapping starts at a line, so index / 8 names one.
        let first_line = first / LINE_WORDS;
        lines += (end - 1) / LINE_WORDS - first_line + usize::from(first_line != last_line);
        last_line = (end - 1) / LINE_WORDS;
    }
    lines as u64
}

/// Stores each run, and writes a pending line back when another line needs its slot; returns the
/// number of lines written back.
#[inline(always)]
fn combining(
    heap: &(impl Stores + ?Sized),
    writes: &[u64],
    combiner: &mut Combiner,
    way: LineWriteBack,
) -> u64 {
    let mut lines = 0;
    let mut last_line = usize::MAX;
    let mut ahead = Pieces::new(writes);
    ahead.by_ref().take(AHEAD).for_each(drop);
    for piece in Pieces::new(writes) {
        if let Some(Piece::Run(index, _)) = ahead.next() {
            heap.prefetch(index as usize);
        }
        let Piece::Run(index, words) = piece else { continue };
        let first = index as usize; // checked, as above
        let end = first + words.len();
        heap.store(first, words);
        for line in first / LINE_WORDS..=(end - 1) / LINE_WORDS {
            // Neighbours are no gain: the straight way joins them too.
            if line != last_line {
                last_line = line;
                if let Some(other) = combiner.touch(line) {
                    heap.write_back(way, first_word(other));
                    lines += 1;
                }
            }
        }
    }
    // A fence covers the write-backs of its own thread, and the barrier may be called by another.
    if !injected(Mutant::FenceLeftToBarrier) {
        heap.fence();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Emulation;
    use crate::cpu;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};
    use crate::writes::run;

    #[test]
    fn mapped_heap_image_keeps_every_write() {
        for domain in suite::domains() {
            suite::heap_image_keeps_every_write(|file, offset, bytes| {
                MappedHeap::new(file, offset, bytes, &domain)
            });
        }
    }

    #[test]
    fn combined_lines_keep_every_write() {
        for domain in suite::domains() {
            suite::heap_image_keeps_every_write(|file, offset, bytes| {
                let heap_image = MappedHeap::new(file, offset, bytes, &domain)?;
                Ok(heap_image.with_combining(Combining::Always))
            });
        }
    }

    #[test]
    fn mapped_parts_keep_every_write() {
        for domain in suite::domains() {
            for parts in [2, 5] {
                suite::heap_image_keeps_every_write(|file, offset, bytes| {
                    let heap_image = MappedHeap::new(file, offset, bytes, &domain)?;
                    Ok(heap_image.with_combining(Combining::Always).in_parts(parts))
                });
            }
        }
    }

    #[test]
    fn a_wrong_batch_writes_nothing() {
        for domain in suite::domains() {
            suite::heap_image_refuses_wrong_batches(|file, offset, bytes| {
                MappedHeap::new(file, offset, bytes, &domain)
                    .map(|heap_image| heap_image.in_parts(3))
            });
            suite::heap_image_refuses_wrong_batches(|file, offset, bytes| {
                MappedHeap::new(file, offset, bytes, &domain)
            });
        }
    }

    #[test]
    fn neighbouring_words_cost_one_line_and_a_barrier_its_latency() {
        for domain in suite::domains() {
            let (_dir, file) = suite::pool();
            let mut heap_image = MappedHeap::new(file, HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
            heap_image
                .write_back(&[run(8, 1), 1, run(10, 2), 2, 3, run(14, 4), 4, 5, 6, 7])
                .unwrap();
            heap_image.write_back(&[run(0, 1), 1]).unwrap();
            assert_eq!(heap_image.counts().device_writes, 3);
            heap_image.barrier().unwrap();
            heap_image.barrier().unwrap();
            let counts = heap_image.counts();
            assert_eq!((counts.bytes, counts.device_writes, counts.persist_barriers), (192, 3, 2));
        }
    }

    #[test]
    fn a_barrier_takes_the_devices_latency() {
        let (_dir, file) = suite::pool();
        let domain = Domain::emulated(Emulation::new(50_000, 0));
        let mut heap_image = MappedHeap::new(file, HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
        heap_image.barrier().unwrap();
        heap_image.barrier().unwrap();
        assert!(heap_image.counts().emulated_delay_ns >= cpu::cycles_to_ns(100_000));
    }

    #[test]
    fn skewed_batch_writes_each_line_back_once() {
        for write_back in LineWriteBack::every() {
            let (_dir, file) = suite::pool();
            let domain = Domain::dax_over_dram(write_back);
            let heap_image =
                MappedHeap::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
            let lines = 100;
            let mut heap_image = heap_image;
            for (batch, combining) in [(1, Combining::Never), (2, Combining::Always)] {
                heap_image = heap_image.with_combining(combining);
                let before = heap_image.counts().device_writes;
                for round in 0..20 {
                    let writes = (0..lines).flat_map(|line| {
                        [run(8 * line + round % 8, 1), 1000 * batch + 100 * round + line]
                    });
                    heap_image.write_back(&writes.collect::<Vec<_>>()).unwrap();
                }
                heap_image.barrier().unwrap();
                let sent = heap_image.counts().device_writes - before;
                // A few lines may hash to the place of another.
                let expected = if batch == 1 { 20 * lines..=20 * lines } else { lines..=3 * lines };
                assert!(expected.contains(&sent), "{sent} {}", write_back.name());
                let mut words = vec![0; 8 * lines as usize];
                file.read_at(HEAP_OFFSET, &mut words).unwrap();
                for (i, word) in words.iter().enumerate() {
                    let (line, round) = (i as u64 / 8, [16, 17, 18, 19, 12, 13, 14, 15][i % 8]);
                    assert_eq!(*word, 1000 * batch + 100 * round + line);
                }
            }
        }
    }
}
