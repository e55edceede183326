//! Designs: ways to reach atomic durability, peers behind one small trait.
//!
//! | design | perform | persist | reproduce | durable |
//! |---|---|---|---|---|
//! | [`Decoupled`] | in shadow memory | behind, by groups | later, by batches | the ticket tells |
//! | [`Snapshot`] | in copies of objects | by the worker, each | by slots of the log | on return |
//! | [`Undo`] | in place, old values logged first | by the worker, each | - | on return |
//! | [`Redo`] | in a buffer | by the worker, each | by slots of the log | on return |
//! | [`Volatile`] | in memory | - | - | never: the upper bound |
//! | [`Plain`] | in memory, no isolation | - | - | never: the anchor |
//!
//! A design is one file here; it says which step runs where, and leaves the steps to their folders.
//! Those that log by worker share a folder of their own, `slots`.

mod decoupled;
mod plain;
mod volatile;

#[doc(hidden)]
pub use crate::mvcc::Mvcc;
pub use decoupled::Decoupled;
pub use plain::Plain;
pub use volatile::Volatile;

use crate::perform::{Gate, Obstacle, Stm};
use crate::shadow::{Evicting, Software};

/// [`Decoupled`] with a page table in memory in front of a pool that may be larger than it.
pub type DecoupledSoftware<T = Stm> = Decoupled<T, Software>;

/// [`Decoupled`] with a private mapping of a pool that may be larger than what is copied of it.
pub type DecoupledEvicting<T = Stm> = Decoupled<T, Evicting>;

use std::path::Path;
use std::task::Waker;

use words::{Stop, TxId};

pub use crate::persist::{Listener, Registration};
pub use crate::slots::{Redo, Snapshot, Undo};

use crate::metrics::Metrics;
use crate::pool::Shape;
use crate::{Error, Options};

/// Where a word of the heap is. Both indices are in words, from the heap's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The first word of the object that the program has named; 0 where the design does not ask
    /// ([`Design::BY_OBJECT`]).
    pub object: usize,
    /// The word, or the first one of some.
    pub index: usize,
}

/// One way to reach atomic durability. What has a default is that of a design that keeps nothing.
///
/// `Local` is what one worker owns of it. Places are inside the heap: the transaction has checked
/// them. An attempt is `begin`, accesses, then `commit` or `roll_back`; after a `Stop` only
/// `roll_back` follows.
pub trait Design: Sized + Send + Sync + 'static {
    /// Its name in the superblock, on the command line and in results.
    const NAME: &'static str;
    /// Whether anything of it survives its process.
    const DURABLE: bool;
    /// How many workers it can have at a time.
    const WORKERS_MAX: usize;
    /// Whether a body that ends with a `Stop` leaves nothing.
    const ROLLS_BACK: bool = true;
    /// Whether it isolates whole objects: then an [`At`] says of which object a word is, and a
    /// transaction that has an object to itself needs no other proof that it stays live.
    const BY_OBJECT: bool = false;
    /// Whether an attempt that only reads is in nobody's way and nobody is in its: it begins
    /// whoever is to be let through.
    const READS_PASS: bool = false;
    /// What its background threads do, step by step: the steps' names.
    const STEPS: &'static [&'static str] = &[];
    /// What one worker owns.
    type Local: Send;

    /// Makes a new pool. `path` is not used by designs that keep nothing.
    ///
    /// # Errors
    /// See [`Pool::create_as`](crate::Pool::create_as).
    fn create(path: &Path, options: &Options) -> Result<(Self, Shape), Error>;

    /// Opens a pool and recovers it.
    ///
    /// # Errors
    /// See [`Pool::open_as`](crate::Pool::open_as).
    fn open(path: &Path, options: &Options) -> Result<(Self, Shape), Error>;

    /// Words of the heap that transactions work on.
    fn words(&self) -> usize;

    /// A word, past all isolation: for who knows that nobody writes it, or looks again.
    fn peek(&self, index: usize) -> u64;

    /// A word, past all isolation and without any effect on the design: for who observes a test.
    fn observe(&self, index: usize) -> u64 {
        self.peek(index)
    }

    /// Changes a word past all isolation and logging: a bug that crash tests plant.
    fn poke(&self, index: usize, value: u64);

    /// Registers a worker; `number` is unique among the living ones.
    ///
    /// # Errors
    /// When there is no memory for it.
    fn local(&self, number: usize) -> Result<Self::Local, Error>;

    /// The worker is gone.
    fn close_local(&self, local: &mut Self::Local) {
        let _ = local;
    }

    /// Most words that one transaction may write.
    fn words_max(&self) -> usize {
        usize::MAX
    }

    /// Begins an attempt; waits for room in the worker's ring, holding nothing. `read_only` says
    /// that it will not write.
    ///
    /// # Errors
    /// When the pool cannot go on.
    fn begin(&self, local: &mut Self::Local, read_only: bool) -> Result<(), Error>;

    /// The starvation lock of its transactions.
    fn gate(&self) -> &Gate;

    /// Why the worker's last attempt ended with a conflict; asked once.
    fn obstacle(&self, local: &mut Self::Local) -> Obstacle {
        let _ = local;
        Obstacle::Unknown
    }

    /// Whether what was [`Held`](Obstacle::Held) still has this value.
    fn is_held(&self, key: u64, seen: u64) -> bool {
        let _ = (key, seen);
        false
    }

    /// Whether the pool can go on. An attempt that could not be made durable ends as if another
    /// transaction had been in the way: who does not begin again asks here why.
    ///
    /// # Errors
    /// Why not.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Reads a word.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read(&self, local: &mut Self::Local, at: At) -> Result<u64, Stop>;

    /// Reads neighbouring words.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read_run(&self, local: &mut Self::Local, at: At, out: &mut [u64]) -> Result<(), Stop>;

    /// Which version of an object the attempt reads, until it writes it: for a design that need
    /// not find that out at each word.
    fn look(&self, local: &mut Self::Local, object: usize) -> u64 {
        let _ = (local, object);
        0
    }

    /// Reads a word of a version that [`look`](Design::look) has found.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read_seen(&self, local: &mut Self::Local, version: u64, at: At) -> Result<u64, Stop> {
        let _ = version;
        self.read(local, at)
    }

    /// The same for neighbouring words.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read_run_seen(
        &self,
        local: &mut Self::Local,
        version: u64,
        at: At,
        out: &mut [u64],
    ) -> Result<(), Stop> {
        let _ = version;
        self.read_run(local, at, out)
    }

    /// Writes a word.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn write(&self, local: &mut Self::Local, at: At, value: u64) -> Result<(), Stop>;

    /// Writes neighbouring words.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn write_run(&self, local: &mut Self::Local, at: At, values: &[u64]) -> Result<(), Stop>;

    /// Takes the object to itself as if it had been written, where reads alone are not isolated
    /// from each other's writes.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    #[inline]
    fn protect(&self, local: &mut Self::Local, at: At) -> Result<(), Stop> {
        let _ = (local, at);
        Ok(())
    }

    /// The attempt gives memory back in which objects may come to lie that begin elsewhere.
    #[inline]
    fn gives_chunks_back(&self, local: &mut Self::Local) {
        let _ = local;
    }

    /// A hint that words from `index` on will be read.
    fn will_read(&self, index: usize, words: usize);

    /// A hint that words from `index` on will be written.
    fn will_write(&self, index: usize, words: usize);

    /// How many different words the attempt has written.
    fn words_written(&self, local: &Self::Local) -> usize;

    /// Why the attempt was answered [`Stop::TooLarge`], if not for the log's size.
    fn why_too_large(&self, local: &Self::Local) -> Option<Error> {
        let _ = local;
        None
    }

    /// Commits; answers the ID to wait for.
    ///
    /// # Errors
    /// [`Stop::Conflict`]: roll back and try again.
    fn commit(&self, local: &mut Self::Local) -> Result<TxId, Stop>;

    /// Takes the attempt back; answers the last ID that it may have seen.
    fn roll_back(&self, local: &mut Self::Local) -> TxId;

    /// The last transaction that has an ID.
    fn committed_id(&self) -> TxId;

    /// The largest ID such that it and all before it survive a crash.
    fn durable_id(&self) -> TxId {
        TxId::NONE
    }

    /// The last transaction that is at home.
    fn reproduced_id(&self) -> TxId {
        TxId::NONE
    }

    /// Waits until `id` is durable.
    ///
    /// # Errors
    /// When the pool cannot go on; [`Error::NotDurable`].
    fn wait(&self, id: TxId) -> Result<(), Error> {
        let _ = id;
        Err(Error::NotDurable { design: Self::NAME })
    }

    /// What has become of `id`: durable, never to be, or neither yet (`None`).
    fn outcome(&self, id: TxId) -> Option<Result<(), Error>> {
        let _ = id;
        Some(Err(Error::NotDurable { design: Self::NAME }))
    }

    /// Notifies the listener once of the outcome of `id`.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    fn tell(&self, id: TxId, listener: Listener) -> Result<(), Error> {
        let _ = (id, listener);
        Err(Error::NotDurable { design: Self::NAME })
    }

    /// Has a future's task woken when the outcome of `id` is known. A future that is polled again
    /// replaces the waker that it has registered, so each has one at most. It looks at the
    /// [`outcome`](Design::outcome) afterwards: where that is known, nothing may be registered.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    fn listen(
        &self,
        id: TxId,
        waker: &Waker,
        registration: &mut Registration,
    ) -> Result<(), Error> {
        let _ = registration; // of a design that keeps no listeners
        self.tell(id, Listener::Task(waker.clone()))
    }

    /// Removes the waker that a future has registered: the future is dropped.
    fn forget(&self, id: TxId, registration: &Registration) {
        let _ = (id, registration);
    }

    /// Callbacks and tasks that have not been notified.
    fn listeners(&self) -> usize {
        0
    }

    /// Somebody waits for `id` who cannot help: it is made durable at once.
    fn hurry(&self, id: TxId) {
        let _ = id;
    }

    /// Makes everything committed before durable and brings it home.
    ///
    /// # Errors
    /// As [`wait`](Design::wait).
    fn bring_home(&self) -> Result<(), Error> {
        Err(Error::NotDurable { design: Self::NAME })
    }

    /// Makes everything durable, brings it home, marks the pool as left in good order.
    ///
    /// # Errors
    /// The medium's.
    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Stops as a crash would: nothing more is made durable.
    fn abandon(&mut self) {}

    /// One of its [`STEPS`](Design::STEPS), as a background thread would run it: for tests without
    /// such threads, which run them in any order. Answers whether there was something to do.
    ///
    /// # Errors
    /// The medium's.
    ///
    /// # Panics
    /// When there is no such step.
    fn step(&self, number: usize) -> Result<bool, Error> {
        panic!("{} has no step {number}", Self::NAME)
    }

    /// Brings everything committed to where [`peek`](Design::peek) finds it; no transaction runs.
    fn settle(&self) {}

    /// What it has cost.
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}
