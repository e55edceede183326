//! The shutdown of a pool, by its only owner or by one of several.

use super::Pool;
use crate::Error;
use crate::design::Design;
#[cfg(doc)]
use crate::sync::Arc;

impl<D: Design> Pool<D> {
    /// Makes every commit durable and shuts the pool down cleanly, so that opening it needs no
    /// recovery.
    ///
    /// # Errors
    /// - An error of the medium leaves the pool as a crash would, and opening it recovers.
    /// - [`Error::NameLost`]: a file of the pool was removed or replaced. The shutdown was clean,
    ///   and the error says where the content can be copied from.
    /// - [`Error::Cut`]: a file was cut short. If the heap image needs what was cut, the pool is
    ///   left as a crash would leave it. Otherwise the shutdown was clean.
    /// - [`Error::Closed`] after [`close_shared`](Pool::close_shared).
    pub fn close(mut self) -> Result<(), Error> {
        self.may_call("close")?;
        if self.admission.is_closed() {
            return Err(Error::Closed { call: "close" });
        }
        self.shape.growth().close();
        self.leave_kept();
        let design = self.design.take().expect("a pool has its design until it is dropped");
        let is_clean = self.shut_down(&design)?;
        drop(design);
        self.file_check().check_closed(is_clean)
    }

    /// Closes a pool that other handles refer to, such as the clones of an [`Arc`]: makes every
    /// commit durable and shuts the pool down cleanly, as [`close`](Pool::close) does.
    ///
    /// From this call on, [`worker`](Pool::worker) and [`run`](Pool::run) return
    /// [`Error::Closed`]. The call waits until all workers are dropped and all other calls have
    /// returned, for at most [`Options::patience`](crate::Options::patience). Workers finish their
    /// transactions meanwhile. A growth of the heap that the pool's thread has begun is given up:
    /// the call waits at most until the file system has allocated or written 16 MiB for it, or has
    /// synced the file. After it has returned `Ok`,
    /// - calls on the remaining handles return [`Error::Closed`]. IDs, metrics and descriptions
    ///   stay readable.
    /// - tickets return their outcome: the transactions are durable.
    /// - another process, or this one, may open the pool. The memory and the file descriptors are
    ///   freed when the last handle is dropped.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use lastword::{Error, Objects, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// let pool = Arc::new(Pool::create(dir.path().join("shared.pool"), options)?);
    /// let other = Arc::clone(&pool);
    /// let ticket = other.owned_worker()?.run(|tx| tx.alloc(7_u64))?.ticket;
    /// pool.close_shared()?;
    /// assert!(matches!(other.run(|_| Ok(())), Err(Error::Closed { .. })));
    /// ticket.wait()?; // durable
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::StillUsed`]: workers or calls were left after that time. It says how many. The
    ///   pool still works for them, and begins no others. Its heap no longer grows before it is
    ///   full. Close it again, or drop it. A worker
    ///   forgotten with [`std::mem::forget`] is never dropped.
    /// - [`Error::Closed`]: an earlier call has closed the pool.
    /// - As [`close`](Pool::close). The pool is closed then, too. It stays locked until its last
    ///   handle is dropped if the shutdown failed.
    pub fn close_shared(&self) -> Result<(), Error> {
        self.may_call("close_shared")?;
        // Before the drain: a growth that the pool's thread has begun gives up meanwhile.
        self.shape.growth().close();
        let drained = self.admission.drain(self.patience, || self.leave_kept());
        let closing = drained.inspect_err(|_| {
            // A future that was polled meanwhile could not request its group.
            self.expedite(self.committed_id());
        })?;
        // Dropped before `closing`, also by a panic.
        let outcomes = Outcomes(self);
        let done = self.shut_down(self.design());
        drop((outcomes, closing));
        self.file_check().check_closed(done?)
    }

    /// Shuts the design down. Returns whether the pool was marked as closed cleanly.
    pub(super) fn shut_down(&self, design: &D) -> Result<bool, Error> {
        let is_clean = self.shut_down_design(design);
        // After a failure, too: a feed must not keep the files locked.
        if let Some(pipeline) = design.pipeline() {
            pipeline.end_replication();
        }
        is_clean
    }

    fn shut_down_design(&self, design: &D) -> Result<bool, Error> {
        let mut is_clean = false;
        // First: nothing may write to the files, or lock them, behind the design's back.
        self.growth_thread.stop(self.shape.growth());
        // Before the design reads a log that was cut.
        if self.file_check().must_abandon() {
            design.abandon();
            return Ok(is_clean);
        }
        design.close()?;
        // And again: `close` may have taken seconds, and the files could be cut meanwhile. A cut
        // after this look meets files that need nothing more but the mark, as does a cut of a
        // closed pool: the next opening compares the lengths.
        if !self.file_check().must_abandon() {
            // The mark skips recovery, which a failure since then may need.
            design.check()?;
            is_clean = design.mark_clean()?;
        }
        // Unlock before the drop: the log's direct descriptor unlocks itself only if the file is.
        self.file_check().unlock();
        Ok(is_clean)
    }
}

/// Gives every transaction an outcome when the shutdown ends. Tickets and futures outlive it, and
/// no step will.
struct Outcomes<'p, D: Design>(&'p Pool<D>);

impl<D: Design> Drop for Outcomes<'_, D> {
    fn drop(&mut self) {
        let Outcomes(pool) = self;
        let committed = pool.committed_id();
        if pool.design().outcome(committed).is_none() {
            let cause = pool.file_check().check(committed).err();
            pool.design().fail(cause.unwrap_or(Error::Closed { call: "wait" }));
        }
    }
}
