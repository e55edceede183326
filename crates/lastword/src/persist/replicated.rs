//! The replicated watermark: the last transaction that a required stream has.
//!
//! ```text
//!   durable groups   -->  queue  --copied by the feed-->  stream on other machines
//!                           |                                |
//!   heap image       <--taken off up to the watermark   <----+ confirmed
//! ```
//!
//! While a stream is required, reproduction takes a group only after the stream has it. So the heap
//! image has no transaction that is in no replica, and the log keeps all that the stream lacks.
//!
//! Orders:
//! - *Queued before the feed is woken* (`has_queued`): the feed reads the epoch of `queued` before
//!   it looks into the queue, as each waiter of an [`Event`].
//! - *The queue opens before the watermark advances* (`Queue::has_replicated`): a thread that has
//!   seen the watermark, and then reproduces, finds the groups up to it.

use std::time::{Duration, Instant};

use super::event::Event;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// The replicated watermark of a pool, and the threads that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Replicated {
    /// Whether reproduction waits for a stream. Constant after the opening.
    required: bool,
    /// How long a thread waits for the stream.
    patience: Duration,
    /// Bytes of durable writes that the stream may lack.
    max_lag: u64,
    id: AtomicU64,
    /// Whether a feed exists.
    fed: AtomicBool,
    /// Whether the pool has shut down.
    closed: AtomicBool,
    /// The watermark at which threads wait for the stream, and since when.
    held: Mutex<Option<(u64, Instant)>>,
    /// A group was queued.
    pub(crate) queued: Event,
    /// The watermark has advanced, or the feed has ended.
    pub(crate) moved: Event,
}

impl Replicated {
    /// Requires a stream, which has all transactions up to `last`. `limits` is the time that
    /// threads wait for the stream, and the bytes that it may lack. `None`: no stream is required.
    pub(crate) fn require(&mut self, last: u64, limits: Option<(Duration, u64)>) {
        if let Some((patience, max_lag)) = limits {
            (self.required, self.patience, self.max_lag) = (true, patience, max_lag);
            self.id.store(last, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn is_required(&self) -> bool {
        self.required
    }

    /// How long a thread waits for the stream.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Bytes of durable writes that the stream may lack.
    pub(crate) fn max_lag(&self) -> u64 {
        self.max_lag
    }

    /// Returns the last transaction that the stream has.
    pub(crate) fn id(&self) -> u64 {
        // Acquire: pairs with the Release in `advance`.
        self.id.load(Ordering::Acquire)
    }

    /// Advances the watermark.
    pub(crate) fn advance(&self, id: u64) {
        // Release: a thread that sees the ID finds the queue open up to it.
        self.id.fetch_max(id, Ordering::Release);
        self.moved.notify();
    }

    /// Notes that no thread waits for the stream.
    pub(crate) fn goes_on(&self) {
        *lock(&self.held) = None;
    }

    /// Whether threads have waited for the stream for longer than the patience, without any
    /// progress of it. The first call at a watermark begins the wait.
    pub(crate) fn is_out_of_patience(&self) -> bool {
        let (mut held, id) = (lock(&self.held), self.id());
        let since = match *held {
            Some((at, since)) if at == id => since,
            _ => held.insert((id, Instant::now())).1,
        };
        since.elapsed() >= self.patience
    }

    /// Notes that the pool has shut down, and wakes every waiter.
    pub(crate) fn close(&self) {
        // Release, then notify: a thread that wakes sees the flag.
        self.closed.store(true, Ordering::Release);
        self.queued.notify();
        self.moved.notify();
    }

    /// Whether the pool has shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Wakes the feed after a group was queued.
    #[inline]
    pub(crate) fn has_queued(&self) {
        if self.required {
            self.queued.notify();
        }
    }

    /// Notes that a feed begins. Returns false if there is one.
    pub(crate) fn begin_feed(&self) -> bool {
        !self.fed.swap(true, Ordering::AcqRel)
    }

    /// Notes that the feed has ended, and wakes the threads that wait for it.
    pub(crate) fn end_feed(&self) {
        self.fed.store(false, Ordering::Release);
        self.moved.notify();
    }

    /// Whether a feed exists.
    pub(crate) fn is_fed(&self) -> bool {
        self.fed.load(Ordering::Acquire)
    }
}
