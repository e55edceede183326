//! Pairs of operations on one vector or queue, of which one relies on data that the other changes:
//! under snapshot isolation both must write or protect one object.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use collections::{AsValue, Value, Vec, VecDeque};
use common::{Recorder, changes, written};
use words::mock::Mock;
use words::{Stop, Transact};

/// An element of which a chunk has 7.
type Long = [u64; 8];

/// Checks that two transactions on one state conflict.
fn meet<C: Copy, R, S>(
    make: impl Fn(&mut Mock) -> Result<C, Stop>,
    relies: impl Fn(&mut Recorder<'_>, C) -> Result<R, Stop>,
    changes_it: impl Fn(&mut Recorder<'_>, C) -> Result<S, Stop>,
) {
    let mut mock = Mock::new(1 << 20);
    let collection = mock.transact(make).unwrap();
    let (_, relies) = changes(&mut mock, 1, |tx| relies(tx, collection));
    let (_, changes_it) = changes(&mut mock, 1, |tx| changes_it(tx, collection));
    assert!(!written(&relies, None).is_disjoint(&written(&changes_it, None)));
}

fn vec<T>(values: std::vec::Vec<T::Owned>) -> impl Fn(&mut Mock) -> Result<Vec<T>, Stop>
where
    T: Value<Owned: AsValue<T> + Clone> + ?Sized,
{
    move |tx| {
        let vec = Vec::create(tx)?;
        vec.extend(tx, values.clone())?;
        Ok(vec)
    }
}

/// A queue of so many elements, from which some are then popped at the front and the back.
fn queue(len: u64, front: u64, back: u64) -> impl Fn(&mut Mock) -> Result<VecDeque<Long>, Stop> {
    move |tx| {
        let queue = VecDeque::create(tx)?;
        queue.extend(tx, (0..len).map(|n| [n; 8]))?;
        (0..front).try_for_each(|_| queue.pop_front(tx).map(drop))?;
        (0..back).try_for_each(|_| queue.pop_back(tx).map(drop))?;
        Ok(queue)
    }
}

#[test]
fn absent_element_conflicts_with_push() {
    type Of = Vec<u64>;
    let push = |tx: &mut Recorder<'_>, vec: Of| vec.push(tx, 1);
    // No chunk, a small one, a full one, and an empty one behind a chunk with room.
    for len in [0, 1, 60, 61, 121] {
        for pops in [0, 1, 5] {
            let make = || {
                move |tx: &mut Mock| {
                    let vec = vec::<u64>((0..len).collect())(tx)?;
                    (0..pops).try_for_each(|_| vec.pop(tx).map(drop))?;
                    Ok(vec)
                }
            };
            let len = len.saturating_sub(pops);
            meet(make(), |tx, vec: Of| vec.set(tx, len, 7), push);
            meet(make(), |tx, vec: Of| vec.put(tx, len, 7), push);
            meet(make(), |tx, vec: Of| vec.update(tx, len, |n| n), push);
            meet(make(), |tx, vec: Of| vec.swap(tx, 0, len), push);
            meet(make(), |tx, vec: Of| vec.swap_remove(tx, len), push);
            meet(make(), |tx, vec: Of| vec.truncate(tx, len), push);
        }
    }
    let emptied = |tx: &mut Mock| {
        let vec = vec::<u64>(vec![1])(tx)?;
        vec.pop(tx)?;
        Ok(vec)
    };
    meet(emptied, |tx, vec: Of| vec.pop(tx), push);
    meet(vec::<u64>(vec![]), |tx, vec: Of| vec.pop(tx), push);
    meet(vec::<u64>(vec![]), |tx, vec: Of| vec.clear_step(tx, 1), push);
    for (len, pops) in [(0, 0), (3, 3), (9, 9), (12, 1)] {
        let at = len - pops;
        let set = |tx: &mut Recorder<'_>, queue: VecDeque<Long>| queue.set(tx, at, [7; 8]);
        meet(queue(len, pops, 0), set, |tx, queue| queue.push_front(tx, [1; 8]));
        meet(queue(len, 0, pops), set, |tx, queue| queue.push_back(tx, [1; 8]));
    }
}

#[test]
fn present_element_conflicts_with_its_removal() {
    let units = || vec::<()>(vec![(); 10]);
    meet(units(), |tx, vec| vec.set(tx, 3, ()), |tx, vec| vec.truncate(tx, 0));
    meet(units(), |tx, vec| vec.swap(tx, 3, 4), |tx, vec| vec.truncate(tx, 0));
    let integers = || vec::<u64>((0..10).collect());
    meet(integers(), |tx, vec| vec.swap(tx, 3, 3), |tx, vec| vec.truncate(tx, 0));
    // The element's object is written, and the swap moves its pointer.
    let texts = || vec::<str>(vec!["text".to_owned(); 10]);
    meet(texts(), |tx, vec| vec.set(tx, 3, "other"), |tx, vec| vec.swap(tx, 3, 7));
    meet(texts(), |tx, vec| vec.set(tx, 9, "same"), |tx, vec| vec.swap_remove(tx, 9));
}

#[test]
fn index_of_a_queue_conflicts_with_its_front() {
    type Of = VecDeque<Long>;
    for popped in [0, 3, 7, 8] {
        let make = || queue(50, popped, 0);
        let set = |tx: &mut Recorder<'_>, queue: Of| queue.set(tx, 30, [7; 8]);
        meet(make(), set, |tx, queue| queue.pop_front(tx));
        meet(make(), set, |tx, queue| queue.push_front(tx, [7; 8]));
        let swap = |tx: &mut Recorder<'_>, queue: Of| queue.swap(tx, 30, 31);
        meet(make(), swap, |tx, queue| queue.pop_front(tx));
    }
}

#[test]
fn pops_at_both_ends_conflict_in_the_last_chunks() {
    type Of = VecDeque<Long>;
    // A pop that leaves an empty chunk relies on the elements in the chunk beside it.
    let pops = |tx: &mut Recorder<'_>, queue: Of, count: u64, is_front: bool| {
        (0..count).try_for_each(|_| match is_front {
            true => queue.pop_front(tx).map(drop),
            false => queue.pop_back(tx).map(drop),
        })
    };
    meet(queue(13, 2, 0), |tx, queue| pops(tx, queue, 5, true), |tx, it| pops(tx, it, 6, false));
    meet(queue(8, 0, 0), |tx, queue| pops(tx, queue, 1, false), |tx, it| pops(tx, it, 7, true));
    // Full chunks around an empty one: the last push left it.
    meet(queue(15, 0, 1), |tx, queue| pops(tx, queue, 1, false), |tx, it| it.push_back(tx, [1; 8]));
}

#[test]
fn first_clear_step_conflicts_with_both_ends() {
    type Of = VecDeque<Long>;
    for (front, back) in [(0, 0), (7, 7), (8, 8)] {
        let make = || queue(70, front, back);
        let clear = |tx: &mut Recorder<'_>, queue: Of| queue.clear_step(tx, 1);
        meet(make(), clear, |tx, queue| queue.pop_front(tx));
        meet(make(), clear, |tx, queue| queue.push_front(tx, [1; 8]));
        meet(make(), clear, |tx, queue| queue.pop_back(tx));
        meet(make(), clear, |tx, queue| queue.push_back(tx, [1; 8]));
    }
}
