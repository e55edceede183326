//! The content of a closed pool, for tools.

use std::path::Path;

use lw_alloc::Live;

use super::{CheckOptions, Checked, Contents, Report, look, word};
use crate::Error;
use crate::shadow::PAGE_BYTES;
use crate::sync::Ordering;

/// The content of a pool in memory, as opening it would show, for tools that read objects.
/// [`load`](HeapAtRest::load) accepts only a sound heap; [`salvage`](HeapAtRest::salvage) also
/// accepts a damaged one.
///
/// ```
/// use lastword::{Objects, Options, Pool, HeapAtRest};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
/// let object = pool.run(|tx| tx.alloc([42_u64, 7]))?.value;
/// pool.close()?;
///
/// let heap = HeapAtRest::load(&path)?;
/// let found = heap.objects().next().expect("one object is live");
/// assert_eq!((found.object, found.bytes), (object.to_bits(), 16));
/// assert!(heap.words(&found).eq([42, 7]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct HeapAtRest {
    /// `None` after a salvage.
    checked: Option<Checked>,
    contents: Contents,
}

impl HeapAtRest {
    /// Loads the content of a pool, and checks it as [`check`](crate::check) does, also while a
    /// process has it open. Never writes. Takes as much memory as the heap. A pool that was closed
    /// cleanly needs no log: its heap is whole.
    ///
    /// # Errors
    /// As [`check`](crate::check) and [`Report::sound`].
    pub fn load(path: impl AsRef<Path>) -> Result<HeapAtRest, Error> {
        let expected = CheckOptions { migrates: true, ..CheckOptions::new().without_log(true) };
        let (report, contents) = look(path.as_ref(), &expected)?;
        let checked = report.sound()?;
        let contents = contents.expect("a pool that opens has a heap");
        Ok(HeapAtRest { checked: Some(checked), contents })
    }

    /// Loads what is left of a damaged pool, with the report of its check. Never writes. Objects
    /// behind a damaged head of a run may be missing. [`is_whole`](HeapAtRest::is_whole) returns
    /// whether an object lies on damaged pages.
    ///
    /// # Errors
    /// As [`check`](crate::check); the error of opening the pool if its heap cannot be determined:
    /// the superblocks are damaged, or the log is.
    pub fn salvage(path: impl AsRef<Path>) -> Result<(HeapAtRest, Report), Error> {
        let expected = CheckOptions { migrates: true, ..CheckOptions::new().without_log(true) };
        let (report, contents) = look(path.as_ref(), &expected)?;
        match (contents, report.refusal) {
            (Some(contents), refusal) => {
                let report = Report { refusal, ..report };
                Ok((HeapAtRest { checked: None, contents }, report))
            }
            (None, Some(refusal)) => Err(refusal),
            (None, None) => unreachable!("a pool that opens has a heap"),
        }
    }

    /// Returns the result of the check; `None` after a salvage.
    pub fn checked(&self) -> Option<&Checked> {
        self.checked.as_ref()
    }

    /// Returns whether every page of an object matches its checksum or has none.
    pub fn is_whole(&self, object: &Live) -> bool {
        let (damaged, extent) = (&self.contents.damaged, object.extent());
        let first = extent.start / PAGE_BYTES;
        let next = damaged.partition_point(|page| (*page as u64) < first);
        damaged.get(next).is_none_or(|page| *page as u64 * PAGE_BYTES >= extent.end)
    }

    /// Returns the program's root as it was set; 0 without one.
    pub fn root(&self) -> u64 {
        self.contents.heap.root_at_rest(|offset| word(&self.contents.image, offset))
    }

    /// Returns every live object and every prepared block of an array, in address order.
    pub fn objects(&self) -> impl Iterator<Item = Live> + '_ {
        self.contents.heap.live(|offset| word(&self.contents.image, offset))
    }

    /// Returns the words of an object; those inside the heap, if it is damaged.
    ///
    /// # Panics
    /// If the object belongs to another snapshot and lies outside this heap.
    pub fn words(&self, object: &Live) -> impl Iterator<Item = u64> + '_ {
        let first = object.offset as usize / 8;
        let words = object.bytes.div_ceil(8) as usize;
        let all = self.contents.image.heap();
        let end = all.len().min(first + words);
        all[first..end].iter().map(|word| word.load(Ordering::Relaxed))
    }
}
