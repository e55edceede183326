//! Hash maps under conflicts: at every access of an operation, and between two transactions.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use collections::hash_map::Damage;
use collections::{AsValue, Counter, HashMap, Value};
use words::mock::Mock;
use words::{Addr, Allocate, Stop, Transact, Words};

const SEED: u64 = 42;

type Integers = HashMap<u64, u64>;
type Strings = HashMap<str, str>;

/// Runs `operation` with a conflict at its n-th access, for every n: it is atomic, and the map
/// stays sound. Returns the number of accesses.
fn conflict_everywhere<M: Copy, R: PartialEq + Debug>(
    setup: impl Fn(&mut Mock) -> M,
    operation: impl Fn(&mut Mock, M) -> Result<R, Stop>,
    check: impl Fn(&mut Mock, M) -> u64,
) -> u64 {
    let mut undisturbed = Mock::new(1 << 20);
    let map = setup(&mut undisturbed);
    let expected = undisturbed.transact(|tx| operation(tx, map)).unwrap();
    let entries = check(&mut undisturbed, map);
    let live = undisturbed.live();
    for access in 0.. {
        let mut mock = Mock::new(1 << 20);
        let map = setup(&mut mock);
        mock.conflict_after(access);
        let found = mock.transact(|tx| operation(tx, map)).unwrap();
        let is_over = mock.take_conflict();
        assert_eq!(found, expected, "conflict at access {access}");
        assert_eq!(check(&mut mock, map), entries, "conflict at access {access}");
        assert_eq!(mock.live(), live, "conflict at access {access}");
        if is_over {
            return access;
        }
    }
    unreachable!("an operation has a last access");
}

fn integers(pairs: u64) -> impl Fn(&mut Mock) -> Integers {
    move |mock| {
        mock.transact(|tx| {
            let map = Integers::with_seed(tx, SEED)?;
            map.extend(tx, (0..pairs).map(|n| (n, n)))?;
            Ok(map)
        })
        .unwrap()
    }
}

fn strings(pairs: u64) -> impl Fn(&mut Mock) -> Strings {
    move |mock| {
        mock.transact(|tx| {
            let map = Strings::with_seed(tx, SEED)?;
            map.extend(tx, (0..pairs).map(|n| (n.to_string(), "value")))?;
            Ok(map)
        })
        .unwrap()
    }
}

fn check_integers(mock: &mut Mock, map: Integers) -> u64 {
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!(checked.damage, []);
    checked.entries
}

fn check_strings(mock: &mut Mock, map: Strings) -> u64 {
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!(checked.damage, []);
    checked.entries
}

#[test]
fn conflicting_insertion_is_atomic() {
    let mut most = 0;
    // The map's first buckets, splits, the first directories, and stripes for the length.
    for pairs in (0..70).chain(508..514) {
        let insert = |tx: &mut Mock, map: Integers| map.insert(tx, pairs, 1);
        most = most.max(conflict_everywhere(integers(pairs), insert, check_integers));
    }
    assert!(most > 30, "{most}");
    for pairs in 0..20 {
        let insert = |tx: &mut Mock, map: Strings| map.insert(tx, pairs.to_string(), "new");
        conflict_everywhere(strings(pairs), insert, check_strings);
        let update = |tx: &mut Mock, map: Strings| map.insert(tx, "0", "long".repeat(900));
        conflict_everywhere(strings(pairs), update, check_strings);
    }
}

#[test]
fn conflicting_removal_is_atomic() {
    let mut most = 0;
    for pairs in 1..60 {
        // All keys but the last go first, so that removals merge buckets and directories.
        let setup = |mock: &mut Mock| {
            let map = integers(60)(mock);
            mock.transact(|tx| {
                for key in pairs..60 {
                    map.delete(tx, key)?;
                }
                Ok(())
            })
            .unwrap();
            map
        };
        let remove = |tx: &mut Mock, map: Integers| map.remove(tx, pairs - 1);
        most = most.max(conflict_everywhere(setup, remove, check_integers));
    }
    assert!(most > 40, "{most}");
    for most in [1, 3, 10, 100] {
        let clear = |tx: &mut Mock, map: Strings| map.clear_step(tx, most);
        conflict_everywhere(strings(30), clear, check_strings);
        let retain = |tx: &mut Mock, map: Integers| map.retain(tx, |key, _| key % most == 0);
        conflict_everywhere(integers(40), retain, check_integers);
    }
}

/// The unit of conflicts that has an address.
type Unit = fn(Addr) -> u64;

/// Notes the objects, or the 512 bytes, that a transaction reads and writes.
struct Recorder<'m> {
    mock: &'m mut Mock,
    unit: Unit,
    read: BTreeSet<u64>,
    written: BTreeSet<u64>,
    /// All changes, oldest first.
    changes: Vec<Change>,
}

/// A change that a transaction makes.
#[derive(Clone, Debug)]
enum Change {
    Allocate(usize, u64),
    Write(Addr, u64),
    Protect(Addr),
    Resize(u64, u64, u64, bool),
    Retire(Addr, u64),
}

impl<'m> Recorder<'m> {
    fn new(mock: &'m mut Mock, unit: Unit) -> Recorder<'m> {
        let (read, written) = (BTreeSet::new(), BTreeSet::new());
        Recorder { mock, unit, read, written, changes: Vec::new() }
    }
}

/// The units of conflicts of one transaction.
struct Footprint {
    read: BTreeSet<u64>,
    written: BTreeSet<u64>,
}

impl Footprint {
    /// Returns whether two transactions that run at once conflict.
    fn conflicts(&self, other: &Footprint) -> bool {
        let writes = |a: &Footprint, b: &Footprint| {
            !a.written.is_disjoint(&b.written) || !a.written.is_disjoint(&b.read)
        };
        writes(self, other) || writes(other, self)
    }
}

impl Words for Recorder<'_> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.read.insert((self.unit)(at));
        self.mock.read(at)
    }
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.written.insert((self.unit)(at));
        self.changes.push(Change::Write(at, value));
        self.mock.write(at, value)
    }
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        self.written.insert((self.unit)(at));
        self.changes.push(Change::Protect(at));
        self.mock.protect(at)
    }
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        self.changes.push(Change::Retire(at, bytes));
        self.mock.retire(at, bytes)
    }
}

impl Allocate for Recorder<'_> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let object = self.mock.allocate(bytes)?;
        self.changes.push(Change::Allocate(bytes, object));
        Ok(object)
    }
    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        self.mock.reserve_blocks(blocks)
    }
    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        self.mock.prepare_blocks(first, most)
    }
    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        self.mock.allocate_pieces(bytes)
    }
    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        let done = self.mock.resize(first, from, to)?;
        self.changes.push(Change::Resize(first, from, to, done));
        Ok(done)
    }
    fn root(&mut self) -> Result<u64, Stop> {
        self.mock.root()
    }
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.mock.set_root(object)
    }
}

/// Returns the footprint of a transaction in the units that exist before it, and undoes it.
fn footprint<R>(
    mock: &mut Mock,
    unit: Unit,
    body: impl Fn(&mut Recorder<'_>) -> Result<R, Stop>,
) -> Footprint {
    // Memory that it allocates would be given to one of two concurrent transactions only.
    let (last, bytes) = *mock.live().last().unwrap();
    let end = unit(Addr::new(last + bytes, 0));
    let mut footprint = Footprint { read: BTreeSet::new(), written: BTreeSet::new() };
    let refused = mock.transact(|tx| {
        let mut recorder = Recorder::new(tx, unit);
        body(&mut recorder)?;
        let Recorder { mut read, mut written, .. } = recorder;
        read.retain(|&unit| unit < end);
        written.retain(|&unit| unit < end);
        footprint = Footprint { read, written };
        Err::<(), Stop>(Stop::Aborted)
    });
    assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
    footprint
}

/// The units of conflicts: objects under `snapshot`, 512 bytes under most designs.
const UNITS: [(&str, Unit); 2] = [("objects", |at| at.object), ("stripes", |at| at.byte() / 512)];

/// Returns how many of 1000 pairs of transactions conflict.
fn conflicts(footprints: &[Footprint]) -> usize {
    let pairs =
        (0..1000).map(|n| (n * 7919 % footprints.len(), (n * 104_729 + 1) % footprints.len()));
    pairs.filter(|&(a, b)| a != b && footprints[a].conflicts(&footprints[b])).count()
}

#[test]
fn transactions_on_other_keys_rarely_conflict() {
    const PAIRS: u64 = 30_000;
    for (name, unit) in UNITS {
        let mut mock = Mock::new(1 << 24);
        let map = integers(PAIRS)(&mut mock);
        let mut of = |body: &dyn Fn(&mut Recorder<'_>, u64) -> Result<(), Stop>| {
            let keys = (0..200).map(|n| n * 149);
            let footprints: Vec<_> =
                keys.map(|key| footprint(&mut mock, unit, |tx| body(tx, key))).collect();
            conflicts(&footprints)
        };
        let update = of(&|tx, key| map.update(tx, key, |value| value + 1).map(drop));
        let mixed = of(&|tx, key| match key % 2 {
            0 => map.get(tx, key).map(drop),
            _ => map.insert(tx, PAIRS + key, key).map(drop),
        });
        let insert = of(&|tx, key| map.insert(tx, PAIRS + key, key).map(drop));
        let remove = of(&|tx, key| map.remove(tx, key).map(drop));
        // Of 64 stripes of the length, two changes take the same in 16 of 1000 pairs.
        assert!(update <= 5, "{update} of 1000 pairs of updates conflict in {name}");
        assert!(mixed <= 25, "{mixed} of 1000 pairs of reads and insertions conflict in {name}");
        assert!((1..=50).contains(&insert), "{insert} of 1000 pairs of insertions: {name}");
        assert!((1..=50).contains(&remove), "{remove} of 1000 pairs of removals: {name}");
    }
}

#[test]
fn transactions_on_one_key_conflict() {
    let mut mock = Mock::new(1 << 22);
    let map = strings(1000)(&mut mock);
    let unit = UNITS[0].1;
    for key in ["7", "new"] {
        let mut of = |body: &dyn Fn(&mut Recorder<'_>) -> Result<(), Stop>| {
            footprint(&mut mock, unit, body).written
        };
        let all = [
            of(&|tx| map.put(tx, key, "other").map(drop)),
            of(&|tx| map.put(tx, key, "long".repeat(100)).map(drop)),
            of(&|tx| map.delete(tx, key).map(drop)),
            of(&|tx| map.update(tx, key, |value| value + "x").map(drop)),
        ];
        // Written words alone: this must hold under snapshot isolation too.
        for (n, one) in all.iter().enumerate() {
            for other in &all[n..] {
                let is_change = !one.is_empty() && !other.is_empty();
                assert!(!is_change || !one.is_disjoint(other), "{n}: {one:?} and {other:?}");
            }
        }
        assert!(!all[0].is_empty());
    }
}

#[test]
fn workers_of_a_counter_do_not_conflict() {
    let mut mock = Mock::new(1 << 20);
    let counter = mock.transact(Counter::create).unwrap();
    // A pool has objects of so different sizes in different slabs.
    mock.transact(|tx| tx.allocate(1024)).unwrap();
    for _ in 0..100 {
        mock.transact(|tx| counter.add(tx, 1)).unwrap();
    }
    for (name, unit) in UNITS {
        let footprints: Vec<_> = (0..8)
            .map(|worker| footprint(&mut mock, unit, |tx| counter.add_at(tx, worker, 1)))
            .collect();
        let clashes = |n: usize| footprints[..n].iter().any(|one| one.conflicts(&footprints[n]));
        assert!(!(0..footprints.len()).any(clashes), "{name}");
    }
}

/// One operation of a transaction, on a key and with the number of a value.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64, u64),
    OrInsert(u64, u64),
    Remove(u64),
    Update(u64, u64),
    Clear(u64),
}

/// Returns the result of an operation on a map: the old value, or the present value.
fn run<W, V>(
    tx: &mut W,
    map: HashMap<u64, V>,
    step: Step,
    value: fn(u64) -> V::Owned,
) -> Result<Option<V::Owned>, Stop>
where
    W: Allocate,
    V: Value<Owned: AsValue<V>> + ?Sized,
{
    match step {
        Step::Insert(key, n) => map.insert(tx, key, value(n)),
        Step::OrInsert(key, n) => map.entry(tx, key)?.or_insert(value(n)).map(Some),
        Step::Remove(key) => map.remove(tx, key),
        Step::Update(key, n) => {
            let mut before = None;
            map.update(tx, key, |old| {
                before = Some(old);
                value(n)
            })?;
            Ok(before)
        }
        Step::Clear(most) => map.clear_step(tx, most).map(|_| None),
    }
}

/// Returns the result of an operation on the model.
fn apply<T: Clone>(model: &mut BTreeMap<u64, T>, step: Step, value: fn(u64) -> T) -> Option<T> {
    match step {
        Step::Insert(key, n) => model.insert(key, value(n)),
        Step::OrInsert(key, n) => Some(model.entry(key).or_insert_with(|| value(n)).clone()),
        Step::Remove(key) => model.remove(&key),
        Step::Update(key, n) => model.get_mut(&key).map(|old| std::mem::replace(old, value(n))),
        Step::Clear(_) => {
            model.clear();
            None
        }
    }
}

/// Returns the changes of a transaction, and undoes them. It is given memory after `spacers`
/// objects.
fn changes<R>(
    mock: &mut Mock,
    spacers: usize,
    body: impl Fn(&mut Recorder<'_>) -> Result<R, Stop>,
) -> (R, Vec<Change>) {
    let mut found = None;
    let refused = mock.transact(|tx| {
        for _ in 0..spacers {
            tx.allocate(1008)?;
        }
        let mut recorder = Recorder::new(tx, UNITS[0].1);
        let result = body(&mut recorder)?;
        found = Some((result, recorder.changes));
        Err::<(), Stop>(Stop::Aborted)
    });
    assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
    found.unwrap()
}

/// Returns the objects that are written or protected elsewhere than in the word of the length.
fn written(changes: &[Change], length: Option<Addr>) -> BTreeSet<u64> {
    let object = |change: &Change| match *change {
        Change::Write(at, _) if Some(at) != length => Some(at.object),
        Change::Protect(at) => Some(at.object),
        _ => None,
    };
    changes.iter().filter_map(object).collect()
}

/// Makes changes that were undone, in the same memory.
fn redo(mock: &mut Mock, changes: &[Change]) {
    let allocates = |change: &&Change| matches!(change, Change::Allocate(..));
    let first = changes.iter().find(allocates).cloned();
    mock.transact(|tx| {
        let mut spacers = Vec::new();
        if let Some(Change::Allocate(_, first)) = first {
            // Memory in multiples of 16 bytes, each object with 16 more.
            let probe = tx.allocate(16)?;
            spacers.push((probe, 16));
            let mut left = (first - probe - 32) as usize;
            while left > 0 {
                let bytes = if left > 1040 { 496 } else { left - 16 };
                spacers.push((tx.allocate(bytes)?, bytes));
                left -= bytes + 16;
            }
        }
        for change in changes {
            match *change {
                Change::Allocate(bytes, object) => assert_eq!(tx.allocate(bytes)?, object),
                Change::Write(at, value) => tx.write(at, value)?,
                Change::Retire(at, bytes) => tx.retire(at, bytes)?,
                Change::Resize(first, from, to, done) => {
                    assert_eq!(tx.resize(first, from, to)?, done);
                }
                Change::Protect(_) => {}
            }
        }
        spacers.iter().try_for_each(|&(at, bytes)| tx.retire(Addr::new(at, 0), bytes as u64))
    })
    .unwrap();
}

/// Returns the operations of a transaction, on some of these keys.
fn steps(below: &mut impl FnMut(u64) -> u64, keys: &[u64; 3]) -> Vec<Step> {
    if below(12) == 0 {
        return vec![Step::Clear(1 + below(8))];
    }
    let mut one = || {
        let key = keys[below(3) as usize];
        match below(5) {
            0 => Step::Insert(key, below(500)),
            1 => Step::OrInsert(key, below(500)),
            2 => Step::Update(key, below(500)),
            _ => Step::Remove(key),
        }
    };
    vec![one(), one()]
}

/// Runs two transactions on one state, as under snapshot isolation, and commits both if they write
/// no object in common. Results and state must be those of one after the other, in one order or the
/// other.
fn pairs_are_serializable<V>(value: fn(u64) -> V::Owned, trials: usize)
where
    V: Value<Owned: AsValue<V> + Clone + PartialEq + Debug> + ?Sized,
{
    let mut random = 88_172_645_463_325_252_u64;
    let mut below = |end: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    };
    let (mut both, mut conflicts) = (0, 0);
    for _ in 0..trials {
        let mut mock = Mock::new(1 << 19);
        let map = mock.transact(|tx| HashMap::<u64, V>::with_seed(tx, below(9))).unwrap();
        // The header, the first object, has the root in word 1 and the length in word 3.
        let count = Addr::new(mock.live()[0].0, 24);
        let mut model = BTreeMap::new();
        let keys = 4 + below(120);
        for n in 0..keys {
            mock.transact(|tx| map.put(tx, n, value(n))).unwrap();
            model.insert(n, value(n));
        }
        for _ in 0..below(keys) {
            let key = below(keys);
            mock.transact(|tx| map.delete(tx, key)).unwrap();
            model.remove(&key);
        }
        // Few keys, so that each transaction often relies on keys that the other one changes.
        let chosen = [below(2 * keys), below(keys), below(keys)];
        let (one, other) = (steps(&mut below, &chosen), steps(&mut below, &chosen));
        let all = |tx: &mut Recorder<'_>, steps: &[Step]| {
            steps.iter().map(|&step| run(tx, map, step, value)).collect::<Result<Vec<_>, _>>()
        };
        // Both read the same state, as under snapshot isolation.
        let (of_one, changes_one) = changes(&mut mock, 1, |tx| all(tx, &one));
        let (of_other, mut changes_other) = changes(&mut mock, 40, |tx| all(tx, &other));
        // The common count hides that other words are written. Each bucket of a large map has
        // another one. Only a step that clears the map relies on it.
        let clears = [&one, &other].iter().any(|steps| matches!(steps[0], Step::Clear(_)));
        let ignored = (!clears).then_some(count);
        if !written(&changes_one, ignored).is_disjoint(&written(&changes_other, ignored)) {
            conflicts += 1;
            continue;
        }
        both += 1;
        changes_other.retain(|c| !matches!(c, Change::Write(at, _) if Some(*at) == ignored));
        redo(&mut mock, &changes_one);
        redo(&mut mock, &changes_other);
        let mut damage = mock.transact(|tx| map.check(tx)).unwrap().damage;
        damage.retain(|damage| clears || !matches!(damage, Damage::Length { .. }));
        assert_eq!(damage, [], "{one:?} and {other:?}");
        let found: BTreeMap<_, _> =
            mock.transact(|tx| map.iter(tx).collect::<Result<_, _>>()).unwrap();
        let serial = |first: &[Step], second: &[Step]| {
            let mut state = model.clone();
            let mut of = |steps: &[Step]| -> Vec<_> {
                steps.iter().map(|&step| apply(&mut state, step, value)).collect()
            };
            let (of_first, of_second) = (of(first), of(second));
            (of_first, of_second, state)
        };
        let (a, b, state) = serial(&one, &other);
        let is_first = (&a, &b, &state) == (&of_one, &of_other, &found);
        let (b, a, state) = serial(&other, &one);
        let is_second = (&a, &b, &state) == (&of_one, &of_other, &found);
        assert!(is_first || is_second, "{one:?} and {other:?} on {model:?}");
        mock.transact(|tx| map.free(tx)).unwrap();
        assert_eq!(mock.objects(), 0, "{one:?} and {other:?}");
    }
    assert!(both > trials / 8 && conflicts > trials / 8, "{both} both, {conflicts} conflicts");
}

#[test]
fn concurrent_pairs_on_strings_are_serializable() {
    pairs_are_serializable::<str>(|n| format!("{n:x<0$}", n as usize % 40), 3000);
}

#[test]
fn concurrent_pairs_on_integers_are_serializable() {
    pairs_are_serializable::<u64>(|n| n, 3000);
}

#[test]
fn concurrent_pairs_on_a_set_are_serializable() {
    pairs_are_serializable::<()>(|_| (), 3000);
}

/// Returns one of many keys with equal hashes, by the hash function and [`SEED`].
fn colliding(number: u64) -> [u8; 16] {
    let product = u128::from(SEED ^ number) * 0x243f_6a88_85a3_08d3;
    let second = (product as u64) ^ (product >> 64) as u64;
    [number.to_ne_bytes(), second.to_ne_bytes()].concat().try_into().unwrap()
}

#[test]
fn chain_growth_conflicts_with_next_bucket() {
    let mut mock = Mock::new(1 << 16);
    let map = mock.transact(|tx| HashMap::<[u8; 16], u64>::with_seed(tx, SEED)).unwrap();
    let length = Some(Addr::new(mock.live()[0].0, 24));
    mock.transact(|tx| map.extend(tx, (0..8).map(|n| (colliding(n), n)))).unwrap();
    let objects = mock.objects();
    let (_, insert) = changes(&mut mock, 1, |tx| map.put(tx, colliding(8), 8).map(drop));
    let (_, remove) = changes(&mut mock, 40, |tx| map.delete(tx, colliding(3)).map(drop));
    assert!(!written(&insert, length).is_disjoint(&written(&remove, length)));
    mock.transact(|tx| map.put(tx, colliding(8), 8)).unwrap();
    assert_eq!(mock.objects(), objects + 1, "one more bucket: the hashes are equal");
}

#[test]
fn no_op_changes_prevent_write_skew() {
    // Each transaction relies on one key and removes or inserts the other one.
    type Step = fn(&mut Recorder<'_>, HashMap<u64, ()>, u64) -> Result<(), Stop>;
    let insert: Step = |tx, set, key| set.put(tx, key, ()).map(drop);
    let entry: Step = |tx, set, key| set.entry(tx, key)?.or_insert(());
    let remove: Step = |tx, set, key| set.delete(tx, key).map(drop);
    let update: Step = |tx, set, key| set.update(tx, key, |()| ()).map(drop);
    for pairs in [0, 2, 2000] {
        let mut mock = Mock::new(1 << 20);
        let new_set = |mock: &mut Mock| {
            let set = mock.transact(|tx| HashMap::<u64, ()>::with_seed(tx, SEED)).unwrap();
            mock.transact(|tx| set.extend(tx, (0..pairs).map(|n| (n, ())))).unwrap();
            set
        };
        let sets = [new_set(&mut mock), new_set(&mut mock)];
        // Keys that are there, and keys that are not.
        let (there, absent) = (0, pairs + 1);
        let mut cases = vec![(remove, insert, absent), (update, insert, absent)];
        if pairs > 0 {
            cases.extend([insert, entry, update].map(|relies| (relies, remove, there)));
        }
        for (n, (relies, changes, key)) in cases.into_iter().enumerate() {
            let mut of = |one: usize| {
                footprint(&mut mock, UNITS[0].1, |tx| {
                    relies(tx, sets[one], key)?;
                    changes(tx, sets[1 - one], key)
                })
            };
            let (one, other) = (of(0), of(1));
            assert!(!one.written.is_disjoint(&other.written), "case {n} of {pairs} pairs");
        }
    }
}
