//! Replacements of the product's items that the protocol files use: errors, superblocks, memory.

use crate::sync::AtomicU64;
use real_medium::Counts;

/// The product's errors and the medium's, as far as the protocols use them.
#[derive(Debug)]
pub enum Error {
    Poisoned { cause: std::sync::Arc<Error> },
    StepPanicked { step: &'static str },
    InsideTransaction { call: &'static str },
    NotDurable { design: &'static str },
    TooManyWorkers { design: &'static str, max: usize, instead: &'static str },
    Thread { source: std::io::Error },
    DamagedLog { path: std::path::PathBuf, at: u64, why: crate::error::LogDamage },
    Medium(real_medium::Error),
    NoRecords { records: u64, bytes: u64 },
    NoRing { bytes: u64 },
    Closed { call: &'static str },
    NoView { design: &'static str },
    StillUsed(crate::error::StillUsed),
    Replication(ReplicationError),
}

/// The error of a pool that waits for a stream.
#[derive(Debug)]
pub enum ReplicationError {
    Behind { id: words::TxId, replicated: words::TxId, fed: bool },
    Stalled { replicated: words::TxId },
    Undurable { id: words::TxId, replicated: words::TxId },
    Inside { first: words::TxId, last_of_group: words::TxId, kept: words::TxId },
}

impl From<ReplicationError> for Error {
    fn from(error: ReplicationError) -> Error {
        Error::Replication(error)
    }
}

impl From<crate::error::StillUsed> for Error {
    fn from(error: crate::error::StillUsed) -> Error {
        Error::StillUsed(error)
    }
}

impl From<real_medium::Error> for Error {
    fn from(error: real_medium::Error) -> Error {
        Error::Medium(error)
    }
}

/// The words of a ring.
#[derive(Debug)]
pub struct Memory(Box<[AtomicU64]>);

impl Memory {
    pub(crate) fn anonymous(bytes: u64) -> Result<Memory, Error> {
        Ok(Memory((0..bytes / 8).map(|_| AtomicU64::new(0)).collect()))
    }

    /// As `anonymous`: the models' sizes are small.
    pub(crate) fn unreserved(bytes: u64) -> Result<Memory, Error> {
        Memory::anonymous(bytes)
    }

    /// As `anonymous`.
    pub(crate) fn room(bytes: u64) -> Result<Memory, Error> {
        Memory::anonymous(bytes)
    }

    /// As `anonymous`.
    pub(crate) fn growing(bytes: u64, _small: u64) -> Result<Memory, Error> {
        Memory::anonymous(bytes)
    }
}

impl crate::RingMemory for Memory {
    fn release(&self, _words: std::ops::Range<usize>) {}
}

impl AsRef<[AtomicU64]> for Memory {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Signals, which the models do not have.
pub mod signals {
    pub fn block_size_signal() {}
}

/// The processor: prefetch hints and clocks.
pub mod cpu {
    use crate::sync::AtomicU64;

    /// Short lines make short stripes, of eight words.
    pub const LINE_WORDS: usize = 1;

    pub fn prefetch_read(_words: &[AtomicU64], _index: usize) {}

    pub fn prefetch_write(_words: &[AtomicU64], _index: usize) {}

    pub fn cycles() -> u64 {
        0
    }

    pub fn cycles_per_second() -> u64 {
        1
    }

    pub fn cycles_to_ns(cycles: u64) -> u64 {
        cycles
    }

    pub fn thread_cpu_ns() -> u64 {
        0
    }
}

/// The superblock, written by a closure of the model.
pub mod superblock {
    use super::{Counts, Error};

    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct Superblock {
        pub pool: u64,
        pub generation: u64,
        pub clean: bool,
        pub design: [u8; 16],
        pub medium: [u8; 16],
        pub heap_offset: u64,
        pub heap_bytes: u64,
        pub log_offset: u64,
        pub log_bytes: u64,
        pub log_inside: bool,
        pub reproduced: u64,
        pub log_sequence: u64,
        pub group: u64,
        pub compress: bool,
        pub page_checksums: bool,
    }

    /// A step of the heap's growth, which no model takes.
    #[derive(Clone, Copy, Debug)]
    pub enum GrowthStep {
        Begun { heap_bytes: u64 },
        Done { heap_bytes: u64 },
        LogBegun { log_bytes: u64 },
        LogDone { log_bytes: u64 },
    }

    pub fn is_harmless(_error: &crate::Error) -> bool {
        false
    }

    impl Superblock {
        pub fn record_growth(&mut self, step: GrowthStep) {
            if let GrowthStep::Done { heap_bytes } = step {
                self.heap_bytes = heap_bytes;
            }
        }
    }

    pub struct Superblocks {
        current: Superblock,
        write: Box<dyn FnMut(Superblock) + Send>,
    }

    impl Superblocks {
        pub fn new(
            current: Superblock,
            write: impl FnMut(Superblock) + Send + 'static,
        ) -> Superblocks {
            Superblocks { current, write: Box::new(write) }
        }

        pub fn current(&self) -> &Superblock {
            &self.current
        }

        pub fn update(&mut self, change: impl FnOnce(&mut Superblock)) -> Result<(), Error> {
            change(&mut self.current);
            (self.write)(self.current);
            Ok(())
        }

        pub fn counts(&self) -> Counts {
            Counts::default()
        }
    }

    /// A name in a superblock's field.
    pub fn padded<const N: usize>(name: &str) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(bytes)
    }

    /// The head of a separate log file, which no model has.
    pub struct LogHead {
        pub edition: u64,
        pub pool: u64,
        pub generation: u64,
        pub entered: bool,
    }

    impl LogHead {
        pub fn counts<F>(_file: &F) -> Result<u64, Error> {
            Ok(0)
        }

        pub fn write<F>(&self, _file: &F, _counts: u64) -> Result<(), Error> {
            Ok(())
        }
    }
}
