//! Buffer in which a log group is built.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

const BLOCK_WORDS: usize = 512;

/// Alignment of memory that direct writes accept on every device.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Block([u64; BLOCK_WORDS]);

/// A growable run of words for a group of the log, aligned to 4096 bytes, so that it can go to the
/// device without being copied.
///
/// ```
/// use medium::Buffer;
///
/// let mut group = Buffer::new(100);
/// assert_eq!(group.words().len(), 512); // whole blocks of 4 KiB, zeroed
/// group.words_mut()[0] = 42;
/// group.grow(1000);
/// assert_eq!(group.words().len(), 1024);
/// assert_eq!(group.words()[0], 42);
/// ```
#[derive(Clone, Default)]
pub struct Buffer {
    blocks: Vec<Block>,
}

impl Buffer {
    /// At least `words` words, all zero, in whole blocks of 4 KiB.
    ///
    /// # Panics
    /// If memory is exhausted. The message names the limits to raise.
    pub fn new(words: usize) -> Buffer {
        let mut buffer = Buffer { blocks: Vec::new() };
        buffer.grow(words);
        buffer
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[u64] {
        <[u64]>::ref_from_bytes(self.blocks.as_bytes()).expect("blocks are made of words")
    }

    /// The words, to be written.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64] {
        <[u64]>::mut_from_bytes(self.blocks.as_mut_bytes()).expect("blocks are made of words")
    }

    /// Grows the buffer to at least `words` words; contents stay, added words are zero. Does
    /// nothing if it is large enough. May move. At least doubles, so growing costs little.
    ///
    /// # Panics
    /// If memory is exhausted. The message names the limits to raise.
    pub fn grow(&mut self, words: usize) {
        let blocks = words.div_ceil(BLOCK_WORDS);
        if let Some(more) = blocks.checked_sub(self.blocks.len()).filter(|&more| more > 0) {
            let more = more.max(self.blocks.len());
            if Block::extend_vec_zeroed(&mut self.blocks, more).is_err() {
                let bytes = (self.blocks.len() + more) * size_of::<Block>();
                panic!(
                    "no memory for a log group of {bytes} bytes: raise the process's limits \
                     (`ulimit -v`, its memory cgroup, or the machine's `vm.max_map_count`)"
                );
            }
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} words)", self.words().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grown_buffer_is_aligned_and_keeps_contents() {
        fn send<T: Send + Sync>(_: &T) {}
        let mut buffer = Buffer::new(0);
        send(&buffer);
        assert!(buffer.words().is_empty());
        let mut written = 0;
        for words in [1, 512, 513, 4000, 100, 100_000] {
            buffer.grow(words);
            assert!(buffer.words().len() >= words);
            assert_eq!(buffer.words().as_ptr().addr() % 4096, 0);
            assert!((0..written).all(|i| buffer.words()[i] == i as u64 + 1));
            assert!(buffer.words()[written..].iter().all(|&word| word == 0));
            written = buffer.words().len();
            (0..written).for_each(|i| buffer.words_mut()[i] = i as u64 + 1);
        }
    }

    #[test]
    #[should_panic(expected = "no memory for a log group")]
    fn impossible_growth_names_the_limits() {
        Buffer::new(1).grow(1 << 58);
    }
}
