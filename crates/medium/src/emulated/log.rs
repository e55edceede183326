//! The log in emulated memory: groups are stored past the cache.

use crate::area::{Area, group_words};
use crate::cpu::{self, LINE_BYTES};
use crate::emulated::{Device, Emulation};
use crate::mapping::Mapping;
use crate::sync::{Arc, Mutex, Ordering, lock};
use crate::{Buffer, Counts, Error, LogMedium, PoolFile, ReadLog};

/// The log in emulated memory. A group costs the device's delay.
///
/// ```
/// use medium::{Buffer, EmulatedLog, Emulation, LogMedium, PoolFile, Prewrite, ReadLog, sync::Arc};
///
/// let dir = tempfile::tempdir()?;
/// let file = PoolFile::create(dir.path().join("bank.pool"), 1 << 20, Prewrite::No)?;
/// let device = Emulation::new(1000, 0);
/// let log = EmulatedLog::new(Arc::new(file), 4096, (1 << 20) - 4096, device)?;
/// let mut group = Buffer::new(512);
/// group.words_mut()[0] = 42;
/// assert!(log.append(64, group, 8)?.is_some()); // durable, as far as a memory is
/// let mut words = [0; 2];
/// log.read(64, &mut words)?;
/// assert_eq!(words, [42, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EmulatedLog {
    /// Keeps the file locked, and so its length, while it is mapped.
    area: Area,
    mapping: Mapping,
    device: Mutex<Device>,
}

impl EmulatedLog {
    /// The log of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`]; [`Error::Io`] when it cannot be mapped.
    pub fn new(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        emulation: Arc<Emulation>,
    ) -> Result<EmulatedLog, Error> {
        let area = Area::new(file, offset, bytes)?;
        let mapping = area.map()?;
        let device = Mutex::new(Device::new(emulation));
        Ok(EmulatedLog { area, mapping, device })
    }
}

impl ReadLog for EmulatedLog {
    fn bytes(&self) -> u64 {
        self.area.bytes()
    }

    fn block_bytes(&self) -> usize {
        LINE_BYTES
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        self.area.check_log(at, out.len(), 8)?;
        let first = at as usize / 8;
        let words = &self.mapping.words()[first..first + out.len()];
        for (out, word) in out.iter_mut().zip(words) {
            *out = word.load(Ordering::Relaxed);
        }
        Ok(())
    }
}

impl LogMedium for EmulatedLog {
    fn depth(&self) -> usize {
        0
    }

    fn append(&self, at: u64, group: Buffer, words: usize) -> Result<Option<Buffer>, Error> {
        self.area.check_log(at, words, LINE_BYTES as u64)?;
        let first = at as usize / 8; // checked: inside the log, whose size is a usize
        // Fenced: on persistent memory the words are durable when this returns.
        cpu::stream(&self.mapping.words()[first..first + words], group_words(&group, words)?);
        let mut device = lock(&self.device);
        device.lines += (words * 8 / LINE_BYTES) as u64;
        device.barrier();
        Ok(Some(group))
    }

    fn acknowledge(&self, _wait: bool) -> Result<Option<Buffer>, Error> {
        Ok(None)
    }

    fn counts(&self) -> Counts {
        lock(&self.device).counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};

    fn log(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<EmulatedLog, Error> {
        EmulatedLog::new(file, offset, bytes, Emulation::new(100, 0))
    }

    #[test]
    fn groups_come_back_and_no_other_block_changes() {
        suite::log_keeps_every_group(log);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        suite::log_refuses_wrong_ranges(log);
    }

    #[test]
    fn a_barrier_takes_as_long_as_its_bytes() {
        let (_dir, file) = suite::pool();
        let device = Emulation::new(100, 1_000_000_000);
        let log = EmulatedLog::new(file, HEAP_OFFSET, HEAP_BYTES, device).unwrap();
        assert!(log.append(0, Buffer::new(125 * 64), 125 * 64).unwrap().is_some());
        let counts = log.counts();
        assert_eq!(
            (counts.bytes, counts.device_writes, counts.persist_barriers),
            (64_000, 1000, 1)
        );
        // 64 us at 1 GB/s; cycles and nanoseconds are rounded down once each.
        assert!(counts.emulated_delay_ns >= 63_998, "{}", counts.emulated_delay_ns);
        assert!(log.acknowledge(true).unwrap().is_none());
        assert_eq!(log.counts(), counts);
    }
}
