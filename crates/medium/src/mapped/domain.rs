//! Persistence domain: the level that a store to mapped memory must reach to be durable.
//!
//! | | mapping | heap image and log | persist barrier |
//! |---|---|---|---|
//! | [`dax`](Domain::dax) | synchronous | past the cache, or lines written back | a fence |
//! | [`persistent_cache`](Domain::persistent_cache) | synchronous if it can be | stores | a fence |
//! | [`emulated`](Domain::emulated) | shared | as on `dax` | a fence and a delay |

use std::io;

use super::stores::{Mapped, Stores};
use crate::area::Area;
use crate::cpu::{self, LINE_BYTES, LINE_WORDS, LineWriteBack};
use crate::error::Error;
use crate::mapped::Emulation;
use crate::mapping::Sharing;
use crate::pool_file::PoolFile;
use crate::sync::Arc;
use crate::traits::Counts;
use system::mutants::{Mutant, injected};

/// Persistence domain of a back end that maps its file. Cheap to clone. The heap image and the log
/// of a pool share one, and thereby the emulated device.
#[derive(Clone, Debug)]
pub struct Domain {
    /// How the file is mapped, tried in this order.
    sharing: &'static [Sharing],
    /// How a line leaves the cache; `None` where the cache is inside the domain.
    write_back: Option<LineWriteBack>,
    /// The device whose delay a barrier costs.
    emulation: Option<Arc<Emulation>>,
}

impl Domain {
    /// Persistent memory, in which the file lies: its file system is mounted with `-o dax`. A
    /// store is durable once it has left the cache.
    ///
    /// # Errors
    /// [`Error::NoDax`] when the kernel or the file system refuses a synchronous mapping, or the
    /// processor has no way to write a line back; [`Error::ReadOnly`].
    pub fn dax(file: &Arc<PoolFile>) -> Result<Domain, Error> {
        let write_back = LineWriteBack::detect();
        if !write_back.is_there() {
            let source = io::Error::other("this processor has no instruction to write lines back");
            return Err(Error::NoDax { path: file.path().to_path_buf(), source });
        }
        let sharing = &[Sharing::Synchronous];
        let domain = Domain { sharing, write_back: Some(write_back), emulation: None };
        domain.map(&Area::new(file.clone(), 0, 0)?)?;
        Ok(domain)
    }

    /// Whether a pool in this file can be on persistent memory, also of a file that is open for
    /// reading only. Such a file cannot be mapped as [`dax`](Domain::dax) maps it; so the file
    /// system is asked, which knows of no device that needs a flush of its own.
    ///
    /// # Errors
    /// [`Error::NoDax`].
    pub fn check_dax(file: &Arc<PoolFile>) -> Result<(), Error> {
        if file.can_write() || !LineWriteBack::detect().is_there() {
            return Domain::dax(file).map(drop);
        }
        match file.is_dax() {
            true => Ok(()),
            // The error of the kernel for a synchronous mapping.
            false => {
                let source = rustix::io::Errno::OPNOTSUPP.into();
                Err(Error::NoDax { path: file.path().to_path_buf(), source })
            }
        }
    }

    /// Memory whose caches are kept when the power fails, by the machine (eADR, a battery) or by
    /// the device (CXL global persistent flush): a store is durable as soon as other processors
    /// can see it. That the machine does so, and that the file is kept in such memory, is for the
    /// user to know; no program can find out.
    pub fn persistent_cache() -> Domain {
        let sharing = &[Sharing::Synchronous, Sharing::Shared];
        Domain { sharing, write_back: None, emulation: None }
    }

    /// For experiments: memory (a file on tmpfs, or any other) with the latency and bandwidth of
    /// persistent memory. Its contents survive the process, not the machine.
    pub fn emulated(device: Arc<Emulation>) -> Domain {
        let write_back = Some(LineWriteBack::detect());
        Domain { sharing: &[Sharing::Shared], write_back, emulation: Some(device) }
    }

    /// `dax` over ordinary memory: everything but the synchronous mapping.
    #[cfg(test)]
    pub(crate) fn dax_over_dram(write_back: LineWriteBack) -> Domain {
        Domain { sharing: &[Sharing::Shared], write_back: Some(write_back), emulation: None }
    }

    /// The instruction that writes lines back; "none" where none is needed.
    pub fn line_write_back(&self) -> &'static str {
        self.write_back.map_or("none", LineWriteBack::name)
    }

    pub(super) fn write_back(&self) -> Option<LineWriteBack> {
        self.write_back
    }

    pub(super) fn emulation(&self) -> Option<Arc<Emulation>> {
        self.emulation.clone()
    }

    pub(super) fn map(&self, area: &Area) -> Result<Mapped, Error> {
        let (file, bytes) = (area.handle(), area.bytes() as usize); // checked to fit
        if let Some(memory) = file.memory(area.offset(0), bytes, self.write_back.is_none()) {
            if !file.can_write() {
                return Err(Error::ReadOnly { path: area.file().path().to_path_buf() });
            }
            return Ok(Mapped::Simulated(memory));
        }
        let (last, before) = self.sharing.split_last().expect("a domain has a way to map");
        let mapped = before.iter().find_map(|&way| area.map(way).ok());
        mapped.map_or_else(|| area.map(*last), Ok).map(Mapped::Real)
    }

    /// Waits as long as a barrier after this many lines takes; returns the cycles waited.
    pub(super) fn wait(&self, lines: u64) -> u64 {
        let bytes = lines * LINE_BYTES as u64;
        self.emulation.as_ref().map_or(0, |device| device.wait(bytes))
    }

    /// Stores a line of its own such that the next fence makes it durable.
    pub(super) fn store_line(&self, to: &(impl Stores + ?Sized), first: usize, line: &[u64]) {
        match self.write_back {
            Some(_) if injected(Mutant::GroupWitnessIntoCache) => to.store(first, line),
            Some(_) => to.stream(first, line),
            None => to.store(first, line),
        }
    }

    /// Stores a group of the log such that it is durable on return but for the device's delay.
    pub(super) fn store_group(&self, to: &(impl Stores + ?Sized), first: usize, group: &[u64]) {
        match self.write_back {
            Some(_) if injected(Mutant::GroupNotWrittenBack) => to.store(first, group),
            Some(_) if injected(Mutant::OnlyFirstLineWrittenBack) => half(to, first, group, true),
            Some(_) if injected(Mutant::HeaderNotWrittenBack) => half(to, first, group, false),
            Some(_) => to.stream(first, group),
            None => to.store(first, group),
        }
        // A store is durable once it has left the store buffer.
        if !injected(Mutant::GroupNotFenced) {
            to.fence();
        }
    }
}

/// For mutants: of a group the first line goes past the cache, or all others do.
fn half(to: &(impl Stores + ?Sized), first: usize, group: &[u64], head_past: bool) {
    let (head, rest) = group.split_at(LINE_WORDS);
    if head_past {
        to.stream(first, head);
        to.store(first + LINE_WORDS, rest);
    } else {
        to.store(first, head);
        to.stream(first + LINE_WORDS, rest);
    }
}

/// Stores of one medium, and its waits for the device.
#[derive(Debug)]
pub(super) struct Account {
    emulation: Option<Arc<Emulation>>,
    /// Cache lines sent to the domain.
    lines: u64,
    /// `lines` at the last barrier.
    lines_before: u64,
    persist_barriers: u64,
    delay_cycles: u64,
}

impl Account {
    pub(super) fn new(domain: &Domain) -> Account {
        Account::over(domain.emulation.clone())
    }

    fn over(emulation: Option<Arc<Emulation>>) -> Account {
        Account { emulation, lines: 0, lines_before: 0, persist_barriers: 0, delay_cycles: 0 }
    }

    /// Returns an empty account for another part of the same heap image.
    pub(super) fn anew(&self) -> Account {
        Account::over(self.emulation.clone())
    }

    pub(super) fn add_lines(&mut self, lines: u64) {
        self.lines += lines;
    }

    /// Waits as long as a barrier takes for the lines sent since the last one.
    pub(super) fn barrier(&mut self) {
        let bytes = (self.lines - self.lines_before) * LINE_BYTES as u64;
        self.lines_before = self.lines;
        self.delay_cycles += self.emulation.as_ref().map_or(0, |device| device.wait(bytes));
        self.persist_barriers += 1;
    }

    /// Counts persist barriers of checksums. They have already waited for the device.
    pub(super) fn add_barriers(&mut self, barriers: u64) {
        self.persist_barriers += barriers;
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            bytes: self.lines * LINE_BYTES as u64,
            device_writes: self.lines,
            persist_barriers: self.persist_barriers,
            emulated_delay_ns: cpu::cycles_to_ns(self.delay_cycles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped::{MappedHeap, MappedLog};
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};

    #[test]
    fn missing_dax_is_refused_with_advice() {
        let (_dir, file) = suite::pool();
        let error = match Domain::dax(&file) {
            Err(error) => error,
            // Then the tests run on persistent memory, and the suite too.
            Ok(domain) => return runs_the_suite(&domain),
        };
        assert!(matches!(error, Error::NoDax { .. }), "{error}");
        let path = file.path().display().to_string();
        let error = error.to_string();
        assert!(error.starts_with(&path) && error.contains("-o dax"), "{error}");
        // A heap image or a log without synchronous mappings fails too.
        let dax = Domain { sharing: &[Sharing::Synchronous], ..Domain::persistent_cache() };
        let heap_image = MappedHeap::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, &dax);
        assert!(matches!(heap_image, Err(Error::NoDax { .. })), "{heap_image:?}");
        let log = MappedLog::new(file, HEAP_OFFSET, HEAP_BYTES, &dax);
        assert!(matches!(log, Err(Error::NoDax { .. })), "{log:?}");
    }

    fn runs_the_suite(domain: &Domain) {
        suite::heap_image_keeps_every_write(|file, at, bytes| {
            MappedHeap::new(file, at, bytes, domain)
        });
        suite::log_keeps_every_group(|file, at, bytes| MappedLog::new(file, at, bytes, domain));
    }

    #[test]
    fn read_only_file_is_refused_by_every_domain() {
        let (_dir, file) = suite::pool_for_reading();
        for domain in suite::domains() {
            let heap_image = MappedHeap::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, &domain);
            assert!(matches!(heap_image, Err(Error::ReadOnly { .. })), "{heap_image:?}");
            let log = MappedLog::new(file.clone(), HEAP_OFFSET, HEAP_BYTES, &domain);
            assert!(matches!(log, Err(Error::ReadOnly { .. })), "{log:?}");
        }
        // The file system's order of checks decides which of the two errors it returns.
        let dax = Domain::dax(&file);
        assert!(matches!(dax, Err(Error::ReadOnly { .. } | Error::NoDax { .. })), "{dax:?}");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn mapping_beyond_address_space_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        // A sparse file of 8 TiB, mapped until 2^47 bytes of addresses are used up.
        let path = dir.path().join("pool");
        let bytes = 1 << 43;
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        let file = Arc::new(PoolFile::open(&path).unwrap());
        let heap_image: Vec<_> = (0..20)
            .map(|_| MappedHeap::new(file.clone(), 0, bytes, &Domain::persistent_cache()))
            .collect();
        assert!(heap_image[0].is_ok(), "{:?}", heap_image[0]);
        let refused = heap_image.iter().filter_map(|heap_image| heap_image.as_ref().err()).next();
        assert!(matches!(refused, Some(Error::NoMemory { .. })), "{refused:?}");
    }
}
