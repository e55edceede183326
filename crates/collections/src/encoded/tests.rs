//! Encoded maps against the maps of std, and against the typed maps of the same types.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use words::Transact;
use words::mock::Mock;

use super::*;
use crate::catalog::{self, Opened};
use crate::{HashMap, Named};

/// Makes a map of these types under the name "map", which the catalog may have already.
fn open(mock: &mut Mock, kind: MapKind, key: Encoding, value: Encoding) -> EncodedMap {
    let types = EncodedTypes::new(kind, key, value).unwrap();
    match mock.transact(|tx| catalog::open_encoded(tx, "map", &types)).unwrap() {
        Opened::Found(map) | Opened::Created(map) => map,
        other => panic!("{other:?}"),
    }
}

fn typed<C: Named>(mock: &mut Mock) -> C {
    match mock.transact(|tx| catalog::open::<C, _>(tx, "map")).unwrap() {
        Opened::Found(map) | Opened::Created(map) => map,
        Opened::Other(types) => panic!("{types}"),
        Opened::Converting { .. } => panic!("nothing is converted"),
        Opened::OwnRoot => panic!("a catalog has the root"),
    }
}

fn encoding(name: &str, length: usize) -> Encoding {
    Encoding::new(name, Some(length)).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Put(u8, usize),
    Insert(u8),
    Delete(u8),
    Seek(u8),
    Next,
    Prev,
    Start,
    End,
    /// A further transaction.
    Forget,
    Clear,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (any::<u8>(), 0..9_usize).prop_map(|(key, length)| Act::Put(key, length * length)),
        2 => any::<u8>().prop_map(Act::Insert),
        3 => any::<u8>().prop_map(Act::Delete),
        2 => any::<u8>().prop_map(Act::Seek),
        16 => Just(Act::Next),
        6 => Just(Act::Prev),
        1 => Just(Act::Start),
        1 => Just(Act::End),
        2 => Just(Act::Forget),
        1 => Just(Act::Clear),
    ]
}

/// A map and a cursor, beside std's map and the cursor's position in it.
struct Model {
    mock: Mock,
    map: EncodedMap,
    cursor: Cursor,
    expected: BTreeMap<Vec<u8>, Vec<u8>>,
    /// `None` before the first pair, `Err` behind the last.
    at: Result<Option<Vec<u8>>, ()>,
}

impl Model {
    fn change(&mut self, act: Act, key: impl Fn(u8) -> Vec<u8>) {
        let (mock, map, cursor) = (&mut self.mock, self.map, &mut self.cursor);
        match act {
            Act::Put(number, length) => {
                let (key, value) = (key(number), vec![number; length]);
                let is_new = mock.transact(|tx| map.put(tx, &key, &value)).unwrap();
                assert_eq!(is_new, self.expected.insert(key, value).is_none());
            }
            Act::Insert(number) => {
                let (key, value) = (key(number), vec![!number]);
                let is_new = mock.transact(|tx| map.insert_new(tx, &key, &value)).unwrap();
                assert_eq!(is_new, !self.expected.contains_key(&key));
                self.expected.entry(key).or_insert(value);
            }
            Act::Delete(number) => {
                let key = key(number);
                let was_there = mock.transact(|tx| map.delete(tx, &key)).unwrap();
                assert_eq!(was_there, self.expected.remove(&key).is_some());
            }
            Act::Clear => {
                while !mock.transact(|tx| map.clear_step(tx, 7)).unwrap() {}
                self.expected.clear();
            }
            _ => {}
        }
        cursor.forget();
        assert_eq!(mock.transact(|tx| map.len(tx)).unwrap(), self.expected.len() as u64);
    }

    fn step(&mut self, act: Act, key: impl Fn(u8) -> Vec<u8>) {
        let (mock, cursor, all) = (&mut self.mock, &mut self.cursor, &self.expected);
        let above = |low: Bound| all.range::<[u8], _>((low, Bound::Unbounded)).next();
        let below = |high: Bound| all.range::<[u8], _>((Bound::Unbounded, high)).next_back();
        let found = match (act, &self.at) {
            (Act::Seek(number), _) => above(Bound::Included(&key(number))),
            (Act::Next, Ok(None)) => above(Bound::Unbounded),
            (Act::Next, Ok(Some(at))) => above(Bound::Excluded(at)),
            (Act::Prev, Ok(Some(at))) => below(Bound::Excluded(at)),
            (Act::Prev, Err(())) => below(Bound::Unbounded),
            (Act::Next, Err(())) | (Act::Prev, Ok(None)) => None,
            _ => return self.change(act, key),
        };
        let found = found.map(|(key, value)| (key.clone(), value.clone()));
        let moved = match act {
            Act::Prev => mock.transact(|tx| cursor.prev(tx)),
            Act::Seek(number) => mock.transact(|tx| cursor.seek(tx, &key(number))),
            _ => mock.transact(|tx| cursor.next(tx)),
        };
        assert_eq!(moved.unwrap(), found.is_some());
        let pair = cursor.pair().map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(pair, found);
        self.at = match (found, act) {
            (Some((key, _)), _) => Ok(Some(key)),
            (None, Act::Prev) => Ok(None),
            (None, _) => Err(()),
        };
    }
}

type Bound<'a> = std::ops::Bound<&'a [u8]>;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn ordered_map_and_cursor_agree_with_std(acts in vec(act(), 0..200), short in any::<bool>()) {
        let mut mock = Mock::new(1 << 18);
        let key = if short { encoding("u16", 2) } else { Encoding::bytes() };
        let map = open(&mut mock, MapKind::Ordered, key, Encoding::bytes());
        let (cursor, expected) = (Cursor::new(map), BTreeMap::new());
        let mut model = Model { mock, map, cursor, expected, at: Ok(None) };
        for act in acts {
            match act {
                Act::Start => {
                    model.cursor.to_start();
                    model.at = Ok(None);
                }
                Act::End => {
                    model.cursor.to_end();
                    model.at = Err(());
                }
                act => model.step(act, |number| match short {
                    true => vec![number % 3, number],
                    false => vec![number; usize::from(number % 5)],
                }),
            }
        }
    }

    #[test]
    fn hash_cursor_returns_each_pair_once(
        keys in vec(any::<u16>(), 0..400), removed in any::<u16>(), entries in any::<bool>(),
    ) {
        let mut mock = Mock::new(1 << 20);
        let value = if entries { Encoding::bytes() } else { encoding("u8", 1) };
        let map = open(&mut mock, MapKind::Hash, encoding("u16", 2), value);
        let mut expected = BTreeMap::new();
        for key in keys {
            mock.transact(|tx| map.put(tx, &key.to_be_bytes(), &[key as u8])).unwrap();
            expected.insert(key, key as u8);
        }
        // The current pair is removed sometimes, and the pairs ahead are read again.
        let (mut cursor, mut found) = (Cursor::new(map), BTreeMap::new());
        while mock.transact(|tx| cursor.next(tx)).unwrap() {
            let (key, value) = cursor.pair().unwrap();
            let (key, value) = (u16::from_be_bytes(key.try_into().unwrap()), value[0]);
            prop_assert_eq!(found.insert(key, value), None);
            if (key ^ removed).is_multiple_of(3) {
                mock.transact(|tx| map.delete(tx, &key.to_be_bytes())).unwrap();
                cursor.forget();
            }
        }
        prop_assert_eq!(cursor.pair(), None);
        prop_assert_eq!(&found, &expected);
        for (key, value) in expected {
            let kept = !(key ^ removed).is_multiple_of(3);
            let key = key.to_be_bytes();
            prop_assert_eq!(mock.transact(|tx| cursor.seek(tx, &key)).unwrap(), kept);
            let value = [value];
            prop_assert_eq!(cursor.pair(), kept.then_some((&key[..], &value[..])));
            prop_assert_eq!(mock.transact(|tx| map.contains_key(tx, &key)).unwrap(), kept);
        }
    }
}

/// Compares a typed map with the encoded one under the same name.
fn shares_with_typed_map<C: Named>(
    kind: MapKind,
    [key, value]: [Encoding; 2],
    put: impl Fn(C, &mut Mock, u32) -> Result<bool, Stop>,
    pair: impl Fn(u32) -> (Vec<u8>, Vec<u8>),
) {
    let mut mock = Mock::new(1 << 18);
    let map: C = typed(&mut mock);
    for number in 0..300 {
        mock.transact(|tx| put(map, tx, number)).unwrap();
    }
    let encoded = open(&mut mock, kind, key, value);
    assert_eq!(EncodedMap::from_words(encoded.to_words()), Some(encoded));
    for number in 0..300 {
        let (key, value) = pair(number);
        let found = mock.transact(|tx| encoded.get_with(tx, &key, <[u8]>::to_vec)).unwrap();
        assert_eq!(found, Some(value.clone()));
        assert!(!mock.transact(|tx| encoded.put(tx, &key, &value)).unwrap());
        assert!(!mock.transact(|tx| encoded.insert_new(tx, &key, &value)).unwrap());
        assert!(mock.transact(|tx| encoded.delete(tx, &key)).unwrap());
        assert!(mock.transact(|tx| encoded.insert_new(tx, &key, &value)).unwrap());
        assert!(mock.transact(|tx| encoded.delete(tx, &key)).unwrap());
        assert!(mock.transact(|tx| put(map, tx, number)).unwrap(), "it was removed");
    }
}

#[test]
fn map_of_rust_is_the_same_encoded_map() {
    let text = || Encoding::new("str", None).unwrap();
    let number = |number: u32| number.to_ne_bytes().to_vec();
    shares_with_typed_map(
        MapKind::Ordered,
        [text(), encoding("u32", 4)],
        |map: crate::BTreeMap<str, u32>, tx, n| map.put(tx, n.to_string(), n),
        |n| (n.to_string().into_bytes(), number(n)),
    );
    shares_with_typed_map(
        MapKind::Hash,
        [encoding("i32", 4), encoding("u32", 4)],
        |map: HashMap<i32, u32>, tx, n| map.put(tx, -(n as i32), n),
        |n| ((-(n as i32) ^ i32::MIN).to_be_bytes().to_vec(), number(n)),
    );
    shares_with_typed_map(
        MapKind::Ordered,
        [encoding("(u8, u32)", 5), text()],
        |map: crate::BTreeMap<(u8, u32), str>, tx, n| map.put(tx, (3, n), "x".repeat(n as usize)),
        |n| ([&[3][..], &n.to_be_bytes()].concat(), vec![b'x'; n as usize]),
    );
    shares_with_typed_map(
        MapKind::Hash,
        [text(), Encoding::bytes()],
        |map: HashMap<str, [u8]>, tx, n| map.put(tx, n.to_string(), [n as u8; 40]),
        |n| (n.to_string().into_bytes(), vec![n as u8; 40]),
    );
}

#[test]
fn other_types_and_bytes_are_refused() {
    let mut mock = Mock::new(1 << 16);
    let map = open(&mut mock, MapKind::Hash, encoding("u16", 2), encoding("bool", 1));
    let types = EncodedTypes::new(MapKind::Hash, encoding("u16", 2), Encoding::bytes()).unwrap();
    let other = mock.transact(|tx| catalog::open_encoded(tx, "map", &types)).unwrap();
    let Opened::Other(stored) = other else { panic!("{other:?}") };
    assert_eq!(stored.to_string(), "HashMap<u16, bool> (keys of 2, values of 1 bytes)");
    let missing = mock.transact(|tx| catalog::find_encoded(tx, "other", &types)).unwrap();
    assert_eq!(missing, None);
    let refused = |done: Result<bool, words::mock::Refused>| done.unwrap_err().stop;
    assert_eq!(refused(mock.transact(|tx| map.put(tx, &[1], &[1]))), Stop::BadValue);
    assert_eq!(refused(mock.transact(|tx| map.put(tx, &[1, 2], &[2]))), Stop::BadValue);
    assert_eq!(refused(mock.transact(|tx| map.contains_key(tx, b""))), Stop::BadValue);
    assert_eq!(refused(mock.transact(|tx| map.delete(tx, &[0; 9]))), Stop::BadValue);
    assert_eq!(mock.transact(|tx| map.len(tx)).unwrap(), 0);
    assert_eq!(EncodedMap::from_words([8, u64::MAX, 0]), None);
}
