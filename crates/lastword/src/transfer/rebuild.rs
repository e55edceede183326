//! A new heap with the objects of another one.
//!
//! ```text
//!   1  place    allocate each object in the new heap           offsets: old -> new
//!   2  fill     copy each content, and translate its pointers
//! ```
//!
//! Then the words become the first content of a new pool, which has another tag. A pointer that is
//! not recognized keeps the old tag, so its use fails.

use lw_alloc::{Allocation, HEAP_BYTES_MIN, Migrated, Size};
use medium::Memory;
use medium::mutants::{Mutant, injected};
use words::{ADDRESS_BITS, Addr, Stop, Words};

use super::stream::Header;
use crate::error::Error;
use crate::sync::{Arc, AtomicU64, Ordering};

const OFFSET: u64 = (1 << ADDRESS_BITS) - 1;

/// An address has 48 bits.
const HEAP_BYTES_MAX: u64 = 1 << ADDRESS_BITS;

/// A new heap in memory.
pub(super) struct Rebuilt {
    pub(super) header: Header,
    heap: lw_alloc::Heap,
    image: Memory,
    /// The allocations of the old heap, in ascending order of their offsets.
    pub(super) from: Arc<[Allocation]>,
    /// Their offsets in the new heap.
    to: Vec<u64>,
    pub(super) pointers: u64,
    pub(super) unmatched: u64,
}

/// The words of a heap that is being built, at addresses of any tag.
struct Bare<'a>(&'a Memory);

impl Bare<'_> {
    fn word(&self, at: Addr) -> Result<&AtomicU64, Stop> {
        let index = (at.byte() & OFFSET) as usize / 8;
        self.0.words().get(index).ok_or(Stop::BadPointer)
    }
}

impl Words for Bare<'_> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        Ok(self.word(at)?.load(Ordering::Relaxed))
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.word(at)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    fn retire(&mut self, _at: Addr, _bytes: u64) -> Result<(), Stop> {
        Err(Stop::BadPointer) // nothing is freed
    }
}

impl Rebuilt {
    /// Allocates the same in a new heap of this size, or in a larger one if it has no room. `from`
    /// is in ascending order of the offsets.
    ///
    /// # Errors
    /// [`medium::Error::NoMemory`].
    pub(super) fn place(
        header: Header,
        from: Arc<[Allocation]>,
        heap_bytes: Option<u64>,
    ) -> Result<Rebuilt, Error> {
        let taken = from.iter().try_fold(0_u64, |sum, it| sum.checked_add(it.size.bytes_min()));
        let taken = taken.filter(|taken| *taken < HEAP_BYTES_MAX / 4).unwrap_or(HEAP_BYTES_MAX);
        // Enough for most contents. Small ones have larger headers, and the loop makes more room.
        let guess = HEAP_BYTES_MIN + taken + taken / 2;
        let mut bytes = heap_bytes.unwrap_or(guess).max(taken).max(HEAP_BYTES_MIN);
        loop {
            if bytes > HEAP_BYTES_MAX {
                return Err(medium::Error::NoMemory { bytes }.into());
            }
            let heap = lw_alloc::Heap::new(header.tag, bytes);
            let image = Memory::anonymous(heap.bytes())?;
            match allocate(&heap, &image, &header, &from) {
                Ok(to) => {
                    return Ok(Rebuilt {
                        header,
                        heap,
                        image,
                        from,
                        to,
                        pointers: 0,
                        unmatched: 0,
                    });
                }
                Err(Stop::Full) => bytes *= 2,
                Err(stop) => return Err(Error::Stopped { stop }),
            }
        }
    }

    /// Returns the bytes of the heap that are in use.
    pub(super) fn needed_bytes(&self) -> u64 {
        self.heap.used_bytes(|offset| self.word(offset))
    }

    /// Returns the words of a heap of this size that are not 0, with their indices.
    pub(super) fn content(&self, heap_bytes: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        // A larger heap ends with zeros. A smaller one has room for all that is in use.
        let words = self.image.words();
        let words =
            words.iter().take((heap_bytes / 8) as usize).map(|word| word.load(Ordering::Relaxed));
        (0..).zip(words).filter(|&(_, word)| word != 0)
    }

    fn word(&self, offset: u64) -> u64 {
        self.image.words()[offset as usize / 8].load(Ordering::Relaxed)
    }

    /// Copies the contents, whose words `next` returns in the order of the allocations, and
    /// translates pointers to those of a pool with this tag.
    pub(super) fn fill(
        &mut self,
        tag: u16,
        mut next: impl FnMut() -> Result<u64, Error>,
    ) -> Result<(), Error> {
        for index in 0..self.from.len() {
            let size = self.from[index].size;
            let holds_pointers =
                !matches!(size, Size::String(_)) || injected(Mutant::StringWordTranslated);
            for part in (Allocation { offset: self.to[index], size }).parts() {
                for at in part {
                    let word = next()?;
                    let word = if holds_pointers { self.translate(word, tag) } else { word };
                    self.image.words()[at as usize].store(word, Ordering::Relaxed);
                }
            }
        }
        // A migration may note a pointer as its progress.
        let Migrated { version, progress } = self.header.migrated;
        let migrated = Migrated { version, progress: self.translate(progress, tag) };
        let root = self.translate(self.header.root, tag);
        let (heap, mut words) = (self.heap, Bare(&self.image));
        let set = heap.set_root(&mut words, root);
        let set = set.and_then(|()| heap.set_migrated(&mut words, migrated));
        set.map_err(|stop| Error::Stopped { stop })
    }

    /// Translates a pointer to an allocation, and returns any other word as it is.
    #[inline]
    fn translate(&mut self, word: u64, tag: u16) -> u64 {
        if word >> ADDRESS_BITS != u64::from(self.header.tag) {
            return word;
        }
        let offset = word & OFFSET;
        match self.from.binary_search_by_key(&offset, |it| it.offset) {
            Ok(found) => {
                self.pointers += 1;
                u64::from(tag) << ADDRESS_BITS | self.to[found]
            }
            Err(_) => {
                self.unmatched += u64::from(offset < self.header.heap_bytes);
                word
            }
        }
    }
}

/// Allocates everything in an empty heap; returns the offsets.
fn allocate(
    heap: &lw_alloc::Heap,
    image: &Memory,
    header: &Header,
    from: &[Allocation],
) -> Result<Vec<u64>, Stop> {
    let mut words = Bare(image);
    heap.format(&mut words)?;
    heap.set_migrated(&mut words, header.migrated)?;
    let offset = |it: &Allocation| Ok(heap.allocate_like(&mut words, 0, it.size)?.offset);
    from.iter().map(offset).collect()
}
