//! The words that a transactional memory isolates: one range of memory, pages that come and go, or
//! the heap image itself.
//!
//! For the words that an attempt writes, a transactional memory calls in this order:
//!
//! ```text
//!   open(stripe)  ->  first_write(words)  ->  store(word) ...  ->  touched(stripe, ID)
//! ```
//!
//! For words that it only reads, it calls `load`. It takes the ownership record between `open` and
//! the first `first_write`, and releases it after `touched`.

use crate::sync::{AtomicU64, Ordering};
use medium::cpu;
use words::{Stop, TxId};

/// A contiguous heap. All accesses to its words are atomic, so that an optimistic read concurrent
/// to a write is not a data race of the language.
pub type Heap = [AtomicU64];

/// The words of a heap, as one worker's attempt sees them. Every access is atomic and relaxed; the
/// transactional memory orders them. The default methods do nothing, which suffices for a
/// contiguous heap.
pub trait Space {
    /// Reads a word.
    ///
    /// # Errors
    /// [`Stop::Conflict`] if the page is not available during this attempt.
    fn load(&mut self, index: usize) -> Result<u64, Stop>;

    /// Reads neighboring words of one stripe.
    ///
    /// # Errors
    /// As [`load`](Space::load).
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop>;

    /// Announces writes to the stripe that begins with this word. Its words stay in place until the
    /// attempt ends.
    ///
    /// # Errors
    /// As [`load`](Space::load).
    #[inline(always)]
    fn open(&mut self, stripe_begin: usize) -> Result<(), Stop> {
        let _ = stripe_begin;
        Ok(())
    }

    /// Announces the first writes to these words of an open stripe. The words still have the values
    /// from before the attempt.
    ///
    /// # Errors
    /// [`Stop::Conflict`] if the writes cannot be noted.
    #[inline(always)]
    fn first_write(&mut self, index: usize, words: usize) -> Result<(), Stop> {
        let _ = (index, words);
        Ok(())
    }

    /// Writes a word of an open stripe.
    fn store(&mut self, index: usize, value: u64);

    /// Reads a word of an open stripe.
    fn peek(&self, index: usize) -> u64;

    /// Sets the last-writer ID of this open stripe: the transaction that wrote it, or that rolled
    /// its writes back. Other transactions may write the stripe next.
    #[inline(always)]
    fn touched(&mut self, stripe_begin: usize, id: TxId) {
        let _ = (stripe_begin, id);
    }

    /// Hints that the word will be read.
    #[inline(always)]
    fn prefetch_read(&self, index: usize) {
        let _ = index;
    }

    /// Hints that the word will be written.
    #[inline(always)]
    fn prefetch_write(&self, index: usize) {
        let _ = index;
    }
}

/// A contiguous heap.
impl<T: AsRef<Heap> + ?Sized> Space for &T {
    #[inline(always)]
    fn load(&mut self, index: usize) -> Result<u64, Stop> {
        Ok(self.as_ref()[index].load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        let words = &self.as_ref()[index..index + out.len()];
        for (value, word) in out.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        self.as_ref()[index].store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        self.as_ref()[index].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn prefetch_read(&self, index: usize) {
        cpu::prefetch_read(self.as_ref(), index);
    }

    #[inline(always)]
    fn prefetch_write(&self, index: usize) {
        cpu::prefetch_write(self.as_ref(), index);
    }
}

impl<S: Space> Space for &mut S {
    #[inline(always)]
    fn load(&mut self, index: usize) -> Result<u64, Stop> {
        S::load(self, index)
    }

    #[inline(always)]
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        S::load_run(self, index, out)
    }

    #[inline(always)]
    fn open(&mut self, stripe_begin: usize) -> Result<(), Stop> {
        S::open(self, stripe_begin)
    }

    #[inline(always)]
    fn first_write(&mut self, index: usize, words: usize) -> Result<(), Stop> {
        S::first_write(self, index, words)
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        S::store(self, index, value);
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        S::peek(self, index)
    }

    #[inline(always)]
    fn touched(&mut self, stripe_begin: usize, id: TxId) {
        S::touched(self, stripe_begin, id);
    }

    #[inline(always)]
    fn prefetch_read(&self, index: usize) {
        S::prefetch_read(self, index);
    }

    #[inline(always)]
    fn prefetch_write(&self, index: usize) {
        S::prefetch_write(self, index);
    }
}
