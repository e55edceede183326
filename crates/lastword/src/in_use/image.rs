//! A heap image that is read in ascending order, while groups of the log are applied to it.

use medium::writes::{Piece, Pieces};
use medium::{Counts, HeapMedium, Memory, PoolFile};

use crate::sync::{AtomicU64, Ordering};

/// Words that one word of the mask covers.
const MASK_WORDS: usize = 64;

/// A heap image of which the words up to `read` were read. A later word that the log has is kept
/// when its page is read: the page may have an older value.
///
/// The mask takes a 64th of the heap's size, where groups have words. So the memory does not grow
/// with the log that the owner writes meanwhile.
pub(super) struct PartialImage {
    heap: Memory,
    /// A bit for each word: whether a group has it.
    mask: Memory,
    read: usize,
    buffer: Vec<u64>,
}

impl PartialImage {
    pub(super) fn new(bytes: u64) -> Result<PartialImage, medium::Error> {
        let mask = Memory::anonymous(bytes.div_ceil(MASK_WORDS as u64).next_multiple_of(8))?;
        Ok(PartialImage { heap: Memory::anonymous(bytes)?, mask, read: 0, buffer: Vec::new() })
    }

    /// Returns the heap.
    pub(super) fn into_heap(self) -> Memory {
        self.heap
    }

    /// Reads the next `bytes` bytes of the heap that begins at this offset of the file: whole
    /// pages.
    pub(super) fn read(
        &mut self,
        file: &PoolFile,
        heap_offset: u64,
        bytes: u64,
    ) -> Result<(), medium::Error> {
        let mut at = heap_offset + 8 * self.read as u64;
        let end = at + bytes;
        while let Some(data) = file.next_data(at, end) {
            // A file system may report data in smaller units than words.
            let (start, stop) = (data.start / 8 * 8, data.end.next_multiple_of(8));
            self.buffer.resize((stop - start) as usize / 8, 0);
            file.read_at(start, &mut self.buffer)?;
            self.put((start - heap_offset) as usize / 8);
            at = data.end;
        }
        self.read += bytes as usize / 8;
        Ok(())
    }

    /// Stores the words of the buffer that no group has.
    fn put(&mut self, first: usize) {
        let (heap, mask) = (self.heap.words(), self.mask.words());
        for (index, &word) in (first..).zip(&self.buffer) {
            // A page of zeros is not touched, so that it takes no memory.
            if word != 0 && load(&mask[index / MASK_WORDS]) >> (index % MASK_WORDS) & 1 == 0 {
                heap[index].store(word, Ordering::Relaxed);
            }
        }
    }
}

/// Relaxed: one thread uses the image.
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

impl HeapMedium for PartialImage {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), medium::Error> {
        let (heap, mask) = (self.heap.words(), self.mask.words());
        for piece in Pieces::new(writes) {
            let Piece::Run(index, words) = piece else { continue };
            // The scan checked that every run is inside the heap.
            for (index, &word) in (index as usize..).zip(words) {
                heap[index].store(word, Ordering::Relaxed);
                if index >= self.read {
                    let bits = &mask[index / MASK_WORDS];
                    bits.store(load(bits) | 1 << (index % MASK_WORDS), Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), medium::Error> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

#[cfg(test)]
mod tests {
    use medium::Prewrite;
    use medium::writes::run;

    use super::*;

    #[test]
    fn words_of_log_stay_when_their_page_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 5 * 4096, Prewrite::No).unwrap();
        file.write_at(4096, &[7; 1024]).unwrap();
        let mut image = PartialImage::new(4 * 4096).unwrap();
        image.write_back(&[run(511, 2), 1, 0, run(1500, 1), 2]).unwrap();
        image.read(&file, 4096, 4096).unwrap();
        image.write_back(&[run(5, 1), 3, run(600, 1), 4]).unwrap();
        image.read(&file, 4096, 3 * 4096).unwrap();
        image.write_back(&[run(600, 1), 5]).unwrap();
        let found = image.into_heap();
        let found: Vec<u64> = found.words().iter().map(load).collect();
        let mut expected = vec![7; 1024];
        expected.resize(2048, 0);
        for (index, word) in [(511, 1), (512, 0), (1500, 2), (5, 3), (600, 5)] {
            expected[index] = word;
        }
        assert!(found == expected);
    }
}
