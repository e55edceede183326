//! The whole of `decoupled` over a machine whose power may fail.
//!
//! Workers read lists and append to them; then they wait, await, listen, flush or continue.
//! Background threads may run or not, the log is in memory or on a device, and sometimes the log
//! fails. The reads must have a serial order. Each crash must leave whole transactions with
//! everything that they depend on, and every acknowledged transaction.

use std::sync::{Mutex, PoisonError};

use super::design::{At, Decoupled, Design};
use super::perform::{Stm, Tm};
use super::pool::Pool;
use super::ticket::Ticket;
use crate::Error;
use crate::machine::{LIST_WORDS, LISTS, Machine, lists};
use crate::options::{Durability, Options};
use crate::schedules::{Dice, explore};
use crate::sync::{Arc, Ordering, thread};
use models::history::{History, Level, Transaction};
use models::outcomes::Outcomes;
use std::path::Path;
use words::{Stop, TxId};

const WORKERS: usize = 3;
const TRANSACTIONS: usize = 3;
/// Attempts at one transaction before it is abandoned.
const ATTEMPTS: usize = 4;

type Local = <Decoupled as Design>::Local;

/// Returns the place of a word, for a design that ignores its object.
fn word(index: usize) -> At {
    At { object: 0, index }
}

/// State that all threads of an execution share, besides the pool.
#[derive(Default)]
struct Events {
    /// Finished transactions, with the IDs that their commits returned.
    done: Mutex<Vec<(Transaction, TxId)>>,
    ticks: Mutex<u64>,
    /// The numbers of registered callbacks, and of notified ones.
    listening: Mutex<(u64, u64)>,
}

impl Events {
    fn tick(&self) -> u64 {
        let mut ticks = held(&self.ticks);
        *ticks += 1;
        *ticks
    }
}

/// Locks a mutex that is only held between two switches.
fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn every_crash_leaves_a_prefix_of_a_serial_history() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(20_000, move |seed| run(seed, &seen));
    met.are(0..OUTCOMES);
}

/// A crash left all, some or none of the transactions that were committed in the end.
const ALL: u64 = 0;
const SOME: u64 = 1;
const NONE: u64 = 2;
/// A crash came after a reproduced transaction, and left later ones.
const REPLAYED: u64 = 3;
/// A read-only transaction was acknowledged before a crash.
const READER: u64 = 4;
/// The log failed.
const FAILED: u64 = 5;
/// A transaction was waited for, awaited, or listened to.
const WAITED: u64 = 6;
const AWAITED: u64 = 7;
const LISTENED: u64 = 8;
/// A transaction was retried.
const AGAIN: u64 = 9;
const OUTCOMES: u64 = 10;

fn run(seed: u64, met: &Outcomes) {
    let mut dice = Dice::new(seed);
    let fails_in = (dice.below(8) == 0).then(|| dice.below(6));
    let machine = Machine::new([0, 1, 3][dice.below(3) as usize], fails_in, seed);
    let options = Options {
        background: dice.below(3) > 0,
        durability: Durability::Async,
        shadow: (),
        reproduce_threads: 1 + (seed >> 32) as usize % 2,
        ownership_records: 0,
        machine: Arc::clone(&machine),
        // No time for a group to grow, because the clock is no part of a schedule.
        group: [0, 0, 3][dice.below(3) as usize],
        group_time: std::time::Duration::ZERO,
        compress: false,
        persist_threads: 1 + dice.below(2) as usize,
        pause: std::time::Duration::from_micros([500, 0][dice.below(2) as usize]),
        medium: None,
        ideal_reproduce: false,
        recovery_time: None,
    };
    let (design, _) = Decoupled::create(Path::new(""), &options).expect("the pool is created");
    let pool = Arc::new(Pool { design, file_check: Arc::default() });
    let events = Arc::new(Events::default());
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let (pool, machine) = (Arc::clone(&pool), Arc::clone(&machine));
            let (events, met) = (Arc::clone(&events), met.clone());
            let dice = Dice::new(seed.wrapping_mul(31).wrapping_add(number as u64 + 1));
            thread::spawn(move || {
                let local = pool.design.local(number).expect("there is memory");
                let mut worker = Worker { pool, machine, events, met, dice, local, number };
                let ended = worker.work();
                worker.pool.design.close_local(&mut worker.local);
                ended
            })
        })
        .collect();
    let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("it ends")).collect();
    let pool = Arc::into_inner(pool).expect("all workers have ended");
    let closed = pool.design.close();
    if fails_in.is_none() {
        ended.into_iter().chain([closed]).for_each(|ended| ended.expect("nothing fails"));
    } else if closed.is_err() {
        met.saw(FAILED);
    }
    check(&pool, &machine, &events, met, fails_in.is_none());
}

/// Checks the history, and the state that each crash has left.
fn check(pool: &Pool, machine: &Machine, events: &Events, met: &Outcomes, closed: bool) {
    let heap = (0..pool.design.words()).map(|index| pool.design.peek(index));
    let heap: Vec<u64> = heap.collect();
    let (transactions, ids): (Vec<_>, Vec<_>) = held(&events.done).drain(..).unzip();
    let history = History { transactions, last: lists(&heap) };
    history.check(Level::Strict).unwrap_or_else(|anomaly| panic!("{anomaly}: {history:?}"));
    if closed {
        assert_eq!(machine.heap_image(), heap, "crash: a closed pool is in the heap image");
        let (listening, notified) = *held(&events.listening);
        assert_eq!(listening, notified, "listeners: each is notified once");
    }
    let (reported, crashes) = machine.ends();
    for crash in crashes {
        let mut acknowledged = vec![false; ids.len()];
        reported[..crash.acknowledged]
            .iter()
            .for_each(|&transaction| acknowledged[transaction] = true);
        let (last, left) = crash.recover();
        let there = history.after_crash(&left, &acknowledged);
        let there = there.unwrap_or_else(|damage| panic!("{damage}: {left:?} of {history:?}"));
        let mut writers = (0..ids.len()).filter(|&at| !history.transactions[at].appends.is_empty());
        let prefix = writers.all(|at| there[at] == (ids[at].0 <= last));
        assert!(prefix, "crash: up to {last} there is {there:?} of {ids:?}");
        met.saw(match (left == history.last, left.values().all(Vec::is_empty)) {
            (true, _) => ALL,
            (_, true) => NONE,
            _ => SOME,
        });
        if crash.reproduced() > 0 && crash.reproduced() < last {
            met.saw(REPLAYED);
        }
        if (0..ids.len()).any(|at| acknowledged[at] && history.transactions[at].appends.is_empty())
        {
            met.saw(READER);
        }
    }
}

struct Worker {
    pool: Arc<Pool>,
    machine: Arc<Machine>,
    events: Arc<Events>,
    met: Outcomes,
    dice: Dice,
    local: Local,
    number: usize,
}

impl Worker {
    fn work(&mut self) -> Result<(), Error> {
        for round in 0..TRANSACTIONS {
            for attempt in 0..ATTEMPTS {
                if attempt > 0 {
                    self.met.saw(AGAIN);
                    thread::yield_now();
                }
                if self.attempt(round)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Runs a transaction once. Returns whether it committed or aborted by choice.
    fn attempt(&mut self, round: usize) -> Result<bool, Error> {
        let pool = Arc::clone(&self.pool);
        let read_only = self.dice.below(4) == 0;
        let mut done = Transaction { span: (self.events.tick(), 0), ..Transaction::default() };
        pool.design.begin(&mut self.local, read_only)?;
        let ended = self.body(round, read_only, &mut done);
        match ended.and_then(|()| pool.design.commit(&mut self.local)) {
            Ok(id) => {
                done.span.1 = self.events.tick();
                let transaction = {
                    let mut all = held(&self.events.done);
                    all.push((done, id));
                    all.len() - 1
                };
                self.acknowledge(&pool, transaction, id)?;
                Ok(true)
            }
            Err(stop) => {
                pool.design.roll_back(&mut self.local);
                Ok(stop == Stop::Aborted)
            }
        }
    }

    /// Reads one or two lists, and appends to some of them.
    fn body(&mut self, round: usize, read_only: bool, done: &mut Transaction) -> Result<(), Stop> {
        let design = &self.pool.design;
        let first = self.dice.below(LISTS as u64) as usize;
        for step in 0..1 + self.dice.below(2) as usize {
            let list = (first + step) % LISTS;
            let at = list * LIST_WORDS;
            let length = design.read(&mut self.local, word(at))? as usize;
            let mut values = vec![0; length];
            design.read_run(&mut self.local, word(at + 1), &mut values)?;
            done.reads.push((list as u64, values));
            if !read_only && length + 1 < LIST_WORDS && self.dice.below(3) > 0 {
                let value = 1 + (self.number * TRANSACTIONS + round) as u64;
                design.write(&mut self.local, word(at), length as u64 + 1)?;
                design.write(&mut self.local, word(at + 1 + length), value)?;
                done.appends.push((list as u64, value));
            }
        }
        if self.dice.below(8) == 0 { Err(Stop::Aborted) } else { Ok(()) }
    }

    /// Waits in one of several ways until the transaction is durable, or not at all.
    fn acknowledge(&mut self, pool: &Pool, transaction: usize, id: TxId) -> Result<(), Error> {
        let ticket = Ticket::new(pool, id);
        match self.dice.below(6) {
            0 => {
                self.met.saw(WAITED);
                ticket.wait()?;
            }
            1 => {
                self.met.saw(AWAITED);
                shuttle::future::block_on(ticket.into_future())?;
            }
            2 => {
                self.met.saw(LISTENED);
                let (machine, events) = (Arc::clone(&self.machine), Arc::clone(&self.events));
                held(&events.listening).0 += 1;
                return ticket.on_durable(move |outcome| {
                    held(&events.listening).1 += 1;
                    if outcome.is_ok() {
                        machine.acknowledged(transaction);
                    }
                });
            }
            3 => pool.design.checkpoint()?,
            4 if ticket.is_durable() => {}
            _ => return Ok(()),
        }
        self.machine.acknowledged(transaction);
        Ok(())
    }
}
