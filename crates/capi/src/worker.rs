//! Workers, and what is done in their transactions.
//!
//! ```text
//!   lw_worker * -> shell    owner: the thread that has opened it; 0 when it is closed
//!                  seat     tx: where the transaction is that is open, or NULL
//!                           open: it, if it was begun by lw_begin; else a body runs
//!                           failed: how it ended, when it has to be aborted
//!                           worker
//! ```
//!
//! Two comparisons tell whether an access may go on. Only the owner looks at the seat, so nothing
//! of it is locked. Who closes the pool closes what workers are left, and says by calling that no
//! other call is under way.
//!
//! A thread is known by the place of its control block, which is another's when it has ended: so a
//! thread that ends closes its workers (`thread`).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, Ordering};

use lastword::{Addr, Allocate, Design, Error, OBJECT_BYTES_MAX, Stop, Tx, Words, Worker};

use crate::bytes::{fill, read_bytes, write_bytes};
use crate::design::{Any, Each, map, on};
use crate::handle::{Closed, Shell};
use crate::pool::{self, lw_pool};
use crate::{Status, guard, status, thread};

/// `LW_READ_ONLY`.
pub const READ_ONLY: u32 = 1;

/// A worker, and its transaction. All of it is reached by shared references: a body that runs
/// below this module comes here again.
pub struct Seat<D: Design> {
    /// Where the transaction is: in `open`, or on the stack below a body that runs.
    tx: AtomicPtr<Tx<'static, D>>,
    /// Nobody looks at it while `tx` leads there.
    open: Cell<Option<lastword::Open<'static, 'static, D>>>,
    /// A body runs.
    runs: Cell<bool>,
    /// 0: it has not.
    failed: Cell<c_int>,
    /// From a box. `open` borrows it, or the call that runs a body.
    worker: *mut Worker<'static, D>,
    pool: &'static pool::Open,
}

/// Seats.
struct Seats;

impl Each for Seats {
    type Of<D: Design> = Seat<D>;
}

/// A seat of any design.
pub struct AnySeat(Any<Seats>);

/// What `lw_worker *` leads to.
#[allow(non_camel_case_types, reason = "its name in C")]
pub type lw_worker = Shell<AnySeat>;

static CLOSED: Closed<AnySeat> = Closed::new();

/// The seat of a worker of this thread.
///
/// # Safety
/// The handle is NULL or was given out here.
#[inline(always)]
unsafe fn seat(worker: *mut lw_worker) -> Result<&'static AnySeat, Status> {
    // SAFETY: as the caller says.
    let shell = unsafe { Shell::of(worker) }?;
    if shell.owner.load(Ordering::Relaxed) != thread::number() {
        return Err(not_mine(shell));
    }
    // SAFETY: a worker that is closed has no owner.
    Ok(unsafe { shell.inside_of_owner() })
}

#[cold]
fn not_mine(shell: &'static lw_worker) -> Status {
    if shell.is_open() { status::OTHER_THREAD } else { status::CLOSED }
}

impl<D: Design> Seat<D> {
    /// Where the transaction is that is open: for its owner to use, until something else is done
    /// with the seat.
    #[inline(always)]
    fn tx(&self) -> Result<NonNull<Tx<'static, D>>, Status> {
        NonNull::new(self.tx.load(Ordering::Relaxed)).ok_or_else(|| self.why_not())
    }

    #[cold]
    fn why_not(&self) -> Status {
        if self.failed.get() == status::OK { status::IDLE } else { self.failed.get() }
    }

    /// Whether a transaction may begin.
    fn is_free(&self) -> Result<(), Status> {
        let is_free = self.tx.load(Ordering::Relaxed).is_null() && self.failed.get() == status::OK;
        if is_free { Ok(()) } else { Err(status::NESTED) }
    }

    fn is_in_a_transaction(&self) -> bool {
        self.runs.get() || !self.tx.load(Ordering::Relaxed).is_null()
    }

    fn leads_to(&self, tx: *mut Tx<'_, D>) {
        self.tx.store(tx.cast(), Ordering::Relaxed);
    }

    /// Takes what was begun out of it.
    fn take(&self) -> Result<lastword::Open<'static, 'static, D>, Status> {
        if self.tx.load(Ordering::Relaxed).is_null() {
            return Err(self.why_not());
        }
        let open = self.open.take().ok_or(status::NESTED)?; // a body commits by its answer
        self.leads_to(ptr::null_mut());
        Ok(open)
    }

    /// Takes back what is open.
    fn abort(&self) -> Result<(), Status> {
        if self.runs.get() {
            return Err(status::NESTED); // a body is taken back by its answer
        }
        match self.failed.replace(status::OK) {
            status::OK => self.take()?.abort().map(drop).map_err(|error| status::of(&error)),
            // That it has failed has taken it back, but for one that has panicked.
            _ => {
                drop(self.open.take());
                Ok(())
            }
        }
    }

    /// A call in its transaction has panicked: nobody knows what is in it.
    #[cold]
    fn has_panicked(&self) {
        self.leads_to(ptr::null_mut());
        self.failed.set(status::PANIC);
    }

    /// Does something in its transaction.
    ///
    /// # Safety
    /// This thread owns the seat.
    #[inline(always)]
    unsafe fn access(&self, work: impl FnOnce(&mut Tx<'static, D>) -> Result<(), Stop>) -> c_int {
        let done = guard(|| {
            // SAFETY: `tx` leads to the transaction that is open, and only its owner goes there.
            work(unsafe { self.tx()?.as_mut() }).map_err(status::of_stop)
        });
        if done == status::PANIC {
            self.has_panicked();
        }
        done
    }
}

/// Does something in a worker's transaction.
macro_rules! within {
    ($worker:expr, $tx:ident => $work:expr) => {
        // SAFETY: the header asks for a handle.
        match unsafe { seat($worker) } {
            Ok(seat) => on!(&seat.0, seat => {
                let work = |$tx: &mut Tx<'static, _>| $work;
                // SAFETY: `seat` has answered that this thread owns it.
                unsafe { seat.access(work) }
            }),
            Err(status) => status,
        }
    };
}

/// Opens a worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_worker_open(pool: *mut lw_pool, worker: *mut *mut lw_worker) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let open = unsafe { pool::of(pool) }?;
        if worker.is_null() {
            return Err(status::INVALID);
        }
        let seat = map!(&open.pool, pool => {
            let worker = pool.worker().map_err(|error| status::of(&error))?;
            let worker = Box::into_raw(Box::new(worker));
            Seat {
                tx: AtomicPtr::new(ptr::null_mut()),
                open: Cell::new(None),
                runs: Cell::new(false),
                failed: Cell::new(status::OK),
                worker,
                pool: open,
            }
        });
        let handle = CLOSED.open(AnySeat(seat), thread::number());
        // SAFETY: it was given out here.
        let shell = unsafe { Shell::of(handle) }?;
        open.workers.lock().unwrap_or_else(PoisonError::into_inner).push(shell);
        thread::opens(shell);
        // SAFETY: it is not NULL, and the caller's.
        unsafe { worker.write(handle) };
        Ok(())
    })
}

/// Closes a worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_worker_close(worker: *mut lw_worker) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let (shell, inside) = unsafe { (Shell::of(worker)?, seat(worker)?) };
        let ended = match on!(&inside.0, it => it.abort()) {
            Err(status::NESTED) => return Err(status::NESTED), // a body runs
            Err(status::IDLE) => Ok(()),
            ended => ended,
        };
        // It is closed whatever became of that.
        thread::closes(shell);
        close(shell);
        ended
    })
}

/// Whether a transaction is open in a worker.
pub(crate) fn is_in_a_transaction(shell: &'static lw_worker) -> bool {
    shell.inside().is_ok_and(|inside| on!(&inside.0, it => it.is_in_a_transaction()))
}

/// Closes a worker, and rolls back its open transaction.
pub(crate) fn close(shell: &'static lw_worker) {
    let Ok(inside) = CLOSED.close(shell) else { return };
    on!(inside.0, it => {
        // The borrower of the worker goes first: the transaction of a thread that ends or panicked.
        drop(it.open.take());
        let mut workers = it.pool.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|other| !ptr::eq(*other, shell));
        drop(workers);
        // SAFETY: it comes from a box, and nothing borrows it.
        drop(unsafe { Box::from_raw(it.worker) });
    });
}

/// Closes a worker whose thread ends, and its open transaction. Skips a worker in a body: the
/// process then exits from within that body.
pub(crate) fn close_of_ending_thread(shell: &'static lw_worker) {
    // It may have been closed with its pool, and opened by another thread since.
    let is_own = shell.owner.load(Ordering::Relaxed) == thread::number();
    let runs = || shell.inside().is_ok_and(|inside| on!(&inside.0, it => it.runs.get()));
    if is_own && !runs() {
        close(shell);
    }
}

/// Runs a body as a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_run(
    worker: *mut lw_worker,
    flags: u32,
    body: Option<extern "C" fn(worker: *mut lw_worker, argument: *mut c_void) -> c_int>,
    argument: *mut c_void,
    id: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let inside = unsafe { seat(worker) }?;
        let Some(body) = body.filter(|_| flags & !READ_ONLY == 0) else {
            return Err(status::INVALID);
        };
        let reads_only = flags & READ_ONLY != 0;
        let done = on!(&inside.0, it => run(it, reads_only, || body(worker, argument)))?;
        if !id.is_null() {
            // SAFETY: it is the caller's.
            unsafe { id.write(done) };
        }
        Ok(())
    })
}

/// Runs a body of this thread's worker.
fn run<D: Design>(
    seat: &Seat<D>,
    reads_only: bool,
    body: impl Fn() -> c_int,
) -> Result<u64, Status> {
    seat.is_free()?;
    let mut answer = status::OK;
    let body = |tx: &mut Tx<'_, D>| {
        seat.leads_to(tx);
        seat.runs.set(true);
        answer = body();
        seat.runs.set(false);
        seat.leads_to(ptr::null_mut());
        if seat.failed.replace(status::OK) != status::OK {
            answer = status::PANIC;
        }
        match answer {
            status::OK => Ok(()),
            status::CONFLICT => Err(Stop::Conflict),
            answer => tx.abort(answer),
        }
    };
    // SAFETY: the seat is this thread's, and nothing is open in it.
    let worker = unsafe { &mut *seat.worker };
    let done = if reads_only { worker.read(body) } else { worker.run(body) };
    done.map(|done| done.ticket.id().0).map_err(|error| match answer {
        // What the body says goes before what it was stopped by.
        status::OK | status::CONFLICT => status::of(&error),
        _ if matches!(error, Error::Poisoned { .. }) => status::of(&error),
        answer => answer,
    })
}

/// Begins a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_begin(worker: *mut lw_worker, flags: u32) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let inside = unsafe { seat(worker) }?;
        if flags & !READ_ONLY != 0 {
            return Err(status::INVALID);
        }
        on!(&inside.0, it => begin(it, flags & READ_ONLY != 0))
    })
}

fn begin<D: Design>(seat: &Seat<D>, reads_only: bool) -> Result<(), Status> {
    seat.is_free()?;
    // SAFETY: the seat is this thread's, and nothing is open in it.
    let worker = unsafe { &mut *seat.worker };
    let open = worker.begin(reads_only).map_err(|error| status::of(&error))?;
    seat.open.set(Some(open));
    // SAFETY: nobody else looks there while `tx` leads there.
    let open = unsafe { (*seat.open.as_ptr()).as_mut() };
    seat.leads_to(open.map_or(ptr::null_mut(), |open| ptr::from_mut(open.tx())));
    Ok(())
}

/// Commits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_commit(worker: *mut lw_worker, id: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let inside = unsafe { seat(worker) }?;
        let done = on!(&inside.0, it => {
            let done = match it.take()?.commit() {
                Ok(Some(ticket)) => Ok(ticket.id().0),
                Ok(None) => Err(status::CONFLICT),
                Err(error) => Err(status::of(&error)),
            };
            it.failed.set(done.err().unwrap_or(status::OK));
            done
        })?;
        if !id.is_null() {
            // SAFETY: it is the caller's.
            unsafe { id.write(done) };
        }
        Ok(())
    })
}

/// Takes back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_abort(worker: *mut lw_worker) -> c_int {
    guard(|| {
        // SAFETY: the header asks for a handle.
        let inside = unsafe { seat(worker) }?;
        on!(&inside.0, it => it.abort())
    })
}

/// Reads a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_read(
    worker: *mut lw_worker,
    object: u64,
    offset: u64,
    value: *mut u64,
) -> c_int {
    if value.is_null() {
        return status::INVALID;
    }
    // SAFETY: the header asks for a handle.
    match unsafe { seat(worker) } {
        // SAFETY: this thread owns the seat, and `value` is the caller's.
        Ok(seat) => on!(&seat.0, seat => unsafe { read(seat, object, offset, value) }),
        Err(status) => status,
    }
}

/// A function for each design, so that the one above is a check and a jump.
///
/// # Safety
/// This thread owns the seat, and `value` is there.
#[inline(never)]
unsafe fn read<D: Design>(seat: &Seat<D>, object: u64, offset: u64, value: *mut u64) -> c_int {
    let read = |tx: &mut Tx<'static, D>| {
        let word = tx.read(Addr::new(object, offset))?;
        // SAFETY: as the caller says.
        unsafe { value.write(word) };
        Ok(())
    };
    // SAFETY: as the caller says.
    unsafe { seat.access(read) }
}

/// Writes a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_write(
    worker: *mut lw_worker,
    object: u64,
    offset: u64,
    value: u64,
) -> c_int {
    // SAFETY: the header asks for a handle.
    match unsafe { seat(worker) } {
        // SAFETY: this thread owns the seat.
        Ok(seat) => on!(&seat.0, seat => unsafe { write(seat, object, offset, value) }),
        Err(status) => status,
    }
}

/// As [`read`].
///
/// # Safety
/// This thread owns the seat.
#[inline(never)]
unsafe fn write<D: Design>(seat: &Seat<D>, object: u64, offset: u64, value: u64) -> c_int {
    // SAFETY: as the caller says.
    unsafe { seat.access(|tx| tx.write(Addr::new(object, offset), value)) }
}

/// Reads bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_read_bytes(
    worker: *mut lw_worker,
    object: u64,
    offset: u64,
    bytes: u64,
    out: *mut c_void,
) -> c_int {
    if bytes > OBJECT_BYTES_MAX as u64 || out.is_null() {
        return status::INVALID;
    }
    // SAFETY: so many bytes are the caller's; any are values.
    let out = unsafe { slice::from_raw_parts_mut(out.cast::<u8>(), bytes as usize) };
    within!(worker, tx => read_bytes(tx, object, offset, out))
}

/// Writes bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_write_bytes(
    worker: *mut lw_worker,
    object: u64,
    offset: u64,
    bytes: u64,
    from: *const c_void,
) -> c_int {
    if bytes > OBJECT_BYTES_MAX as u64 || from.is_null() {
        return status::INVALID;
    }
    // SAFETY: so many bytes are the caller's.
    let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes as usize) };
    within!(worker, tx => write_bytes(tx, object, offset, from))
}

/// Makes an object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_alloc(
    worker: *mut lw_worker,
    bytes: u64,
    content: *const c_void,
    object: *mut u64,
) -> c_int {
    if object.is_null() || bytes == 0 || bytes > OBJECT_BYTES_MAX as u64 {
        return status::INVALID;
    }
    let bytes = bytes as usize;
    // SAFETY: it is NULL, or so many bytes are the caller's.
    let content = unsafe {
        let there = !content.is_null();
        there.then(|| slice::from_raw_parts(content.cast::<u8>(), bytes))
    };
    within!(worker, tx => tx.allocate(bytes).and_then(|new| {
        fill(tx, new, bytes, content)?;
        // SAFETY: it is not NULL, and the caller's.
        unsafe { object.write(new) };
        Ok(())
    }))
}

/// Frees an object or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_free(worker: *mut lw_worker, object: u64, bytes: u64) -> c_int {
    within!(worker, tx => tx.retire(Addr::new(object, 0), bytes))
}

/// Takes an object to itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_protect(worker: *mut lw_worker, object: u64) -> c_int {
    within!(worker, tx => tx.protect(Addr::new(object, 0)))
}

/// Makes room for an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_array_reserve(
    worker: *mut lw_worker,
    blocks: u64,
    first: *mut u64,
) -> c_int {
    if first.is_null() || blocks == 0 {
        return status::INVALID;
    }
    // SAFETY: it is not NULL, and the caller's.
    within!(worker, tx => tx.reserve_blocks(blocks).map(|found| unsafe { first.write(found) }))
}

/// Makes blocks ready.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_array_prepare(
    worker: *mut lw_worker,
    first: u64,
    most: u64,
    left: *mut u64,
) -> c_int {
    if left.is_null() {
        return status::INVALID;
    }
    // SAFETY: it is not NULL, and the caller's.
    within!(worker, tx => tx.prepare_blocks(first, most).map(|found| unsafe { left.write(found) }))
}
