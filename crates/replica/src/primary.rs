//! The primary: the one pool that appends to a stream.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use lastword::replication::{Feed, Group, Log, read_log};
use lastword::{Options, Pool, TxId};
use system::mutants::carried;

use crate::error::Error;
use crate::groups::Groups;
use crate::history::{End, position_before};
use crate::link::Link;
use crate::message::{Term, Writer};
use crate::sender::{Sender, begin_term, for_patience, gather};

/// A pool whose log is appended to a stream.
///
/// Transactions run on [`pool`](Primary::pool) as on any pool. A ticket's `wait_replicated` returns
/// when the stream has the transaction; [`confirm`](Primary::confirm) makes a read linearizable.
///
/// A pool that was a primary once is opened by this type or as a
/// [`Follower`](crate::Follower), never alone: otherwise its heap image may get transactions that
/// the stream lacks.
///
/// ```
/// use lastword::{Objects, Options, Pool};
/// use replica::{Follower, Link, MemoryStream, Primary};
///
/// # let dir = tempfile::tempdir()?;
/// # let (path, copy) = (dir.path().join("a.pool"), dir.path().join("b.pool"));
/// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
/// let link = Link::new(MemoryStream::new());
/// let pool = Pool::create(&path, options.clone())?;
/// pool.backup(&copy)?; // a follower begins as a backup
/// pool.close()?;
///
/// let primary = Primary::begin(&path, options.clone(), &link)?;
/// let follower = Follower::open(&copy, options, &link)?;
/// let done = primary.pool().run(|tx| tx.alloc(7_u64))?;
/// let (cell, id) = (done.value, done.ticket.id());
/// done.ticket.wait_replicated()?; // the stream has it
/// follower.wait_for(id, std::time::Duration::from_secs(10))?; // and so does the follower
/// assert_eq!(follower.pool().run(|tx| tx.get(cell))?.value, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Primary {
    pool: Arc<Pool>,
    feed: Arc<Feed>,
    sender: Arc<Sender>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
}

/// The state of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrimaryStatus {
    /// Its term.
    pub term: Term,
    /// The position of the last message that the stream has confirmed.
    pub position: u64,
    /// The last transaction that the stream has.
    pub replicated: TxId,
    /// The last transaction that has committed.
    pub committed: TxId,
    /// The last failure of the stream, if no append has succeeded since.
    pub trouble: Option<String>,
}

impl Primary {
    /// Opens a pool as the first primary of an empty stream. Each follower is seeded from a backup
    /// of this pool that has its last transaction, or a later one.
    ///
    /// # Errors
    /// [`Error::Begun`]; as [`open`](Primary::open).
    pub fn begin(path: impl AsRef<Path>, options: Options, link: &Link) -> Result<Primary, Error> {
        let path = path.as_ref();
        let log = read_log(path, |_| Ok(()))?;
        if link.retrying(End::of)?.is_some() {
            return Err(Error::Begun);
        }
        let sender = begin_term(link, next_writer(&log), (None, log.last), link.patience);
        let sender = sender.map_err(|error| match error {
            Error::Fenced { .. } => Error::Begun,
            error => error,
        })?;
        Primary::of(path, options, sender, link)
    }

    /// Opens a pool as the primary of a stream again, and begins a term.
    ///
    /// After a crash it first appends the groups of the log that the stream lacks. So all recovered
    /// transactions are replicated when this returns.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::NotPrimary`], [`Error::OtherPool`], [`Error::OlderCopy`],
    /// [`Error::Ahead`]: the pool cannot continue the stream. [`Error::Fenced`]: another primary
    /// began a term at the same time. [`Error::Stream`], after the link's patience. As [`read_log`]
    /// and [`Pool::open`].
    pub fn open(path: impl AsRef<Path>, options: Options, link: &Link) -> Result<Primary, Error> {
        let path = path.as_ref();
        let mut log = read_log(path, |_| Ok(()))?;
        // A stale end may hide the last term. A message of an earlier opening, which has crashed,
        // may arrive late, and fences this one.
        let (complete, sender) = link.settling(|| {
            let end = End::of(&link.patient())?.ok_or(Error::Empty)?;
            if let Some(completed) = complete_promotion(path, &options, link, (&log, end))? {
                log = completed;
            }
            let complete = check_end(&log, end)?;
            let from = (Some(end), complete);
            Ok((complete, begin_term(link, next_writer(&log), from, link.patience)?))
        })?;
        send_rest(path, complete, &sender, link)?;
        Primary::of(path, options, sender, link)
    }

    /// Opens the pool of a sender whose term has begun.
    pub(crate) fn of(
        path: &Path,
        options: Options,
        sender: Sender,
        link: &Link,
    ) -> Result<Primary, Error> {
        let pool = Arc::new(Pool::open(path, options.replicated(true))?);
        let feed = Arc::new(pool.feed()?);
        let Writer { pool: id, generation } = sender.term().writer;
        let (_, replicated) = sender.confirmed();
        if feed.writer() != (id, generation) || pool.replicated_id() != Some(replicated) {
            return Err(Error::Opened);
        }
        let sender = Arc::new(sender);
        let run = {
            let (sender, feed) = (Arc::clone(&sender), Arc::clone(&feed));
            carried(move || sender.run(&feed))
        };
        let thread = std::thread::Builder::new().name("lw-send".into()).spawn(run);
        let thread = thread.map_err(|error| Error::Stopped(error.to_string()))?;
        Ok(Primary { pool, feed, sender, thread: Some(thread), patience: link.patience })
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Waits until the stream has every transaction that has committed, and shows that no other
    /// primary had begun a term before this call. A read before the call is then linearizable: its
    /// values are replicated, and no other primary had changed them. Costs a message if no group
    /// is appended meanwhile.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::Unconfirmed`], [`Error::Lost`], [`Error::Stopped`]; as
    /// [`Pool::wait_replicated`].
    pub fn confirm(&self) -> Result<(), Error> {
        let committed = self.pool.committed_id();
        let confirmed = self.sender.confirm(self.patience);
        // The sender's thread would notice it at its next group.
        if let Err(Error::Fenced { term }) = confirmed {
            let _ = self.feed.fence(term);
        } else if let Some(why) = self.sender.ended() {
            let _ = self.feed.fail(&why);
        }
        confirmed?;
        Ok(self.pool.wait_replicated(committed)?)
    }

    /// Returns the state of the primary.
    pub fn status(&self) -> PrimaryStatus {
        let (position, replicated) = self.sender.confirmed();
        PrimaryStatus {
            term: self.sender.term(),
            position,
            replicated,
            committed: self.pool.committed_id(),
            trouble: self.sender.trouble(),
        }
    }

    /// Waits until the stream has every transaction, and closes the pool. Other handles of it
    /// return [`Closed`](lastword::Error::Closed) from here on.
    ///
    /// # Errors
    /// As [`Pool::close_shared`]. If the stream does not confirm in time, the pool stays as a crash
    /// leaves it, and the next opening appends the rest.
    pub fn close(mut self) -> Result<(), Error> {
        let closed = self.pool.close_shared();
        if let Some(thread) = self.thread.take() {
            // The thread ends with the pool. After an error the pool may be open still.
            if closed.is_ok() {
                let _ = thread.join();
            }
        }
        Ok(closed?)
    }
}

impl Primary {
    /// Leaves the pool as a crash would, if no other handle of it is left: for tests.
    pub fn abandon(mut self) {
        let Some(pool) = Arc::into_inner(self.pool) else { return };
        pool.abandon();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Applies the rest of the stream to the closed pool of a follower that crashed after its term had
/// begun, and before it had all groups durably. Returns its log if there was a rest.
fn complete_promotion(
    path: &Path,
    options: &Options,
    link: &Link,
    (log, end): (&Log, End),
) -> Result<Option<Log>, Error> {
    let has_only_begun = end.position == end.term.at;
    let (writer, next) = (end.term.writer, next_writer(log));
    // An opening below that was interrupted has a later generation.
    let is_own = writer.pool == next.pool && writer.generation <= next.generation;
    if !is_own || !has_only_begun || log.last >= end.complete {
        return Ok(None);
    }
    let pool = Pool::open(path, options.clone().following(true))?;
    {
        let mut applier = pool.applier()?;
        let after = position_before(&link.patient(), log.last)?;
        let mut groups = Groups::at(&link.stream, after);
        while applier.last() < end.complete {
            match link.retrying(|_| groups.next(link.patience))? {
                Some(group) => applier.apply(&group)?,
                None => return Err(Error::NotAtEnd(link.patience)),
            }
        }
    }
    pool.close()?;
    Ok(Some(read_log(path, |_| Ok(()))?))
}

/// Returns the writer that the next opening of a closed pool is.
fn next_writer(log: &Log) -> Writer {
    let (pool, generation) = log.writer;
    Writer { pool, generation: generation + 1 }
}

/// Returns the last complete transaction of the stream, if this closed pool can continue it.
fn check_end(log: &Log, end: End) -> Result<TxId, Error> {
    let pool = log.writer.0;
    let (writer, replicated) = (end.term.writer, end.complete);
    if !are_copies(writer.pool, pool) {
        return Err(Error::OtherPool { pool, found: writer.pool });
    }
    if writer.pool != pool {
        return Err(Error::NotPrimary { term: end.term.number, writer });
    }
    if log.last < replicated {
        return Err(Error::OlderCopy { replicated, last: log.last });
    }
    if log.reproduced > replicated {
        return Err(Error::Ahead { reproduced: log.reproduced, replicated });
    }
    Ok(replicated)
}

/// Appends the groups of a closed pool's log that the stream lacks. Small neighbours share a group.
fn send_rest(path: &Path, complete: TxId, sender: &Sender, link: &Link) -> Result<(), Error> {
    let mut failure = None;
    let mut gathered: Option<Group> = None;
    let mut append = |group: Group| {
        let appended = sender.append_group(&group, for_patience(link.patience));
        appended.map_err(|error| {
            failure = Some(error);
            lastword::Error::Closed { call: "read_log" }
        })
    };
    let read = read_log(path, |group| {
        if group.last <= complete {
            return Ok(());
        }
        let Some(before) = &mut gathered else {
            gathered = Some(group);
            return Ok(());
        };
        match gather(before, group, link.stream.message_bytes_max()) {
            None => Ok(()),
            Some(next) => append(std::mem::replace(before, next)),
        }
    });
    let sent = read.and_then(|_| gathered.take().map_or(Ok(()), append));
    match (sent, failure) {
        (_, Some(error)) => Err(error),
        (sent, None) => Ok(sent?),
    }
}

/// Whether pools with these IDs can be copies of each other: a backup keeps the part of the ID
/// that its pointers carry. Other pools pass this check once in 65 535.
pub(crate) fn are_copies(one: u64, other: u64) -> bool {
    one % 0xffff == other % 0xffff
}
