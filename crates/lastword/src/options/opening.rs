//! Progress of an opening.

use super::Options;
use crate::opening::{OnOpening, Opening};

impl Options {
    /// Calls a function while the pool is opened: when a step begins that reads or writes much, and
    /// then about ten times a second with the time that the step still takes. Default: none.
    ///
    /// The thread that opens the pool calls it.
    /// [`Pool::create`](crate::Pool::create) opens the pool
    /// that it has made, too. Designs that are not durable do not call it.
    ///
    /// ```
    /// use lastword::{Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("bank.pool");
    /// # Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?.close()?;
    /// let options = Options::new().on_opening(|opening| {
    ///     if let Some(remaining) = opening.remaining {
    ///         eprintln!("{:?}: {:.0} s left", opening.step, remaining.as_secs_f64());
    ///     }
    /// });
    /// let pool = Pool::open(&path, options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_opening(mut self, observer: impl Fn(Opening) + Send + Sync + 'static) -> Options {
        self.on_opening = OnOpening::new(observer);
        self
    }
}
