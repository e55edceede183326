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
//! Everything that depends on the heap's size has room for the largest size from the opening on:
//! addresses, tables, ownership records. So a growth moves nothing. A transaction checks addresses
//! against the size at its begin. If it meets memory behind that, the heap has grown, and the
//! transaction runs again (`Tx::is_outgrown`).

use std::path::Path;
use std::sync::Weak;

use medium::{PoolFile, System};
use words::BLOCK_STRIDE;

use super::Pool;
use crate::design::Design;
use crate::inside::{Inside, Mark};
use crate::inspect::CheckOptions;
use crate::storage::{Survey, open_settled, page_checksums};
use crate::superblock::{extend, is_harmless};
use crate::sync::{Arc, Mutex, lock};
use crate::tx::MetFull;
use crate::{Error, Options};

/// The least bytes of a step by default.
const STEP_MIN: u64 = 1 << 20;

/// The share of the heap that it grows by at a time by default.
const STEP_SHARE: u64 = 8;

/// Memory that a request may need besides its bytes and an eighth of them: a head, and a slab in
/// place of a slot.
const EXTRA_BYTES: u64 = 128 << 10;

/// How a heap may grow.
#[derive(Debug)]
pub(super) struct Growth {
    /// The largest size.
    pub(super) max: u64,
    /// 0: by the heap.
    step: u64,
    /// The file, and the heap's place in it. Weak, since the design closes the file.
    place: Option<(Weak<PoolFile>, u64)>,
    /// Held by the thread that makes it grow.
    growing: Mutex<()>,
}

impl Growth {
    /// The growth of a heap in memory.
    pub(super) fn of(options: &Options, heap_bytes: u64) -> Growth {
        let (max, step) = (options.room(heap_bytes), options.grow_step);
        Growth { max, step, place: None, growing: Mutex::new(()) }
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
        let growth = &self.shape.growth;
        let max = growth.max;
        if bytes > max {
            return Err(Error::NoGrowth { wanted: bytes, max_bytes: max });
        }
        let _growing = lock(&growth.growing);
        let before = self.shape.heap_bytes();
        if bytes > before {
            self.grow_to(bytes.next_multiple_of(lw_alloc::CHUNK_BYTES).min(max))?;
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
        let Growth { max, step, growing, .. } = &self.shape.growth;
        let MetFull { wanted, heap_bytes: seen } = met;
        // Without a size the body itself returned the stop: it lacks something else.
        if seen >= *max || wanted.offset == 0 {
            return Ok(false);
        }
        let _growing = lock(growing);
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
        let step = if *step == 0 { STEP_MIN.max(now / STEP_SHARE) } else { *step };
        // A transaction that needs many steps does not run once for each.
        let step = step.saturating_mul(1 << (*growths).min(20)).max(needed);
        *growths += 1;
        let by = |step: u64| {
            let bytes = now.saturating_add(step).min(*max);
            self.grow_to(bytes.next_multiple_of(lw_alloc::CHUNK_BYTES))
        };
        match by(step) {
            // The disk may have room for the request alone.
            Err(Error::Medium(medium::Error::NoSpace { .. })) if step > needed => by(needed)?,
            grown => grown?,
        }
        Ok(true)
    }

    /// Makes the heap larger. The caller holds the lock.
    fn grow_to(&self, heap_bytes: u64) -> Result<(), Error> {
        let design = self.design();
        design.check()?;
        if let Some((file, heap_offset)) = &self.shape.growth.place {
            let file = file.upgrade().expect("an open pool has its file");
            let sizes = (self.shape.heap_bytes(), heap_bytes);
            let grown = extend(&file, *heap_offset, sizes, |step| design.record_growth(Ok(step)));
            if let Err(error) = grown {
                // The sync of the length reports failed writes to any page of the file, and reports
                // them once. Only an error before it leaves them to the next sync.
                return match is_harmless(&error) {
                    true => Err(error),
                    false => design.record_growth(Err(error)),
                };
            }
        }
        self.shape.set_heap_bytes(heap_bytes);
        Ok(())
    }
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
        extend(&found.file, offset, (from, to), record)?;
    }
    Ok(from.max(to))
}
