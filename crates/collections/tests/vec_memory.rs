//! Memory of vectors and queues, and the words that their operations write.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use collections::{Vec, VecDeque};
use words::mock::Mock;
use words::{Allocate, Stop, Transact};

/// Bytes of live objects, with the allocator's headers.
fn bytes(mock: &Mock) -> u64 {
    mock.bytes_live() + 16 * mock.objects() as u64
}

#[test]
fn empty_vec_is_one_small_object() {
    let mut mock = Mock::new(1 << 16);
    let vec = mock.transact(Vec::<u64>::create).unwrap();
    assert_eq!((mock.objects(), mock.bytes_live(), size_of_val(&vec)), (1, 16, 8));
    mock.transact(|tx| vec.push(tx, 1)).unwrap();
    assert_eq!((mock.objects(), mock.bytes_live()), (2, 16 + 48), "a chunk of 4 elements");
    mock.transact(|tx| vec.pop(tx)).unwrap();
    mock.transact(|tx| vec.clear(tx)).unwrap();
    assert_eq!((mock.objects(), mock.bytes_live()), (1, 16));
}

#[test]
fn element_takes_few_bytes_beside_its_own() {
    let mut mock = Mock::new(1 << 21);
    let vec = mock.transact(Vec::<u64>::create).unwrap();
    for n in 0..100_000_u64 {
        mock.transact(|tx| vec.push(tx, n)).unwrap();
        if n > 1000 {
            let each = bytes(&mock) as f64 / n as f64;
            assert!(each < 10.2, "{each} bytes for each of {n}");
        }
    }
    let each = bytes(&mock) as f64 / 100_000.0;
    assert!(each < 8.7, "{each}");
    let mut mock = Mock::new(1 << 20);
    let vec = mock.transact(Vec::<u8>::create).unwrap();
    mock.transact(|tx| vec.extend(tx, (0..200_000).map(|n| n as u8))).unwrap();
    let each = bytes(&mock) as f64 / 200_000.0;
    assert!(each < 1.1, "{each}");
}

#[test]
fn operation_writes_a_bounded_number_of_words() {
    let mut mock = Mock::new(1 << 22);
    let queue = mock.transact(VecDeque::<u64>::create).unwrap();
    let (mut most, mut all) = (0, 0);
    for n in 0..20_000 {
        mock.transact(|tx| queue.push_front(tx, n)).unwrap();
        (most, all) = (most.max(mock.words_written()), all + mock.words_written());
    }
    // The mock counts the words of a new object, too: a chunk, and a node on each of two levels.
    assert!(most <= 3 * 62 + 10, "{most}");
    assert!(all < 20_000 * 4, "{all}");
    for n in 0..20_000_u64 {
        mock.transact(|tx| queue.set(tx, n * 7919 % 20_000, n)).unwrap();
        assert_eq!(mock.words_written(), 1);
    }
    (most, all) = (0, 0);
    for _ in 0..20_000 {
        mock.transact(|tx| queue.pop_back(tx)).unwrap();
        (most, all) = (most.max(mock.words_written()), all + mock.words_written());
    }
    assert!(most <= 8, "{most}");
    assert!(all < 20_000 + 20_000 / 20, "{all}");
}

#[test]
fn border_of_chunks_allocates_nothing() {
    // A chunk beside the root, below a node, and below a new level of nodes.
    for border in [60, 120, 600, 3600, 7200] {
        let mut mock = Mock::new(1 << 22);
        let vec = mock.transact(Vec::<u64>::create).unwrap();
        mock.transact(|tx| vec.extend(tx, 0..border + 1)).unwrap();
        let live = mock.live();
        for around in [1, 2, 3, 10, 29] {
            for _ in 0..20 {
                mock.transact(|tx| (0..around).try_for_each(|_| vec.pop(tx).map(drop))).unwrap();
                assert_eq!(mock.live(), live, "{around} around {border}");
                mock.transact(|tx| (0..around).try_for_each(|n| vec.push(tx, n))).unwrap();
                assert_eq!(mock.live(), live, "{around} around {border}");
            }
        }
        mock.transact(|tx| vec.truncate(tx, border - 30)).unwrap();
        assert!(mock.objects() < live.len(), "half a chunk is free");
    }
}

/// Fills a heap with a vector, and then with small objects.
fn full_vec(mock: &mut Mock) -> (Vec<str>, u64) {
    let vec = mock.transact(Vec::<str>::create).unwrap();
    let mut len = 0;
    let stop = loop {
        match mock.transact(|tx| vec.push(tx, "some text")) {
            Ok(()) => len += 1,
            Err(refused) => break refused.stop,
        }
    };
    assert_eq!(stop, Stop::Full);
    let checked = mock.transact(|tx| vec.check(tx)).unwrap();
    assert_eq!((checked.entries, checked.damage), (len, vec![]));
    for bytes in [1024, 256, 64, 8] {
        while mock.transact(|tx| tx.allocate(bytes)).is_ok() {}
    }
    (vec, len)
}

#[test]
fn full_heap_is_emptied_by_pops() {
    let mut mock = Mock::new(1 << 18);
    let (vec, len) = full_vec(&mut mock);
    assert!(len > 1000, "{len}");
    for _ in 0..len {
        assert!(mock.transact(|tx| vec.pop(tx)).unwrap().is_some());
    }
    assert!(mock.transact(|tx| vec.is_empty(tx)).unwrap());
}

#[test]
fn full_heap_is_emptied_in_steps() {
    for most in [1, 100, u64::MAX] {
        let mut mock = Mock::new(1 << 18);
        let (vec, len) = full_vec(&mut mock);
        let (before, mut steps) = (mock.objects(), 1);
        while !mock.transact(|tx| vec.drop_step(tx, most)).unwrap() {
            steps += 1;
        }
        assert_eq!(steps, len.div_ceil(most));
        assert!(mock.objects() as u64 + len < before as u64);
    }
}

#[test]
fn first_clear_step_empties_the_queue() {
    let mut mock = Mock::new(1 << 20);
    let queue = mock.transact(VecDeque::<str>::create).unwrap();
    mock.transact(|tx| queue.extend(tx, (0..2000).map(|n| n.to_string()))).unwrap();
    assert!(!mock.transact(|tx| queue.clear_step(tx, 10)).unwrap());
    let seen = mock.transact(|tx| {
        Ok((queue.len(tx)?, queue.is_empty(tx)?, queue.get(tx, 0)?, queue.iter(tx).count()))
    });
    assert_eq!(seen.unwrap(), (0, true, None, 0));
    // New elements are there while the old ones are freed, and a later step removes them too.
    mock.transact(|tx| queue.push_front(tx, "new")).unwrap();
    for pending in (0..1990).rev().step_by(199).map(|last| last + 1) {
        let checked = mock.transact(|tx| queue.check(tx)).unwrap();
        assert_eq!((checked.entries, checked.pending, checked.damage), (1, pending, vec![]));
        assert_eq!(mock.transact(|tx| queue.front(tx)).unwrap().as_deref(), Some("new"));
        assert!(!mock.transact(|tx| queue.clear_step(tx, 199)).unwrap());
    }
    assert!(mock.transact(|tx| queue.clear_step(tx, 1)).unwrap());
    assert_eq!((mock.objects(), mock.bytes_live()), (1, 16));
    assert!(mock.transact(|tx| queue.drop_step(tx, 1)).unwrap());
    assert_eq!(mock.objects(), 0);
}
