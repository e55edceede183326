//! Versions of objects in the research design `mvcc`, and their memory. (The two versions of the
//! design `snapshot` are in `dual_version`.)
//!
//! ```text
//!   version   0 | timestamp of its commit; 0 before that                 |
//!             1 | words (16) | the previous version, 0: none (48)        |
//!             2 | the object's header word                               |
//!             3 | its payload ...                                        |
//! ```
//!
//! A version is identified by the index of its first word. Each worker allocates versions from
//! memory of its own. It keeps the versions that its commits supersede until no transaction can
//! read them.
//!
//! Invariants:
//! - A version's timestamp is lower than that of the version that points to it. A transaction that
//!   started at the higher timestamp or later does not follow the pointer.
//! - A version superseded at a timestamp is free when every transaction that started before it has
//!   ended.

use std::collections::VecDeque;
use std::ops::Range;

use medium::Memory;

use crate::error::Error;
use crate::sync::{AtomicU64, Ordering};

/// Bytes of memory for versions per byte of the heap. The smallest object takes 32 bytes in the
/// heap and 40 here, so each object may have a version, and as many more fit. Untouched pages cost
/// nothing.
const BY_HEAP: u64 = 4;

/// Words that a worker takes at a time: 128 KiB.
const TAKEN: u64 = 16 << 10;

/// Superseded versions between two searches for the oldest transaction. Chosen, not measured.
const LOOK: usize = 64;

/// Words of a version before the object's.
const HEAD_WORDS: usize = 2;
/// Words of the longest object with its header word.
pub(super) const WORDS_MAX: usize = words::OBJECT_BYTES_MAX / 8 + 1;
const BEFORE_BITS: u32 = 48;

/// The index of a version, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Version {
    pub(super) const NONE: Version = Version(0);

    pub(super) fn is_some(self) -> bool {
        self != Version::NONE
    }

    /// Returns the list head for this version: even, because the lowest bit is the lock.
    pub(super) fn as_head(self) -> u64 {
        self.0 << 1
    }

    /// Returns the version of a list head, locked or not.
    pub(super) fn of_head(head: u64) -> Version {
        Version(head >> 1)
    }
}

/// The memory of all versions.
pub(super) struct Versions {
    memory: Memory,
    /// The first word that no worker has taken.
    next: AtomicU64,
}

impl Versions {
    pub(super) fn new(heap_bytes: u64) -> Result<Versions, Error> {
        let memory = Memory::unreserved(BY_HEAP * heap_bytes)?;
        Ok(Versions { memory, next: AtomicU64::new(1) }) // word 0 stands for no version
    }

    #[inline(always)]
    fn at(&self, version: Version, word: usize) -> &AtomicU64 {
        &self.memory.words()[version.0 as usize + word]
    }

    /// Returns the timestamp of the commit that made the version.
    #[inline(always)]
    pub(super) fn time(&self, version: Version) -> u64 {
        // Relaxed, here and below: a thread that finds the version in a list has acquired the
        // list's head.
        self.at(version, 0).load(Ordering::Relaxed)
    }

    pub(super) fn set_time(&self, version: Version, time: u64) {
        self.at(version, 0).store(time, Ordering::Relaxed);
    }

    /// Returns the previous version of the object.
    #[inline(always)]
    pub(super) fn before(&self, version: Version) -> Version {
        let word = self.at(version, 1).load(Ordering::Relaxed);
        Version(word & ((1 << BEFORE_BITS) - 1))
    }

    /// Returns the object's length in words, header word included.
    #[inline(always)]
    pub(super) fn words(&self, version: Version) -> usize {
        (self.at(version, 1).load(Ordering::Relaxed) >> BEFORE_BITS) as usize
    }

    /// Returns the words of the object.
    #[inline(always)]
    pub(super) fn object(&self, version: Version) -> &[AtomicU64] {
        let first = version.0 as usize + HEAD_WORDS;
        &self.memory.words()[first..first + self.words(version)]
    }

    /// Returns the words that workers have taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    fn take(&self) -> Option<Range<u64>> {
        let first = self.next.fetch_add(TAKEN, Ordering::Relaxed);
        let end = first + TAKEN;
        if end <= self.memory.words().len() as u64 {
            return Some(first..end);
        }
        // Undone, so that repeated failures do not overflow the counter.
        self.next.fetch_sub(TAKEN, Ordering::Relaxed);
        None
    }
}

/// One worker's memory for versions.
#[derive(Debug)]
pub(super) struct Store {
    /// Free versions, by words of the object.
    free: Vec<Vec<Version>>,
    fresh: Range<u64>,
    /// Each with the timestamp at which it was superseded, in ascending order.
    superseded: VecDeque<(u64, Version)>,
    /// Length of `superseded` at which the next search is due.
    look_at: usize,
}

impl Store {
    pub(super) fn new() -> Store {
        let free = (0..=WORDS_MAX).map(|_| Vec::new()).collect();
        Store { free, fresh: 0..0, superseded: VecDeque::new(), look_at: LOOK }
    }

    /// Allocates a version for an object of `words` words whose previous version is `before`.
    /// `None` if all memory is in use.
    #[inline]
    pub(super) fn make(
        &mut self,
        versions: &Versions,
        words: usize,
        before: Version,
    ) -> Option<Version> {
        let version = match self.free[words].pop() {
            Some(version) => version,
            None => self.carve(versions, (HEAD_WORDS + words) as u64)?,
        };
        let word = (words as u64) << BEFORE_BITS | before.0;
        versions.at(version, 1).store(word, Ordering::Relaxed);
        Some(version)
    }

    fn carve(&mut self, versions: &Versions, words: u64) -> Option<Version> {
        if self.fresh.end - self.fresh.start < words {
            self.fresh = versions.take()?; // wastes less than the longest version
        }
        let version = Version(self.fresh.start);
        self.fresh.start += words;
        Some(version)
    }

    /// Frees a version that was never in a list.
    pub(super) fn discard(&mut self, versions: &Versions, version: Version) {
        self.free[versions.words(version)].push(version);
    }

    /// Keeps a version that was superseded at this timestamp.
    #[inline]
    pub(super) fn supersede(&mut self, version: Version, time: u64) {
        self.superseded.push_back((time, version));
    }

    /// Whether it is time to look for the oldest transaction.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.superseded.len() >= self.look_at
    }

    /// Frees the versions that transactions started at `oldest` or later cannot reach.
    pub(super) fn reclaim(&mut self, versions: &Versions, oldest: u64) {
        while let Some(&(time, version)) = self.superseded.front().filter(|old| old.0 <= oldest) {
            debug_assert!(versions.time(version) < time, "superseded by a later one");
            self.free[versions.words(version)].push(version);
            self.superseded.pop_front();
        }
        self.look_at = self.superseded.len() + LOOK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superseded_version_is_freed_after_older_readers() {
        let versions = Versions::new(1 << 20).unwrap();
        let mut store = Store::new();
        let [first, second] = [10, 10].map(|words| {
            let version = store.make(&versions, words, Version::NONE).unwrap();
            versions.set_time(version, 1);
            version
        });
        assert_eq!(versions.object(first).len(), 10);
        store.supersede(first, 5);
        store.supersede(second, 7);
        store.reclaim(&versions, 4);
        assert!(store.free[10].is_empty());
        store.reclaim(&versions, 5);
        assert_eq!(store.free[10], [first]);
        assert_eq!(store.make(&versions, 10, second), Some(first));
        assert_eq!(versions.before(first), second);
        assert_ne!(
            store.make(&versions, 10, Version::NONE),
            Some(second),
            "a reader may still need it"
        );
    }

    #[test]
    fn exhausted_memory_fails_allocation() {
        let versions = Versions::new(128 << 10).unwrap();
        let mut store = Store::new();
        let make = |store: &mut Store| store.make(&versions, WORDS_MAX, Version::NONE);
        let made = std::iter::from_fn(|| make(&mut store)).count();
        assert!((300..500).contains(&made), "512 KiB hold {made} versions of 1 KiB");
        assert_eq!(make(&mut Store::new()), None);
        assert_eq!(make(&mut store), None);
    }
}
