//! Pools: create, open, use, close.

mod kept;

use std::fmt;
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use medium::{LogMedium, Process};
use words::{Stop, TxId};

use crate::design::{Decoupled, Design};
use crate::info;
use crate::inside::Inside;
use crate::metrics::Metrics;
use crate::names::Names;
use crate::options::Durability;
use crate::shadow::{ShadowHeap, ShadowMemory};
use crate::storage::{Storage, heap};
use crate::sync::{Arc, Mutex, Ordering, lock};
use crate::worker::{Phase, Seat};
use crate::{Committed, Error, Info, Options, Ticket, Tx, Worker};
use kept::{Kept, Lent};

/// A pool of durable objects, open in this process and in no other.
///
/// Dropping it makes everything committed durable and closes it in good order;
/// [`close`](Pool::close) does the same and tells what went wrong.
pub struct Pool<D: Design = Decoupled> {
    /// `None` only while it is dropped.
    design: Option<D>,
    pub(crate) shape: Shape,
    pub(crate) durability: Durability,
    pub(crate) patience: Duration,
    numbers: Mutex<Numbers>,
    kept: Kept<D>,
}

/// What a pool is like, whatever its design.
#[derive(Debug)]
pub struct Shape {
    heap: lw_alloc::Heap,
    runs: lw_alloc::Runs,
    base: u64,
    info: Info,
    /// Says how groups get to the log. Not owned: the log's file is closed when the design is.
    log: Option<Weak<dyn LogMedium>>,
    names: Arc<Names>,
    process: Process,
}

impl Shape {
    pub(crate) fn of(storage: &Storage, options: &Options) -> Shape {
        let superblock = storage.superblocks.current();
        let base = u64::from(superblock.tag()) << words::ADDRESS_BITS;
        let log = storage.log_file.as_deref().unwrap_or(&storage.file);
        let log = storage.written.map(|path| (log, path));
        let info = Info::of(&storage.file, superblock, storage.medium, log);
        let wanted = options.ownership_records;
        let ownership_records = info::records(&info.design, info.heap_bytes, wanted);
        let ring_bytes = 8 * options.ring_words() as u64;
        let info = Info { ring_bytes, ownership_records, ..info };
        let info = info.with_shadow(options.shadow, options.shadow_bytes);
        let shape = Shape::new(heap(superblock), base, info, Names::of(storage));
        Shape { log: Some(Arc::downgrade(&storage.log)), ..shape }
    }

    /// A heap that dies with the process, formatted.
    pub(crate) fn in_memory(options: &Options) -> Result<(ShadowHeap, Shape), Error> {
        const TAG: u16 = 0xfade;
        <ShadowHeap as ShadowMemory>::check(options)?;
        let bytes = options.heap_rounded()?;
        let shadow = ShadowHeap::zeros(bytes)?;
        let heap = lw_alloc::Heap::new(TAG, bytes);
        let base = u64::from(TAG) << words::ADDRESS_BITS;
        for (index, value) in crate::storage::format(&heap, base) {
            shadow.heap()[index as usize].store(value, Ordering::Relaxed);
        }
        let info = Info::in_memory(options, bytes)?;
        Ok((shadow, Shape::new(heap, base, info, Names::default())))
    }

    fn new(heap: lw_alloc::Heap, base: u64, info: Info, names: Names) -> Shape {
        let (runs, names) = (lw_alloc::Runs::new(&heap), Arc::new(names));
        Shape { heap, runs, base, info, log: None, names, process: Process::current() }
    }

    /// Whether the files have their names; `Arc` for tickets that outlive the caller.
    #[inline]
    pub(crate) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Whether this is a forked child of the process that opened the pool.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    #[inline]
    pub(crate) fn runs(&self) -> &lw_alloc::Runs {
        &self.runs
    }

    #[inline]
    pub(crate) fn heap(&self) -> lw_alloc::Heap {
        self.heap
    }

    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// What the pool was like when it was opened.
    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    /// The same, with the way that groups get to the log by now.
    fn info_now(&self) -> Info {
        let written = self.log.as_ref().and_then(Weak::upgrade).and_then(|log| log.written());
        match written {
            Some(path) if self.info.log_path.is_some() => self.info.clone().written_by(path),
            _ => self.info.clone(),
        }
    }
}

/// Numbers of living workers: the smallest free one is given out.
#[derive(Debug, Default)]
struct Numbers {
    used: Vec<bool>,
}

impl Numbers {
    fn take(&mut self) -> usize {
        let number = self.used.iter().position(|used| !used).unwrap_or(self.used.len());
        if number == self.used.len() {
            self.used.push(true);
        } else {
            self.used[number] = true;
        }
        number
    }
}

impl Pool {
    /// Makes a new pool of the default design at `path` and opens it. Durable on return: a crash
    /// before leaves no pool.
    ///
    /// # Errors
    /// A file of that name exists; the disk is full (at creation, not at commit: everything is
    /// allocated here); an option that no pool can have.
    pub fn create(path: impl AsRef<Path>, options: Options) -> Result<Pool, Error> {
        Pool::create_as(path, options)
    }

    /// Opens a pool, recovering what a crash left. `options` that belong to creation (sizes) are
    /// taken from the pool.
    ///
    /// # Errors
    /// It is in use; it is no pool, truncated, or damaged; it has another layout; its log is
    /// missing or another's. Nothing has been changed then.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Pool, Error> {
        Pool::open_as(path, options)
    }
}

impl<D: Design> Pool<D> {
    /// Makes a new pool of design `D`; see [`Pool::create`]. Designs that keep nothing make no
    /// file.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create_as(path: impl AsRef<Path>, options: Options) -> Result<Pool<D>, Error> {
        let made = D::create(path.as_ref(), &options)?;
        Ok(Pool::new(made, &options))
    }

    /// Opens a pool as design `D`; see [`Pool::open`].
    ///
    /// # Errors
    /// As [`Pool::open`]; [`Error::NotDurable`] for designs that keep nothing.
    pub fn open_as(path: impl AsRef<Path>, options: Options) -> Result<Pool<D>, Error> {
        let opened = D::open(path.as_ref(), &options)?;
        Ok(Pool::new(opened, &options))
    }

    fn new((design, shape): (D, Shape), options: &Options) -> Pool<D> {
        Pool {
            design: Some(design),
            shape,
            durability: options.durability,
            patience: options.patience,
            numbers: Mutex::default(),
            kept: Kept::new(),
        }
    }

    /// The design behind it: what is particular to one is there.
    #[inline]
    pub fn design(&self) -> &D {
        self.design.as_ref().expect("a pool has its design until it is dropped")
    }

    /// A worker for one thread. Takes a volatile ring; for a few transactions now and then use
    /// [`run`](Pool::run). When no number or no memory is left, takes one that the pool keeps for
    /// `run`.
    ///
    /// # Errors
    /// No memory for its ring; [`Error::TooManyWorkers`].
    pub fn worker(&self) -> Result<Worker<'_, D>, Error> {
        self.own_process("worker")?;
        let seat = self.register().or_else(|error| {
            let mut seat = self.kept.take().ok_or(error)?;
            (seat.conflicts, seat.writes) = (0, 0);
            Ok(seat)
        });
        seat.map(|seat| Worker::new(self, seat))
    }

    /// Registers a worker under a number of its own.
    fn register(&self) -> Result<Seat<D>, Error> {
        let number = {
            let mut numbers = lock(&self.numbers);
            if numbers.used.iter().filter(|used| **used).count() >= D::WORKERS_MAX {
                let (design, max) = (D::NAME, D::WORKERS_MAX);
                let instead = "use another design";
                return Err(Error::TooManyWorkers { design, max, instead });
            }
            numbers.take()
        };
        match self.design().local(number) {
            Ok(local) => Ok(Seat::new(local, number)),
            Err(error) => {
                lock(&self.numbers).used[number] = false;
                Err(error)
            }
        }
    }

    /// Runs one transaction on a worker that the pool keeps for this, whichever thread calls; see
    /// [`Worker::run`]. The pool keeps as many idle workers as threads can run at a time. When it
    /// can have no other worker, waits until another call of this returns.
    ///
    /// # Errors
    /// As [`Worker::run`]; as [`worker`](Pool::worker), when no other call runs.
    pub fn run<R>(
        &self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<Committed<'_, R, D>, Error> {
        self.may_call("run")?;
        Lent::new(self)?.worker().run(body)
    }

    /// What to tell about a transaction that failed: with [`Durability::Sync`], what an aborted
    /// body has seen is durable before the program can tell anybody about it.
    pub(crate) fn settle(&self, error: Error) -> Error {
        match error {
            Error::Aborted { seen, .. } if self.durability == Durability::Sync && D::DURABLE => {
                self.design().wait(seen).err().unwrap_or(error)
            }
            error => error,
        }
    }

    /// A worker is gone; its number may be used again, unless something of a transaction is left
    /// that cannot be rolled back: the next worker of that number would take it for its own.
    pub(crate) fn leave(&self, seat: &mut Seat<D>) {
        if self.shape.is_forked() {
            return; // what it has left is its parent's to roll back
        }
        if seat.phase != Phase::Over && seat.roll_back_left(self).is_err() {
            return;
        }
        self.design().close_local(&mut seat.local);
        lock(&self.numbers).used[seat.number] = false;
    }

    /// The last transaction that has an ID. All up to it are visible when no worker is committing.
    pub fn committed_id(&self) -> TxId {
        self.design().committed_id()
    }

    /// The largest ID such that its transaction and all before it survive a crash. Costs a load;
    /// under `snapshot` with groups a fence and a look at every worker.
    #[inline]
    pub fn durable_id(&self) -> TxId {
        self.design().durable_id()
    }

    /// The last transaction whose words are at home: recovery begins after it.
    pub fn reproduced_id(&self) -> TxId {
        self.design().reproduced_id()
    }

    /// Waits until the transaction `id` is durable, for programs that keep IDs and not tickets.
    ///
    /// # Errors
    /// As [`Ticket::wait`](crate::Ticket::wait); [`Error::NoSuchTransaction`] for an ID that this
    /// pool has not given out.
    pub fn wait_for(&self, id: TxId) -> Result<(), Error> {
        self.may_call("wait_for")?;
        let committed = self.committed_id();
        if id > committed {
            return Err(Error::NoSuchTransaction { id, committed });
        }
        self.design().wait(id)?;
        self.names().check_sometimes(id)
    }

    /// The ticket of the transaction `id`, for programs that keep IDs.
    ///
    /// # Errors
    /// [`Error::NoSuchTransaction`] for an ID that this pool has not given out.
    pub fn ticket(&self, id: TxId) -> Result<Ticket<'_, D>, Error> {
        let committed = self.committed_id();
        if id > committed {
            return Err(Error::NoSuchTransaction { id, committed });
        }
        Ok(Ticket::new(self, id))
    }

    /// Makes everything committed before durable.
    ///
    /// # Errors
    /// As [`Ticket::wait`](crate::Ticket::wait); [`Error::NameLost`] when a file of the pool was
    /// removed or replaced: then everything is durable in a file that is freed when it is closed.
    pub fn flush(&self) -> Result<(), Error> {
        self.may_call("flush")?;
        let committed = self.committed_id();
        self.design().wait(committed)?;
        // A pool can fail after its last commit is durable: then its log is not what was written.
        self.design().check()?;
        self.names().check(committed)
    }

    /// Makes everything committed before durable and brings it home, so that opening the pool
    /// after a crash has nothing of it to replay. [`close`](Pool::close) does the same; this is for
    /// measuring the whole cost of a transaction, what is done behind included.
    ///
    /// # Errors
    /// As [`flush`](Pool::flush).
    pub fn bring_home(&self) -> Result<(), Error> {
        self.may_call("bring_home")?;
        self.design().bring_home()?;
        self.names().check(self.committed_id())
    }

    /// Checks that live and free objects make up the whole heap, and counts them. Takes as long as
    /// reading the heap; no transaction may run meanwhile.
    ///
    /// # Errors
    /// The first damage found.
    pub fn check_heap(&self) -> Result<lw_alloc::Usage, lw_alloc::Damage> {
        self.design().settle();
        self.shape.heap.check(|offset| self.design().peek(offset as usize / 8))
    }

    /// What it has done and cost since it was opened.
    pub fn metrics(&self) -> Metrics {
        self.design().metrics()
    }

    /// The names of its files.
    #[inline]
    pub(crate) fn names(&self) -> &Arc<Names> {
        self.shape.names()
    }

    /// What it is like. [`Info::log_path`] is the way that groups get to the log by now: the system
    /// may have refused the way that was chosen at opening.
    pub fn info(&self) -> Info {
        self.shape.info_now()
    }

    /// Makes everything durable and closes the pool in good order, so that opening it recovers
    /// nothing.
    ///
    /// # Errors
    /// The medium's: then the pool is as a crash would leave it, and opening it recovers.
    /// [`Error::NameLost`] when a file of the pool was removed or replaced: it was closed in good
    /// order, and the error says where its content can be copied from. [`Error::Cut`] when one was
    /// cut short: of a cut log nothing is needed any more, after a cut of the heap the pool is left
    /// as a crash would leave it.
    pub fn close(mut self) -> Result<(), Error> {
        self.may_call("close")?;
        self.leave_seats();
        let mut design = self.design.take().expect("a pool has its design until it is dropped");
        if self.names().must_abandon(D::NAME) {
            design.abandon();
            return self.names().check_closed();
        }
        design.close()?;
        // The log's own file looks at that when it is dropped.
        self.names().unlock();
        drop(design);
        self.names().check_closed()
    }

    /// Leaves the pool as a crash of the process would: nothing more is made durable. For tests and
    /// for programs that want to see what recovery finds.
    pub fn abandon(mut self) {
        if self.shape.is_forked() {
            return; // `drop` leaves the parent's files alone
        }
        // Its own workers do not leave: that may make something durable.
        drop(self.kept.take_all());
        self.design.take().expect("a pool has its design until it is dropped").abandon();
    }

    /// Refuses a call inside a body, and in a forked child.
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

    fn leave_seats(&self) {
        for mut seat in self.kept.take_all() {
            self.leave(&mut seat);
        }
    }
}

impl<D: Design> Drop for Pool<D> {
    fn drop(&mut self) {
        if self.shape.is_forked() {
            // The child has no threads to join, and the files are its parent's. Its memory goes
            // with the process; dropping it would wait for locks that no thread of the child holds.
            std::mem::forget(self.design.take());
            return;
        }
        if self.design.is_some() {
            self.leave_seats();
        }
        if let Some(mut design) = self.design.take() {
            if self.names().must_abandon(D::NAME) {
                return design.abandon();
            }
            // `close` is for programs that want to know of errors. Nothing acknowledged is lost:
            // opening the pool recovers it.
            if design.close().is_ok() {
                self.names().unlock();
            }
        }
    }
}

impl<D: Design> fmt::Debug for Pool<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("design", &D::NAME)
            .field("info", &self.shape.info)
            .finish_non_exhaustive()
    }
}
