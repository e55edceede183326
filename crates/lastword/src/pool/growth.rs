//! Growth: a larger heap, while transactions go on.
//!
//! ```text
//!   1  superblock: the file may become longer
//!   2  file: blocks for the new bytes, zeros; its length is durable
//!   3  superblock: the heap has the new bytes
//!   4  transactions may use them
//! ```
//!
//! Each step is durable before the next. Without 3 before 4, recovery would refuse log records of
//! words that are in no heap. Without 1 before 2, a file that a crash has left too long would be
//! refused as damaged. A crash before 3 leaves the heap as it was; the next growth overwrites the
//! bytes behind it with zeros.
//!
//! A thread takes these steps before the heap is full, a program on request, or a transaction that
//! finds the heap full.
//!
//! Everything that depends on the heap's size has room for the largest size from the opening on:
//! addresses, tables, ownership records. So a growth moves nothing. A transaction checks addresses
//! against the size at its begin. If it meets memory behind that, the heap has grown, and the
//! transaction runs again (`Tx::is_outgrown`).
//!
//! # Before the heap is full
//!
//! A thread grows the heap so that no transaction waits for the blocks of a file.
//!
//! ```text
//!   worker   takes a run, and subtracts its bytes from the budget; if that is used up, it wakes
//!            the thread (`growth_budget`)
//!   thread   counts the free memory: half a step or more? It adds the rest to the budget
//!            less? The heap grows by a step, then as above
//! ```
//!
//! A run is a slab, an array or a long string. So the common allocation and the commit write no
//! shared word for this, and the words of a run are shared anyway.
//!
//! The thread is one of its own, `lastword-grow`, because it sleeps while the file system allocates
//! blocks. The persist thread acknowledges commits and the reproduce thread frees log: both would
//! make commits wait. The designs with a log for each worker have no threads at all. Only a pool
//! with threads that may grow has it.
//!
//! The budget is a hint. Runs that are given back, and runs of transactions that roll back, make
//! the thread look too early, and nothing worse. If it looks too late, or fails, a transaction
//! finds the heap full and makes it grow as in a pool without threads (`Pool::grow_for`). Both hold
//! the lock of the growth, so only one of them grows the heap at a time.
//!
//! A look counts without that lock, and without the mark that defers callbacks: a transaction that
//! makes the heap grow does not wait for it. It compares the heap's size again under the lock. It
//! pages nothing in and poisons nothing (`Design::glance`).

use std::path::Path;
use std::sync::Weak;
// A published count is part of no protocol.
use std::sync::atomic::AtomicU64 as Count;
use std::time::Instant;

use medium::{PoolFile, System};
use words::BLOCK_STRIDE;

use super::growth_budget::{Budget, Look};
use super::growth_failures::Failures;
use super::{Pool, Shape};
use crate::design::Design;
use crate::inside::{Inside, Mark};
use crate::inspect::CheckOptions;
use crate::storage::{Survey, open_settled, page_checksums};
use crate::superblock::{extend, is_harmless};
use crate::sync::{Arc, Mutex, Ordering, lock, thread};
use crate::tx::MetFull;
use crate::{Error, Options};

/// The least bytes of a step by default.
const STEP_MIN: u64 = 1 << 20;

/// The share of the heap that it grows by at a time by default.
const STEP_SHARE: u64 = 8;

/// Memory that a request may need besides its bytes and an eighth of them: a head, and a slab in
/// place of a slot.
const EXTRA_BYTES: u64 = 128 << 10;

/// The share of a step below which the heap counts as nearly full. While the workers use up this
/// memory, the thread allocates the next step.
const MARGIN_SHARE: u64 = 2;

/// The share of that memory that is taken before the thread looks again. A look reads the heads of
/// at most some thousand free runs, so it costs less than taking these runs did.
const LOOK_SHARE: u64 = 4;

/// The share of the heap that workers may keep in free slots before it no longer grows ahead.
const CACHED_SHARE: u64 = 8;

/// How a heap may grow.
#[derive(Debug)]
pub(super) struct Growth {
    /// The largest size.
    pub(super) max: u64,
    /// 0: by the heap.
    step: u64,
    /// The file, and the heap's place in it. Weak, since the design closes the file.
    place: Option<(Weak<PoolFile>, u64)>,
    /// Growths that failed.
    failed: Count,
    /// Held by the thread that makes it grow.
    pub(super) growing: Mutex<Failures>,
    /// The budget of a heap that grows before it is full. `None`: it grows when it is full.
    pub(super) ahead: Option<Budget>,
}

impl Growth {
    /// The growth of a heap in memory.
    pub(super) fn of(options: &Options, heap_bytes: u64) -> Growth {
        let (max, step) = (options.room(heap_bytes), options.grow_step);
        let (failed, growing) = (Count::new(0), Mutex::default());
        Growth { max, step, place: None, failed, growing, ahead: None }
    }

    /// Lets a heap of this size grow before it is full, if it may grow at all.
    pub(super) fn ahead(self, heap_bytes: u64) -> Growth {
        let ahead = (heap_bytes < self.max).then(Budget::new);
        Growth { ahead, ..self }
    }

    /// Returns the number of growths that failed.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Makes the thread that grows the heap ahead give up: the pool closes. Growths that a program
    /// or a transaction has begun go on.
    pub(super) fn close(&self) {
        if let Some(ahead) = &self.ahead {
            ahead.close();
        }
    }

    /// Returns the bytes by which a heap of this size grows.
    pub(super) fn step(&self, heap_bytes: u64) -> u64 {
        if self.step == 0 { STEP_MIN.max(heap_bytes / STEP_SHARE) } else { self.step }
    }

    /// Returns the heap's offset in its file; 0 in memory.
    pub(super) fn heap_offset(&self) -> u64 {
        self.place.as_ref().map_or(0, |(_, offset)| *offset)
    }

    /// The same in a file.
    pub(super) fn in_file(self, file: &Arc<PoolFile>, heap_offset: u64) -> Growth {
        Growth { place: Some((Arc::downgrade(file), heap_offset)), ..self }
    }
}

impl<D: Design> Pool<D> {
    /// Grows the heap to at least `bytes` bytes, rounded up to 64 KiB, and returns its size.
    /// Transactions continue meanwhile. Durable on return. Costs five persist barriers, or none if
    /// the heap has that size.
    ///
    /// ```
    /// use lastword::{Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("grown.pool");
    /// let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).max_bytes(1 << 30);
    /// let pool = Pool::create(&path, options)?;
    /// assert_eq!(pool.grow(8 << 20)?, 8 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoGrowth`] beyond [`Options::max_bytes`]. [`Error::Medium`] if the disk has no
    /// room: the pool stays as it was. [`Error::Poisoned`], [`Error::Closed`].
    pub fn grow(&self, bytes: u64) -> Result<u64, Error> {
        let _call = self.call("grow")?;
        // A callback that this thread runs may need the lock, too: it runs after the growth.
        let mark = Mark::new();
        let _inside = Inside::enter("grow", &mark)?;
        let growth = self.shape.growth();
        let max = growth.max;
        if bytes > max {
            return Err(Error::NoGrowth { wanted: bytes, max_bytes: max });
        }
        let mut failures = lock(&growth.growing);
        let from = self.shape.heap_bytes();
        if bytes > from {
            let to = bytes.next_multiple_of(lw_alloc::CHUNK_BYTES).min(max);
            grow_to(self.design(), &self.shape, &mut failures, Sizes { from, to }, &|| false)?;
        }
        Ok(self.shape.heap_bytes())
    }

    /// Doubles the log, once or several times, so that it has more than half of `bytes` bytes, and
    /// returns its size. Transactions continue meanwhile. Costs five persist barriers for each
    /// doubling. Durable on return.
    ///
    /// Only the log of `decoupled` on medium `file` grows. Any other one keeps its size, as does
    /// every log on a full disk. While other threads commit much, the log may grow a moment after
    /// the call. A log without commits since its last growth may double once only. A log may also
    /// grow with its heap: see [`Options::max_log_bytes`].
    ///
    /// ```
    /// use lastword::{Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("logged.pool");
    /// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
    /// assert_eq!(pool.grow_log(4 << 20)?, 4 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`]; [`Error::Medium`]: the pool is poisoned then.
    pub fn grow_log(&self, bytes: u64) -> Result<u64, Error> {
        let _call = self.call("grow_log")?;
        let mark = Mark::new();
        let _inside = Inside::enter("grow_log", &mark)?;
        let design = self.design();
        design.check()?;
        design.grow_log(bytes)?;
        Ok(self.shape.log_bytes())
    }

    /// Makes room for a request that found the heap full. `growths` counts those that this
    /// transaction has made. Returns whether the heap is larger now. The caller is inside a
    /// transaction, so that callbacks wait.
    ///
    /// # Errors
    /// As [`grow`](Pool::grow).
    #[cold]
    pub(crate) fn grow_for(&self, met: MetFull, growths: &mut u32) -> Result<bool, Error> {
        let growth @ Growth { max, growing, .. } = self.shape.growth();
        let MetFull { wanted, heap_bytes: seen } = met;
        // Without a size the body itself returned the stop: it lacks something else.
        if seen >= *max || wanted.offset == 0 {
            return Ok(false);
        }
        let mut failures = lock(growing);
        let now = self.shape.heap_bytes();
        if now > seen {
            return Ok(true); // another worker was here
        }
        let needed = match wanted.object {
            0 => wanted.offset,
            blocks => blocks.saturating_mul(BLOCK_STRIDE),
        };
        if needed > *max {
            return Ok(false); // growing in vain would only use up the disk
        }
        let needed = needed.saturating_add(needed / 8 + EXTRA_BYTES);
        // A transaction that needs many steps does not run once for each.
        let step = growth.step(now).saturating_mul(1 << (*growths).min(20)).max(needed);
        *growths += 1;
        let mut by = |step: u64| {
            let to = now.saturating_add(step).min(*max);
            let sizes = Sizes { from: now, to: to.next_multiple_of(lw_alloc::CHUNK_BYTES) };
            grow_to(self.design(), &self.shape, &mut failures, sizes, &|| false)
        };
        match by(step) {
            // The disk may have room for the request alone.
            Err(Error::Medium(medium::Error::NoSpace { .. })) if step > needed => by(needed),
            grown => grown,
        }
    }
}

/// The sizes of a heap before and after a growth.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Makes the heap larger, under the lock of `failures`. Returns false if `gives_up` returned true
/// before all blocks were allocated: the heap is then unchanged.
pub(super) fn grow_to<D: Design>(
    design: &D,
    shape: &Shape,
    failures: &mut Failures,
    sizes: Sizes,
    gives_up: &dyn Fn() -> bool,
) -> Result<bool, Error> {
    let grown = make_larger(design, shape, sizes, gives_up);
    match grown {
        Ok(true) => failures.end(),
        Ok(false) => {}
        Err(_) => drop(shape.growth().failed.fetch_add(1, Ordering::Relaxed)),
    }
    grown
}

fn make_larger<D: Design>(
    design: &D,
    shape: &Shape,
    Sizes { from, to }: Sizes,
    gives_up: &dyn Fn() -> bool,
) -> Result<bool, Error> {
    design.check()?;
    if let Some((file, heap_offset)) = &shape.growth().place {
        let file = file.upgrade().expect("an open pool has its file");
        let record = |step| design.record_growth(Ok(step));
        match extend(&file, *heap_offset, (from, to), record, gives_up) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if is_harmless(&error) => return Err(error),
            // The sync of the length reports failed writes to any page of the file, and reports
            // them once. Only an error before it leaves them to the next sync.
            Err(error) => return design.record_growth(Err(error)).map(|()| true),
        }
    }
    shape.set_heap_bytes(to);
    Ok(true)
}

/// The thread of one pool, if it has one.
#[derive(Debug, Default)]
pub(super) struct GrowthThread(Mutex<Option<thread::JoinHandle<()>>>);

impl GrowthThread {
    /// Starts the thread of a pool that may grow and has threads. If the system has no thread left,
    /// the heap grows when it is full.
    pub(super) fn start<D: Design>(
        design: &Arc<D>,
        shape: &Arc<Shape>,
        options: &Options,
    ) -> GrowthThread {
        if shape.growth().ahead.is_none() || !options.background {
            return GrowthThread::default();
        }
        // Weak between the looks: a callback on this thread may close the pool, and the files stay
        // locked until the design is dropped.
        let (design, shape) = (Arc::downgrade(design), Arc::clone(shape));
        let builder = thread::Builder::new().name("lastword-grow".into());
        GrowthThread(Mutex::new(builder.spawn(move || run(&design, &shape)).ok()))
    }

    /// Ends the thread. A growth that it has begun gives up, or ends if its blocks are allocated.
    /// Before the design closes the files.
    pub(super) fn stop(&self, growth: &Growth) {
        growth.close();
        let thread = lock(&self.0).take();
        // A callback on this thread may close the pool. The thread then ends by itself after it.
        if let Some(thread) = thread.filter(|own| own.thread().id() != thread::current().id()) {
            // The panic message was printed. The heap grows when it is full.
            let _ = thread.join();
        }
    }

    /// Leaves the thread to the parent of this forked process.
    pub(super) fn forget(&mut self) {
        let thread = self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::forget(thread.take());
    }
}

fn run<D: Design>(design: &Weak<D>, shape: &Shape) {
    medium::signals::block_size_signal();
    let Some(ahead) = &shape.growth().ahead else { return };
    ahead.serve(|| match design.upgrade() {
        Some(design) => look(design, shape, ahead, Instant::now()),
        None => Look::LAST,
    });
}

impl<D: Design> Pool<D> {
    /// Grows the heap if it is nearly full and workers have noticed that, or if the pause after a
    /// failed growth is over at `now`: as the background thread would, for tests without such a
    /// thread. Returns whether the heap is larger now.
    #[doc(hidden)]
    pub fn growth_step(&self, now: Instant) -> Result<bool, Error> {
        let _call = self.call("growth_step")?;
        let before = self.shape.heap_bytes();
        let growth = self.shape.growth();
        if let (Some(ahead), Some(design)) = (&growth.ahead, &self.design) {
            let at = lock(&growth.growing).next_attempt();
            if ahead.is_used_up() || Look::is_due(at, || now) {
                ahead.renew(|| look(Arc::clone(design), &self.shape, ahead, now));
            }
        }
        Ok(self.shape.heap_bytes() > before)
    }
}

/// Grows the heap if it is nearly full.
fn look<D: Design>(design: Arc<D>, shape: &Shape, ahead: &Budget, now: Instant) -> Look {
    let growth = shape.growth();
    let heap_bytes = shape.heap_bytes();
    if heap_bytes >= growth.max {
        return Look::LAST;
    }
    let heap = shape.heap();
    let step = growth.step(heap_bytes);
    let margin = step / MARGIN_SHARE;
    // Under `snapshot` the frontier may wait in a version.
    design.catch_up();
    let word = |offset: u64| design.glance(offset as usize / 8);
    let mut free = heap.bytes_behind_frontier(word);
    if free < margin {
        free += heap.free_run_bytes(word, margin - free);
    }
    // A transaction that finds the heap full reclaims free slots of other workers. A heap that
    // always grew before that would keep more and more of them.
    let cached_max = step.max(heap_bytes / CACHED_SHARE);
    if free >= margin || heap.cached_bytes(word) > cached_max {
        return Look { bytes: until_next(free, margin), at: None };
    }
    // A callback that this thread runs may need the lock: it runs after the growth.
    let mark = Mark::new();
    let Ok(inside) = Inside::enter("grow", &mark) else { return Look::LAST };
    let counted = Counted { heap_bytes, free, step };
    let look = grow_ahead(&*design, shape, ahead, counted, now);
    // Before the callbacks: if one closes the pool, it drops the design.
    drop(design);
    drop(inside);
    look
}

/// The counts of a look.
struct Counted {
    heap_bytes: u64,
    free: u64,
    step: u64,
}

fn grow_ahead<D: Design>(
    design: &D,
    shape: &Shape,
    ahead: &Budget,
    Counted { heap_bytes, free, step }: Counted,
    now: Instant,
) -> Look {
    let growth = shape.growth();
    let margin = step / MARGIN_SHARE;
    let mut failures = lock(&growth.growing);
    if shape.heap_bytes() != heap_bytes {
        return Look { bytes: 0, at: None }; // it has grown meanwhile
    }
    if failures.are_recent(now) {
        return Look { bytes: until_next(free, margin), at: failures.next_attempt() };
    }
    let to = heap_bytes.saturating_add(step).min(growth.max);
    let sizes = Sizes { to: to.next_multiple_of(lw_alloc::CHUNK_BYTES), from: heap_bytes };
    let gives_up = || ahead.is_closing();
    // If the pool has lost its name, nothing of it is left after the program.
    let may_write = shape.file_check().may_write();
    let grown = may_write.and_then(|()| grow_to(design, shape, &mut failures, sizes, &gives_up));
    match grown {
        Ok(true) => {
            let bytes =
                until_next(free + (sizes.to - sizes.from), growth.step(sizes.to) / MARGIN_SHARE);
            Look { bytes, at: None }
        }
        Ok(false) => Look::LAST, // the pool closes
        // A pool that has failed grows no more.
        Err(_) if design.check().is_err() => Look::LAST,
        // The transaction that finds the heap full reports the error.
        Err(_) => {
            failures.add(now);
            Look { bytes: until_next(free, margin), at: failures.next_attempt() }
        }
    }
}

/// Returns the bytes of runs that may be taken until the next look. At most half of the free bytes:
/// the look comes before these are used up.
fn until_next(free: u64, margin: u64) -> u64 {
    free.saturating_sub(margin).max(margin / LOOK_SHARE).min(free / 2).max(1)
}

/// Grows the heap of a closed pool to at least `bytes` bytes, rounded up to 64 KiB, and returns its
/// size. Durable on return. A log that waits for recovery stays as it is. For an open pool use
/// [`Pool::grow`].
///
/// ```
/// use lastword::{Options, Pool};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?.close()?;
/// assert_eq!(lastword::grow(&path, 8 << 20)?, 8 << 20);
/// assert_eq!(Pool::open(&path, Options::new())?.info().heap_bytes, 8 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Pool::open`] for a pool that is in use, damaged or of another version; all its pages are
/// verified. [`Error::Medium`] if
/// the disk has no room: the pool keeps its size. [`Error::NoGrowth`] if the file would exceed 16
/// TiB. [`Error::BadOption`] beyond 2^48 bytes.
pub fn grow(path: impl AsRef<Path>, bytes: u64) -> Result<u64, Error> {
    let to = Options::new().bytes(bytes.max(lw_alloc::HEAP_BYTES_MIN)).heap_rounded()?;
    let expected = CheckOptions { migrates: true, ..CheckOptions::new() };
    let system = System::kernel();
    let open = |path: &Path| open_settled(&system, path);
    let found = Survey::of(path.as_ref(), &expected, open)?.found()?;
    // Nothing is written to a damaged pool.
    if let Some(sums) = page_checksums(&found.file, found.superblocks.current())? {
        found.damaged_pages(&sums)?.check()?;
    }
    let mut superblocks = found.superblocks;
    let (offset, from) = (superblocks.current().heap_offset, superblocks.current().heap_bytes);
    if to > from {
        found.file.settle_name()?;
        let record = |step| Ok(superblocks.update(|now| now.record_growth(step))?);
        extend(&found.file, offset, (from, to), record, &|| false)?;
    }
    Ok(from.max(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_look_comes_before_memory_is_used_up() {
        for margin in [1 << 15, 1 << 19, 1 << 30] {
            for free in (0..100).map(|n| n * margin / 40) {
                let bytes = until_next(free, margin);
                assert!(bytes == 1 || bytes <= free / 2, "{bytes} of {free}");
            }
        }
    }
}
