//! Damaged hash maps: every operation returns a value or a typed `Stop`, and `check` reports it.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use collections::hash_map::{Cursor, Damage};
use collections::{AsKey, AsValue, Counter, HashMap, Key, Value};
use words::mock::Mock;
use words::{Addr, Allocate, Stop, Transact, Words};
use zerocopy::IntoBytes;

/// Words of a directory in front of its slots.
const HEAD_WORDS: u64 = 2;

/// Returns a generator of random numbers below an end (xorshift).
fn random_below() -> impl FnMut(u64) -> u64 {
    let mut random = 88_172_645_463_325_252_u64;
    move |end| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    }
}

fn read(mock: &mut Mock, object: u64, word: u64) -> u64 {
    mock.transact(|tx| tx.read(Addr::new(object, 8 * word))).unwrap()
}

fn poke(mock: &mut Mock, object: u64, word: u64, value: u64) -> u64 {
    let old = read(mock, object, word);
    mock.transact(|tx| tx.write(Addr::new(object, 8 * word), value)).unwrap();
    old
}

fn header_of<K: ?Sized, V: ?Sized>(map: HashMap<K, V>) -> u64 {
    u64::from_ne_bytes(map.as_bytes().try_into().unwrap())
}

/// Returns the objects of a kind: their first word begins with these four letters.
fn objects(mock: &mut Mock, kind: &[u8; 4]) -> Vec<u64> {
    let mark = u64::from(u32::from_be_bytes(*kind));
    let live = mock.live();
    live.into_iter()
        .map(|(object, _)| object)
        .filter(|&at| read(mock, at, 0) >> 32 == mark)
        .collect()
}

fn integers(mock: &mut Mock, pairs: u64) -> HashMap<u64, u64> {
    mock.transact(|tx| {
        let map = HashMap::with_seed(tx, 7)?;
        map.extend(tx, (0..pairs).map(|n| (n, n)))?;
        Ok(map)
    })
    .unwrap()
}

fn strings(mock: &mut Mock, pairs: u64) -> HashMap<str, str> {
    mock.transact(|tx| {
        let map = HashMap::with_seed(tx, 7)?;
        let value = |n| "long".repeat(if n % 20 == 0 { 500 } else { 1 });
        map.extend(tx, (0..pairs).map(|n| (n.to_string(), value(n))))?;
        Ok(map)
    })
    .unwrap()
}

fn damage<K: Key + ?Sized, V: Value + ?Sized>(mock: &mut Mock, map: HashMap<K, V>) -> Vec<Damage> {
    mock.transact(|tx| map.check(tx)).unwrap().damage
}

#[test]
fn every_kind_of_hash_map_damage_is_found() {
    let mut mock = Mock::forgiving(1 << 20);
    let map = strings(&mut mock, 300);
    assert_eq!(damage(&mut mock, map), []);
    let buckets = objects(&mut mock, b"buck");
    let directories = objects(&mut mock, b"dirs");
    assert!(buckets.len() > 40 && directories.len() > 3, "{} {}", buckets.len(), directories.len());
    // A bucket of several pairs: head, 8 hashes, 8 pointers.
    let bucket = *buckets.iter().find(|&&at| read(&mut mock, at, 0) >> 8 & 0xf > 4).unwrap();
    let (head, hash) = (read(&mut mock, bucket, 0), read(&mut mock, bucket, 1));
    let (first, second) = (read(&mut mock, bucket, 9), read(&mut mock, bucket, 10));
    let other = read(&mut mock, *buckets.iter().find(|&&at| at != bucket).unwrap(), 9);
    let entry = |mock: &mut Mock, word| read(mock, first, word);
    let (entry_head, key) = (entry(&mut mock, 0), entry(&mut mock, 1));
    // A slot whose neighbor has the same bucket, so that its group has another one.
    let slots = directories.iter().flat_map(|&at| {
        let slots = 1 << (read(&mut mock, at, 0) >> 8 & 7);
        (HEAD_WORDS..HEAD_WORDS + slots - 1).map(move |slot| (at, slot)).collect::<Vec<_>>()
    });
    let slots: Vec<_> = slots.collect();
    let mut is_shared =
        |&&(at, slot): &&(u64, u64)| read(&mut mock, at, slot) == read(&mut mock, at, slot + 1);
    let &(directory, slot) = slots.iter().find(&mut is_shared).unwrap();

    type Is = fn(&Damage) -> bool;
    let plants: [(u64, u64, u64, Is); 12] = [
        (bucket, 0, head - (1 << 8), |d| matches!(d, Damage::Length { expected: 299, found: 300 })),
        (bucket, 1, !hash, |d| matches!(d, Damage::Stray { .. })),
        (bucket, 1, hash ^ 1, |d| matches!(d, Damage::Hash { .. })),
        (bucket, 9, second, |d| matches!(d, Damage::Duplicate { .. })),
        (bucket, 9, other, |d| matches!(d, Damage::Hash { .. })),
        (bucket, 9, bucket, |d| matches!(d, Damage::Pair { .. })),
        (first, 0, 0, |d| matches!(d, Damage::Pair { .. })),
        (first, 0, entry_head ^ 1, |d| matches!(d, Damage::Hash { .. })),
        (first, 1, key ^ 0x80, |d| matches!(d, Damage::Pair { .. })),
        (first, 1, key ^ 1, |d| matches!(d, Damage::Hash { .. })),
        (header_of(map), 3, 65, |d| matches!(d, Damage::Length { found: 301, .. })),
        (directory, slot, bucket, |d| matches!(d, Damage::Slot { .. })),
    ];
    for (object, word, value, is) in plants {
        let old = poke(&mut mock, object, word, value);
        let found = damage(&mut mock, map);
        assert!(found.iter().any(is), "word {word} = {value:#x}: {found:?}");
        assert!(found[0].to_string().contains("expected"), "{}", found[0]);
        poke(&mut mock, object, word, old);
    }
    assert_eq!(damage(&mut mock, map), []);
}

#[test]
fn nodes_in_wrong_places_are_refused() {
    let mut mock = Mock::forgiving(1 << 22);
    let map = integers(&mut mock, 3000);
    let root = read(&mut mock, header_of(map), 1);
    let directories = objects(&mut mock, b"dirs");
    let buckets = objects(&mut mock, b"buck");
    let child = *directories.iter().find(|&&at| at != root).unwrap();
    let (root_head, child_head) = (read(&mut mock, root, 0), read(&mut mock, child, 0));
    let bucket_head = read(&mut mock, buckets[0], 0);
    let whole = |mock: &mut Mock| mock.transact(|tx| map.check(tx)).unwrap_err().stop;
    for (object, word, value, stop) in [
        (root, HEAD_WORDS, root, Stop::BadValue),  // a cycle
        (child, HEAD_WORDS, root, Stop::BadValue), // a larger cycle
        (child, HEAD_WORDS, child, Stop::BadValue),
        (root, HEAD_WORDS, header_of(map), Stop::BadValue),
        (child, 1, 0, Stop::BadValue), // hashes of another place
        (root, 0, root_head + (1 << 16), Stop::BadValue), // a freed slot in the live trie
        (root, 0, root_head + 1, Stop::BadValue),
        (root, 0, root_head + (1 << 8), Stop::BadValue), // 128 slots
        (child, 0, child_head & !(7 << 8), Stop::BadValue),
        (buckets[0], 0, bucket_head & !0xff, Stop::BadValue), // depth 0 in a directory
        (buckets[0], 0, bucket_head | 7, Stop::BadValue),
        (buckets[0], 0, bucket_head ^ 0xf000, Stop::BadValue),
        (header_of(map), 1, buckets[0], Stop::BadValue),
        (header_of(map), 1, 12345, Stop::BadPointer),
        (header_of(map), 2, buckets[0], Stop::BadValue), // cleared and not
        (header_of(map), 2, 12345, Stop::BadPointer),
        (header_of(map), 4, buckets[0], Stop::BadValue),
    ] {
        let old = poke(&mut mock, object, word, value);
        assert_eq!(whole(&mut mock), stop, "word {word} = {value:#x}");
        poke(&mut mock, object, word, old);
    }
    assert_eq!(damage(&mut mock, map), []);
}

/// Runs every operation on a damaged map, and counts those that were refused and those that were
/// not.
fn use_map<K, V>(
    mock: &mut Mock,
    map: HashMap<K, V>,
    below: &mut impl FnMut(u64) -> u64,
    key: impl Fn(u64) -> K::Owned,
    value: impl Fn(u64) -> V::Owned,
) -> [usize; 2]
where
    K: Key<Owned: AsKey<K>> + ?Sized,
    V: Value<Owned: AsValue<V>> + ?Sized,
{
    let mut counts = [0; 2];
    let mut count = |done: bool| counts[usize::from(done)] += 1;
    for n in 0..60 {
        let number = below(500);
        count(mock.transact(|tx| map.get(tx, key(number))).is_ok());
        count(mock.transact(|tx| map.insert(tx, key(number), value(n))).is_ok());
        count(mock.transact(|tx| map.update(tx, key(number / 2), |_| value(n))).is_ok());
        count(mock.transact(|tx| map.remove(tx, key(number + below(20)))).is_ok());
    }
    count(mock.transact(|tx| map.len(tx)).is_ok());
    let checked = mock.transact(|tx| map.check(tx));
    count(checked.is_ok_and(|checked| checked.damage.is_empty()));
    let mut next = Some(Cursor::START);
    while let Some(from) = next {
        let after = mock.transact(|tx| map.scan(tx, from, 10, |_, _| ()));
        count(after.is_ok());
        next = after.unwrap_or(None);
        assert!(next.is_none_or(|next| next > from));
    }
    count(mock.transact(|tx| Ok(map.iter(tx).take_while(Result::is_ok).count())).is_ok());
    count(mock.transact(|tx| map.retain(tx, |_, _| below(2) == 0)).is_ok());
    for _ in 0..200 {
        match mock.transact(|tx| map.drop_step(tx, 20)) {
            Ok(false) => {}
            Ok(true) | Err(_) => break,
        }
    }
    counts
}

/// Damages a map at random, many times, and uses it.
fn damage_and_use<K, V>(
    make: impl Fn(&mut Mock, u64) -> HashMap<K, V>,
    key: impl Fn(u64) -> K::Owned + Copy,
    value: impl Fn(u64) -> V::Owned + Copy,
) where
    K: Key<Owned: AsKey<K>> + ?Sized,
    V: Value<Owned: AsValue<V>> + ?Sized,
{
    let (mut below, mut counts) = (random_below(), [0; 2]);
    for _ in 0..400 {
        let mut mock = Mock::forgiving(1 << 19);
        let pairs = 5 + below(400);
        let map = make(&mut mock, pairs);
        let live = mock.live();
        // Most often the nodes, of which there are fewer than entries.
        let mut nodes = objects(&mut mock, b"dirs");
        nodes.extend(objects(&mut mock, b"buck"));
        nodes.push(header_of(map));
        for _ in 0..=below(3) {
            let (object, bytes) = live[below(live.len() as u64) as usize];
            let (object, bytes) = match below(4) {
                0 => (object, bytes),
                _ => {
                    let node = nodes[below(nodes.len() as u64) as usize];
                    *live.iter().find(|&&(object, _)| object == node).unwrap()
                }
            };
            let most = [2, 128][below(2) as usize];
            let word = below(bytes.div_ceil(8).min(most));
            let old = read(&mut mock, object, word);
            let value = [
                old ^ 1 << below(64),
                nodes[below(nodes.len() as u64) as usize],
                live[below(live.len() as u64) as usize].0,
                below(u64::MAX),
                old ^ below(0x2_0000),
            ][below(5) as usize];
            poke(&mut mock, object, word, value);
        }
        let [refused, done] = use_map(&mut mock, map, &mut below, key, value);
        counts = [counts[0] + refused, counts[1] + done];
    }
    assert!(counts.iter().all(|&count| count > 1000), "{counts:?}: refused, done");
}

#[test]
fn damaged_map_of_integers_never_hangs_or_panics() {
    damage_and_use(integers, |n| n, |n| n);
}

#[test]
fn damaged_map_of_strings_never_hangs_or_panics() {
    let value = |n: u64| "value".repeat(if n.is_multiple_of(9) { 500 } else { n as usize });
    damage_and_use(strings, |n| n.to_string(), value);
}

#[test]
fn wild_handle_is_refused() {
    use zerocopy::FromBytes;
    let mut mock = Mock::forgiving(1 << 16);
    let other = header_of(integers(&mut mock, 1));
    for header in [0, 1, 8, other + 8, 1 << 63, u64::MAX] {
        let map = HashMap::<u64, u64>::read_from_bytes(&header.to_ne_bytes()).unwrap();
        for key in 0..3 {
            assert!(mock.transact(|tx| map.get(tx, key)).is_err());
            assert!(mock.transact(|tx| map.insert(tx, key, 1)).is_err());
            assert!(mock.transact(|tx| map.remove(tx, key)).is_err());
        }
        assert!(mock.transact(|tx| map.len(tx)).is_err());
        assert!(mock.transact(|tx| map.free(tx)).is_err());
        let counter = Counter::read_from_bytes(&header.to_ne_bytes()).unwrap();
        assert!(mock.transact(|tx| counter.add(tx, 1)).is_err());
        assert!(mock.transact(|tx| counter.get(tx)).is_err());
    }
}

#[test]
fn full_heap_is_refused_and_rolled_back() {
    let mut mock = Mock::new(1 << 14);
    let map = mock.transact(|tx| HashMap::<u64, str>::with_seed(tx, 1)).unwrap();
    let mut pairs = 0;
    let stop = loop {
        match mock.transact(|tx| map.put(tx, pairs, "some text")) {
            Ok(_) => pairs += 1,
            Err(refused) => break refused.stop,
        }
    };
    assert_eq!(stop, Stop::Full);
    assert!(pairs > 100);
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!((checked.entries, checked.damage), (pairs, vec![]));
}

/// Returns the words of a directory of 64 slots in front of these slots.
fn directory_head(level: u64, last: u64) -> [u64; HEAD_WORDS as usize] {
    [u64::from(u32::from_be_bytes(*b"dirs")) << 32 | 6 << 8 | level, last]
}

/// Replaces a map's root by ten levels of so many directories. All slots of a directory lead to the
/// directories of the next level in turn, and at last to the buckets of a map in turn.
fn weave(mock: &mut Mock, pairs: u64, width: usize) -> HashMap<u64, u64> {
    let map = integers(mock, pairs);
    let mut next = objects(mock, b"buck");
    for &bucket in &next {
        let head = read(mock, bucket, 0);
        poke(mock, bucket, 0, head & !0xff | 6);
    }
    for level in (0..10).rev() {
        let width = if level == 0 { 1 } else { width };
        next = (0..width as u64)
            .map(|n| {
                // The first places of this level, so that most other places are wrong.
                let free = u64::MAX.checked_shr(6 * level as u32).unwrap_or(0);
                let shift = 64 - 6 * level as u32;
                let last = if level == 0 { free } else { n << shift | free };
                let slots = (0..64).map(|slot| next[slot % next.len()]);
                let words: Vec<u64> =
                    directory_head(level, last).into_iter().chain(slots).collect();
                mock.transact(|tx| {
                    let object = tx.allocate(8 * words.len())?;
                    tx.write_words(Addr::new(object, 0), &words)?;
                    Ok(object)
                })
                .unwrap()
            })
            .collect();
    }
    poke(mock, header_of(map), 1, next[0]);
    map
}

#[test]
fn woven_directories_end() {
    for (pairs, width) in [(3, 1), (100, 1), (100, 2), (3000, 64)] {
        let mut mock = Mock::forgiving(1 << 22);
        let map = weave(&mut mock, pairs, width);
        let refused = mock.transact(|tx| map.check(tx));
        assert!(!refused.is_ok_and(|checked| checked.damage.is_empty()), "{pairs}, {width}");
        assert!(mock.transact(|tx| map.scan(tx, Cursor::START, u64::MAX, |_, _| ())).is_err());
        assert!(mock.transact(|tx| map.retain(tx, |_, _| true)).is_err());
        let errors = mock.transact(|tx| Ok(map.iter(tx).filter(Result::is_err).count()));
        assert_eq!(errors.unwrap(), 1);
        let mut steps = 0;
        while mock.transact(|tx| map.drop_step(tx, 100)).is_ok_and(|is_done| !is_done) {
            steps += 1;
            assert!(steps < 10_000);
        }
    }
}

#[test]
fn check_stops_at_its_limit_of_findings() {
    let mut mock = Mock::forgiving(1 << 22);
    let map = strings(&mut mock, 3000);
    for bucket in objects(&mut mock, b"buck") {
        let hash = read(&mut mock, bucket, 1);
        poke(&mut mock, bucket, 1, hash ^ 1);
    }
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!(checked.damage.len(), 100);
    assert!(checked.entries < 1500 && checked.next.is_some(), "{}", checked.entries);
}

#[test]
fn iteration_ends_after_a_stop() {
    let mut mock = Mock::forgiving(1 << 20);
    let map = strings(&mut mock, 300);
    let bucket = objects(&mut mock, b"buck")[7];
    let entry = read(&mut mock, bucket, 9);
    poke(&mut mock, entry, 0, 0);
    mock.transact(|tx| {
        let mut pairs = map.iter(tx);
        assert!(pairs.any(|pair| pair.is_err()));
        assert!(pairs.next().is_none() && pairs.next().is_none());
        Ok(())
    })
    .unwrap();
}

#[test]
fn damage_of_a_detached_map_is_found() {
    let mut mock = Mock::forgiving(1 << 20);
    let map = strings(&mut mock, 300);
    assert!(!mock.transact(|tx| map.clear_step(tx, 100)).unwrap());
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!((checked.entries, checked.pending, checked.damage), (0, 200, vec![]));
    let root = read(&mut mock, header_of(map), 2);
    let (head, slot) = (read(&mut mock, root, 0), read(&mut mock, root, HEAD_WORDS));
    assert!(head >> 16 & 0xff > 0, "slots at the end are freed");
    let bucket = *objects(&mut mock, b"buck")
        .iter()
        .find(|&&at| read(&mut mock, at, 0) >> 8 & 0xf > 4)
        .unwrap();
    let (hash, entry) = (read(&mut mock, bucket, 1), read(&mut mock, bucket, 9));
    for (object, word, value) in [(bucket, 1, hash ^ 1), (bucket, 1, !hash), (entry, 0, 0)] {
        let old = poke(&mut mock, object, word, value);
        assert!((1..=2).contains(&damage(&mut mock, map).len()), "word {word}");
        poke(&mut mock, object, word, old);
    }
    for (object, word, value) in
        [(root, HEAD_WORDS, root), (root, 1, 0), (root, 0, head | 0xff << 16)]
    {
        let old = poke(&mut mock, object, word, value);
        assert!(mock.transact(|tx| map.check(tx)).is_err());
        poke(&mut mock, object, word, old);
    }
    assert_eq!(read(&mut mock, root, HEAD_WORDS), slot);
    while !mock.transact(|tx| map.drop_step(tx, 9)).unwrap() {}
    assert_eq!(mock.objects(), 0);
}
