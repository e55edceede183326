//! A stream, and how long calls wait for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::stream::LogStream;

/// A stream and the patience of calls that need it. Clones share the stream.
#[derive(Clone)]
pub struct Link {
    pub(crate) stream: Arc<dyn LogStream>,
    pub(crate) patience: Duration,
}

impl Link {
    /// Creates a link with a patience of 10 seconds.
    pub fn new(stream: impl LogStream + 'static) -> Link {
        Link::shared(Arc::new(stream))
    }

    /// Creates a link to a stream that others use, too.
    pub fn shared(stream: Arc<dyn LogStream>) -> Link {
        Link { stream, patience: Duration::from_secs(10) }
    }

    /// Sets how long an opening, a promotion and a confirmation wait for the stream. Commits wait
    /// for the pool's patience: see [`lastword::Options::patience`].
    pub fn patience(mut self, patience: Duration) -> Link {
        self.patience = patience;
        self
    }

    /// Returns how long calls wait.
    pub fn waits(&self) -> Duration {
        self.patience
    }

    /// Returns the stream.
    pub fn stream(&self) -> &Arc<dyn LogStream> {
        &self.stream
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("patience", &self.patience).finish_non_exhaustive()
    }
}
