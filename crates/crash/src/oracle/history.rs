//! A checker of transaction histories over lists: isolation level, and states after a crash.
//!
//! Transactions read whole lists and append values, each value once in a history. A list therefore
//! gives the order of the transactions that made it. The reads then determine the transactions that
//! each one must precede and follow:
//!
//! ```text
//!   list of a key    ... | u by A | v by B | w by C |        T has read it up to v
//!   A --ww--> B          B has appended after A
//!   B --wr--> T          T has read B's append
//!   T --rw--> C          T has not read C's append
//! ```
//!
//! A cycle of these edges has no serial order. Its name, and the levels that allow it:
//!
//! | cycle | of | serializable | snapshot isolation |
//! |---|---|---|---|
//! | G0 | ww | no | no |
//! | G1c | ww, wr | no | no |
//! | G-single | ww, wr, one rw | no | no |
//! | non-adjacent | ww, wr, rw, no two rw in a row | no | no; parallel: yes |
//! | write skew | two rw in a row, always | no | yes |
//!
//! (Adya, *Weak Consistency*; Kingsbury and Alvaro, *Elle*, section 4; for snapshot isolation
//! Fekete and others, *Making Snapshot Isolation Serializable*, theorem 2.1; for parallel snapshot
//! isolation Sovran and others, *Transactional Storage for Geo-Replicated Systems*.)
//!
//! This file needs nothing but the standard library, so that models can compile it too.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;

/// The identifier of a list.
pub type Key = u64;
/// Lists and their values; an empty list may be missing.
pub type Lists = BTreeMap<Key, Vec<u64>>;

/// A transaction that committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Lists that it has read, as they were before its own appends.
    pub reads: Vec<(Key, Vec<u64>)>,
    /// Its appends, in order.
    pub appends: Vec<(Key, u64)>,
    /// Before its begin, and after its commit returned, on a shared clock.
    pub span: (u64, u64),
}

/// A history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In any order; results identify transactions by their index here.
    pub transactions: Vec<Transaction>,
    /// All lists, read after the last write.
    pub last: Lists,
}

/// A promised isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Serializable, and a transaction that began after another returned comes after it.
    Strict,
    /// Equivalent to some serial order.
    Serializable,
    /// As [`Snapshot`](Level::Snapshot), at a moment not before its begin: it has read all
    /// transactions that had returned.
    StrictSnapshot,
    /// Each has read the state of one moment, and has overwritten only values that it has read.
    Snapshot,
    /// As [`Snapshot`](Level::Snapshot), but two transactions may see two concurrent ones in
    /// different orders (*long fork*): each worker sees its own before others do.
    ParallelSnapshot,
}

/// The reason why one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The second has appended after the first.
    WriteWrite,
    /// The second has read the first's append.
    WriteRead,
    /// The second has appended a value that the first has not read.
    ReadWrite,
    /// The second began after the first returned.
    RealTime,
}

/// An edge: one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The earlier.
    pub from: usize,
    /// The reason.
    pub why: Why,
    /// The later.
    pub to: usize,
}

/// The kinds of cycles in the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes only.
    G0,
    /// Writes and reads of them.
    G1c,
    /// One read that missed a write: lost updates, torn and stale reads.
    Single,
    /// Several such, never two in a row.
    NonAdjacent,
    /// Two in a row, which snapshot isolation allows.
    WriteSkew,
}

/// A value, and the transaction that has read or appended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The transaction.
    pub transaction: usize,
    /// The list.
    pub key: Key,
    /// The value.
    pub value: u64,
}

/// An anomaly of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// The value occurs twice in the list, or was appended twice.
    Twice(Key, u64),
    /// The value was read, and no committed transaction has appended it (G1a).
    Unknown(At),
    /// The value was read without a later append of the same transaction (G1b).
    Intermediate(At),
    /// Its own writer read the value before it appended it.
    FromItself(At),
    /// The list was read up to the value, and is not a prefix of its final state.
    Forked(At),
    /// The value was appended and is missing in the list at the end.
    Lost(At),
    /// No serial order exists.
    Cycle(Kind, Vec<Edge>),
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "history: {self:?}")
    }
}

/// A violation in the state after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The list is not a prefix of its final state.
    NotAPrefix(Key),
    /// Some of the transaction's appends are present and some are missing.
    Torn(usize),
    /// The transaction was acknowledged, and is lost.
    Forgotten(usize),
    /// The first is lost. The second depends on it, and is present, or only read and was
    /// acknowledged.
    Unfounded(Edge),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash: {self:?}")
    }
}

impl History {
    /// Checks that the history has the promised isolation. Its time is proportional to the size of
    /// all reads, and for [`Level::Strict`] to the square of the number of transactions.
    ///
    /// # Errors
    /// The worst anomaly, shown by as few transactions as possible.
    pub fn check(&self, level: Level) -> Result<(), Anomaly> {
        let mut edges = self.edges()?;
        if matches!(level, Level::Strict | Level::StrictSnapshot) {
            edges.extend(self.real_time());
        }
        let graph = Graph::new(self.transactions.len(), edges);
        if graph.is_acyclic() {
            return Ok(());
        }
        let kinds = [Kind::G0, Kind::G1c, Kind::Single, Kind::NonAdjacent, Kind::WriteSkew];
        let forbidden = |kind: &Kind| match level {
            Level::Strict | Level::Serializable => true,
            Level::StrictSnapshot | Level::Snapshot => *kind != Kind::WriteSkew,
            Level::ParallelSnapshot => !matches!(kind, Kind::WriteSkew | Kind::NonAdjacent),
        };
        for kind in kinds.into_iter().filter(forbidden) {
            if let Some(edges) = graph.shortest(kind) {
                return Err(Anomaly::Cycle(kind, edges));
            }
        }
        Ok(())
    }

    /// Checks the lists after a crash, and returns which transactions survived.
    ///
    /// Each transaction must be present whole or not at all, with all that it depends on, and all
    /// acknowledged ones must be present (of a read-only one, all that it has read). A read-only
    /// transaction counts as surviving if it was acknowledged.
    ///
    /// # Errors
    /// The violation.
    ///
    /// # Panics
    /// When the history itself is invalid; [`check`](History::check) reports that before.
    pub fn after_crash(&self, left: &Lists, acknowledged: &[bool]) -> Result<Vec<bool>, Damage> {
        for (&key, list) in left {
            let whole = self.last.get(&key).map_or(&[][..], Vec::as_slice);
            if !whole.starts_with(list) {
                return Err(Damage::NotAPrefix(key));
            }
        }
        let present: HashSet<(Key, u64)> =
            left.iter().flat_map(|(&key, list)| list.iter().map(move |&v| (key, v))).collect();
        let mut there = Vec::with_capacity(self.transactions.len());
        for (transaction, Transaction { appends, .. }) in self.transactions.iter().enumerate() {
            let found = appends.iter().filter(|append| present.contains(append)).count();
            if found != 0 && found != appends.len() {
                return Err(Damage::Torn(transaction));
            }
            if acknowledged[transaction] && found != appends.len() {
                return Err(Damage::Forgotten(transaction));
            }
            there.push(if appends.is_empty() { acknowledged[transaction] } else { found > 0 });
        }
        let edges = self.edges().expect("the history was checked before");
        let rests_on = |edge: &&Edge| matches!(edge.why, Why::WriteWrite | Why::WriteRead);
        match edges.iter().filter(rests_on).find(|edge| there[edge.to] && !there[edge.from]) {
            Some(&edge) => Err(Damage::Unfounded(edge)),
            None => Ok(there),
        }
    }

    /// Returns all edges except those of real time.
    fn edges(&self) -> Result<Vec<Edge>, Anomaly> {
        let writers = self.writers()?;
        let writer = |key: Key, value: u64| writers.get(&(key, value)).copied();
        let mut edges = BTreeSet::new();
        let mut before = |from: usize, why: Why, to: usize| {
            if from != to {
                edges.insert(Edge { from, why, to });
            }
        };
        for (&key, order) in &self.last {
            for pair in order.windows(2) {
                if let (Some(from), Some(to)) = (writer(key, pair[0]), writer(key, pair[1])) {
                    before(from, Why::WriteWrite, to);
                }
            }
        }
        for (reader, transaction) in self.transactions.iter().enumerate() {
            for &(key, ref list) in &transaction.reads {
                let at = |value| At { transaction: reader, key, value };
                for &value in list {
                    match writer(key, value) {
                        None => return Err(Anomaly::Unknown(at(value))),
                        Some(it) if it == reader => return Err(Anomaly::FromItself(at(value))),
                        Some(_) => {}
                    }
                }
                let order = self.last.get(&key).map_or(&[][..], Vec::as_slice);
                let end = list.last().copied();
                if let Some(value) = end.filter(|_| !order.starts_with(list)) {
                    return Err(Anomaly::Forked(at(value)));
                }
                let seen = end.and_then(|value| writer(key, value));
                let missed = order.get(list.len()).and_then(|&value| writer(key, value));
                if let Some(value) = end.filter(|_| seen == missed) {
                    return Err(Anomaly::Intermediate(at(value)));
                }
                seen.into_iter().for_each(|from| before(from, Why::WriteRead, reader));
                missed.into_iter().for_each(|to| before(reader, Why::ReadWrite, to));
            }
        }
        Ok(edges.into_iter().collect())
    }

    /// Returns the writer of each value.
    fn writers(&self) -> Result<HashMap<(Key, u64), usize>, Anomaly> {
        let mut last = HashSet::new();
        for (&key, list) in &self.last {
            if let Some(&value) = list.iter().find(|&&value| !last.insert((key, value))) {
                return Err(Anomaly::Twice(key, value));
            }
        }
        let mut writers = HashMap::new();
        for (transaction, Transaction { appends, .. }) in self.transactions.iter().enumerate() {
            for &(key, value) in appends {
                if writers.insert((key, value), transaction).is_some() {
                    return Err(Anomaly::Twice(key, value));
                }
                if !last.contains(&(key, value)) {
                    return Err(Anomaly::Lost(At { transaction, key, value }));
                }
            }
        }
        Ok(writers)
    }

    fn real_time(&self) -> impl Iterator<Item = Edge> {
        let all = || self.transactions.iter().enumerate();
        all().flat_map(move |(from, earlier)| {
            all().filter(move |(_, later)| earlier.span.1 < later.span.0).map(move |(to, _)| Edge {
                from,
                why: Why::RealTime,
                to,
            })
        })
    }
}

struct Graph {
    /// The edges that leave each transaction.
    leaving: Vec<Vec<Edge>>,
}

impl Graph {
    fn new(transactions: usize, edges: Vec<Edge>) -> Graph {
        let mut leaving = vec![Vec::new(); transactions];
        edges.into_iter().for_each(|edge| leaving[edge.from].push(edge));
        Graph { leaving }
    }

    /// Removes transactions without predecessors repeatedly; returns whether none remain.
    fn is_acyclic(&self) -> bool {
        let mut before = vec![0_usize; self.leaving.len()];
        self.leaving.iter().flatten().for_each(|edge| before[edge.to] += 1);
        let mut free: Vec<usize> = (0..before.len()).filter(|&at| before[at] == 0).collect();
        let mut taken = 0;
        while let Some(at) = free.pop() {
            taken += 1;
            for edge in &self.leaving[at] {
                before[edge.to] -= 1;
                if before[edge.to] == 0 {
                    free.push(edge.to);
                }
            }
        }
        taken == before.len()
    }

    /// Returns a shortest cycle of this kind or of one before it.
    fn shortest(&self, kind: Kind) -> Option<Vec<Edge>> {
        // If the kind has exactly one edge that misses a write, start with it. If no two such edges
        // are neighbours, start with another one, so that the ends need no check.
        let first = |why: Why| match kind {
            Kind::Single => why == Why::ReadWrite,
            Kind::WriteSkew => true,
            _ => why != Why::ReadWrite,
        };
        let next = |before: Why, why: Why| match kind {
            Kind::G0 => why == Why::WriteWrite || why == Why::RealTime,
            Kind::G1c | Kind::Single => why != Why::ReadWrite,
            Kind::NonAdjacent => before != Why::ReadWrite || why != Why::ReadWrite,
            Kind::WriteSkew => true,
        };
        let firsts = self.leaving.iter().flatten().filter(|edge| first(edge.why));
        let firsts = firsts.filter(|edge| kind != Kind::G0 || next(edge.why, edge.why));
        firsts.filter_map(|&edge| self.back(edge, next)).min_by_key(Vec::len)
    }

    /// Returns a shortest cycle that begins with this edge.
    fn back(&self, first: Edge, next: impl Fn(Why, Why) -> bool) -> Option<Vec<Edge>> {
        // The search state is the transaction, and whether a missed write has led to it.
        let place = |edge: &Edge| (edge.to, edge.why == Why::ReadWrite);
        let mut reached = HashMap::from([(place(&first), (first, None))]);
        let mut queue = VecDeque::from([first]);
        while let Some(last) = queue.pop_front() {
            if last.to == first.from {
                let mut cycle = Vec::new();
                let mut at = Some(place(&last));
                while let Some((edge, before)) = at.map(|at| reached[&at]) {
                    cycle.push(edge);
                    at = before;
                }
                cycle.reverse();
                return Some(cycle);
            }
            for &edge in self.leaving[last.to].iter().filter(|edge| next(last.why, edge.why)) {
                reached.entry(place(&edge)).or_insert_with(|| {
                    queue.push_back(edge);
                    (edge, Some(place(&last)))
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    //! Histories written by hand: each anomaly is found and classified.

    use super::*;

    const X: Key = 0;
    const Y: Key = 1;
    const Z: Key = 2;

    fn tx(reads: &[(Key, &[u64])], appends: &[(Key, u64)]) -> Transaction {
        let reads = reads.iter().map(|&(key, list)| (key, list.to_vec())).collect();
        Transaction { reads, appends: appends.to_vec(), span: (0, 0) }
    }

    fn history(transactions: Vec<Transaction>, last: &[(Key, &[u64])]) -> History {
        History { transactions, last: lists(last) }
    }

    fn lists(lists: &[(Key, &[u64])]) -> Lists {
        lists.iter().map(|&(key, list)| (key, list.to_vec())).collect()
    }

    /// Returns its anomalies as a serializable history, and as a snapshot history.
    fn kinds(history: &History) -> [Option<Kind>; 2] {
        [Level::Serializable, Level::Snapshot].map(|level| match history.check(level) {
            Ok(()) => None,
            Err(Anomaly::Cycle(kind, edges)) => {
                let next = edges.iter().cycle().skip(1);
                assert!(edges.iter().zip(next).all(|(a, b)| a.to == b.from), "a cycle: {edges:?}");
                Some(kind)
            }
            Err(other) => panic!("{other}"),
        })
    }

    #[test]
    fn serial_history_is_accepted() {
        let all = vec![
            tx(&[(X, &[1]), (Y, &[])], &[(Y, 2)]),
            tx(&[(X, &[])], &[(X, 1)]),
            tx(&[(X, &[1]), (Y, &[2])], &[]),
            tx(&[(Y, &[2])], &[(X, 3), (X, 4)]),
        ];
        let all = history(all, &[(X, &[1, 3, 4]), (Y, &[2])]);
        assert_eq!(kinds(&all), [None; 2]);
        assert_eq!(all.check(Level::Strict), Ok(()));
    }

    #[test]
    fn writes_in_two_orders_are_g0() {
        let all = vec![tx(&[], &[(X, 1), (Y, 2)]), tx(&[], &[(X, 3), (Y, 4)])];
        let all = history(all, &[(X, &[1, 3]), (Y, &[4, 2])]);
        assert_eq!(kinds(&all), [Some(Kind::G0); 2]);
    }

    #[test]
    fn mutual_reads_are_g1c() {
        let all = vec![tx(&[(Y, &[2])], &[(X, 1)]), tx(&[(X, &[1])], &[(Y, 2)])];
        assert_eq!(kinds(&history(all, &[(X, &[1]), (Y, &[2])])), [Some(Kind::G1c); 2]);
    }

    #[test]
    fn torn_read_is_g_single() {
        let all = vec![tx(&[], &[(X, 1), (Y, 2)]), tx(&[(X, &[1]), (Y, &[])], &[])];
        assert_eq!(kinds(&history(all, &[(X, &[1]), (Y, &[2])])), [Some(Kind::Single); 2]);
    }

    #[test]
    fn lost_update_is_g_single() {
        let all = vec![tx(&[(X, &[])], &[(X, 1)]), tx(&[(X, &[])], &[(X, 2)])];
        assert_eq!(kinds(&history(all, &[(X, &[1, 2])])), [Some(Kind::Single); 2]);
    }

    #[test]
    fn write_skew_is_allowed_under_snapshots_only() {
        let all = vec![tx(&[(X, &[]), (Y, &[])], &[(X, 1)]), tx(&[(X, &[]), (Y, &[])], &[(Y, 2)])];
        assert_eq!(kinds(&history(all, &[(X, &[1]), (Y, &[2])])), [Some(Kind::WriteSkew), None]);
    }

    /// A read-only transaction makes a serializable history unserializable.
    #[test]
    fn read_only_anomaly_is_write_skew() {
        let all = vec![
            tx(&[(X, &[]), (Y, &[])], &[(X, 1)]),
            tx(&[(Y, &[])], &[(Y, 2)]),
            tx(&[(X, &[]), (Y, &[2])], &[]),
        ];
        assert_eq!(kinds(&history(all, &[(X, &[1]), (Y, &[2])])), [Some(Kind::WriteSkew), None]);
    }

    /// Two readers that see two writers in different orders.
    #[test]
    fn long_fork_is_forbidden_under_snapshots() {
        let all = vec![
            tx(&[], &[(X, 1)]),
            tx(&[], &[(Y, 2)]),
            tx(&[(X, &[1]), (Y, &[])], &[]),
            tx(&[(X, &[]), (Y, &[2])], &[]),
        ];
        assert_eq!(kinds(&history(all, &[(X, &[1]), (Y, &[2])])), [Some(Kind::NonAdjacent); 2]);
    }

    /// A cycle of three that snapshots allow, beside one of six that they do not.
    #[test]
    fn worst_of_several_cycles_is_reported() {
        let skew = [tx(&[(X, &[]), (Y, &[])], &[(X, 1)]), tx(&[(X, &[]), (Y, &[])], &[(Y, 2)])];
        let torn = [tx(&[], &[(Z, 3), (3, 4)]), tx(&[(Z, &[3]), (3, &[])], &[])];
        let all = skew.into_iter().chain(torn).collect();
        let all = history(all, &[(X, &[1]), (Y, &[2]), (Z, &[3]), (3, &[4])]);
        assert_eq!(kinds(&all), [Some(Kind::Single); 2]);
    }

    /// A strict snapshot contains every transaction that returned before its begin.
    #[test]
    fn old_snapshot_is_not_strict() {
        let timed = |mut it: Transaction, span| {
            it.span = span;
            it
        };
        let all = |began| {
            let reader = timed(tx(&[(X, &[])], &[(Y, 2)]), (began, began + 2));
            history(vec![timed(tx(&[], &[(X, 1)]), (1, 3)), reader], &[(X, &[1]), (Y, &[2])])
        };
        assert_eq!(all(2).check(Level::StrictSnapshot), Ok(()));
        assert_eq!(all(4).check(Level::Snapshot), Ok(()));
        let stale = all(4).check(Level::StrictSnapshot);
        assert!(matches!(stale, Err(Anomaly::Cycle(Kind::Single, _))), "{stale:?}");
        // Both levels allow write skew.
        let skew = [tx(&[(X, &[])], &[(Y, 2)]), tx(&[(Y, &[])], &[(X, 1)])];
        let skew = skew.map(|it| timed(it, (1, 2)));
        let skew = history(skew.to_vec(), &[(X, &[1]), (Y, &[2])]);
        assert_eq!(skew.check(Level::StrictSnapshot), Ok(()));
    }

    #[test]
    fn stale_read_violates_only_real_time() {
        let mut all = vec![tx(&[], &[(X, 1)]), tx(&[(X, &[])], &[])];
        (all[0].span, all[1].span) = ((1, 2), (3, 4));
        let all = history(all, &[(X, &[1])]);
        assert_eq!(kinds(&all), [None; 2]);
        let stale = Edge { from: 1, why: Why::ReadWrite, to: 0 };
        let after = Edge { from: 0, why: Why::RealTime, to: 1 };
        let found = Anomaly::Cycle(Kind::Single, vec![stale, after]);
        assert_eq!(all.check(Level::Strict), Err(found));
    }

    #[test]
    fn anomalies_without_cycles_are_found() {
        let check = |transactions, last| history(transactions, last).check(Level::Snapshot);
        let at = At { transaction: 0, key: X, value: 1 };
        assert_eq!(check(vec![tx(&[(X, &[1])], &[])], &[(X, &[1])]), Err(Anomaly::Unknown(at)));
        let append = || tx(&[], &[(X, 1)]);
        assert_eq!(check(vec![append()], &[]), Err(Anomaly::Lost(at)));
        assert_eq!(check(vec![append()], &[(X, &[1, 1])]), Err(Anomaly::Twice(X, 1)));
        assert_eq!(check(vec![append(), append()], &[(X, &[1])]), Err(Anomaly::Twice(X, 1)));
        let (part, both) = (tx(&[(X, &[1])], &[]), tx(&[], &[(X, 1), (X, 2)]));
        assert_eq!(check(vec![part, both], &[(X, &[1, 2])]), Err(Anomaly::Intermediate(at)));
        let (fork, other) = (tx(&[(X, &[2])], &[]), tx(&[], &[(X, 2)]));
        assert_eq!(
            check(vec![fork, other, append()], &[(X, &[1, 2])]),
            Err(Anomaly::Forked(At { value: 2, ..at }))
        );
        assert_eq!(
            check(vec![tx(&[(X, &[1])], &[(X, 1)])], &[(X, &[1])]),
            Err(Anomaly::FromItself(at))
        );
    }

    #[test]
    fn crash_may_lose_whole_unread_transactions() {
        let all = vec![
            tx(&[], &[(X, 1), (Y, 2)]),
            tx(&[(X, &[1])], &[(Z, 3)]),
            tx(&[(Z, &[3])], &[]),
            tx(&[], &[(3, 4)]),
        ];
        let all = history(all, &[(X, &[1]), (Y, &[2]), (Z, &[3]), (3, &[4])]);
        let none = [false; 4];
        let left =
            |left: &[(Key, &[u64])], acknowledged| all.after_crash(&lists(left), acknowledged);
        assert_eq!(left(&[], &none), Ok(vec![false; 4]));
        assert_eq!(left(&[(X, &[1]), (Y, &[2])], &none), Ok(vec![true, false, false, false]));
        assert_eq!(left(&[(3, &[4])], &none), Ok(vec![false, false, false, true]));
        assert_eq!(left(&[(X, &[1])], &none), Err(Damage::Torn(0)));
        assert_eq!(left(&[(X, &[2])], &none), Err(Damage::NotAPrefix(X)));
        let second = [false, true, false, false];
        assert_eq!(left(&[], &second), Err(Damage::Forgotten(1)));
        let unfounded = |from, to| Edge { from, why: Why::WriteRead, to };
        assert_eq!(left(&[(Z, &[3])], &none), Err(Damage::Unfounded(unfounded(0, 1))));
        let reader = [false, false, true, false];
        assert_eq!(left(&[], &reader), Err(Damage::Unfounded(unfounded(1, 2))));
        let whole = [(X, &[1][..]), (Y, &[2]), (Z, &[3])];
        assert_eq!(left(&whole, &reader), Ok(vec![true, true, true, false]));
    }
}
