//! Concurrent transactions on the ordered map: they conflict where they must, also under snapshot
//! isolation, and nowhere else.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap as Model, BTreeSet as Objects};

use collections::BTreeMap;
use words::mock::Mock;
use words::{Addr, Allocate, Stop, Transact, Words};

/// Bytes of the heap that the second of two concurrent transactions leaves to the first.
const APART: u64 = 64 << 10;

/// A change of the heap.
#[derive(Clone, Copy, Debug)]
enum Change {
    Write(Addr, u64),
    Retire(Addr, u64),
    Allocate(usize, u64),
    Resize(u64, u64, u64, bool),
}

/// A transaction that notes the objects that it reads and writes.
struct Recorder<'m> {
    mock: &'m mut Mock,
    trace: Trace,
}

#[derive(Debug, Default)]
struct Trace {
    reads: Objects<u64>,
    /// Objects written, or protected.
    writes: Objects<u64>,
    changes: Vec<Change>,
}

impl Words for Recorder<'_> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.trace.reads.insert(at.object);
        self.mock.read(at)
    }
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.trace.writes.insert(at.object);
        self.trace.changes.push(Change::Write(at, value));
        self.mock.write(at, value)
    }
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        self.trace.writes.insert(at.object);
        Ok(())
    }
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        self.trace.changes.push(Change::Retire(at, bytes));
        self.mock.retire(at, bytes)
    }
}

impl Allocate for Recorder<'_> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let object = self.mock.allocate(bytes)?;
        self.trace.changes.push(Change::Allocate(bytes, object));
        Ok(object)
    }
    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        let done = self.mock.resize(first, from, to)?;
        self.trace.changes.push(Change::Resize(first, from, to, done));
        Ok(done)
    }
    fn reserve_blocks(&mut self, _: u64) -> Result<u64, Stop> {
        unreachable!("maps have no arrays")
    }
    fn prepare_blocks(&mut self, _: u64, _: u64) -> Result<u64, Stop> {
        unreachable!("maps have no arrays")
    }
    fn allocate_pieces(&mut self, _: u64) -> Result<u64, Stop> {
        unreachable!("these tests have short values")
    }
    fn root(&mut self) -> Result<u64, Stop> {
        self.mock.root()
    }
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.mock.set_root(object)
    }
}

/// Takes `bytes` bytes of the heap, so that the next object lies behind them.
fn skip(tx: &mut Mock, mut bytes: u64) -> Result<(), Stop> {
    while bytes > 0 {
        let part = match bytes {
            0..=1024 => bytes,
            1025..=1056 => 512,
            _ => 1024,
        };
        let object = tx.allocate(part as usize - 16)?;
        tx.retire(Addr::new(object, 0), part - 16)?;
        bytes -= part;
    }
    Ok(())
}

/// Runs a transaction on the present state and undoes it.
fn trace<R>(
    mock: &mut Mock,
    after: u64,
    operation: impl Fn(&mut Recorder<'_>) -> Result<R, Stop>,
) -> (R, Trace) {
    let mut found = None;
    let refused = mock.transact(|tx| {
        skip(tx, after)?;
        let mut recorder = Recorder { mock: tx, trace: Trace::default() };
        let result = operation(&mut recorder)?;
        found = Some((result, recorder.trace));
        Err::<(), Stop>(Stop::Aborted)
    });
    assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
    found.unwrap()
}

/// Commits the changes of a traced transaction.
fn commit(mock: &mut Mock, after: u64, trace: &Trace) {
    mock.transact(|tx| {
        skip(tx, after)?;
        for change in &trace.changes {
            match *change {
                Change::Write(at, value) => tx.write(at, value)?,
                Change::Retire(at, bytes) => tx.retire(at, bytes)?,
                Change::Allocate(bytes, object) => assert_eq!(tx.allocate(bytes)?, object),
                Change::Resize(first, from, to, done) => {
                    assert_eq!(tx.resize(first, from, to)?, done);
                }
            }
        }
        Ok(())
    })
    .unwrap();
}

/// Returns the bytes that a traced transaction took of the heap.
fn taken(trace: &Trace) -> u64 {
    let bytes = |change: &Change| match change {
        Change::Allocate(bytes, _) => bytes.next_multiple_of(16) as u64 + 16,
        _ => 0,
    };
    trace.changes.iter().map(bytes).sum()
}

fn random_below() -> impl FnMut(u64) -> u64 {
    let mut random = 88_172_645_463_325_252_u64;
    move |end| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    }
}

/// An operation on a map of strings or numbers, to which keys are numbers.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    PopFirst,
    PopLast,
    Clear,
}

type State = Model<Vec<u8>, u64>;

/// Returns the result of an operation on the model: the old value.
fn apply(state: &mut State, key: fn(u64) -> Vec<u8>, operation: Operation) -> Option<u64> {
    match operation {
        Operation::Insert(n, value) => state.insert(key(n), value),
        Operation::Update(n, value) => {
            state.get_mut(&key(n)).map(|old| std::mem::replace(old, value))
        }
        Operation::Remove(n) => state.remove(&key(n)),
        Operation::PopFirst => state.pop_first().map(|(_, value)| value),
        Operation::PopLast => state.pop_last().map(|(_, value)| value),
        Operation::Clear => {
            state.clear();
            None
        }
    }
}

fn run<W: Allocate>(
    tx: &mut W,
    map: BTreeMap<[u8], u64>,
    key: fn(u64) -> Vec<u8>,
    operation: Operation,
) -> Result<Option<u64>, Stop> {
    match operation {
        Operation::Insert(n, value) => map.insert(tx, key(n), value),
        Operation::Update(n, value) => {
            let mut before = None;
            map.update(tx, key(n), |old| {
                before = Some(old);
                value
            })?;
            Ok(before)
        }
        Operation::Remove(n) => map.remove(tx, key(n)),
        Operation::PopFirst => Ok(map.pop_first(tx)?.map(|(_, value)| value)),
        Operation::PopLast => Ok(map.pop_last(tx)?.map(|(_, value)| value)),
        Operation::Clear => map.clear(tx).map(|()| None),
    }
}

/// Runs two transactions on one state, as under snapshot isolation, and commits both if they write
/// no object in common. The result must be that of one after the other, in one order or the other.
fn pairs_are_serializable(key: fn(u64) -> Vec<u8>, keys: u64, trials: usize) {
    let mut below = random_below();
    let mut mock = Mock::new(512 << 20);
    let map: BTreeMap<[u8], u64> = mock.transact(BTreeMap::create).unwrap();
    let mut model = State::new();
    // So many entries that the length has stripes.
    for n in (0..keys).step_by(2) {
        mock.transact(|tx| map.put(tx, key(n), n)).unwrap();
        model.insert(key(n), n);
    }
    let (mut conflicts, mut both, mut structural) = (0, 0, 0);
    for trial in 0..trials {
        let grows = trial / 400 % 2 == 0;
        // Near each other, in most trials, so that they meet in neighboring leaves.
        let first = below(keys);
        let second = if below(4) == 0 { below(keys) } else { (first + below(80)) % keys };
        let mut operation = |n: u64| {
            let nearest = |n: u64| {
                let there = (n..keys).find(|&n| model.contains_key(&key(n)));
                there.unwrap_or(n)
            };
            match below(if grows { 12 } else { 16 }) {
                0 => Operation::Update(nearest(n), below(1000)),
                1 => Operation::PopFirst,
                2 => Operation::PopLast,
                3 if below(100) == 0 => Operation::Clear,
                3..=10 if grows => Operation::Insert(n, below(1000)),
                4 => Operation::Insert(n, below(1000)),
                _ => Operation::Remove(nearest(n)),
            }
        };
        let (a, b) = (operation(first), operation(second));
        let (of_a, trace_a) = trace(&mut mock, 0, |tx| run(tx, map, key, a));
        let (of_b, trace_b) = trace(&mut mock, APART, |tx| run(tx, map, key, b));
        let moves = |trace: &Trace| {
            trace.changes.iter().any(|c| matches!(c, Change::Retire(_, 488))) || taken(trace) > 400
        };
        if trace_a.writes.is_disjoint(&trace_b.writes) {
            both += 1;
            structural += usize::from(moves(&trace_a) || moves(&trace_b));
            commit(&mut mock, 0, &trace_a);
            commit(&mut mock, APART - taken(&trace_a), &trace_b);
            let (mut a_first, mut b_first) = (model.clone(), model.clone());
            let results_a = (apply(&mut a_first, key, a), apply(&mut a_first, key, b));
            let mut results_b = (apply(&mut b_first, key, b), apply(&mut b_first, key, a));
            std::mem::swap(&mut results_b.0, &mut results_b.1);
            let all = mock.transact(|tx| map.range(..).collect(tx)).unwrap();
            let all = State::from_iter(all);
            let is_a = (of_a, of_b) == results_a && all == a_first;
            let is_b = (of_a, of_b) == results_b && all == b_first;
            assert!(is_a || is_b, "trial {trial}: {a:?} and {b:?}");
            model = all;
        } else {
            conflicts += 1;
            commit(&mut mock, 0, &trace_a);
            apply(&mut model, key, a);
        }
        let checked = mock.transact(|tx| map.check(tx)).unwrap();
        assert_eq!(checked.damage, [], "trial {trial}: {a:?} and {b:?}");
        assert_eq!(checked.entries, model.len() as u64);
    }
    assert!(conflicts > trials / 20 && both > trials / 5, "{conflicts} and {both}");
    assert!(structural > trials / 200, "{structural} with a change of nodes");
}

#[test]
fn concurrent_pairs_on_strings_are_serializable() {
    pairs_are_serializable(|n| format!("user:{n:07}").into_bytes(), 3000, 6000);
}

#[test]
fn concurrent_zero_key_operations_are_serializable() {
    pairs_are_serializable(
        |n| [vec![0; 10 + n as usize / 97 % 9], n.to_be_bytes().to_vec()].concat(),
        2400,
        4000,
    );
}

#[test]
fn far_away_keys_do_not_conflict() {
    let mut mock = Mock::new(128 << 20);
    let numbers: BTreeMap<u64, u64> = mock.transact(BTreeMap::create).unwrap();
    let names: BTreeMap<str, [u8; 100]> = mock.transact(BTreeMap::create).unwrap();
    let name = |n: u64| format!("user:{n:09}");
    // In no order, so that not all nodes are full.
    for n in (0..20_000).map(|n| n * 7919 % 20_000) {
        mock.transact(|tx| {
            numbers.put(tx, 10 * n, n)?;
            names.put(tx, name(10 * n), [0; 100])
        })
        .unwrap();
    }
    let mut below = random_below();
    let mut of_inserts = 0;
    for trial in 0..2000_u64 {
        let (a, b) = (10 * below(10_000), 10 * (10_100 + below(9900)));
        let meets = |a: &Trace, b: &Trace| {
            let meets = |a: &Trace, b: &Trace| {
                !a.writes.is_disjoint(&b.writes) || !a.writes.is_disjoint(&b.reads)
            };
            meets(a, b) || meets(b, a)
        };
        let update = |mock: &mut Mock, after, n| {
            trace(mock, after, |tx| {
                numbers.put(tx, n, trial)?;
                names.put(tx, name(n), [trial as u8; 100])
            })
        };
        let (_, one) = update(&mut mock, 0, a);
        let (_, other) = update(&mut mock, APART, b);
        assert!(!meets(&one, &other), "updates of {a} and {b}");
        let insert = |mock: &mut Mock, after, n| {
            trace(mock, after, |tx| {
                assert!(names.put(tx, name(n), [1; 100])?);
                Ok(())
            })
        };
        let ((), one) = insert(&mut mock, 0, a + 1 + below(9));
        let ((), other) = insert(&mut mock, APART, b + 1 + below(9));
        of_inserts += usize::from(meets(&one, &other));
    }
    // One in 64 shares a stripe of the length, and some split a node whose parent the other reads.
    assert!(of_inserts < 120, "{of_inserts} of 2000 pairs of insertions");
}
