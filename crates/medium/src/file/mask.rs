//! A set of words of a page.

use std::ops::Range;

/// Words of a page.
pub(super) const PAGE_WORDS: usize = 512;

/// Which words of a page are to be written, a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mask(pub(super) [u64; PAGE_WORDS / 64]);

impl Mask {
    #[inline]
    pub(super) fn set(&mut self, mut first: usize, mut count: usize) {
        while count > 0 {
            let here = count.min(64 - first % 64);
            self.0[first / 64] |= (u64::MAX >> (64 - here)) << (first % 64);
            (first, count) = (first + here, count - here);
        }
    }

    #[inline]
    pub(super) fn has(&self, word: usize) -> bool {
        self.0[word / 64] & 1 << (word % 64) != 0
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// From the first word to the last.
    pub(super) fn span(&self) -> Range<usize> {
        let some = |bits: &u64| *bits != 0;
        let Some(first) = self.0.iter().position(some) else { return 0..0 };
        let last = self.0.iter().rposition(some).unwrap_or(first);
        let start = first * 64 + self.0[first].trailing_zeros() as usize;
        start..last * 64 + 64 - self.0[last].leading_zeros() as usize
    }

    /// Calls `each` with every word, in order.
    pub(super) fn for_each(&self, mut each: impl FnMut(usize)) {
        for (part, &bits) in self.0.iter().enumerate() {
            let mut rest = bits;
            while rest != 0 {
                each(64 * part + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }

    /// Copies these words.
    pub(super) fn lay_over(&self, from: &[u64], to: &mut [u64]) {
        let parts = from.chunks_exact(64).zip(to.chunks_exact_mut(64));
        for (&bits, (from, to)) in self.0.iter().zip(parts) {
            if bits == u64::MAX {
                to.copy_from_slice(from);
                continue;
            }
            let mut rest = bits;
            while rest != 0 {
                let word = rest.trailing_zeros() as usize;
                to[word] = from[word];
                rest &= rest - 1;
            }
        }
    }
}
