//! Lock tests: the locks held at each access, and whether they suffice.
//!
//! Workers alternate on the mock, a transaction each. These findings do not depend on the
//! interleaving:
//! - a word that a worker writes and another one accesses, without a common lock;
//! - a line of 64 bytes that two workers write, without a common lock;
//! - a cycle in the order of locks, or a lock taken after an allocation or retirement, when the
//!   allocator's locks, which come last, may be held;
//! - in a workload that announces: a line that is written and was not announced before the first
//!   write.
//!
//! Lines are counted inside an object, as objects begin at a line on the target hardware. The
//! allocator's words and locks are not observed: the mock has none.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use words::mock::{Mock, Refused};
use words::{Addr, Allocate, LockId, Stop, Transact, Words};

const LINE_BYTES: u64 = 64;

/// A finding.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Two workers, the object and the byte in it.
    Word(usize, usize, u64, u64),
    /// Two workers, the object and the line in it.
    Line(usize, usize, u64, u64),
    /// A cycle of locks.
    Circle(Vec<LockId>),
    /// A lock taken after an allocation.
    Late(LockId),
}

/// Accesses to one word or line: worker, kind, and the number of the set of locks held.
type Accesses = BTreeSet<(usize, bool, usize)>;

/// The history of all workers.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    words: HashMap<(u64, u64), Accesses>,
    lines: HashMap<(u64, u64), Accesses>,
    /// Sets of locks, and the number of each.
    sets: Vec<BTreeSet<LockId>>,
    numbers: HashMap<BTreeSet<LockId>, usize>,
    /// Pairs of a held lock and a lock taken then.
    order: HashSet<(LockId, LockId)>,
    /// The first lock that was taken after an allocation.
    late: Option<LockId>,
    /// Lines that transactions have written, and those of them announced in time.
    pub(crate) written: u64,
    pub(crate) announced: u64,
    /// Most lines that one transaction has written, and fewest.
    pub(crate) lines_max: usize,
    pub(crate) lines_min: Option<usize>,
}

/// One worker.
pub(crate) struct Watched<'a> {
    pub(crate) mock: &'a mut Mock,
    pub(crate) watch: &'a mut Watch,
    pub(crate) worker: usize,
    /// Whether it skips its locks.
    pub(crate) forgets: bool,
}

/// A transaction of a worker.
pub(crate) struct WatchedTx<'a> {
    mock: &'a mut Mock,
    watch: &'a mut Watch,
    worker: usize,
    forgets: bool,
    held: BTreeSet<LockId>,
    /// The number of that set.
    number: usize,
    announced: HashSet<(u64, u64)>,
    written: HashSet<(u64, u64)>,
    /// Whether the allocator writes, whose words are never announced.
    retires: bool,
    has_allocated: bool,
}

impl Watched<'_> {
    /// As [`Transact::transact`], which a borrowing worker cannot implement.
    pub(crate) fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut WatchedTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Refused> {
        let (watch, worker, forgets) = (&mut *self.watch, self.worker, self.forgets);
        self.mock.transact(|mock| {
            let held = BTreeSet::new();
            let number = watch.number(&held);
            let (announced, written) = (HashSet::new(), HashSet::new());
            let mut tx = WatchedTx {
                mock,
                watch: &mut *watch,
                worker,
                forgets,
                held,
                number,
                announced,
                written,
                retires: false,
                has_allocated: false,
            };
            let answer = body(&mut tx);
            let lines = tx.written.len();
            watch.lines_max = watch.lines_max.max(lines);
            watch.lines_min = Some(watch.lines_min.map_or(lines, |fewest| fewest.min(lines)));
            answer
        })
    }
}

impl WatchedTx<'_> {
    fn access(&mut self, at: Addr, writes: bool) {
        let (word, line) = ((at.object, at.offset), (at.object, at.offset / LINE_BYTES));
        let access = (self.worker, writes, self.number);
        self.watch.words.entry(word).or_default().insert(access);
        if writes {
            self.watch.lines.entry(line).or_default().insert(access);
            if !self.retires && self.written.insert(line) {
                self.watch.written += 1;
                self.watch.announced += u64::from(self.announced.contains(&line));
            }
        }
    }
}

impl Words for WatchedTx<'_> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.access(at, false);
        self.mock.read(at)
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.access(at, true);
        self.mock.write(at, value)
    }

    fn lock(&mut self, lock: LockId) -> Result<(), Stop> {
        if self.forgets || self.held.contains(&lock) {
            return Ok(());
        }
        if self.has_allocated {
            self.watch.late.get_or_insert(lock);
        }
        self.watch.order.extend(self.held.iter().map(|&before| (before, lock)));
        self.held.insert(lock);
        self.number = self.watch.number(&self.held);
        Ok(())
    }

    fn will_write(&mut self, at: Addr, bytes: usize) {
        if self.written.is_empty() && bytes > 0 {
            let lines = at.offset / LINE_BYTES..=(at.offset + bytes as u64 - 1) / LINE_BYTES;
            self.announced.extend(lines.map(|line| (at.object, line)));
        }
    }

    /// Retires memory, which the allocator writes to.
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        (self.has_allocated, self.retires) = (true, true);
        for offset in (0..bytes).step_by(8) {
            self.access(at.plus(offset), true);
        }
        self.retires = false;
        self.mock.retire(at, bytes)
    }
}

impl Allocate for WatchedTx<'_> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        self.has_allocated = true;
        self.mock.allocate(bytes)
    }

    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        self.mock.reserve_blocks(blocks)
    }

    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        self.mock.prepare_blocks(first, most)
    }

    fn root(&mut self) -> Result<u64, Stop> {
        self.mock.root()
    }

    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.mock.set_root(object)
    }
}

impl Watch {
    /// Returns the first word, the first line and the cycle found, if any.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let first = |places: &HashMap<(u64, u64), Accesses>, both_write| {
            let races = places.iter().filter_map(|(&place, accesses)| {
                self.race(accesses, both_write).map(|workers| (place, workers))
            });
            races.min()
        };
        let word = first(&self.words, false)
            .map(|((object, byte), (a, b))| Finding::Word(a, b, object, byte));
        let line = first(&self.lines, true)
            .map(|((object, line), (a, b))| Finding::Line(a, b, object, line));
        let circle = self.circle();
        let circle = (!circle.is_empty()).then_some(Finding::Circle(circle));
        let late = self.late.map(Finding::Late);
        [word, line, circle, late].into_iter().flatten().collect()
    }

    /// Returns how many pairs of locks were taken in order.
    pub(crate) fn orders(&self) -> usize {
        self.order.len()
    }

    fn number(&mut self, set: &BTreeSet<LockId>) -> usize {
        if let Some(&number) = self.numbers.get(set) {
            return number;
        }
        self.sets.push(set.clone());
        self.numbers.insert(set.clone(), self.sets.len() - 1);
        self.sets.len() - 1
    }

    /// Returns two workers without a common lock, one of them writing, or both.
    fn race(&self, accesses: &Accesses, both_write: bool) -> Option<(usize, usize)> {
        let all = accesses.iter().map(|&(.., number)| &self.sets[number]);
        if { all }.next().is_some_and(|first| {
            first
                .iter()
                .any(|lock| accesses.iter().all(|&(.., number)| self.sets[number].contains(lock)))
        }) {
            return None; // one lock guards it
        }
        for (n, &(a, a_writes, a_locks)) in accesses.iter().enumerate() {
            for &(b, b_writes, b_locks) in accesses.iter().skip(n + 1) {
                let conflict = if both_write { a_writes && b_writes } else { a_writes || b_writes };
                if a != b && conflict && self.sets[a_locks].is_disjoint(&self.sets[b_locks]) {
                    return Some((a, b));
                }
            }
        }
        None
    }

    /// Returns the cycle of locks: repeatedly removes locks that are taken after no remaining one.
    fn circle(&self) -> Vec<LockId> {
        let mut before: BTreeMap<LockId, HashSet<LockId>> = BTreeMap::new();
        let mut after: HashMap<LockId, Vec<LockId>> = HashMap::new();
        for &(first, second) in &self.order {
            before.entry(first).or_default();
            before.entry(second).or_default().insert(first);
            after.entry(first).or_default().push(second);
        }
        let is_free = |(&lock, before): (&LockId, &HashSet<_>)| before.is_empty().then_some(lock);
        let mut free: Vec<LockId> = before.iter().filter_map(is_free).collect();
        while let Some(lock) = free.pop() {
            before.remove(&lock);
            for second in after.get(&lock).into_iter().flatten() {
                let waits_for = before.get_mut(second).expect("every lock has an entry");
                waits_for.remove(&lock);
                if waits_for.is_empty() {
                    free.push(*second);
                }
            }
        }
        before.into_keys().collect()
    }
}
