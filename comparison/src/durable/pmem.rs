//! libpmemobj's side (`c/pmem.c`): the hash table and TATP's tables in a pool of its own. Each
//! transaction lies between `TX_BEGIN` and `TX_END` and logs old values before it writes.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use crate::failure::Failure;
use crate::stm::work::{Call, Content, Work};

/// `struct pmem` of `c/pmem.c`.
#[repr(C)]
struct Pmem {
    opaque: [u8; 0],
}

unsafe extern "C" {
    fn pmem_new(path: *const c_char, kind: u64, size: u64) -> *mut Pmem;
    fn pmem_free(pmem: *mut Pmem);
    fn pmem_error() -> *const c_char;
    fn pmem_hash(pmem: *mut Pmem, calls: *const Call, count: u64) -> c_int;
    fn pmem_tatp(pmem: *mut Pmem, calls: *const Call, count: u64) -> c_int;
    fn pmem_content(pmem: *const Pmem, out: *mut u64) -> c_int;
}

/// Makes libpmem treat every mapping as persistent memory: lines written back and fenced, no
/// `msync`. Call it before this program has a second thread.
pub(crate) fn believe_in_memory() {
    // SAFETY: called at the beginning of `durable::run`, before this program has a second thread.
    unsafe { std::env::set_var("PMEM_IS_PMEM_FORCE", "1") };
}

/// A pool of libpmemobj with one structure in it.
#[derive(Debug)]
pub(crate) struct Pool {
    pmem: NonNull<Pmem>,
    work: Work,
}

impl Pool {
    /// Makes the pool at `path`, and loads it.
    pub(crate) fn new(path: &Path, work: Work) -> Result<Pool, Failure> {
        let kind = match work {
            Work::Hash => 0,
            _ => 1,
        };
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Failure::NoMemory)?;
        // SAFETY: the path is a string that ends with a zero; a pool that cannot be made is null.
        let pmem = unsafe { pmem_new(path.as_ptr(), kind, work.size(1)) };
        let Some(pmem) = NonNull::new(pmem) else {
            // SAFETY: libpmemobj returns a string of this thread, which lives until its next call.
            let text = unsafe { CStr::from_ptr(pmem_error()) };
            return Err(Failure::Pmem { text: text.to_string_lossy().into_owned() });
        };
        let pool = Pool { pmem, work };
        let mut calls = Vec::new();
        work.load(1, |call| calls.push(call));
        pool.run(&calls)?;
        Ok(pool)
    }

    /// Runs transactions, each durable when the next begins.
    pub(crate) fn run(&self, calls: &[Call]) -> Result<(), Failure> {
        let run = match self.work {
            Work::Hash => pmem_hash,
            _ => pmem_tatp,
        };
        // SAFETY: the pool holds the structures that `run` accesses. The length is that of `calls`,
        // and their keys are in range. `Pool` is not `Sync`: no other thread runs on it.
        let done = unsafe { run(self.pmem.as_ptr(), calls.as_ptr(), calls.len() as u64) };
        if done != 0 { Ok(()) } else { Err(Failure::Pmem { text: "an abort".into() }) }
    }

    /// Returns the contents for the check.
    pub(crate) fn content(&self) -> Content {
        let mut out = [0; 3];
        // SAFETY: `out` has the three words that it fills.
        let sound = unsafe { pmem_content(self.pmem.as_ptr(), out.as_mut_ptr()) } != 0;
        Content { sound, count: out[0], keys: out[1], values: out[2] }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: it came from `pmem_new`, and is freed once.
        unsafe { pmem_free(self.pmem.as_ptr()) };
    }
}
