//! Log in mapped memory: groups are durable once stored, except for an emulated device's delay.
//!
//! Threads store concurrently, each to its own lines with its own fence. They share only the
//! emulated device's bandwidth and the account.

use crate::area::{Area, group_words};
use crate::buffer::Buffer;
use crate::cpu::{self, LINE_BYTES};
use crate::error::Error;
use crate::mapped::domain::Domain;
use crate::mapped::stores::Mapped;
use crate::mapped::witnesses::Witnesses;
use crate::pool_file::PoolFile;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::traits::{Counts, LogMedium, ReadLog, Witness};

/// The log in mapped memory. A group costs a fence, and the device's delay if it is emulated.
///
/// ```
/// use medium::{Buffer, Domain, Emulation, LogMedium, MappedLog, PoolFile, Prewrite, ReadLog};
/// use medium::sync::Arc;
///
/// let dir = tempfile::tempdir()?;
/// let file = Arc::new(PoolFile::create(dir.path().join("bank.pool"), 1 << 20, Prewrite::No)?);
/// let domain = Domain::dax(&file).unwrap_or(Domain::emulated(Emulation::new(1000, 0)));
/// let log = MappedLog::new(file, 4096, (1 << 20) - 4096, &domain)?;
/// let mut group = Buffer::new(512);
/// group.words_mut()[0] = 42;
/// assert!(log.append(64, group, 8)?.is_some()); // durable
/// let mut words = [0; 2];
/// log.read(64, &mut words)?;
/// assert_eq!(words, [42, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MappedLog {
    /// Keeps the file locked, and so its length, while it is mapped.
    area: Area,
    mapped: Mapped,
    domain: Domain,
    account: Account,
    witnesses: Option<Witnesses>,
}

/// Counts of the log. Threads that append beside each other add to them with locked instructions.
#[derive(Debug, Default)]
struct Account {
    /// Cache lines stored.
    lines: AtomicU64,
    barriers: AtomicU64,
    delay_cycles: AtomicU64,
}

impl Account {
    /// Adds a group. `alone`: the caller lets one thread at a time append.
    fn add(&self, lines: u64, delay_cycles: u64, alone: bool) {
        let all = [(&self.lines, lines), (&self.barriers, 1), (&self.delay_cycles, delay_cycles)];
        for (count, more) in all.into_iter().filter(|(_, more)| *more > 0) {
            // Relaxed: the counts are only shown.
            match alone {
                true => count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed),
                false => _ = count.fetch_add(more, Ordering::Relaxed),
            }
        }
    }
}

impl MappedLog {
    /// The log of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`]; [`Error::NoDax`], [`Error::ReadOnly`], [`Error::NoMemory`] (addresses or
    /// page tables) or [`Error::Io`] when it cannot be mapped.
    pub fn new(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        domain: &Domain,
    ) -> Result<MappedLog, Error> {
        let area = Area::new(file, offset, bytes)?;
        Ok(MappedLog {
            mapped: domain.map(&area)?,
            area,
            domain: domain.clone(),
            account: Account::default(),
            witnesses: None,
        })
    }

    /// Adds lines for witnesses at these offsets in the file, in its first `bytes` bytes.
    ///
    /// # Errors
    /// As [`new`](MappedLog::new).
    pub fn with_witnesses(self, bytes: u64, places: &[u64]) -> Result<MappedLog, Error> {
        let area = Area::new(self.area.shared_file(), 0, bytes)?;
        for place in places {
            area.check_log(*place, LINE_BYTES / 8, LINE_BYTES as u64)?;
        }
        let places = places.iter().map(|place| *place as usize / 8).collect();
        let mapped = self.domain.map(&area)?;
        let witnesses = Some(Witnesses::new(mapped, places));
        Ok(MappedLog { witnesses, ..self })
    }
}

impl Mapped {
    pub(super) fn read(&self, first: usize, out: &mut [u64]) {
        match self {
            Mapped::Real(mapping) => {
                let words = &mapping.words()[first..first + out.len()];
                for (out, word) in out.iter_mut().zip(words) {
                    *out = word.load(Ordering::Relaxed);
                }
            }
            Mapped::Simulated(memory) => memory.read(first, out),
        }
    }
}

impl MappedLog {
    /// Stores a group durably, and counts it.
    #[inline]
    fn store(&self, at: u64, group: Buffer, words: usize, alone: bool) -> Result<Buffer, Error> {
        self.area.check_log(at, words, LINE_BYTES as u64)?;
        let first = at as usize / 8; // checked: inside the log, whose size is a usize
        let from = group_words(&group, words)?;
        let witnesses = self.witnesses.as_ref();
        let due = witnesses.map_or(0, |witnesses| witnesses.store_due(&self.domain));
        match &self.mapped {
            Mapped::Real(mapping) => self.domain.store_group(mapping.words(), first, from),
            Mapped::Simulated(memory) => self.domain.store_group(&**memory, first, from),
        }
        // Threads wait beside each other: the device takes its time for one while another stores.
        let lines = (words * 8 / LINE_BYTES) as u64 + due;
        self.account.add(lines, self.domain.wait(lines), alone);
        Ok(group)
    }
}

impl ReadLog for MappedLog {
    fn bytes(&self) -> u64 {
        self.area.bytes()
    }

    fn block_bytes(&self) -> usize {
        LINE_BYTES
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        self.area.check_log(at, out.len(), 8)?;
        self.mapped.read(at as usize / 8, out);
        Ok(())
    }

    fn witnesses(&self) -> Result<Vec<Witness>, Error> {
        Ok(self.witnesses.as_ref().map_or(Vec::new(), Witnesses::read))
    }
}

impl LogMedium for MappedLog {
    fn depth(&self) -> usize {
        0
    }

    fn append(&self, at: u64, group: Buffer, words: usize) -> Result<Option<Buffer>, Error> {
        self.store(at, group, words, false).map(Some)
    }

    fn append_alone(&self, at: u64, group: Buffer, words: usize) -> Result<Buffer, Error> {
        self.store(at, group, words, true)
    }

    fn acknowledge(&self, _wait: bool) -> Result<Option<Buffer>, Error> {
        Ok(None)
    }

    #[inline]
    fn leave_witness(&self, end: u64, witness: &Witness) {
        if let Some(witnesses) = &self.witnesses {
            witnesses.leave(&self.domain, end, witness);
        }
    }

    fn keep_witness(&self, recycled: u64) {
        if let Some(witnesses) = &self.witnesses {
            witnesses.keep(&self.domain, recycled);
        }
    }

    fn counts(&self) -> Counts {
        let Account { lines, barriers, delay_cycles } = &self.account;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            bytes: count(lines) * LINE_BYTES as u64,
            device_writes: count(lines),
            persist_barriers: count(barriers),
            emulated_delay_ns: cpu::cycles_to_ns(count(delay_cycles)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::LineWriteBack;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};
    use crate::{Emulation, LogReader};

    #[test]
    fn appended_groups_are_read_back_unchanged() {
        for domain in suite::domains() {
            suite::log_keeps_every_group(|file, offset, bytes| {
                MappedLog::new(file, offset, bytes, &domain)
            });
        }
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for domain in suite::domains() {
            suite::log_refuses_wrong_ranges(|file, offset, bytes| {
                MappedLog::new(file, offset, bytes, &domain)
            });
        }
    }

    #[test]
    fn only_emulated_device_delays_barriers() {
        for domain in [Domain::dax_over_dram(LineWriteBack::detect()), Domain::persistent_cache()] {
            let (_dir, file) = suite::pool();
            let log = MappedLog::new(file, HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
            assert!(log.append(0, Buffer::new(512), 16).unwrap().is_some());
            let expected =
                Counts { bytes: 128, device_writes: 2, persist_barriers: 1, emulated_delay_ns: 0 };
            assert_eq!(log.counts(), expected);
        }
    }

    #[test]
    fn witness_of_a_page_goes_with_next_group() {
        for domain in suite::domains() {
            let (_dir, file) = suite::pool();
            let log = MappedLog::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
            // Two lines for pages, and two for all groups.
            let log = log.with_witnesses(4096, &[64, 128, 192, 256]).unwrap();
            let witness = |number: u64| [number, number, 0, 0, 0, 0, 0, 0];
            let append = |end: u64, lines: u64| {
                let before = log.counts().device_writes;
                assert!(log.append(end - 64, Buffer::new(512), 8).unwrap().is_some());
                let lines = if domain.write_back().is_some() { lines } else { 1 };
                assert_eq!(log.counts().device_writes - before, lines);
                log.leave_witness(end, &witness(end));
            };
            let has = |expected: [u64; 4]| {
                let pages = if domain.write_back().is_some() { 2 } else { 0 };
                for (number, found) in log.witnesses().unwrap().iter().enumerate() {
                    let is_kept = number < pages || number >= 2;
                    let expected = if is_kept { expected[number] } else { 0 };
                    assert_eq!(*found, witness(expected), "{number}");
                }
            };
            append(64, 1);
            has([0, 0, 64, 0]);
            append(128, 2);
            has([64, 0, 64, 128]);
            append(4096, 1);
            has([64, 0, 4096, 128]);
            append(4160, 1);
            has([64, 0, 4096, 4160]);
            append(4224, 2);
            has([64, 4160, 4224, 4160]);
            let reader = LogReader::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, 64).unwrap();
            assert_eq!(reader.with_witnesses(&[192]).witnesses().unwrap(), [witness(4224)]);
            let log = MappedLog::new(file, HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
            assert!(log.witnesses().unwrap().is_empty());
            log.leave_witness(64, &witness(64));
            assert!(log.with_witnesses(4096, &[64, 128, 4096]).is_err());
        }
    }

    #[test]
    fn a_barrier_takes_as_long_as_its_bytes() {
        let (_dir, file) = suite::pool();
        let device = Emulation::new(100, 1_000_000_000);
        let domain = Domain::emulated(device);
        let log = MappedLog::new(file, HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
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
