//! Clearing of hash maps: in a full heap, and in steps.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use collections::HashMap;
use words::mock::Mock;
use words::{Allocate, Stop, Transact};

/// Fills a map until the heap is full, and the rest of the heap with small objects.
fn full_map(mock: &mut Mock) -> (HashMap<str, str>, u64) {
    let map = mock.transact(|tx| HashMap::<str, str>::with_seed(tx, 5)).unwrap();
    let mut pairs = 0;
    while mock.transact(|tx| map.put(tx, pairs.to_string(), "value")).is_ok() {
        pairs += 1;
    }
    for bytes in [1024, 256, 64, 8] {
        while mock.transact(|tx| tx.allocate(bytes)).is_ok() {}
    }
    let refused = mock.transact(|tx| map.put(tx, "new", "value")).unwrap_err();
    assert_eq!(refused.stop, Stop::Full);
    (map, pairs)
}

#[test]
fn full_heap_is_emptied_by_removals() {
    let mut mock = Mock::new(1 << 18);
    let (map, pairs) = full_map(&mut mock);
    assert!(pairs > 1000, "{pairs}");
    for n in 0..pairs {
        let n = n * 7919 % pairs;
        assert!(mock.transact(|tx| map.delete(tx, n.to_string())).unwrap(), "{n} of {pairs}");
    }
    assert!(mock.transact(|tx| map.is_empty(tx)).unwrap());
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!((checked.entries, checked.damage), (0, vec![]));
}

#[test]
fn full_heap_is_emptied_in_steps() {
    for most in [1, 100, u64::MAX] {
        let mut mock = Mock::new(1 << 18);
        let (map, _) = full_map(&mut mock);
        let mut steps = 0;
        while !mock.transact(|tx| map.clear_step(tx, most)).unwrap() {
            steps += 1;
            assert!(steps < 10_000);
        }
        assert!(mock.transact(|tx| map.is_empty(tx)).unwrap());
        let mut mock = Mock::new(1 << 18);
        let (map, _) = full_map(&mut mock);
        let before = mock.objects();
        while !mock.transact(|tx| map.drop_step(tx, most)).unwrap() {}
        assert!(mock.objects() < before / 2);
    }
}

#[test]
fn first_clear_step_empties_the_map() {
    let mut mock = Mock::new(1 << 22);
    let map = mock.transact(|tx| HashMap::<u64, str>::with_seed(tx, 5)).unwrap();
    mock.transact(|tx| map.extend(tx, (0..2000).map(|n| (n, "value")))).unwrap();
    assert!(!mock.transact(|tx| map.clear_step(tx, 10)).unwrap());
    let seen = mock.transact(|tx| {
        Ok((map.len(tx)?, map.is_empty(tx)?, map.get(tx, 1)?, map.iter(tx).count()))
    });
    assert_eq!(seen.unwrap(), (0, true, None, 0));
    // New pairs are there while the old ones are freed, and a later step removes them too.
    mock.transact(|tx| map.put(tx, 7, "new")).unwrap();
    let mut pending = 1990;
    loop {
        let checked = mock.transact(|tx| map.check(tx)).unwrap();
        assert_eq!((checked.entries, checked.damage), (1, vec![]));
        assert_eq!(checked.pending, pending);
        if pending == 0 {
            break;
        }
        assert_eq!(mock.transact(|tx| map.get(tx, 7)).unwrap().as_deref(), Some("new"));
        assert!(!mock.transact(|tx| map.clear_step(tx, 199)).unwrap());
        let after = mock.transact(|tx| map.check(tx)).unwrap().pending;
        // Empty buckets and directories count as pairs.
        assert!(after < pending && pending - after <= 199);
        pending = after;
    }
    while !mock.transact(|tx| map.clear_step(tx, 1000)).unwrap() {}
    assert_eq!((mock.objects(), mock.bytes_live()), (1, 40));
    assert!(mock.transact(|tx| map.drop_step(tx, 1)).unwrap());
    assert_eq!(mock.objects(), 0);
}

#[test]
fn is_empty_reads_few_words() {
    let mut mock = Mock::new(1 << 22);
    let map = mock.transact(|tx| HashMap::<u64, ()>::with_seed(tx, 5)).unwrap();
    for n in 0..3000 {
        assert_eq!(mock.transact(|tx| map.is_empty(tx)).unwrap(), n == 0);
        mock.transact(|tx| map.put(tx, n, ())).unwrap();
    }
    // A conflict at the third access would repeat the transaction.
    let mut runs = 0;
    mock.conflict_after(2);
    mock.transact(|tx| {
        runs += 1;
        map.is_empty(tx)
    })
    .unwrap();
    assert_eq!(runs, 1, "the root and its head");
    mock.take_conflict();
    for n in 0..3000 {
        assert!(!mock.transact(|tx| map.is_empty(tx)).unwrap());
        mock.transact(|tx| map.delete(tx, n)).unwrap();
    }
    assert!(mock.transact(|tx| map.is_empty(tx)).unwrap());
}
