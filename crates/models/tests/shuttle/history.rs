//! Transactional memories with three workers. The oracle checks the reads and writes of every
//! attempt.

use super::perform::{Heap, Redo, Serial, Space, Stm, Tm, Written};
use crate::schedules::{Dice, explore};
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::oracle::{self, Attempt};
use models::outcomes::Outcomes;
use real_medium::writes::{Piece, Pieces};
use words::{Stop, TxId};

const WORKERS: usize = 3;
const TRANSACTIONS: usize = 4;
/// Attempts at one transaction before it is abandoned. Conflicts are as useful as commits.
const ATTEMPTS: usize = 3;

/// Four stripes. A memory for half as many words has two stripes per ownership record.
pub(crate) const HEAP_WORDS: usize = 32;
const PLACES: [usize; 6] = [0, 1, 8, 9, 16, 24];

pub(crate) fn stm_is_serializable_in_id_order() {
    let all = [WROTE, READ, GAVE_UP, GAVE_UP + HOLE, ABORTED, ABORTED + HOLE];
    schedules::<Stm>(30_000, HEAP_WORDS, &all);
    // Two ownership records for four stripes.
    schedules::<Stm>(10_000, HEAP_WORDS / 2, &all);
}

pub(crate) fn serial_is_serializable_in_id_order() {
    schedules::<Serial>(5_000, HEAP_WORDS, &[WROTE, READ, ABORTED]);
}

/// The outcomes of an attempt. `HOLE` is added when a rolled-back attempt has an ID.
const WROTE: u64 = 0;
const READ: u64 = 1;
const GAVE_UP: u64 = 2;
const ABORTED: u64 = 4;
const HOLE: u64 = 1;

fn schedules<T: Tm>(schedules: usize, memory_words: usize, outcomes: &[u64]) {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(schedules, move |seed| run::<T>(memory_words, seed, &seen));
    met.are(outcomes.iter().copied());
}

fn run<T: Tm>(memory_words: usize, seed: u64, met: &Outcomes) {
    let memory = Arc::new(T::sized(memory_words, 0).expect("there is memory"));
    let heap: Arc<[AtomicU64]> = (0..HEAP_WORDS).map(|_| AtomicU64::new(0)).collect();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (memory, heap) = (Arc::clone(&memory), Arc::clone(&heap));
            let met = met.clone();
            thread::spawn(move || work(&*memory, &heap, worker, seed, &met))
        })
        .collect();
    let mut history = Vec::new();
    for worker in workers {
        history.extend(worker.join().expect("a worker ends"));
    }
    let heap: Vec<u64> = heap.iter().map(|word| word.load(Ordering::Relaxed)).collect();
    assert_eq!(memory.clock().load(Ordering::Relaxed), assigned(&history), "history: assigned IDs");
    oracle::check(&history, &heap);
}

fn assigned(history: &[Attempt]) -> u64 {
    history.iter().filter(|attempt| attempt.id > 0).count() as u64
}

fn work<T: Tm>(memory: &T, heap: &Heap, worker: usize, seed: u64, met: &Outcomes) -> Vec<Attempt> {
    let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(worker as u64 + 1));
    let mut state = memory.attempt(worker);
    let mut history = Vec::new();
    for _ in 0..TRANSACTIONS {
        for _ in 0..ATTEMPTS {
            let mut log = Log::default();
            memory.begin(&mut state);
            let outcome = attempt(memory, &mut state, heap, &mut dice, &mut log);
            history.push(log.attempt);
            met.saw(outcome);
            if !(GAVE_UP..ABORTED).contains(&outcome) {
                break;
            }
            thread::yield_now();
        }
    }
    history
}

/// Runs one attempt and returns its outcome.
fn attempt<T: Tm>(
    memory: &T,
    state: &mut T::Attempt,
    heap: &Heap,
    dice: &mut Dice,
    log: &mut Log,
) -> u64 {
    let ended = body(memory, state, heap, dice, log);
    let committed = match ended {
        Ok(()) => memory.commit(state, heap, log),
        Err(stop) => Err(stop),
    };
    match committed {
        Ok(id) => {
            let wrote = log.attempt.id > 0;
            assert!(
                !wrote || log.attempt.id == id.0,
                "history: the commit returns the recorded ID"
            );
            log.attempt.saw = if wrote { id.0 - 1 } else { id.0 };
            if wrote { WROTE } else { READ }
        }
        Err(stop) => {
            log.attempt.saw = memory.roll_back(state, heap, log).0;
            let hole = if log.attempt.id > 0 { HOLE } else { 0 };
            hole + if stop == Stop::Aborted { ABORTED } else { GAVE_UP }
        }
    }
}

/// Reads and writes a few words, and sometimes aborts halfway.
fn body<T: Tm>(
    memory: &T,
    state: &mut T::Attempt,
    heap: &Heap,
    dice: &mut Dice,
    log: &mut Log,
) -> Result<(), Stop> {
    let mut written = Vec::new();
    for _ in 0..2 + dice.below(4) {
        let word = PLACES[dice.below(PLACES.len() as u64) as usize];
        let value = memory.read(state, heap, word)?;
        match written.iter().rev().find(|&&(at, _)| at == word) {
            Some(&(_, own)) => assert_eq!(value, own, "history: its own write"),
            None => log.attempt.reads.push((word, value)),
        }
        match dice.below(8) {
            0 => return Err(Stop::Aborted),
            1..4 => {}
            // The new value depends on the roll and the old value, so that no mix-up looks right.
            roll => {
                let value = value * 8 + roll;
                memory.write(state, heap, word, value)?;
                written.push((word, value));
            }
        }
    }
    let mut run = [0; 2];
    memory.read_run(state, heap, 8, &mut run)?;
    for (word, value) in [(8, run[0]), (9, run[1])] {
        if written.iter().all(|&(at, _)| at != word) {
            log.attempt.reads.push((word, value));
        }
    }
    Ok(())
}

/// Keeps the record of an attempt.
#[derive(Default)]
struct Log {
    attempt: Attempt,
    announced: Option<u64>,
}

impl Redo for Log {
    fn has_room(&mut self, _words: usize) -> bool {
        true
    }

    fn assigning(&mut self, clock: u64) {
        self.announced = Some(clock);
    }

    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        let below = self.announced.take().is_some_and(|clock| clock < id.0);
        assert!(below && self.attempt.id == 0, "history: announced, assigned and recorded once");
        self.attempt.id = id.0;
        self.attempt.writes = writes(&encoded(written));
    }
}

fn encoded(written: Written<'_, impl Space>) -> Vec<u64> {
    let mut out: Vec<u64> = Vec::new();
    written.runs(
        &mut out,
        |out| {
            out.push(0);
            out.len() as u64 - 1
        },
        |out, value| out.push(value),
        |out, at, head| out[at as usize] = head,
    );
    out
}

/// Returns the words and values of a record.
pub(crate) fn writes(record: &[u64]) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    for piece in Pieces::new(record) {
        if let Piece::Run(first, values) = piece {
            found.extend(values.iter().enumerate().map(|(i, &v)| (first as usize + i, v)));
        }
    }
    found
}
