//! Lastword's `decoupled` design on an ordinary file: a B+-tree from key to record, each record an
//! object.

use std::path::Path;

use collections::raw::BTreeMap;
use lastword::{
    Allocate, Durability, Error, Medium, Objects, Options, Place, Pool, Ptr, Stop, Worker,
};

use super::records::{Put, Record};
use super::{Counts, Store};
use crate::failure::Failure;

/// Bytes of the log, as the targets assume; Lastword's default.
pub(crate) const LOG_BYTES: u64 = 64 << 20;

/// Bytes of heap for a record: object, header, its share of tree nodes half full.
const RECORD_SHARE: u64 = 112 + 16 + 64;

/// Makes a pool that has room for so many records.
pub(crate) fn create(dir: &Path, records: u64, durability: Durability) -> Result<Pool, Error> {
    let options = Options::new()
        .bytes((48 << 20) + records * RECORD_SHARE)
        .log_bytes(LOG_BYTES)
        .medium(Medium::File)
        .durability(durability)
        .layout("comparison", 1);
    Pool::create(dir.join("records.pool"), options)
}

/// Creates the tree, with the pool's root as its owner.
pub(crate) fn create_tree(pool: &Pool) -> Result<BTreeMap, Error> {
    let created = pool.run(|tx| {
        let tree = BTreeMap::create(tx)?;
        let root = tx.alloc(tree)?;
        tx.set_root_ptr(root)?;
        Ok(tree)
    })?;
    Ok(created.value)
}

/// One thread's way to the records.
pub(crate) struct Session<'p> {
    pool: &'p Pool,
    worker: Worker<'p>,
    tree: BTreeMap,
}

impl<'p> Session<'p> {
    pub(crate) fn new(pool: &'p Pool, tree: BTreeMap) -> Result<Session<'p>, Error> {
        Ok(Session { pool, worker: pool.worker()?, tree })
    }
}

impl Store for Session<'_> {
    const NAME: &'static str = "lastword decoupled";

    #[inline]
    fn run(&mut self, puts: &[Put]) -> Result<(), Failure> {
        let tree = self.tree;
        // The ticket is dropped: an asynchronous transaction is not waited for.
        let _ = self.worker.run(|tx| puts.iter().try_for_each(|put| write(tree, tx, put)))?;
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Failure> {
        Ok(self.pool.checkpoint()?)
    }

    fn get(&mut self, key: u64) -> Result<Option<Record>, Failure> {
        let tree = self.tree;
        let found = self.worker.read(|tx| match tree.get(tx, key)? {
            Some(object) => tx.get(Ptr::<Record>::from_bits(object)).map(Some),
            None => Ok(None),
        })?;
        Ok(found.value)
    }

    fn counts(&self) -> Counts {
        let metrics = self.pool.metrics();
        Counts {
            bytes: Some(metrics.log_bytes + metrics.heap_image_bytes),
            log_wraps: Some(metrics.log_wraps),
        }
    }
}

#[inline]
fn write<W: Allocate>(tree: BTreeMap, tx: &mut W, put: &Put) -> Result<(), Stop> {
    if put.is_new {
        let object = tx.alloc(put.record)?;
        return match tree.insert(tx, put.key, object.to_bits())? {
            None => Ok(()),
            Some(_) => Err(Stop::BadValue),
        };
    }
    let object = Ptr::<Record>::from_bits(tree.get(tx, put.key)?.ok_or(Stop::BadValue)?);
    tx.will_write(object.addr(), size_of::<Record>());
    tx.set(object, put.record)
}
