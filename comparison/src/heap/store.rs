//! The systems, and the store that each of them provides.
//!
//! | system | configuration | a commit is durable |
//! |---|---|---|
//! | `lastword` | `decoupled` on a file, defaults | soon, in order; its ticket reports it |
//! | `lmdb` | `MDB_NOSYNC`, `MDB_WRITEMAP` | when the kernel writes its pages, in any order |
//! | `rocksdb` | defaults, log unsynced | when the kernel writes the log, in order |
//! | `sqlite` | WAL mode, `synchronous=NORMAL` | at the next checkpoint, which syncs |
//!
//! LMDB and SQLite have one writer at a time, for which two workers contend. A store is used in
//! this order: `create`, `load`, sessions, `close`; and later `open`, sessions, `close`.

use std::path::Path;
use std::time::Instant;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::Setup;
use super::progress::Progress;
use super::script::Writes;
use crate::failure::Failure;

/// A system of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub(crate) enum System {
    /// Lastword's `decoupled` design with default options.
    Lastword,
    /// LMDB with `NOSYNC` and `WRITEMAP`.
    Lmdb,
    /// RocksDB with default options, its log unsynced.
    Rocksdb,
    /// SQLite in WAL mode, synced at checkpoints.
    Sqlite,
}

impl System {
    /// Returns the name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Lastword => "lastword",
            System::Lmdb => "lmdb",
            System::Rocksdb => "rocksdb",
            System::Sqlite => "sqlite",
        }
    }

    /// Returns whether this program was built with the system.
    pub(crate) fn is_built(self) -> bool {
        self != System::Rocksdb || cfg!(rocksdb)
    }
}

/// Bytes that a store sent to the device since it was opened, by its own count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnBytes {
    /// Bytes of its log.
    pub(crate) log: u64,
    /// Bytes of its heap image.
    pub(crate) heap: u64,
}

/// A store of records, shared by all workers.
pub(crate) trait Store: Sync + Sized {
    /// The access of one worker.
    type Session<'s>: Session
    where
        Self: 's;

    /// For errors.
    const SYSTEM: System;

    /// Makes an empty store in a new directory.
    fn create(dir: &Path, setup: &Setup) -> Result<Self, Failure>;

    /// Opens a store that was closed or killed.
    fn open(dir: &Path, setup: &Setup) -> Result<Self, Failure>;

    /// Writes all records with the stamp of loading. On return they are in place.
    fn load(&self, setup: &Setup, progress: &mut Progress) -> Result<(), Failure>;

    /// Returns an access for the calling thread.
    fn session(&self) -> Result<Self::Session<'_>, Failure>;

    /// Returns the store's own counts, if it has them.
    fn own_bytes(&self) -> Option<OwnBytes> {
        None
    }

    /// Returns the sampled times from commit to durability in milliseconds, if the system reports
    /// durability. Waits until all samples are durable.
    fn durable_ms(&self) -> Result<Option<Vec<f64>>, Failure> {
        Ok(None)
    }

    /// Makes every commit durable and closes the store.
    fn close(self) -> Result<(), Failure>;
}

/// The access of one worker to a store.
pub(crate) trait Session {
    /// Replaces the records in one transaction.
    fn replace(&mut self, writes: &Writes) -> Result<(), Failure>;

    /// Samples the last transaction, committed at `now`, for [`Store::durable_ms`].
    fn sample(&mut self, now: Instant) -> Result<(), Failure> {
        let _ = now;
        Ok(())
    }

    /// Reads a record. Returns false if there is none of this length.
    fn read(&mut self, index: u64, record: &mut [u64]) -> Result<bool, Failure>;
}

/// Evaluates an expression with `$store` as the store type of a system.
macro_rules! with_store {
    ($system:expr, $store:ident => $result:expr) => {
        match $system {
            System::Lastword => {
                type $store = $crate::heap::ours::Ours;
                $result
            }
            System::Lmdb => {
                type $store = $crate::heap::lmdb::Lmdb;
                $result
            }
            #[cfg(rocksdb)]
            System::Rocksdb => {
                type $store = $crate::heap::rocksdb::Rocksdb;
                $result
            }
            #[cfg(not(rocksdb))]
            System::Rocksdb => Err(Failure::NotBuilt { system: "rocksdb" }),
            System::Sqlite => {
                type $store = $crate::heap::sqlite::Sqlite;
                $result
            }
        }
    };
}
pub(crate) use with_store;
