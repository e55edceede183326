//! Workers and the functions of their transactions.
//!
//! ```text
//!   lw_worker * -> shell    owner: the thread that opened the worker; 0 when closed
//!                  state    tx: pointer to the open transaction, or NULL
//!                           open: the transaction, if lw_begin began it; else a body runs
//!                           failed: the status that ended it, until lw_abort
//!                           worker
//!                  maps     views and cursors: see `maps`
//! ```
//!
//! An access may run if the owner is this thread and `tx` is not NULL. Only the owner accesses the
//! state, so it needs no lock. A thread that closes the pool closes the remaining workers, too. The
//! header requires that no other call is in flight then.
//!
//! A thread is identified by the address of its control block, which a later thread reuses. So a
//! thread that ends closes its workers (`thread`).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

use lastword::{Addr, Design, Error, OBJECT_BYTES_MAX, Objects, Stop, Tx, Words, Worker};

use crate::design::{Any, Each, map, on};
use crate::handle::{Closed, Shell};
use crate::pool::{self, lw_pool};
use crate::{Status, guard, maps, message, reader, status, thread};

/// `LW_READ_ONLY`.
pub const READ_ONLY: u32 = 1;

/// A worker and its transaction. All accesses are shared references, because a body that this
/// module calls also calls this module.
pub struct State<D: Design> {
    /// Points into `open`, or to the stack frame that called the body. Atomic because a thread that
    /// closes the pool reads it, too.
    tx: AtomicPtr<Tx<'static, D>>,
    /// Accessed only through `tx` while `tx` points into it.
    open: Cell<Option<lastword::Open<'static, 'static, D>>>,
    /// Whether a body runs.
    runs: Cell<bool>,
    /// The status that ended the transaction, or 0.
    failed: Cell<c_int>,
    /// From a box. Borrowed by `open`, or by the call that runs a body.
    worker: *mut Worker<'static, D>,
    pool: &'static pool::Open,
}

/// Selects [`State`].
pub(crate) struct States;

impl Each for States {
    type Of<D: Design> = State<D>;
    type Reader = reader::State;
}

/// The state of a worker of any design, or of a reader.
pub struct AnyState {
    any: Any<States>,
    pub(crate) maps: maps::Kept,
}

/// The target of `lw_worker *`.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type lw_worker = Shell<AnyState>;

static CLOSED: Closed<AnyState> = Closed::empty();

/// Returns the state of a worker of this thread.
///
/// # Safety
/// The handle is NULL or comes from [`lw_worker_open`].
#[inline(always)]
pub(crate) unsafe fn state(worker: *mut lw_worker) -> Result<&'static AnyState, Status> {
    // SAFETY: the caller guarantees the handle.
    let shell = unsafe { Shell::of(worker) }?;
    // Relaxed suffices. Only this thread stores its number here. An earlier thread with the same
    // number stored 0 before it ended. If another thread closes the worker with its pool, the
    // header requires that the program orders that call and this one.
    if shell.owner.load(Ordering::Relaxed) != thread::number() {
        return Err(not_mine(shell));
    }
    // SAFETY: this thread is the owner.
    Ok(unsafe { shell.inside_of_owner() })
}

#[cold]
fn not_mine(shell: &'static lw_worker) -> Status {
    if shell.is_open() { status::OTHER_THREAD } else { status::CLOSED }
}

impl<D: Design> State<D> {
    /// Returns the open transaction. The owner may use it until another method is called.
    #[inline(always)]
    fn tx(&self) -> Result<NonNull<Tx<'static, D>>, Status> {
        NonNull::new(self.tx.load(Ordering::Relaxed)).ok_or_else(|| self.why_not())
    }

    #[cold]
    fn why_not(&self) -> Status {
        if self.failed.get() == status::OK { status::IDLE } else { self.failed.get() }
    }

    /// Fails unless a transaction may begin.
    fn is_free(&self) -> Result<(), Status> {
        let is_free = self.tx.load(Ordering::Relaxed).is_null() && self.failed.get() == status::OK;
        if is_free { Ok(()) } else { Err(status::NESTED) }
    }

    fn has_transaction(&self) -> bool {
        self.runs.get() || !self.tx.load(Ordering::Relaxed).is_null()
    }

    fn runs(&self) -> bool {
        self.runs.get()
    }

    fn set_tx(&self, tx: *mut Tx<'_, D>) {
        self.tx.store(tx.cast(), Ordering::Relaxed);
    }

    /// Takes the transaction that was begun in parts.
    fn take(&self) -> Result<lastword::Open<'static, 'static, D>, Status> {
        if self.tx.load(Ordering::Relaxed).is_null() {
            return Err(self.why_not());
        }
        // Take the transaction before `tx` is cleared, so that a running body keeps its own.
        let open = self.open.take().ok_or(status::NESTED)?; // a body commits by its return value
        self.set_tx(ptr::null_mut());
        Ok(open)
    }

    /// Commits the transaction that was begun in parts, and returns its ID.
    fn commit(&self) -> Result<u64, Status> {
        let done = match self.take()?.commit() {
            Ok(Some(ticket)) => Ok(ticket.id().0),
            Ok(None) => Err(status::CONFLICT),
            Err(error) => Err(message::of(&error)),
        };
        // A failed commit still needs lw_abort, so remember its status.
        self.failed.set(done.err().unwrap_or(status::OK));
        done
    }

    /// Rolls back the open transaction.
    fn abort(&self) -> Result<(), Status> {
        if self.runs.get() {
            return Err(status::NESTED); // a body aborts by its return value
        }
        match self.failed.replace(status::OK) {
            status::OK => self.take()?.abort().map(drop).map_err(|error| message::of(&error)),
            // The failure rolled it back already, unless it was a panic.
            _ => {
                drop(self.open.take());
                Ok(())
            }
        }
    }

    /// Drops the transaction and the worker.
    fn end(self, shell: &'static lw_worker) {
        // Drop the transaction first, which borrows the worker. A thread that ends or panicked
        // leaves one.
        drop(self.open.take());
        self.pool.forget(shell);
        // SAFETY: the worker comes from a box, and its only borrower was dropped above.
        drop(unsafe { Box::from_raw(self.worker) });
    }

    /// Ends a transaction in which a call panicked, since its content is unknown.
    #[cold]
    fn has_panicked(&self) {
        self.set_tx(ptr::null_mut());
        self.failed.set(status::PANIC);
    }

    /// Runs an access in the open transaction.
    ///
    /// # Safety
    /// This thread owns the worker.
    #[inline(always)]
    pub(crate) unsafe fn access(
        &self,
        work: impl FnOnce(&mut Tx<'static, D>) -> Result<(), Stop>,
    ) -> c_int {
        let done = guard(|| {
            // SAFETY: `tx` points to the open transaction, and only the owner accesses it.
            work(unsafe { self.tx()?.as_mut() }).map_err(status::of_stop)
        });
        if done == status::PANIC {
            self.has_panicked();
        }
        done
    }
}

/// Runs an access in a worker's open transaction.
macro_rules! within {
    ($worker:expr, $tx:ident => $work:expr) => {
        // SAFETY: the header requires a handle.
        match unsafe { $crate::worker::state($worker) } {
            Ok(state) => $crate::worker::inside!(state, $tx => $work),
            Err(status) => status,
        }
    };
}

/// Runs an access in the open transaction of a worker of this thread.
macro_rules! inside {
    ($state:expr, $tx:ident => $work:expr) => {
        $crate::design::on!($state.any(), it => {
            let work = |$tx: &mut lastword::Tx<'static, _>| $work;
            // SAFETY: the state comes from `state`, so this thread owns the worker.
            unsafe { it.access(work) }
        }; it => {
            let work = |$tx: &mut lastword::ViewTx<'_>| $work;
            it.access(work)
        })
    };
}

pub(crate) use {inside, within};

impl AnyState {
    /// Returns the state under its design.
    #[inline(always)]
    pub(crate) fn any(&self) -> &Any<States> {
        &self.any
    }
}

/// Opens a worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_worker_open(pool: *mut lw_pool, worker: *mut *mut lw_worker) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { pool::of(pool) }?;
        if worker.is_null() {
            return Err(status::INVALID);
        }
        let state = map!(&open.pool, pool => {
            let worker = pool.worker().map_err(|error| message::of(&error))?;
            let worker = Box::into_raw(Box::new(worker));
            State {
                tx: AtomicPtr::new(ptr::null_mut()),
                open: Cell::new(None),
                runs: Cell::new(false),
                failed: Cell::new(status::OK),
                worker,
                pool: open,
            }
        }; reader => reader::State::new(reader, open));
        let state = AnyState { any: state, maps: maps::Kept::default() };
        let handle = CLOSED.open(state, thread::number());
        // SAFETY: the handle comes from `open`.
        let shell = unsafe { Shell::of(handle) }?;
        // Both the pool and the thread remember the worker, since either may end first.
        open.remember(shell);
        thread::opens(shell);
        // SAFETY: `worker` is not NULL, and the header requires a valid pointer.
        unsafe { worker.write(handle) };
        Ok(())
    })
}

/// Closes a worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_worker_close(worker: *mut lw_worker) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let (shell, inside) = unsafe { (Shell::of(worker)?, state(worker)?) };
        let ended = match on!(&inside.any, it => it.abort()) {
            Err(status::NESTED) => return Err(status::NESTED), // a body runs
            Err(status::IDLE) => Ok(()),
            ended => ended,
        };
        // The worker closes whether or not the abort failed.
        thread::closes(shell);
        close(shell);
        ended
    })
}

/// Whether a worker has an open transaction.
pub(crate) fn has_transaction(shell: &'static lw_worker) -> bool {
    shell.inside().is_ok_and(|inside| on!(&inside.any, it => it.has_transaction()))
}

/// Closes a worker, and rolls back its open transaction.
pub(crate) fn close(shell: &'static lw_worker) {
    let Ok(inside) = CLOSED.close(shell) else { return };
    inside.maps.close_cursors();
    on!(inside.any, it => it.end(shell));
}

/// Closes a worker of an ending thread, and aborts its open transaction. Skips a worker whose body
/// runs, because the thread then exits the process from that body.
pub(crate) fn close_of_ending_thread(shell: &'static lw_worker) {
    // The pool's closing may have closed it, and another thread may have reopened the shell since.
    // The caller holds the lock of `closing`, which orders the relaxed load after that closing.
    let is_own = shell.owner.load(Ordering::Relaxed) == thread::number();
    let runs = || shell.inside().is_ok_and(|inside| on!(&inside.any, it => it.runs()));
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
        // SAFETY: the header requires a handle.
        let inside = unsafe { state(worker) }?;
        // Reject unknown flags, so that a later version can define them.
        let Some(body) = body.filter(|_| flags & !READ_ONLY == 0) else {
            return Err(status::INVALID);
        };
        let reads_only = flags & READ_ONLY != 0;
        let body = || {
            inside.maps.change();
            body(worker, argument)
        };
        let done = on!(&inside.any, it => run(it, reads_only, body); it => it.run(body))?;
        if !id.is_null() {
            // SAFETY: `id` is not NULL, and the header requires a valid pointer.
            unsafe { id.write(done) };
        }
        Ok(())
    })
}

/// Runs a body in a worker of this thread.
fn run<D: Design>(
    state: &State<D>,
    reads_only: bool,
    body: impl Fn() -> c_int,
) -> Result<u64, Status> {
    state.is_free()?;
    let mut returned = status::OK;
    let body = |tx: &mut Tx<'_, D>| {
        // The body reaches its transaction by the handle, through `tx`. While `runs` is set, the
        // calls that end a transaction return LW_ENESTED.
        state.set_tx(tx);
        state.runs.set(true);
        returned = body();
        state.runs.set(false);
        state.set_tx(ptr::null_mut());
        // Only a panic sets `failed` inside a body, and it decides over the body's own value.
        if state.failed.replace(status::OK) != status::OK {
            returned = status::PANIC;
        }
        match returned {
            status::OK => Ok(()),
            status::CONFLICT => Err(Stop::Conflict),
            reason => tx.abort(reason),
        }
    };
    // SAFETY: this thread owns the worker, and no transaction borrows it.
    let worker = unsafe { &mut *state.worker };
    let done = if reads_only { worker.read(body) } else { worker.run(body) };
    done.map(|done| done.ticket.id().0).map_err(|error| match returned {
        // The program's own status has precedence over the error that it made of it.
        status::OK | status::CONFLICT => message::of(&error),
        _ if matches!(error, Error::Poisoned { .. }) => message::of(&error),
        reason => reason,
    })
}

/// Begins a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_begin(worker: *mut lw_worker, flags: u32) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let inside = unsafe { state(worker) }?;
        if flags & !READ_ONLY != 0 {
            return Err(status::INVALID);
        }
        inside.maps.change();
        on!(&inside.any, it => begin(it, flags & READ_ONLY != 0); it => it.begin())
    })
}

fn begin<D: Design>(state: &State<D>, reads_only: bool) -> Result<(), Status> {
    state.is_free()?;
    // SAFETY: this thread owns the worker, and no transaction borrows it.
    let worker = unsafe { &mut *state.worker };
    // The transaction borrows the worker and outlives this call. So it is stored beside the worker,
    // and
    // `close` drops it first.
    let open = worker.begin(reads_only).map_err(|error| message::of(&error))?;
    state.open.set(Some(open));
    // SAFETY: this thread owns the worker. From here on, accesses go through `tx` alone.
    let open = unsafe { (*state.open.as_ptr()).as_mut() };
    state.set_tx(open.map_or(ptr::null_mut(), |open| ptr::from_mut(open.tx())));
    Ok(())
}

/// Commits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_commit(worker: *mut lw_worker, id: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let inside = unsafe { state(worker) }?;
        let done = on!(&inside.any, it => it.commit())?;
        if !id.is_null() {
            // SAFETY: `id` is not NULL, and the header requires a valid pointer.
            unsafe { id.write(done) };
        }
        Ok(())
    })
}

/// Rolls back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_abort(worker: *mut lw_worker) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let inside = unsafe { state(worker) }?;
        on!(&inside.any, it => it.abort())
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
    // Checked before the transaction, which therefore stays open.
    if value.is_null() {
        return status::INVALID;
    }
    // SAFETY: the header requires a handle.
    match unsafe { state(worker) } {
        Ok(state) => on!(&state.any, state => {
            // SAFETY: this thread owns the worker, and the header requires a valid `value`.
            unsafe { read(state, object, offset, value) }
        }; state => state.access(|tx| {
            let word = tx.read(Addr::new(object, offset))?;
            // SAFETY: the header requires a valid pointer.
            unsafe { value.write(word) };
            Ok(())
        })),
        Err(status) => status,
    }
}

/// Reads a word under one design. A function of its own, so that [`lw_read`] is a check and a jump.
///
/// # Safety
/// This thread owns the worker, and `value` is valid.
#[inline(never)]
unsafe fn read<D: Design>(state: &State<D>, object: u64, offset: u64, value: *mut u64) -> c_int {
    let read = |tx: &mut Tx<'static, D>| {
        let word = tx.read(Addr::new(object, offset))?;
        // SAFETY: the caller guarantees a valid pointer.
        unsafe { value.write(word) };
        Ok(())
    };
    // SAFETY: the caller guarantees that this thread owns the worker.
    unsafe { state.access(read) }
}

/// Writes a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_write(
    worker: *mut lw_worker,
    object: u64,
    offset: u64,
    value: u64,
) -> c_int {
    // SAFETY: the header requires a handle.
    match unsafe { state(worker) } {
        Ok(state) => on!(&state.any, state => {
            // SAFETY: this thread owns the worker.
            unsafe { write(state, object, offset, value) }
        }; state => state.access(|tx| tx.write(Addr::new(object, offset), value))),
        Err(status) => status,
    }
}

/// Writes a word under one design, as [`read`].
///
/// # Safety
/// This thread owns the worker.
#[inline(never)]
unsafe fn write<D: Design>(state: &State<D>, object: u64, offset: u64, value: u64) -> c_int {
    // SAFETY: the caller guarantees that this thread owns the worker.
    unsafe { state.access(|tx| tx.write(Addr::new(object, offset), value)) }
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
    // SAFETY: the header requires `bytes` writable bytes, and any bytes are valid.
    let out = unsafe { slice::from_raw_parts_mut(out.cast::<u8>(), bytes as usize) };
    within!(worker, tx => tx.read_bytes(Addr::new(object, offset), out))
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
    // SAFETY: the header requires `bytes` readable bytes.
    let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes as usize) };
    within!(worker, tx => tx.write_bytes(Addr::new(object, offset), from))
}
