//! A follower: a copy of the primary's pool to which the groups of the stream are applied.

mod following;
mod start;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use lastword::replication::read_log;
use lastword::{Options, Pool, TxId};
use system::mutants::carried;

use self::following::{Following, Outcome};
use self::start::Start;
use crate::error::Error;
use crate::history::{End, message_at};
use crate::link::Link;
use crate::message::Term;
use crate::primary::Primary;

/// A pool that follows the primary of a stream.
///
/// A thread applies each group of the stream. Readers of [`pool`](Follower::pool) see the state
/// after some transaction of the primary, and no write is accepted. The follower begins as a
/// backup of the primary or of another follower.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    options: Options,
    link: Link,
    pool: Arc<Pool>,
    following: Arc<Following>,
    thread: Option<JoinHandle<Result<Outcome, Error>>>,
}

/// How far a follower is behind the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// Transactions.
    pub ids: u64,
    /// Bytes of their words.
    pub bytes: u64,
    /// The time since the oldest message that is not applied was sent, by both machines' clocks.
    pub time: Duration,
}

/// The state of a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowerStatus {
    /// The term of the last message that was read, or `None` before the first.
    pub term: Option<Term>,
    /// The position of the last message that was read.
    pub position: u64,
    /// The last transaction that was applied.
    pub applied: TxId,
    /// The last failure of the stream, if no message was read since.
    pub trouble: Option<String>,
}

impl Follower {
    /// Opens a pool as a follower of the stream.
    ///
    /// A pool that was the primary before another one was promoted drops the end of its log that
    /// the stream lacks. No replicated transaction is among it. The pool recognizes itself by the
    /// terms in the stream, so keep the messages of a term until its primary follows again.
    ///
    /// # Errors
    /// [`Error::IsPrimary`], [`Error::OtherPool`], [`Error::Empty`]; [`StreamError::Trimmed`]: the
    /// pool is too old. [`Error::Ahead`]; as [`Pool::open`].
    ///
    /// [`StreamError::Trimmed`]: crate::StreamError::Trimmed
    pub fn open(path: impl AsRef<Path>, options: Options, link: &Link) -> Result<Follower, Error> {
        let path = path.as_ref();
        let log = read_log(path, |_| Ok(()))?;
        let start = link.settling(|| Start::of(&log, &link.patient()))?;
        let mut following = options.clone().following(true);
        if let Some((term, complete)) = start.deposed {
            following = following.rejoining(complete);
            // A term may have begun without an opening. When a group is applied, the generation
            // must be later than the term's, or the next opening would drop the group again.
            for _ in log.writer.1..term.writer.generation {
                Pool::open(path, following.clone())?.close()?;
            }
        }
        let pool = Arc::new(Pool::open(path, following)?);
        let following = Arc::new(Following::new(link.clone(), &start));
        let run = {
            let (following, pool) = (Arc::clone(&following), Arc::clone(&pool));
            carried(move || following.run(pool))
        };
        let thread = std::thread::Builder::new().name("lw-follow".into()).spawn(run);
        let thread = thread.map_err(|error| Error::Stopped(error.to_string()))?;
        let (path, link) = (path.to_path_buf(), link.clone());
        Ok(Follower { path, options, link, pool, following, thread: Some(thread) })
    }

    /// Returns the pool. Its transactions are read-only.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Waits until the transaction `id` of the primary is visible here. A client that passes the ID
    /// of its last replicated transaction reads its own writes. After a change of the primary, the
    /// ID of an unreplicated transaction may be that of another one.
    ///
    /// # Errors
    /// [`Error::Late`]; as [`check`](Follower::check).
    pub fn wait_for(&self, id: TxId, patience: Duration) -> Result<(), Error> {
        self.following.wait_for(id, patience)
    }

    /// Waits until every transaction is visible here that the stream has at this call.
    ///
    /// # Errors
    /// As [`wait_for`](Follower::wait_for), and those of the stream.
    pub fn catch_up(&self, patience: Duration) -> Result<TxId, Error> {
        let begun = Instant::now();
        let end = self.link.retrying(End::of)?.ok_or(Error::Empty)?;
        self.wait_for(end.complete, patience.saturating_sub(begun.elapsed()))?;
        Ok(end.complete)
    }

    /// Returns how far the follower is behind the stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn lag(&self) -> Result<Lag, Error> {
        let end = End::of(&*self.link.stream)?.ok_or(Error::Empty)?;
        let at = self.following.progress();
        let ids = end.complete.0.saturating_sub(at.applied.0);
        let bytes = end.total_bytes.saturating_sub(at.total_bytes);
        if ids == 0 {
            return Ok(Lag { ids: 0, bytes: 0, time: Duration::ZERO });
        }
        let next = message_at(&*self.link.stream, (at.position + 1).min(end.position))?;
        let time = SystemTime::now().duration_since(next.sent).unwrap_or_default();
        Ok(Lag { ids, bytes, time })
    }

    /// Returns the error that has stopped the follower, if one has.
    ///
    /// # Errors
    /// [`Error::Stopped`] with the cause: a damaged stream, a gap, a failed pool.
    pub fn check(&self) -> Result<(), Error> {
        self.following.check()
    }

    /// Returns the state of the follower.
    pub fn status(&self) -> FollowerStatus {
        let at = self.following.progress();
        FollowerStatus {
            term: at.term,
            position: at.position,
            applied: at.applied,
            trouble: at.trouble,
        }
    }

    /// Makes the pool the primary: applies the rest of the stream, begins a term, which fences the
    /// old primary, and opens the pool for writes. All of it takes at most the link's patience, and
    /// the time of closing and opening the pool. Other handles of the follower's pool return
    /// [`Closed`](lastword::Error::Closed) from here on.
    ///
    /// Two followers that are promoted at once both succeed, one after the other, and the later one
    /// deposes the earlier. Every replicated transaction is in both.
    ///
    /// # Errors
    /// [`Error::NotAtEnd`]; those of the stream, and of the pool. The pool is closed then, unless
    /// its readers do not end ([`StillUsed`](lastword::Error::StillUsed)). The term may have begun:
    /// the pool opens as the primary if it has, and as a follower otherwise.
    pub fn promote(mut self) -> Result<Primary, Error> {
        self.following.request_promotion();
        let begun = Instant::now();
        let outcome = self.join();
        loop {
            match self.pool.close_shared() {
                // Readers end soon, and the old primary is fenced already.
                Err(lastword::Error::StillUsed(_)) if begun.elapsed() < self.link.patience => {}
                closed => break closed?,
            }
        }
        let outcome = outcome?;
        let Outcome::Promoted(sender) = outcome else {
            return Err(Error::NotAtEnd(self.link.patience));
        };
        Primary::of(&self.path, self.options.clone(), *sender, &self.link)
    }

    /// Stops following and closes the pool. The next opening continues.
    ///
    /// # Errors
    /// As [`check`](Follower::check) and [`Pool::close_shared`].
    pub fn close(mut self) -> Result<(), Error> {
        self.following.request_stop();
        let stopped = self.join();
        self.pool.close_shared()?;
        stopped.map(drop)
    }

    fn join(&mut self) -> Result<Outcome, Error> {
        let thread = self.thread.take().expect("a follower has its thread until it ends");
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.following.request_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
