//! A heap in a `Vec<u64>` that checks its caller, for tests of data structures.
//!
//! It tracks which objects are alive. An access that leaves its object, reads a freed object or
//! reads a word that was never written panics at once. It can also end the n-th access with
//! [`Stop::Conflict`], as real transactional memories do. A test shows with that that a data
//! structure passes the `Stop` on and leaves no half-done change.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    Addr, Allocate, AnyError, BLOCK_BYTES, BLOCK_STRIDE, HEADER_BYTES, OBJECT_BYTES_MAX,
    PIECE_BYTES, PIECE_STRIDE, Stop, Transact, Words, block_stride,
};

/// The pool tag of every mock heap.
const TAG: u64 = 0x6d0c << crate::ADDRESS_BITS;

/// A checking heap that runs one transaction at a time.
#[derive(Debug)]
pub struct Mock {
    words: Vec<u64>,
    heap: Heap,
    /// `next` and `root` of the heap at the start of the transaction.
    before: (u64, u64),
    /// Words overwritten by the transaction: index and old value, oldest first.
    undo: Vec<(usize, u64)>,
    stopped: Option<Stop>,
    conflict_after: Option<u64>,
    forgiving: bool,
    /// Whether runs lie as in heaps that isolate cache lines: see [`Mock::line_isolated`].
    lines: bool,
}

/// The allocator's state.
#[derive(Debug, Default)]
struct Heap {
    /// Live objects: first byte to size in bytes; blocks of a run only once they are prepared.
    live: Map<u64>,
    /// Reserved runs: first byte to (blocks, blocks prepared).
    runs: Map<(u64, u64)>,
    /// Runs of pieces: first byte to the bytes of the string.
    strings: Map<u64>,
    /// Start of the memory that was never used. Freed memory is not reused, so a dangling pointer
    /// is always detected.
    next: u64,
    root: u64,
}

/// A map by first byte that can return to its state at the start of the transaction.
#[derive(Debug)]
struct Map<V> {
    now: BTreeMap<u64, V>,
    /// The changes of the transaction: first byte and old value, oldest first.
    undo: Vec<(u64, Option<V>)>,
}

impl<V> Default for Map<V> {
    fn default() -> Map<V> {
        Map { now: BTreeMap::new(), undo: Vec::new() }
    }
}

impl<V: Copy> Map<V> {
    fn get(&self, first: u64) -> Option<V> {
        self.now.get(&first).copied()
    }

    fn insert(&mut self, first: u64, value: V) {
        let old = self.now.insert(first, value);
        self.undo.push((first, old));
    }

    fn remove(&mut self, first: u64) {
        let old = self.now.remove(&first);
        self.undo.push((first, old));
    }

    fn roll_back(&mut self) {
        while let Some((first, old)) = self.undo.pop() {
            match old {
                Some(value) => self.now.insert(first, value),
                None => self.now.remove(&first),
            };
        }
    }
}

/// A transaction that [`Mock`] did not commit.
#[derive(Debug, Error)]
#[error("the transaction was refused: {stop}")]
pub struct Refused {
    /// The reason that ended its body.
    pub stop: Stop,
}

impl From<Refused> for AnyError {
    fn from(refused: Refused) -> AnyError {
        AnyError::new(refused)
    }
}

impl Mock {
    /// Makes a heap of `bytes` bytes.
    pub fn new(bytes: usize) -> Mock {
        let heap = Heap { next: HEADER_BYTES, ..Heap::default() };
        Mock {
            words: vec![0; bytes / 8],
            before: (heap.next, heap.root),
            heap,
            undo: Vec::new(),
            stopped: None,
            conflict_after: None,
            forgiving: false,
            lines: false,
        }
    }

    /// Makes a heap that returns [`Stop::BadPointer`] for a wrong access, as a pool does, instead
    /// of panicking.
    pub fn forgiving(bytes: usize) -> Mock {
        Mock { forgiving: true, ..Mock::new(bytes) }
    }

    /// Makes a heap whose runs begin at cache lines and have no headers inside, as on simulated
    /// machines that isolate whole lines.
    pub fn line_isolated(bytes: usize) -> Mock {
        Mock { lines: true, ..Mock::new(bytes) }
    }

    /// Ends one access, the one after `accesses` more, in [`Stop::Conflict`].
    pub fn conflict_after(&mut self, accesses: u64) {
        self.conflict_after = Some(accesses);
    }

    /// Cancels the requested conflict and returns whether it was still pending.
    pub fn take_conflict(&mut self) -> bool {
        self.conflict_after.take().is_some()
    }

    /// Returns the number of live objects, of which each block of an array and each piece of a
    /// string is one.
    pub fn objects(&self) -> usize {
        self.heap.live.now.len()
    }

    /// Returns the first byte and the size of every live object, in address order.
    pub fn live(&self) -> Vec<(u64, u64)> {
        self.heap.live.now.iter().map(|(&object, &bytes)| (TAG | object, bytes)).collect()
    }

    /// Returns the bytes in live objects.
    pub fn bytes_live(&self) -> u64 {
        self.heap.live.now.values().sum()
    }

    /// Returns the number of words that the last transaction wrote.
    pub fn words_written(&self) -> usize {
        self.undo.len()
    }

    fn count_access(&mut self) -> Result<(), Stop> {
        if let Some(stop) = self.stopped {
            return Err(stop);
        }
        match &mut self.conflict_after {
            Some(0) => {
                self.conflict_after = None;
                self.stop(Stop::Conflict)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn stop<R>(&mut self, stop: Stop) -> Result<R, Stop> {
        Err(*self.stopped.get_or_insert(stop))
    }

    fn wrong<R>(&mut self, at: Addr, problem: &str) -> Result<R, Stop> {
        assert!(self.forgiving, "{problem}: object {:#x}, offset {}", at.object, at.offset);
        self.stop(Stop::BadPointer)
    }

    /// Returns the index of a word that lies in a live object.
    fn index(&mut self, at: Addr) -> Result<usize, Stop> {
        let object = at.object.wrapping_sub(TAG);
        let Some(bytes) = self.heap.live.get(object) else {
            return self.wrong(at, "no live object at this address");
        };
        if !at.offset.is_multiple_of(8) {
            return self.wrong(at, "offset is not a multiple of 8");
        }
        if at.offset.checked_add(8).is_none_or(|end| end > bytes.next_multiple_of(8)) {
            return self.wrong(at, "the access leaves its object");
        }
        Ok((object + at.offset) as usize / 8)
    }

    fn put(&mut self, index: usize, value: u64) {
        self.undo.push((index, self.words[index]));
        self.words[index] = value;
    }

    /// Takes never-used memory and returns the first byte after the header.
    fn take(&mut self, bytes: u64) -> Result<u64, Stop> {
        let object = self.heap.next;
        let end = object.checked_add(bytes.next_multiple_of(16) + HEADER_BYTES);
        match end {
            Some(end) if end <= 8 * self.words.len() as u64 => self.heap.next = end,
            _ => return self.stop(Stop::Full),
        }
        Ok(object)
    }

    /// Takes memory for a run, whose address shows whether blocks have headers: see
    /// [`block_stride`].
    fn take_run(&mut self, bytes: u64) -> Result<u64, Stop> {
        self.heap.next = match self.lines {
            true => self.heap.next.next_multiple_of(64),
            false => self.heap.next | HEADER_BYTES,
        };
        self.take(bytes)
    }

    /// Fills the words that an object gains with a pattern: their content is undefined, and no test
    /// may rely on zeros.
    fn fill(&mut self, object: u64, from: u64, to: u64) {
        for word in from.div_ceil(8)..to.div_ceil(8) {
            self.put((object / 8 + word) as usize, 0xdead_dead_dead_dead);
        }
    }

    /// Makes the pieces live that a string of `to` bytes has and one of `from` bytes does not, or
    /// retires those of the longer one.
    fn set_pieces(&mut self, first: u64, from: u64, to: u64) {
        let size = PIECE_BYTES;
        for piece in to.min(from) / size..to.max(from).div_ceil(size) {
            let object = first + piece * PIECE_STRIDE;
            let live = |bytes: u64| bytes.saturating_sub(piece * size).min(size);
            self.fill(object, live(from), live(to));
            match live(to) {
                0 => self.heap.live.remove(object),
                bytes => self.heap.live.insert(object, bytes),
            };
        }
        match to {
            0 => self.heap.strings.remove(first),
            bytes => self.heap.strings.insert(first, bytes),
        };
    }

    /// Returns whether the run of pieces has room for a string of `to` bytes. The last run of the
    /// heap grows into memory that was never used.
    fn has_room(&mut self, first: u64, from: u64, to: u64) -> bool {
        let end = |bytes: u64| first + bytes.div_ceil(PIECE_BYTES) * PIECE_STRIDE;
        let grows = self.heap.next == end(from) + HEADER_BYTES
            && end(to) + HEADER_BYTES <= 8 * self.words.len() as u64;
        if grows && end(to) > end(from) {
            self.heap.next = end(to) + HEADER_BYTES;
        }
        grows || end(to) <= end(from)
    }

    fn roll_back(&mut self) {
        while let Some((index, value)) = self.undo.pop() {
            self.words[index] = value;
        }
        let Heap { live, runs, strings, next, root } = &mut self.heap;
        live.roll_back();
        runs.roll_back();
        strings.roll_back();
        (*next, *root) = self.before;
    }
}

impl Words for Mock {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.count_access()?;
        let index = self.index(at)?;
        Ok(self.words[index])
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.count_access()?;
        let index = self.index(at)?;
        self.put(index, value);
        Ok(())
    }

    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        self.count_access()?;
        let object = at.object.wrapping_sub(TAG);
        if let Some((blocks, prepared)) = self.heap.runs.get(object) {
            if at.offset != 0 || bytes != blocks * BLOCK_BYTES {
                return self.wrong(at, "a run of blocks must be freed whole");
            }
            self.heap.runs.remove(object);
            for block in 0..prepared {
                self.heap.live.remove(object + block * block_stride(object));
            }
            return Ok(());
        }
        if let Some(size) = self.heap.strings.get(object) {
            if at.offset != 0 || bytes != size {
                return self.wrong(at, "a run of pieces must be freed whole");
            }
            self.set_pieces(object, size, 0);
            return Ok(());
        }
        match self.heap.live.get(object) {
            Some(size) if size == bytes && at.offset == 0 => {
                self.heap.live.remove(object);
                Ok(())
            }
            _ => self.wrong(at, "free of an object that is not live"),
        }
    }
}

impl Allocate for Mock {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        self.count_access()?;
        if bytes == 0 || bytes > OBJECT_BYTES_MAX {
            return self.stop(Stop::BadSize);
        }
        let object = self.take(bytes as u64)?;
        self.heap.live.insert(object, bytes as u64);
        self.fill(object, 0, bytes as u64);
        Ok(TAG | object)
    }

    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        self.count_access()?;
        let Some(bytes) = blocks.checked_mul(BLOCK_STRIDE) else {
            return self.stop(Stop::Full);
        };
        let first = self.take_run(bytes)?;
        self.heap.runs.insert(first, (blocks, 0));
        Ok(TAG | first)
    }

    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        self.count_access()?;
        let object = first.wrapping_sub(TAG);
        let Some((blocks, prepared)) = self.heap.runs.get(object) else {
            return self.wrong(Addr::new(first, 0), "no run of blocks at this address");
        };
        let ready = blocks.min(prepared.saturating_add(most));
        for block in prepared..ready {
            self.heap.live.insert(object + block * block_stride(object), BLOCK_BYTES);
        }
        self.heap.runs.insert(object, (blocks, ready));
        Ok(blocks - ready)
    }

    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        self.count_access()?;
        if bytes <= OBJECT_BYTES_MAX as u64 {
            return self.stop(Stop::BadSize);
        }
        let Some(room) = bytes.div_ceil(PIECE_BYTES).checked_mul(PIECE_STRIDE) else {
            return self.stop(Stop::Full);
        };
        let first = self.take_run(room)?;
        self.set_pieces(first, 0, bytes);
        Ok(TAG | first)
    }

    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        self.count_access()?;
        if to == 0 {
            return self.stop(Stop::BadSize);
        }
        let object = first.wrapping_sub(TAG);
        if let Some(size) = self.heap.strings.get(object) {
            if size != from {
                return self.wrong(Addr::new(first, 0), "resize from another size");
            }
            let fits = to > OBJECT_BYTES_MAX as u64 && self.has_room(object, from, to);
            if fits {
                self.set_pieces(object, from, to);
            }
            return Ok(fits);
        }
        if self.heap.runs.get(object).is_some() || self.heap.live.get(object) != Some(from) {
            return self.wrong(Addr::new(first, 0), "resize of an object that is not live");
        }
        // As size classes do: both sizes take the same memory.
        let fits = to <= OBJECT_BYTES_MAX as u64 && from.div_ceil(16) == to.div_ceil(16);
        if fits {
            self.heap.live.insert(object, to);
            self.fill(object, from, to);
        }
        Ok(fits)
    }

    fn root(&mut self) -> Result<u64, Stop> {
        self.count_access()?;
        Ok(self.heap.root)
    }

    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.count_access()?;
        self.heap.root = object;
        Ok(())
    }
}

impl Transact for Mock {
    type Tx<'t> = Mock;
    type Error = Refused;

    fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut Mock) -> Result<R, Stop>,
    ) -> Result<R, Refused> {
        loop {
            self.stopped = None;
            self.undo.clear();
            let Heap { live, runs, strings, next, root } = &mut self.heap;
            live.undo.clear();
            runs.undo.clear();
            strings.undo.clear();
            self.before = (*next, *root);
            let result = body(self);
            match (result, self.stopped) {
                (Ok(value), None) => return Ok(value),
                (Ok(_), Some(stop)) | (Err(_), Some(stop)) | (Err(stop), None) => {
                    self.roll_back();
                    if stop != Stop::Conflict {
                        return Err(Refused { stop });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Objects, Ptr};

    #[test]
    #[should_panic(expected = "the access leaves its object")]
    fn access_outside_object_panics() {
        let mut mock = Mock::new(1 << 12);
        let _ = mock.transact(|tx| {
            let first = tx.allocate(16)?;
            tx.allocate(16)?;
            tx.read(Addr::new(first, 16))
        });
    }

    #[test]
    fn freed_object_is_refused() {
        let mut mock = Mock::forgiving(1 << 12);
        let object: Ptr<u64> = mock.transact(|tx| tx.alloc(7_u64)).unwrap();
        mock.transact(|tx| tx.free(object)).unwrap();
        assert_eq!(mock.transact(|tx| tx.get(object)).unwrap_err().stop, Stop::BadPointer);
        assert_eq!(mock.transact(|tx| tx.free(object)).unwrap_err().stop, Stop::BadPointer);
    }

    #[test]
    fn refused_transaction_rolls_back() {
        let mut mock = Mock::forgiving(1 << 12);
        let kept: Ptr<u64> = mock.transact(|tx| tx.alloc(7_u64)).unwrap();
        let refused = mock.transact(|tx| {
            tx.set(kept, 8)?;
            tx.alloc(9_u64)?;
            tx.get(Ptr::<u64>::NULL)
        });
        assert_eq!(refused.unwrap_err().stop, Stop::BadPointer);
        assert_eq!(mock.transact(|tx| tx.get(kept)).unwrap(), 7);
        assert_eq!(mock.objects(), 1);
    }

    #[test]
    fn swallowed_stop_cannot_commit() {
        let mut mock = Mock::forgiving(1 << 12);
        let refused = mock.transact(|tx| {
            let _ = tx.get(Ptr::<u64>::from_bits(3));
            tx.alloc(1_u64).ok();
            Ok(())
        });
        assert_eq!(refused.unwrap_err().stop, Stop::BadPointer);
        assert_eq!(mock.objects(), 0);
    }

    #[test]
    fn conflict_reruns_the_body() {
        let mut mock = Mock::new(1 << 12);
        let object: Ptr<u64> = mock.transact(|tx| tx.alloc(1_u64)).unwrap();
        for accesses in 0..2 {
            mock.conflict_after(accesses);
            mock.transact(|tx| tx.update(object, |n| n + 1)).unwrap();
            assert!(!mock.take_conflict());
        }
        assert_eq!(mock.transact(|tx| tx.get(object)).unwrap(), 3);
    }

    #[test]
    fn full_heap_is_refused() {
        let mut mock = Mock::new(256);
        let refused = mock.transact(|tx| {
            for _ in 0..100 {
                tx.alloc(0_u64)?;
            }
            Ok(())
        });
        assert_eq!(refused.unwrap_err().stop, Stop::Full);
    }
}
