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
use crate::pool_file::PoolFile;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Ordering};
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

/// The lines that witnesses are stored to in turn.
#[derive(Debug)]
struct Witnesses {
    mapped: Mapped,
    /// Word indexes in `mapped`.
    places: Vec<usize>,
    /// Number of the next witness.
    next: AtomicUsize,
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
        let witnesses = Some(Witnesses { mapped, places, next: AtomicUsize::new(0) });
        Ok(MappedLog { witnesses, ..self })
    }
}

impl Mapped {
    fn read(&self, first: usize, out: &mut [u64]) {
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
        match &self.mapped {
            Mapped::Real(mapping) => self.domain.store_group(mapping.words(), first, from),
            Mapped::Simulated(memory) => self.domain.store_group(&**memory, first, from),
        }
        // Threads wait beside each other: the device takes its time for one while another stores.
        // The witness of an earlier group goes with this one.
        let lines = (words * 8 / LINE_BYTES) as u64 + u64::from(self.witnesses.is_some());
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
        let Some(Witnesses { mapped, places, .. }) = &self.witnesses else { return Ok(Vec::new()) };
        let mut witnesses = vec![Witness::default(); places.len()];
        for (first, witness) in places.iter().zip(&mut witnesses) {
            mapped.read(*first, witness);
        }
        Ok(witnesses)
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
    fn leave_witness(&self, witness: &Witness) {
        let Some(Witnesses { mapped, places, next }) = &self.witnesses else { return };
        // Relaxed: one thread at a time acknowledges groups.
        let number = next.load(Ordering::Relaxed);
        next.store((number + 1) % places.len(), Ordering::Relaxed);
        match mapped {
            Mapped::Real(mapping) => {
                self.domain.store_line(mapping.words(), places[number], witness)
            }
            Mapped::Simulated(memory) => self.domain.store_line(&**memory, places[number], witness),
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
    fn witnesses_use_their_lines_in_turn() {
        for domain in suite::domains() {
            let (_dir, file) = suite::pool();
            let log = MappedLog::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
            let log = log.with_witnesses(4096, &[64, 192]).unwrap();
            (1..=3).for_each(|number| log.leave_witness(&[number; 8]));
            assert_eq!(log.witnesses().unwrap(), [[3; 8], [2; 8]]);
            let reader = LogReader::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, 64).unwrap();
            assert_eq!(reader.with_witnesses(&[192]).witnesses().unwrap(), [[2; 8]]);
            let log = MappedLog::new(file, HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
            assert!(log.witnesses().unwrap().is_empty());
            log.leave_witness(&[7; 8]);
            assert!(log.with_witnesses(4096, &[4096]).is_err());
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
