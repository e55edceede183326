//! The part of a pool in a set of replicas.

/// The part of a pool in a set of replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplicationRole {
    /// None.
    #[default]
    Alone,
    /// Its log is copied to a stream.
    Primary,
    /// It applies the groups of another pool.
    Follower,
}
