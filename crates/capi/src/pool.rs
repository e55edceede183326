//! Pools and the functions on them.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use lastword::collections::catalog;
use lastword::{
    Addr, Allocate, CheckOptions, Design, Error, OBJECT_BYTES_MAX, Pool, PoolReader, TxId, Words,
};

use crate::bytes::fill;
use crate::design::{self, Any, Pools, on};
use crate::handle::{Closed, Shell};
use crate::options::lw_options;
use crate::worker::{self, lw_worker};
use crate::{Status, guard, message, reader, status, thread};

/// A pool and its open workers.
pub struct Open {
    pub(crate) pool: Any<Pools>,
    pub(crate) workers: Mutex<Vec<&'static lw_worker>>,
}

impl Open {
    /// Records that a thread opened a worker.
    pub(crate) fn remember(&self, worker: &'static lw_worker) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }

    /// Records that a worker is closed.
    pub(crate) fn forget(&self, worker: &'static lw_worker) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|other| !ptr::eq(*other, worker));
    }
}

/// The target of `lw_pool *`.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type lw_pool = Shell<Open>;

/// The error of a program that asks for its own root beside maps.
pub(crate) const HAS_CATALOG: &str = "the root of the pool leads to its maps: store other objects \
    in another pool, or their addresses in a map";

static CLOSED: Closed<Open> = Closed::empty();

/// Returns the pool of a handle. It is valid until the pool is closed.
///
/// # Safety
/// The handle is NULL or comes from this module, and no call closes the pool meanwhile.
pub(crate) unsafe fn of(handle: *mut lw_pool) -> Result<&'static Open, Status> {
    // SAFETY: the caller guarantees the handle.
    unsafe { Shell::of(handle) }?.inside()
}

/// Returns a handle to a pool.
pub(crate) fn opened(pool: Any<Pools>) -> *mut lw_pool {
    CLOSED.open(Open { pool, workers: Mutex::default() }, 0)
}

/// Creates or opens a pool.
///
/// # Safety
/// The arguments are as the header requires.
unsafe fn start(
    path: *const c_char,
    options: *const lw_options,
    out: *mut *mut lw_pool,
    is_new: bool,
) -> Result<(), Status> {
    // SAFETY: the caller guarantees the options.
    let given = unsafe { lw_options::of(options) }?;
    // SAFETY: the caller guarantees the message buffer.
    let report = |status, text: &str| unsafe { given.report(status, text) };
    report(status::OK, "");
    if path.is_null() || out.is_null() {
        return Err(report(status::INVALID, "the path or the output pointer is NULL"));
    }
    // SAFETY: the caller guarantees a string.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    // SAFETY: the caller guarantees the layout's name.
    let options = unsafe { given.to_rust() }.map_err(|problem| report(status::INVALID, problem))?;
    match design::begin(path, options, given.design, is_new) {
        Ok(Some(pool)) => {
            // SAFETY: `out` is not NULL, and the header requires a valid pointer.
            unsafe { out.write(opened(pool)) };
            Ok(())
        }
        Ok(None) => {
            let problem = "options.design is not one of the designs of lastword.h";
            Err(report(status::INVALID, problem))
        }
        Err(error) => Err(report(status::of(&error), &error.to_string())),
    }
}

/// Checks whether a pool opens with these options, and whether it is sound.
///
/// # Safety
/// The arguments are as the header requires.
unsafe fn look(
    path: *const c_char,
    options: *const lw_options,
    opens: *mut c_int,
) -> Result<(), Status> {
    // SAFETY: the caller guarantees the options.
    let given = unsafe { lw_options::of(options) }?;
    // SAFETY: the caller guarantees the message buffer.
    let report = |status, text: &str| unsafe { given.report(status, text) };
    report(status::OK, "");
    if path.is_null() {
        return Err(report(status::INVALID, "the path is NULL"));
    }
    // SAFETY: the caller guarantees a string.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    // SAFETY: the caller guarantees the layout's name.
    let options = unsafe { given.to_rust() }.map_err(|problem| report(status::INVALID, problem))?;
    let failed = |error: &Error| report(status::of(error), &error.to_string());
    let expected = CheckOptions::from(&options);
    let found = lastword::check_with(path, &expected).map_err(|error| failed(&error))?;
    let opening = found.refusal.as_ref().map_or(status::OK, failed);
    if !opens.is_null() {
        // A pool in use can be checked, and not opened.
        let in_use = found.info.as_ref().is_some_and(|info| info.in_use);
        let opening = if in_use && opening == status::OK { status::BUSY } else { opening };
        // SAFETY: `opens` is not NULL, and the header requires a valid pointer.
        unsafe { opens.write(opening) };
    }
    match (opening, found.is_sound()) {
        (status::OK, true) => Ok(()),
        (status::OK, false) => {
            // The pool opens despite its damage, so `opens` and the result differ.
            let worst = found.findings.iter().max_by_key(|one| one.severity());
            let text = worst.map(ToString::to_string).unwrap_or_default();
            Err(report(status::DAMAGED, &text))
        }
        (refused, _) => Err(refused),
    }
}

/// Checks a pool and writes nothing.
///
/// # Safety
/// The arguments are as the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_check(
    path: *const c_char,
    options: *const lw_options,
    opens: *mut c_int,
) -> c_int {
    // SAFETY: the caller guarantees the arguments.
    guard(|| unsafe { look(path, options, opens) })
}

/// Creates a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_create(
    path: *const c_char,
    options: *const lw_options,
    pool: *mut *mut lw_pool,
) -> c_int {
    // SAFETY: the header has the same requirements.
    guard(|| unsafe { start(path, options, pool, true) })
}

/// Opens a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_open(
    path: *const c_char,
    options: *const lw_options,
    pool: *mut *mut lw_pool,
) -> c_int {
    // SAFETY: the header has the same requirements.
    guard(|| unsafe { start(path, options, pool, false) })
}

/// Closes a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_close(pool: *mut lw_pool) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle, and that no other call is in flight.
        let (shell, open) = unsafe { (Shell::of(pool)?, of(pool)?) };
        // An ending thread may be about to close one of these workers. The lock orders the two.
        let closing = thread::closing();
        // Workers whose threads did not close them. The header requires that none is in a call.
        let workers = open.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if workers.iter().any(|worker| worker::has_transaction(worker)) {
            return Err(status::BUSY);
        }
        workers.into_iter().for_each(worker::close);
        // All workers are closed, so ending threads need not wait for the pool, which may take
        // long.
        drop(closing);
        // From here on the handle is closed, whatever the design's close returns.
        let open = CLOSED.close(shell)?;
        let closed = on!(open.pool, pool => pool.close(); reader => {
            drop(reader);
            Ok(())
        });
        closed.map_err(|error| message::of(&error))
    })
}

/// Returns the pool's first object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_root(pool: *mut lw_pool, bytes: u64, object: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { of(pool) }?;
        let is_size = (1..=OBJECT_BYTES_MAX as u64).contains(&bytes);
        if object.is_null() || !is_size {
            return Err(status::INVALID);
        }
        let root = on!(&open.pool, pool => root(pool, bytes); it => reader::root(it, bytes))?;
        // SAFETY: `object` is not NULL, and the header requires a valid pointer.
        unsafe { object.write(root) };
        Ok(())
    })
}

/// Returns the root of a pool, which the first call allocates.
fn root<D: Design>(pool: &Pool<D>, bytes: u64) -> Result<u64, Status> {
    // A worker for this call alone, since a design with one worker needs it later.
    let root = pool.worker().and_then(|mut worker| {
        // One transaction reads and allocates, so concurrent first calls agree on the object.
        let done = worker.run(|tx| {
            let root = tx.root()?;
            if root != 0 {
                if catalog::has_root(tx)? {
                    return Ok(None); // the program must not write to the catalog
                }
                // Only a write checks the end of an object, so write the present value.
                let last = Addr::new(root, (bytes - 1) & !7);
                let word = tx.read(last)?;
                tx.write(last, word)?;
                return Ok(Some(root));
            }
            let new = tx.allocate(bytes as usize)?;
            fill(tx, new, bytes as usize, None)?;
            tx.set_root(new)?;
            Ok(Some(new))
        });
        done.map(|done| done.value)
    });
    match root {
        Ok(Some(root)) => Ok(root),
        Ok(None) => Err(message::set(status::MISMATCH, HAS_CATALOG)),
        Err(Error::BadPointer { .. }) => Err(status::MISMATCH),
        Err(error) => Err(message::of(&error)),
    }
}

/// Returns the durable watermark.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_durable(pool: *mut lw_pool, id: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { of(pool) }?;
        if id.is_null() {
            return Err(status::INVALID);
        }
        let durable = on!(&open.pool, pool => pool.durable_id(); reader => reader.id());
        // SAFETY: `id` is not NULL, and the header requires a valid pointer.
        unsafe { id.write(durable.0) };
        Ok(())
    })
}

/// Fails unless a reader shows a transaction.
fn is_shown(reader: &PoolReader, id: u64) -> Result<(), Status> {
    if id <= reader.id().0 { Ok(()) } else { Err(status::UNKNOWN) }
}

/// Waits until a transaction is durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_wait(pool: *mut lw_pool, id: u64) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { of(pool) }?;
        let waited = on!(&open.pool, pool => pool.wait_for(TxId(id)); reader => {
            return is_shown(reader, id);
        });
        waited.map_err(|error| message::of(&error))
    })
}

/// Waits until all commits are durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_flush(pool: *mut lw_pool) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { of(pool) }?;
        let flushed = on!(&open.pool, pool => pool.flush(); _reader => Ok(()));
        flushed.map_err(|error| message::of(&error))
    })
}

/// Copies the pool to a new pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_backup(
    pool: *mut lw_pool,
    path: *const c_char,
    id: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { of(pool) }?;
        if path.is_null() {
            return Err(status::INVALID);
        }
        // SAFETY: the header requires a string.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
        let copied = on!(&open.pool, pool => pool.backup(path); _reader => {
            let problem = "a pool that is only read has no backup: call lw_copy";
            return Err(message::set(status::READ_ONLY, problem));
        });
        let TxId(copied) = copied.map_err(|error| message::of(&error))?;
        if !id.is_null() {
            // SAFETY: `id` is not NULL, and the header requires a valid pointer.
            unsafe { id.write(copied) };
        }
        Ok(())
    })
}

/// The argument of a callback, which the header allows other threads to use.
struct Argument(*mut c_void);

// SAFETY: the header names the threads that may call a callback with it.
unsafe impl Send for Argument {}

impl Argument {
    /// Returns the pointer. A closure that calls this captures the `Send` struct, not its field.
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Registers a callback for the durability of a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_on_durable(
    pool: *mut lw_pool,
    id: u64,
    notify: Option<extern "C" fn(argument: *mut c_void, status: c_int)>,
    argument: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { of(pool) }?;
        let Some(notify) = notify else { return Err(status::INVALID) };
        let argument = Argument(argument);
        let listener = move |outcome: Result<(), Error>| {
            let status = outcome.err().map_or(status::OK, |error| status::of(&error));
            // A thread that exits inside the callback must not close its workers.
            thread::call_back(|| notify(argument.get(), status));
        };
        let registered = on!(&open.pool, pool => {
            pool.ticket(TxId(id)).and_then(|ticket| ticket.on_durable(listener))
        }; reader => {
            is_shown(reader, id)?;
            listener(Ok(()));
            Ok(())
        });
        registered.map_err(|error| message::of(&error))
    })
}
