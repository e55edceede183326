//! The thread of a follower.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lastword::{Pool, TxId};

use super::start::Start;
use crate::error::Error;
use crate::groups::Groups;
use crate::link::Link;
use crate::message::{Term, Writer};
use crate::sender::{Sender, begin_term};

/// The longest wait for a message, after which the thread checks for requests of other threads.
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
    /// Begin a term before this deadline.
    Promotion(Instant),
}

/// The end of the thread.
pub(super) enum Outcome {
    Stopped,
    /// A term has begun.
    Promoted(Box<Sender>),
}

impl Following {
    pub(super) fn new(link: Link, start: &Start) -> Following {
        let Start { position, last: applied, total_bytes, .. } = *start;
        let progress = Progress { term: None, position, applied, total_bytes, trouble: None };
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
        // Callers get an error after a panic, too.
        let _ending = Ending(self);
        let outcome = self.follow(&pool);
        let stopped = match &outcome {
            Ok(_) => "the follower was closed or promoted".into(),
            Err(error) => error.to_string(),
        };
        self.lock().stopped = Some(stopped);
        outcome
    }

    fn follow(&self, pool: &Pool) -> Result<Outcome, Error> {
        let mut applier = pool.applier()?;
        let Progress { position, total_bytes, .. } = self.progress();
        let mut groups = Groups::at(&self.link.stream, position).counting_from(total_bytes);
        // The end of the stream when a promotion was last tried.
        let mut target = None;
        let info = pool.info();
        let own = Writer { pool: info.pool_id, generation: info.generation };
        loop {
            let request = self.lock().request;
            let wait = match request {
                Some(Request::Stop) => return Ok(Outcome::Stopped),
                // The old primary may append without a pause.
                Some(Request::Promotion(_)) => Duration::from_millis(1),
                None => LOOK,
            };
            let next = match groups.next(wait) {
                Err(Error::Stream(error)) if error.is_transient() => {
                    self.lock().progress.trouble = Some(error.to_string());
                    if request.is_some_and(Request::is_over) {
                        return Err(error.into());
                    }
                    std::thread::sleep(BACKOFF);
                    continue;
                }
                next => next?,
            };
            if let Some(term) = groups.term().filter(|term| own.is_before(term)) {
                return Err(Error::IsPrimary { term: term.number });
            }
            if let Some(group) = next {
                applier.apply(&group)?;
            }
            self.lock().progress = Progress {
                term: groups.term(),
                position: groups.position(),
                applied: applier.last(),
                total_bytes: groups.total_bytes(),
                trouble: None,
            };
            self.applied.notify_all();
            // After the group is applied: a follower that cannot apply it must fence no primary.
            if let Some(request) = request
                && let Some(sender) = self.try_to_begin(&groups, own, request, &mut target)?
            {
                return Ok(Outcome::Promoted(Box::new(sender)));
            }
            if request.is_some_and(Request::is_over) {
                return Err(Error::NotAtEnd(self.link.patience));
            }
        }
    }

    /// Begins a term after the last message that was read, if no other message follows it. The
    /// stream decides: while the old primary appends, each message is a new attempt.
    fn try_to_begin(
        &self,
        groups: &Groups,
        own: Writer,
        request: Request,
        target: &mut Option<u64>,
    ) -> Result<Option<Sender>, Error> {
        let Request::Promotion(until) = request else { return Ok(None) };
        let last = match *target {
            Some(last) => last,
            None => match self.link.stream.bounds() {
                Ok((_, last)) => *target.insert(last),
                Err(error) if error.is_transient() => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        let Some(end) = groups.as_end().filter(|end| end.position >= last) else {
            return Ok(None);
        };
        // Of the opening after this one.
        let writer = Writer { generation: own.generation + 1, ..own };
        let left = until.saturating_duration_since(Instant::now());
        match begin_term(&self.link, writer, (Some(end), end.complete), left) {
            // The old primary has appended meanwhile. The next attempt is after the new end.
            Err(Error::Fenced { .. }) => {
                *target = None;
                Ok(None)
            }
            begun => begun.map(Some),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No call leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes the end of the thread.
struct Ending<'f>(&'f Following);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let panicked = || "the follower's thread has panicked".into();
        self.0.lock().stopped.get_or_insert_with(panicked);
        self.0.applied.notify_all();
    }
}

impl Request {
    /// Whether the time of a promotion is over.
    fn is_over(self) -> bool {
        matches!(self, Request::Promotion(until) if Instant::now() > until)
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
