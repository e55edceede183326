//! Replication: the log of a pool, group by group, for a copy on another machine.
//!
//! ```text
//!   primary                                        follower
//!   commit -> log -> queue -> Feed::next  ==>  a stream  ==>  Applier::apply -> commit -> log
//!                      |         ^                 |
//!   heap image  <------+         +--- replicated --+
//! ```
//!
//! This module has the two ends of the stream. The program brings the transport.
//!
//! * A [`Feed`] reads the durable groups of an open pool, in order, and takes the confirmation of
//!   the stream. The pool is opened with [`Options::replicated`](crate::Options::replicated).
//! * An [`Applier`] applies the groups to a copy of the pool, which
//!   [`Pool::backup`](crate::Pool::backup) has made. The copy is opened with
//!   [`Options::following`](crate::Options::following), and has the transaction IDs of the primary.
//! * [`read_log`] returns the groups of a closed pool that are in its log alone, so that a primary
//!   can send after a crash what the stream lacks.
//!
//! A transaction has two watermarks: it is *durable* when it survives a crash of this machine
//! ([`Ticket::wait`](crate::Ticket::wait)), and *replicated* when the stream has it
//! ([`Ticket::wait_replicated`]). Each watermark only grows. A replicated transaction is durable.
//!
//! The order of a commit:
//!
//! 1. Its group is durable in the log of the primary, and enters the queue.
//! 2. The feed copies the group. It does not grow any more, so the stream gets it whole.
//! 3. The stream has the group on as many machines as it promises: [`Feed::replicated`].
//! 4. Reproduction may take it off the queue, and the log may be reused.
//!
//! With 4 before 3, the log could lose a group that the stream does not have.
//!
//! An applier must give each transaction its ID. A transactional memory spends an ID on an attempt
//! that fails after its first write, so no attempt of an applier may fail. It checks the size of
//! the transaction first, and waits for the room in its ring before it begins. Readers of a
//! follower reserve nothing. An ID that is spent in spite of this poisons the pool.

use std::sync::Weak;
use std::time::Duration;

use medium::writes::{self, Piece, Pieces};
use words::TxId;

use crate::design::{Decoupled, Design};
use crate::error::{Error, ReplicationError};
use crate::pool::Shape;
use crate::sync::Arc;
use crate::worker::{WorkerState, attempts_of};
use crate::{Limit, Pool, Ticket};

mod read;

pub use read::{Log, read_log};

/// Transactions that are in the log together, with the words that they write.
///
/// The words are a batch of runs: a head with the index of the first word (48 bits) and the count
/// (16 bits), then so many values. A head with a count of 0 is a mark, which begins a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The first transaction.
    pub first: TxId,
    /// The last transaction. All between are in the group.
    pub last: TxId,
    /// A size of the heap that all words are in.
    pub heap_bytes: u64,
    /// The runs.
    pub words: Vec<u64>,
}

impl Group {
    /// Checks that the words are whole runs inside the heap, and that there is a mark for each
    /// transaction. A stream's checksum protects from damage; this protects from a wrong stream.
    ///
    /// # Errors
    /// [`ReplicationError::DamagedGroup`].
    pub fn check(&self) -> Result<(), ReplicationError> {
        let Group { first, last, .. } = *self;
        let damaged = |why| Err(ReplicationError::DamagedGroup { first, last, why });
        let more = last.0.checked_sub(first.0).filter(|_| first.0 > 0 && last.0 < u64::MAX);
        let Some(more) = more else { return damaged("its transaction IDs are those of no group") };
        match writes::check(&self.words, self.heap_bytes / 8) {
            Ok(()) => {}
            Err(medium::Error::TornBatch { .. }) => return damaged("its last run is torn"),
            Err(_) => return damaged("it writes outside the heap"),
        }
        let is_mark = |piece: &Piece<'_>| matches!(piece, Piece::Mark(_));
        if !Pieces::new(&self.words).next().is_some_and(|first| is_mark(&first)) {
            return damaged("it does not begin with a mark");
        }
        match Pieces::new(&self.words).filter(is_mark).count() as u64 == more + 1 {
            true => Ok(()),
            false => damaged("a transaction is missing"),
        }
    }

    /// Returns the runs of each transaction, in order: the index of the first word in the heap, and
    /// the words. A transaction without writes has none.
    ///
    /// For a group that [`check`](Group::check) has accepted. Of another one, it returns runs that
    /// may be wrong or missing.
    pub fn transactions(&self) -> impl Iterator<Item = Vec<(u64, &[u64])>> {
        let mut pieces = Pieces::new(&self.words).peekable();
        (self.first.0..=self.last.0).map(move |_| {
            pieces.next_if(|piece| matches!(piece, Piece::Mark(_)));
            let mut runs = Vec::new();
            while let Some(Piece::Run(index, words)) =
                pieces.next_if(|piece| matches!(piece, Piece::Run(..)))
            {
                runs.push((index, words));
            }
            runs
        })
    }
}

/// Reads the durable groups of an open pool. A pool has one feed at a time.
///
/// Several threads may use it: one reads, and another confirms. It does not keep the pool open:
/// after the shutdown its calls return [`Closed`](crate::Error::Closed). A new feed, after this one
/// is dropped, begins after the replicated watermark, so it returns unconfirmed groups again.
pub struct Feed<D: Design = Decoupled> {
    design: Weak<D>,
    shape: Arc<Shape>,
}

impl<D: Design> Feed<D> {
    fn design(&self) -> Result<Arc<D>, Error> {
        if self.shape.is_forked() {
            return Err(Error::Forked { call: "Feed" });
        }
        self.design.upgrade().ok_or(Error::Closed { call: "Feed" })
    }

    /// Returns the next durable group, or `None` if there is none within this time. The first one
    /// begins after the replicated watermark.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`].
    pub fn next(&self, patience: Duration) -> Result<Option<Group>, Error> {
        let design = self.design()?;
        let pipeline = design.pipeline().expect("a pool with a feed has a pipeline");
        let Some(copied) = pipeline.next_group(patience)? else { return Ok(None) };
        // After the copy: a heap that has grown since is large enough for the group, too.
        let heap_bytes = self.shape.heap_bytes();
        Ok(Some(Group { first: copied.first, last: copied.last, heap_bytes, words: copied.words }))
    }

    /// Confirms that the stream has each group that [`next`](Feed::next) has returned and that ends
    /// at the transaction `last` or before. They must survive what the stream promises to survive.
    /// Wakes the threads that wait for them.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`].
    pub fn replicated(&self, last: TxId) -> Result<(), Error> {
        let design = self.design()?;
        design.pipeline().expect("a pool with a feed has a pipeline").has_replicated(last)
    }

    /// Poisons the pool, because another primary has begun the term `term`: no later transaction is
    /// acknowledged, and waits for the stream end with [`Fenced`](ReplicationError::Fenced).
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn fence(&self, term: u64) -> Result<(), Error> {
        self.poison(|replicated| ReplicationError::Fenced { term, replicated })
    }

    /// Poisons the pool, because its groups can no longer be sent: no later transaction is
    /// acknowledged, and waits for the stream end with [`Stopped`](ReplicationError::Stopped).
    /// `why` is the cause, with its remedy. Not for a stream that does not reply:
    /// commits wait for it.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn fail(&self, why: &str) -> Result<(), Error> {
        self.poison(|replicated| ReplicationError::Stopped { replicated, why: why.to_owned() })
    }

    fn poison(&self, error: impl FnOnce(TxId) -> ReplicationError) -> Result<(), Error> {
        let design = self.design()?;
        let pipeline = design.pipeline().expect("a pool with a feed has a pipeline");
        let replicated = pipeline.replicated_id().unwrap_or_default();
        pipeline.poison(error(replicated).into());
        Ok(())
    }

    /// Returns whether commits wait because the log is full of groups that the stream lacks.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn holds_commits(&self) -> Result<bool, Error> {
        let design = self.design()?;
        Ok(design.pipeline().is_some_and(|pipeline| pipeline.is_log_full()))
    }

    /// Returns the pool's ID and the generation of this opening, which together name one writer.
    pub fn writer(&self) -> (u64, u64) {
        (self.shape.info().pool_id, self.shape.generation())
    }
}

impl<D: Design> Drop for Feed<D> {
    fn drop(&mut self) {
        if let Some(design) = self.design.upgrade().filter(|_| !self.shape.is_forked())
            && let Some(pipeline) = design.pipeline()
        {
            pipeline.end_feed();
        }
    }
}

impl<D: Design> std::fmt::Debug for Feed<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("writer", &self.writer()).finish_non_exhaustive()
    }
}

impl<D: Design> Pool<D> {
    /// Returns the feed of the pool.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lastword::{Objects, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// let pool = Pool::create(dir.path().join("bank.pool"), options.replicated(true))?;
    /// let feed = pool.feed()?;
    /// let done = pool.run(|tx| tx.alloc(7_u64))?;
    /// done.ticket.wait()?; // durable here
    /// let group = feed.next(Duration::from_secs(10))?.expect("a durable transaction");
    /// // ... send the group to other machines ...
    /// feed.replicated(group.last)?;
    /// done.ticket.wait_replicated()?; // durable there
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReplicationError::NotReplicated`], [`ReplicationError::Taken`], [`Error::Closed`].
    pub fn feed(&self) -> Result<Feed<D>, Error> {
        self.may_call("feed")?;
        let Some(pipeline) = self.pipeline_of_primary() else {
            return Err(ReplicationError::NotReplicated.into());
        };
        if !pipeline.begin_feed()? {
            return Err(ReplicationError::Taken("feed").into());
        }
        Ok(Feed { design: self.weak_design(), shape: Arc::clone(&self.shape) })
    }

    fn pipeline_of_primary(&self) -> Option<crate::pipeline::PipelineView<'_>> {
        self.design().pipeline().filter(|pipeline| pipeline.replicated_id().is_some())
    }

    /// Returns the replicated watermark: the stream has every transaction up to this ID. `None`
    /// without [`Options::replicated`](crate::Options::replicated).
    pub fn replicated_id(&self) -> Option<TxId> {
        self.pipeline_of_primary()?.replicated_id()
    }

    /// Waits until the transaction `id` is durable here and the stream has it, for at most
    /// [`Options::patience`](crate::Options::patience).
    ///
    /// # Errors
    /// As [`wait_for`](Pool::wait_for). [`ReplicationError::Behind`]: the transaction is durable
    /// here, and may reach the stream later. [`ReplicationError::NotReplicated`].
    pub fn wait_replicated(&self, id: TxId) -> Result<(), Error> {
        self.wait_for(id)?;
        match self.pipeline_of_primary() {
            Some(pipeline) => pipeline.wait_for_stream(id),
            None => Err(ReplicationError::NotReplicated.into()),
        }
    }

    /// Returns the applier of a pool that follows another one.
    ///
    /// # Errors
    /// [`ReplicationError::NotFollowing`], [`ReplicationError::Taken`]; as
    /// [`worker`](Pool::worker).
    pub fn applier(&self) -> Result<Applier<'_, D>, Error> {
        self.may_call("applier")?;
        let Some(pipeline) = self.design().pipeline().filter(|_| self.shape.is_following()) else {
            return Err(ReplicationError::NotFollowing.into());
        };
        if !pipeline.begin_feed()? {
            return Err(ReplicationError::Taken("applier").into());
        }
        let state = self.enroll();
        match state {
            Ok(state) => Ok(Applier { pool: self, state: Some(state), last: self.committed_id() }),
            Err(error) => {
                pipeline.end_feed();
                Err(error)
            }
        }
    }
}

impl<D: Design> Ticket<'_, D> {
    /// Waits until the transaction is durable here and the stream has it: see
    /// [`Pool::wait_replicated`].
    ///
    /// # Errors
    /// As [`Pool::wait_replicated`].
    pub fn wait_replicated(self) -> Result<(), Error> {
        self.pool().wait_replicated(self.id())
    }
}

/// Applies the groups of another pool to a copy of it.
///
/// It is the only writer of its pool, so each transaction gets the ID that it has in the other
/// pool. Readers see the state after some transaction, as in the other pool. A transaction is
/// durable in the copy when its ID is ([`Pool::wait_for`]). The copy needs as large a log and rings
/// as the other pool.
pub struct Applier<'p, D: Design = Decoupled> {
    pool: &'p Pool<D>,
    /// `None` in `drop`.
    state: Option<WorkerState<D>>,
    /// The last transaction that was applied.
    last: TxId,
}

impl<D: Design> Applier<'_, D> {
    /// Returns the last transaction that was applied.
    pub fn last(&self) -> TxId {
        self.last
    }

    /// Applies the transactions of a group that the pool does not have yet. A pool that crashed
    /// inside a group continues with the next transaction of it. The heap grows as the other one
    /// did, within [`Options::max_bytes`](crate::Options::max_bytes).
    ///
    /// # Errors
    /// [`ReplicationError::Gap`], [`ReplicationError::DamagedGroup`]: nothing was applied.
    /// [`Error::NoGrowth`]; as [`Pool::run`].
    pub fn apply(&mut self, group: &Group) -> Result<(), Error> {
        group.check()?;
        let (pool, last) = (self.pool, self.last);
        self.check_last(last)?;
        if group.first.0 > last.0 + 1 {
            return Err(ReplicationError::Gap { found: group.first, last }.into());
        }
        if group.last <= last {
            return Ok(());
        }
        if group.heap_bytes > pool.shape.heap_bytes() {
            pool.grow(group.heap_bytes)?;
        }
        let known = (last.0 + 1 - group.first.0) as usize;
        let runs = group.transactions().skip(known);
        runs.zip(last.0 + 1..).try_for_each(|(runs, id)| self.apply_one(&runs, TxId(id)))
    }

    fn apply_one(&mut self, runs: &[(u64, &[u64])], id: TxId) -> Result<(), Error> {
        let pool = self.pool;
        let words = runs.iter().map(|(_, words)| words.len()).sum::<usize>().max(1);
        // Before the first write: see the module.
        if words > pool.design().words_max() {
            let (words_max, log_bytes) = (pool.design().words_max(), pool.shape.info().log_bytes);
            let ring_bytes = pool.shape.info().ring_bytes;
            let limit = Limit::of(log_bytes, ring_bytes);
            return Err(Error::TransactionTooLarge { limit, words_max, log_bytes, ring_bytes });
        }
        let state = self.state.as_mut().expect("an applier has its state until it is dropped");
        pool.design().will_write_words(&mut state.local, words);
        let done = attempts_of(
            pool,
            &mut self.state,
            |tx| {
                runs.iter().try_for_each(|(index, words)| tx.replay_words(*index, words))?;
                if runs.is_empty() { tx.replay_nothing() } else { Ok(()) }
            },
            false,
        );
        if done.is_ok() {
            self.last = id;
        }
        self.check_last(self.last)?;
        done.map(drop)
    }

    /// Poisons the pool if an ID after this one was spent.
    fn check_last(&self, expected: TxId) -> Result<(), Error> {
        let found = self.pool.committed_id();
        if found == expected {
            return Ok(());
        }
        let pipeline = self.pool.design().pipeline().expect("an applier's pool has a pipeline");
        Err(pipeline.poison(ReplicationError::Diverged { expected, found }.into()))
    }
}

impl<D: Design> Drop for Applier<'_, D> {
    fn drop(&mut self) {
        if let Some(mut state) = self.state.take() {
            self.pool.leave(&mut state);
        }
        if let Some(pipeline) = self.pool.design().pipeline().filter(|_| !self.pool.is_forked()) {
            pipeline.end_feed();
        }
    }
}

impl<D: Design> std::fmt::Debug for Applier<'_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Applier").field("last", &self.last()).finish_non_exhaustive()
    }
}
