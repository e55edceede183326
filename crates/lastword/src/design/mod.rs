//! Designs: each reaches atomic durability in its own way, behind one trait.
//!
//! | design | perform | persist | reproduce | durable |
//! |---|---|---|---|---|
//! | [`Decoupled`] | in shadow memory | background, by groups | later, by batches | per ticket |
//! | [`Snapshot`] | in copies of objects | by each worker | by slots of the log | on return |
//! | [`Undo`] | in place, old values logged first | by each worker | - | on return |
//! | [`Redo`] | in a buffer | by each worker | by slots of the log | on return |
//! | [`Volatile`] | in memory | - | - | never: the upper bound |
//! | [`Plain`] | in memory, no isolation | - | - | never: the baseline |
//!
//! A design is one file, which assigns the steps to threads; the steps themselves are in their own
//! folders. The designs with a log for each worker are in `slots`.

mod decoupled;
mod plain;
mod volatile;

#[doc(hidden)]
pub use crate::mvcc::Mvcc;
pub use decoupled::Decoupled;
pub use plain::Plain;
pub use volatile::Volatile;

use crate::perform::{Obstacle, StarvationLock, Stm};
use crate::shadow::{Evicting, Software};

/// [`Decoupled`] with a page table in software, for a pool that may be larger than memory.
pub type DecoupledSoftware<T = Stm> = Decoupled<T, Software>;

/// [`Decoupled`] with a private mapping, for a pool that may be larger than the memory for its
/// copied pages.
pub type DecoupledEvicting<T = Stm> = Decoupled<T, Evicting>;

use std::ops::Range;
use std::path::Path;
use std::task::Waker;

use medium::{FrozenImage, Scrubbed};
use words::{Stop, TxId};

pub use crate::persist::{Listener, Registration};
pub use crate::slots::{Redo, Snapshot, Undo};

/// The designs that the crate exports at its root.
pub(crate) mod exported {
    pub use super::{Decoupled, DecoupledEvicting, DecoupledSoftware};
    pub use super::{Plain, Redo, Snapshot, Undo, Volatile};
}

use crate::metrics::Metrics;
use crate::pipeline::PipelineView;
use crate::pool::Shape;
use crate::superblock::GrowthStep;
use crate::sync::Arc;
use crate::{Error, Options};

/// The place of a word in the heap. Both indices count words from the start of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The first word of the object in the program's address; 0 if the design does not isolate
    /// objects ([`Design::BY_OBJECT`]).
    pub object: usize,
    /// The word, or the first of several.
    pub index: usize,
}

/// One way to reach atomic durability. The defaults are those of a design that is not durable.
///
/// `Local` is the design's part of a worker. The transaction has checked that all places are inside
/// the heap. An attempt is `begin`, accesses, then `commit` or `roll_back`. After a `Stop` only
/// `roll_back` may follow.
pub trait Design: Sized + Send + Sync + 'static {
    /// Name of the design in the superblock, on the command line and in results.
    const NAME: &'static str;
    /// Whether commits survive the process.
    const DURABLE: bool;
    /// The greatest number of workers at one time.
    const WORKERS_MAX: usize;
    /// Whether a body that ends with a `Stop` has no effect.
    const ROLLS_BACK: bool = true;
    /// Whether isolation is by object. An [`At`] then contains the object of the word, and an
    /// object's lock proves that it stays live.
    const BY_OBJECT: bool = false;
    /// Whether a read-only attempt neither obstructs others nor is obstructed. It then begins
    /// despite a closed starvation lock.
    const READS_PASS: bool = false;
    /// Whether ownership records protect its words.
    const HAS_RECORDS: bool = false;
    /// Whether truncation reads the log back. A log that was cut then lacks words that the heap
    /// image needs. Designs without this read their log only at recovery.
    const READS_LOG: bool = false;
    /// Names of the background steps, in the order of their numbers.
    const STEPS: &'static [&'static str] = &[];
    /// The design's part of a worker.
    type Local: Send;

    /// Creates a pool. Designs that are not durable ignore `path`.
    ///
    /// # Errors
    /// See [`Pool::create_as`](crate::Pool::create_as).
    fn create(path: &Path, options: &Options) -> Result<(Self, Shape), Error>;

    /// Opens a pool and recovers it.
    ///
    /// # Errors
    /// See [`Pool::open_as`](crate::Pool::open_as).
    fn open(path: &Path, options: &Options) -> Result<(Self, Shape), Error>;

    /// Returns the most words that the heap may have.
    fn words(&self) -> usize;

    /// Records a step of the heap's growth in the superblock, or poisons the pool with the error of
    /// that step. Durable on return.
    ///
    /// # Errors
    /// That error, and the medium's; then the pool is poisoned.
    fn record_growth(&self, step: Result<GrowthStep, Error>) -> Result<(), Error> {
        match self.pipeline() {
            Some(pipeline) => pipeline.record_growth(step),
            None => step.map(drop),
        }
    }

    /// Makes the log grow, where it can.
    ///
    /// # Errors
    /// The medium's; then the pool is poisoned.
    fn grow_log(&self, bytes: u64) -> Result<(), Error> {
        self.pipeline().map_or(Ok(()), |pipeline| pipeline.grow_log(bytes))
    }

    /// Reads a word without isolation. For callers that exclude writers, or that validate the value
    /// later.
    fn peek(&self, index: usize) -> u64;

    /// Reads words from `first` on without isolation and without side effects, for observing a
    /// test. No transaction may run during the call.
    fn observe(&self, first: usize, out: &mut [u64]) {
        out.iter_mut().zip(first..).for_each(|(out, index)| *out = self.peek(index));
    }

    /// Returns a word for an estimate. It may be an old value, or 0 if it cannot be read. Takes no
    /// memory of a bounded shadow, waits for no step, and poisons nothing.
    fn glance(&self, index: usize) -> u64 {
        self.peek(index)
    }

    /// Writes a word without isolation or log: a bug that crash tests inject.
    fn poke(&self, index: usize, value: u64);

    /// Registers a worker; `number` is unique among the live ones.
    ///
    /// # Errors
    /// If memory is exhausted.
    fn local(&self, number: usize) -> Result<Self::Local, Error>;

    /// Unregisters a worker.
    fn close_local(&self, local: &mut Self::Local) {
        let _ = local;
    }

    /// Returns the greatest number of words that one transaction may write.
    fn words_max(&self) -> usize {
        usize::MAX
    }

    /// Makes the next attempt wait at its begin for the room that so many written words take in the
    /// worker's ring, so that its commit finds it.
    fn will_write_words(&self, local: &mut Self::Local, words: usize) {
        let _ = (local, words);
    }

    /// Begins an attempt. Waits for room in the worker's ring, while the worker holds no lock.
    /// `read_only` promises that the attempt does not write.
    ///
    /// # Errors
    /// If the pool has failed.
    fn begin(&self, local: &mut Self::Local, read_only: bool) -> Result<(), Error>;

    /// Returns the starvation lock.
    fn starvation_lock(&self) -> &StarvationLock;

    /// Takes the obstacle that ended the worker's last attempt with a conflict.
    fn obstacle(&self, local: &mut Self::Local) -> Obstacle {
        let _ = local;
        Obstacle::Unknown
    }

    /// Returns the worker that holds a [`Held`](Obstacle::Held) record, if it still has this value.
    fn holder(&self, key: u64, seen: u64) -> Option<usize> {
        let _ = (key, seen);
        None
    }

    /// Checks whether the pool has failed. An attempt that could not be made durable ends as a
    /// conflict does. A caller that does not retry gets the error here.
    ///
    /// # Errors
    /// The failure.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Reads a word.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read(&self, local: &mut Self::Local, at: At) -> Result<u64, Stop>;

    /// Reads neighboring words.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read_run(&self, local: &mut Self::Local, at: At, out: &mut [u64]) -> Result<(), Stop>;

    /// Returns the version of an object that the attempt reads until it writes the object. Saves a
    /// design from finding the version at each word.
    fn look(&self, local: &mut Self::Local, object: usize) -> u64 {
        let _ = (local, object);
        0
    }

    /// Reads a word of a version that [`look`](Design::look) returned.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read_seen(&self, local: &mut Self::Local, version: u64, at: At) -> Result<u64, Stop> {
        let _ = version;
        self.read(local, at)
    }

    /// Reads neighboring words of a version that [`look`](Design::look) returned.
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

    /// Writes neighboring words.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn write_run(&self, local: &mut Self::Local, at: At, values: &[u64]) -> Result<(), Stop>;

    /// Locks the object as a write would, where reads alone are not protected from concurrent
    /// writes (write skew).
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    #[inline]
    fn protect(&self, local: &mut Self::Local, at: At) -> Result<(), Stop> {
        let _ = (local, at);
        Ok(())
    }

    /// Notes that the attempt frees memory in which objects with other boundaries may follow.
    #[inline]
    fn gives_runs_back(&self, local: &mut Self::Local) {
        let _ = local;
    }

    /// Hints that words from `index` on will be read.
    fn will_read(&self, index: usize, words: usize);

    /// Hints that words from `index` on will be written.
    fn will_write(&self, index: usize, words: usize);

    /// Returns the number of different words that the attempt wrote.
    fn words_written(&self, local: &Self::Local) -> usize;

    /// Returns the error behind [`Stop::TooLarge`], unless it is the log's size.
    fn why_too_large(&self, local: &Self::Local) -> Option<Error> {
        let _ = local;
        None
    }

    /// Commits; returns the ID whose durability covers the transaction.
    ///
    /// # Errors
    /// [`Stop::Conflict`]: roll back and retry.
    fn commit(&self, local: &mut Self::Local) -> Result<TxId, Stop>;

    /// Rolls the attempt back; returns the last ID that it may have seen.
    fn roll_back(&self, local: &mut Self::Local) -> TxId;

    /// Poisons the pool after a panic in `commit` or `roll_back`, which `step` names. Called while
    /// that panic unwinds; `local` runs no other attempt. Ownership records stay taken, and an ID
    /// may stay without a record: other transactions and waits end by the poison, not by their
    /// release.
    fn end_panicked(&self, local: &mut Self::Local, step: &'static str);

    /// Returns the last assigned ID.
    fn committed_id(&self) -> TxId;

    /// Returns the durable watermark: the greatest ID such that it and all before it survive a
    /// crash.
    fn durable_id(&self) -> TxId {
        TxId::NONE
    }

    /// Returns the reproduced watermark: the heap image holds all transactions up to this ID.
    fn reproduced_id(&self) -> TxId {
        TxId::NONE
    }

    /// Waits until `id` is durable.
    ///
    /// # Errors
    /// If the pool has failed; [`Error::NotDurable`].
    fn wait(&self, id: TxId) -> Result<(), Error> {
        let _ = id;
        Err(Error::NotDurable { design: Self::NAME })
    }

    /// Returns the outcome of `id`: durable or failed; `None` while it is undecided.
    fn outcome(&self, id: TxId) -> Option<Result<(), Error>> {
        let _ = id;
        Some(Err(Error::NotDurable { design: Self::NAME }))
    }

    /// Notifies the listener once of the outcome of `id`.
    ///
    /// # Errors
    /// [`Error::NotDurable`].
    fn notify(&self, id: TxId, listener: Listener) -> Result<(), Error> {
        let _ = (id, listener);
        Err(Error::NotDurable { design: Self::NAME })
    }

    /// Wakes a future's task when the outcome of `id` is known. A future that is polled again
    /// replaces its waker, so it has at most one. The caller then reads the
    /// [`outcome`](Design::outcome): if it is known already, the waker need not be registered.
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
        self.notify(id, Listener::Task(waker.clone()))
    }

    /// Removes the waker of a future that is dropped.
    fn forget(&self, id: TxId, registration: &Registration) {
        let _ = (id, registration);
    }

    /// Returns the number of callbacks and tasks that have not been notified.
    fn listeners(&self) -> usize {
        0
    }

    /// Expedites `id`: a thread waits for it and cannot run the steps itself.
    fn expedite(&self, id: TxId) {
        let _ = id;
    }

    /// Returns the pipeline of a design that has one.
    #[doc(hidden)]
    fn pipeline(&self) -> Option<PipelineView<'_>> {
        None
    }

    /// Freezes the heap as of the last transaction committed now, or a later one. Returns its ID.
    ///
    /// # Errors
    /// As [`wait`](Design::wait); [`Error::NoView`].
    #[doc(hidden)]
    fn freeze(&self, image: &Arc<FrozenImage>) -> Result<TxId, Error> {
        let none = Error::NoView { design: Self::NAME };
        let Some(pipeline) = self.pipeline() else { return Err(none) };
        pipeline.freeze(image)?.ok_or(none)
    }

    /// Copies pages to a frozen image.
    ///
    /// # Errors
    /// If the pool has failed: the frozen image may then be incomplete.
    #[doc(hidden)]
    fn copy_frozen(&self, image: &FrozenImage, pages: Range<usize>) -> Result<(), Error> {
        self.pipeline().map_or(Ok(()), |pipeline| pipeline.copy_frozen(image, pages))
    }

    /// Ends a frozen image.
    #[doc(hidden)]
    fn thaw(&self, image: &Arc<FrozenImage>) {
        if let Some(pipeline) = self.pipeline() {
            pipeline.thaw(image);
        }
    }

    /// Compares pages of the heap image with their checksums, and adds the result.
    ///
    /// # Errors
    /// If the pool has failed.
    #[doc(hidden)]
    fn scrub(&self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        self.pipeline().map_or(Ok(()), |pipeline| pipeline.scrub(pages, scrubbed))
    }

    /// Makes every earlier commit durable and applies it to the heap image.
    ///
    /// # Errors
    /// As [`wait`](Design::wait).
    fn checkpoint(&self) -> Result<(), Error> {
        Err(Error::NotDurable { design: Self::NAME })
    }

    /// Makes every commit durable and applies it to the heap image.
    ///
    /// # Errors
    /// An error of the medium.
    fn close(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Marks the shutdown as clean, after [`close`](Design::close). Returns whether it did: a
    /// transaction in flight may forbid it.
    ///
    /// # Errors
    /// An error of the medium.
    fn mark_clean(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Poisons the pool and notifies all waiters, after a shutdown that left IDs undecided.
    fn fail(&self, error: Error) {
        let _ = error;
    }

    /// Stops as a crash would: nothing more becomes durable.
    fn abandon(&self) {}

    /// Runs one of its [`STEPS`](Design::STEPS) as a background thread would, for tests that have
    /// no such threads and choose the order. Returns whether it did anything.
    ///
    /// # Errors
    /// An error of the medium.
    ///
    /// # Panics
    /// If the design has no such step.
    fn step(&self, number: usize) -> Result<bool, Error> {
        panic!("{} has no step {number}", Self::NAME)
    }

    /// Makes the commits visible to [`peek`](Design::peek) that no running transaction has to read
    /// around. Transactions may run.
    fn catch_up(&self) {}

    /// Makes every commit visible to [`peek`](Design::peek). No transaction may run.
    fn settle(&self) {
        self.catch_up();
    }

    /// Returns the operations and costs so far.
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}

/// The guard of a running commit or roll-back, which a return disarms.
///
/// Invariant: an end that panics poisons the pool before the panic leaves it. By then an ID may be
/// assigned without a record, a record may be in the log without its words, and ownership records
/// may be taken. None of this can be undone: a roll-back would add a second ID, and would restore
/// words that the log holds as committed. The poison ends every transaction and every wait that
/// meets this state, and prevents a clean shutdown. The log alone then decides at recovery.
pub(crate) struct Ending<'t, D: Design> {
    design: &'t D,
    local: &'t mut D::Local,
    step: &'static str,
}

impl<'t, D: Design> Ending<'t, D> {
    /// Runs a commit or roll-back.
    #[inline(always)]
    pub(crate) fn run<R>(
        design: &'t D,
        local: &'t mut D::Local,
        step: &'static str,
        end: impl FnOnce(&D, &mut D::Local) -> R,
    ) -> R {
        let guard = Ending { design, local, step };
        let done = end(guard.design, guard.local);
        std::mem::forget(guard);
        done
    }
}

impl<D: Design> Drop for Ending<'_, D> {
    #[cold]
    fn drop(&mut self) {
        self.design.end_panicked(self.local, self.step);
    }
}
