//! How a pool is made and opened.

use medium::System;

use crate::Error;
use crate::superblock::{LAYOUT_BYTES, padded};

/// What makes a pool's bytes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Medium {
    /// Two files, NAME and NAME.log, on any file system. Survives a power cut where the file
    /// system and the disk keep their word about flushes.
    File,
    /// Persistent memory: one mapped file on a file system mounted with `-o dax`. Survives a power
    /// cut.
    Dax,
    /// Memory that is kept with its caches when the power fails, by the machine or the device
    /// (eADR, a battery, CXL global persistent flush): one mapped file in it. That it is so is for
    /// the user to know; no program can find out.
    PersistentCache,
    /// One mapped file, best on tmpfs, with the costs of persistent memory imitated: each persist
    /// barrier takes max(latency, bytes / bandwidth). For experiments: it survives the process, not
    /// the machine.
    Emulated {
        /// Cycles of the time-stamp counter that a barrier takes at least.
        latency_cycles: u64,
        /// Bytes a second that all threads share; 0 for no bound.
        bandwidth_bytes_per_second: u64,
    },
}

impl Medium {
    /// Its name, as the superblock and the command line say it.
    pub fn name(self) -> &'static str {
        match self {
            Medium::File => "file",
            Medium::Dax => "dax",
            Medium::PersistentCache => "persistent_cache",
            Medium::Emulated { .. } => "emulated",
        }
    }

    /// The medium of that name; an emulated one without delay.
    pub(crate) fn named(name: &str) -> Option<Medium> {
        let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
        [Medium::File, Medium::Dax, Medium::PersistentCache, emulated]
            .into_iter()
            .find(|medium| medium.name() == name)
    }

    /// Whether the log is in the pool's own file, because it is mapped.
    pub(crate) fn log_inside(self) -> bool {
        self != Medium::File
    }
}

/// When a commit returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// At once; the ticket tells when it is durable.
    #[default]
    Async,
    /// When it is durable. Workers that commit at the same time share a flush.
    Sync,
}

/// The memory that transactions work on, in front of the heap at home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shadow {
    /// As large as the heap, filled when the pool is opened: opening reads the whole heap, an
    /// access never waits for the disk, and a sector that cannot be read is an error of `open`.
    #[default]
    Full,
    /// A private mapping of the pool's file: opening is instant, a page is read when it is first
    /// used and copied when it is first written, and a page that was never written takes no memory
    /// of the process. A sector that cannot be read kills the process (`SIGBUS`), and so does
    /// memory that cannot be had for a copy.
    CopyOnWrite,
}

/// What a pool is like; see each method for its default.
///
/// ```
/// use lastword::Options;
///
/// let options = Options::new().bytes(1 << 30).layout("ledger", 3);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) heap_bytes: u64,
    pub(crate) log_bytes: u64,
    pub(crate) ring_entries: u64,
    pub(crate) medium: Option<Medium>,
    pub(crate) durability: Durability,
    pub(crate) layout: String,
    pub(crate) layout_version: u64,
    pub(crate) background: bool,
    pub(crate) shadow: Shadow,
    pub(crate) system: System,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// The defaults: 64 MiB of heap, 64 MiB of log, on a file, asynchronous.
    pub fn new() -> Options {
        Options {
            heap_bytes: 64 << 20,
            log_bytes: 64 << 20,
            ring_entries: 1 << 20,
            medium: None,
            durability: Durability::Async,
            layout: String::new(),
            layout_version: 0,
            background: true,
            shadow: Shadow::Full,
            system: System::kernel(),
        }
    }

    /// Size of the heap in bytes, when the pool is created; rounded up to 64 KiB, at least 128 KiB.
    /// Default 64 MiB. The pool takes as much memory again, and as much disk.
    pub fn bytes(mut self, bytes: u64) -> Options {
        self.heap_bytes = bytes;
        self
    }

    /// Size of the log in bytes, when the pool is created; rounded up to 4 KiB, at least 128 KiB.
    /// Default 64 MiB. A larger log lets more writes to one page be gathered before it is written
    /// home, and larger transactions be made; up to as much memory again may be in use meanwhile.
    pub fn log_bytes(mut self, bytes: u64) -> Options {
        self.log_bytes = bytes;
        self
    }

    /// Entries of 16 bytes in each worker's volatile ring; rounded up to a power of two, at least
    /// 1024. Default 2^20, as in the DudeTM paper. The pages are taken when they are first used.
    pub fn ring_entries(mut self, entries: u64) -> Options {
        self.ring_entries = entries;
        self
    }

    /// What makes bytes durable. Default: a new pool is on [`Medium::Dax`] where its directory is
    /// in persistent memory, else on [`Medium::File`]; an existing one on what it was last on
    /// (emulated without any delay). A pool that was made for one of the mapped media opens on any
    /// of them.
    pub fn medium(mut self, medium: Medium) -> Options {
        self.medium = Some(medium);
        self
    }

    /// When a commit returns. Default [`Durability::Async`].
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Name (up to 32 bytes) and version of what the program keeps in the pool. They are kept in
    /// the superblock; opening a pool of another layout is an error. Default: "" and 0.
    pub fn layout(mut self, name: &str, version: u64) -> Options {
        self.layout = name.into();
        self.layout_version = version;
        self
    }

    /// Whether threads of the pool's own persist and reproduce. Default true. Without them nothing
    /// is durable before somebody waits, flushes or closes: for tests that run the steps
    /// themselves, and for programs whose workers all wait.
    pub fn background(mut self, background: bool) -> Options {
        self.background = background;
        self
    }

    /// What the memory that transactions work on begins as. Default [`Shadow::Full`].
    pub fn shadow(mut self, shadow: Shadow) -> Options {
        self.shadow = shadow;
        self
    }

    /// Whose files they are. Default: the kernel's. For tests: a system whose calls fail, or a
    /// recorded machine that can crash (see [`medium::recording`]).
    pub fn system(mut self, system: System) -> Options {
        self.system = system;
        self
    }

    /// The layout's name as the superblock has it.
    pub(crate) fn layout_padded(&self) -> Result<[u8; LAYOUT_BYTES], Error> {
        padded(&self.layout).filter(|_| !self.layout.contains('\0')).ok_or(Error::BadOption {
            option: "the layout name's length",
            value: self.layout.len() as u64,
            must: "a name has at most 32 bytes, none of them zero",
        })
    }

    /// Size of the heap, checked and rounded.
    pub(crate) fn heap_rounded(&self) -> Result<u64, Error> {
        rounded("bytes", self.heap_bytes, lw_alloc::HEAP_BYTES_MIN, lw_alloc::CHUNK_BYTES)
    }

    /// Size of the log, checked and rounded.
    pub(crate) fn log_rounded(&self) -> Result<u64, Error> {
        rounded("log_bytes", self.log_bytes, 128 << 10, 4096)
    }

    /// Words of a volatile ring.
    pub(crate) fn ring_words(&self) -> usize {
        let entries = self.ring_entries.clamp(1 << 10, 1 << 32).next_power_of_two();
        2 * entries as usize
    }
}

/// Largest heap or log: what the 48 bits of an address reach.
const BYTES_MAX: u64 = 1 << words::ADDRESS_BITS;

fn rounded(option: &'static str, value: u64, min: u64, unit: u64) -> Result<u64, Error> {
    if value < min {
        let must = "it must be at least 128 KiB";
        return Err(Error::BadOption { option, value, must });
    }
    if value > BYTES_MAX {
        let must = "it must be at most 2^48 bytes";
        return Err(Error::BadOption { option, value, must });
    }
    Ok(value.next_multiple_of(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_and_impossible_ones_refused() {
        let options = Options::new().bytes((1 << 20) + 1).log_bytes(1).ring_entries(3000);
        assert_eq!(options.heap_rounded().unwrap(), (1 << 20) + (64 << 10));
        assert!(options.log_rounded().is_err());
        assert_eq!(options.ring_words(), 8192);
        assert!(Options::new().bytes(u64::MAX).heap_rounded().is_err());
    }

    #[test]
    fn a_layout_name_has_at_most_32_bytes() {
        assert!(Options::new().layout(&"x".repeat(32), 0).layout_padded().is_ok());
        assert!(Options::new().layout(&"x".repeat(33), 0).layout_padded().is_err());
        assert!(Options::new().layout("a\0b", 0).layout_padded().is_err());
    }
}
