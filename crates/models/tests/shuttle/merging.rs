//! All steps before the medium together: workers that commit and abort, rings so small that workers
//! must wait and help, the persist thread with its naps and sleeps, and the merge. The log is a
//! list.

use super::perform::{Redo, Stm, Tm};
use super::persist::background::{Background, Notifiers, Steps};
use super::persist::merge::Merge;
use super::persist::slot::{RingRedo, Slot, frontier};
use super::persist::waiters::{StepEnd, help_until, try_step};
use super::persist::{Progress, Step};
use std::collections::VecDeque;

use crate::Error;
use crate::ring::Ring;
use crate::schedules::{Dice, explore};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock, thread};
use models::oracle::{self, Attempt};
use models::outcomes::Outcomes;
use real_log::{Group, Transactions};
use real_medium::Buffer;
use words::{Stop, TxId};

const WORKERS: usize = 2;
const TRANSACTIONS: usize = 4;
const HEAP_WORDS: usize = 16;
/// Room for two or three records.
const RING_WORDS: usize = 16;
/// Room in a group for two or three records.
const GROUP_WORDS: usize = 24;

type Words = Box<[AtomicU64]>;

/// The largest number of groups in flight.
const DEPTH: usize = 2;

struct Pipeline {
    stm: Stm,
    heap: Words,
    slots: Mutex<Vec<Arc<Slot<Words>>>>,
    sending: Mutex<Sending>,
    in_flight: Mutex<VecDeque<Vec<Record>>>,
    /// The durable records. The lock is held while groups are acknowledged.
    log: Mutex<Vec<Record>>,
    progress: Progress,
    notifiers: Notifiers,
    met: Outcomes,
}

/// A transaction's ID and its runs.
type Record = (u64, Vec<u64>);

#[derive(Default)]
struct Sending {
    merge: Merge,
    merged: u64,
}

impl Pipeline {
    /// The persist step, in the same order as in the product.
    fn step(&self) -> Result<Step, Error> {
        let sent = try_step(&self.sending, &self.progress, StepEnd::Unawaited, |sending, _| {
            Ok::<_, Error>(self.send(sending))
        })?;
        if lock(&self.in_flight).is_empty() {
            return Ok(Step::of_both(sent, Step::Nothing, StepEnd::Unawaited));
        }
        let acknowledged = try_step(&self.log, &self.progress, StepEnd::Awaited, |log, _| {
            Ok::<_, Error>(self.acknowledge(log))
        })?;
        Ok(Step::of_both(sent, acknowledged, StepEnd::Unawaited))
    }

    fn send(&self, sending: &mut Sending) -> Step {
        let now = self.stm.clock().load(Ordering::Acquire);
        if now == sending.merged {
            return Step::Nothing;
        }
        if lock(&self.in_flight).len() == DEPTH {
            self.met.saw(DEEP);
            return Step::HeldBack;
        }
        let mut slots = lock(&self.slots);
        let Sending { merge, merged } = sending;
        let frontier = frontier(self.stm.clock(), &slots, now, &mut merge.cursors);
        let mut group = Group::new(Buffer::new(GROUP_WORDS));
        if frontier > *merged {
            merge.run(&slots, *merged, frontier, &mut group, GROUP_WORDS);
        }
        slots.retain(|slot| !slot.is_done());
        drop(slots);
        if group.is_empty() {
            return Step::Nothing;
        }
        *merged = group.last().0;
        if *merged < frontier {
            self.met.saw(CUT);
        }
        let records = Transactions::new(group.payload(), group.first().0);
        let records = records.map(|(id, runs)| (id.0, runs.to_vec())).collect();
        lock(&self.in_flight).push_back(records);
        Step::Done
    }

    fn acknowledge(&self, log: &mut Vec<Record>) -> Step {
        thread::yield_now(); // the device takes its time
        let Some(records) = lock(&self.in_flight).pop_front() else { return Step::Nothing };
        log.extend(records);
        self.progress.advance(log.last().map_or(0, |record| record.0));
        Step::Done
    }

    fn help<R>(&self, id: u64, done: impl FnMut() -> Option<R>) -> R {
        let step = || {
            let step = self.step();
            if let Ok(Step::Busy) = step {
                self.met.saw(BUSY);
            }
            step
        };
        help_until(&self.progress, id, done, step).expect("a step cannot fail")
    }

    fn wait(&self, id: u64) {
        self.help(id, || (self.progress.durable() >= id).then_some(()));
    }
}

impl Steps for Pipeline {
    fn persist_step(&self) -> Result<Step, Error> {
        self.step()
    }

    fn reproduce_if_due(&self) -> Result<Step, Error> {
        Ok(Step::Nothing)
    }

    fn reproduce_step(&self) -> Result<Step, Error> {
        Ok(Step::Nothing)
    }

    fn part_step(&self) -> Result<Step, Error> {
        Ok(Step::Nothing)
    }

    fn reproduce_threads(&self) -> usize {
        1
    }

    fn clock(&self) -> &AtomicU64 {
        self.stm.clock()
    }

    fn durable(&self) -> u64 {
        self.progress.durable()
    }

    fn notifiers(&self) -> &Notifiers {
        &self.notifiers
    }

    fn reproduces_apart(&self) -> bool {
        false
    }
}

pub(crate) fn merged_log_is_the_history() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(30_000, move |seed| run(seed, &seen));
    met.are([RING_FULL, WAITED, BUSY, HOLE, CUT, LAST, DEEP]);
}

/// A worker helped because its ring was full.
const RING_FULL: u64 = 0;
/// A worker helped until its transaction was durable.
const WAITED: u64 = 1;
/// A step was busy.
const BUSY: u64 = 2;
/// An ID without writes was merged.
const HOLE: u64 = 3;
/// A group was closed before the frontier.
const CUT: u64 = 4;
/// The last record was left to the background thread.
const LAST: u64 = 5;

/// The largest number of groups was in flight.
const DEEP: u64 = 6;

fn run(seed: u64, met: &Outcomes) {
    let slots: Vec<_> =
        (0..WORKERS).map(|_| Arc::new(Slot::new(Ring::new(words(RING_WORDS))))).collect();
    let pipeline = Arc::new(Pipeline {
        stm: Stm::sized(HEAP_WORDS, 0).expect("there is memory"),
        heap: words(HEAP_WORDS),
        slots: Mutex::new(slots.clone()),
        sending: Mutex::default(),
        in_flight: Mutex::default(),
        log: Mutex::default(),
        progress: Progress::new(0),
        notifiers: Notifiers::default(),
        met: met.clone(),
    });
    let background = Background::spawn(&pipeline).expect("the thread is spawned");
    let workers: Vec<_> = slots
        .into_iter()
        .enumerate()
        .map(|(number, slot)| {
            let pipeline = Arc::clone(&pipeline);
            thread::spawn(move || work(&pipeline, slot, number, seed))
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker ends");
    }
    // No worker helps here, so a commit must have woken the sleeping thread for the last record
    // too.
    let committed = pipeline.stm.clock().load(Ordering::Acquire);
    loop {
        let epoch = pipeline.progress.epoch();
        if pipeline.durable() >= committed {
            break;
        }
        pipeline.met.saw(LAST);
        pipeline.progress.sleep(epoch, committed);
    }
    pipeline.notifiers.close();
    background.join();
    check(&pipeline, committed);
}

fn check(pipeline: &Pipeline, committed: u64) {
    let log = lock(&pipeline.log);
    assert!(log.iter().map(|record| record.0).eq(1..=committed), "{log:?}");
    let record = |(id, record): &Record| Attempt {
        id: *id,
        writes: crate::history::writes(record),
        ..Attempt::default()
    };
    let history: Vec<Attempt> = log.iter().map(record).collect();
    if history.iter().any(|attempt| attempt.writes.is_empty()) {
        pipeline.met.saw(HOLE);
    }
    let heap: Vec<u64> = pipeline.heap.iter().map(|word| word.load(Ordering::Relaxed)).collect();
    oracle::check(&history, &heap);
    assert!(lock(&pipeline.slots).iter().all(|slot| slot.is_done()), "rings are drained");
}

fn words(count: usize) -> Words {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

fn work(pipeline: &Pipeline, slot: Arc<Slot<Words>>, number: usize, seed: u64) {
    let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(number as u64 + 1));
    let mut redo = RingRedo::new(slot);
    let mut state = pipeline.stm.attempt(number);
    for _ in 0..TRANSACTIONS {
        let wanted = std::mem::take(&mut redo.wanted);
        if !redo.has_room(wanted) {
            pipeline.met.saw(RING_FULL);
            pipeline.help(0, || redo.has_room(wanted).then_some(()));
            redo.wanted = 0;
        }
        let (stm, heap) = (&pipeline.stm, &pipeline.heap);
        stm.begin(&mut state);
        let ended = body(pipeline, &mut state, &mut dice);
        let committed = ended.and_then(|()| stm.commit(&mut state, heap, &mut redo));
        match committed {
            Ok(id) if dice.below(4) == 0 => {
                pipeline.met.saw(WAITED);
                pipeline.wait(id.0);
            }
            Ok(_) => pipeline.notifiers.committed(),
            Err(_) => {
                stm.roll_back(&mut state, heap, &mut redo);
                pipeline.notifiers.committed();
            }
        }
    }
    redo.slot.close();
}

fn body(
    pipeline: &Pipeline,
    state: &mut <Stm as Tm>::Attempt,
    dice: &mut Dice,
) -> Result<(), Stop> {
    for _ in 0..1 + dice.below(3) {
        let word = [0, 1, 8][dice.below(3) as usize];
        let value = pipeline.stm.read(state, &pipeline.heap, word)?;
        pipeline.stm.write(state, &pipeline.heap, word, 8 * value + dice.below(7) + 1)?;
    }
    if dice.below(6) == 0 { Err(Stop::Aborted) } else { Ok(()) }
}
