//! Tests of mutants in the collections that allow write skew.
//!
//! Two transactions run under snapshot isolation. The second runs between the snapshot and the
//! operations of the first. The results of both transactions and the final content must equal those
//! of a serial execution, in one of the two orders. The test executes both orders on the mock heap.

use faults::mutants::{Mutant, inject};
use lastword::collections::{BTreeMap, HashMap, Vec, VecDeque};
use lastword::{ErasedTx, Medium, Options, Pool, Snapshot};
use words::mock::Mock;
use words::{Stop, Transact};

use crate::parts::machine;

/// An element of 64 bytes; a chunk holds 7.
type Long = [u64; 8];

/// The collections that both transactions use.
#[derive(Clone, Copy)]
struct Tables {
    ordered: BTreeMap<u64, u64>,
    hashed: HashMap<u64, u64>,
    vec: Vec<u64>,
    queue: VecDeque<Long>,
    /// Keys that a transaction inserts after it found something absent.
    marks: HashMap<u64, u64>,
}

/// All content of the collections, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    pairs: [std::vec::Vec<(u64, u64)>; 3],
    elements: std::vec::Vec<u64>,
    queued: std::vec::Vec<Long>,
}

type Body = fn(&mut ErasedTx<'_>, Tables) -> Result<u64, Stop>;

/// Two transactions on a prepared state.
struct ConcurrentPair {
    name: &'static str,
    prepare: Body,
    first: Body,
    second: Body,
}

const PAIRS: [ConcurrentPair; 8] = [
    ConcurrentPair {
        name: "an absent key, and its insertion",
        prepare: |tx, it| it.ordered.extend(tx, [(2, 2), (4, 4), (6, 6)]).map(|()| 0),
        first: |tx, it| {
            let found = it.ordered.remove(tx, 5)?;
            mark_unless(tx, it, found.is_some())
        },
        second: |tx, it| unless_marked(tx, it, |tx| it.ordered.put(tx, 5, 50)),
    },
    ConcurrentPair {
        name: "an empty map, and an insertion",
        prepare: |tx, it| {
            it.ordered.put(tx, 1, 1).and_then(|_| it.ordered.remove(tx, 1)).map(|_| 0)
        },
        first: |tx, it| {
            let found = it.ordered.pop_first(tx)?;
            mark_unless(tx, it, found.is_some())
        },
        second: |tx, it| unless_marked(tx, it, |tx| it.ordered.put(tx, 5, 50)),
    },
    ConcurrentPair {
        name: "an absent pair, and its insertion",
        prepare: |tx, it| it.hashed.extend(tx, [(2, 2), (4, 4), (6, 6)]).map(|()| 0),
        first: |tx, it| {
            let found = it.hashed.remove(tx, 5)?;
            mark_unless(tx, it, found.is_some())
        },
        second: |tx, it| unless_marked(tx, it, |tx| it.hashed.put(tx, 5, 50)),
    },
    ConcurrentPair {
        name: "a push behind a full chunk, and a pop",
        prepare: |tx, it| it.vec.extend(tx, 0..120_u64).map(|()| 0),
        first: |tx, it| it.vec.push(tx, 7).map(|()| 0),
        second: |tx, it| it.vec.pop(tx).map(Option::unwrap_or_default),
    },
    ConcurrentPair {
        name: "a pop beside an empty chunk, and a push",
        prepare: |tx, it| it.vec.extend(tx, 0..61_u64).and_then(|()| it.vec.pop(tx)).map(|_| 0),
        first: |tx, it| it.vec.pop(tx).map(Option::unwrap_or_default),
        second: |tx, it| it.vec.push(tx, 7).map(|()| 0),
    },
    ConcurrentPair {
        name: "pops of all at the front, and at the back",
        prepare: |tx, it| queue(tx, it, 13, 2),
        first: |tx, it| (0..5).try_fold(0, |_, _| Ok(head(it.queue.pop_front(tx)?))),
        second: |tx, it| (0..6).try_fold(0, |_, _| Ok(head(it.queue.pop_back(tx)?))),
    },
    ConcurrentPair {
        name: "a change by an index, and a pop at the front",
        prepare: |tx, it| queue(tx, it, 50, 3),
        first: |tx, it| it.queue.set(tx, 30, [99; 8]).map(head),
        second: |tx, it| {
            let seen = it.queue.get(tx, 30)?;
            it.queue.pop_front(tx)?;
            Ok(head(seen))
        },
    },
    ConcurrentPair {
        name: "a step that clears, and a push at the front",
        prepare: |tx, it| queue(tx, it, 70, 9),
        first: |tx, it| {
            let len = it.queue.len(tx)?;
            it.queue.clear_step(tx, 1)?;
            Ok(len)
        },
        second: |tx, it| it.queue.push_front(tx, [1; 8]).map(|()| 0),
    },
];

/// Pushes `len` elements to the queue, and pops the first `popped`.
fn queue(tx: &mut ErasedTx<'_>, it: Tables, len: u64, popped: u64) -> Result<u64, Stop> {
    it.queue.extend(tx, (0..len).map(|n| [n; 8]))?;
    (0..popped).try_for_each(|_| it.queue.pop_front(tx).map(drop))?;
    Ok(0)
}

fn head(element: Option<Long>) -> u64 {
    element.map_or(u64::MAX, |element| element[0])
}

fn mark_unless(tx: &mut ErasedTx<'_>, it: Tables, found: bool) -> Result<u64, Stop> {
    if !found {
        it.marks.put(tx, 1, 1)?;
    }
    Ok(u64::from(found))
}

fn unless_marked(
    tx: &mut ErasedTx<'_>,
    it: Tables,
    change: impl FnOnce(&mut ErasedTx<'_>) -> Result<bool, Stop>,
) -> Result<u64, Stop> {
    if it.marks.contains_key(tx, 1)? { Ok(2) } else { change(tx).map(u64::from) }
}

impl ConcurrentPair {
    fn tables(&self, tx: &mut ErasedTx<'_>) -> Result<Tables, Stop> {
        let tables = Tables::create(tx)?;
        (self.prepare)(tx, tables)?;
        Ok(tables)
    }
}

impl Tables {
    fn create(tx: &mut ErasedTx<'_>) -> Result<Tables, Stop> {
        Ok(Tables {
            ordered: BTreeMap::create(tx)?,
            hashed: HashMap::with_seed(tx, 1)?,
            vec: Vec::create(tx)?,
            queue: VecDeque::create(tx)?,
            marks: HashMap::with_seed(tx, 1)?,
        })
    }

    /// Returns the content of sound collections, else `None`.
    fn content(self, tx: &mut ErasedTx<'_>) -> Result<Option<Content>, Stop> {
        let is_sound = self.ordered.check(tx)?.damage.is_empty()
            && self.hashed.check(tx)?.damage.is_empty()
            && self.marks.check(tx)?.damage.is_empty()
            && self.vec.check(tx)?.damage.is_empty()
            && self.queue.check(tx)?.damage.is_empty();
        if !is_sound {
            return Ok(None);
        }
        let mut content = Content::default();
        let [ordered, hashed, marks] = &mut content.pairs;
        self.ordered.for_each(tx, |key, value| ordered.push((key, value)))?;
        self.hashed.for_each(tx, |key, value| hashed.push((key, value)))?;
        self.marks.for_each(tx, |key, value| marks.push((key, value)))?;
        hashed.sort_unstable();
        content.elements = self.vec.iter(tx).collect::<Result<_, _>>()?;
        content.queued = self.queue.iter(tx).collect::<Result<_, _>>()?;
        Ok(Some(content))
    }
}

/// Runs the two transactions serially in this order, and returns their results and the final
/// content.
fn in_order(pair: &ConcurrentPair, order: [usize; 2]) -> ([u64; 2], Option<Content>) {
    let mut mock = Mock::new(1 << 20);
    let tables = mock.transact(|tx| pair.tables(&mut ErasedTx::new(tx))).unwrap();
    let mut results = [0; 2];
    for number in order {
        let body = [pair.first, pair.second][number];
        results[number] = mock.transact(|tx| body(&mut ErasedTx::new(tx), tables)).unwrap();
    }
    (results, mock.transact(|tx| tables.content(&mut ErasedTx::new(tx))).unwrap())
}

/// Runs each pair, and returns the first one whose outcome matches neither serial order.
pub(crate) fn concurrent_transactions(bug: Option<Mutant>) -> Option<String> {
    let orders = PAIRS.each_ref().map(|it| [[0, 1], [1, 0]].map(|order| in_order(it, order)));
    let _injected = inject(bug);
    let recorder = machine();
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12);
    let options = options.medium(Medium::Dax).system(recorder.system());
    let pool = Pool::<Snapshot>::create_as("/pool", options).unwrap();
    for (pair, orders) in PAIRS.iter().zip(orders) {
        let tables = pool.run(|tx| pair.tables(&mut ErasedTx::new(tx))).unwrap().value;
        let mut second = None;
        let first = pool.run(|tx| {
            let tx = &mut ErasedTx::new(tx);
            // A read takes the snapshot of the first attempt.
            if tables.marks.is_empty(tx)? && second.is_none() {
                // A thread runs one transaction at a time.
                second = Some(std::thread::scope(|threads| {
                    let run = || {
                        let _injected = inject(bug);
                        pool.run(|tx| (pair.second)(&mut ErasedTx::new(tx), tables)).unwrap().value
                    };
                    threads.spawn(run).join().unwrap()
                }));
            }
            (pair.first)(tx, tables)
        });
        let results = [first.unwrap().value, second.unwrap()];
        let content = pool.run(|tx| tables.content(&mut ErasedTx::new(tx)));
        let Ok(Some(content)) = content.map(|found| found.value) else {
            return Some(format!("damaged: {}", pair.name));
        };
        if !orders.contains(&(results, Some(content))) {
            return Some(format!("skew: {}", pair.name));
        }
    }
    None
}
