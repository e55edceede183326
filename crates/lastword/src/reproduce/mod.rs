//! Reproduce: from the log to home; advances the reproduced ID and recycles the log.
//!
//! [`Reproduce::step`] takes a batch of durable groups from memory (never from the medium), writes
//! their words home in transaction ID order, and recycles. Any thread may call it; one at a time is
//! in it.
//!
//! The order of recycling; each arrow is a persist barrier:
//!
//! ```text
//!   words written home  -->  reproduced ID in the superblock  -->  log space overwritten
//! ```
//!
//! Without the first, a crash would find an ID that says that words are home which are not, and
//! without the second it would look for records in space that holds others.
//!
//! Invariants:
//! - `reproduced <= durable`: only groups that are durable are in the queue.
//! - Home holds exactly what the transactions up to some ID wrote, plus whole or partial writes of
//!   transactions after it that are all still in the log: replaying them gives the same again.
//!
//! (DudeTM, section 3.4: one barrier a batch instead of one a transaction.)

use crossbeam_utils::CachePadded;
use medium::HomeMedium;
use medium::mutants::{Mutant, planted};
use words::TxId;

use crate::Error;
use crate::metrics::StepTimer;
use crate::persist::{Persist, Queued, Step, Turn, take_turn};
use crate::superblock::Superblocks;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// The reproduce step of one pool.
pub(crate) struct Reproduce {
    reproduced: CachePadded<AtomicU64>,
    state: Mutex<State>,
    /// A batch is off the queue and not yet at home.
    working: AtomicBool,
}

/// What only one thread at a time touches.
struct State {
    home: Box<dyn HomeMedium>,
    superblocks: Superblocks,
}

impl Reproduce {
    pub(crate) fn new(home: Box<dyn HomeMedium>, superblocks: Superblocks) -> Reproduce {
        let reproduced = superblocks.current().reproduced;
        Reproduce {
            reproduced: CachePadded::new(AtomicU64::new(reproduced)),
            state: Mutex::new(State { home, superblocks }),
            working: AtomicBool::new(false),
        }
    }

    /// The last transaction that is at home, durably.
    pub(crate) fn reproduced(&self) -> TxId {
        // Acquire: pairs with the Release in `step`.
        TxId(self.reproduced.load(Ordering::Acquire))
    }

    /// Brings durable groups home: at least one if there is one, up to `log_bytes` of the log. Two
    /// persist barriers, however many transactions.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn step(
        &self,
        persist: &Persist,
        log_bytes: u64,
        timer: StepTimer,
    ) -> Result<Step, Error> {
        persist.progress.poison.check()?;
        // Not even a turn: whoever looks in vain while the log is full of what is under way would
        // wake others to do the same.
        if persist.queue.is_empty() {
            // Acquire: pairs with the Release below. Whoever sees it set sleeps until that turn is
            // over; it is cleared before that is told.
            let working = self.working.load(Ordering::Acquire);
            return Ok(if working { Step::Busy } else { Step::Nothing });
        }
        // The lock before the queue: two threads must not take batches and apply them out of order.
        take_turn(&self.state, &persist.progress, Turn::Awaited, |state| {
            self.working.store(true, Ordering::Release);
            let batch = persist.queue.take(log_bytes);
            if batch.is_empty() {
                self.working.store(false, Ordering::Release);
                return Ok(Step::Nothing);
            }
            let panic = persist.progress.poison.on_panic("reproduce");
            let started = timer.start();
            let done = self.bring_home(state, &batch);
            let done = done.map_err(|error| persist.progress.poison.put(error.into()));
            persist.meter.reproduce.add(&started);
            panic.disarm();
            self.working.store(false, Ordering::Release);
            let (last, end) = done?;
            // Release: whoever sees the reproduced ID may read home.
            self.reproduced.store(last, Ordering::Release);
            persist.queue.recycle(batch, end);
            Ok(Step::Done)
        })
    }

    fn bring_home(&self, state: &mut State, batch: &[Queued]) -> Result<(u64, u64), medium::Error> {
        let mut last = self.reproduced.load(Ordering::Relaxed);
        let mut end = 0;
        for queued in batch {
            let flight = queued.flight;
            assert_eq!(flight.first, last + 1, "transactions come home in ID order");
            state.home.write_back(queued.writes())?;
            (last, end) = (flight.last, flight.end);
        }
        if !planted(Mutant::HeadBeforeHome) {
            state.home.barrier()?;
        }
        state.superblocks.update(|now| {
            now.reproduced = last;
            now.log_sequence = end;
        })?;
        if planted(Mutant::HeadBeforeHome) {
            state.home.barrier()?;
        }
        Ok((last, end))
    }

    /// Marks the pool as left in good order: nothing needs to be recovered. The queue is empty.
    pub(crate) fn close(&self) -> Result<(), medium::Error> {
        lock(&self.state).superblocks.update(|now| now.clean = true)
    }

    /// What home and the superblocks have cost so far.
    pub(crate) fn counts(&self) -> medium::Counts {
        let state = lock(&self.state);
        let (mut counts, marks) = (state.home.counts(), state.superblocks.counts());
        counts.bytes += marks.bytes;
        counts.device_writes += marks.device_writes;
        counts.persist_barriers += marks.persist_barriers;
        counts.emulated_delay_ns += marks.emulated_delay_ns;
        counts
    }
}
