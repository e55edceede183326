//! A stream with injected faults, for tests of replication.
//!
//! | fault | the stream has the message | the caller gets |
//! |---|---|---|
//! | refused request | no | `Unreachable` |
//! | lost request | no | `Unknown` |
//! | late request | at a later call, if its position is still free | `Unknown` |
//! | lost reply | yes | `Unknown` |
//! | failed read | | `Unreachable` |
//!
//! A late request is the fault that a client's buffer or a slow network causes: a writer looks for
//! its message in vain, and the message arrives after that. The writer is safe as long as it sends
//! the same message again, since only one of the two can take the position.
//!
//! Faults depend on the seed and on the order of calls alone. No message is delivered twice:
//! compare-and-append excludes that.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{LogStream, ReadStream, StreamError};

/// Chances of faults, in thousandths, and their seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Seed of the choices.
    pub seed: u64,
    /// Chance that an append is refused before it is sent.
    pub refused_request: u32,
    /// Chance that an append is lost, and its caller does not know.
    pub lost_request: u32,
    /// Chance that an append arrives after its caller gave up.
    pub late_request: u32,
    /// Chance that the reply to an append is lost.
    pub lost_reply: u32,
    /// Chance that a read fails.
    pub failed_read: u32,
    /// Time that each call takes in addition.
    pub delay: Duration,
    /// Time that a call waits for a paused stream.
    pub patience: Duration,
}

impl Faults {
    /// Returns faults of each kind in some calls.
    pub fn of_each_kind(seed: u64) -> Faults {
        let faults = Faults { seed, refused_request: 60, lost_request: 60, ..Faults::default() };
        let faults = Faults { late_request: 60, lost_reply: 60, failed_read: 60, ..faults };
        Faults { patience: Duration::from_secs(1), ..faults }
    }
}

/// Faults that were injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Appends refused before they were sent.
    pub refused_requests: u64,
    /// Appends lost.
    pub lost_requests: u64,
    /// Appends that arrived late, and took their position.
    pub late_requests: u64,
    /// Replies lost.
    pub lost_replies: u64,
    /// Reads that failed.
    pub failed_reads: u64,
}

/// A stream with injected faults. Clones share the stream and its faults.
#[derive(Clone)]
pub struct FaultyStream {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Box<dyn LogStream>,
    state: Mutex<State>,
    resumed: Condvar,
}

struct State {
    faults: Faults,
    random: u64,
    is_paused: bool,
    /// Appends before a pause begins.
    appends_left: Option<u64>,
    late: Vec<(u64, Vec<u8>)>,
    injected: Injected,
}

impl State {
    /// Returns a number below 1000, by SplitMix64.
    fn thousandth(&mut self) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % 1000) as u32
    }
}

impl FaultyStream {
    /// Wraps a stream.
    pub fn new(inner: impl LogStream + 'static, faults: Faults) -> FaultyStream {
        let (is_paused, late, injected) = (false, Vec::new(), Injected::default());
        let (random, appends_left) = (faults.seed, None);
        let state = State { faults, random, is_paused, appends_left, late, injected };
        let (inner, state, resumed) = (Box::new(inner), Mutex::new(state), Condvar::new());
        FaultyStream { shared: Arc::new(Shared { inner, state, resumed }) }
    }

    /// Holds up all calls. They fail as unreachable after [`Faults::patience`].
    pub fn pause(&self) {
        self.lock().is_paused = true;
    }

    /// Begins a pause after `appends` appends.
    pub fn pause_after(&self, appends: u64) {
        self.lock().appends_left = Some(appends);
    }

    /// Ends the pause, also if it has not begun yet.
    pub fn resume(&self) {
        let mut state = self.lock();
        (state.is_paused, state.appends_left) = (false, None);
        drop(state);
        self.shared.resumed.notify_all();
    }

    /// Replaces the faults. The choices continue.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Returns how many faults were injected.
    pub fn injected(&self) -> Injected {
        self.lock().injected
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No call leaves the state half changed.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call: waits while the stream is paused, and delivers some late requests.
    fn begin(&self) -> Result<MutexGuard<'_, State>, StreamError> {
        let Faults { delay, patience, .. } = self.lock().faults;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let waited =
            self.shared.resumed.wait_timeout_while(self.lock(), patience, |state| state.is_paused);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return Err(StreamError::Unreachable("it is paused".to_owned()));
        }
        for (after, message) in std::mem::take(&mut state.late) {
            if state.thousandth() < 500 {
                state.late.push((after, message));
            } else if self.shared.inner.append(after, &message).is_ok() {
                state.injected.late_requests += 1;
            }
        }
        Ok(state)
    }

    fn begin_read(&self) -> Result<&dyn LogStream, StreamError> {
        let mut state = self.begin()?;
        if state.thousandth() < state.faults.failed_read {
            state.injected.failed_reads += 1;
            return Err(StreamError::Unreachable("injected fault".to_owned()));
        }
        Ok(&*self.shared.inner)
    }
}

impl LogStream for FaultyStream {
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError> {
        let (bytes, bytes_max) = (message.len(), self.message_bytes_max());
        if bytes > bytes_max {
            return Err(StreamError::TooLarge { bytes, bytes_max }); // Never sent.
        }
        let mut state = self.begin()?;
        if state.appends_left == Some(0) {
            state.is_paused = true;
            return Err(StreamError::Unreachable("it is paused".to_owned()));
        }
        state.appends_left = state.appends_left.map(|left| left - 1);
        let faults = state.faults;
        let unknown = StreamError::Unknown { after, why: "injected fault".to_owned() };
        let choice = state.thousandth();
        let mut chances = 0;
        let mut is_chosen = |chance: u32| {
            chances += chance;
            choice < chances
        };
        if is_chosen(faults.refused_request) {
            state.injected.refused_requests += 1;
            return Err(StreamError::Unreachable("injected fault".to_owned()));
        }
        if is_chosen(faults.lost_request) {
            state.injected.lost_requests += 1;
            return Err(unknown);
        }
        if is_chosen(faults.late_request) {
            state.late.push((after, message.to_vec()));
            return Err(unknown);
        }
        if is_chosen(faults.lost_reply) {
            state.injected.lost_replies += 1;
            drop(state);
            let _ = self.shared.inner.append(after, message); // This reply is the lost one.
            return Err(unknown);
        }
        drop(state);
        self.shared.inner.append(after, message)
    }

    fn bounds(&self) -> Result<(u64, u64), StreamError> {
        self.begin_read()?.bounds()
    }

    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        self.begin_read()?.get(position)
    }

    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError> {
        let reader = self.begin_read()?.read_from(after)?;
        Ok(Box::new(Reader { stream: self.clone(), reader }))
    }

    fn message_bytes_max(&self) -> usize {
        self.shared.inner.message_bytes_max()
    }

    fn warnings(&self) -> Result<Vec<String>, StreamError> {
        self.begin_read()?.warnings()
    }
}

struct Reader {
    stream: FaultyStream,
    reader: Box<dyn ReadStream>,
}

impl ReadStream for Reader {
    fn next(&mut self, patience: Duration) -> Result<Option<(u64, Vec<u8>)>, StreamError> {
        let begun = Instant::now();
        self.stream.begin_read()?;
        self.reader.next(patience.saturating_sub(begun.elapsed()))
    }
}
