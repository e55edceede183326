//! A pool whose reproduction waits for a stream on other machines: see `persist::replicated`.

use std::time::{Duration, Instant};

use words::TxId;

use super::{Pipeline, PipelineView};
use crate::Error;
use crate::error::ReplicationError;
use crate::persist::{Replicated, Step};
use crate::sync::AtomicU64;

/// The longest sleep between two looks at the poison of the pool, and at a full log that the stream
/// holds back. The watermark itself wakes the thread.
const LOOK: Duration = Duration::from_millis(50);

impl Pipeline {
    pub(super) fn replicated(&self) -> &Replicated {
        &self.persist.queue.replicated
    }

    /// Whether groups are queued, and the stream has none of them, and no page waits to be written.
    /// A batch that is being reproduced frees room soon.
    pub(super) fn is_held_back(&self) -> bool {
        self.replicated().is_required()
            && self.persist.queue.is_held_back()
            && !self.reproduce.has_gathered()
            && !self.reproduce.is_working()
    }

    /// Runs one persist step of a background thread. Wakes the tasks that wait while the stream has
    /// made no progress for the pool's patience: no thread may wait with them.
    pub(crate) fn background_persist_step(&self, clock: &AtomicU64) -> Result<Step, Error> {
        let step = self.persist_step(clock, false, true)?;
        if step == Step::LogFull && self.is_held_back() && self.replicated().is_out_of_patience() {
            self.persist.progress.wake_tasks();
        }
        Ok(step)
    }

    /// Waits until the stream has the transaction `id`, which is durable here. Returns at once if
    /// no stream is required.
    ///
    /// # Errors
    /// [`ReplicationError::Behind`] after the patience of the pool, or if no feed exists;
    /// [`Error::Closed`]; that of a pool that has failed.
    pub(super) fn wait_for_stream(&self, id: TxId) -> Result<(), Error> {
        let replicated = self.replicated();
        if !replicated.is_required() {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            let epoch = replicated.moved.epoch();
            if replicated.id() >= id.0 {
                return Ok(());
            }
            self.persist.progress.check()?;
            if replicated.is_closed() {
                return Err(Error::Closed { call: "wait_replicated" });
            }
            let left = replicated.patience().saturating_sub(begun.elapsed());
            if left.is_zero() || !replicated.is_fed() {
                return Err(self.behind(id).into());
            }
            replicated.moved.wait(epoch, Some(left.min(LOOK)));
        }
    }

    /// Waits for the stream while the log is full of groups that it does not have. `id`: the
    /// transaction that the caller waits for, or none if it waits for room before it begins one.
    ///
    /// # Errors
    /// [`ReplicationError::Undurable`] or [`ReplicationError::Stalled`] if the stream has made no
    /// progress for the pool's patience. The pool is not poisoned.
    #[cold]
    pub(super) fn wait_a_moment_for_stream(&self, id: TxId) -> Result<Step, Error> {
        let replicated = self.replicated();
        let epoch = replicated.moved.epoch();
        if !self.is_held_back() {
            replicated.goes_on();
            return Ok(Step::Done);
        }
        if replicated.is_out_of_patience() || replicated.is_closed() {
            // This thread may have been chosen to try the step. It ends one, so that the next
            // sleeper finds the same.
            self.persist.progress.step_is_over();
            return Err(self.stalled(id).into());
        }
        replicated.moved.wait(epoch, Some(LOOK));
        Ok(Step::Done)
    }

    fn stalled(&self, id: TxId) -> ReplicationError {
        let replicated = TxId(self.replicated().id());
        match id == TxId::NONE {
            true => ReplicationError::Stalled { replicated },
            false => ReplicationError::Undurable { id, replicated },
        }
    }

    fn behind(&self, id: TxId) -> ReplicationError {
        let replicated = TxId(self.replicated().id());
        ReplicationError::Behind { id, replicated, fed: self.replicated().is_fed() }
    }
}

/// A group that the stream lacks.
pub(crate) struct Copied {
    pub(crate) first: TxId,
    pub(crate) last: TxId,
    pub(crate) words: Vec<u64>,
}

impl PipelineView<'_> {
    /// Returns the replicated watermark, if a stream is required.
    pub(crate) fn replicated_id(self) -> Option<TxId> {
        let replicated = self.pipeline.replicated();
        replicated.is_required().then(|| TxId(replicated.id()))
    }

    /// Begins a feed after the replicated watermark. Returns false if one exists.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn begin_feed(self) -> Result<bool, Error> {
        let replicated = self.pipeline.replicated();
        if replicated.is_closed() {
            return Err(Error::Closed { call: "feed" });
        }
        let begun = replicated.begin_feed();
        if begun {
            self.pipeline.persist.queue.copy_after(replicated.id());
        }
        Ok(begun)
    }

    /// Ends the feed.
    pub(crate) fn end_feed(self) {
        self.pipeline.replicated().end_feed();
    }

    /// Copies the next durable group, or waits for one for this time.
    ///
    /// # Errors
    /// That of a pool that has failed.
    pub(crate) fn next_group(self, patience: Duration) -> Result<Option<Copied>, Error> {
        let persist = &self.pipeline.persist;
        let begun = Instant::now();
        loop {
            // Before the look: a group that is queued after it moves the epoch.
            let epoch = persist.queue.replicated.queued.epoch();
            persist.progress.check()?;
            if persist.queue.replicated.is_closed() {
                return Err(Error::Closed { call: "Feed::next" });
            }
            if let Some((group, words)) = persist.queue.copy_next() {
                return Ok(Some(Copied {
                    first: TxId(group.first),
                    last: TxId(group.last),
                    words,
                }));
            }
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            persist.queue.replicated.queued.wait(epoch, Some(left.min(LOOK)));
        }
    }

    /// Notes that the stream has each copied group that ends at the transaction `last` or before.
    /// Wakes the threads that wait for that, or for room in the log.
    ///
    /// # Errors
    /// That of a pool that has failed; [`Error::Closed`].
    pub(crate) fn has_replicated(self, last: TxId) -> Result<(), Error> {
        let Pipeline { persist, .. } = self.pipeline;
        persist.progress.check()?;
        if persist.queue.replicated.is_closed() {
            return Err(Error::Closed { call: "Feed::replicated" });
        }
        persist.queue.has_replicated(last.0);
        self.pipeline.notify_if_due();
        // A thread that found the queue held back sleeps until a step ends.
        persist.progress.step_is_over();
        Ok(())
    }

    /// Ends the waits of a feed, and for it: the pool has shut down.
    pub(crate) fn end_replication(self) {
        self.pipeline.replicated().close();
    }

    /// Returns the error of a future that waits for the transaction `id`, if the stream has made no
    /// progress for the pool's patience and holds it back.
    pub(crate) fn stall(self, id: TxId) -> Option<Error> {
        let (persist, replicated) = (&self.pipeline.persist, self.pipeline.replicated());
        let waits = replicated.is_required() && persist.is_log_full() && persist.durable() < id;
        let stalls = waits && self.pipeline.is_held_back() && replicated.is_out_of_patience();
        stalls.then(|| self.pipeline.stalled(id).into())
    }

    /// Whether commits wait for the stream.
    pub(crate) fn is_log_full(self) -> bool {
        self.pipeline.persist.is_log_full() && self.pipeline.is_held_back()
    }

    /// Waits until the stream has this transaction.
    ///
    /// # Errors
    /// As [`Pipeline::wait_for_stream`].
    pub(crate) fn wait_for_stream(self, id: TxId) -> Result<(), Error> {
        self.pipeline.wait_for_stream(id)
    }
}
