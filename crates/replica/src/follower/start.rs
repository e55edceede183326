//! The place in the stream where a closed pool begins to follow.

use lastword::TxId;
use lastword::replication::Log;
use system::mutants::{Mutant, injected};

use crate::error::Error;
use crate::history::{End, bytes_before, position_before};
use crate::message::Term;
use crate::primary::are_copies;
use crate::stream::LogStream;

/// The place where a follower begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The position of the last message that it does not read.
    pub(super) position: u64,
    /// The last transaction of the pool that the stream has, too.
    pub(super) last: TxId,
    /// Bytes of words of the stream up to the position.
    pub(super) total_bytes: u64,
    /// The last term of this pool, and the transaction with which its log must end, if the pool was
    /// the primary and has not followed since.
    pub(super) deposed: Option<(Term, TxId)>,
}

impl Start {
    /// Finds the place of a closed pool with this log.
    ///
    /// # Errors
    /// As [`Follower::open`](super::Follower::open). A stale end of the stream may be the cause of
    /// [`Error::Ahead`] and [`Error::IsPrimary`].
    pub(super) fn of(log: &Log, stream: &dyn LogStream) -> Result<Start, Error> {
        let (pool, generation) = log.writer;
        let end = End::of(stream)?.ok_or(Error::Empty)?;
        let primary = end.term.writer.pool;
        if !are_copies(primary, pool) {
            return Err(Error::OtherPool { pool, found: primary });
        }
        if primary == pool {
            return Err(Error::IsPrimary { term: end.term.number });
        }
        let deposed = end.past_term_of(pool, stream)?.filter(|(term, _)| {
            generation <= term.writer.generation && !injected(Mutant::FormerPrimaryTrusted)
        });
        let last = deposed.map_or(log.last, |(_, complete)| log.last.min(complete));
        if last > end.complete {
            return Err(Error::Ahead { reproduced: last, replicated: end.complete });
        }
        let position = position_before(stream, last)?;
        let total_bytes = bytes_before(stream, position)?;
        Ok(Start { position, last, total_bytes, deposed })
    }
}
