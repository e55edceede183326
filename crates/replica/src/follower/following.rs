//! The thread of a follower.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lastword::{Pool, TxId};

use crate::error::Error;
use crate::groups::Groups;
use crate::history::End;
use crate::link::Link;
use crate::message::{Term, Writer};
use crate::sender::{Sender, begin_term};

/// The longest wait for a message, between two looks at the requests of other threads.
const LOOK: Duration = Duration::from_millis(20);

/// The sleep after a failure of the stream.
const BACKOFF: Duration = Duration::from_millis(50);

/// The state that a follower's thread shares with its callers.
#[derive(Debug)]
pub(super) struct Following {
    link: Link,
    state: Mutex<State>,
    applied: Condvar,
}

#[derive(Debug)]
struct State {
    progress: Progress,
    request: Option<Request>,
    /// The error that has ended the thread.
    stopped: Option<String>,
}

/// How far the thread is.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) term: Option<Term>,
    pub(super) position: u64,
    pub(super) applied: TxId,
    pub(super) total_bytes: u64,
    pub(super) trouble: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Request {
    Stop,
    /// To begin a term, at this time at the latest.
    Promotion(Instant),
}

/// The end of the thread.
pub(super) enum Outcome {
    Stopped,
    /// A term has begun.
    Promoted(Box<Sender>),
}

impl Following {
    pub(super) fn new(link: Link, position: u64, applied: TxId) -> Following {
        let progress = Progress { term: None, position, applied, total_bytes: 0, trouble: None };
        let state = State { progress, request: None, stopped: None };
        Following { link, state: Mutex::new(state), applied: Condvar::new() }
    }

    pub(super) fn progress(&self) -> Progress {
        self.lock().progress.clone()
    }

    pub(super) fn request_stop(&self) {
        self.lock().request = Some(Request::Stop);
    }

    pub(super) fn request_promotion(&self) {
        self.lock().request = Some(Request::Promotion(Instant::now() + self.link.patience));
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.lock().check()
    }

    pub(super) fn wait_for(&self, id: TxId, patience: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        let mut state = self.lock();
        while state.progress.applied < id {
            state.check()?;
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                let last = state.progress.applied;
                return Err(Error::Late { id, last, waited: patience });
            }
            let waited = self.applied.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Applies the messages of the stream until another thread requests the end.
    pub(super) fn run(&self, pool: Arc<Pool>) -> Result<Outcome, Error> {
        let outcome = self.follow(&pool);
        if let Err(error) = &outcome {
            self.lock().stopped = Some(error.to_string());
        }
        self.applied.notify_all();
        outcome
    }

    fn follow(&self, pool: &Pool) -> Result<Outcome, Error> {
        let mut applier = pool.applier()?;
        let mut groups = Groups::at(&self.link.stream, self.progress().position);
        loop {
            let request = self.lock().request;
            if request == Some(Request::Stop) {
                return Ok(Outcome::Stopped);
            }
            let is_at_end = match groups.next(LOOK) {
                Ok(Some(group)) => {
                    applier.apply(&group)?;
                    false
                }
                Ok(None) => true,
                Err(Error::Stream(error)) if error.is_transient() => {
                    self.lock().progress.trouble = Some(error.to_string());
                    std::thread::sleep(BACKOFF);
                    self.check_time(request)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.lock().progress = Progress {
                term: groups.term(),
                position: groups.position(),
                applied: applier.last(),
                total_bytes: groups.total_bytes(),
                trouble: None,
            };
            self.applied.notify_all();
            self.check_time(request)?;
            if let (Some(Request::Promotion(until)), true) = (request, is_at_end)
                && let Some(sender) = self.try_to_begin(pool, &groups, until)?
            {
                return Ok(Outcome::Promoted(Box::new(sender)));
            }
        }
    }

    fn check_time(&self, request: Option<Request>) -> Result<(), Error> {
        match request {
            Some(Request::Promotion(until)) if Instant::now() > until => {
                Err(Error::NotAtEnd(self.link.patience))
            }
            _ => Ok(()),
        }
    }

    /// Begins a term, if all messages of the stream were read.
    fn try_to_begin(
        &self,
        pool: &Pool,
        groups: &Groups,
        until: Instant,
    ) -> Result<Option<Sender>, Error> {
        let end = match End::of(&*self.link.stream) {
            Err(Error::Stream(error)) if error.is_transient() => return Ok(None),
            end => end?,
        };
        let end = end.filter(|end| end.position == groups.position());
        let Some(end) = end else { return Ok(None) };
        let applied = self.progress().applied;
        if applied != end.complete || groups.complete().is_some_and(|id| id != applied) {
            let (found, last) = (TxId(end.complete.0 + 1), applied);
            return Err(lastword::ReplicationError::Gap { found, last }.into());
        }
        // First: after a crash, a pool that the stream calls its primary must have all of it.
        pool.flush()?;
        let info = pool.info();
        // Of the opening after this one.
        let writer = Writer { pool: info.pool_id, generation: info.generation + 1 };
        let left = until.saturating_duration_since(Instant::now());
        match begin_term(&self.link.stream, writer, (Some(end), end.complete), left) {
            // The old primary has appended meanwhile.
            Err(Error::Fenced { .. }) => Ok(None),
            begun => begun.map(Some),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No call leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self) -> Result<(), Error> {
        match &self.stopped {
            Some(cause) => Err(Error::Stopped(cause.clone())),
            None => Ok(()),
        }
    }
}
