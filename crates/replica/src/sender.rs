//! The writer of a stream: one message at a time, each exactly once.
//!
//! ```text
//!   pool -> feed -> group -> part, part -> append -> confirmed -> feed.replicated
//!                                 mark -> append -> confirmed -> confirm returns
//! ```
//!
//! Invariants:
//! - *One append is outstanding.* `busy` serializes groups and marks. A second append, sent before
//!   the first is confirmed, could land behind the message of another primary.
//! - *A position has one content.* A message without a reply is sent again after the same position,
//!   as the same bytes, until the stream has a message there. It then has this message, once, or
//!   another primary's. So a lost reply makes neither a duplicate nor a gap.
//! - *Confirmed after the reply.* The feed is confirmed when the stream has all parts of a group.
//! - *A foreign message deposes.* If another writer's message follows, the pool is poisoned.
//! - *A sender that ends poisons.* The pool commits no longer if its groups have no way to the
//!   stream. A stream that does not reply is no reason: the sender waits for it.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lastword::TxId;
use lastword::replication::{Feed, Group};
use system::mutants::{Mutant, injected};

use crate::error::{Damage, Error};
use crate::history::{End, decode};
use crate::link::Link;
use crate::message::{HEADER_BYTES, Kind, Message, Term, Writer, parts_of};
use crate::stream::{LogStream, StreamError};

/// The first and the longest sleep before an append is sent again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));

/// The longest wait for a group, after which the thread checks whether the pool is closed.
const LOOK: Duration = Duration::from_millis(100);

/// Appends the messages of one term.
pub(crate) struct Sender {
    stream: Arc<dyn LogStream>,
    term: Term,
    previous: Option<Term>,
    /// How long the stream may refuse a message, or lack a confirmed one.
    patience: Duration,
    tail: Mutex<Tail>,
    /// An append has ended.
    ended: Condvar,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("term", &self.term).finish_non_exhaustive()
    }
}

/// The end of the stream, as this writer knows it.
#[derive(Debug)]
struct Tail {
    /// The position of the last message.
    position: u64,
    complete: TxId,
    total_bytes: u64,
    /// Whether a thread appends.
    busy: bool,
    /// Groups and marks whose append has begun.
    begun: u64,
    /// The last of these that the stream has confirmed.
    confirmed: u64,
    /// A message that the stream may have, since its thread has given up without a reply.
    unknown: Option<Vec<u8>>,
    /// The term of another primary.
    fenced: Option<u64>,
    /// Whether the term is over: a part of a group was given up, and no message may follow it, or
    /// the stream takes no further message.
    torn: bool,
    /// Since when the stream lacks its last message, until it is seen there again.
    lost: Option<Instant>,
    /// The last failure, until an append succeeds.
    trouble: Option<String>,
}

/// Ends an append.
struct Ending<'s>(&'s Sender);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut tail = self.0.lock();
        // Another thread may append already, unless this one has panicked.
        if std::thread::panicking() && std::mem::take(&mut tail.busy) {
            (tail.torn, tail.trouble) = (true, Some("a thread has panicked in an append".into()));
        }
        drop(tail);
        self.0.ended.notify_all();
    }
}

/// Poisons the pool if the thread panics.
struct OnPanic<'f>(&'f Feed);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.fail("its thread has panicked; report this");
        }
    }
}

impl Tail {
    fn check(&self) -> Result<(), Error> {
        match (self.fenced, self.torn) {
            (Some(term), _) => Err(Error::Fenced { term }),
            (None, true) => Err(Error::Stopped(self.trouble.clone().unwrap_or_default())),
            (None, false) => Ok(()),
        }
    }
}

/// Begins a term after the end of the stream. Returns its sender.
///
/// # Errors
/// [`Error::Fenced`] if another message follows that end; those of the stream, after the patience.
pub(crate) fn begin_term(
    link: &Link,
    writer: Writer,
    (end, complete): (Option<End>, TxId),
    patience: Duration,
) -> Result<Sender, Error> {
    let position = end.map_or(0, |end| end.position);
    let previous = end.map(|end| end.term);
    let number = previous.map_or(1, |term| term.number + 1);
    let term = Term { number, at: position + 1, writer };
    let sender = Sender {
        stream: Arc::clone(&link.stream),
        term,
        previous,
        patience: link.patience,
        tail: Mutex::new(Tail {
            position,
            complete,
            total_bytes: end.map_or(0, |end| end.total_bytes),
            busy: false,
            begun: 0,
            confirmed: 0,
            unknown: None,
            fenced: None,
            torn: false,
            lost: None,
            trouble: None,
        }),
        ended: Condvar::new(),
    };
    let kind = Kind::Term { last: complete, previous };
    sender.append([kind], for_patience(patience))?;
    Ok(sender)
}

/// Returns a closure that decides whether to send again: within `patience`, and only after
/// transient errors and conflicts.
pub(crate) fn for_patience(patience: Duration) -> impl FnMut(&StreamError) -> bool {
    let begun = Instant::now();
    move |error| {
        let helps = error.is_transient() || matches!(error, StreamError::Conflict { .. });
        helps && begun.elapsed() < patience
    }
}

impl Sender {
    pub(crate) fn term(&self) -> Term {
        self.term
    }

    /// Returns the last position, and the last transaction, that the stream has confirmed.
    pub(crate) fn confirmed(&self) -> (u64, TxId) {
        let tail = self.lock();
        (tail.position, tail.complete)
    }

    /// Returns the last failure of the stream, if no append has succeeded since.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Appends a group, in as many parts as it needs.
    ///
    /// # Errors
    /// As [`append`](Sender::append).
    pub(crate) fn append_group(
        &self,
        group: &Group,
        again: impl FnMut(&StreamError) -> bool,
    ) -> Result<(), Error> {
        // A gap would void every later transaction: no follower gets past it.
        let (_, complete) = self.confirmed();
        if group.first.0 != complete.0 + 1 {
            let (found, last) = (group.first, complete);
            return Err(lastword::ReplicationError::Gap { found, last }.into());
        }
        self.append(parts_of(group, self.stream.message_bytes_max()), again)
    }

    /// Returns the reason why the stream gets no more messages of this term.
    pub(crate) fn ended(&self) -> Option<String> {
        let tail = self.lock();
        tail.torn.then(|| tail.trouble.clone().unwrap_or_default())
    }

    /// Sends the groups of a feed until its pool is closed. Poisons the pool if another primary
    /// begins a term, or if the groups have no way to the stream any more.
    pub(crate) fn run(&self, feed: &Feed) {
        let _on_panic = OnPanic(feed);
        let mut left = None;
        loop {
            let next = match left.take() {
                Some(group) => Ok(Some(group)),
                None => feed.next(LOOK),
            };
            let mut group = match next {
                Ok(Some(group)) => group,
                Ok(None) => continue,
                // Closed, or poisoned: the pool reports the cause to every caller.
                Err(_) => return,
            };
            // After an outage many groups wait, and each message costs a reply.
            // `left` first: each group that the feed returns must be sent.
            while left.is_none()
                && let Ok(Some(next)) = feed.next(Duration::ZERO)
            {
                left = gather(&mut group, next, self.stream.message_bytes_max());
            }
            if injected(Mutant::ConfirmedBeforeReply) {
                let _ = feed.replicated(group.last);
            }
            // A pool without new groups to confirm still reports that it is closed.
            let is_open = |_: &StreamError| feed.replicated(TxId(0)).is_ok();
            match self.append_group(&group, is_open) {
                Ok(()) if feed.replicated(group.last).is_ok() => {}
                Ok(()) => return,
                Err(Error::Fenced { term }) => {
                    let _ = feed.fence(term);
                    return;
                }
                Err(error) => {
                    // A closed pool has waited for the stream as long as it should.
                    let probe = feed.replicated(TxId(0));
                    if !matches!(probe, Err(lastword::Error::Closed { .. })) {
                        let _ = feed.fail(&error.to_string());
                    }
                    return;
                }
            }
        }
    }

    /// Returns when the stream has confirmed an append that has begun after this call. So no other
    /// primary had begun a term before the call.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::Unconfirmed`], [`Error::Stopped`].
    pub(crate) fn confirm(&self, patience: Duration) -> Result<(), Error> {
        let called = Instant::now();
        let mut tail = self.lock();
        let before = tail.begun;
        while tail.confirmed <= before {
            tail.check()?;
            let left = patience.saturating_sub(called.elapsed());
            if left.is_zero() {
                return Err(Error::Unconfirmed(patience));
            }
            if tail.busy {
                let waited = self.ended.wait_timeout(tail, left);
                tail = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let mark = Kind::Mark { last: tail.complete };
            match self.append_alone(tail, [mark], for_patience(left)) {
                Err(Error::Stream(error)) if error.is_transient() => {}
                appended => return appended,
            }
            tail = self.lock();
        }
        Ok(())
    }

    /// Appends messages one after the other. `again` decides after each failure whether the message
    /// is sent again.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::Stopped`]; the error of the stream after which `again` has
    /// returned false.
    fn append(
        &self,
        kinds: impl IntoIterator<Item = Kind>,
        again: impl FnMut(&StreamError) -> bool,
    ) -> Result<(), Error> {
        let mut tail = self.lock();
        while tail.busy {
            tail = self.ended.wait(tail).unwrap_or_else(PoisonError::into_inner);
        }
        self.append_alone(tail, kinds, again)
    }

    /// Appends messages while no other thread does.
    fn append_alone(
        &self,
        mut tail: MutexGuard<'_, Tail>,
        kinds: impl IntoIterator<Item = Kind>,
        mut again: impl FnMut(&StreamError) -> bool,
    ) -> Result<(), Error> {
        tail.check()?;
        tail.busy = true;
        tail.begun += 1;
        let begun = tail.begun;
        let unknown = tail.unknown.take();
        drop(tail);
        // After a panic, too: the threads that wait get an error.
        let ending = Ending(self);
        let appended = self.append_all(unknown, kinds, &mut again);
        let mut tail = self.lock();
        tail.busy = false;
        match &appended {
            Ok(()) => tail.confirmed = begun,
            Err(Error::Fenced { term }) => tail.fenced = Some(*term),
            Err(error @ Error::Damaged { .. }) => {
                (tail.torn, tail.trouble) = (true, Some(error.to_string()));
            }
            Err(_) => {}
        }
        drop(tail);
        drop(ending);
        appended
    }

    /// Only the thread that has set `busy` is here, so only it changes the end of the stream.
    fn append_all(
        &self,
        unknown: Option<Vec<u8>>,
        kinds: impl IntoIterator<Item = Kind>,
        again: &mut impl FnMut(&StreamError) -> bool,
    ) -> Result<(), Error> {
        if let Some(bytes) = unknown {
            self.place(&bytes, again)?;
        }
        for kind in kinds {
            let mut message = {
                let tail = self.lock();
                let kind = match kind {
                    // A group may have been appended since the mark was made.
                    Kind::Mark { .. } => Kind::Mark { last: tail.complete },
                    kind => kind,
                };
                let total_bytes = tail.total_bytes;
                Message { term: self.term, total_bytes, sent: SystemTime::now(), kind }
            };
            if let Kind::Part { words, .. } = &message.kind {
                message.total_bytes += 8 * words.len() as u64;
            }
            if let Err(error) = self.place(&message.encode(), again) {
                self.lock().torn |= matches!(message.kind, Kind::Part { .. });
                return Err(error);
            }
            let mut tail = self.lock();
            (tail.complete, tail.total_bytes) = (message.complete(), message.total_bytes);
        }
        Ok(())
    }

    /// Makes this message the next one of the stream.
    fn place(
        &self,
        bytes: &[u8],
        again: &mut impl FnMut(&StreamError) -> bool,
    ) -> Result<(), Error> {
        let mut after = self.lock().position;
        let (mut backoff, mut refused) = (BACKOFF.0, None);
        loop {
            let appended = match self.has_lost(after)? {
                // Another primary may fill the stream up to `after`. An append would then succeed
                // behind its messages.
                true => Err(StreamError::Conflict { after }),
                false => self.stream.append(after, bytes),
            };
            let error = match appended {
                Ok(_) => break,
                Err(error) => error,
            };
            let is_unknown = matches!(error, StreamError::Unknown { .. });
            if is_unknown && injected(Mutant::UnknownTakenForYes) {
                break;
            }
            if is_unknown || matches!(error, StreamError::Conflict { .. }) {
                match self.is_next(after, bytes) {
                    Ok(true) => break,
                    // The stream lacks the message, or cannot be read. Send the same bytes
                    // again: if the first copy arrives late, the stream refuses one of the two.
                    Ok(false) => {}
                    Err(Error::Fenced { .. }) if injected(Mutant::FenceIgnored) => {
                        after = self.stream.bounds()?.1;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            let (cause, is_final) = self.note(after, &error, &mut refused);
            if is_final || !again(&error) {
                self.lock().unknown = Some(bytes.to_vec());
                return Err(cause);
            }
            std::thread::sleep(backoff);
            backoff = (2 * backoff).min(BACKOFF.1);
        }
        let mut tail = self.lock();
        tail.position = after + 1;
        tail.trouble = None;
        Ok(())
    }

    /// Whether the stream lacks the message at `after`, which it had confirmed.
    ///
    /// # Errors
    /// [`Error::Fenced`]: it has another primary's message there.
    fn has_lost(&self, after: u64) -> Result<bool, Error> {
        if self.lock().lost.is_none() {
            return Ok(false);
        }
        let Ok(Some(bytes)) = self.stream.get(after) else { return Ok(true) };
        let found = decode(after, &bytes)?.term;
        let expected = if after < self.term.at { self.previous } else { Some(self.term) };
        if expected != Some(found) {
            return Err(Error::Fenced { term: found.number });
        }
        self.lock().lost = None;
        Ok(false)
    }

    /// Whether the message after `after` is this one.
    ///
    /// # Errors
    /// [`Error::Fenced`]: it is another primary's.
    fn is_next(&self, after: u64, bytes: &[u8]) -> Result<bool, Error> {
        match self.stream.get(after + 1) {
            Ok(Some(found)) if found == bytes => Ok(true),
            Ok(Some(found)) => Err(Error::Fenced { term: decode(after + 1, &found)?.term.number }),
            Err(StreamError::Trimmed { position, .. }) => match End::of(&*self.stream) {
                Ok(Some(end)) => Err(Error::Fenced { term: end.term.number }),
                // It is read again.
                Err(Error::Stream(error)) if error.is_transient() => Ok(false),
                Err(error) => Err(error),
                Ok(None) => Err(Error::Damaged { position, damage: Damage::Gap }),
            },
            Ok(None) | Err(_) => Ok(false),
        }
    }

    /// Notes a failure of the stream. Returns its cause, and whether the term is over, since the
    /// failure is not transient and has lasted for the patience.
    fn note(
        &self,
        after: u64,
        error: &StreamError,
        refused: &mut Option<Instant>,
    ) -> (Error, bool) {
        let is_conflict = matches!(error, StreamError::Conflict { .. });
        let bounds = self.stream.bounds().ok().filter(|_| is_conflict);
        let lost = bounds.filter(|(_, last)| *last < after);
        let mut tail = self.lock();
        let (cause, since) = match lost {
            Some((_, last)) => {
                let since = *tail.lost.get_or_insert_with(Instant::now);
                (Error::Lost { last, confirmed: after }, Some(since))
            }
            None if is_conflict || error.is_transient() => (error.clone().into(), None),
            None => (error.clone().into(), Some(*refused.get_or_insert_with(Instant::now))),
        };
        tail.trouble = Some(cause.to_string());
        let is_final = since.is_some_and(|since| since.elapsed() >= self.patience);
        tail.torn |= is_final;
        (cause, is_final)
    }

    fn lock(&self) -> MutexGuard<'_, Tail> {
        // A panicking thread leaves `busy`, and the tail as the stream has it.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a group to the one before it, if both fit into a message of the stream.
pub(crate) fn gather(before: &mut Group, next: Group, message_bytes_max: usize) -> Option<Group> {
    let words = before.words.len() + next.words.len();
    if HEADER_BYTES + 8 * words > message_bytes_max {
        return Some(next);
    }
    before.last = next.last;
    before.heap_bytes = before.heap_bytes.max(next.heap_bytes);
    before.words.extend(next.words);
    None
}
