//! Options of a pool that is copied to other machines, or that is such a copy.

use std::time::Duration;

use words::TxId;

use super::{Options, Shadow};
use crate::error::Error;
use crate::role::ReplicationRole;

impl Options {
    /// Returns how long threads wait for a stream, and how many bytes it may lack; `None`: no
    /// stream is required.
    pub(crate) fn stream_limits(&self) -> Option<(Duration, u64)> {
        let is_required = self.replication == ReplicationRole::Primary;
        is_required.then_some((self.patience, self.max_lag))
    }

    /// Returns the transaction after which the opening drops the log.
    pub(crate) fn kept(&self) -> Option<TxId> {
        match self.replication {
            ReplicationRole::Follower { keep } => keep,
            _ => None,
        }
    }

    /// Checks that a pool of this design with these options can be replicated, if it is to be.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub(crate) fn check_role(&self, design: &'static str) -> Result<(), Error> {
        let (option, value) = match self.replication {
            ReplicationRole::Alone => return Ok(()),
            ReplicationRole::Primary => ("replicated", 1),
            ReplicationRole::Follower { .. } => ("following", 1),
        };
        let must = if design != "decoupled" || self.shadow != Shadow::Full {
            "only `decoupled` with a full shadow is replicated"
        } else if self.group > 0 {
            "combined groups are not replicated; open the pool without `group`"
        } else if self.unbounded {
            "rings without a bound are not replicated; open the pool without `unbounded`"
        } else if self.ideal_reproduce {
            "ideal reproduction is not replicated"
        } else if !self.migrations.is_empty() {
            "migrate the pool without it, and make new followers from a backup"
        } else {
            return Ok(());
        };
        Err(Error::BadOption { option, value, must })
    }

    /// Makes reproduction wait for a stream of the log on other machines, which a
    /// [`Feed`](crate::replication::Feed) reads. Reproduction applies only replicated transactions,
    /// and the log keeps the rest. If the log is full, a transaction waits at its begin. After
    /// [`patience`](Options::patience) without a confirmation it returns
    /// [`Stalled`](crate::ReplicationError::Stalled), without an effect. A wait for a committed
    /// transaction, also that of a commit with [`Durability::Sync`](crate::Durability::Sync), then
    /// returns [`Undurable`](crate::ReplicationError::Undurable): the transaction has its effect,
    /// and becomes durable when the stream goes on.
    ///
    /// [`Pool::checkpoint`](crate::Pool::checkpoint), views, backups and the shutdown wait for the
    /// stream, too, for at most as long. Without a feed they return
    /// [`Behind`](crate::ReplicationError::Behind) at once.
    ///
    /// The opening counts each recovered transaction as replicated: see
    /// [`read_log`](crate::replication::read_log). Only for [`Decoupled`](crate::Decoupled),
    /// without [groups](Options::group) and migrations. Does not persist: each opening sets it. Of
    /// this and [`following`](Options::following), the last call with `true` counts.
    pub fn replicated(self, replicated: bool) -> Options {
        self.with_role(ReplicationRole::Primary, replicated)
    }

    /// Sets how many bytes of durable writes a required stream may lack. The pool keeps them in
    /// memory, decoded, until the stream has them. Beyond that, transactions wait as for a full
    /// log: see [`replicated`](Options::replicated). Default: as many as fit in the log. The stream
    /// may lack one larger group, and a group grows while it waits. Does not persist.
    pub fn max_lag(mut self, bytes: u64) -> Options {
        self.max_lag = bytes;
        self
    }

    /// Opens the pool as a follower: only an [`Applier`](crate::replication::Applier) writes, which
    /// applies the groups of another pool with their transaction IDs. All other transactions are
    /// read-only, and a write is [`Following`](crate::ReplicationError::Following). To write to the
    /// pool, close it and open it again without this.
    ///
    /// The pool must be a backup of the other one, or have followed it since such a backup. Groups
    /// carry no pool ID: a pool that follows any other primary is corrupted without an error.
    ///
    /// For the same pools as [`replicated`](Options::replicated). Does not persist.
    pub fn following(self, following: bool) -> Options {
        let keep = self.kept();
        self.with_role(ReplicationRole::Follower { keep }, following)
    }

    /// Opens a deposed primary as a follower: as with [`following`](Options::following), but the
    /// opening drops the transactions after `last` from the log, durably. `last` is the end of the
    /// last group that the stream has of this pool, or a later transaction, which drops nothing.
    /// The pool then continues with the transactions of the new primary.
    ///
    /// The heap image must have no dropped transaction. It has none if every opening since the pool
    /// last equalled the stream succeeded and used [`replicated`](Options::replicated) or
    /// [`following`](Options::following). Any other opening applies the log to the heap image, in
    /// part even if the opening fails or the process ends. After such an opening, replace the pool
    /// by a backup of the primary.
    ///
    /// A crash during the opening leaves the pool unchanged, or without the dropped transactions.
    /// Repeat the opening with the same `last`: an opening without `rejoining` applies the whole
    /// log. Later openings use [`following`](Options::following).
    ///
    /// [`Pool::open`](crate::Pool::open) returns
    /// [`ReplicationError::Ahead`](crate::ReplicationError::Ahead) or
    /// [`ReplicationError::Inside`](crate::ReplicationError::Inside) if it cannot drop the
    /// transactions, and then changes nothing. [`Pool::create`](crate::Pool::create) refuses this
    /// option.
    pub fn rejoining(self, last: TxId) -> Options {
        self.with_role(ReplicationRole::Follower { keep: Some(last) }, true)
    }

    fn with_role(mut self, role: ReplicationRole, has: bool) -> Options {
        if has {
            self.replication = role;
        } else if self.replication == role {
            self.replication = ReplicationRole::Alone;
        }
        self
    }
}
