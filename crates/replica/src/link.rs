//! A stream, and how long calls wait for it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::stream::LogStream;

/// The sleep after a failure of the stream.
const BACKOFF: Duration = Duration::from_millis(50);

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

    /// Repeats a call while the stream cannot be reached, for at most the patience.
    pub(crate) fn retrying<T>(
        &self,
        mut call: impl FnMut(&dyn LogStream) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let begun = Instant::now();
        loop {
            match call(&*self.stream) {
                Err(Error::Stream(error))
                    if error.is_transient() && begun.elapsed() < self.patience =>
                {
                    std::thread::sleep(BACKOFF);
                }
                done => return done,
            }
        }
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
