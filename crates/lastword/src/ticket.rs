//! Tickets: when is a transaction durable?

use std::fmt;

use words::TxId;

use crate::design::{Decoupled, Design};
use crate::inside::Inside;
use crate::{Error, Pool};

/// Tells when a transaction can no longer be lost.
///
/// A transaction that wrote nothing has one too: it is durable when everything that it may have
/// seen is, so that a program never shows the world what a crash could still take back.
pub struct Ticket<'p, D: Design = Decoupled> {
    pool: &'p Pool<D>,
    id: TxId,
}

impl<'p, D: Design> Ticket<'p, D> {
    pub(crate) fn new(pool: &'p Pool<D>, id: TxId) -> Ticket<'p, D> {
        Ticket { pool, id }
    }

    /// The transaction's ID; for one that wrote nothing, that of the last one it may have seen.
    #[inline]
    pub fn id(self) -> TxId {
        self.id
    }

    /// Whether it is durable. Costs a load.
    #[inline]
    pub fn is_durable(self) -> bool {
        self.pool.durable_id() >= self.id
    }

    /// Waits until it is durable. Whoever waits helps: with nobody else at it, the caller writes
    /// the log itself, and all that is committed by then shares its one persist barrier.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the medium failed, in this thread or another;
    /// [`Error::InsideTransaction`] in a body; [`Error::NotDurable`] for designs that keep nothing.
    pub fn wait(self) -> Result<(), Error> {
        Inside::refuse("wait")?;
        self.pool.wait_for(self.id)
    }
}

impl<D: Design> Clone for Ticket<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D: Design> Copy for Ticket<'_, D> {}

impl<D: Design> fmt::Debug for Ticket<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).field("durable", &self.is_durable()).finish()
    }
}
