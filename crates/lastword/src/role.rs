//! The part of a pool in a set of replicas.

use words::TxId;

/// The part of a pool in a set of replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplicationRole {
    /// None.
    #[default]
    Alone,
    /// Its log is copied to a stream.
    Primary,
    /// It applies the groups of another pool.
    Follower {
        /// The opening drops all later transactions of the log.
        keep: Option<TxId>,
    },
}
