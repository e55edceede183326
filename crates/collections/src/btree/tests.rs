//! The shape of trees, and the words that operations write.

use std::collections::BTreeSet;

use words::mock::Mock;
use words::{Addr, Transact};

use super::node::{Node, SLOTS_LEAST};
use super::separator::child;
use super::*;

const NUMBERS: Form = Form::of::<u64, u64>();
const STRINGS: Form = Form::of::<[u8], [u8]>();

/// The numbers of a tree's parts.
#[derive(Debug, Default)]
struct Shape {
    levels: usize,
    leaves: usize,
    entries: usize,
    /// Separators with an object, and all.
    objects: usize,
    separators: usize,
    /// The numbers of bytes that leaves and inner nodes skip.
    skips: [BTreeSet<usize>; 2],
    /// Leaves with one entry.
    single: usize,
}

fn shape(mock: &mut Mock, tree: Tree) -> Shape {
    let mut shape = Shape::default();
    mock.transact(|tx| {
        shape = Shape::default();
        let root = tree.root(tx)?.unwrap();
        shape.levels = root.level() + 1;
        visit(tx, tree, root, &mut shape)
    })
    .unwrap();
    shape
}

fn visit(tx: &mut Mock, tree: Tree, node: Node, shape: &mut Shape) -> Result<(), Stop> {
    shape.skips[node.level().min(1)].insert(node.skip());
    if node.level() == 0 {
        shape.leaves += 1;
        shape.entries += node.count();
        shape.single += usize::from(node.count() == 1);
        return Ok(());
    }
    for item in node.items(tx)? {
        shape.separators += 1;
        shape.objects += usize::from(!tree.form.is_exact() && item.rest[0] != 0);
        let below = Node::open(tx, tree.form, child(tree.form, &item), node.level() - 1)?;
        visit(tx, tree, below, shape)?;
    }
    Ok(())
}

fn create(mock: &mut Mock, form: Form) -> Tree {
    Tree::at(mock.transact(Tree::create).unwrap(), form)
}

fn put(mock: &mut Mock, tree: Tree, key: &[u8], value: &[u8]) {
    mock.transact(|tx| {
        let spot = tree.spot(tx, key)?;
        tree.put(tx, spot, key, value)
    })
    .unwrap();
}

fn remove(mock: &mut Mock, tree: Tree, key: &[u8]) {
    assert_eq!(mock.transact(|tx| tree.remove(tx, key, |_| Ok(()))).unwrap(), Some(()));
}

/// The n-th number in a random order.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn check(mock: &mut Mock, tree: Tree) {
    let checked = mock.transact(|tx| tree.check_whole(tx, &|_, _| true)).unwrap();
    assert_eq!(checked.damage, []);
}

#[test]
fn first_leaf_grows_from_one_small_object() {
    let mut mock = Mock::new(1 << 16);
    let tree = create(&mut mock, NUMBERS);
    assert_eq!((mock.objects(), mock.bytes_live()), (1, 32));
    let mut sizes = BTreeSet::new();
    for n in 0..28_u64 {
        put(&mut mock, tree, &scattered(n).to_be_bytes(), &[0; 8]);
        assert_eq!(mock.objects(), 2);
        sizes.insert(mock.bytes_live() - 32);
    }
    assert_eq!(Vec::from_iter(sizes), [112, 216, 488]);
    assert_eq!(SLOTS_LEAST, 6);
}

#[test]
fn ascending_and_descending_keys_fill_leaves() {
    for is_descending in [false, true] {
        let mut mock = Mock::new(1 << 22);
        let (numbers, strings) = (create(&mut mock, NUMBERS), create(&mut mock, STRINGS));
        for n in 0..5000_u64 {
            let n = if is_descending { 5000 - n } else { n };
            put(&mut mock, numbers, &n.to_be_bytes(), &[0; 8]);
            put(&mut mock, strings, format!("{n:020}").as_bytes(), &[0; 8]);
        }
        for tree in [numbers, strings] {
            check(&mut mock, tree);
            let shape = shape(&mut mock, tree);
            assert_eq!(shape.leaves, 5000_usize.div_ceil(28), "{shape:?}");
        }
    }
}

#[test]
fn scattered_keys_fill_most_of_a_leaf() {
    let mut mock = Mock::new(1 << 24);
    let tree = create(&mut mock, NUMBERS);
    for n in 0..30_000 {
        put(&mut mock, tree, &scattered(n).to_be_bytes(), &[0; 8]);
    }
    let full = shape(&mut mock, tree);
    assert_eq!((full.levels, full.entries), (4, 30_000));
    assert!(full.leaves * 28 * 6 < 30_000 * 10, "60 % and more: {full:?}");
    for n in 3000..30_000 {
        remove(&mut mock, tree, &scattered(n).to_be_bytes());
    }
    check(&mut mock, tree);
    let thin = shape(&mut mock, tree);
    assert!(thin.leaves * 28 < 3000 * 4, "a quarter and more: {thin:?}");
    assert_eq!(mock.transact(|tx| tree.len(tx)).unwrap(), 3000);
}

#[test]
fn nodes_skip_the_bytes_that_their_keys_share() {
    let mut mock = Mock::new(1 << 26);
    let tree = create(&mut mock, STRINGS);
    let key = |n: u64| format!("a start that all keys share:{:08}", scattered(n) % 100_000_000);
    for n in 0..20_000 {
        put(&mut mock, tree, key(n).as_bytes(), b"");
    }
    check(&mut mock, tree);
    let full = shape(&mut mock, tree);
    assert!(full.levels >= 3, "{full:?}");
    assert!(full.skips[0].iter().any(|&skip| skip >= 28), "{full:?}");
    assert!(full.skips[1].iter().any(|&skip| skip >= 28), "{full:?}");
    // Only nodes at the ends of the tree skip nothing and need objects.
    assert!(full.objects * 10 < full.separators, "{full:?}");
    // Keys that share less come between: nodes are joined that skip different numbers of bytes.
    for n in 0..19_900 {
        if n % 5 == 0 {
            put(&mut mock, tree, &scattered(n).to_be_bytes(), b"");
        }
        remove(&mut mock, tree, key(n).as_bytes());
    }
    check(&mut mock, tree);
    let thin = shape(&mut mock, tree);
    assert!(thin.entries > 4000 && thin.leaves * 28 < thin.entries * 5, "{thin:?}");
}

#[test]
fn separator_objects_are_freed_with_their_nodes() {
    let mut mock = Mock::new(1 << 26);
    let tree = create(&mut mock, STRINGS);
    // Keys of zeros: hardly any separator is inline.
    let key = |n: u64| [vec![0; 1 + n as usize % 300], n.to_be_bytes().to_vec()].concat();
    for n in 0..6000 {
        put(&mut mock, tree, &key(scattered(n) % 100_000), b"");
    }
    check(&mut mock, tree);
    let full = shape(&mut mock, tree);
    assert!(full.levels >= 3 && full.objects > 200, "{full:?}");
    let cleared = create(&mut mock, STRINGS);
    let objects = mock.objects();
    for n in 0..3000 {
        put(&mut mock, cleared, &key(n), b"");
    }
    while !mock.transact(|tx| cleared.clear(tx, 7)).unwrap() {}
    assert_eq!(mock.objects(), objects);
    while !mock.transact(|tx| cleared.free(tx, 7)).unwrap() {}
    for n in 0..6000 {
        let _ = mock.transact(|tx| tree.remove(tx, &key(scattered(n) % 100_000), |_| Ok(())));
        if n % 500 == 0 {
            check(&mut mock, tree);
        }
    }
    assert_eq!(mock.objects(), 2, "the header and a leaf");
}

#[test]
fn tree_that_is_being_freed_is_checked() {
    let mut mock = Mock::new(1 << 24);
    let tree = create(&mut mock, STRINGS);
    for n in 0..3000_u64 {
        put(&mut mock, tree, format!("user:{n:08}").as_bytes(), b"");
    }
    assert!(!mock.transact(|tx| tree.clear(tx, 1)).unwrap());
    let mut pending = 2999;
    while pending > 0 {
        let checked = mock.transact(|tx| tree.check_whole(tx, &|_, _| true)).unwrap();
        assert_eq!((checked.entries, checked.pending), (0, pending));
        assert_eq!(checked.damage, []);
        pending = pending.saturating_sub(7);
        assert_eq!(mock.transact(|tx| tree.clear(tx, 7)).unwrap(), pending == 0);
    }
    check(&mut mock, tree);
}

#[test]
fn damage_in_a_tree_that_is_being_freed_is_found() {
    let mut mock = Mock::new(1 << 24);
    let tree = create(&mut mock, STRINGS);
    for n in 0..3000_u64 {
        put(&mut mock, tree, format!("user:{n:08}").as_bytes(), b"");
    }
    assert!(!mock.transact(|tx| tree.clear(tx, 100)).unwrap());
    put(&mut mock, tree, b"another", b"");
    check(&mut mock, tree);
    let checked = mock.transact(|tx| {
        let mut object = tx.read(tree.header_at(CLEARED))?;
        let mut node = Node::open_root(tx, STRINGS, object)?;
        while node.level() > 0 {
            object = child(STRINGS, &node.item(tx, 1.min(node.count() - 1))?);
            node = Node::open(tx, STRINGS, object, node.level() - 1)?;
        }
        // The head of an entry.
        let entry = node.item(tx, 3)?.rest[0];
        tx.write(Addr::new(entry, 0), 7)?;
        let checked = tree.check_whole(tx, &|_, _| true)?;
        let root = tx.read(tree.header_at(CLEARED))?;
        tx.write(Addr::new(root, 0), 0)?;
        let of_root = tree.check_whole(tx, &|_, _| true)?;
        assert_eq!(of_root.damage, [Damage::Node { node: root, level: 0 }]);
        assert_eq!(checked.damage, [Damage::Entry { node: object, position: 3 }]);
        Ok(checked)
    });
    assert_eq!(checked.unwrap().entries, 1);
}

#[test]
fn operations_write_few_words() {
    let mut mock = Mock::new(1 << 26);
    let (numbers, strings) = (create(&mut mock, NUMBERS), create(&mut mock, STRINGS));
    let (mut most, mut sum) = ([0; 2], [0; 2]);
    for n in 0..20_000 {
        put(&mut mock, numbers, &scattered(n).to_be_bytes(), &[0; 8]);
        most[0] = most[0].max(mock.words_written());
        sum[0] += mock.words_written();
        put(&mut mock, strings, format!("user:{:019}", scattered(n)).as_bytes(), &[7; 100]);
        most[1] = most[1].max(mock.words_written());
        sum[1] += mock.words_written();
    }
    // The mock counts each word of a new object twice: it fills the object with a pattern first.
    let entry = 2 * (8 + 24 + 100_usize).div_ceil(8);
    assert!(sum[0] / 20_000 <= 15, "numbers: mean {}", sum[0] / 20_000);
    assert!(sum[1] / 20_000 <= 16 + entry, "strings: mean {}", sum[1] / 20_000);
    assert!(most[0] < 4 * 126 + 9 * 130, "numbers: {}", most[0]);
    assert!(most[1] < 8 * 126 + 9 * 130, "strings: {}", most[1]);
    for n in 0..20_000 {
        put(&mut mock, numbers, &scattered(n).to_be_bytes(), &[1; 8]);
        assert_eq!(mock.words_written(), 1);
        put(&mut mock, strings, format!("user:{:019}", scattered(n)).as_bytes(), &[8; 100]);
        assert_eq!(mock.words_written(), 13, "the value, which begins at a word");
    }
    let mut sum = 0;
    for n in 0..20_000 {
        remove(&mut mock, numbers, &scattered(n).to_be_bytes());
        sum += mock.words_written();
        assert!(mock.words_written() < 600, "{}", mock.words_written());
    }
    assert!(sum / 20_000 <= 9, "removal: mean {}", sum / 20_000);
}

#[test]
fn length_moves_between_leaf_header_and_stripes() {
    let mut mock = Mock::new(1 << 22);
    let tree = create(&mut mock, NUMBERS);
    let length = |mock: &mut Mock| {
        let words = mock.transact(|tx| {
            let mut words = [0; 2];
            tx.read_words(Addr::new(tree.header, LENGTH), &mut words)?;
            Ok(words)
        });
        words.unwrap()
    };
    for n in 0..28_u64 {
        put(&mut mock, tree, &n.to_be_bytes(), &[0; 8]);
        assert_eq!(length(&mut mock), [0, 0]);
    }
    put(&mut mock, tree, &28_u64.to_be_bytes(), &[0; 8]);
    assert_eq!(length(&mut mock), [29, 0]);
    for n in 29..400_u64 {
        put(&mut mock, tree, &n.to_be_bytes(), &[0; 8]);
    }
    assert_ne!(length(&mut mock)[1], 0, "no longer in the header");
    assert_eq!(mock.transact(|tx| tree.len(tx)).unwrap(), 400);
    for n in 0..390_u64 {
        remove(&mut mock, tree, &n.to_be_bytes());
        assert_eq!(mock.transact(|tx| tree.len(tx)).unwrap(), 399 - n);
    }
    assert_eq!(length(&mut mock), [0, 0]);
    assert_eq!(mock.objects(), 2);
}

#[test]
fn node_of_wrong_size_is_refused() {
    let mut mock = Mock::new(1 << 20);
    for (entries, level, sizes) in [(10_u64, 0, 6..=28), (100, 1, 28..=28)] {
        let tree = create(&mut mock, NUMBERS);
        for n in 0..entries {
            put(&mut mock, tree, &n.to_be_bytes(), &[0; 8]);
        }
        mock.transact(|tx| {
            let root = tree.root(tx)?.unwrap();
            assert_eq!(root.level(), level);
            let at = Addr::new(root.object, 0);
            let sound = tx.read(at)?;
            for slots in 0..=255 {
                let word = sound & !0xffff_00ff | slots << 16 | (slots ^ 0xff) << 24;
                tx.write(at, word)?;
                let is_opened = Node::open_root(tx, NUMBERS, root.object).is_ok();
                assert_eq!(is_opened, sizes.contains(&slots), "{slots} slots");
                tx.write(at, word ^ 1 << 16)?;
                assert!(Node::open_root(tx, NUMBERS, root.object).is_err());
            }
            tx.write(at, sound)
        })
        .unwrap();
    }
}
