//! Batch of writes, as logs store it and media apply it: runs of neighbouring words.
//!
//! # Durable format: a batch of writes
//!
//! ```text
//!   word   63                    16 15         0
//!   0      | index of first word   | count     |    a run: `count` words follow
//!   1..    | value                             |
//!   or
//!   0      | 48 bits for the log   | 0         |    a mark: no words follow; media skip it
//! ```
//!
//! Indices count 8-byte words from the start of the heap, so a heap has at most 2^51 bytes.

use crate::error::Error;

/// Most words in one run.
pub const RUN_WORDS_MAX: usize = u16::MAX as usize;

/// Maximum words in a heap: the range of a run's index.
pub const HEAP_WORDS_MAX: u64 = 1 << 48;

/// The head of a run of `count` words from `index` on.
#[inline]
pub const fn run(index: u64, count: usize) -> u64 {
    debug_assert!(index < HEAP_WORDS_MAX && count > 0 && count <= RUN_WORDS_MAX);
    index << 16 | count as u64
}

/// A mark, which carries 48 bits for the log.
#[inline]
pub const fn mark(bits: u64) -> u64 {
    debug_assert!(bits < 1 << 48);
    bits << 16
}

/// A piece of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Neighbouring words, from the index on.
    Run(u64, &'a [u64]),
    /// A mark and its 48 bits.
    Mark(u64),
}

/// Iterator over the pieces of a batch, in order. A run that is longer than the rest of the batch
/// ends the iteration with [`Pieces::is_whole`] false.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    rest: &'a [u64],
    whole: bool,
}

impl<'a> Pieces<'a> {
    /// Reads a batch from its first word on.
    #[inline]
    pub const fn new(batch: &'a [u64]) -> Pieces<'a> {
        Pieces { rest: batch, whole: true }
    }

    /// Whether no run so far was longer than the batch.
    #[inline]
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    /// The unread rest of the batch.
    #[inline]
    pub const fn rest(&self) -> &'a [u64] {
        self.rest
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        let (&head, rest) = self.rest.split_first()?;
        let count = (head & 0xffff) as usize;
        if count == 0 {
            self.rest = rest;
            return Some(Piece::Mark(head >> 16));
        }
        // Most runs of scattered writes are one word. Where the next piece begins is then known
        // without its head: the processor foresees the branch and need not wait for the load.
        if count == 1
            && let Some((words, rest)) = rest.split_at_checked(1)
        {
            self.rest = rest;
            return Some(Piece::Run(head >> 16, words));
        }
        match rest.split_at_checked(count) {
            Some((words, rest)) => {
                self.rest = rest;
                Some(Piece::Run(head >> 16, words))
            }
            None => {
                self.rest = &[];
                self.whole = false;
                None
            }
        }
    }
}

/// That a batch is whole and no run of it leaves a heap of so many words.
///
/// # Errors
/// [`Error::OutOfHeap`]; [`Error::TornBatch`].
pub fn check(batch: &[u64], heap_words: u64) -> Result<(), Error> {
    let mut pieces = Pieces::new(batch);
    for piece in pieces.by_ref() {
        if let Piece::Run(index, words) = piece {
            check_run(index, words, heap_words)?;
        }
    }
    check_end(&pieces, batch)
}

/// That a run does not leave a heap of so many words.
#[inline]
pub(crate) fn check_run(index: u64, words: &[u64], heap_words: u64) -> Result<(), Error> {
    let words = words.len() as u64;
    // No overflow: an index has 48 bits, a length 16.
    match index + words > heap_words {
        true => Err(Error::OutOfHeap { index, words, heap_words }),
        false => Ok(()),
    }
}

/// That a batch which was read to its end is whole.
pub(crate) fn check_end(pieces: &Pieces<'_>, batch: &[u64]) -> Result<(), Error> {
    match pieces.is_whole() {
        true => Ok(()),
        false => Err(Error::TornBatch { words: batch.len() as u64 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_marks_come_back_in_order() {
        let batch = [mark(77), run(5, 2), 10, 11, run(900, 1), 12, mark(0)];
        let mut pieces = Pieces::new(&batch);
        let all: Vec<Piece> = pieces.by_ref().collect();
        assert_eq!(
            all,
            [Piece::Mark(77), Piece::Run(5, &[10, 11]), Piece::Run(900, &[12]), Piece::Mark(0)]
        );
        assert!(pieces.is_whole());
    }

    #[test]
    fn run_longer_than_its_batch_is_detected() {
        let mut pieces = Pieces::new(&[4 << 16 | 3, 1, 2]);
        assert_eq!(pieces.next(), None);
        assert!(!pieces.is_whole());
    }

    #[test]
    fn a_batch_is_checked_to_its_last_run() {
        assert!(check(&[], 0).is_ok());
        assert!(check(&[run(0, 2), 1, 2, mark(9), run(99, 1), 3], 100).is_ok());
        let leaves = check(&[run(0, 2), 1, 2, run(99, 2), 3, 4], 100);
        assert!(matches!(leaves, Err(Error::OutOfHeap { index: 99, words: 2, heap_words: 100 })));
        assert!(check(&[run(HEAP_WORDS_MAX - 1, 1), 3], 100).is_err());
        assert!(matches!(check(&[run(0, 2), 1], 100), Err(Error::TornBatch { words: 2 })));
    }
}
