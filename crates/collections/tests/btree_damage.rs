//! Ordered maps in damaged heaps: every operation returns a value or a typed `Stop`, and the
//! validator reports the damage.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::ops::ControlFlow;

use collections::btree_map::Damage;
use collections::{AsKey, AsValue, BTreeMap, Key, Value};
use words::mock::{Mock, Refused};
use words::{Addr, Stop, Transact, Words};
use zerocopy::{FromBytes, IntoBytes};

fn random_below(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = 88_172_645_463_325_252_u64 ^ seed << 7;
    move |end| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    }
}

fn poke(mock: &mut Mock, at: Addr, value: u64) -> u64 {
    mock.transact(|tx| {
        let old = tx.read(at)?;
        tx.write(at, value)?;
        Ok(old)
    })
    .unwrap()
}

fn filled<K, V>(
    mock: &mut Mock,
    entries: u64,
    key: &dyn Fn(u64) -> K::Owned,
    value: &dyn Fn(u64) -> V::Owned,
) -> BTreeMap<K, V>
where
    K: Key<Owned: AsKey<K>> + ?Sized,
    V: Value<Owned: AsValue<V>> + ?Sized,
{
    mock.transact(|tx| {
        let map = BTreeMap::create(tx)?;
        for n in 0..entries {
            map.put(tx, key(n * 7919 % entries), value(n))?;
        }
        Ok(map)
    })
    .unwrap()
}

#[test]
fn iterator_gives_the_entries_before_an_error() {
    for wrong in [0, 10, 63, 64, 70, 99] {
        let mut mock = Mock::new(1 << 20);
        let bytes: BTreeMap<u64, [u8]> = mock.transact(BTreeMap::create).unwrap();
        for n in 0..100_u64 {
            let value: &[u8] = if n == wrong { b"\xff" } else { b"text" };
            mock.transact(|tx| bytes.put(tx, n, value)).unwrap();
        }
        let texts = BTreeMap::<u64, str>::read_from_bytes(bytes.as_bytes()).unwrap();
        mock.transact(|tx| {
            let mut pairs = texts.iter(tx);
            for n in 0..wrong {
                assert_eq!(pairs.next(), Some(Ok((n, "text".to_owned()))));
            }
            assert_eq!(pairs.next(), Some(Err(Stop::BadValue)));
            assert_eq!(pairs.next(), None);
            assert_eq!(pairs.next(), None);
            Ok(())
        })
        .unwrap();
    }
}

/// The results of operations.
#[derive(Default)]
struct Tally {
    refused: u64,
    succeeded: u64,
}

impl Tally {
    fn count<R>(&mut self, result: Result<R, Refused>) {
        let Err(Refused { stop }) = result else {
            self.succeeded += 1;
            return;
        };
        let known = [Stop::BadValue, Stop::BadPointer, Stop::BadSize, Stop::BadRange];
        assert!(known.contains(&stop), "{stop}");
        self.refused += 1;
    }
}

/// Does every operation on a map with random words, in many maps.
fn damaged_map_never_hangs<K, V>(
    entries: u64,
    rounds: u64,
    key: &dyn Fn(u64) -> K::Owned,
    value: &dyn Fn(u64) -> V::Owned,
) where
    K: Key<Owned: AsKey<K>> + ?Sized,
    V: Value<Owned: AsValue<V>> + ?Sized,
{
    let (mut tally, mut found) = (Tally::default(), 0);
    for round in 0..rounds {
        let mut below = random_below(round);
        let mut mock = Mock::forgiving(2 << 20);
        let map = filled::<K, V>(&mut mock, entries, key, value);
        damage(&mut mock, &mut below, round % 2 == 0);
        let checked = mock.transact(|tx| map.check(tx));
        found += u64::from(!matches!(checked, Ok(checked) if checked.damage.is_empty()));
        for _ in 0..60 {
            let (n, there) = (below(entries * 2), below(entries));
            tally.count(mock.transact(|tx| map.get(tx, key(n))));
            tally.count(mock.transact(|tx| map.contains_key(tx, key(n))));
            tally.count(mock.transact(|tx| map.insert(tx, key(n), value(n)).map(drop)));
            tally.count(mock.transact(|tx| map.update(tx, key(n), |_| value(n + 1)).map(drop)));
            tally.count(mock.transact(|tx| map.remove(tx, key(there)).map(drop)));
            tally.count(mock.transact(|tx| map.entry(tx, key(n))?.or_insert(value(n)).map(drop)));
            let range = map.range(key(n)..);
            tally.count(mock.transact(|tx| {
                let mut left = 100;
                range.try_for_each(tx, |_, _| {
                    left -= 1;
                    if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
            }));
        }
        whole_operations(&mut mock, map, &mut tally, round % 3 == 0);
        for _ in 0..=entries {
            if !matches!(mock.transact(|tx| map.drop_step(tx, 3)), Ok(false)) {
                break;
            }
        }
    }
    let Tally { refused, succeeded } = tally;
    assert!(refused > rounds && succeeded > rounds, "{refused} refused, {succeeded} succeeded");
    assert!(found * 10 > rounds * 4, "{found} of {rounds} were found");
}

/// Overwrites some words: of nodes only, or of all objects.
fn damage(mock: &mut Mock, below: &mut impl FnMut(u64) -> u64, is_of_nodes: bool) {
    let live = mock.live();
    let nodes: Vec<_> = live.iter().copied().filter(|(_, bytes)| *bytes >= 480).collect();
    for _ in 0..1 + below(4) {
        let among = if is_of_nodes { &nodes } else { &live };
        let (object, bytes) = among[below(among.len() as u64) as usize];
        // The first words, in most cases: they lead to the others.
        let end = bytes.div_ceil(8).min(1 + below(140));
        let at = Addr::new(object, 8 * below(end));
        let old = mock.transact(|tx| tx.read(at)).unwrap();
        let other = live[below(live.len() as u64) as usize].0;
        let node = nodes[below(nodes.len() as u64) as usize].0;
        let bit = 1 << below(64);
        let values = [other, node, old ^ bit, below(300), below(u64::MAX), 0, old + 1];
        poke(mock, at, values[below(7) as usize]);
    }
}

/// Does the operations that visit all entries.
fn whole_operations<K, V>(mock: &mut Mock, map: BTreeMap<K, V>, tally: &mut Tally, retains: bool)
where
    K: Key + ?Sized,
    V: Value + ?Sized,
{
    let mut part = Some(Vec::new());
    while let Some(from) = part {
        let checked = mock.transact(|tx| map.check_step(tx, Some(&from), 5));
        part = checked.ok().and_then(|checked| checked.next);
    }
    tally.count(mock.transact(|tx| map.len(tx)));
    tally.count(mock.transact(|tx| map.range(..).count(tx)));
    tally.count(mock.transact(|tx| map.range(..).rev().for_each(tx, |_, _| ())));
    tally.count(mock.transact(|tx| map.iter(tx).try_for_each(|pair| pair.map(drop))));
    tally.count(mock.transact(|tx| map.pop_first(tx).map(drop)));
    tally.count(mock.transact(|tx| map.pop_last(tx).map(drop)));
    let mut rest = Some(map.range(..));
    while let Some(range) = rest {
        let read = mock.transact(|tx| range.page(tx, 7).map(|(_, rest)| rest));
        rest = read.unwrap_or(None);
    }
    if retains {
        let mut n = 0_u64;
        tally.count(mock.transact(|tx| {
            map.retain(tx, |_, _| {
                n += 1;
                !n.is_multiple_of(5)
            })
        }));
    }
}

#[test]
fn damaged_map_of_numbers_never_hangs_or_panics() {
    damaged_map_never_hangs::<u64, u64>(1500, 200, &|n| n << 20, &|n| n);
}

#[test]
fn damaged_map_of_names_never_hangs_or_panics() {
    damaged_map_never_hangs::<str, [u8; 20]>(900, 200, &|n| format!("user:{n:020}"), &|n| {
        [n as u8; 20]
    });
}

#[test]
fn damaged_map_of_texts_never_hangs_or_panics() {
    let key = |n: u64| format!("{}{n:04}", "\0".repeat(n as usize % 40));
    damaged_map_never_hangs::<str, str>(300, 150, &key, &|n| "text".repeat(n as usize % 500));
}

#[test]
fn damaged_map_of_long_keys_never_hangs_or_panics() {
    let key = |n: u64| [vec![1; [3, 600][n as usize % 2]], n.to_be_bytes().to_vec()].concat();
    damaged_map_never_hangs::<[u8], bool>(400, 200, &key, &|n| n % 2 == 0);
}

/// Returns the root and its first word.
fn root(mock: &mut Mock, map: BTreeMap<str, bool>) -> (u64, u64) {
    let header = u64::from_le_bytes(map.as_bytes().try_into().unwrap());
    mock.transact(|tx| {
        let root = tx.read(Addr::new(header, 0))?;
        Ok((root, tx.read(Addr::new(root, 0))?))
    })
    .unwrap()
}

#[test]
fn every_kind_of_damage_is_found() {
    let mut mock = Mock::forgiving(4 << 20);
    let map = filled::<str, bool>(&mut mock, 500, &|n| format!("user:{n:05}"), &|n| n % 2 == 0);
    let check = |mock: &mut Mock| mock.transact(|tx| map.check(tx)).unwrap().damage;
    assert_eq!(check(&mut mock), []);
    let (root, head) = root(&mut mock, map);
    assert_eq!(head >> 8 & 0xff, 1, "the root is above the leaves");
    let read =
        |mock: &mut Mock, object, word| mock.transact(|tx| tx.read(Addr::new(object, 8 * word)));
    // Slots of the root: 40, so its heads begin after 6 words, and its children after 40 more.
    let slot = |order: u64, position: u64| order >> (8 * position) & 0xff;
    let order = read(&mut mock, root, 1).unwrap();
    let (first, second) = (slot(order, 0), slot(order, 1));
    let child = |slot: u64| 46 + 2 * slot + 1;
    let leaf = read(&mut mock, root, child(second)).unwrap();
    let first_leaf = read(&mut mock, root, child(first)).unwrap();
    let leaf_order = read(&mut mock, leaf, 1).unwrap();
    let leaf_head = read(&mut mock, leaf, 0).unwrap();
    let at = |position| 5 + slot(leaf_order, position);
    let entry = |position| 33 + slot(leaf_order, position);
    let third_entry = read(&mut mock, leaf, entry(2)).unwrap();
    let value = read(&mut mock, third_entry, 2).unwrap();

    type Is = fn(&Damage) -> bool;
    // Fewer slots than a node of full size has, and their complement.
    let few = |head: u64| head & !(0xffff << 16) & !0xff | 12 << 16 | 0xf3 << 24 | 9;
    let plants: [(u64, u64, u64, Is); 14] = [
        (leaf, 0, few(leaf_head), |d| matches!(d, Damage::Node { .. })),
        (root, 0, few(head), |d| matches!(d, Damage::Node { .. })),
        (leaf, 0, leaf_head + (1 << 8), |d| matches!(d, Damage::Node { level: 0, .. })),
        (leaf, 0, leaf_head & !0xff, |d| matches!(d, Damage::Node { .. })),
        (leaf, 0, leaf_head ^ 1 << 60, |d| matches!(d, Damage::Node { .. })),
        (root, 0, head & !0xff | 1, |d| matches!(d, Damage::Node { .. })),
        (leaf, 1, leaf_order | 0xff, |d| matches!(d, Damage::Order { position: 0, .. })),
        (leaf, 1, leaf_order & !0xffff, |d| matches!(d, Damage::Order { .. })),
        (leaf, 0, leaf_head + (30 << 32), |d| matches!(d, Damage::Skip { found: 30.., .. })),
        (leaf, at(3), 7, |d| matches!(d, Damage::Head { position: 3, .. })),
        (leaf, entry(4), third_entry, |d| matches!(d, Damage::KeyOrder { position: 4, .. })),
        (root, child(second), first_leaf, |d| matches!(d, Damage::Bounds { .. })),
        (leaf, entry(1), root, |d| matches!(d, Damage::Entry { position: 1, .. })),
        (third_entry, 2, value | 0x0002_0000, |d| matches!(d, Damage::Entry { position: 2, .. })),
    ];
    for (object, word, value, is) in plants {
        let at = Addr::new(object, 8 * word);
        let old = poke(&mut mock, at, value);
        let damage = check(&mut mock);
        assert!(damage.iter().any(is), "word {word} = {value:#x}: {damage:?}");
        assert!(damage[0].to_string().contains("expected"), "{}", damage[0]);
        poke(&mut mock, at, old);
    }
    let header = u64::from_le_bytes(map.as_bytes().try_into().unwrap());
    let old = poke(&mut mock, Addr::new(header, 16), 7);
    assert!(matches!(check(&mut mock)[..], [Damage::Length { expected: 500, .. }]));
    poke(&mut mock, Addr::new(header, 16), old);
    assert_eq!(check(&mut mock), []);
    let old = poke(&mut mock, Addr::new(leaf, 8 * entry(0)), 3 << 40);
    assert_eq!(mock.transact(|tx| map.check(tx)).unwrap_err().stop, Stop::BadPointer);
    poke(&mut mock, Addr::new(leaf, 8 * entry(0)), old);
}

#[test]
fn leaf_in_many_places_ends_a_scan() {
    let mut mock = Mock::forgiving(4 << 20);
    let map = filled::<str, bool>(&mut mock, 500, &|n| format!("user:{n:05}"), &|_| true);
    let (root, head) = root(&mut mock, map);
    let children: Vec<u64> = (0..head & 0xff).map(|slot| 46 + 2 * slot + 1).collect();
    let leaf = mock.transact(|tx| tx.read(Addr::new(root, 8 * children[3]))).unwrap();
    for &child in &children {
        poke(&mut mock, Addr::new(root, 8 * child), leaf);
    }
    for range in [map.range(..), map.range(..).rev()] {
        let refused = mock.transact(|tx| range.collect(tx)).unwrap_err();
        assert_eq!(refused.stop, Stop::BadValue);
    }
    // A child that is its own parent.
    poke(&mut mock, Addr::new(root, 8 * children[0]), root);
    for key in ["", "user:00300"] {
        let _ = mock.transact(|tx| map.get(tx, key));
    }
    assert_eq!(mock.transact(|tx| map.first(tx)).unwrap_err().stop, Stop::BadValue);
}

#[test]
fn handle_to_something_else_is_refused() {
    let mut mock = Mock::forgiving(1 << 20);
    let map = filled::<str, bool>(&mut mock, 300, &|n| n.to_string(), &|_| true);
    let (root, _) = root(&mut mock, map);
    let handles = mock.live().into_iter().map(|(object, _)| object).chain([0, 12345, u64::MAX]);
    let header = u64::from_le_bytes(map.as_bytes().try_into().unwrap());
    for handle in handles.filter(|&handle| handle != header).collect::<Vec<_>>() {
        use zerocopy::FromBytes;
        let wrong: BTreeMap<str, bool> = BTreeMap::read_from_bytes(&handle.to_le_bytes()).unwrap();
        assert!(mock.transact(|tx| wrong.get(tx, "7")).is_err() || handle == root);
        let _ = mock.transact(|tx| wrong.check(tx));
        let _ = mock.transact(|tx| wrong.len(tx));
    }
}
