//! Real threads: workers append to lists concurrently, with the pool's own background threads, and
//! the power fails in any of them.
//!
//! The reads before the failure must be strictly serializable, or as isolated as the design
//! promises. The state afterwards must be a prefix with every acknowledged transaction. The next
//! boot continues from it.
//!
//! The seed decides when the power fails and which content survives. The operating system schedules
//! the threads, so a seed does not replay a run. A failure is analysed by the printed history. The
//! checker has its own tests, on histories written by hand (`oracle::history`).

mod sharing;
mod skew;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crash::oracle::history::{History, Level, Lists, Transaction};
use crash::workload::{Apart, Append, Appends, Scenario};
use faults::recording::{Ask, Choose, Model, PowerCut, Question, Recorder};
use lastword::{
    Decoupled, DecoupledEvicting, DecoupledSoftware, Design, Durability, Medium, Options, Pool,
    Shadow, Snapshot, Undo,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const PATH: &str = "/pool";
const WORKERS: usize = 3;
/// Transactions of a worker in one boot.
const TRANSACTIONS: usize = 30;
/// Boots of a run.
const BOOTS: u64 = 3;
const LISTS: u64 = 3;

/// Reads a setting: another seed from `LASTWORD_SEED`, a longer run from `LASTWORD_ROUNDS`.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

/// A power failure at one of many points. The uncertain content survives not at all, completely or
/// in part.
struct Chance {
    random: Xoshiro256PlusPlus,
    crash_in: u32,
    temper: u32,
}

impl Choose for Chance {
    fn choose(&mut self, question: Question) -> usize {
        let options = question.options;
        match question.ask {
            Ask::Crash => usize::from(self.random.random_range(0..self.crash_in) == 0),
            Ask::Content | Ask::Word | Ask::Name if self.temper == 0 => 0,
            Ask::Content | Ask::Word | Ask::Name if self.temper == 1 => options - 1,
            _ => self.random.random_range(0..options),
        }
    }
}

/// One setup of a pool.
#[derive(Clone, Copy, Debug)]
struct Setup {
    medium: Medium,
    durability: Durability,
    shadow: Shadow,
    /// Whether the shadow holds only a part of the heap.
    bounded: bool,
    reproduce_threads: usize,
    groups: Groups,
    level: Level,
    /// Whether a group becomes visible only when it is durable.
    shown_by_groups: bool,
}

/// Options of groups: combined transactions, compression, persist threads.
type Groups = (u64, bool, usize);

const GROUPS: [Groups; 4] = [(0, false, 1), (0, false, 2), (3, true, 2), (50, false, 3)];

impl Setup {
    /// Returns the promised isolation. With groups under `snapshot`, other workers see a
    /// transaction when its group has ended, which is after its commit returned.
    fn level(self) -> Level {
        let is_grouped = self.groups.0 > 1 && self.durability == Durability::Async;
        match self.level {
            Level::StrictSnapshot if is_grouped => Level::ParallelSnapshot,
            Level::Strict if is_grouped && self.shown_by_groups => Level::Serializable,
            level => level,
        }
    }

    fn options(self, recorder: &Recorder) -> Options {
        let options = match self.bounded {
            true => Options::new().shadow_bytes(8 * 4096).observed(),
            false => Options::new(),
        };
        options
            .bytes(Append::HEAP_BYTES)
            .log_bytes(128 << 10)
            .ring_entries(1 << 12)
            .medium(self.medium)
            .durability(self.durability)
            .shadow(self.shadow)
            .reproduce_threads(self.reproduce_threads)
            .group(self.groups.0)
            .compress(self.groups.1)
            .persist_threads(self.groups.2)
            .background(true)
            .system(recorder.system())
    }
}

/// The observations of a worker about a transaction, at least of its body.
#[derive(Clone, Default)]
struct Done {
    transaction: Transaction,
    acknowledged: bool,
    /// Its commit returned.
    answered: bool,
}

/// Unacknowledged transactions after crashes.
#[derive(Debug, Default)]
struct Seen {
    kept: u64,
    lost: u64,
    /// Crashes during transactions.
    cut: u64,
}

/// The state shared by the workers of one boot.
struct Boot<'a, D: Design> {
    setup: Setup,
    number: u64,
    pool: &'a Pool<D>,
    clock: AtomicU64,
    done: Mutex<Vec<Done>>,
}

impl<D: Design> Boot<'_, D> {
    /// Returns the time of the shared clock, which only grows.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Runs one worker's transactions, until the limit or the power failure.
    fn work<S: Appends>(&self, number: usize) {
        let Ok(mut worker) = self.pool.worker() else { return };
        let Ok(append) = S::open(&mut worker) else { return };
        let append = append.expect("the workload is loaded");
        let mut client = append.client(number, 1 + self.number);
        for round in 0..TRANSACTIONS {
            append.next(&mut client);
            let mut this = Done::default();
            this.transaction.appends = vec![(client.append as u64, client.value)];
            this.transaction.span = (self.now(), u64::MAX);
            let place = {
                let mut done = self.done.lock().unwrap();
                done.push(this);
                done.len() - 1
            };
            let note = |change: &dyn Fn(&mut Done)| change(&mut self.done.lock().unwrap()[place]);
            let ran = worker.run(|tx| {
                let read = (client.read as u64, append.observe(&client, tx)?.list);
                note(&|done| done.transaction.reads = vec![read.clone()]);
                Ok(())
            });
            let Ok(committed) = ran else { return };
            let end = self.now();
            note(&|done| (done.transaction.span.1, done.answered) = (end, true));
            let waits = self.setup.durability == Durability::Sync || round % 5 == number;
            if waits && committed.ticket.wait().is_ok() {
                note(&|done| done.acknowledged = true);
            }
        }
    }

    /// Runs all workers until the end or the power failure. Returns their transactions.
    fn live<S: Appends>(self) -> Vec<Done> {
        std::thread::scope(|scope| {
            for number in 0..WORKERS {
                let this = &self;
                scope.spawn(move || {
                    let worked = catch_unwind(AssertUnwindSafe(|| this.work::<S>(number)));
                    worked.unwrap_or_else(PowerCut::expect);
                });
            }
        });
        self.done.into_inner().unwrap()
    }
}

/// Returns the lists in the heap, which no transaction can read after the power failure.
fn lists<D: Design, S: Appends>(pool: &Pool<D>, root: u64) -> Lists {
    let in_heap = (1 << words::ADDRESS_BITS) - 1;
    let word = |at: u64| {
        let mut word = [0];
        pool.design().observe((at & in_heap) as usize / 8, &mut word);
        word[0]
    };
    let list = |key: u64| {
        let (mut values, mut at) = (Vec::new(), word(S::head(root, key as usize, word)));
        while at != 0 {
            values.push(word(at));
            at = word(at + 8);
        }
        values.reverse();
        (key, values)
    };
    (0..LISTS).map(list).collect()
}

/// Makes the history for the checker: the initial state as one transaction, then the transactions
/// that returned and those whose commit is visible.
fn history(base: &Lists, done: Vec<Done>, last: Lists) -> (History, Vec<bool>) {
    let appends = base.iter().flat_map(|(&key, list)| list.iter().map(move |&value| (key, value)));
    let base = Transaction { appends: appends.collect(), ..Transaction::default() };
    let (mut transactions, mut acknowledged) = (vec![base], vec![true]);
    for Done { transaction, acknowledged: is_acknowledged, answered } in done {
        let committed = transaction.appends.iter().all(|(key, value)| last[key].contains(value));
        if answered || committed {
            transactions.push(transaction);
            acknowledged.push(is_acknowledged);
        }
    }
    (History { transactions, last }, acknowledged)
}

/// Runs boots, each ended by a power failure. The last open only reads.
fn run<D: Design, S: Appends>(setup: Setup, seed: u64, seen: &mut Seen) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (crash_in, temper) = (4 << random.random_range(0..7), random.random_range(0..3));
    let chooser = Chance { random, crash_in, temper };
    let calm = Model { crashes: 0, every_word: false, ..Model::default() };
    let recorder = Recorder::new(calm, Box::new(chooser));
    let pool = Pool::<D>::create_as(PATH, setup.options(&recorder)).unwrap();
    S::load(&mut pool.worker().unwrap()).unwrap();
    pool.close().unwrap();
    let mut before: Option<(History, Vec<bool>)> = None;
    for number in 0..=BOOTS {
        let pool = Pool::<D>::open_as(PATH, setup.options(&recorder)).unwrap();
        let root = pool.run(|tx| words::Allocate::root(tx)).unwrap().value;
        let base = lists::<D, S>(&pool, root);
        pool.check_heap().unwrap();
        if let Some((history, acknowledged)) = before.take() {
            let there = history.after_crash(&base, &acknowledged);
            let there = there.unwrap_or_else(|damage| {
                panic!("{setup:?} seed {seed} boot {number}: {damage}\n{history:?}\nleft {base:?}")
            });
            let open = there.iter().zip(&acknowledged).filter(|(_, acknowledged)| !**acknowledged);
            let kept = open.clone().filter(|(there, _)| **there).count() as u64;
            seen.kept += kept;
            seen.lost += open.count() as u64 - kept;
        }
        let boots = recorder.boots();
        recorder.set_model(|model| model.crashes = usize::from(number < BOOTS));
        if number == BOOTS {
            return pool.close().unwrap();
        }
        let (clock, done) = (AtomicU64::new(1), Mutex::default());
        let done = Boot { setup, number, pool: &pool, clock, done }.live::<S>();
        seen.cut += recorder.boots() - boots;
        if recorder.boots() == boots {
            recorder.crash();
        }
        let last = lists::<D, S>(&pool, root);
        pool.abandon();
        recorder.set_model(Model::calm);
        let (history, acknowledged) = history(&base, done, last);
        history.check(setup.level()).unwrap_or_else(|anomaly| {
            panic!("{setup:?} seed {seed} boot {number}: {anomaly}\n{history:?}")
        });
        before = Some((history, acknowledged));
    }
}

/// Runs one design on one medium in all setups: over these shadows, bounded or not.
fn runs<D: Design>(medium: Medium, rounds: u64, shadows: &[Shadow], bounded: bool) {
    runs_on::<D, Append>(medium, rounds, shadows, bounded, Level::Strict);
}

fn runs_on<D: Design, S: Appends>(
    medium: Medium,
    rounds: u64,
    shadows: &[Shadow],
    bounded: bool,
    level: Level,
) {
    let (seed, more) = (setting("LASTWORD_SEED", 1), setting("LASTWORD_ROUNDS", 1));
    println!(
        "{} on {medium:?}: LASTWORD_SEED={seed}, {} runs of each setup",
        D::NAME,
        rounds * more
    );
    let mut seen = Seen::default();
    for seed in seed..seed + rounds * more {
        for durability in [Durability::Async, Durability::Sync] {
            for &shadow in shadows {
                let reproduce_threads = 1 + seed as usize % 3;
                let groups = GROUPS[seed as usize % GROUPS.len()];
                let shown_by_groups = D::NAME == Snapshot::NAME;
                let setup = Setup {
                    medium,
                    durability,
                    shadow,
                    bounded,
                    reproduce_threads,
                    groups,
                    level,
                    shown_by_groups,
                };
                run::<D, S>(setup, seed, &mut seen);
            }
        }
    }
    println!("{seen:?}");
    assert!(seen.kept > 0 && seen.lost > 0 && seen.cut > 0, "both outcomes: {seen:?}");
}

const UNBOUNDED: &[Shadow] = &[Shadow::Full, Shadow::CopyOnWrite];

#[test]
fn threads_on_files_lose_only_an_unacknowledged_suffix() {
    runs::<Decoupled>(Medium::File, 30, UNBOUNDED, false);
}

#[test]
fn threads_on_memory_lose_only_an_unacknowledged_suffix() {
    runs::<Decoupled>(Medium::Dax, 30, UNBOUNDED, false);
}

#[test]
fn threads_on_durable_cache_lose_only_an_unacknowledged_suffix() {
    runs::<Decoupled>(Medium::PersistentCache, 30, UNBOUNDED, false);
}

#[test]
fn threads_over_bounded_shadows_lose_only_an_unacknowledged_suffix() {
    for medium in [Medium::File, Medium::Dax] {
        runs::<DecoupledSoftware>(medium, 20, &[Shadow::Software], true);
        runs::<DecoupledEvicting>(medium, 20, &[Shadow::CopyOnWrite], true);
    }
}

/// `undo` acknowledges each commit at once, so only uncommitted transactions may be lost. Under
/// `redo` not even the heap would show which commits are durable.
#[test]
fn undo_threads_lose_only_uncommitted_transactions() {
    for medium in [Medium::File, Medium::Dax] {
        runs::<Undo>(medium, 20, &[Shadow::Full], false);
    }
}

/// `undo` writes in place until an abort restores the old values. Other transactions must see no
/// state in between.
#[test]
fn abort_interrupted_by_power_failure_leaves_no_partial_state() {
    let setup = Setup {
        medium: Medium::Dax,
        durability: Durability::Sync,
        shadow: Shadow::Full,
        bounded: false,
        reproduce_threads: 1,
        groups: GROUPS[0],
        level: Level::Strict,
        shown_by_groups: false,
    };
    let random = Xoshiro256PlusPlus::seed_from_u64(1);
    let recorder = Recorder::new(
        Model { crashes: 0, ..Model::default() },
        Box::new(Chance { random, crash_in: 1, temper: 0 }),
    );
    let pool = Pool::<Undo>::create_as(PATH, setup.options(&recorder)).unwrap();
    Append::load(&mut pool.worker().unwrap()).unwrap();
    let root = pool.run(|tx| words::Allocate::root(tx)).unwrap().value;
    let before = lists::<_, Append>(&pool, root);
    let mut worker = pool.worker().unwrap();
    let append = Append::open(&mut worker).unwrap().unwrap();
    let mut client = append.client(0, 1);
    append.next(&mut client);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        worker.run(|tx| -> Result<(), words::Stop> {
            append.observe(&client, tx)?;
            recorder.crash();
            Err(words::Stop::Aborted)
        })
    }));
    PowerCut::expect(unwound.expect_err("its end is not durable"));
    drop(worker);
    let left = lists::<_, Append>(&pool, root);
    pool.abandon();
    assert_eq!(left, before);
}

/// As `undo`; each transaction reads the state of one moment, which its own writes preserve.
#[test]
fn snapshot_threads_lose_only_uncommitted_transactions() {
    for medium in [Medium::File, Medium::Dax, Medium::PersistentCache] {
        let (full, level) = (&[Shadow::Full], Level::StrictSnapshot);
        runs_on::<Snapshot, Apart<false>>(medium, 20, full, false, level);
        runs_on::<Snapshot, Append>(medium, 10, full, false, Level::Strict);
    }
}

#[test]
fn snapshot_threads_with_protect_are_serializable() {
    for medium in [Medium::File, Medium::Dax] {
        runs_on::<Snapshot, Apart<true>>(medium, 10, &[Shadow::Full], false, Level::Strict);
    }
}
