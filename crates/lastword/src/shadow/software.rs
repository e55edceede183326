//! `software` paging: a page table in memory and a frame for each resident page.
//!
//! ```text
//!   word index | page | word in page |      map[page] -> frame      frames[frame, word in page]
//! ```
//!
//! A transaction that accesses a missing page reads it from the heap image, into a free frame or
//! one whose page is evicted. All memory is bounded, and every I/O error is a return value: no read
//! is by mapping, so none kills the process. [`software_table`](super::software_table) has the
//! protocol and chooses the page that leaves; this module has the rest of the policy:
//! - A page-in waits until the page's last-writer ID is reproduced, and helps with that.
//! - Of two threads that access one missing page, the first reads it and the other waits.
//! - When pages written by transactions pin all frames, the attempt rolls back and is retried, in
//!   the end alone. An attempt that writes more pages than the shadow has frames is too large.
//! - A page that cannot be read poisons the pool.
//!
//! (DudeTM, section 4.3.)

use medium::mutants::{Mutant, injected};
use medium::sync::Arc;
use medium::{Memory, PoolFile, cpu};
use words::{Stop, TxId};

use super::software_table::{Moving, Table};
use super::{PAGE_BYTES, ShadowCounts, ShadowMemory, design_for, last_writer_id, pages_in};
use crate::perform::{Heap, Space};
use crate::pipeline::PipelineView;
use crate::sync::{AtomicU64, Mutex, Ordering, lock, thread};
use crate::{Error, Options, Shadow};

const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

type Page = [u64; PAGE_WORDS];

/// A shadow with a page table.
#[derive(Debug)]
pub struct Software {
    table: Table,
    frames: Memory,
    file: Arc<PoolFile>,
    offset: u64,
    words: usize,
    /// The last page read outside of all transactions while it was not in memory.
    last_read: Mutex<Option<Box<LastRead>>>,
    /// The contents of evicted pages, for tests that observe the pool without paging.
    image: Option<Memory>,
    page_ins: AtomicU64,
    evictions: AtomicU64,
    page_waits: AtomicU64,
}

#[derive(Debug)]
struct LastRead {
    page: usize,
    /// The map entry at that time. It stays the same while the page is out of memory.
    place: super::software_table::Place,
    words: Page,
}

/// Slots in which a worker remembers pages that it has pinned. Chosen: most transactions write
/// fewer pages, and a forgotten one costs another pin.
const REMEMBERED: usize = 64;

/// The pages that one worker's attempt has pinned.
#[derive(Debug)]
pub struct Pins {
    /// Pages pinned; a forgotten page is here twice.
    pages: Vec<usize>,
    /// Some of them, each in the slot of its number.
    remembered: [usize; REMEMBERED],
    /// Whether the attempt needs more pages than the shadow has frames.
    too_large: bool,
}

/// No page.
const NONE: usize = usize::MAX;

impl ShadowMemory for Software {
    type Part = Pins;

    fn check(options: &Options) -> Result<(), Error> {
        if options.shadow != Shadow::Software {
            let asked = if options.shadow == Shadow::Full { "full" } else { "cow" };
            return Err(Error::OtherShadow { asked, design: design_for(options) });
        }
        options.shadow_bytes.map_or(Ok(()), |bytes| pages_in(bytes, PAGE_BYTES).map(drop))
    }

    fn memory_bytes(options: &Options, heap_bytes: u64) -> u64 {
        options.shadow_bytes.map_or(heap_bytes, |bytes| bytes.min(heap_bytes))
    }

    fn open(
        options: &Options,
        file: &Arc<PoolFile>,
        offset: u64,
        bytes: u64,
    ) -> Result<Software, Error> {
        let room = options.room(bytes);
        let pages = (room / PAGE_BYTES) as usize;
        let frames = pages_in(options.shadow_bytes.unwrap_or(bytes), PAGE_BYTES)?.min(pages);
        let image = match options.observed {
            true => {
                let mut image = Memory::unreserved(room)?;
                image.fill_from(file, offset, bytes, &|_| ())?;
                Some(image)
            }
            false => None,
        };
        Ok(Software {
            table: Table::new(pages, frames),
            frames: Memory::anonymous(frames as u64 * PAGE_BYTES)?,
            file: Arc::clone(file),
            offset,
            words: room as usize / 8,
            last_read: Mutex::default(),
            image,
            page_ins: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            page_waits: AtomicU64::new(0),
        })
    }

    #[inline]
    fn words(&self) -> usize {
        self.words
    }

    fn part(&self) -> Pins {
        let remembered = [NONE; REMEMBERED];
        Pins { pages: Vec::new(), remembered, too_large: false }
    }

    #[inline]
    fn begin(&self, part: &mut Pins, _pipeline: PipelineView<'_>) -> Result<(), Error> {
        part.too_large = false;
        Ok(())
    }

    #[inline(always)]
    fn space<'a>(&'a self, part: &'a mut Pins, pipeline: PipelineView<'a>) -> impl Space + 'a {
        Paged { shadow: self, pins: part, pipeline }
    }

    #[inline(always)]
    fn hints(&self) -> impl Space {
        Hints(self)
    }

    #[inline]
    fn end(&self, part: &mut Pins) {
        for page in part.pages.drain(..) {
            self.table.unpin(page);
            part.remembered[page % REMEMBERED] = NONE;
        }
    }

    fn peek(&self, index: usize, pipeline: PipelineView<'_>) -> u64 {
        let value = self.look(index, pipeline, |moving| self.read_in(index, moving, pipeline));
        // Outside of `look`, so that the page is free again: a callback notified of the failure may
        // read it.
        value.unwrap_or_else(|error| {
            pipeline.poison(error);
            0
        })
    }

    fn glance(&self, index: usize, _pipeline: PipelineView<'_>) -> u64 {
        // The heap image may lack the last writes to a page that is not in memory.
        self.load_there(index).unwrap_or_else(|| {
            let mut word = [0];
            let at = self.offset + 8 * index as u64;
            self.file.read_at(at, &mut word).map_or(0, |()| word[0])
        })
    }

    fn observe(&self, first: usize, out: &mut [u64], pipeline: PipelineView<'_>) {
        let Some(image) = &self.image else {
            return out
                .iter_mut()
                .zip(first..)
                .for_each(|(out, at)| *out = self.peek(at, pipeline));
        };
        let (mut first, mut rest) = (first, out);
        while !rest.is_empty() {
            let here = rest.len().min(PAGE_WORDS - first % PAGE_WORDS);
            let (these, later) = rest.split_at_mut(here);
            self.observe_page(image, first, these);
            (first, rest) = (first + here, later);
        }
    }

    fn poke(&self, index: usize, value: u64, pipeline: PipelineView<'_>) {
        let mut pins = self.part();
        let mut space = self.space(&mut pins, pipeline);
        if space.open(index).is_ok() {
            space.store(index, value);
        }
        drop(space);
        self.end(&mut pins);
    }

    fn too_large(&self, part: &Pins) -> Option<Error> {
        let shadow_bytes = self.table.frames() as u64 * PAGE_BYTES;
        part.too_large.then_some(Error::ShadowTooSmall { shadow_bytes })
    }

    fn counts(&self) -> ShadowCounts {
        ShadowCounts {
            page_ins: self.page_ins.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            page_waits: self.page_waits.load(Ordering::Relaxed),
        }
    }
}

impl Software {
    /// Returns the words of a frame.
    #[inline(always)]
    fn frame(&self, number: usize) -> &Heap {
        &self.frames.words()[PAGE_WORDS * number..][..PAGE_WORDS]
    }

    /// Returns a word of a page that was in memory during the whole read.
    #[inline(always)]
    fn load_there(&self, index: usize) -> Option<u64> {
        let page = index / PAGE_WORDS;
        let (place, frame) = self.table.look(page)?;
        let at = PAGE_WORDS * frame + index % PAGE_WORDS;
        let value = self.frames.words()[at].load(Ordering::Relaxed);
        self.table.holds(page, place).then_some(value)
    }

    /// Returns a word, in memory or not. `absent` reads it from a page that is not in memory, and
    /// that no other thread pages in meanwhile. If another thread moves the page and waits for
    /// reproduction, this helps with that.
    ///
    /// # Errors
    /// Those of `absent`.
    fn look(
        &self,
        index: usize,
        pipeline: PipelineView<'_>,
        absent: impl FnOnce(&Moving<'_>) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        let page = index / PAGE_WORDS;
        loop {
            if let Some(value) = self.load_there(index) {
                return Ok(value);
            }
            if let Some(frame) = self.table.pin(page) {
                let value = self.frame(frame)[index % PAGE_WORDS].load(Ordering::Relaxed);
                self.table.unpin(page);
                return Ok(value);
            }
            if let Some(moving) = self.table.begin_move(page)
                && self.table.place(page).frame().is_none()
            {
                return absent(&moving);
            }
            if self.wait_for_mover(page, pipeline).is_err() {
                return Ok(0); // the pool is poisoned
            }
        }
    }

    /// Copies words of one page, from memory or from the copy of the heap image.
    fn observe_page(&self, image: &Memory, first: usize, out: &mut [u64]) {
        let page = first / PAGE_WORDS;
        let copy = |from: &[AtomicU64], out: &mut [u64]| {
            out.iter_mut().zip(from).for_each(|(out, word)| *out = word.load(Ordering::Relaxed));
        };
        loop {
            if let Some(frame) = self.table.pin(page) {
                copy(&self.frame(frame)[first % PAGE_WORDS..], out);
                return self.table.unpin(page);
            }
            if let Some(_moving) = self.table.begin_move(page)
                && self.table.place(page).frame().is_none()
            {
                return copy(&image.words()[first..], out);
            }
            thread::yield_now();
        }
    }

    /// Returns a word of the heap image, from a page that is not in memory.
    fn read_in(
        &self,
        index: usize,
        _moving: &Moving<'_>,
        pipeline: PipelineView<'_>,
    ) -> Result<u64, Error> {
        let page = index / PAGE_WORDS;
        let place = self.table.place(page);
        let is_it = |last_read: &LastRead| last_read.page == page && last_read.place == place;
        if let Some(last_read) =
            lock(&self.last_read).as_deref().filter(|last_read| is_it(last_read))
        {
            return Ok(last_read.words[index % PAGE_WORDS]);
        }
        // Unlocked: this may wait for a medium, and other threads may read other pages meanwhile.
        let mut words = [0; PAGE_WORDS];
        self.read_page(page, &mut words, pipeline)?;
        let value = words[index % PAGE_WORDS];
        *lock(&self.last_read) = Some(Box::new(LastRead { page, place, words }));
        Ok(value)
    }

    /// Reads a page that this thread moves, after every write to it is reproduced.
    fn read_page(
        &self,
        page: usize,
        out: &mut Page,
        pipeline: PipelineView<'_>,
    ) -> Result<(), Error> {
        let last_writer = self.table.last_writer(page);
        if last_writer > pipeline.reproduced() && !injected(Mutant::LastWriterIgnored) {
            self.page_waits.fetch_add(1, Ordering::Relaxed);
            pipeline.wait_reproduced(TxId(last_writer))?;
        }
        let at = self.offset + page as u64 * PAGE_BYTES;
        Ok(self.file.read_at(at, out)?)
    }

    /// Pins a page that was not in memory or was being moved; returns its frame.
    #[cold]
    #[inline(never)]
    fn pin_hard(
        &self,
        page: usize,
        pins: &mut Pins,
        pipeline: PipelineView<'_>,
    ) -> Result<usize, Stop> {
        loop {
            if let Some(frame) = self.table.pin(page) {
                self.table.mark_used(page);
                return Ok(frame);
            }
            match self.table.begin_move(page) {
                Some(moving) if self.table.place(page).frame().is_none() => {
                    return self.page_in(page, moving, pins, pipeline);
                }
                _ => self.wait_for_mover(page, pipeline)?,
            }
        }
    }

    /// Waits for a thread that moves or reads the page. If that thread waits for reproduction,
    /// helps with it.
    fn wait_for_mover(&self, page: usize, pipeline: PipelineView<'_>) -> Result<(), Stop> {
        let last_writer = self.table.last_writer(page);
        if last_writer > pipeline.reproduced() {
            return pipeline.wait_reproduced(TxId(last_writer)).map_err(|_| Stop::Conflict);
        }
        thread::yield_now();
        Ok(())
    }

    /// Reads a page into a frame and pins it there.
    fn page_in(
        &self,
        page: usize,
        moving: Moving<'_>,
        pins: &mut Pins,
        pipeline: PipelineView<'_>,
    ) -> Result<usize, Stop> {
        let leave = |page: usize, frame: usize| {
            self.evictions.fetch_add(1, Ordering::Relaxed);
            if let Some(image) = &self.image {
                copy(self.frame(frame), &image.words()[PAGE_WORDS * page..]);
            }
        };
        let Some(frame) = self.table.frame(pipeline.reproduced(), leave) else {
            return Err(self.no_frame(pins));
        };
        if frame.evicted.is_some_and(|(_, waits)| waits) {
            pipeline.expedite();
        }
        let mut words = [0; PAGE_WORDS];
        if let Err(error) = self.read_page(page, &mut words, pipeline) {
            // Free the page and the frame first: `poison` is called without a lock. The pool keeps
            // the error, and the next attempt returns it when it begins.
            drop((moving, frame));
            pipeline.poison(error);
            return Err(Stop::Conflict);
        }
        self.page_ins.fetch_add(1, Ordering::Relaxed);
        Ok(moving.settle(frame, |number| {
            for (to, from) in self.frame(number).iter().zip(&words) {
                to.store(*from, Ordering::Relaxed);
            }
        }))
    }

    /// Returns why all frames are pinned: by other attempts, which end soon, or by this one alone.
    #[cold]
    fn no_frame(&self, pins: &mut Pins) -> Stop {
        pins.pages.sort_unstable();
        let mut own = pins.pages.clone();
        own.dedup();
        if own.len() < self.table.frames() {
            return Stop::Conflict;
        }
        pins.too_large = true;
        Stop::TooLarge
    }
}

/// Copies words that no thread writes meanwhile.
fn copy(from: &Heap, to: &Heap) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The words as one attempt sees them.
struct Paged<'a> {
    shadow: &'a Software,
    pins: &'a mut Pins,
    pipeline: PipelineView<'a>,
}

impl Paged<'_> {
    /// Returns a word of a pinned page.
    #[inline(always)]
    fn pinned(&self, index: usize) -> &AtomicU64 {
        let place = self.shadow.table.place(index / PAGE_WORDS);
        let other = || injected(Mutant::WrittenNotPinned).then_some(0);
        let frame = place.frame().or_else(other).expect("a pinned page is in memory");
        &self.shadow.frames.words()[PAGE_WORDS * frame + index % PAGE_WORDS]
    }

    #[cold]
    #[inline(never)]
    fn load_hard(&mut self, index: usize) -> Result<u64, Stop> {
        let mut out = [0];
        self.load_run_hard(index, &mut out)?;
        Ok(out[0])
    }

    #[cold]
    #[inline(never)]
    fn load_run_hard(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        let page = index / PAGE_WORDS;
        let frame = self.shadow.pin_hard(page, self.pins, self.pipeline)?;
        let words = &self.shadow.frame(frame)[index % PAGE_WORDS..];
        for (value, word) in out.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        self.shadow.table.unpin(page);
        Ok(())
    }
}

impl Space for Paged<'_> {
    #[inline(always)]
    fn load(&mut self, index: usize) -> Result<u64, Stop> {
        match self.shadow.load_there(index) {
            Some(value) => Ok(value),
            None => self.load_hard(index),
        }
    }

    #[inline(always)]
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        // A stripe is in one page.
        let (page, table) = (index / PAGE_WORDS, &self.shadow.table);
        let Some((place, frame)) = table.look(page) else {
            return self.load_run_hard(index, out);
        };
        let at = PAGE_WORDS * frame + index % PAGE_WORDS;
        for (value, word) in out.iter_mut().zip(&self.shadow.frames.words()[at..]) {
            *value = word.load(Ordering::Relaxed);
        }
        if table.holds(page, place) { Ok(()) } else { self.load_run_hard(index, out) }
    }

    #[inline]
    fn open(&mut self, stripe_begin: usize) -> Result<(), Stop> {
        let page = stripe_begin / PAGE_WORDS;
        if self.pins.remembered[page % REMEMBERED] == page {
            return Ok(());
        }
        if self.shadow.table.pin(page).is_none() {
            self.shadow.pin_hard(page, self.pins, self.pipeline)?;
        }
        if injected(Mutant::WrittenNotPinned) {
            self.shadow.table.unpin(page);
            return Ok(());
        }
        self.pins.remembered[page % REMEMBERED] = page;
        self.pins.pages.push(page);
        Ok(())
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        self.pinned(index).store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        self.pinned(index).load(Ordering::Relaxed)
    }

    #[inline]
    fn touched(&mut self, stripe_begin: usize, id: TxId) {
        if let Some(id) = last_writer_id(id) {
            self.shadow.table.touch(stripe_begin / PAGE_WORDS, id);
        }
    }

    #[inline(always)]
    fn prefetch_read(&self, index: usize) {
        Hints(self.shadow).prefetch_read(index);
    }

    #[inline(always)]
    fn prefetch_write(&self, index: usize) {
        Hints(self.shadow).prefetch_write(index);
    }
}

/// The words for prefetch hints only: a missing page is not paged in.
struct Hints<'a>(&'a Software);

impl Space for Hints<'_> {
    fn load(&mut self, _index: usize) -> Result<u64, Stop> {
        Err(Stop::Conflict)
    }

    fn load_run(&mut self, _index: usize, _out: &mut [u64]) -> Result<(), Stop> {
        Err(Stop::Conflict)
    }

    fn store(&mut self, _index: usize, _value: u64) {}

    fn peek(&self, _index: usize) -> u64 {
        0
    }

    #[inline(always)]
    fn prefetch_read(&self, index: usize) {
        if let Some(frame) = self.0.table.place(index / PAGE_WORDS).frame() {
            cpu::prefetch_read(self.0.frames.words(), PAGE_WORDS * frame + index % PAGE_WORDS);
        }
    }

    #[inline(always)]
    fn prefetch_write(&self, index: usize) {
        if let Some(frame) = self.0.table.place(index / PAGE_WORDS).frame() {
            cpu::prefetch_write(self.0.frames.words(), PAGE_WORDS * frame + index % PAGE_WORDS);
        }
    }
}
