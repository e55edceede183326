//! Vectors and queues of several types beside std's, under random operations, conflicts and aborts.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::VecDeque as Model;
use std::fmt::Debug;

use collections::{AsValue, Value, Vec, VecDeque};
use proptest::collection::vec;
use proptest::prelude::*;
use words::mock::Mock;
use words::{Objects, Ptr, Stop, Transact};

/// One step of a history. Elements are numbers that a type of element makes its own of.
#[derive(Clone, Debug)]
enum Op {
    PushBack(u64),
    PushFront(u64),
    PopBack,
    PopFront,
    Set(u64, u64),
    Get(u64),
    Swap(u64, u64),
    SwapRemove(u64),
    /// Pushes so many elements at the back.
    Many(u64),
    /// Pushes so many elements at the front.
    ManyFront(u64),
    /// Pops so many elements at the back.
    Fewer(u64),
    /// Pops so many elements at the front.
    FewerFront(u64),
    /// Moves so many elements from the front to the back.
    Rotate(u64),
    Range(u64, u64),
    Truncate(u64, u64),
    Clear(u64),
    /// Pushes and pops in a transaction that aborts.
    Abort(u64),
}

fn op(len: u64) -> impl Strategy<Value = Op> {
    let index = 0..len;
    prop_oneof![
        6 => any::<u64>().prop_map(Op::PushBack),
        6 => any::<u64>().prop_map(Op::PushFront),
        4 => Just(Op::PopBack),
        4 => Just(Op::PopFront),
        4 => (index.clone(), any::<u64>()).prop_map(|(index, value)| Op::Set(index, value)),
        4 => index.clone().prop_map(Op::Get),
        4 => (index.clone(), index.clone()).prop_map(|(one, other)| Op::Swap(one, other)),
        4 => index.clone().prop_map(Op::SwapRemove),
        4 => index.clone().prop_map(Op::Many),
        3 => index.clone().prop_map(Op::ManyFront),
        3 => index.clone().prop_map(Op::Fewer),
        3 => index.clone().prop_map(Op::FewerFront),
        2 => index.clone().prop_map(Op::Rotate),
        4 => (index.clone(), index.clone()).prop_map(|(one, other)| Op::Range(one, other)),
        2 => (index.clone(), 1..len).prop_map(|(len, most)| Op::Truncate(len, most)),
        1 => (1..len).prop_map(Op::Clear),
        2 => index.prop_map(Op::Abort),
    ]
}

/// A type of element, with a value for each number.
trait Kind {
    type T: Value<Owned: AsValue<Self::T> + PartialEq + Clone + Debug> + ?Sized;
    fn value(n: u64) -> <Self::T as Value>::Owned;
}

type Owned<K> = <<K as Kind>::T as Value>::Owned;

/// Implements [`Kind`] for an empty type.
macro_rules! kinds {
    ($($kind:ident: $element:ty = $value:expr;)*) => {$(
        struct $kind;
        impl Kind for $kind {
            type T = $element;
            fn value(n: u64) -> Owned<Self> {
                let value: fn(u64) -> Owned<Self> = $value;
                value(n)
            }
        }
    )*};
}

kinds! {
    Integers: u64 = |n| n;
    Units: () = |_| ();
    Small: u8 = |n| n as u8;
    // Elements that end within a word.
    Odd: [u8; 13] = |n| [n as u8; 13];
    // The longest elements in slots.
    Long: [u64; 8] = |n| [n; 8];
    // Elements in objects of their own.
    Boxed: [u8; 100] = |n| [n as u8; 100];
    // 0 to 5000 bytes.
    Texts: str = |n| {
        let len = if n.is_multiple_of(9) { n / 9 % 5001 } else { n % 60 };
        format!("{:y<1$.1$}", n, len as usize)
    };
}

/// The methods that both collections have, and those that one has.
trait Collection<T: Value + ?Sized>: words::Persist {
    const IS_QUEUE: bool;
    fn make(tx: &mut Mock) -> Result<Self, Stop>;
    fn push(self, tx: &mut Mock, is_front: bool, value: T::Owned) -> Result<(), Stop>;
    fn pop(self, tx: &mut Mock, is_front: bool) -> Result<Option<T::Owned>, Stop>;
    fn edges(self, tx: &mut Mock) -> Result<[Option<T::Owned>; 2], Stop>;
    fn set(self, tx: &mut Mock, at: u64, value: T::Owned) -> Result<Option<T::Owned>, Stop>;
    fn get(self, tx: &mut Mock, at: u64) -> Result<Option<T::Owned>, Stop>;
    fn swap(self, tx: &mut Mock, one: u64, other: u64) -> Result<bool, Stop>;
    fn swap_remove(self, tx: &mut Mock, at: u64) -> Result<Option<T::Owned>, Stop>;
    fn truncate_step(self, tx: &mut Mock, len: u64, most: u64) -> Result<bool, Stop>;
    fn range(self, tx: &mut Mock, from: u64, to: u64) -> collections::vec::Iter<'_, Mock, T>;
    fn sizes(self, tx: &mut Mock) -> Result<(u64, bool), Stop>;
    fn clear_step(self, tx: &mut Mock, most: u64) -> Result<bool, Stop>;
    fn drop_step(self, tx: &mut Mock, most: u64) -> Result<bool, Stop>;
    fn check(self, tx: &mut Mock) -> Result<collections::vec::Checked, Stop>;
    fn check_step(self, tx: &mut Mock, at: u64, n: u64) -> Result<collections::vec::Checked, Stop>;
}

/// Implements the methods that have the same names.
macro_rules! same {
    () => {
        fn make(tx: &mut Mock) -> Result<Self, Stop> {
            Self::create(tx)
        }
        fn set(self, tx: &mut Mock, at: u64, value: T::Owned) -> Result<Option<T::Owned>, Stop> {
            self.set(tx, at, value)
        }
        fn get(self, tx: &mut Mock, at: u64) -> Result<Option<T::Owned>, Stop> {
            self.get(tx, at)
        }
        fn swap(self, tx: &mut Mock, one: u64, other: u64) -> Result<bool, Stop> {
            self.swap(tx, one, other)
        }
        fn range(self, tx: &mut Mock, from: u64, to: u64) -> collections::vec::Iter<'_, Mock, T> {
            self.range(tx, from..to)
        }
        fn sizes(self, tx: &mut Mock) -> Result<(u64, bool), Stop> {
            Ok((self.len(tx)?, self.is_empty(tx)?))
        }
        fn clear_step(self, tx: &mut Mock, most: u64) -> Result<bool, Stop> {
            self.clear_step(tx, most)
        }
        fn drop_step(self, tx: &mut Mock, most: u64) -> Result<bool, Stop> {
            self.drop_step(tx, most)
        }
        fn check(self, tx: &mut Mock) -> Result<collections::vec::Checked, Stop> {
            self.check(tx)
        }
        fn check_step(
            self,
            tx: &mut Mock,
            at: u64,
            n: u64,
        ) -> Result<collections::vec::Checked, Stop> {
            self.check_step(tx, at, n)
        }
    };
}

impl<T: Value<Owned: AsValue<T>> + ?Sized> Collection<T> for Vec<T> {
    const IS_QUEUE: bool = false;
    same!();
    fn push(self, tx: &mut Mock, _: bool, value: T::Owned) -> Result<(), Stop> {
        self.push(tx, value)
    }
    fn pop(self, tx: &mut Mock, _: bool) -> Result<Option<T::Owned>, Stop> {
        self.pop(tx)
    }
    fn edges(self, tx: &mut Mock) -> Result<[Option<T::Owned>; 2], Stop> {
        Ok([self.first(tx)?, self.last(tx)?])
    }
    fn swap_remove(self, tx: &mut Mock, at: u64) -> Result<Option<T::Owned>, Stop> {
        self.swap_remove(tx, at)
    }
    fn truncate_step(self, tx: &mut Mock, len: u64, most: u64) -> Result<bool, Stop> {
        self.truncate_step(tx, len, most)
    }
}

impl<T: Value<Owned: AsValue<T>> + ?Sized> Collection<T> for VecDeque<T> {
    const IS_QUEUE: bool = true;
    same!();
    fn push(self, tx: &mut Mock, is_front: bool, value: T::Owned) -> Result<(), Stop> {
        if is_front { self.push_front(tx, value) } else { self.push_back(tx, value) }
    }
    fn pop(self, tx: &mut Mock, is_front: bool) -> Result<Option<T::Owned>, Stop> {
        if is_front { self.pop_front(tx) } else { self.pop_back(tx) }
    }
    fn edges(self, tx: &mut Mock) -> Result<[Option<T::Owned>; 2], Stop> {
        Ok([self.front(tx)?, self.back(tx)?])
    }
    fn swap_remove(self, _: &mut Mock, _: u64) -> Result<Option<T::Owned>, Stop> {
        unreachable!("a queue has none")
    }
    fn truncate_step(self, _: &mut Mock, _: u64, _: u64) -> Result<bool, Stop> {
        unreachable!("a queue has none")
    }
}

/// A collection beside its model.
struct Pair<K: Kind, C> {
    mock: Mock,
    /// The object that holds the collection.
    place: Ptr<C>,
    model: Model<Owned<K>>,
}

impl<K: Kind, C: Collection<K::T>> Pair<K, C> {
    fn new() -> Pair<K, C> {
        let mut mock = Mock::new(1 << 26);
        let place = mock.transact(|tx| {
            let collection = C::make(tx)?;
            tx.alloc(collection)
        });
        Pair { mock, place: place.unwrap(), model: Model::new() }
    }

    /// Runs a transaction on the collection, which each reads from its place again.
    fn run<R>(&mut self, mut body: impl FnMut(&mut Mock, C) -> Result<R, Stop>) -> R {
        let place = self.place;
        self.mock
            .transact(|tx| {
                let collection = tx.get(place)?;
                body(tx, collection)
            })
            .unwrap()
    }

    fn push(&mut self, is_front: bool, n: u64) {
        let is_front = is_front && C::IS_QUEUE;
        self.run(|tx, it| it.push(tx, is_front, K::value(n)));
        match is_front {
            true => self.model.push_front(K::value(n)),
            false => self.model.push_back(K::value(n)),
        }
    }

    fn pop(&mut self, is_front: bool) {
        let is_front = is_front && C::IS_QUEUE;
        let found = self.run(|tx, it| it.pop(tx, is_front));
        let expected = if is_front { self.model.pop_front() } else { self.model.pop_back() };
        assert_eq!(found, expected);
    }

    fn apply(&mut self, op: &Op) {
        let len = self.model.len();
        match *op {
            Op::PushBack(n) => self.push(false, n),
            Op::PushFront(n) => self.push(true, n),
            Op::PopBack => self.pop(false),
            Op::PopFront => self.pop(true),
            Op::Set(at, n) => {
                let old = self.run(|tx, it| it.set(tx, at, K::value(n)));
                let place = self.model.get_mut(at as usize);
                assert_eq!(old, place.map(|place| std::mem::replace(place, K::value(n))));
            }
            Op::Get(at) => {
                let found = self.run(|tx, it| it.get(tx, at));
                assert_eq!(found.as_ref(), self.model.get(at as usize));
            }
            Op::Swap(one, other) => {
                let is_done = self.run(|tx, it| it.swap(tx, one, other));
                assert_eq!(is_done, (one.max(other) as usize) < len);
                if is_done {
                    self.model.swap(one as usize, other as usize);
                }
            }
            Op::SwapRemove(at) if !C::IS_QUEUE => {
                let old = self.run(|tx, it| it.swap_remove(tx, at));
                assert_eq!(old, self.model.swap_remove_back(at as usize));
            }
            Op::SwapRemove(at) => (0..at % 200).for_each(|_| self.pop(true)),
            Op::Many(count) => (0..count).for_each(|n| self.push(false, n)),
            Op::ManyFront(count) => (0..count).for_each(|n| self.push(true, n)),
            Op::Fewer(count) => (0..count).for_each(|_| self.pop(false)),
            Op::FewerFront(count) => (0..count).for_each(|_| self.pop(true)),
            Op::Rotate(count) => {
                for n in 0..count {
                    self.push(false, n);
                    self.pop(true);
                }
            }
            Op::Range(one, other) => self.range(one, other),
            Op::Truncate(to, most) if !C::IS_QUEUE => {
                let is_done = self.run(|tx, it| it.truncate_step(tx, to, most));
                self.model.truncate((to as usize).max(len.saturating_sub(most as usize)));
                assert_eq!(is_done, self.model.len() <= to as usize);
            }
            Op::Truncate(to, _) => (to..len as u64).for_each(|_| self.pop(false)),
            Op::Clear(most) => self.clear(most),
            Op::Abort(count) => self.abort(count),
        }
    }

    fn clear(&mut self, most: u64) {
        let before = self.model.len() as u64;
        let pending = self.run(|tx, it| it.check(tx)).pending;
        let is_done = self.run(|tx, it| it.clear_step(tx, most));
        if pending == 0 {
            self.model.clear();
            assert_eq!(is_done, before <= most);
        } else {
            // The step goes on with the elements of an earlier one.
            assert!(!is_done || (pending <= most && before == 0));
        }
    }

    fn abort(&mut self, count: u64) {
        let place = self.place;
        let refused = self.mock.transact(|tx| {
            let it = tx.get(place)?;
            for n in 0..count {
                it.push(tx, n % 3 == 0, K::value(n))?;
                it.set(tx, n / 2, K::value(n + 1))?;
                if n % 4 > 0 {
                    it.pop(tx, n % 2 == 0)?;
                }
            }
            Err::<(), Stop>(Stop::Aborted)
        });
        assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
    }

    /// Reads a range from both ends, in turns that the bounds decide.
    fn range(&mut self, from: u64, to: u64) {
        let (mut front, mut back) = self.run(|tx, it| {
            let mut elements = it.range(tx, from, to);
            let (mut front, mut back) = (vec![], vec![]);
            for n in 0_u64.. {
                let is_front = (n * from / 7 + to).is_multiple_of(3);
                let next = if is_front { elements.next() } else { elements.next_back() };
                let Some(next) = next else { break };
                if is_front { front.push(next?) } else { back.push(next?) }
            }
            assert!(elements.next().is_none() && elements.next_back().is_none());
            Ok((front, back))
        });
        front.extend(back.drain(..).rev());
        let to = (to as usize).min(self.model.len());
        let from = (from as usize).min(to);
        assert!(self.model.range(from..to).eq(&front));
    }

    /// Checks the collection against its model, element by element.
    fn check(&mut self) {
        let checked = self.run(|tx, it| it.check(tx));
        assert_eq!((checked.entries, checked.damage), (self.model.len() as u64, vec![]));
        let found = self.run(|tx, it| it.sizes(tx));
        assert_eq!(found, (self.model.len() as u64, self.model.is_empty()));
        let edges = self.run(|tx, it| it.edges(tx));
        assert_eq!(edges, [self.model.front().cloned(), self.model.back().cloned()]);
        self.range(0, u64::MAX);
        let (mut next, mut entries) = (Some(0), 0);
        while let Some(from) = next {
            let checked = self.run(|tx, it| it.check_step(tx, from, 100));
            assert!(checked.damage.is_empty() && checked.next.is_none_or(|next| next > from));
            (next, entries) = (checked.next, entries + checked.entries);
        }
        assert_eq!(entries, self.model.len() as u64);
    }

    /// Frees the collection in steps, and checks that nothing leaks.
    fn free(mut self, most: u64) {
        let place = self.place;
        loop {
            let left = self.mock.bytes_live();
            let is_done = self.run(|tx, it| {
                let is_done = it.drop_step(tx, most)?;
                if is_done {
                    tx.free(place)?;
                }
                Ok(is_done)
            });
            if is_done {
                break;
            }
            assert!(self.mock.bytes_live() <= left);
        }
        assert_eq!(self.mock.objects(), 0);
    }
}

fn compare_one<K: Kind, C: Collection<K::T>>(ops: &[Op], conflict: u64) {
    let mut pair = Pair::<K, C>::new();
    pair.mock.conflict_after(conflict);
    for (n, op) in ops.iter().enumerate() {
        pair.apply(op);
        if n % 4 == 0 {
            pair.check();
        }
    }
    pair.check();
    pair.free(1 + conflict % 50);
}

fn compare<K: Kind<T: Value<Owned: AsValue<K::T>>>>(ops: &[Op], conflict: u64) {
    compare_one::<K, Vec<K::T>>(ops, conflict);
    compare_one::<K, VecDeque<K::T>>(ops, conflict);
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn short_sequence_matches_std(ops in vec(op(40), 0..80), conflict in 0..20_000_u64) {
        compare::<Integers>(&ops, conflict);
        compare::<Long>(&ops, conflict);
        compare::<Odd>(&ops, conflict);
        compare::<Texts>(&ops, conflict);
    }

    #[test]
    fn sequence_of_inline_elements_matches_std(
        ops in vec(op(900), 0..40), conflict in 0..90_000_u64,
    ) {
        compare::<Units>(&ops, conflict);
        compare::<Small>(&ops, conflict);
        compare::<Odd>(&ops, conflict);
        compare::<Long>(&ops, conflict);
    }

    #[test]
    fn sequence_of_objects_matches_std(ops in vec(op(300), 0..40), conflict in 0..90_000_u64) {
        compare::<Boxed>(&ops, conflict);
        compare::<Texts>(&ops, conflict);
    }

    #[test]
    fn long_sequence_matches_std(ops in vec(op(6000), 0..16), conflict in 0..90_000_u64) {
        compare::<Integers>(&ops, conflict);
        compare::<Long>(&ops, conflict);
    }
}

#[test]
fn levels_of_a_queue_come_and_go() {
    // 7 elements to a chunk, 60 chunks or nodes to a node: three levels of nodes.
    let mut pair = Pair::<Long, VecDeque<[u64; 8]>>::new();
    for (round, is_front) in [false, true, false, true].into_iter().enumerate() {
        for n in 0..30_000 {
            pair.push(is_front, n);
        }
        pair.check();
        // Through the other end, or the same.
        for _ in 0..29_990 {
            pair.pop(is_front ^ (round < 2));
        }
        pair.check();
        // The last chunks, and at most two nodes above each.
        assert!(pair.mock.objects() < 12, "{}", pair.mock.objects());
    }
    for n in 0..40_000 {
        pair.push(false, n);
        pair.pop(true);
        assert!(pair.mock.objects() < 24, "a queue of constant length keeps its size");
    }
    pair.check();
    pair.free(7);
}
