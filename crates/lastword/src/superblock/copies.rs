//! A block that is there twice: which copy counts, and how one is mended.

use medium::PoolFile;
use medium::mutants::{Mutant, planted};

use super::{Block, COPY_BYTES, Invalid, WORDS};

/// What a pair of blocks holds.
pub(crate) trait Paired: Copy + PartialEq {
    /// What the block says.
    fn decode(block: &[u64; WORDS]) -> Result<Self, Invalid>;

    /// One more at every write.
    fn edition(&self) -> u64;

    /// Whether both are of one pool: what no update changes is the same.
    fn is_akin(&self, other: &Self) -> bool;
}

/// A pair of blocks as it is in a file, both copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies<T> {
    pub(super) blocks: [Block; 2],
    pub(crate) decoded: [Result<T, Invalid>; 2],
}

impl<T: Paired> Copies<T> {
    /// Reads both copies of a file that is long enough to have them.
    pub(crate) fn read(file: &PoolFile) -> Result<Copies<T>, medium::Error> {
        let mut blocks = [[0; WORDS]; 2];
        for (copy, block) in blocks.iter_mut().enumerate() {
            file.read_at(copy as u64 * COPY_BYTES, block)?;
        }
        let decoded = [T::decode(&blocks[0]), T::decode(&blocks[1])];
        Ok(Copies { blocks, decoded })
    }

    /// The copy that counts: the valid one, or the newer one; else what is wrong with them.
    pub(crate) fn current(&self) -> Result<T, Invalid> {
        let (a, b) = match self.decoded {
            // A newer program has been here, and the other copy may be from before.
            [_, Err(version @ Invalid::Version(_))] | [Err(version @ Invalid::Version(_)), _] => {
                return Err(version);
            }
            [Ok(a), Ok(b)] => (a, b),
            [one, Err(_)] | [Err(_), one] => return one,
        };
        if !a.is_akin(&b) || (a.edition() == b.edition() && a != b) {
            return Err(Invalid::Contradiction);
        }
        Ok(if a.edition() >= b.edition() { a } else { b })
    }

    /// Where the copy that counts is.
    pub(super) fn counts(&self) -> u64 {
        let second = self.current().is_ok_and(|one| self.decoded[0] != Ok(one));
        let second = second != planted(Mutant::GoodCopyFirst);
        if second { COPY_BYTES } else { 0 }
    }

    /// Writes the copy that counts over the other one; durable on return, one persist barrier.
    ///
    /// Safe at any time: nobody who reads the pair takes the copy that is written over, before,
    /// while or after, for it is damaged or the older one; and what counts is not touched. Doing it
    /// twice is doing it once.
    ///
    /// # Panics
    /// When `copy` is the one that counts.
    pub(crate) fn mend(&self, file: &PoolFile, copy: usize) -> Result<(), medium::Error> {
        let good = 1 - copy;
        let counts = self.current().is_ok_and(|one| self.decoded[good] == Ok(one));
        assert!(counts, "a copy is mended from the one that counts");
        file.write_durable_at(copy as u64 * COPY_BYTES, &self.blocks[good])
    }
}
