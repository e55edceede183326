//! A machine whose power may fail at any time: the durable state of one pool, and the state in
//! flight.
//!
//! The machine takes no part in the scheduling, because all of its work falls between two switches.
//! A crash is a copy of the state that a power failure would leave at that time; the program
//! continues.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::around::Error;
use crate::around::superblock::{Superblock, Superblocks};
use crate::recover::replay;
use crate::schedules::Dice;
use crate::sync::{Arc, thread};
use models::history::Lists;
use real_medium::writes::{Piece, Pieces};
use real_medium::{Buffer, Counts, HeapMedium, LogMedium, Parts, ReadLog};

pub(crate) const HEAP_WORDS: usize = 64;
const LOG_BYTES: u64 = 768;
const BLOCK_BYTES: usize = 64;

/// Lists in the heap; the first word of each is its length.
pub(crate) const LISTS: usize = 3;
pub(crate) const LIST_WORDS: usize = 16;

/// The storage of one pool.
#[derive(Clone)]
struct Stored {
    log: Vec<u64>,
    heap_image: Vec<u64>,
    superblock: Superblock,
    /// Groups sent to the log and not acknowledged: place and words.
    in_flight: VecDeque<(usize, Vec<u64>)>,
    /// Words written back since the last barrier: part, place and word.
    unsynced: Vec<(usize, usize, u64)>,
}

/// The state after a power failure, and the number of transactions acknowledged before it.
pub(crate) struct Crash {
    stored: Stored,
    pub(crate) acknowledged: usize,
}

pub(crate) struct Machine {
    /// The largest number of groups in flight; 0 for memory.
    pub(crate) depth: usize,
    state: Mutex<State>,
}

struct State {
    stored: Stored,
    buffers: VecDeque<Buffer>,
    dice: Dice,
    crashes: Vec<Crash>,
    /// Moments until the log fails.
    fails_in: Option<u64>,
    acknowledged: Vec<usize>,
}

impl Machine {
    pub(crate) fn new(depth: usize, fails_in: Option<u64>, seed: u64) -> Arc<Machine> {
        let superblock = Superblock {
            pool: 1,
            heap_bytes: 8 * HEAP_WORDS as u64,
            log_bytes: LOG_BYTES,
            ..Superblock::default()
        };
        let stored = Stored {
            log: vec![0; LOG_BYTES as usize / 8],
            heap_image: vec![0; HEAP_WORDS],
            superblock,
            in_flight: VecDeque::new(),
            unsynced: Vec::new(),
        };
        let state = State {
            stored,
            buffers: VecDeque::new(),
            dice: Dice::new(seed),
            crashes: Vec::new(),
            fails_in,
            acknowledged: Vec::new(),
        };
        Arc::new(Machine { depth, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the machine's superblock, in the product's interface.
    pub(crate) fn superblocks(self: &Arc<Self>) -> Superblocks {
        let (current, machine) = (self.state().stored.superblock, Arc::clone(self));
        Superblocks::new(current, move |next| {
            machine.state().moment().stored.superblock = next;
        })
    }

    pub(crate) fn log(self: &Arc<Self>) -> Arc<dyn LogMedium> {
        Arc::new(Log(Arc::clone(self)))
    }

    /// Returns the heap image in parts; the part of a word is its index modulo `parts`.
    pub(crate) fn heap_parts(self: &Arc<Self>, parts: usize) -> Parts {
        (0..parts).map(|part| HeapPart { machine: Arc::clone(self), part, parts }).collect()
    }

    /// Records that the program has reported this transaction durable.
    pub(crate) fn acknowledged(&self, transaction: usize) {
        let mut state = self.state();
        state.acknowledged.push(transaction);
        state.moment();
    }

    /// Returns the acknowledged transactions in order, and the crashes, after a last crash.
    pub(crate) fn ends(&self) -> (Vec<usize>, Vec<Crash>) {
        let state = &mut *self.state();
        state.crash();
        (state.acknowledged.clone(), std::mem::take(&mut state.crashes))
    }

    /// Returns the words of the heap image.
    pub(crate) fn heap_image(&self) -> Vec<u64> {
        self.state().stored.heap_image.clone()
    }
}

impl State {
    /// A moment at which the power may fail.
    fn moment(&mut self) -> &mut State {
        if self.dice.below(12) == 0 {
            self.crash();
        }
        self
    }

    fn crash(&mut self) {
        let mut stored = self.stored.clone();
        // With equal probability, all, none or some of the words in flight become durable.
        let luck = self.dice.below(3);
        let mut lands = || luck == 1 || luck == 2 && self.dice.below(2) == 0;
        for (at, words) in std::mem::take(&mut stored.in_flight) {
            for (word, value) in stored.log[at..].iter_mut().zip(words) {
                if lands() {
                    *word = value;
                }
            }
        }
        for (_, at, value) in std::mem::take(&mut stored.unsynced) {
            if lands() {
                stored.heap_image[at] = value;
            }
        }
        self.crashes.push(Crash { stored, acknowledged: self.acknowledged.len() });
    }

    /// Fails when the log is due to fail.
    fn fails(&mut self) -> Result<(), real_medium::Error> {
        if let Some(left) = &mut self.fails_in {
            if *left == 0 {
                return Err(real_medium::Error::Io {
                    operation: "writing",
                    path: "broken".into(),
                    source: std::io::ErrorKind::StorageFull.into(),
                });
            }
            *left -= 1;
        }
        Ok(())
    }
}

impl Crash {
    /// Returns the last transaction that the superblock records as reproduced.
    pub(crate) fn reproduced(&self) -> u64 {
        self.stored.superblock.reproduced
    }

    /// Recovers from the crash. Returns the last transaction and the lists.
    pub(crate) fn recover(&self) -> (u64, Lists) {
        let machine = Machine::new(0, None, 0);
        machine.state().stored = self.stored.clone();
        let (log, mut heap_image) = (machine.log(), machine.heap_parts(1));
        let superblock = &self.stored.superblock;
        let replayed = replay(superblock, &*log, &mut heap_image, Path::new("log"));
        let last = replayed.expect("crash: no crash damages a log").last;
        (last.0, lists(&machine.heap_image()))
    }
}

/// Returns the lists in a heap.
pub(crate) fn lists(heap: &[u64]) -> Lists {
    let list = |list: usize| {
        let words = &heap[list * LIST_WORDS..][..LIST_WORDS];
        (list as u64, words[1..][..words[0] as usize].to_vec())
    };
    (0..LISTS).map(list).collect()
}

struct Log(Arc<Machine>);

impl ReadLog for Log {
    fn bytes(&self) -> u64 {
        LOG_BYTES
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), real_medium::Error> {
        out.copy_from_slice(&self.0.state().stored.log[at as usize / 8..][..out.len()]);
        Ok(())
    }
}

impl LogMedium for Log {
    fn depth(&self) -> usize {
        self.0.depth
    }

    fn append(
        &self,
        at: u64,
        group: Buffer,
        words: usize,
    ) -> Result<Option<Buffer>, real_medium::Error> {
        let mut state = self.0.state();
        let state = state.moment();
        state.fails()?;
        let group_sent = (at as usize / 8, group.words()[..words].to_vec());
        state.stored.in_flight.push_back(group_sent);
        assert!(
            state.stored.in_flight.len() <= self.0.depth.max(1),
            "at most `depth` groups in flight"
        );
        if self.0.depth > 0 {
            state.buffers.push_back(group);
            return Ok(None);
        }
        state.moment().land().map(|()| Some(group))
    }

    fn acknowledge(&self, wait: bool) -> Result<Option<Buffer>, real_medium::Error> {
        if !wait && self.0.state().dice.below(2) == 0 {
            return Ok(None);
        }
        thread::yield_now(); // the device takes its time
        let mut state = self.0.state();
        if state.stored.in_flight.is_empty() {
            return Ok(None);
        }
        state.moment().land()?;
        Ok(state.buffers.pop_front())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

impl State {
    /// Makes the oldest group in flight durable.
    fn land(&mut self) -> Result<(), real_medium::Error> {
        self.fails()?;
        let (at, words) = self.stored.in_flight.pop_front().expect("a group is in flight");
        self.stored.log[at..][..words.len()].copy_from_slice(&words);
        Ok(())
    }
}

struct HeapPart {
    machine: Arc<Machine>,
    part: usize,
    parts: usize,
}

impl HeapMedium for HeapPart {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), real_medium::Error> {
        thread::yield_now(); // other parts at the same time
        let mut state = self.machine.state();
        for piece in Pieces::new(writes) {
            if let Piece::Run(first, values) = piece {
                let run = values.iter().enumerate().map(|(i, &v)| (first as usize + i, v));
                let own = run.filter(|(at, _)| at % self.parts == self.part);
                let part = self.part;
                state.stored.unsynced.extend(own.map(|(at, value)| (part, at, value)));
            }
        }
        state.moment();
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), real_medium::Error> {
        thread::yield_now(); // the device takes its time
        let mut state = self.machine.state();
        let stored = &mut state.moment().stored;
        let mine = |(part, ..): &mut (usize, usize, u64)| *part == self.part;
        for (_, at, value) in stored.unsynced.extract_if(.., mine) {
            stored.heap_image[at] = value;
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}
