//! Types with `#[derive(lastword::Key)]`: their bytes are ordered as their values, and damage is
//! found.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;

use lastword::prelude::*;
use lastword::{AsKey, Error, KeyBuf, NamedError};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest,
};

use crate::names::EMULATED;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct City {
    country: String,
    name: String,
    size: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct Id(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
struct Nothing;

/// Its variants are ordered by their discriminants, which descend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
#[repr(i16)]
enum Level {
    High = 300,
    Low = -7,
    Lower,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
enum Event {
    None,
    At { level: Level, city: City },
    Text(Vec<u8>, bool),
    Id(Id),
    Nothing(Nothing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
enum Equal {
    Number(u32),
    Bytes { bytes: [u8; 4] },
}

fn text() -> impl Strategy<Value = String> {
    // Bytes that are escaped, and prefixes of one another.
    "[\u{0}\u{1}\u{2}a\u{7f}\u{80}]{0,4}"
}

fn city() -> impl Strategy<Value = City> {
    let size = proptest::option::of(prop_oneof![Just(i32::MIN), -2..2, any::<i32>()]);
    (text(), text(), size).prop_map(|(country, name, size)| City { country, name, size })
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::High), Just(Level::Low), Just(Level::Lower)]
}

fn event() -> impl Strategy<Value = Event> {
    let bytes = proptest::collection::vec(0_u8..4, 0..4);
    prop_oneof![
        Just(Event::None),
        (level(), city()).prop_map(|(level, city)| Event::At { level, city }),
        (bytes, any::<bool>()).prop_map(|(bytes, more)| Event::Text(bytes, more)),
        (0_u64..3).prop_map(|id| Event::Id(Id(id))),
        Just(Event::Nothing(Nothing)),
    ]
}

fn equal() -> impl Strategy<Value = Equal> {
    let number = prop_oneof![Just(u32::MAX), 0_u32..3];
    prop_oneof![
        number.prop_map(Equal::Number),
        any::<[u8; 4]>().prop_map(|bytes| Equal::Bytes { bytes }),
    ]
}

/// Compares the order of two keys with that of their bytes, alone and before another component.
fn check<K>(a: &K, b: &K) -> Result<(), proptest::test_runner::TestCaseError>
where
    K: Key<Owned = K> + AsKey<K> + Ord + Debug,
{
    let (x, y) = (KeyBuf::of::<K>(a), KeyBuf::of::<K>(b));
    prop_assert_eq!(x.cmp(&y), a.cmp(b), "{:?} {:?}", a, b);
    prop_assert_eq!(&K::from_bytes(x.as_bytes()).unwrap(), a);
    if let Some(fixed) = K::FIXED {
        prop_assert_eq!(x.as_bytes().len(), fixed);
    }
    let (x, y) = (KeyBuf::of::<(K, u8)>((a, 1)), KeyBuf::of::<(K, u8)>((b, 0)));
    prop_assert_eq!(x.cmp(&y), (a, 1).cmp(&(b, 0)), "{:?} {:?}", a, b);
    prop_assert_eq!(&<(K, u8)>::from_bytes(x.as_bytes()).unwrap().0, a);
    // No encoding is the start of another.
    let end = KeyBuf::of::<(K, u8)>((a, 1));
    let short = &end.as_bytes()[..end.as_bytes().len() - 1];
    prop_assert_eq!(<(K, u8)>::from_bytes(short).err(), Some(Stop::BadValue));
    Ok(())
}

/// Decodes bytes. A key that is decoded has these bytes and no others.
fn decode<K>(bytes: &[u8]) -> Result<(), proptest::test_runner::TestCaseError>
where
    K: Key<Owned = K> + AsKey<K>,
{
    match K::from_bytes(bytes) {
        Ok(key) => {
            let again = KeyBuf::of::<K>(&key);
            prop_assert_eq!(again.as_bytes(), bytes);
        }
        Err(stop) => prop_assert_eq!(stop, Stop::BadValue),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn derived_keys_are_ordered_as_their_values(
        cities in (city(), city()),
        events in (event(), event()),
        levels in (level(), level()),
        equals in (equal(), equal()),
        ids in (any::<u64>(), any::<u64>()),
    ) {
        check(&cities.0, &cities.1)?;
        check(&events.0, &events.1)?;
        check(&levels.0, &levels.1)?;
        check(&equals.0, &equals.1)?;
        check(&Id(ids.0), &Id(ids.1))?;
        check(&Nothing, &Nothing)?;
    }

    #[test]
    fn damaged_derived_keys_are_refused(
        bytes in proptest::collection::vec(prop_oneof![0_u8..5, any::<u8>()], 0..12),
        event in event(),
        at in any::<proptest::sample::Index>(),
        byte in 0_u8..6,
    ) {
        decode::<City>(&bytes)?;
        decode::<Event>(&bytes)?;
        decode::<Level>(&bytes)?;
        decode::<Equal>(&bytes)?;
        let mut damaged = KeyBuf::of::<Event>(&event).as_bytes().to_vec();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        decode::<Event>(&damaged)?;
    }
}

#[test]
fn unknown_discriminant_is_refused() {
    assert_eq!(Event::from_bytes(&[5]), Err(Stop::BadValue));
    assert_eq!(Event::from_bytes(&[]), Err(Stop::BadValue));
    assert_eq!(Level::from_bytes(&[0x80, 0]), Err(Stop::BadValue));
    assert_eq!(Level::from_bytes(&[0x7f, 0xf9]), Ok(Level::Low));
}

#[test]
fn fixed_length_is_known() {
    assert_eq!([Id::FIXED, Nothing::FIXED, Level::FIXED], [Some(8), Some(0), Some(2)]);
    assert_eq!([City::FIXED, Event::FIXED, Equal::FIXED], [None, None, Some(5)]);
}

fn pool() -> (tempfile::TempDir, Pool) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).medium(EMULATED);
    let pool = Pool::create(dir.path().join("pool"), options).unwrap();
    (dir, pool)
}

#[test]
fn maps_find_derived_keys_and_tuples_of_their_fields() {
    let (_dir, pool) = pool();
    let hash = pool.hash_map::<City, u64>("hash").unwrap();
    let tree = pool.btree_map::<City, u64>("tree").unwrap();
    let ids = pool.hash_map::<Id, u64>("ids").unwrap();
    let city = |country: &str, name: &str| City {
        country: country.to_owned(),
        name: name.to_owned(),
        size: None,
    };
    let (berlin, bonn, rome) = (city("de", "Berlin"), city("de", "Bonn"), city("it", "Rome"));
    let none = None::<i32>;
    let done = pool.run(|tx| {
        for (number, city) in [&rome, &berlin, &bonn].into_iter().enumerate() {
            hash.put(tx, city, number as u64)?;
            tree.put(tx, city, number as u64)?;
        }
        ids.put(tx, Id(7), 1)?;
        assert_eq!(hash.get(tx, ("de", "Bonn", none))?, Some(2));
        assert_eq!(tree.get(tx, ("de", "Bonn", Some(1)))?, None);
        assert_eq!(ids.get(tx, (7,))?, Some(1));
        let keys = |pairs: Vec<(City, u64)>| pairs.into_iter().map(|(city, _)| city);
        let all = keys(tree.range(..).collect(tx)?);
        let german = keys(tree.prefix(("de",)).collect(tx)?);
        let bonn = keys(tree.prefix(("de", "Bonn")).collect(tx)?);
        let late = keys(tree.range(("de", "C", none)..).collect(tx)?);
        Ok([all, german, bonn, late].map(Iterator::collect::<Vec<City>>))
    });
    let expected = [
        vec![berlin.clone(), bonn.clone(), rome.clone()],
        vec![berlin, bonn.clone()],
        vec![bonn],
        vec![rome],
    ];
    assert_eq!(done.unwrap().value, expected);
}

/// Keys of the same name.
mod other {
    #[derive(lastword::Key)]
    pub(crate) struct City {
        _name: String,
        _country: String,
        _size: Option<i32>,
    }

    #[derive(lastword::Key)]
    pub(crate) enum Event {
        _None,
    }
}

#[test]
fn map_of_other_key_fields_is_refused() {
    let (_dir, pool) = pool();
    let _ = pool.hash_map::<(City, Event), u64>("map").unwrap();
    type Other = (other::City, other::Event);
    let error = pool.hash_map::<Other, u64>("map").unwrap_err();
    assert!(matches!(error, Error::Named(NamedError::OtherTypes { .. })), "{error}");
    let text = error.to_string();
    let expected = [
        "is HashMap<(City, Event), u64> (values of 8 bytes) with key City { country: str, name: \
         str, size: Option<i32> }, key enum Event: u8 { None = 0 | At(level: Level, city: City) = \
         1 | Text([u8], bool) = 2 | Id(Id) = 3 | Nothing(Nothing) = 4 }, key enum Level: i16 { \
         High = 300 | Low = -7 | Lower = -6 }, key Id { u64 }, key Nothing { }, not ",
        "with key City { _name: str, _country: str, _size: Option<i32> }, key enum Event: u8 { \
         _None = 0 };",
    ];
    assert!(expected.iter().all(|part| text.contains(part)), "{text}");
}
