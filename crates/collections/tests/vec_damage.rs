//! Damaged vectors and queues: every operation returns a value or a typed `Stop`, and `check`
//! reports it.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use collections::vec::Damage;
use collections::{AsValue, Value, Vec, VecDeque};
use common::random_below;
use words::mock::Mock;
use words::{Addr, Allocate, Stop, Transact, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Words in front of a node's slots.
const HEAD_WORDS: u64 = 2;

fn read(mock: &mut Mock, object: u64, word: u64) -> u64 {
    mock.transact(|tx| tx.read(Addr::new(object, 8 * word))).unwrap()
}

fn poke(mock: &mut Mock, object: u64, word: u64, value: u64) -> u64 {
    let old = read(mock, object, word);
    mock.transact(|tx| tx.write(Addr::new(object, 8 * word), value)).unwrap();
    old
}

fn header_of(handle: impl IntoBytes + Immutable) -> u64 {
    u64::from_ne_bytes(handle.as_bytes().try_into().unwrap())
}

/// Returns the nodes of a level: their first word begins with "slot".
fn nodes(mock: &mut Mock, level: u64) -> std::vec::Vec<u64> {
    let mark = u64::from(u32::from_be_bytes(*b"slot")) << 4 | level;
    let live = mock.live();
    live.into_iter()
        .map(|(object, _)| object)
        .filter(|&at| read(mock, at, 0) >> 28 == mark)
        .collect()
}

fn integers(mock: &mut Mock, len: u64) -> VecDeque<u64> {
    mock.transact(|tx| {
        let queue = VecDeque::create(tx)?;
        (0..len / 3).try_for_each(|n| queue.push_front(tx, n))?;
        queue.extend(tx, 0..len - len / 3)?;
        Ok(queue)
    })
    .unwrap()
}

fn texts(mock: &mut Mock, len: u64) -> Vec<str> {
    mock.transact(|tx| {
        let vec = Vec::create(tx)?;
        let value = |n: u64| "long".repeat(if n.is_multiple_of(20) { 500 } else { 1 });
        vec.extend(tx, (0..len).map(value))?;
        Ok(vec)
    })
    .unwrap()
}

fn damage(mock: &mut Mock, queue: VecDeque<u64>) -> std::vec::Vec<Damage> {
    mock.transact(|tx| queue.check(tx)).unwrap().damage
}

#[test]
fn every_kind_of_damage_is_found() {
    let mut mock = Mock::forgiving(1 << 20);
    let queue = integers(&mut mock, 1000);
    assert_eq!(damage(&mut mock, queue), []);
    let (chunks, root) = (nodes(&mut mock, 0), nodes(&mut mock, 1)[0]);
    // A chunk between two full ones, by its number.
    let chunk = *chunks.iter().find(|&&at| read(&mut mock, at, 1) == 2).unwrap();
    let head = read(&mut mock, chunk, 0);
    type Is = fn(&Damage) -> bool;
    let injected: [(u64, u64, u64, Is); 4] = [
        (chunk, 0, head + 1, |d| matches!(d, Damage::Range { found: (1, 60), .. })),
        (chunk, 0, head - (1 << 10), |d| matches!(d, Damage::Range { found: (0, 59), .. })),
        (chunk, 1, 3, |d| matches!(d, Damage::Number { expected: 2, found: 3, .. })),
        (chunk, 1, u64::MAX, |d| matches!(d, Damage::Number { .. })),
    ];
    for (object, word, value, is) in injected {
        let old = poke(&mut mock, object, word, value);
        let found = damage(&mut mock, queue);
        assert!(found.len() == 1 && is(&found[0]), "word {word} = {value:#x}: {found:?}");
        assert!(found[0].to_string().contains("expected"), "{}", found[0]);
        poke(&mut mock, object, word, old);
    }
    // A root with one child, whose chunk is the only one.
    let (old, from) = (read(&mut mock, root, 0), read(&mut mock, root, 0) & 0x3ff);
    poke(&mut mock, root, 0, old & !(0x3ff << 10) | (from + 1) << 10);
    let found = damage(&mut mock, queue);
    assert!(
        matches!(found[..], [Damage::Root { .. }]) && found[0].to_string().contains("expected")
    );

    let mut mock = Mock::forgiving(1 << 20);
    let vec = texts(&mut mock, 300);
    let chunk = nodes(&mut mock, 0)[1];
    let entry = read(&mut mock, chunk, HEAD_WORDS + 7);
    for (object, word, value) in [(entry, 0, 0), (entry, 1, 0xff), (chunk, HEAD_WORDS + 7, chunk)] {
        let old = poke(&mut mock, object, word, value);
        let found = mock.transact(|tx| vec.check(tx)).unwrap().damage;
        assert!(matches!(found[..], [Damage::Element { slot: 7, .. }]), "{found:?}");
        assert!(found[0].to_string().contains("expected"), "{}", found[0]);
        poke(&mut mock, object, word, old);
    }
}

#[test]
fn nodes_in_wrong_places_are_refused() {
    let mut mock = Mock::forgiving(1 << 21);
    let queue = integers(&mut mock, 20_000);
    let root = nodes(&mut mock, 2)[0];
    let (chunks, header) = (nodes(&mut mock, 0), header_of(queue));
    let (from, head) = (read(&mut mock, root, 0) & 0x3ff, read(&mut mock, root, 0));
    let slot = HEAD_WORDS + from;
    let (first, inner) = (read(&mut mock, root, slot), read(&mut mock, root, slot + 2));
    let inner_head = read(&mut mock, inner, 0);
    for (object, word, value, stop) in [
        (root, slot, root, Stop::BadValue), // a cycle
        (root, slot, chunks[0], Stop::BadValue),
        (root, slot + 1, first, Stop::BadValue),
        (inner, HEAD_WORDS + 30, root, Stop::BadValue), // a larger cycle
        (inner, HEAD_WORDS + 30, header, Stop::BadValue),
        (inner, 0, inner_head + 1, Stop::BadValue),
        (inner, 0, inner_head ^ 1 << 28, Stop::BadValue), // a chunk
        (root, 0, head ^ 0x3f << 20, Stop::BadValue),
        (root, 0, head + (1 << 28), Stop::BadValue),
        (header, 0, 12345, Stop::BadPointer),
        (header, 1, root, Stop::BadValue),
        (header, 1, 12345, Stop::BadPointer),
    ] {
        let old = poke(&mut mock, object, word, value);
        let found = mock.transact(|tx| queue.check(tx)).map(|checked| checked.damage);
        match found {
            Ok(damage) => assert!(!damage.is_empty(), "word {word} = {value:#x}"),
            Err(refused) => assert_eq!(refused.stop, stop, "word {word} = {value:#x}"),
        }
        poke(&mut mock, object, word, old);
    }
    assert_eq!(damage(&mut mock, queue), []);
}

/// Runs operations on a damaged queue and a damaged vector, which share the nodes of one of them,
/// and counts those that were refused and those that were not.
fn use_both<T>(
    mock: &mut Mock,
    (queue, vec): (VecDeque<T>, Vec<T>),
    below: &mut impl FnMut(u64) -> u64,
    value: impl Fn(u64) -> T::Owned,
) -> [usize; 2]
where
    T: Value<Owned: AsValue<T>> + ?Sized,
{
    let mut counts = [0; 2];
    let mut count = |done: bool| counts[usize::from(done)] += 1;
    for n in 0..60 {
        let (at, other) = (below(500), below(500));
        count(mock.transact(|tx| queue.get(tx, at)).is_ok());
        count(mock.transact(|tx| queue.set(tx, at, value(n))).is_ok());
        count(mock.transact(|tx| queue.push_back(tx, value(n))).is_ok());
        count(mock.transact(|tx| queue.push_front(tx, value(n))).is_ok());
        count(mock.transact(|tx| queue.pop_back(tx)).is_ok());
        count(mock.transact(|tx| queue.pop_front(tx)).is_ok());
        count(mock.transact(|tx| vec.swap(tx, at, other)).is_ok());
        count(mock.transact(|tx| vec.swap_remove(tx, at)).is_ok());
        count(mock.transact(|tx| vec.push(tx, value(n))).is_ok());
    }
    count(mock.transact(|tx| queue.len(tx)).is_ok());
    count(mock.transact(|tx| vec.len(tx)).is_ok());
    let checked = mock.transact(|tx| queue.check(tx));
    count(checked.is_ok_and(|checked| checked.damage.is_empty()));
    count(mock.transact(|tx| vec.check(tx)).is_ok());
    let mut most = 0;
    most = most.max(mock.transact(|tx| Ok(queue.iter(tx).count())).unwrap_or(0));
    most = most.max(mock.transact(|tx| Ok(queue.iter(tx).rev().count())).unwrap_or(0));
    most = most.max(mock.transact(|tx| Ok(vec.range(tx, 5..).count())).unwrap_or(0));
    assert!(most < 10_000);
    count(mock.transact(|tx| vec.truncate_step(tx, 10, 100)).is_ok());
    for _ in 0..200 {
        match mock.transact(|tx| queue.drop_step(tx, 20)) {
            Ok(false) => {}
            Ok(true) | Err(_) => break,
        }
    }
    counts
}

/// Damages a queue or a vector at random, many times, and uses its header as that of both.
fn damage_and_use<T>(make: impl Fn(&mut Mock, u64) -> u64, value: impl Fn(u64) -> T::Owned + Copy)
where
    T: Value<Owned: AsValue<T>> + ?Sized,
{
    let (mut below, mut counts) = (random_below(), [0; 2]);
    for _ in 0..400 {
        let mut mock = Mock::forgiving(1 << 19);
        let len = below(400);
        let header = make(&mut mock, len);
        let live = mock.live();
        // Most often the nodes, of which there may be fewer than entries.
        let mut all = nodes(&mut mock, 0);
        all.extend(nodes(&mut mock, 1));
        all.push(header);
        for _ in 0..=below(3) {
            let (object, bytes) = live[below(live.len() as u64) as usize];
            let (object, bytes) = match below(4) {
                0 => (object, bytes),
                _ => {
                    let node = all[below(all.len() as u64) as usize];
                    *live.iter().find(|&&(object, _)| object == node).unwrap()
                }
            };
            let most = [2, 64][below(2) as usize];
            let word = below(bytes.div_ceil(8).min(most));
            let old = read(&mut mock, object, word);
            let value = [
                old ^ 1 << below(64),
                all[below(all.len() as u64) as usize],
                live[below(live.len() as u64) as usize].0,
                below(u64::MAX),
                old ^ below(1 << 20),
            ][below(5) as usize];
            poke(&mut mock, object, word, value);
        }
        let queue = VecDeque::<T>::read_from_bytes(header.as_bytes()).unwrap();
        let vec = Vec::<T>::read_from_bytes(header.as_bytes()).unwrap();
        let [refused, done] = use_both(&mut mock, (queue, vec), &mut below, value);
        counts = [counts[0] + refused, counts[1] + done];
    }
    assert!(counts.iter().all(|&count| count > 1000), "{counts:?}: refused, done");
}

#[test]
fn damaged_sequence_of_integers_never_hangs_or_panics() {
    damage_and_use::<u64>(|mock, len| header_of(integers(mock, len)), |n| n);
}

#[test]
fn damaged_sequence_of_texts_never_hangs_or_panics() {
    let value = |n: u64| "value".repeat(if n.is_multiple_of(9) { 500 } else { n as usize });
    damage_and_use::<str>(|mock, len| header_of(texts(mock, len)), value);
}

#[test]
fn wild_handle_is_refused() {
    let mut mock = Mock::forgiving(1 << 16);
    let other = header_of(integers(&mut mock, 1));
    for header in [0, 1, 8, other + 8, 1 << 63, u64::MAX] {
        let vec = Vec::<u64>::read_from_bytes(header.as_bytes()).unwrap();
        assert!(mock.transact(|tx| vec.get(tx, 0)).is_err());
        assert!(mock.transact(|tx| vec.push(tx, 1)).is_err());
        assert!(mock.transact(|tx| vec.pop(tx)).is_err());
        assert!(mock.transact(|tx| vec.len(tx)).is_err());
        assert!(mock.transact(|tx| vec.free(tx)).is_err());
        let queue = VecDeque::<str>::read_from_bytes(header.as_bytes()).unwrap();
        assert!(mock.transact(|tx| queue.push_front(tx, "text")).is_err());
        assert!(mock.transact(|tx| queue.check(tx)).is_err());
    }
}

/// Replaces a root by nine levels of nodes, all slots of which lead to one node of the next level,
/// and at last to one chunk. It has 60^9 places for that.
fn weave(mock: &mut Mock, header: u64) {
    let mut next = nodes(mock, 0)[0];
    for level in 1..=9_u64 {
        let head =
            u64::from(u32::from_be_bytes(*b"slot")) << 32 | level << 28 | 60 << 20 | 60 << 10;
        let words = [vec![head, 0], vec![next; 60]].concat();
        next = mock
            .transact(|tx| {
                let object = tx.allocate(8 * words.len())?;
                tx.write_words(Addr::new(object, 0), &words)?;
                Ok(object)
            })
            .unwrap();
    }
    poke(mock, header, 0, next);
}

#[test]
fn woven_nodes_end() {
    for len in [100, 300] {
        let mut mock = Mock::forgiving(1 << 20);
        let queue = integers(&mut mock, len);
        let vec = Vec::<u64>::read_from_bytes(queue.as_bytes()).unwrap();
        weave(&mut mock, header_of(queue));
        assert!(mock.transact(|tx| queue.check(tx)).is_err());
        assert!(mock.transact(|tx| queue.len(tx)).is_err());
        assert!(mock.transact(|tx| vec.truncate(tx, 5)).is_err());
        let items = mock.transact(|tx| Ok((queue.iter(tx).count(), vec.iter(tx).rev().count())));
        assert_eq!(items.unwrap(), (1, 1), "an error each");
        let mut steps = 0;
        while mock.transact(|tx| queue.drop_step(tx, 100)).is_ok_and(|is_done| !is_done) {
            steps += 1;
            assert!(steps < 100);
        }
    }
}

#[test]
fn shared_chunk_between_sound_ends_is_found() {
    let mut mock = Mock::forgiving(1 << 20);
    let vec = mock.transact(Vec::<u64>::create).unwrap();
    mock.transact(|tx| vec.extend(tx, 0..3000)).unwrap();
    let (root, chunk) = (nodes(&mut mock, 1)[0], nodes(&mut mock, 0)[7]);
    for slot in 10..40 {
        poke(&mut mock, root, HEAD_WORDS + slot, chunk);
    }
    let checked = mock.transact(|tx| vec.check(tx)).unwrap();
    assert_eq!(checked.damage.len(), 30, "{:?}", checked.damage);
    let read =
        mock.transact(|tx| Ok(vec.iter(tx).map(|item| item.is_ok()).collect::<std::vec::Vec<_>>()));
    let read = read.unwrap();
    assert_eq!((read.len(), read.last()), (601, Some(&false)), "it ends after the first");
}

#[test]
fn check_stops_at_its_limit_of_findings() {
    let mut mock = Mock::forgiving(1 << 21);
    let vec = mock.transact(Vec::<u64>::create).unwrap();
    mock.transact(|tx| vec.extend(tx, 0..20_000)).unwrap();
    let chunks = nodes(&mut mock, 0);
    for &chunk in &chunks[3..chunks.len() - 1] {
        poke(&mut mock, chunk, 1, 1 << 40);
    }
    let checked = mock.transact(|tx| vec.check(tx)).unwrap();
    assert_eq!(checked.damage.len(), 100);
    assert!(checked.entries < 7000 && checked.next.is_some(), "{}", checked.entries);
}

#[test]
fn damage_of_a_cleared_vec_is_found() {
    let mut mock = Mock::forgiving(1 << 20);
    let vec = texts(&mut mock, 300);
    assert!(!mock.transact(|tx| vec.clear_step(tx, 100)).unwrap());
    let checked = mock.transact(|tx| vec.check(tx)).unwrap();
    assert_eq!((checked.entries, checked.pending, checked.damage), (0, 200, vec![]));
    let chunk = nodes(&mut mock, 0)[1];
    let entry = read(&mut mock, chunk, HEAD_WORDS + 5);
    let old = poke(&mut mock, entry, 0, 0);
    assert_eq!(mock.transact(|tx| vec.check(tx)).unwrap().damage.len(), 1);
    poke(&mut mock, entry, 0, old);
    let root = read(&mut mock, header_of(vec), 1);
    let old = poke(&mut mock, root, HEAD_WORDS, root);
    assert!(mock.transact(|tx| vec.check(tx)).is_err());
    poke(&mut mock, root, HEAD_WORDS, old);
    while !mock.transact(|tx| vec.drop_step(tx, 9)).unwrap() {}
    assert_eq!(mock.objects(), 0);
}
