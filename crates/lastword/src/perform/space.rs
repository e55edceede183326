//! Where the words are that a transactional memory isolates: one run of memory, or pages that come
//! and go, or home itself.
//!
//! A transactional memory calls, in this order, for what one attempt writes:
//!
//! ```text
//!   open(stripe)  ->  first_write(words)  ->  store(word) ...  ->  touched(stripe, ID)
//! ```
//!
//! and `load` for what it only reads. Its ownership record is taken between `open` and the first
//! `first_write`, and released after `touched`.

use crate::sync::{AtomicU64, Ordering};
use medium::cpu;
use words::{Stop, TxId};

/// A heap in one piece: words that are only ever accessed as atomics, so that an optimistic read
/// beside a write is a race that the language allows.
pub type Heap = [AtomicU64];

/// The words of a heap, as one worker's attempt sees them; every access is atomic and relaxed, what
/// orders them is the transactional memory's. What has a default does nothing: a heap in one piece
/// needs no more.
pub trait Space {
    /// Reads a word.
    ///
    /// # Errors
    /// [`Stop::Conflict`] when its page cannot be had while this attempt goes on.
    fn load(&mut self, index: usize) -> Result<u64, Stop>;

    /// Reads neighbouring words of one stripe.
    ///
    /// # Errors
    /// As [`load`](Space::load).
    fn load_run(&mut self, index: usize, out: &mut [u64]) -> Result<(), Stop>;

    /// The attempt is about to write words of the stripe that begins with this one: until it ends
    /// they stay where they are.
    ///
    /// # Errors
    /// As [`load`](Space::load).
    #[inline(always)]
    fn open(&mut self, stripe_begin: usize) -> Result<(), Stop> {
        let _ = stripe_begin;
        Ok(())
    }

    /// The attempt is about to write these words of an open stripe for the first time; they are
    /// what they were before it.
    ///
    /// # Errors
    /// [`Stop::Conflict`] when that cannot be noted.
    #[inline(always)]
    fn first_write(&mut self, index: usize, words: usize) -> Result<(), Stop> {
        let _ = (index, words);
        Ok(())
    }

    /// Writes a word of an open stripe.
    fn store(&mut self, index: usize, value: u64);

    /// Reads a word of an open stripe.
    fn peek(&self, index: usize) -> u64;

    /// The transaction that wrote words of this open stripe, or has taken them back, has this ID.
    /// Others may write them next.
    #[inline(always)]
    fn touched(&mut self, stripe_begin: usize, id: TxId) {
        let _ = (stripe_begin, id);
    }

    /// A hint that the word will be read.
    #[inline(always)]
    fn prefetch_read(&self, index: usize) {
        let _ = index;
    }

    /// A hint that the word will be written.
    #[inline(always)]
    fn prefetch_write(&self, index: usize) {
        let _ = index;
    }
}

/// A heap in one piece.
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
