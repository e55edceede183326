//! The past of a stream: its terms, and the positions of transactions.

use std::time::SystemTime;

use lastword::TxId;

use crate::error::{Damage, Error};
use crate::message::{Kind, Message, Term};
use crate::stream::{LogStream, StreamError};

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The position of the last message.
    pub position: u64,
    /// The term of the last message.
    pub term: Term,
    /// The last transaction whose group is complete.
    pub complete: TxId,
    /// Bytes of words of all groups.
    pub total_bytes: u64,
    /// When the last message was sent.
    pub sent: SystemTime,
}

impl End {
    /// Returns the end of a stream, or `None` if it is empty.
    ///
    /// # Errors
    /// Those of the stream; [`Error::Damaged`].
    pub fn of(stream: &dyn LogStream) -> Result<Option<End>, Error> {
        let (_, position) = stream.bounds()?;
        if position == 0 {
            return Ok(None);
        }
        let Some(bytes) = stream.get(position)? else {
            // Two servers have replied, and one of them lags.
            let why = format!("message {position} is not on each of its servers yet");
            return Err(StreamError::Unreachable(why).into());
        };
        let message = decode(position, &bytes)?;
        let Message { term, total_bytes, sent, .. } = message;
        Ok(Some(End { position, term, complete: message.complete(), total_bytes, sent }))
    }

    /// Returns the last ended term of this pool, and the last transaction that was complete when
    /// it ended. The search ends where messages were trimmed.
    ///
    /// # Errors
    /// As [`End::of`].
    pub fn past_term_of(
        &self,
        pool: u64,
        stream: &dyn LogStream,
    ) -> Result<Option<(Term, TxId)>, Error> {
        let mut at = self.term.at;
        loop {
            let message = match message_at(stream, at) {
                Err(Error::Stream(StreamError::Trimmed { .. })) => return Ok(None),
                message => message?,
            };
            let Kind::Term { last, previous } = message.kind else {
                return Err(Error::Damaged { position: at, damage: Damage::Gap });
            };
            match previous {
                Some(term) if term.writer.pool == pool => return Ok(Some((term, last))),
                // Positions fall, so the walk ends.
                Some(term) if term.at < at => at = term.at,
                Some(_) => return Err(Error::Damaged { position: at, damage: Damage::Malformed }),
                None => return Ok(None),
            }
        }
    }
}

/// Returns the position after which a pool that ends with the transaction `last` begins to read.
/// A binary search finds it, since transaction IDs never fall along the stream.
///
/// # Errors
/// [`StreamError::Trimmed`] if that message was trimmed; as [`End::of`].
pub(crate) fn position_before(stream: &dyn LogStream, last: TxId) -> Result<u64, Error> {
    let (mut first, mut end) = stream.bounds()?;
    loop {
        match search(stream, last, first, end) {
            // Another process trimmed messages during the search. Each retry searches fewer
            // messages, so the loop ends.
            Err(Error::Stream(StreamError::Trimmed { position, .. })) if position >= first => {
                let bounds = stream.bounds()?;
                if bounds.0 <= first {
                    return Err(StreamError::Trimmed { position, first }.into());
                }
                (first, end) = bounds;
            }
            found => return found,
        }
    }
}

/// Returns the bytes of words of the stream up to a position that [`position_before`] has returned.
///
/// # Errors
/// As [`End::of`].
pub(crate) fn bytes_before(stream: &dyn LogStream, position: u64) -> Result<u64, Error> {
    if position == 0 {
        return Ok(0);
    }
    match message_at(stream, position) {
        // A reader begins with the message after it.
        Err(Error::Stream(StreamError::Trimmed { .. })) => {
            let Message { total_bytes, kind, .. } = message_at(stream, position + 1)?;
            let own = if let Kind::Part { words, .. } = kind { 8 * words.len() as u64 } else { 0 };
            Ok(total_bytes.saturating_sub(own))
        }
        message => Ok(message?.total_bytes),
    }
}

/// Searches the messages of these positions.
fn search(stream: &dyn LogStream, last: TxId, first: u64, end: u64) -> Result<u64, Error> {
    if end == 0 {
        return Ok(0);
    }
    let trimmed = || StreamError::Trimmed { position: first.saturating_sub(1), first };
    let before = |position| Ok::<_, Error>(message_at(stream, position)?.complete_before());
    // The message in which the first transaction after `last` would be.
    let needed = partition(first, end + 1, |position| Ok(before(position)? <= last))?;
    if needed == first {
        return Err(trimmed().into());
    }
    // It may be a later part of its group.
    let of_group = before(needed - 1)?;
    let begin = partition(first, needed, |position| Ok(before(position)? < of_group))?;
    match message_at(stream, begin)?.kind {
        // The beginning of the group is gone.
        Kind::Part { part, .. } if part > 0 => Err(trimmed().into()),
        _ => Ok(begin - 1),
    }
}

/// Returns the first position in `begin..end` for which `is_before` is false, or `end`.
fn partition(
    mut begin: u64,
    mut end: u64,
    mut is_before: impl FnMut(u64) -> Result<bool, Error>,
) -> Result<u64, Error> {
    while begin < end {
        let middle = begin + (end - begin) / 2;
        match is_before(middle)? {
            true => begin = middle + 1,
            false => end = middle,
        }
    }
    Ok(begin)
}

pub(crate) fn message_at(stream: &dyn LogStream, position: u64) -> Result<Message, Error> {
    match stream.get(position)? {
        Some(bytes) => decode(position, &bytes),
        None => Err(Error::Damaged { position, damage: Damage::Gap }),
    }
}

pub(crate) fn decode(position: u64, bytes: &[u8]) -> Result<Message, Error> {
    Message::decode(bytes).map_err(|damage| Error::Damaged { position, damage })
}
