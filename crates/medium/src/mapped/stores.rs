//! Operations on mapped memory: the seam between the back ends and the processor.
//!
//! Real memory executes instructions at no extra cost: all of this is inlined. A simulated machine
//! records each line instead, and may crash in between.

use crate::cpu::{self, LineWriteBack};
use crate::mapping::Mapping;
use crate::sync::{AtomicU64, Ordering};
use system::SimulatedMemory;
use system::mutants::{Mutant, injected};

/// Mapped words that can be stored to and written back.
pub(super) trait Stores {
    /// Stores words, from a word on.
    fn store(&self, first: usize, words: &[u64]);

    /// Stores words past the cache: durable after the next fence of this thread.
    fn stream(&self, first: usize, words: &[u64]);

    /// Starts to write a word's line back: durable after the next fence of this thread.
    fn write_back(&self, way: LineWriteBack, word: usize);

    /// A hint that a word will be stored to.
    fn prefetch(&self, word: usize);

    /// Waits for this thread's write-backs and for its stores past the cache.
    fn fence(&self);
}

impl Stores for [AtomicU64] {
    #[inline(always)]
    fn store(&self, first: usize, words: &[u64]) {
        for (to, from) in self[first..first + words.len()].iter().zip(words) {
            // Relaxed: only the writing thread accesses the mapping before the barrier.
            to.store(*from, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn stream(&self, first: usize, words: &[u64]) {
        if injected(Mutant::StreamedIntoCache) {
            return self.store(first, words);
        }
        cpu::stream_unfenced(&self[first..first + words.len()], words);
    }

    #[inline(always)]
    fn write_back(&self, way: LineWriteBack, word: usize) {
        if !injected(Mutant::LineNotWrittenBack) {
            way.line(self, word);
        }
    }

    #[inline(always)]
    fn prefetch(&self, word: usize) {
        cpu::prefetch_write(self, word);
    }

    #[inline(always)]
    fn fence(&self) {
        if !injected(Mutant::StoresNotFenced) {
            cpu::store_fence();
        }
    }
}

impl Stores for dyn SimulatedMemory {
    fn store(&self, first: usize, words: &[u64]) {
        SimulatedMemory::store(self, first, words);
    }

    fn stream(&self, first: usize, words: &[u64]) {
        SimulatedMemory::stream(self, first, words);
    }

    fn write_back(&self, _way: LineWriteBack, word: usize) {
        SimulatedMemory::write_back(self, word);
    }

    fn prefetch(&self, _word: usize) {}

    fn fence(&self) {
        SimulatedMemory::fence(self);
    }
}

/// A mapped part of a file.
#[derive(Debug)]
pub(super) enum Mapped {
    /// By the kernel.
    Real(Mapping),
    /// By a simulated machine.
    Simulated(Box<dyn SimulatedMemory>),
}
