//! Iteration over maps: whole, by range, and backwards.
//!
//! Outside of a transaction each page of pairs is a transaction of its own. The cursor continues
//! after the last key of the page before, so a pair that stays in the map is returned exactly
//! once. Inside of a transaction, and in a view, the iteration sees one state. An iterator that
//! enters a transaction drops the pairs that it has read ahead, and continues after its last key.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use lastword::collections::encoded::Cursor;
use lastword::{Stop, Words};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::current::{self, Version};
use crate::failure::Failure;
use crate::map::Inner;
use crate::source::Scope;

/// Pairs of the first page, and of the longest one. Most loops that look for one pair end in the
/// first page.
const FIRST: usize = 16;
const MOST: usize = 512;

/// Bytes after which a page is not extended.
const PAGE_BYTES: usize = 256 << 10;

/// The part of a pair that an iteration returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Keys,
    Values,
    Items,
}

/// Bounds of encoded keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// The least key.
    pub(crate) start: Option<Vec<u8>>,
    /// The first key after the range, or the last one inside.
    pub(crate) stop: Option<Vec<u8>>,
    pub(crate) includes_stop: bool,
    /// The first bytes of all keys.
    pub(crate) prefix: Vec<u8>,
    pub(crate) is_reverse: bool,
}

impl Bounds {
    fn contains(&self, key: &[u8]) -> bool {
        let after = self.start.as_deref().is_none_or(|start| key >= start);
        let before = self.stop.as_deref().is_none_or(|stop| match self.includes_stop {
            true => key <= stop,
            false => key < stop,
        });
        after && before && key.starts_with(&self.prefix)
    }

    /// Moves a cursor to the first pair of the range. Returns whether there may be one.
    fn begin(&self, cursor: &mut Cursor, tx: &mut impl Words) -> Result<bool, Stop> {
        match (self.is_reverse, &self.start, &self.stop) {
            (false, Some(start), _) => cursor.seek(tx, start),
            (false, None, _) => cursor.next(tx),
            (true, _, None) => {
                cursor.to_end();
                cursor.prev(tx)
            }
            (true, _, Some(stop)) => {
                let is_at = cursor.seek(tx, stop)?;
                let is_inside = is_at && cursor.pair().is_some_and(|(key, _)| self.contains(key));
                if is_inside { Ok(true) } else { cursor.prev(tx) }
            }
        }
    }

    fn step(&self, cursor: &mut Cursor, tx: &mut impl Words) -> Result<bool, Stop> {
        if self.is_reverse { cursor.prev(tx) } else { cursor.next(tx) }
    }
}

/// The progress of an iteration.
struct Progress {
    cursor: Cursor,
    has_begun: bool,
    is_over: bool,
    pairs: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// The last key that the iteration has returned, while others are read ahead.
    last: Option<Vec<u8>>,
    /// Pairs of the next page.
    most: usize,
    /// The state of the thread's transaction when the cursor read ahead.
    seen: Version,
}

/// An iterator over a map.
#[pyclass(frozen, module = "lastword")]
pub(crate) struct Scan {
    map: Arc<Inner>,
    part: Part,
    bounds: Bounds,
    progress: Mutex<Progress>,
}

impl Scan {
    pub(crate) fn new(map: Arc<Inner>, part: Part, bounds: Bounds) -> Scan {
        let progress = Progress {
            cursor: Cursor::new(map.map),
            has_begun: false,
            is_over: false,
            pairs: VecDeque::new(),
            last: None,
            most: FIRST,
            seen: Version::default(),
        };
        Scan { map, part, bounds, progress: Mutex::new(progress) }
    }

    /// Reads the next page, unless pairs of the page before are left.
    fn fill(&self, py: Python<'_>, progress: &mut Progress) -> PyResult<()> {
        let is_read = !progress.pairs.is_empty() || progress.is_over;
        if is_read && progress.seen == current::version() {
            return Ok(());
        }
        let scope = self.map.source.scope(py)?;
        let version = match scope {
            Scope::Inside => current::version(),
            Scope::Own | Scope::ReadOnly => Version::default(),
        };
        // A page that was read outside of transactions stays valid there.
        if is_read && (version == Version::default() || progress.pairs.is_empty()) {
            return Ok(());
        }
        // `None` after the last pair of a page, where the cursor itself is.
        let last = progress.last.clone();
        // The cursor itself reads ahead, and inside a transaction the program may change the map
        // after each pair.
        let most = if scope == Scope::Inside { 1 } else { progress.most };
        if scope == Scope::Own || version != progress.seen {
            progress.cursor.forget();
        }
        let (bounds, origin, begun) = (&self.bounds, progress.cursor.clone(), progress.has_begun);
        let cursor = &mut progress.cursor;
        let mut runs = 0;
        let (pairs, is_over) = self.map.source.read(py, |tx| {
            runs += 1;
            if runs > 1 {
                *cursor = origin.clone(); // a conflict has ended the run before
            }
            if let Some(last) = &last {
                cursor.move_to(tx, last)?;
            }
            let (mut pairs, mut bytes) = (VecDeque::new(), 0);
            let mut is_there = match begun {
                true => bounds.step(cursor, tx)?,
                false => bounds.begin(cursor, tx)?,
            };
            while let Some((key, value)) = cursor.pair().filter(|_| is_there) {
                if !bounds.contains(key) {
                    return Ok((pairs, true));
                }
                bytes += key.len() + value.len();
                pairs.push_back((key.to_vec(), value.to_vec()));
                if pairs.len() >= most || bytes >= PAGE_BYTES {
                    return Ok((pairs, false));
                }
                is_there = bounds.step(cursor, tx)?;
            }
            Ok((pairs, true))
        })?;
        progress.has_begun = true;
        progress.most = MOST.min(2 * progress.most);
        progress.seen = version;
        (progress.pairs, progress.is_over) = (pairs, is_over);
        Ok(())
    }
}

#[pymethods]
impl Scan {
    fn __iter__(scan: PyRef<'_, Self>) -> PyRef<'_, Self> {
        scan
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Held while a page is read, so another thread must not wait for it with the interpreter's
        // lock.
        let Ok(mut progress) = self.progress.try_lock().or_else(|error| match error {
            std::sync::TryLockError::Poisoned(poisoned) => Ok(PoisonError::into_inner(poisoned)),
            error => Err(error),
        }) else {
            let message = "another thread is using this iterator: each thread makes its own";
            return Err(Failure::Class("WrongThread", message.to_owned()).into());
        };
        self.fill(py, &mut progress)?;
        let Some((key, value)) = progress.pairs.pop_front() else { return Ok(None) };
        progress.last = if progress.pairs.is_empty() { None } else { Some(key.clone()) };
        drop(progress); // a codec may run any code
        let map = &self.map;
        Ok(Some(match self.part {
            Part::Keys => map.decode_key(py, &key)?,
            Part::Values => map.value.decode(py, &value)?,
            Part::Items => {
                let pair = (map.decode_key(py, &key)?, map.value.decode(py, &value)?);
                PyTuple::new(py, [pair.0, pair.1])?.into_any()
            }
        }))
    }
}
