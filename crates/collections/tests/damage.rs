//! Damaged heaps: every operation returns a value or a typed `Stop`, and validators report it.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::ops::ControlFlow;

use collections::raw::{BTreeMap, ChainedMap, Damage, HashMap, Inserted, whole};
use words::mock::Mock;
use words::{Addr, BLOCK_STRIDE, Stop, Transact};
use zerocopy::IntoBytes;

/// Returns the words of a map's value.
fn words_of(map: &impl CopyBytes) -> Vec<u64> {
    map.bytes().chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

trait CopyBytes {
    fn bytes(&self) -> Vec<u8>;
}
impl<T: IntoBytes + zerocopy::Immutable> CopyBytes for T {
    fn bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

fn tree(mock: &mut Mock, keys: u64) -> BTreeMap {
    mock.transact(|tx| {
        let tree = BTreeMap::create(tx)?;
        for i in 0..keys {
            tree.insert(tx, 1000 + 2 * i, i)?;
        }
        Ok(tree)
    })
    .unwrap()
}

/// Returns all nodes, the root first, each with its level.
fn nodes(mock: &mut Mock, tree: BTreeMap) -> Vec<(u64, u64)> {
    let mut found = vec![(words_of(&tree)[0], u64::MAX)];
    let mut next = 0;
    while next < found.len() {
        let node = found[next].0;
        let words = mock.transact(|tx| read(tx, node)).unwrap();
        let head: Vec<u8> = words[..4].iter().flat_map(|word| word.to_le_bytes()).collect();
        found[next].1 = u64::from(head[1]);
        if head[1] > 0 {
            found.push((words[4], 0));
            for &slot in &head[2..2 + usize::from(head[0])] {
                found.push((words[34 + usize::from(slot)], 0));
            }
        }
        next += 1;
    }
    found
}

fn read(tx: &mut Mock, object: u64) -> Result<Vec<u64>, Stop> {
    use words::Words;
    let mut words = vec![0; 62];
    tx.read_words(Addr::new(object, 0), &mut words)?;
    Ok(words)
}

fn poke(mock: &mut Mock, object: u64, word: u64, value: u64) -> u64 {
    use words::Words;
    mock.transact(|tx| {
        let at = Addr::new(object, 8 * word);
        let old = tx.read(at)?;
        tx.write(at, value)?;
        Ok(old)
    })
    .unwrap()
}

fn damage_of(mock: &mut Mock, tree: BTreeMap) -> Vec<Damage> {
    whole(mock, |tx, from| tree.check(tx, from, 3)).unwrap().damage
}

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

#[test]
fn every_kind_of_tree_damage_is_found() {
    let mut mock = Mock::forgiving(1 << 20);
    let tree = tree(&mut mock, 1500);
    let nodes = nodes(&mut mock, tree);
    assert_eq!(nodes[0].1, 2, "three levels");
    assert_eq!(damage_of(&mut mock, tree), []);
    let leaves: Vec<u64> = nodes.iter().filter(|node| node.1 == 0).map(|node| node.0).collect();
    let inner = nodes[1].0;

    type Is = fn(&Damage) -> bool;
    let leaf = leaves[5];
    let head = mock.transact(|tx| read(tx, leaf)).unwrap()[0];
    let plants: [(u64, u64, u64, Is); 8] = [
        (leaf, 0, head - 11, |d| matches!(d, Damage::Count { least: 9, .. })),
        (leaf, 0, head + (1 << 8), |d| matches!(d, Damage::Level { expected: 0, found: 1, .. })),
        (leaf, 0, head | 0x1f << 16, |d| matches!(d, Damage::Order { found: 31, .. })),
        (leaf, 1, 0, |d| matches!(d, Damage::Order { found: 0, .. })),
        (leaf, 6 + 3, 7, |d| matches!(d, Damage::KeyOrder { found: 7, .. })),
        (leaf, 6, 7, |d| matches!(d, Damage::Bounds { found: 7, .. })),
        (leaf, 4, leaves[7], |d| matches!(d, Damage::Chain { .. })),
        (inner, 6, 1001, |d| matches!(d, Damage::Bounds { high: 1000, .. })),
    ];
    for (object, word, value, is) in plants {
        let old = poke(&mut mock, object, word, value);
        let damage = damage_of(&mut mock, tree);
        assert!(damage.iter().any(is), "word {word} = {value:#x}: {damage:?}");
        assert!(damage[0].to_string().contains("expected"), "{}", damage[0]);
        poke(&mut mock, object, word, old);
    }
    assert_eq!(damage_of(&mut mock, tree), []);
}

#[test]
fn cycles_end_in_a_stop() {
    let mut mock = Mock::forgiving(1 << 20);
    let tree = tree(&mut mock, 1500);
    let nodes = nodes(&mut mock, tree);
    let leaves: Vec<u64> = nodes.iter().filter(|node| node.1 == 0).map(|node| node.0).collect();
    // A child that is its own grandparent.
    let link = poke(&mut mock, nodes[1].0, 4, nodes[0].0);
    let stop = mock.transact(|tx| tree.get(tx, 0)).unwrap_err().stop;
    assert_eq!(stop, Stop::BadValue);
    assert_eq!(mock.transact(|tx| tree.insert(tx, 0, 0)).unwrap_err().stop, Stop::BadValue);
    poke(&mut mock, nodes[1].0, 4, link);
    // A cyclic chain of leaves.
    poke(&mut mock, leaves[9], 4, leaves[3]);
    let stop = mock.transact(|tx| tree.range(tx, .., |_, _| ControlFlow::Continue(())));
    assert_eq!(stop.unwrap_err().stop, Stop::BadValue);
}

#[test]
fn damaged_tree_never_hangs_or_panics() {
    let mut below = random_below();
    let (mut refused, mut succeeded) = (0, 0);
    for round in 0..400 {
        let mut mock = Mock::forgiving(1 << 18);
        let tree = tree(&mut mock, 300 + round);
        let nodes = nodes(&mut mock, tree);
        for _ in 0..=below(3) {
            let node = nodes[below(nodes.len() as u64) as usize].0;
            let other = nodes[below(nodes.len() as u64) as usize].0;
            let word = if below(2) == 0 { below(5) } else { below(62) };
            let value =
                [below(256), other, below(u64::MAX), below(u64::MAX) & 0x1f1f_1f1f_1f1f_021f]
                    [below(4) as usize];
            poke(&mut mock, node, word, value);
        }
        let mut count = |done: bool| if done { succeeded += 1 } else { refused += 1 };
        for _ in 0..100 {
            let key = 1000 + below(700);
            count(mock.transact(|tx| tree.get(tx, key)).is_ok());
            count(mock.transact(|tx| tree.insert(tx, key, 1)).is_ok());
            count(mock.transact(|tx| tree.remove(tx, key + below(20))).is_ok());
        }
        count(mock.transact(|tx| tree.range(tx, .., |_, _| ControlFlow::Continue(()))).is_ok());
        let checked = whole(&mut mock, |tx, from| tree.check(tx, from, 4));
        count(checked.is_ok_and(|checked| checked.damage.is_empty()));
        for _ in 0..200 {
            match mock.transact(|tx| tree.free(tx, 3)) {
                Ok(false) => {}
                Ok(true) | Err(_) => break,
            }
        }
    }
    assert!(refused > 1000 && succeeded > 1000, "{refused} refused, {succeeded} succeeded");
}

fn table(mock: &mut Mock) -> (HashMap, Vec<u64>) {
    let map = mock
        .transact(|tx| {
            let map = HashMap::create(tx, 64)?;
            for key in 0..40 {
                assert_eq!(map.insert(tx, key * key * 1_000_003, key)?, Inserted::New);
            }
            Ok(map)
        })
        .unwrap();
    (map, (0..5).map(|block| words_of(&map)[0] + block * BLOCK_STRIDE).collect())
}

#[test]
fn lost_and_duplicate_hash_map_keys_are_found() {
    let mut mock = Mock::new(1 << 16);
    let (map, blocks) = table(&mut mock);
    let check = |mock: &mut Mock| whole(mock, |tx, from| map.check(tx, from, 7)).unwrap();
    assert_eq!((check(&mut mock).entries, check(&mut mock).damage), (40, vec![]));
    let (mut gaps, mut doubles) = (0, 0);
    for bucket in 0..64 {
        let (block, word) = (blocks[bucket / 16], 2 * (bucket as u64 % 16));
        let old = poke(&mut mock, block, word, 0);
        let damage = check(&mut mock).damage;
        gaps += damage.iter().filter(|d| matches!(d, Damage::Unreachable { .. })).count();
        let after = (bucket + 1) % 64;
        let next = poke(&mut mock, blocks[after / 16], 2 * (after as u64 % 16), old);
        poke(&mut mock, block, word, old);
        if old != 0 {
            let damage = check(&mut mock).damage;
            doubles += damage.iter().filter(|d| matches!(d, Damage::Duplicate { .. })).count();
        }
        poke(&mut mock, blocks[after / 16], 2 * (after as u64 % 16), next);
    }
    assert!(gaps > 5 && doubles >= 39, "{gaps} gaps, {doubles} doubles");
    assert_eq!(check(&mut mock).damage, []);
}

#[test]
fn wild_hash_map_value_is_refused() {
    use zerocopy::FromBytes;
    let mut mock = Mock::forgiving(1 << 16);
    let (map, _) = table(&mut mock);
    let first = words_of(&map)[0];
    for len in [0, 1, 2, 3, 17, 100, 1 << 40, (1 << 60) + 2, (1 << 60) + 1, u64::MAX] {
        for first in [first, 0, 12345] {
            let bytes: Vec<u8> =
                [first, len, 5].into_iter().flat_map(|w: u64| w.to_le_bytes()).collect();
            let wrong = HashMap::read_from_bytes(&bytes).unwrap();
            for key in 0..50 {
                let _ = mock.transact(|tx| wrong.get(tx, key));
                let _ = mock.transact(|tx| wrong.insert(tx, key, 1));
                let _ = mock.transact(|tx| wrong.remove(tx, key));
            }
            let _ = mock.transact(|tx| wrong.check(tx, 0, 100));
        }
    }
    let wrong = HashMap::read_from_bytes(&[0; 24]).unwrap();
    assert_eq!(mock.transact(|tx| wrong.get(tx, 1)).unwrap_err().stop, Stop::BadValue);
}

/// Makes a chained map of long chains; returns also the objects of each chain.
fn chains(mock: &mut Mock) -> (ChainedMap, Vec<Vec<u64>>) {
    let map = mock
        .transact(|tx| {
            let map = ChainedMap::create(tx, 32)?;
            for key in 0..150 {
                map.insert(tx, key * key, key)?;
            }
            Ok(map)
        })
        .unwrap();
    let block = words_of(&map)[0];
    let chains = mock.transact(|tx| (0..32).map(|chain| entries(tx, block, chain)).collect());
    (map, chains.unwrap())
}

fn entries(tx: &mut Mock, block: u64, chain: u64) -> Result<Vec<u64>, Stop> {
    use words::Words;
    let (mut found, mut at) = (Vec::new(), tx.read(Addr::new(block, 8 * chain))?);
    while at != 0 {
        found.push(at);
        at = tx.read(Addr::new(at, 8))?;
    }
    Ok(found)
}

#[test]
fn every_kind_of_chained_map_damage_is_found() {
    let mut mock = Mock::forgiving(1 << 16);
    let (map, chains) = chains(&mut mock);
    let check = |mock: &mut Mock| whole(mock, |tx, from| map.check(tx, from, 7));
    let sound = check(&mut mock).unwrap();
    assert_eq!((sound.entries, sound.damage), (150, vec![]));
    let (a, chain) = chains.iter().enumerate().find(|(_, chain)| chain.len() > 4).unwrap();
    let (b, other) = chains.iter().enumerate().rfind(|(_, chain)| chain.len() > 4).unwrap();
    let block = words_of(&map)[0];

    type Is = fn(&Damage) -> bool;
    let plants: [(u64, u64, u64, Is); 5] = [
        (chain[1], 0, u64::MAX, |d| matches!(d, Damage::KeyOrder { previous: u64::MAX, .. })),
        (chain[1], 0, 1_000_003, |d| matches!(d, Damage::Stray { key: 1_000_003, .. })),
        (chain[3], 1, chain[1], |d| matches!(d, Damage::KeyOrder { .. })),
        (chain[2], 1, chain[2], |d| matches!(d, Damage::KeyOrder { .. })),
        (block, a as u64, other[0], |d| matches!(d, Damage::Stray { .. })),
    ];
    for (object, word, value, is) in plants {
        let old = poke(&mut mock, object, word, value);
        let damage = check(&mut mock).unwrap().damage;
        assert!(damage.iter().any(is), "word {word} = {value:#x}: {damage:?}");
        assert!(damage[0].to_string().contains("expected"), "{}", damage[0]);
        poke(&mut mock, object, word, old);
    }
    let old = poke(&mut mock, block, b as u64, 3 << 40);
    assert_eq!(check(&mut mock).unwrap_err().stop, Stop::BadPointer);
    poke(&mut mock, block, b as u64, old);
    assert_eq!(check(&mut mock).unwrap().damage, []);
}

#[test]
fn damaged_chained_map_never_hangs_or_panics() {
    let mut below = random_below();
    let (mut refused, mut succeeded) = (0, 0);
    for _ in 0..400 {
        let mut mock = Mock::forgiving(1 << 15);
        let (map, chains) = chains(&mut mock);
        let objects: Vec<u64> = chains.into_iter().flatten().collect();
        let mut any = |end| objects[below(end) as usize];
        let (victims, others) = ([any(150), any(150), any(150)], [any(150), any(150), any(150)]);
        for (victim, other) in victims.into_iter().zip(others) {
            let value = [victim, other, below(30_000), below(u64::MAX)][below(4) as usize];
            poke(&mut mock, victim, below(2), value);
        }
        let mut count = |done: bool| if done { succeeded += 1 } else { refused += 1 };
        for _ in 0..100 {
            let key = below(200) * below(200);
            count(mock.transact(|tx| map.get(tx, key)).is_ok());
            count(mock.transact(|tx| map.insert(tx, key, 1)).is_ok());
            count(mock.transact(|tx| map.remove(tx, key)).is_ok());
        }
        count(mock.transact(|tx| map.scan(tx, 0, 32, |_, _| ())).is_ok());
        let checked = whole(&mut mock, |tx, from| map.check(tx, from, 4));
        count(checked.is_ok_and(|checked| checked.damage.is_empty()));
        let mut from = Some(0);
        while let Some(at) = from {
            from = mock.transact(|tx| map.free(tx, at, 3)).unwrap_or(None);
        }
    }
    assert!(refused > 1000 && succeeded > 1000, "{refused} refused, {succeeded} succeeded");
}

#[test]
fn wild_chained_map_value_is_refused() {
    use zerocopy::FromBytes;
    let mut mock = Mock::forgiving(1 << 16);
    let (map, _) = chains(&mut mock);
    let first = words_of(&map)[0];
    for len in [0, 1, 2, 3, 17, 100, 1 << 40, (1 << 60) + 2, 1 << 60, u64::MAX] {
        for first in [first, 0, 12345] {
            let bytes: Vec<u8> =
                [first, len, 5].into_iter().flat_map(|w: u64| w.to_le_bytes()).collect();
            let wrong = ChainedMap::read_from_bytes(&bytes).unwrap();
            for key in 0..50 {
                let _ = mock.transact(|tx| wrong.get(tx, key));
                let _ = mock.transact(|tx| wrong.insert(tx, key, 1));
                let _ = mock.transact(|tx| wrong.remove(tx, key));
            }
            let _ = mock.transact(|tx| wrong.check(tx, 0, 100));
        }
    }
    let wrong = ChainedMap::read_from_bytes(&[0; 24]).unwrap();
    assert_eq!(mock.transact(|tx| wrong.get(tx, 1)).unwrap_err().stop, Stop::BadValue);
}
