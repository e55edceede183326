//! The error of a pool that cannot close yet.

use std::fmt;
use std::time::Duration;

/// The users of a pool that [`Pool::close_shared`](crate::Pool::close_shared) has waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StillUsed {
    /// Registered workers, those of running [`Pool::run`](crate::Pool::run) calls included.
    pub workers: usize,
    /// Running calls that use no worker, such as a flush, a view's read or a backup.
    pub calls: u64,
    /// How long the call waited; see [`Options::patience`](crate::Options::patience).
    pub waited: Duration,
}

impl fmt::Display for StillUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StillUsed { workers, calls, waited } = self;
        write!(
            f,
            "cannot close the pool: {workers} workers are registered and {calls} other calls run \
             after a wait of {waited:?}; drop the workers and close it again"
        )
    }
}

impl std::error::Error for StillUsed {}
