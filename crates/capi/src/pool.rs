//! Pools.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use lastword::{Addr, Allocate, CheckOptions, Error, OBJECT_BYTES_MAX, TxId, Words};

use crate::bytes::fill;
use crate::design::{self, Any, Pools, on};
use crate::handle::{Closed, Shell};
use crate::options::lw_options;
use crate::worker::{self, lw_worker};
use crate::{Status, guard, status, thread};

/// A pool, and its workers that are open.
pub struct Open {
    pub(crate) pool: Any<Pools>,
    pub(crate) workers: Mutex<Vec<&'static lw_worker>>,
}

/// What `lw_pool *` leads to.
#[allow(non_camel_case_types, reason = "its name in C")]
pub type lw_pool = Shell<Open>;

static CLOSED: Closed<Open> = Closed::new();

/// The pool of a handle, for as long as it is not closed.
///
/// # Safety
/// The handle is NULL or was given out here, and nobody closes the pool meanwhile.
pub(crate) unsafe fn of(handle: *mut lw_pool) -> Result<&'static Open, Status> {
    // SAFETY: as the caller says.
    unsafe { Shell::of(handle) }?.inside()
}

/// Makes or opens a pool.
///
/// # Safety
/// As the header says of the arguments.
unsafe fn start(
    path: *const c_char,
    options: *const lw_options,
    out: *mut *mut lw_pool,
    is_new: bool,
) -> Result<(), Status> {
    // SAFETY: as the caller says.
    let asked = unsafe { lw_options::of(options) }?;
    // SAFETY: as the caller says of its message.
    let tell = |text: &str| unsafe { asked.tell(text) };
    tell("");
    if path.is_null() || out.is_null() {
        tell("the path is NULL, or where the pool is to be put");
        return Err(status::INVALID);
    }
    // SAFETY: it is a string, as the caller says.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    // SAFETY: as the caller says of its layout.
    let options = unsafe { asked.to_rust() }.map_err(|what| {
        tell(what);
        status::INVALID
    })?;
    match design::begin(path, options, asked.design, is_new) {
        Ok(Some(pool)) => {
            let pool = CLOSED.open(Open { pool, workers: Mutex::default() }, 0);
            // SAFETY: it is not NULL, and the caller's.
            unsafe { out.write(pool) };
            Ok(())
        }
        Ok(None) => {
            tell("there is no design of this number");
            Err(status::INVALID)
        }
        Err(error) => {
            tell(&error.to_string());
            Err(status::of(&error))
        }
    }
}

/// Checks a pool: whether it opens with these options, and whether it is sound.
///
/// # Safety
/// As the header says of the arguments.
unsafe fn look(
    path: *const c_char,
    options: *const lw_options,
    opens: *mut c_int,
) -> Result<(), Status> {
    // SAFETY: as the caller says.
    let asked = unsafe { lw_options::of(options) }?;
    // SAFETY: as the caller says of its message.
    let tell = |text: &str| unsafe { asked.tell(text) };
    tell("");
    if path.is_null() {
        tell("the path is NULL");
        return Err(status::INVALID);
    }
    // SAFETY: it is a string, as the caller says.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    // SAFETY: as the caller says of its layout.
    let options = unsafe { asked.to_rust() }.map_err(|what| {
        tell(what);
        status::INVALID
    })?;
    let failed = |error: &Error| {
        tell(&error.to_string());
        status::of(error)
    };
    let expected = CheckOptions::from(&options);
    let report = lastword::check_with(path, &expected).map_err(|error| failed(&error))?;
    let answer = report.refusal.as_ref().map_or(status::OK, failed);
    if !opens.is_null() {
        // SAFETY: it is the caller's.
        unsafe { opens.write(answer) };
    }
    match (answer, report.is_sound()) {
        (status::OK, true) => Ok(()),
        (status::OK, false) => {
            let worst = report.findings.iter().max_by_key(|one| one.severity());
            tell(&worst.map(ToString::to_string).unwrap_or_default());
            Err(status::DAMAGED)
        }
        (refused, _) => Err(refused),
    }
}

/// Looks at a pool and writes nothing.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_check(
    path: *const c_char,
    options: *const lw_options,
    opens: *mut c_int,
) -> c_int {
    // SAFETY: as the caller says.
    guard(|| unsafe { look(path, options, opens) })
}

/// Makes a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_create(
    path: *const c_char,
    options: *const lw_options,
    pool: *mut *mut lw_pool,
) -> c_int {
    // SAFETY: the header asks for what is needed.
    guard(|| unsafe { start(path, options, pool, true) })
}

/// Opens a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_open(
    path: *const c_char,
    options: *const lw_options,
    pool: *mut *mut lw_pool,
) -> c_int {
    // SAFETY: the header asks for what is needed.
    guard(|| unsafe { start(path, options, pool, false) })
}

/// Closes a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_close(pool: *mut lw_pool) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle, and that no other call is under way.
        let (shell, open) = unsafe { (Shell::of(pool)?, of(pool)?) };
        let closing = thread::closing();
        // Those of threads that are through, or gone. Who calls says that none is in a call.
        let workers = open.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if workers.iter().any(|worker| worker::is_in_a_transaction(worker)) {
            return Err(status::BUSY);
        }
        workers.into_iter().for_each(worker::close);
        drop(closing);
        let open = CLOSED.close(shell)?;
        on!(open.pool, pool => pool.close()).map_err(|error| status::of(&error))
    })
}

/// The pool's first object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_root(pool: *mut lw_pool, bytes: u64, object: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let open = unsafe { of(pool) }?;
        let is_size = (1..=OBJECT_BYTES_MAX as u64).contains(&bytes);
        if object.is_null() || !is_size {
            return Err(status::INVALID);
        }
        let root = on!(&open.pool, pool => {
            // A worker for this alone: designs with one of them need it later.
            pool.worker().and_then(|mut worker| worker.run(|tx| {
                let root = tx.root()?;
                if root != 0 {
                    // A write, even of what is there, finds where an object ends.
                    let last = Addr::new(root, (bytes - 1) & !7);
                    let word = tx.read(last)?;
                    tx.write(last, word)?;
                    return Ok(root);
                }
                let new = tx.allocate(bytes as usize)?;
                fill(tx, new, bytes as usize, None)?;
                tx.set_root(new)?;
                Ok(new)
            }).map(|done| done.value))
        });
        let root = root.map_err(|error| match error {
            Error::BadPointer { .. } => status::MISMATCH,
            error => status::of(&error),
        })?;
        // SAFETY: it is not NULL, and the caller's.
        unsafe { object.write(root) };
        Ok(())
    })
}

/// The largest ID that is durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_durable(pool: *mut lw_pool, id: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let open = unsafe { of(pool) }?;
        if id.is_null() {
            return Err(status::INVALID);
        }
        let durable = on!(&open.pool, pool => pool.durable_id());
        // SAFETY: it is not NULL, and the caller's.
        unsafe { id.write(durable.0) };
        Ok(())
    })
}

/// Waits for a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_wait(pool: *mut lw_pool, id: u64) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let open = unsafe { of(pool) }?;
        on!(&open.pool, pool => pool.wait_for(TxId(id))).map_err(|error| status::of(&error))
    })
}

/// Waits for all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_flush(pool: *mut lw_pool) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let open = unsafe { of(pool) }?;
        on!(&open.pool, pool => pool.flush()).map_err(|error| status::of(&error))
    })
}

/// What a callback is called with. The program says that another thread may have it.
struct Argument(*mut c_void);

// SAFETY: the header says in which thread a callback may be called.
unsafe impl Send for Argument {}

impl Argument {
    /// The whole of it goes into a closure, not its field.
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Calls back when a transaction is durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_on_durable(
    pool: *mut lw_pool,
    id: u64,
    told: Option<extern "C" fn(argument: *mut c_void, status: c_int)>,
    argument: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let open = unsafe { of(pool) }?;
        let Some(told) = told else { return Err(status::INVALID) };
        let argument = Argument(argument);
        let tell = move |outcome: Result<(), Error>| {
            let status = outcome.err().map_or(status::OK, |error| status::of(&error));
            thread::call_back(|| told(argument.get(), status));
        };
        let asked = on!(&open.pool, pool => {
            pool.ticket(TxId(id)).and_then(|ticket| ticket.on_durable(tell))
        });
        asked.map_err(|error| status::of(&error))
    })
}
