//! Pools: create, open, run transactions, close.
//!
//! A [`Pool`] owns a design and the state that all designs share: the heap's shape, the worker
//! numbers, and the idle workers that [`Pool::run`] lends out.

mod admission;
mod backup;
mod closing;
mod conversion;
mod growth;
mod growth_budget;
mod growth_failures;
mod kept;
mod named;
mod opening;
mod scrub;
mod shape;
mod view;
mod view_space;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lw_alloc::{Request, Shortage};
use medium::System;
use words::{Addr, Stop, TxId};

use crate::design::{Decoupled, Design};
use crate::error::ReplicationError;
use crate::file_check::FileCheck;
use crate::inside::Inside;
use crate::metrics::Metrics;
use crate::options::Durability;
use crate::sync::Arc;
use crate::tx::Ended;
use crate::worker::{Phase, WorkerState};
use crate::{Committed, Error, Info, Options, Ticket, Tx, Worker};
use admission::Admission;
use growth::GrowthThread;
pub use growth::grow;
use kept::{Kept, Lent};
pub use shape::Shape;
pub use view::{PoolView, ViewTx};
use view_space::ViewSpace;

/// A pool of durable objects, open in this process and in no other.
///
/// Dropping it makes every commit durable and shuts the pool down cleanly. [`close`](Pool::close)
/// does the same and returns the error, if any.
pub struct Pool<D: Design = Decoupled> {
    /// `None` only inside `drop` and the calls that consume the pool.
    design: Option<Arc<D>>,
    pub(crate) shape: Arc<Shape>,
    growth_thread: GrowthThread,
    pub(crate) durability: Durability,
    pub(crate) patience: Duration,
    /// Creates the files of views and backups.
    system: System,
    /// The path of the pool, whatever the working directory becomes.
    home: PathBuf,
    view_space: ViewSpace,
    admission: Admission,
    kept: Kept<D>,
}

#[cfg(test)]
std::thread_local! {
    /// The walks over the heap for errors of this thread.
    pub(crate) static WALKS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl Pool {
    /// Creates a new pool of the default design at `path` and opens it. The pool is durable on
    /// return. A crash before the return leaves no pool.
    ///
    /// # Errors
    /// A file of that name exists, the disk is full, or an option has an invalid value. Creation
    /// allocates all disk space, so no commit fails for lack of it.
    pub fn create(path: impl AsRef<Path>, options: Options) -> Result<Pool, Error> {
        Pool::create_as(path, options)
    }

    /// Opens a pool and recovers it after a crash. Options that belong to creation (sizes) are
    /// ignored.
    ///
    /// # Errors
    /// The pool is in use. The file is no pool, truncated or damaged. The pool has another layout.
    /// Its log is missing or belongs to another pool. No file is changed in these cases.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Pool, Error> {
        Pool::open_as(path, options)
    }

    /// Opens the pool at `path`, or creates one if none is there.
    ///
    /// # Errors
    /// As [`open`](Pool::open) and [`create`](Pool::create). [`Error::OnlyLog`] if the pool's file
    /// is missing and its log has records: no pool is created.
    pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<Pool, Error> {
        Pool::open_or_create_as(path, options)
    }
}

impl<D: Design> Pool<D> {
    /// Creates a new pool of design `D`; see [`Pool::create`]. Designs that are not durable create
    /// no file.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create_as(path: impl AsRef<Path>, options: Options) -> Result<Pool<D>, Error> {
        options.check_role(D::NAME)?;
        if let Some(TxId(value)) = options.kept() {
            let must = "only a pool that exists rejoins; create it with `following`";
            return Err(Error::BadOption { option: "rejoining", value, must });
        }
        let made = D::create(path.as_ref(), &options)?;
        Ok(Pool::new(made, &options))
    }

    fn new((design, shape): (D, Shape), options: &Options) -> Pool<D> {
        let (design, shape) = (Arc::new(design), Arc::new(shape));
        Pool {
            growth_thread: GrowthThread::start(&design, &shape, options),
            design: Some(design),
            home: std::path::absolute(&shape.info().path).unwrap_or_default(),
            shape,
            durability: options.durability,
            patience: options.patience,
            system: options.system.clone(),
            view_space: ViewSpace::new(options.view_bytes),
            admission: Admission::default(),
            kept: Kept::new(),
        }
    }

    /// Returns the design, for operations that belong to one design.
    #[inline]
    pub fn design(&self) -> &D {
        self.design.as_ref().expect("a pool has its design until it is dropped")
    }

    /// Returns the design for a thread that does not keep the pool open.
    pub(crate) fn weak_design(&self) -> std::sync::Weak<D> {
        Arc::downgrade(self.design.as_ref().expect("a pool has its design until it is dropped"))
    }

    /// Registers a worker, for one thread. A worker of `decoupled` takes a volatile ring; for
    /// occasional transactions use [`run`](Pool::run). If no number or no memory is left, takes an
    /// idle worker that the pool keeps for `run`.
    ///
    /// # Errors
    /// No memory for its ring; [`Error::TooManyWorkers`].
    pub fn worker(&self) -> Result<Worker<'_, D>, Error> {
        Ok(Worker::new(self, self.enroll()?))
    }

    /// Returns the state of a worker for a new handle.
    pub(crate) fn enroll(&self) -> Result<WorkerState<D>, Error> {
        self.own_process("worker")?;
        self.admission.check_open("worker")?;
        self.register().or_else(|error| {
            let mut state = self.kept.take().ok_or(error)?;
            (state.conflicts, state.writes) = (0, 0);
            Ok(state)
        })
    }

    /// Registers a worker under a new number.
    fn register(&self) -> Result<WorkerState<D>, Error> {
        let number = self.admission.enter(D::NAME, D::WORKERS_MAX)?;
        let local = self.design().local(number);
        let local = local.inspect_err(|_| self.admission.leave(number, true))?;
        Ok(WorkerState::new(local, number))
    }

    /// Runs one transaction on a worker that the pool keeps, from any thread; see [`Worker::run`].
    /// The pool keeps at most as many idle workers as threads can run at a time. If it can register
    /// no other worker, the call waits until another such call returns.
    ///
    /// # Errors
    /// As [`Worker::run`]. As [`worker`](Pool::worker) if no other call is running.
    pub fn run<R>(
        &self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<Committed<'_, R, D>, Error> {
        self.may_call("run")?;
        self.admission.check_open("run")?;
        Lent::new(self)?.worker().run(body)
    }

    /// Returns the error of an attempt for the program, once the attempt is rolled back.
    #[cold]
    pub(crate) fn error_of(&self, ended: Ended) -> Error {
        match ended {
            Ended::Error(error) => self.settle(error),
            Ended::Full(met) => self.full(met.wanted),
        }
    }

    /// Returns the error of a full heap, with its present use.
    fn full(&self, wanted: Addr) -> Error {
        let (heap, usage) = (self.shape.heap(), self.heap_usage());
        #[cfg(test)]
        WALKS.with(|walks| walks.set(walks.get() + 1));
        let wanted_bytes = wanted.offset;
        let request = match wanted.object {
            0 => Request::Bytes(wanted_bytes),
            blocks => Request::Blocks(blocks),
        };
        let shortage = match wanted_bytes {
            0 => Shortage::default(),
            _ => heap.shortage(&usage, request),
        };
        Error::Full {
            wanted_bytes,
            heap_bytes: self.shape.heap_bytes(),
            free_bytes: usage.free_bytes,
            largest_free_bytes: usage.largest_free_bytes,
            free_slot_bytes: usage.free_slot_bytes(),
            shortage,
        }
    }

    /// Returns the error of a failed transaction for the program. With [`Durability::Sync`] it
    /// first waits until the state that an aborted body read is durable: the program may report
    /// that state.
    fn settle(&self, error: Error) -> Error {
        match error {
            Error::Aborted { seen, .. } if self.durability == Durability::Sync && D::DURABLE => {
                // This transaction had no effect, whatever is not durable yet.
                let failed = self.design().wait(seen).err();
                failed.map_or(error, |failed| match failed {
                    Error::Replication(ReplicationError::Undurable { replicated, .. }) => {
                        ReplicationError::Stalled { replicated }.into()
                    }
                    failed => failed,
                })
            }
            error => error,
        }
    }

    /// Unregisters a worker and frees its number. The number stays in use if a forgotten
    /// transaction cannot be rolled back: the next worker of that number would take its locks for
    /// its own.
    pub(crate) fn leave(&self, state: &mut WorkerState<D>) {
        if self.shape.is_forked() {
            return; // the parent rolls its transaction back
        }
        let is_free = state.phase == Phase::Over || state.roll_back_left(self).is_ok();
        if is_free {
            self.design().close_local(&mut state.local);
        }
        self.admission.leave(state.number, is_free);
    }

    /// Returns the last assigned ID. All transactions up to it are visible when no worker is
    /// committing.
    pub fn committed_id(&self) -> TxId {
        self.design().committed_id()
    }

    /// Returns the durable watermark: the greatest ID such that it and all IDs before it survive a
    /// crash. Costs a load; under `snapshot` with groups, a fence and a scan of all workers.
    #[inline]
    pub fn durable_id(&self) -> TxId {
        self.design().durable_id()
    }

    /// Returns the reproduced watermark: the heap image holds every transaction up to this ID, and
    /// recovery replays the log after it.
    pub fn reproduced_id(&self) -> TxId {
        self.design().reproduced_id()
    }

    /// Waits until the transaction `id` is durable, for programs that store IDs and not tickets.
    ///
    /// # Errors
    /// As [`Ticket::wait`](crate::Ticket::wait); [`Error::NoSuchTransaction`] for an ID that this
    /// pool has not assigned.
    pub fn wait_for(&self, id: TxId) -> Result<(), Error> {
        self.may_call("wait_for")?;
        let committed = self.committed_id();
        if id > committed {
            return Err(Error::NoSuchTransaction { id, committed });
        }
        let mut call = None;
        // Ends: a pool drains for a bounded time. If it closes, each ID has an outcome.
        while call.is_none() && self.design().outcome(id).is_none() {
            call = self.admission.try_call();
            if call.is_none() {
                self.admission.wait_for_drain();
            }
        }
        self.settled(id)
    }

    /// Waits until a transaction is durable, in a call or by a worker of the pool.
    pub(crate) fn settled(&self, id: TxId) -> Result<(), Error> {
        self.design().wait(id)?;
        self.file_check().check_sometimes(id)
    }

    /// Returns the ticket of the transaction `id`, for programs that store IDs.
    ///
    /// # Errors
    /// [`Error::NoSuchTransaction`] for an ID that this pool has not assigned.
    pub fn ticket(&self, id: TxId) -> Result<Ticket<'_, D>, Error> {
        let committed = self.committed_id();
        if id > committed {
            return Err(Error::NoSuchTransaction { id, committed });
        }
        Ok(Ticket::new(self, id))
    }

    /// Makes every earlier commit durable.
    ///
    /// # Errors
    /// As [`Ticket::wait`](crate::Ticket::wait). [`Error::NameLost`] when a file of the pool was
    /// removed or replaced: the commits are durable in a file that the kernel frees when it is
    /// closed.
    pub fn flush(&self) -> Result<(), Error> {
        let _call = self.call("flush")?;
        let committed = self.committed_id();
        self.design().wait(committed)?;
        // A pool can fail after its last commit is durable: truncation may read back a changed log,
        // which no longer protects that commit.
        self.design().check()?;
        self.file_check().check(committed)
    }

    /// Makes every earlier commit durable and applies it to the heap image, so that recovery has
    /// none of it to replay. Computes the missing page checksums of a `decoupled` pool, which reads
    /// these pages. [`close`](Pool::close) does the same. For measuring the whole cost of
    /// a transaction, background work included.
    ///
    /// # Errors
    /// As [`flush`](Pool::flush). [`Error::Poisoned`] by
    /// [`MediumError::DamagedPages`](crate::MediumError::DamagedPages): a page was damaged before
    /// it changed; later openings fail.
    pub fn checkpoint(&self) -> Result<(), Error> {
        let _call = self.call("checkpoint")?;
        self.design().checkpoint()?;
        self.file_check().check(self.committed_id())
    }

    /// Checks that live and free objects cover the whole heap, and counts them. Takes as long as
    /// reading the heap. No transaction may run during the call.
    ///
    /// # Errors
    /// The first damage found.
    ///
    /// # Panics
    /// In a [forked child](Pool::is_forked), which may have none of the heap's memory, and when the
    /// pool is [closed](Pool::close_shared).
    pub fn check_heap(&self) -> Result<lw_alloc::Usage, lw_alloc::Damage> {
        let call = self.own_process("check_heap").and_then(|()| self.admission.call("check_heap"));
        let _call = call.unwrap_or_else(|error| panic!("{error}"));
        self.design().settle();
        self.shape.heap().check(|offset| self.design().peek(offset as usize / 8))
    }

    /// Returns the live and free memory of the heap, in total and for each size class. Exact when
    /// no transaction runs, else an estimate.
    ///
    /// Reads one cache line for each slab, array and long string, and the words of the arenas. No
    /// worker waits for it or is slowed by a lock. A run that a worker changes meanwhile may be
    /// counted in its old or its new state; [`Usage::unknown_bytes`](crate::Usage::unknown_bytes)
    /// are in runs whose heads were half written. It reads no object, so their requested sizes are
    /// not known: [`check_heap`](Pool::check_heap) returns them.
    ///
    /// Under [`Snapshot`](crate::Snapshot) with [groups](crate::Options::group), commits of a
    /// group that has not ended are not counted. [`flush`](Pool::flush) ends it.
    ///
    /// In a [forked child](Pool::is_forked), and when the pool is [closed](Pool::close_shared), all
    /// numbers are 0 but the size of the heap.
    pub fn heap_usage(&self) -> lw_alloc::Usage {
        // A child has no copy of a mapped heap: to read it is a SIGSEGV.
        let forked = self.own_process("heap_usage");
        let Ok(_call) = forked.and_then(|()| self.admission.call("heap_usage")) else {
            let mut usage = lw_alloc::Usage::default();
            usage.heap_bytes = self.shape.heap_bytes();
            return usage;
        };
        // A version that an earlier reader kept from the heap waits for the next transaction.
        self.design().catch_up();
        self.shape.heap().usage_now(|offset| self.design().peek(offset as usize / 8))
    }

    /// Returns the operations and costs of the pool since it was opened. Waits for no device and
    /// for no step.
    pub fn metrics(&self) -> Metrics {
        let log_capacity_bytes = self.shape.log_bytes();
        let (view_bytes, failed_growths) = (self.view_space.used(), self.shape.growth().failed());
        Metrics { log_capacity_bytes, view_bytes, failed_growths, ..self.design().metrics() }
    }

    /// Returns whether this process is a forked child of the process that opened the pool. A child
    /// cannot use the pool: its calls return [`Error::Forked`].
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.shape.is_forked()
    }

    /// Returns whether a file of the pool was removed, or its name belongs to another file. A file
    /// that was only renamed still has a name, so it is not deleted. Looks at the names: two system
    /// calls for each file. A pool without files is never deleted.
    ///
    /// The pool finds this itself, and then refuses transactions that write with
    /// [`Error::NameLost`], until a renamed file has its name back. `decoupled` looks at the names
    /// about once a second while transactions commit, unless it has no threads
    /// ([`Options::background`]). Tickets, and designs that are durable on return, look after some
    /// transactions; [`flush`](Pool::flush), [`checkpoint`](Pool::checkpoint) and
    /// [`close`](Pool::close) look always. Every commit still becomes durable in the open files,
    /// and views, reads and [`backup`](Pool::backup) work: a backup under the old name saves the
    /// pool.
    pub fn is_deleted(&self) -> bool {
        // A lock of the parent may be taken for ever.
        !self.is_forked() && self.file_check().has_lost_name()
    }

    /// Returns the check of the files.
    #[inline]
    pub(crate) fn file_check(&self) -> &Arc<FileCheck> {
        self.shape.file_check()
    }

    /// Returns the pool's description. [`Info::log_path`] is the current path of log writes: the
    /// system may have refused the path chosen at opening.
    pub fn info(&self) -> Info {
        self.shape.info_now()
    }

    /// Leaves the pool as a crash of the process would: nothing more becomes durable. For tests,
    /// and for programs that test their recovery.
    pub fn abandon(mut self) {
        if self.shape.is_forked() {
            return; // `drop` leaves the parent's files alone
        }
        // First: a growth that is in progress gives up meanwhile.
        self.shape.growth().close();
        // Drop the idle workers without unregistering them, which could make a group durable.
        drop(self.kept.take_all());
        self.growth_thread.stop(self.shape.growth());
        let design = self.design.take().expect("a pool has its design until it is dropped");
        design.abandon();
        if let Some(pipeline) = design.pipeline() {
            pipeline.end_replication();
        }
    }

    /// Begins a call that may not run while the pool shuts down.
    fn call(&self, call: &'static str) -> Result<admission::Call<'_>, Error> {
        self.may_call(call)?;
        self.admission.call(call)
    }

    /// Requests that `id` becomes durable soon. While the pool shuts down it does.
    pub(crate) fn expedite(&self, id: TxId) {
        if let Some(_call) = self.admission.try_call() {
            self.design().expedite(id);
        }
    }

    /// Refuses a call inside a body and in a forked child.
    #[inline]
    pub(crate) fn may_call(&self, call: &'static str) -> Result<(), Error> {
        Inside::refuse(call)?;
        self.own_process(call)
    }

    /// Refuses a call in a forked child.
    #[inline]
    pub(crate) fn own_process(&self, call: &'static str) -> Result<(), Error> {
        if self.shape.is_forked() { Err(Error::Forked { call }) } else { Ok(()) }
    }

    fn leave_kept(&self) {
        for mut state in self.kept.take_all() {
            self.leave(&mut state);
        }
    }
}

impl<D: Design> Drop for Pool<D> {
    fn drop(&mut self) {
        if self.shape.is_forked() {
            // A forked child has no threads to join, and the files belong to its parent. Leak the
            // design: dropping it would wait for locks that no thread of the child holds.
            std::mem::forget(self.design.take());
            self.growth_thread.forget();
            return;
        }
        if self.design.is_some() {
            self.shape.growth().close();
            self.leave_kept();
        }
        if let Some(design) = self.design.take().filter(|_| !self.admission.is_closed()) {
            // `close` reports errors. Here they are ignored: opening the pool recovers every
            // acknowledged transaction.
            let _ = self.shut_down(&design);
        }
    }
}

impl<D: Design> fmt::Debug for Pool<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("design", &D::NAME)
            .field("info", self.shape.info())
            .finish_non_exhaustive()
    }
}
