//! LMDB in its fastest mode: keys as native integers, records as bytes.

use std::path::Path;

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U64};
use heed::{Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator};
use zerocopy::IntoBytes;

use super::records::{Put, RECORD_BYTES, Record};
use super::{Counts, Store};
use crate::failure::Failure;

/// Address space for the map; the file grows as it is used.
const MAP_BYTES: usize = 8 << 30;

/// When a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// Whenever the kernel likes, in any order: `MDB_NOSYNC | MDB_WRITEMAP`. A crash of the machine
    /// may leave a damaged store.
    Unsynced,
    /// On return: LMDB's default.
    Synced,
}

/// The database of an environment: record numbers or keys as native integers.
pub(crate) type Records = Database<U64<NativeEndian>, Bytes, IntegerComparator>;

/// Opens an environment in a directory and its database, and makes those that are missing. The map
/// has this size, a multiple of the page's.
pub(crate) fn open(
    dir: &Path,
    commit: Commit,
    map_bytes: usize,
) -> Result<(Env, Records), Failure> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_bytes);
    if commit == Commit::Unsynced {
        // SAFETY: the flags risk the file after a crash of the machine; the store is made for one
        // run and removed, and no second process has it open.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
    }
    // SAFETY: the directory was made for this store: nothing else maps or changes its files.
    let env = unsafe { options.open(dir)? };
    let mut tx = env.write_txn()?;
    let records = env
        .database_options()
        .types::<U64<NativeEndian>, Bytes>()
        .key_comparator::<IntegerComparator>()
        .create(&mut tx)?;
    tx.commit()?;
    Ok((env, records))
}

/// One store.
#[derive(Debug)]
pub(crate) struct Lmdb {
    env: Env,
    records: Records,
}

impl Lmdb {
    /// Makes one in an empty directory.
    pub(crate) fn create(dir: &Path, commit: Commit) -> Result<Lmdb, Failure> {
        let (env, records) = open(dir, commit, MAP_BYTES)?;
        Ok(Lmdb { env, records })
    }
}

impl Store for Lmdb {
    const NAME: &'static str = "LMDB";

    #[inline]
    fn run(&mut self, puts: &[Put]) -> Result<(), Failure> {
        let mut tx = self.env.write_txn()?;
        for put in puts {
            self.records.put(&mut tx, &put.key, &put.record.as_bytes()[..RECORD_BYTES])?;
        }
        Ok(tx.commit()?)
    }

    fn drain(&mut self) -> Result<(), Failure> {
        Ok(self.env.force_sync()?)
    }

    fn get(&mut self, key: u64) -> Result<Option<Record>, Failure> {
        let tx = self.env.read_txn()?;
        Ok(self.records.get(&tx, &key)?.map(|bytes| {
            let mut record = [0; 13];
            let known = bytes.len().min(RECORD_BYTES);
            record.as_mut_bytes()[..known].copy_from_slice(&bytes[..known]);
            record
        }))
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}
