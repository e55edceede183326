//! LMDB without syncs: record numbers as native integers, records as bytes.

use std::path::Path;

use heed::{Env, PutFlags};
use zerocopy::IntoBytes;

use super::Setup;
use super::progress::Progress;
use super::record::{self, Stamp};
use super::script::Writes;
use super::store::{Session, Store, System};
use crate::disk::lmdb::{Commit, Records, open};
use crate::failure::Failure;

/// Records that one transaction of loading appends.
const LOADED_RECORDS: u64 = 100_000;

/// Address space for the map beside three times the records; the file grows as it is used.
const SLACK_BYTES: u64 = 1 << 30;

/// An environment with one database.
#[derive(Debug)]
pub(crate) struct Lmdb {
    env: Env,
    records: Records,
}

impl Store for Lmdb {
    type Session<'s> = &'s Lmdb;

    const SYSTEM: System = System::Lmdb;

    fn create(dir: &Path, setup: &Setup) -> Result<Lmdb, Failure> {
        let map_bytes = (3 * 8 * setup.words() + SLACK_BYTES).next_multiple_of(1 << 20);
        let (env, records) = open(dir, Commit::Unsynced, map_bytes as usize)?;
        Ok(Lmdb { env, records })
    }

    fn open(dir: &Path, setup: &Setup) -> Result<Lmdb, Failure> {
        Lmdb::create(dir, setup) // which opens the database that it finds
    }

    fn load(&self, setup: &Setup, progress: &mut Progress) -> Result<(), Failure> {
        let mut record = vec![0; setup.record_words];
        for first in (0..setup.records).step_by(LOADED_RECORDS as usize) {
            let end = (first + LOADED_RECORDS).min(setup.records);
            let mut tx = self.env.write_txn()?;
            for index in first..end {
                record::fill(&mut record, index, Stamp::LOADED);
                let bytes = record.as_bytes();
                self.records.put_with_flags(&mut tx, PutFlags::APPEND, &index, bytes)?;
            }
            tx.commit()?;
            progress.reached(end);
        }
        Ok(self.env.force_sync()?)
    }

    fn session(&self) -> Result<&Lmdb, Failure> {
        Ok(self)
    }

    fn close(self) -> Result<(), Failure> {
        self.env.force_sync()?;
        // The last handle: LMDB unmaps the file when the event has been signalled.
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

impl Session for &Lmdb {
    #[inline]
    fn replace(&mut self, writes: &Writes) -> Result<(), Failure> {
        let mut tx = self.env.write_txn()?;
        for (index, record) in writes.iter() {
            self.records.put(&mut tx, &index, record.as_bytes())?;
        }
        Ok(tx.commit()?)
    }

    fn read(&mut self, index: u64, record: &mut [u64]) -> Result<bool, Failure> {
        let tx = self.env.read_txn()?;
        let Some(bytes) = self.records.get(&tx, &index)? else { return Ok(false) };
        let is_whole = bytes.len() == 8 * record.len();
        if is_whole {
            record.as_mut_bytes().copy_from_slice(bytes);
        }
        Ok(is_whole)
    }
}
