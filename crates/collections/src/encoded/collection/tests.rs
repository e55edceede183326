//! Collections without types against the typed collections that a program made.

use std::fmt::Debug;

use words::mock::Mock;
use words::{Addr, Stop, Transact};

use super::*;
use crate::catalog::{self, Listed, Named, Opened};
use crate::{BTreeMap, BTreeSet, Counter, HashMap, HashSet, Index, IndexedMap, Vec, VecDeque};

type Tx<'t> = <Mock as Transact>::Tx<'t>;

/// Most entries of a walk through a damaged collection.
const WALK_MAX: usize = 10_000;

fn created<C: Named>(mock: &mut Mock, name: &str) -> C {
    match mock.transact(|tx| catalog::open::<C, _>(tx, name)).unwrap() {
        Opened::Created(collection) => collection,
        _ => panic!("it is new"),
    }
}

fn listed(mock: &mut Mock) -> std::vec::Vec<Listed> {
    mock.transact(catalog::collections).unwrap().expect("there is a catalog")
}

fn found(mock: &mut Mock, listed: &Listed) -> EncodedCollection {
    mock.transact(|tx| listed.open(tx)).unwrap().expect("the types are known")
}

fn walk(mock: &mut Mock, collection: &EncodedCollection) -> Result<std::vec::Vec<String>, Stop> {
    let (mut entries, mut shown) = (collection.entries(), std::vec::Vec::new());
    while mock.transact(|tx| entries.next(tx)).map_err(|refused| refused.stop)? {
        let key = entries.key().map(|key| collection.decode_key(key).to_string());
        let value = entries.value().map(|value| collection.decode_value(value).to_string());
        shown.push(format!("{} {}", key.unwrap_or_default(), value.unwrap_or_default()));
        assert!(shown.len() < WALK_MAX, "a walk ends");
    }
    Ok(shown)
}

/// Returns what a check finds, as text.
fn shown<T, D: ToString>(
    done: Result<T, words::mock::Refused>,
    parts: impl Fn(T) -> (u64, u64, std::vec::Vec<D>),
) -> Result<(u64, u64, std::vec::Vec<String>), Stop> {
    let (entries, pending, damage) = parts(done.map_err(|refused| refused.stop)?);
    Ok((entries, pending, damage.iter().map(D::to_string).collect()))
}

struct ByStock;
impl Index<str, u32> for ByStock {
    type Key = u32;
    fn key(_: &String, stock: &u32) -> Option<u32> {
        Some(*stock)
    }
}

#[test]
fn every_kind_is_listed_with_its_entries() {
    let mut mock = Mock::new(1 << 18);
    let ages: BTreeMap<(String, bool), u16> = created(&mut mock, "ages");
    let pages: HashMap<u32, str> = created(&mut mock, "pages");
    let tags: BTreeSet<str> = created(&mut mock, "tags");
    let ids: HashSet<i64> = created(&mut mock, "ids");
    let log: Vec<[u64; 2]> = created(&mut mock, "log");
    let jobs: VecDeque<str> = created(&mut mock, "jobs");
    let sold: Counter = created(&mut mock, "sold");
    let stock: IndexedMap<str, u32, (ByStock,)> = created(&mut mock, "stock");
    mock.transact(|tx| {
        ages.put(tx, ("ann", true), 40)?;
        pages.put(tx, 7, "x".repeat(2000))?;
        tags.insert(tx, "a\nb")?;
        ids.insert(tx, -7)?;
        log.push(tx, [1, 2])?;
        jobs.push_front(tx, "last")?;
        jobs.push_front(tx, "first")?;
        stock.insert(tx, "pears", 5)?;
        sold.add(tx, -3)
    })
    .unwrap();
    let expected = [
        ("ages", "BTreeMap", vec!["(\"ann\", true) 40".to_owned()]),
        ("ids", "HashSet", vec!["-7 ".into()]),
        ("jobs", "VecDeque", vec![" \"first\"".into(), " \"last\"".into()]),
        ("log", "Vec", vec![" [1, 2]".into()]),
        ("pages", "HashMap", vec![format!("7 \"{}\"", "x".repeat(2000))]),
        ("sold", "Counter", vec![]),
        ("stock", "IndexedMap", vec!["\"pears\" 5".into()]),
        ("tags", "BTreeSet", vec!["\"a\\nb\" ".into()]),
    ];
    let all = listed(&mut mock);
    assert_eq!(all.len(), expected.len());
    for (listed, (name, kind, entries)) in all.iter().zip(expected) {
        let collection = found(&mut mock, listed);
        assert_eq!((listed.name(), collection.kind().name()), (name, kind));
        let size = mock.transact(|tx| collection.size(tx)).unwrap();
        match kind {
            "Counter" => assert_eq!(size, Size::Sum(-3)),
            _ => assert_eq!(size, Size::Entries(entries.len() as u64)),
        }
        assert_eq!(walk(&mut mock, &collection).unwrap(), entries, "{name}");
        let checked = mock.transact(|tx| collection.check(tx)).unwrap();
        assert_eq!((checked.entries, checked.damage), (entries.len() as u64, vec![]), "{name}");
    }
    assert_eq!(mock.transact(catalog::check).unwrap().unwrap().entries, 8);
}

#[test]
fn unknown_types_are_listed_and_not_opened() {
    let none = Definitions::default();
    let record = |types: &str, lengths| EncodedCollection::of_record(16, types, lengths, &none);
    for types in [
        "",
        "Tree<u8>",
        "HashMap<u8>",
        "Vec<u8, u8>",
        "IndexedMap<u8, u8>",
        "HashMap<u8, u8",
        "Counter<u8>",
    ] {
        assert!(record(types, (Some(1), Some(1))).is_none(), "{types}");
    }
    assert!(record("HashMap<u64, u8>", (Some(4), Some(1))).is_none(), "a length of another type");
    assert!(record("Vec<Page>", (None, Some(1025))).is_none(), "too long for an element");
    assert!(record("HashMap<Own, Ptr<u8>>", (Some(4), Some(8))).is_some());
}

/// Changes each word of the collection in turn. Compares the check without types with the typed
/// one, and walks.
fn damaged<C: Named + Copy, T: Debug, D: ToString>(
    fill: impl Fn(C, &mut Tx<'_>) -> Result<(), Stop>,
    check: impl Fn(C, &mut Tx<'_>) -> Result<T, Stop>,
    parts: impl Fn(T) -> (u64, u64, std::vec::Vec<D>) + Copy,
) {
    let mut mock = Mock::forgiving(1 << 18);
    let typed: C = created(&mut mock, "one");
    mock.transact(|tx| fill(typed, tx)).unwrap();
    let collection = {
        let listed = listed(&mut mock);
        found(&mut mock, &listed[0])
    };
    let (mut sound, mut unsound) = (0, 0);
    for (object, bytes) in mock.live() {
        for at in (0..bytes).step_by(8) {
            let at = Addr::new(object, at);
            let old = mock.transact(|tx| tx.read(at)).unwrap();
            for new in [0, old ^ 1, old ^ 1 << 9, collection.header(), u64::MAX] {
                mock.transact(|tx| tx.write(at, new)).unwrap();
                let expected = shown(mock.transact(|tx| check(typed, tx)), parts);
                let found = shown(mock.transact(|tx| collection.check(tx)), |found| {
                    (found.entries, found.pending, found.damage)
                });
                assert_eq!(found, expected, "{new:#x} at {at:?}");
                let _ = walk(&mut mock, &collection);
                let is_sound = found.is_ok_and(|(_, _, damage)| damage.is_empty());
                *if is_sound { &mut sound } else { &mut unsound } += 1;
            }
            mock.transact(|tx| tx.write(at, old)).unwrap();
        }
    }
    assert!(sound > 0 && unsound > 100, "{sound} sound, {unsound} unsound");
}

#[test]
fn check_of_damaged_map_is_that_of_its_types() {
    damaged::<HashMap<(bool, String), char>, _, _>(
        |map, tx| (0..20).try_for_each(|n| map.put(tx, (n % 2 > 0, n.to_string()), 'x').map(drop)),
        |map, tx| map.check(tx),
        |found| (found.entries, found.pending, found.damage),
    );
    damaged::<BTreeMap<u32, bool>, _, _>(
        |map, tx| (0..60).try_for_each(|n| map.put(tx, 7 * n, n % 2 > 0).map(drop)),
        |map, tx| map.check(tx),
        |found| (found.entries, found.pending, found.damage),
    );
}

#[test]
fn check_of_damaged_list_is_that_of_its_types() {
    damaged::<VecDeque<str>, _, _>(
        |list, tx| (0..70).try_for_each(|n| list.push_front(tx, n.to_string())),
        |list, tx| list.check(tx),
        |found| (found.entries, found.pending, found.damage),
    );
}
