//! RocksDB's side (`c/rocksdb.c`): record numbers as big-endian keys, a write batch a transaction.
//!
//! Options are RocksDB's defaults. The write-ahead log is on, and no commit syncs it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use zerocopy::IntoBytes;

use super::Setup;
use super::progress::Progress;
use super::record::{self, Stamp};
use super::script::Writes;
use super::store::{self, Store, System};
use crate::failure::Failure;

/// Records of a batch of loading.
const LOADED_RECORDS: u64 = 4096;

/// Time between two looks at the compactions after loading.
const LOOK: Duration = Duration::from_millis(50);

/// `struct rocks` of `c/rocksdb.c`.
#[repr(C)]
struct Rocks {
    opaque: [u8; 0],
}

/// `rocksdb_writebatch_t` of `rocksdb/c.h`.
#[repr(C)]
struct RawBatch {
    opaque: [u8; 0],
}

unsafe extern "C" {
    fn rocks_open(path: *const c_char, error: *mut *mut c_char) -> *mut Rocks;
    fn rocks_close(rocks: *mut Rocks);
    fn rocks_flush(rocks: *mut Rocks, error: *mut *mut c_char);
    fn rocks_sync_log(rocks: *mut Rocks, error: *mut *mut c_char);
    fn rocks_is_compacting(rocks: *mut Rocks) -> c_int;
    fn rocks_batch() -> *mut RawBatch;
    fn rocks_batch_free(batch: *mut RawBatch);
    fn rocks_batch_put(batch: *mut RawBatch, key: *const u8, value: *const u8, bytes: usize);
    fn rocks_commit(rocks: *mut Rocks, batch: *mut RawBatch, error: *mut *mut c_char);
    fn rocks_get(
        rocks: *mut Rocks,
        key: *const u8,
        value: *mut u8,
        bytes: usize,
        error: *mut *mut c_char,
    ) -> c_int;
    fn rocks_free(error: *mut c_char);
}

/// Calls a function of the C side with a place for its error.
fn checked<R>(call: impl FnOnce(*mut *mut c_char) -> R) -> Result<R, Failure> {
    let mut error = std::ptr::null_mut();
    let returned = call(&raw mut error);
    let Some(error) = NonNull::new(error) else { return Ok(returned) };
    // SAFETY: RocksDB returned this string and leaves it to the caller.
    let text = unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy().into_owned();
    // SAFETY: it is freed once, and `text` is a copy.
    unsafe { rocks_free(error.as_ptr()) };
    Err(Failure::Rocksdb { text })
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Rocksdb {
    rocks: NonNull<Rocks>,
}

// SAFETY: the C side changes nothing of its own after opening, and RocksDB serves all threads.
unsafe impl Sync for Rocksdb {}

impl Store for Rocksdb {
    type Session<'s> = Session<'s>;

    const SYSTEM: System = System::Rocksdb;

    fn create(dir: &Path, setup: &Setup) -> Result<Rocksdb, Failure> {
        Rocksdb::open(dir, setup)
    }

    fn open(dir: &Path, _setup: &Setup) -> Result<Rocksdb, Failure> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|_| Failure::NoMemory)?;
        // SAFETY: the path is a string that ends with a zero; a failure is null.
        let rocks = checked(|error| unsafe { rocks_open(path.as_ptr(), error) })?;
        Ok(Rocksdb { rocks: NonNull::new(rocks).ok_or(Failure::NoMemory)? })
    }

    fn load(&self, setup: &Setup, progress: &mut Progress) -> Result<(), Failure> {
        let (mut session, mut record) = (self.session()?, vec![0; setup.record_words]);
        for first in (0..setup.records).step_by(LOADED_RECORDS as usize) {
            let end = (first + LOADED_RECORDS).min(setup.records);
            for index in first..end {
                record::fill(&mut record, index, Stamp::LOADED);
                session.put(index, &record);
            }
            session.commit()?;
            progress.reached(end);
        }
        // SAFETY: the database is open.
        checked(|error| unsafe { rocks_flush(self.rocks.as_ptr(), error) })?;
        // SAFETY: the database is open.
        while unsafe { rocks_is_compacting(self.rocks.as_ptr()) } != 0 {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn session(&self) -> Result<Session<'_>, Failure> {
        // SAFETY: a batch belongs to no database.
        let batch = NonNull::new(unsafe { rocks_batch() }).ok_or(Failure::NoMemory)?;
        Ok(Session { store: self, batch })
    }

    /// Syncs the write-ahead log, which the next opening replays.
    fn close(self) -> Result<(), Failure> {
        // SAFETY: the database is open.
        checked(|error| unsafe { rocks_sync_log(self.rocks.as_ptr(), error) })
    }
}

impl Drop for Rocksdb {
    fn drop(&mut self) {
        // SAFETY: it came from `rocks_open`, is closed once, and no session outlives it.
        unsafe { rocks_close(self.rocks.as_ptr()) };
    }
}

/// A worker's batch.
#[derive(Debug)]
pub(crate) struct Session<'s> {
    store: &'s Rocksdb,
    batch: NonNull<RawBatch>,
}

impl Session<'_> {
    #[inline]
    fn put(&mut self, index: u64, record: &[u64]) {
        let (key, value) = (index.to_be_bytes(), record.as_bytes());
        // SAFETY: RocksDB copies the 8 bytes of the key and the bytes of the value. No other thread
        // has this batch.
        unsafe {
            rocks_batch_put(self.batch.as_ptr(), key.as_ptr(), value.as_ptr(), value.len());
        }
    }

    #[inline]
    fn commit(&mut self) -> Result<(), Failure> {
        let (rocks, batch) = (self.store.rocks.as_ptr(), self.batch.as_ptr());
        // SAFETY: the database is open as long as the store, and no other thread has this batch.
        checked(|error| unsafe { rocks_commit(rocks, batch, error) })
    }
}

impl store::Session for Session<'_> {
    #[inline]
    fn replace(&mut self, writes: &Writes) -> Result<(), Failure> {
        writes.iter().for_each(|(index, record)| self.put(index, record));
        self.commit()
    }

    fn read(&mut self, index: u64, record: &mut [u64]) -> Result<bool, Failure> {
        let (key, value) = (index.to_be_bytes(), record.as_mut_bytes());
        let (rocks, len) = (self.store.rocks.as_ptr(), value.len());
        let found = checked(|error| {
            // SAFETY: the key has 8 bytes, and `value` has room for `len`.
            unsafe { rocks_get(rocks, key.as_ptr(), value.as_mut_ptr(), len, error) }
        })?;
        Ok(found != 0)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: it came from `rocks_batch`, and is freed once.
        unsafe { rocks_batch_free(self.batch.as_ptr()) };
    }
}
