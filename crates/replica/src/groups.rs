//! The groups of a stream, in order.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lastword::TxId;
use lastword::replication::Group;

use crate::assembly::Assembly;
use crate::error::Error;
use crate::history::{End, decode, position_before};
use crate::message::Term;
use crate::stream::{LogStream, ReadStream};

/// Reads the complete groups of a stream: for a follower, or for a program that reacts to changes.
///
/// ```
/// use std::time::Duration;
///
/// use lastword::{Objects, Options, Pool};
/// use replica::{Groups, Link, MemoryStream, Primary};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
/// # Pool::create(&path, options.clone())?.close()?;
/// let link = Link::new(MemoryStream::new());
/// let primary = Primary::begin(&path, options, &link)?;
/// let before = primary.pool().committed_id();
/// let id = primary.pool().run(|tx| tx.alloc(7_u64))?.ticket.id();
/// let mut groups = Groups::after(link.stream(), before)?;
/// let group = groups.next(Duration::from_secs(10))?.expect("a group");
/// assert_eq!(group.last, id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Groups {
    stream: Arc<dyn LogStream>,
    reader: Option<Box<dyn ReadStream>>,
    assembly: Assembly,
    position: u64,
    total_bytes: u64,
    sent: SystemTime,
}

impl Groups {
    /// Begins with the group of the first transaction after `last`. That group may begin earlier.
    ///
    /// # Errors
    /// [`StreamError::Trimmed`](crate::StreamError::Trimmed); other errors of the stream.
    pub fn after(stream: &Arc<dyn LogStream>, last: TxId) -> Result<Groups, Error> {
        Ok(Groups::at(stream, position_before(&**stream, last)?))
    }

    /// Begins with the oldest group that the stream keeps whole.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn oldest(stream: &Arc<dyn LogStream>) -> Result<Groups, Error> {
        let (first, _) = stream.bounds()?;
        Ok(Groups::at(stream, first.saturating_sub(1)))
    }

    /// Begins with the message after a position.
    pub(crate) fn at(stream: &Arc<dyn LogStream>, position: u64) -> Groups {
        let (stream, assembly) = (Arc::clone(stream), Assembly::new());
        Groups { stream, reader: None, assembly, position, total_bytes: 0, sent: UNIX_EPOCH }
    }

    /// Sets the bytes of words of the stream up to the position where this begins.
    pub(crate) fn counting_from(mut self, total_bytes: u64) -> Groups {
        self.total_bytes = total_bytes;
        self
    }

    /// Returns the next complete group, or `None` if it has read none within this time. Further
    /// messages may be there.
    ///
    /// # Errors
    /// [`Error::Damaged`]; those of the stream. After an error of the stream that is transient, the
    /// next call continues.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Group>, Error> {
        let begun = Instant::now();
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => self.reader.insert(self.stream.read_from(self.position)?),
            };
            let (at, bytes) = match reader.next(left) {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.reader = None;
                    return Err(error.into());
                }
            };
            let message = decode(at, &bytes)?;
            let (total_bytes, sent) = (message.total_bytes, message.sent);
            let group = self.assembly.add(at, message);
            let group = group.map_err(|damage| Error::Damaged { position: at, damage })?;
            (self.position, self.total_bytes, self.sent) = (at, total_bytes, sent);
            if group.is_some() || begun.elapsed() >= patience {
                return Ok(group);
            }
        }
    }

    /// Returns the position of the last message that was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the term of the last message that was read.
    pub fn term(&self) -> Option<Term> {
        self.assembly.term()
    }

    /// Returns the end of the stream, if the last message that was read is its last one.
    pub(crate) fn as_end(&self) -> Option<End> {
        Some(End {
            position: self.position,
            term: self.assembly.term()?,
            complete: self.assembly.complete()?,
            total_bytes: self.total_bytes,
            sent: self.sent,
        })
    }

    /// Returns the bytes of words of the stream up to the last message that was read.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").field("position", &self.position).finish_non_exhaustive()
    }
}
