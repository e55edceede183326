//! A stream, and how long calls wait for it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::stream::{LogStream, ReadStream, StreamError};

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
    ///
    /// An opening that searches the stream waits as long for each read. It waits as long before it
    /// refuses a pool, too: a server that lags may hide the messages that the pool needs.
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
        let is_transient =
            |error: &Error| matches!(error, Error::Stream(error) if error.is_transient());
        self.repeat(is_transient, || call(&*self.stream))
    }

    /// Repeats a call while its error may be the consequence of a stale end of the stream, for at
    /// most the patience.
    pub(crate) fn settling<T>(&self, call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        self.repeat(Error::may_be_stale, call)
    }

    /// Returns the stream with reads that are repeated while it cannot be reached, each for at most
    /// the patience. A search of many reads goes on after a failed one.
    pub(crate) fn patient(&self) -> Patient<'_> {
        Patient(self)
    }

    fn repeat<T, E>(
        &self,
        helps: impl Fn(&E) -> bool,
        mut call: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let begun = Instant::now();
        loop {
            match call() {
                Err(error) if helps(&error) && begun.elapsed() < self.patience => {
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

/// See [`Link::patient`].
pub(crate) struct Patient<'l>(&'l Link);

impl Patient<'_> {
    fn read<T>(
        &self,
        mut read: impl FnMut(&dyn LogStream) -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        self.0.repeat(StreamError::is_transient, || read(&*self.0.stream))
    }
}

impl LogStream for Patient<'_> {
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError> {
        self.0.stream.append(after, message)
    }

    fn bounds(&self) -> Result<(u64, u64), StreamError> {
        self.read(|stream| stream.bounds())
    }

    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        self.read(|stream| stream.get(position))
    }

    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError> {
        self.read(|stream| stream.read_from(after))
    }

    fn message_bytes_max(&self) -> usize {
        self.0.stream.message_bytes_max()
    }

    fn warnings(&self) -> Result<Vec<String>, StreamError> {
        self.read(|stream| stream.warnings())
    }
}
