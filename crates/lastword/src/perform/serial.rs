//! `serial`: one lock around each transaction. Simple enough to serve as the reference in tests of
//! other transactional memories.

use std::collections::HashMap;

use medium::mutants::{Mutant, injected};

use super::write_set::{Entry, STRIPE_SHIFT, WriteSet, in_stripe, record_words_max};
use super::{Redo, Space, StarvationLock, Tm, Written};
use crate::Error;
use crate::sync::{AtomicBool, AtomicU64, Ordering, spin_loop, thread};
use words::{Stop, TxId};

/// The transactional memory.
#[derive(Debug)]
pub struct Serial {
    clock: AtomicU64,
    held: AtomicBool,
    starvation_lock: StarvationLock,
}

/// The running transaction of one worker. It holds the lock from `begin` to its end.
#[derive(Debug, Default)]
pub struct Attempt {
    written: WriteSet,
    /// Index of each written stripe's entry.
    entry_of: HashMap<usize, usize>,
}

impl Attempt {
    fn touched(&self, space: &mut impl Space, id: TxId) {
        for entry in &self.written.entries {
            space.touched(entry.stripe << STRIPE_SHIFT, id);
        }
    }
}

impl Serial {
    fn release(&self, attempt: &mut Attempt) {
        attempt.written.clear();
        attempt.entry_of.clear();
        // Release: the next holder sees all stores. Pairs with `begin`.
        self.held.store(false, Ordering::Release);
    }

    fn assign(&self, redo: &mut impl Redo) -> TxId {
        redo.assigning(self.clock.load(Ordering::Relaxed));
        // AcqRel: shows what `assigning` announced to the persist step, which reads the clock
        // without the lock.
        TxId(self.clock.fetch_add(1, Ordering::AcqRel) + 1)
    }
}

impl Tm for Serial {
    const NAME: &'static str = "serial";
    type Attempt = Attempt;

    fn sized(_heap_words: usize, _records: u64) -> Result<Serial, Error> {
        let (clock, held) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Serial { clock, held, starvation_lock: StarvationLock::default() })
    }

    fn attempt(&self, _worker: usize) -> Attempt {
        Attempt::default()
    }

    fn clock(&self) -> &AtomicU64 {
        &self.clock
    }

    fn starvation_lock(&self) -> &StarvationLock {
        &self.starvation_lock
    }

    fn begin(&self, _attempt: &mut Attempt) {
        let mut tries = 0_u32;
        // Acquire: pairs with `release`.
        while self.held.swap(true, Ordering::Acquire) && !injected(Mutant::SerialDoesNotWait) {
            tries += 1;
            if tries.is_multiple_of(64) { thread::yield_now() } else { spin_loop() }
        }
    }

    fn read(
        &self,
        _attempt: &mut Attempt,
        mut space: impl Space,
        index: usize,
    ) -> Result<u64, Stop> {
        space.load(index)
    }

    fn read_run(
        &self,
        _attempt: &mut Attempt,
        mut space: impl Space,
        index: usize,
        out: &mut [u64],
    ) -> Result<(), Stop> {
        let (mut at, mut rest) = (index, out);
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(in_stripe(at, rest.len()));
            space.load_run(at, now)?;
            (at, rest) = (at + now.len(), later);
        }
        Ok(())
    }

    fn write(
        &self,
        attempt: &mut Attempt,
        space: impl Space,
        index: usize,
        value: u64,
    ) -> Result<(), Stop> {
        self.write_run(attempt, space, index, &[value])
    }

    fn write_run(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        index: usize,
        values: &[u64],
    ) -> Result<(), Stop> {
        let (mut at, mut rest) = (index, values);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(in_stripe(at, rest.len()));
            let stripe = at >> STRIPE_SHIFT;
            space.open(stripe << STRIPE_SHIFT)?;
            let entries = &mut attempt.written.entries;
            let entry = *attempt.entry_of.entry(stripe).or_insert_with(|| {
                entries.push(Entry { stripe, version: 0, mask: 0, owner: 0, next: 0 });
                entries.len() - 1
            });
            attempt.written.write_run(entry, &mut space, at, now)?;
            (at, rest) = (at + now.len(), later);
        }
        Ok(())
    }

    fn will_read(&self, _space: impl Space, _index: usize, _words: usize) {}

    fn will_write(&self, _space: impl Space, _index: usize, _words: usize) {}

    fn words_written(&self, attempt: &Attempt) -> usize {
        attempt.written.words()
    }

    fn commit(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        redo: &mut impl Redo,
    ) -> Result<TxId, Stop> {
        if attempt.written.entries.is_empty() {
            let seen = TxId(self.clock.load(Ordering::Relaxed));
            self.release(attempt);
            return Ok(seen);
        }
        if !redo.has_room(record_words_max(attempt.written.words())) {
            return Err(Stop::Conflict);
        }
        let id = self.assign(redo);
        redo.record(id, Written::new(&attempt.written, &space));
        attempt.touched(&mut space, id);
        self.release(attempt);
        Ok(id)
    }

    fn roll_back(
        &self,
        attempt: &mut Attempt,
        mut space: impl Space,
        _redo: &mut impl Redo,
    ) -> TxId {
        attempt.written.restore(&mut space);
        let seen = TxId(self.clock.load(Ordering::Relaxed));
        attempt.touched(&mut space, seen);
        self.release(attempt);
        seen
    }
}
