//! Home in emulated memory: words are stored through the mapping, their lines written back.

use crate::area::Area;
use crate::cpu::{self, LINE_WORDS, LineWriteBack};
use crate::emulated::{Device, Emulation};
use crate::mapping::Mapping;
use crate::sync::{Arc, Ordering};
use crate::writes::{self, Piece, Pieces};
use crate::{Counts, Error, HomeMedium, PoolFile};

/// The heap in emulated memory. A barrier costs a fence and the device's delay.
///
/// ```
/// use medium::{EmulatedHome, Emulation, HomeMedium, PoolFile, Prewrite, sync::Arc, writes};
///
/// let dir = tempfile::tempdir()?;
/// let file = PoolFile::create(dir.path().join("bank.pool"), 1 << 20, Prewrite::No)?;
/// let device = Emulation::new(1000, 0);
/// let mut home = EmulatedHome::new(Arc::new(file), 4096, (1 << 20) - 4096, device)?;
/// home.write_back(&[writes::run(10, 2), 42, 43])?; // words 10 and 11 of the heap
/// home.barrier()?; // durable, as far as a memory is
/// assert_eq!(home.counts().device_writes, 1); // one line
/// assert!(home.counts().emulated_delay_ns > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EmulatedHome {
    /// Keeps the file locked, and so its length, while it is mapped.
    area: Area,
    mapping: Mapping,
    line_write_back: LineWriteBack,
    device: Device,
}

impl EmulatedHome {
    /// The heap of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`]; [`Error::Io`] when it cannot be mapped.
    pub fn new(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        emulation: Arc<Emulation>,
    ) -> Result<EmulatedHome, Error> {
        let area = Area::new(file, offset, bytes)?;
        let mapping = area.map()?;
        Ok(EmulatedHome {
            area,
            mapping,
            line_write_back: LineWriteBack::detect(),
            device: Device::new(emulation),
        })
    }

    /// The instruction that writes lines back.
    pub fn line_write_back(&self) -> LineWriteBack {
        self.line_write_back
    }
}

impl HomeMedium for EmulatedHome {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), Error> {
        writes::check(writes, self.area.bytes() / 8)?;
        let heap = self.mapping.words();
        let write_back = self.line_write_back;
        // A line is written back when the next one is touched, so that runs which share a line
        // cost one. The mapping starts at a page, so index / 8 names the line. Prefetching the
        // lines 4 to 64 runs ahead does not pay (0 to 20 % slower, 512 MiB on tmpfs, uniform, one
        // or four words a run): the store buffer looks ahead far enough.
        let mut last_line = None;
        let mut lines = 0;
        for piece in Pieces::new(writes) {
            let Piece::Run(index, words) = piece else { continue };
            let first = index as usize; // checked: inside the heap, whose size is a usize
            for (word, value) in heap[first..first + words.len()].iter().zip(words) {
                // Relaxed: nobody but this thread reads the mapping before the barrier.
                word.store(*value, Ordering::Relaxed);
            }
            for line in first / LINE_WORDS..=(first + words.len() - 1) / LINE_WORDS {
                if last_line != Some(line) {
                    if let Some(last) = last_line.replace(line) {
                        write_back.line(heap, last * LINE_WORDS);
                    }
                    lines += 1;
                }
            }
        }
        if let Some(last) = last_line {
            write_back.line(heap, last * LINE_WORDS);
        }
        self.device.lines += lines;
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), Error> {
        // Orders the write-backs before whatever is stored next: on persistent memory they are
        // durable from here on.
        cpu::store_fence();
        self.device.barrier();
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.device.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};
    use crate::writes::run;

    fn home(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<EmulatedHome, Error> {
        EmulatedHome::new(file, offset, bytes, Emulation::new(100, 0))
    }

    #[test]
    fn every_write_comes_home() {
        suite::home_keeps_every_write(home);
    }

    #[test]
    fn a_wrong_batch_writes_nothing() {
        suite::home_refuses_wrong_batches(home);
    }

    #[test]
    fn neighbouring_words_cost_one_line_and_a_barrier_its_latency() {
        let (_dir, file) = suite::pool();
        let device = Emulation::new(50_000, 0);
        let mut home = EmulatedHome::new(file, HEAP_OFFSET, HEAP_BYTES, device).unwrap();
        home.write_back(&[run(8, 1), 1, run(10, 2), 2, 3, run(14, 4), 4, 5, 6, 7]).unwrap();
        home.write_back(&[run(0, 1), 1]).unwrap();
        assert_eq!(home.counts().device_writes, 3);
        home.barrier().unwrap();
        home.barrier().unwrap();
        let counts = home.counts();
        assert_eq!((counts.bytes, counts.device_writes, counts.persist_barriers), (192, 3, 2));
        assert!(home.device.delay_cycles >= 100_000);
        assert_eq!(counts.emulated_delay_ns, cpu::cycles_to_ns(home.device.delay_cycles));
    }

    #[test]
    fn a_file_opened_for_reading_cannot_be_a_home() {
        let (_dir, file) = suite::pool_for_reading();
        assert!(matches!(home(file, HEAP_OFFSET, HEAP_BYTES), Err(Error::Io { .. })));
    }
}
