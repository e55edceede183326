//! What the protocol files find around them in place of the product's: errors, superblocks, memory.

use crate::sync::AtomicU64;
use real_medium::Counts;

/// What protocols know of the product's errors, and of the medium's.
#[derive(Debug)]
pub enum Error {
    Poisoned { cause: std::sync::Arc<Error> },
    StepPanicked { step: &'static str },
    InsideTransaction { call: &'static str },
    NotDurable { design: &'static str },
    TooManyWorkers { design: &'static str, max: usize, instead: &'static str },
    Thread { source: std::io::Error },
    DamagedLog { path: std::path::PathBuf, at: u64 },
    Medium(real_medium::Error),
    NoRecords { records: u64, bytes: u64 },
}

impl From<real_medium::Error> for Error {
    fn from(error: real_medium::Error) -> Error {
        Error::Medium(error)
    }
}

/// A ring's words.
#[derive(Debug)]
pub struct Memory(Box<[AtomicU64]>);

impl Memory {
    pub(crate) fn anonymous(bytes: u64) -> Result<Memory, Error> {
        Ok(Memory((0..bytes / 8).map(|_| AtomicU64::new(0)).collect()))
    }

    /// No model has so much.
    pub(crate) fn unreserved(bytes: u64) -> Result<Memory, Error> {
        Memory::anonymous(bytes)
    }

    pub(crate) fn release(&self, _words: std::ops::Range<usize>) {}
}

impl AsRef<[AtomicU64]> for Memory {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Signals: a model has none.
pub mod signals {
    pub fn block_size_signal() {}
}

/// What the processor offers, of which the protocols take only hints and times.
pub mod cpu {
    use crate::sync::AtomicU64;

    /// Short lines make short stripes: eight words.
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

/// The superblock, written to whatever a model makes of it.
pub mod superblock {
    use super::{Counts, Error};

    #[derive(Clone, Copy, Debug, Default)]
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
        pub reproduced: u64,
        pub log_sequence: u64,
        pub group: u64,
        pub compress: bool,
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

    /// A name as a superblock has it.
    pub fn padded<const N: usize>(name: &str) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(bytes)
    }

    /// Never met: no log in a model has a file of its own.
    pub struct LogHead {
        pub edition: u64,
        pub pool: u64,
        pub generation: u64,
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
