//! Red-black trees and queues, whose nodes and entries are cache lines, under damage and conflicts:
//! operations find the damage without hanging, and a conflict leaves no half-done change.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use collections::raw::{Damage, QUEUE_WORDS, Queue, RbTree, whole};
use words::mock::Mock;
use words::{Addr, Objects, Ptr, Stop, Transact, Words};
use zerocopy::IntoBytes;

/// Offsets of a node's words.
const KEY: u64 = 0;
const LEFT: u64 = 2;
const PARENT: u64 = 4;
const COLOUR: u64 = 5;

fn tree(mock: &mut Mock, keys: u64) -> RbTree {
    mock.transact(|tx| {
        let tree = RbTree::create(tx)?;
        for n in 0..keys {
            tree.insert(tx, 1000 + n * 77 % keys, n)?;
        }
        Ok(tree)
    })
    .unwrap()
}

/// Returns all nodes, the root first.
fn nodes(mock: &mut Mock, tree: RbTree) -> Vec<u64> {
    let anchor = u64::from_le_bytes(tree.as_bytes().try_into().unwrap());
    mock.transact(|tx| {
        let mut found = vec![tx.get(Ptr::<u64>::from_bits(anchor))?];
        let mut next = 0;
        while let Some(&node) = found.get(next) {
            for word in [LEFT, LEFT + 1] {
                let child = tx.read(Addr::new(node, 8 * word))?;
                found.extend((child != 0).then_some(child));
            }
            next += 1;
        }
        Ok(found)
    })
    .unwrap()
}

fn poke(mock: &mut Mock, object: u64, word: u64, value: u64) -> u64 {
    mock.transact(|tx| {
        let at = Addr::new(object, 8 * word);
        let old = tx.read(at)?;
        tx.write(at, value)?;
        Ok(old)
    })
    .unwrap()
}

fn damage_of(mock: &mut Mock, tree: RbTree) -> Vec<Damage> {
    whole(mock, |tx, from| tree.check(tx, from, 7)).unwrap().damage
}

#[test]
fn every_kind_of_rb_tree_damage_is_found() {
    let mut mock = Mock::forgiving(1 << 16);
    let tree = tree(&mut mock, 100);
    assert_eq!(damage_of(&mut mock, tree), []);
    let nodes = nodes(&mut mock, tree);
    assert_eq!(nodes.len(), 100);
    let (root, leaf) = (nodes[0], nodes[99]);
    let red = mock.transact(|tx| tx.read(Addr::new(leaf, 8 * COLOUR))).unwrap();
    type Is = fn(&Damage) -> bool;
    let plants: [(u64, u64, u64, Is); 6] = [
        (leaf, KEY, 7, |d| matches!(d, Damage::Bounds { found: 7, .. })),
        (leaf, PARENT, root, |d| matches!(d, Damage::Parent { .. })),
        (leaf, COLOUR, 2, |d| matches!(d, Damage::Colour { found: 2, .. })),
        (leaf, COLOUR, 1 - red, |d| matches!(d, Damage::Blacks { .. } | Damage::Colour { .. })),
        (root, COLOUR, 1, |d| matches!(d, Damage::Colour { found: 1, .. })),
        (nodes[5], LEFT, 0, |d| matches!(d, Damage::Blacks { .. })),
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
fn damaged_rb_tree_never_hangs_or_panics() {
    let mut random = 88_172_645_463_325_252_u64;
    let mut below = |end: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    };
    let mut refused = 0;
    for _ in 0..150 {
        let mut mock = Mock::forgiving(1 << 16);
        let tree = tree(&mut mock, 60);
        let nodes = nodes(&mut mock, tree);
        for _ in 0..1 + below(3) {
            // Another node, no node, a small number: cycles and wrong sides among them.
            let value = match below(3) {
                0 => nodes[below(60) as usize],
                1 => below(3),
                _ => 1000 + below(60),
            };
            poke(&mut mock, nodes[below(60) as usize], below(6), value);
        }
        for key in 990..1070 {
            let answers = [
                mock.transact(|tx| tree.get(tx, key)).map(drop),
                mock.transact(|tx| tree.ceiling(tx, key)).map(drop),
                mock.transact(|tx| tree.insert(tx, key, 1)).map(drop),
                mock.transact(|tx| tree.remove(tx, key)).map(drop),
            ];
            for checked in answers {
                let stop = checked.err().map(|refused| refused.stop);
                refused += usize::from(stop.is_some());
                assert!(matches!(stop, None | Some(Stop::BadValue | Stop::BadPointer)), "{stop:?}");
            }
        }
        let _ = whole(&mut mock, |tx, from| tree.check(tx, from, 7));
        for _ in 0..100 {
            if !matches!(mock.transact(|tx| tree.free(tx, 5)), Ok(false)) {
                break;
            }
        }
    }
    assert!(refused > 100, "{refused} operations met the damage");
}

#[test]
fn conflicting_rb_tree_change_is_atomic() {
    let (mut conflicts, mut access) = (0, 0);
    let mut mock = Mock::new(1 << 20);
    let tree = tree(&mut mock, 200);
    for n in 0..2000_u64 {
        let key = 1000 + n * 131 % 200;
        mock.conflict_after(access);
        if n % 400 < 200 {
            assert!(mock.transact(|tx| tree.remove(tx, key)).unwrap().is_some());
        } else {
            assert_eq!(mock.transact(|tx| tree.insert(tx, key, n)).unwrap(), None);
        }
        let conflicted = !mock.take_conflict();
        conflicts += usize::from(conflicted);
        access = if conflicted { access + 1 } else { 0 };
        if n % 50 == 0 {
            let checked = whole(&mut mock, |tx, from| tree.check(tx, from, 20)).unwrap();
            assert_eq!(checked.damage, []);
            // Every node is reachable, and the anchor.
            assert_eq!(mock.objects() as u64, checked.entries + 1);
        }
    }
    assert!(conflicts > 1500, "{conflicts}");
}

#[test]
fn queue_damage_is_found_and_refused() {
    let mut mock = Mock::forgiving(1 << 16);
    let queue = mock.transact(|tx| Queue::create(tx, 10)).unwrap();
    assert_eq!(mock.transact(|tx| queue.pop(tx)).unwrap(), None);
    for n in 0..10 {
        assert!(mock.transact(|tx| queue.push(tx, &[n; QUEUE_WORDS])).unwrap());
    }
    assert!(!mock.transact(|tx| queue.push(tx, &[0; QUEUE_WORDS])).unwrap(), "it is full");
    for n in 0..4 {
        assert_eq!(mock.transact(|tx| queue.pop(tx)).unwrap(), Some([n; QUEUE_WORDS]));
    }
    let damage = |mock: &mut Mock| whole(mock, |tx, from| queue.check(tx, from, 3)).unwrap().damage;
    assert_eq!(damage(&mut mock), []);
    let ring = u64::from_le_bytes(queue.as_bytes()[..8].try_into().unwrap());
    let poke_line = |mock: &mut Mock, line: u64, value: u64| {
        poke(mock, ring + line / 4 * words::BLOCK_STRIDE, line % 4 * 8, value)
    };
    // The first entry is in slot 4, after four lines of cursors.
    for (line, value) in [(4, 3), (8, 0), (8, 6)] {
        let old = poke_line(&mut mock, line, value);
        let found = damage(&mut mock);
        assert!(matches!(found[..], [Damage::Slot { .. }]), "{found:?}");
        assert!(found[0].to_string().contains("expected"));
        poke_line(&mut mock, line, old);
    }
    // One cursor beyond the other, or too far before it.
    for (line, value) in [(0, 11), (1, 30)] {
        let old = poke_line(&mut mock, line, value);
        assert!(matches!(damage(&mut mock)[..], [Damage::Span { .. }]));
        assert!(mock.transact(|tx| queue.scan(tx, 0, 100, |_, _| ())).is_err());
        poke_line(&mut mock, line, old);
    }
    poke_line(&mut mock, 8, 77);
    assert_eq!(mock.transact(|tx| queue.pop(tx)).unwrap_err().stop, Stop::BadValue);
    poke_line(&mut mock, 4, 77);
    let refused = mock.transact(|tx| queue.push(tx, &[0; QUEUE_WORDS])).unwrap_err();
    assert_eq!(refused.stop, Stop::BadValue);
    let beyond = Queue::part(collections::raw::Ring::EMPTY, 3, 10);
    assert_eq!(mock.transact(|tx| beyond.pop(tx)).unwrap_err().stop, Stop::BadPointer);
}

#[test]
fn empty_or_full_queue_is_protected() {
    struct Protecting<'a>(&'a mut Mock, Vec<Addr>);
    impl Words for Protecting<'_> {
        fn read(&mut self, at: Addr) -> Result<u64, Stop> {
            self.0.read(at)
        }
        fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
            self.0.write(at, value)
        }
        fn protect(&mut self, at: Addr) -> Result<(), Stop> {
            self.1.push(at);
            Ok(())
        }
        fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
            self.0.retire(at, bytes)
        }
    }
    let mut mock = Mock::new(1 << 16);
    let queue = mock.transact(|tx| Queue::create(tx, 1)).unwrap();
    mock.transact(|tx| {
        let mut tx = Protecting(tx, Vec::new());
        assert_eq!(queue.pop(&mut tx)?, None);
        assert_eq!(tx.1.len(), 1, "empty");
        assert!(queue.push(&mut tx, &[1; QUEUE_WORDS])?);
        assert_eq!(tx.1.len(), 1, "the slot that it relied on is written");
        assert!(!queue.push(&mut tx, &[2; QUEUE_WORDS])?);
        assert_eq!(tx.1.len(), 2, "full");
        Ok(())
    })
    .unwrap();
}
