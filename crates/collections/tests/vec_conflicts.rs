//! Vectors and queues under conflicts: at every access of an operation, and between two
//! transactions.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use std::collections::VecDeque as Model;
use std::fmt::Debug;

use collections::{AsValue, Value, Vec, VecDeque};
use common::{
    Recorder, UNITS, changes, conflict_everywhere, conflicts, footprint, random_below, redo,
    written,
};
use words::mock::Mock;
use words::{Allocate, Stop, Transact};

/// An element of which a chunk has 7, so that chunks and nodes come and go.
type Long = [u64; 8];

fn long(n: u64) -> Long {
    [n; 8]
}

fn text(n: u64) -> String {
    format!("{n:x<0$}", n as usize % 40)
}

/// A queue of the numbers of a range, of which some were pushed at the front.
fn queue<T>(front: u64, back: u64, value: fn(u64) -> T::Owned) -> impl Fn(&mut Mock) -> VecDeque<T>
where
    T: Value<Owned: AsValue<T>> + ?Sized,
{
    move |mock| {
        mock.transact(|tx| {
            let queue = VecDeque::create(tx)?;
            for n in (0..front).rev() {
                queue.push_front(tx, value(n))?;
            }
            queue.extend(tx, (front..front + back).map(value))?;
            Ok(queue)
        })
        .unwrap()
    }
}

fn check<T: Value + ?Sized>(mock: &mut Mock, queue: VecDeque<T>) -> u64 {
    let checked = mock.transact(|tx| queue.check(tx)).unwrap();
    assert_eq!(checked.damage, []);
    checked.entries
}

#[test]
fn conflicting_push_is_atomic() {
    let mut most = 0;
    // All sizes of the root, chunks beside it, and two levels of nodes.
    for len in (0..40).chain(416..424) {
        let back = |tx: &mut Mock, queue: VecDeque<Long>| queue.push_back(tx, long(len));
        most = most.max(conflict_everywhere(queue(0, len, long), back, check));
        let front = |tx: &mut Mock, queue: VecDeque<Long>| queue.push_front(tx, long(len));
        most = most.max(conflict_everywhere(queue(0, len, long), front, check));
        conflict_everywhere(queue(len, 0, long), back, check);
        conflict_everywhere(queue(len, 0, long), front, check);
    }
    assert!(most > 60, "{most}");
    for len in [0, 3, 60, 120] {
        let push = |tx: &mut Mock, queue: VecDeque<str>| queue.push_back(tx, "long".repeat(900));
        conflict_everywhere(queue(0, len, text), push, check);
    }
}

#[test]
fn conflicting_pop_is_atomic() {
    let mut most = 0;
    for (front, back) in [(0, 430), (430, 0), (20, 20), (0, 9), (0, 1), (0, 0)] {
        for pops in (1..20).chain(410..430) {
            // The last pop has the conflicts, after those of the set-up.
            let setup = |is_front: bool| {
                move |mock: &mut Mock| {
                    let queue = queue(front, back, long)(mock);
                    mock.transact(|tx| (1..pops).try_for_each(|_| pop(tx, queue, is_front)))
                        .unwrap();
                    queue
                }
            };
            for is_front in [false, true] {
                let pop = |tx: &mut Mock, queue| pop(tx, queue, is_front);
                most = most.max(conflict_everywhere(setup(is_front), pop, check));
            }
        }
    }
    assert!(most > 20, "{most}");
    for most in [1, 3, 10, 100] {
        let clear = |tx: &mut Mock, queue: VecDeque<str>| queue.clear_step(tx, most);
        conflict_everywhere(queue(10, 80, text), clear, check);
        let clear = |tx: &mut Mock, queue: VecDeque<Long>| queue.clear_step(tx, most);
        conflict_everywhere(queue(10, 80, long), clear, check);
    }
}

fn pop(tx: &mut Mock, queue: VecDeque<Long>, is_front: bool) -> Result<(), Stop> {
    if is_front { queue.pop_front(tx).map(drop) } else { queue.pop_back(tx).map(drop) }
}

#[test]
fn ends_of_a_long_queue_rarely_conflict() {
    // Of u64 a chunk has 60, and a node below the root has 3600.
    for (len, most) in [(600, 8), (12_000, 1)] {
        for (name, unit) in UNITS {
            let mut mock = Mock::new(1 << 23);
            let queue: VecDeque<u64> = queue(len / 2, len / 2, |n| n)(&mut mock);
            let mut found = 0;
            for n in 0..200_u64 {
                let back = footprint(&mut mock, unit, |tx| queue.push_back(tx, n));
                let front = footprint(&mut mock, unit, |tx| queue.pop_front(tx));
                found += usize::from(back.conflicts(&front));
                mock.transact(|tx| {
                    queue.push_back(tx, n)?;
                    queue.pop_front(tx)
                })
                .unwrap();
            }
            assert!(found <= most, "{found} of 200 pairs on {len} elements conflict in {name}");
            // Both write the only chunk of a short queue.
            mock.transact(|tx| (9..len).try_for_each(|_| queue.pop_front(tx).map(drop))).unwrap();
            let back = footprint(&mut mock, unit, |tx| queue.push_back(tx, 1_u64));
            let front = footprint(&mut mock, unit, |tx| queue.pop_front(tx));
            assert!(back.conflicts(&front));
        }
    }
}

#[test]
fn transactions_on_other_elements_rarely_conflict() {
    const LEN: u64 = 30_010; // the push adds no chunk
    for (name, unit) in UNITS {
        let mut mock = Mock::new(1 << 23);
        let vec = mock.transact(Vec::<u64>::create).unwrap();
        mock.transact(|tx| vec.extend(tx, 0..LEN)).unwrap();
        let indices = (0..200).map(|n| n * 149);
        let changes: std::vec::Vec<_> = indices
            .map(|at| footprint(&mut mock, unit, |tx| vec.update(tx, at, |n| n + 1)))
            .collect();
        let found = conflicts(&changes);
        assert!(found <= 15, "{found} of 1000 pairs of changes conflict in {name}");
        let push = footprint(&mut mock, unit, |tx| vec.push(tx, 1));
        let found = changes.iter().filter(|change| change.conflicts(&push)).count();
        assert!(found <= 1, "{found} of 200 changes conflict with a push in {name}");
        let pop = footprint(&mut mock, unit, |tx| vec.pop(tx));
        assert!(pop.conflicts(&push));
    }
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(bool, u64),
    /// Pops some elements at the front or back, and returns the last.
    Pop(bool, u64),
    Set(u64, u64),
    Swap(u64, u64),
    SwapRemove(u64),
    Truncate(u64),
    Clear(u64),
}

/// The result of an operation on elements of type `T`: an element, or whether it was done.
type Outcome<T> = (Option<T>, bool);

fn run_queue<W: Allocate, T>(
    tx: &mut W,
    queue: VecDeque<T>,
    step: Step,
    value: fn(u64) -> T::Owned,
) -> Result<Outcome<T::Owned>, Stop>
where
    T: Value<Owned: AsValue<T>> + ?Sized,
{
    Ok(match step {
        Step::Push(true, n) => (None, queue.push_front(tx, value(n)).is_ok()),
        Step::Push(false, n) => (None, queue.push_back(tx, value(n)).is_ok()),
        Step::Pop(is_front, count) => {
            let mut one = || if is_front { queue.pop_front(tx) } else { queue.pop_back(tx) };
            (last_of(count, &mut one)?, true)
        }
        Step::SwapRemove(_) | Step::Truncate(_) => (queue.pop_back(tx)?, true),
        Step::Set(at, n) => (queue.set(tx, at, value(n))?, true),
        Step::Swap(one, other) => (None, queue.swap(tx, one, other)?),
        Step::Clear(most) => {
            queue.clear_step(tx, most)?;
            (None, true)
        }
    })
}

fn run_vec<W: Allocate, T>(
    tx: &mut W,
    vec: Vec<T>,
    step: Step,
    value: fn(u64) -> T::Owned,
) -> Result<Outcome<T::Owned>, Stop>
where
    T: Value<Owned: AsValue<T>> + ?Sized,
{
    Ok(match step {
        Step::Push(_, n) => (None, vec.push(tx, value(n)).is_ok()),
        Step::Pop(_, count) => (last_of(count, &mut || vec.pop(tx))?, true),
        Step::Set(at, n) => (vec.set(tx, at, value(n))?, true),
        Step::Swap(one, other) => (None, vec.swap(tx, one, other)?),
        Step::SwapRemove(at) => (vec.swap_remove(tx, at)?, true),
        Step::Truncate(len) => (None, vec.truncate_step(tx, len, 3)?),
        Step::Clear(most) => {
            vec.clear_step(tx, most)?;
            (None, true)
        }
    })
}

/// Pops some elements, and returns the last.
fn last_of<T>(
    count: u64,
    pop: &mut impl FnMut() -> Result<Option<T>, Stop>,
) -> Result<Option<T>, Stop> {
    let mut last = None;
    for _ in 0..count {
        last = pop()?;
    }
    Ok(last)
}

/// Returns the result of an operation on the model of a queue, or of a vector.
fn apply<T: Clone>(
    model: &mut Model<T>,
    is_queue: bool,
    step: Step,
    value: fn(u64) -> T,
) -> Outcome<T> {
    let len = model.len();
    match step {
        Step::Push(is_front, n) => {
            match is_front && is_queue {
                true => model.push_front(value(n)),
                false => model.push_back(value(n)),
            }
            (None, true)
        }
        Step::Pop(is_front, count) => {
            let mut one = || match is_front && is_queue {
                true => model.pop_front(),
                false => model.pop_back(),
            };
            ((0..count).map(|_| one()).last().flatten(), true)
        }
        Step::SwapRemove(_) | Step::Truncate(_) if is_queue => (model.pop_back(), true),
        Step::Set(at, n) => {
            (model.get_mut(at as usize).map(|old| std::mem::replace(old, value(n))), true)
        }
        Step::Swap(one, other) => {
            let is_done = (one.max(other) as usize) < len;
            if is_done {
                model.swap(one as usize, other as usize);
            }
            (None, is_done)
        }
        Step::SwapRemove(at) => (model.swap_remove_back(at as usize), true),
        Step::Truncate(to) => {
            model.truncate((to as usize).max(len.saturating_sub(3)));
            (None, model.len() <= to as usize)
        }
        Step::Clear(_) => {
            model.clear();
            (None, true)
        }
    }
}

/// Returns an operation at an end, or at one of these indices.
fn step(below: &mut impl FnMut(u64) -> u64, indices: [u64; 3]) -> Step {
    let mut at = || indices[below(3) as usize];
    let (one, other) = (at(), at());
    match below(24) {
        0..5 => Step::Push(below(2) == 0, 500 + below(500)),
        5..11 => Step::Pop(below(2) == 0, 1),
        11..13 => Step::Pop(below(2) == 0, 1 + below(8)),
        13..16 => Step::Set(one, 500 + below(500)),
        16..19 => Step::Swap(one, other),
        19..21 => Step::SwapRemove(one),
        21..23 => Step::Truncate(one),
        _ => Step::Clear(1 + below(8)),
    }
}

/// Returns indices of a collection of so many elements, or just behind them.
fn indices(below: &mut impl FnMut(u64) -> u64, len: u64) -> [u64; 3] {
    [below(len + 1), (len + 1).saturating_sub(below(4)), below(len + 1)]
}

/// Two queues and a vector. A transaction that relies on one and changes another one may show write
/// skew.
struct Three<T: Value + ?Sized> {
    queues: [VecDeque<T>; 2],
    vec: Vec<T>,
}

impl<T: Value + ?Sized> Clone for Three<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Value + ?Sized> Copy for Three<T> {}

/// The models of the queues and of the vector.
type Models<T> = [Model<T>; 3];

/// Operations on collections, by their numbers.
type Steps = [(usize, Step); 2];

impl<T: Value<Owned: AsValue<T> + Clone + PartialEq + Debug> + ?Sized> Three<T> {
    fn run<W: Allocate>(
        self,
        tx: &mut W,
        steps: Steps,
        value: fn(u64) -> T::Owned,
    ) -> Result<[Outcome<T::Owned>; 2], Stop> {
        let mut one = |(number, step)| match number {
            2 => run_vec(tx, self.vec, step, value),
            _ => run_queue(tx, self.queues[number], step, value),
        };
        Ok([one(steps[0])?, one(steps[1])?])
    }

    /// Makes all, each with a history of pushes and pops around the borders of chunks.
    fn make(
        mock: &mut Mock,
        below: &mut impl FnMut(u64) -> u64,
        len: u64,
        value: fn(u64) -> T::Owned,
    ) -> (Three<T>, Models<T::Owned>) {
        let three = mock
            .transact(|tx| {
                let queues = [VecDeque::create(tx)?, VecDeque::create(tx)?];
                Ok(Three { queues, vec: Vec::create(tx)? })
            })
            .unwrap();
        let mut models = [Model::new(), Model::new(), Model::new()];
        for (number, model) in models.iter_mut().enumerate() {
            let mut run = |step: Step| {
                let steps = [(number, step), (number, Step::Swap(u64::MAX, 0))];
                mock.transact(|tx| three.run(tx, steps, value)).unwrap();
                apply(model, number < 2, step, value);
            };
            let (pushes, side) = (below(len), below(3));
            for n in 0..pushes {
                run(Step::Push(if side == 2 { n % 2 == 0 } else { side == 0 }, n));
            }
            let side = below(3);
            for n in 0..below(pushes + 2) {
                run(Step::Pop(if side == 2 { n % 2 == 0 } else { side == 0 }, 1));
            }
            if below(3) == 0 {
                let is_front = below(2) == 0;
                (0..below(9)).for_each(|n| run(Step::Push(is_front, n)));
                (0..below(9)).for_each(|_| run(Step::Pop(is_front, 1)));
            }
        }
        (three, models)
    }

    /// Returns the elements of all, which are sound.
    fn content(self, mock: &mut Mock) -> Models<T::Owned> {
        let content = mock.transact(|tx| {
            let [one, other] = self.queues;
            for checked in [one.check(tx)?, other.check(tx)?, self.vec.check(tx)?] {
                assert_eq!(checked.damage, []);
            }
            Ok([
                one.iter(tx).collect::<Result<_, _>>()?,
                other.iter(tx).collect::<Result<_, _>>()?,
                self.vec.iter(tx).collect::<Result<_, _>>()?,
            ])
        });
        content.unwrap()
    }

    fn free(self, tx: &mut Mock) -> Result<(), Stop> {
        self.queues.into_iter().try_for_each(|queue| queue.free(tx))?;
        self.vec.free(tx)
    }
}

/// Runs two transactions on one state, as under snapshot isolation, and commits both if they write
/// no object in common. Results and state must be those of one after the other, in one order or the
/// other.
fn pairs_are_serializable<T>(value: fn(u64) -> T::Owned, len: u64, trials: usize)
where
    T: Value<Owned: AsValue<T> + Clone + PartialEq + Debug> + ?Sized,
{
    let mut below = random_below();
    let (mut passed, mut conflicts) = (0, 0);
    for _ in 0..trials {
        let mut mock = Mock::new(1 << 19);
        let (three, models) = Three::<T>::make(&mut mock, &mut below, len, value);
        let all = [0, 1, 2].map(|n| indices(&mut below, models[n].len() as u64));
        // Half of the pairs change the same two collections.
        let mut numbers = || [below(5) as usize / 2, below(5) as usize / 2];
        let (of_one, of_other) = (numbers(), numbers());
        let of_other = if below(2) == 0 { of_one } else { of_other };
        let mut steps = |numbers: [usize; 2]| numbers.map(|n| (n, step(&mut below, all[n])));
        let (one, other) = (steps(of_one), steps(of_other));
        // Both read the same state, as under snapshot isolation.
        let body = |steps| move |tx: &mut Recorder<'_>| three.run(tx, steps, value);
        let (of_one, changes_one) = changes(&mut mock, 1, body(one));
        let (of_other, changes_other) = changes(&mut mock, 40, body(other));
        if !written(&changes_one, None).is_disjoint(&written(&changes_other, None)) {
            conflicts += 1;
            continue;
        }
        passed += 1;
        redo(&mut mock, &changes_one);
        redo(&mut mock, &changes_other);
        let found = three.content(&mut mock);
        let serial = |first: Steps, second: Steps| {
            let mut state = models.clone();
            let mut of = |steps: Steps| {
                steps.map(|(number, step)| apply(&mut state[number], number < 2, step, value))
            };
            let (of_first, of_second) = (of(first), of(second));
            (of_first, of_second, state)
        };
        let (a, b, state) = serial(one, other);
        let is_first = (&a, &b, &state) == (&of_one, &of_other, &found);
        let (b, a, state) = serial(other, one);
        let is_second = (&a, &b, &state) == (&of_one, &of_other, &found);
        assert!(is_first || is_second, "{one:?} and {other:?} on {models:?}");
        mock.transact(|tx| three.free(tx)).unwrap();
        assert_eq!(mock.objects(), 0, "{one:?} and {other:?}");
    }
    assert!(passed > trials / 20 && conflicts > trials / 8, "{passed} pass, {conflicts} conflict");
}

#[test]
fn pops_that_remove_two_of_three_nodes_conflict() {
    // The root has two nodes of 25200 elements, the second one two nodes of 420.
    let mut mock = Mock::new(1 << 23);
    let queue: VecDeque<Long> = queue(0, 25_200 + 420 + 1, long)(&mut mock);
    mock.transact(|tx| {
        // The chunk before the first element is empty, and 4 elements are in the next one.
        (0..25_203).try_for_each(|_| queue.pop_front(tx).map(drop))?;
        // The same at the back.
        (0..4).try_for_each(|_| queue.pop_back(tx).map(drop))
    })
    .unwrap();
    let objects = mock.objects();
    let (_, front) = changes(&mut mock, 1, |tx| queue.pop_front(tx));
    let (_, back) = changes(&mut mock, 1, |tx| queue.pop_back(tx));
    // Either leaves one node of 25200 elements, and both an inner node with one child as the root.
    assert!(!written(&front, None).is_disjoint(&written(&back, None)));
    mock.transact(|tx| queue.pop_front(tx)).unwrap();
    assert_eq!(mock.objects(), objects - 4, "a chunk, and the nodes above");
    mock.transact(|tx| queue.pop_back(tx)).unwrap();
    assert_eq!(mock.objects(), objects - 7, "a chunk, a node, and the root");
    assert_eq!(check(&mut mock, queue), 25_621 - 25_203 - 4 - 2);
}

#[test]
fn concurrent_pairs_on_few_chunks_are_serializable() {
    pairs_are_serializable::<Long>(long, 30, 20_000);
}

#[test]
fn concurrent_pairs_on_nodes_are_serializable() {
    pairs_are_serializable::<Long>(long, 1000, 300);
}

#[test]
fn concurrent_pairs_on_objects_are_serializable() {
    pairs_are_serializable::<str>(text, 100, 5000);
}

#[test]
fn concurrent_pairs_on_elements_without_bytes_are_serializable() {
    pairs_are_serializable::<()>(|_| (), 1100, 300);
}
