//! A block stored twice: selects the current copy and repairs the other.

use medium::PoolFile;
use medium::mutants::{Mutant, injected};

use super::{Block, COPY_BYTES, Invalid, WORDS};

/// The content of a block that is stored in two copies.
pub(crate) trait Paired: Copy + PartialEq {
    /// Decodes a block.
    fn decode(block: &[u64; WORDS]) -> Result<Self, Invalid>;

    /// Returns the edition, which each write increments.
    fn edition(&self) -> u64;

    /// Whether both belong to one pool: the fields that no update changes are equal.
    fn is_akin(&self, other: &Self) -> bool;
}

/// Both copies of a block, as read from a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairedBlock<T> {
    pub(super) blocks: [Block; 2],
    pub(crate) decoded: [Result<T, Invalid>; 2],
}

impl<T: Paired> PairedBlock<T> {
    /// Reads both copies. The file must be long enough.
    pub(crate) fn read(file: &PoolFile) -> Result<PairedBlock<T>, medium::Error> {
        let mut blocks = [[0; WORDS]; 2];
        for (copy, block) in blocks.iter_mut().enumerate() {
            file.read_at(copy as u64 * COPY_BYTES, block)?;
        }
        let decoded = [T::decode(&blocks[0]), T::decode(&blocks[1])];
        Ok(PairedBlock { blocks, decoded })
    }

    /// Returns the current copy: the only valid one or the newer one; else the reason why both are
    /// refused.
    pub(crate) fn current(&self) -> Result<T, Invalid> {
        let (a, b) = match self.decoded {
            // A newer program wrote one copy, so the other may be older.
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

    /// Returns the offset of the current copy.
    pub(super) fn counts(&self) -> u64 {
        let second = self.current().is_ok_and(|one| self.decoded[0] != Ok(one));
        let second = second != injected(Mutant::GoodCopyFirst);
        if second { COPY_BYTES } else { 0 }
    }

    /// Writes the current copy over the other one. Durable on return, at one persist barrier.
    ///
    /// Safe at any time, and idempotent: the current copy is not touched, and no reader takes the
    /// overwritten copy before, during or after the write, since it is damaged or older.
    ///
    /// # Panics
    /// If `copy` is the current one.
    pub(crate) fn repair(&self, file: &PoolFile, copy: usize) -> Result<(), medium::Error> {
        let good = 1 - copy;
        let counts = self.current().is_ok_and(|one| self.decoded[good] == Ok(one));
        assert!(counts, "a repair copies from the current copy");
        file.write_durable_at(copy as u64 * COPY_BYTES, &self.blocks[good])
    }
}
