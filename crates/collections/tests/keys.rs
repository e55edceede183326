//! Encoded keys: the order of std's `Ord`, the way back, and bytes that are no key.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fmt::Debug;

use collections::{AsKey, Key, KeyBuf};
use proptest::collection::vec;
use proptest::prelude::*;
use words::Stop;

/// Compares the order, the length and the decoded value of two encoded keys.
fn check<K>(a: &K::Owned, b: &K::Owned) -> Result<(), TestCaseError>
where
    K: Key<Owned: AsKey<K> + Ord + Debug> + ?Sized,
{
    let (encoded, other) = (KeyBuf::of::<K>(a), KeyBuf::of::<K>(b));
    prop_assert_eq!(encoded.as_bytes().cmp(other.as_bytes()), a.cmp(b), "{:?} {:?}", a, b);
    for (key, encoded) in [(a, &encoded), (b, &other)] {
        prop_assert_eq!(&K::from_bytes(encoded.as_bytes()).unwrap(), key);
        prop_assert!(K::FIXED.is_none_or(|len| encoded.as_bytes().len() == len), "{}", K::name());
        let first = encoded.words().first().copied().unwrap_or(0);
        prop_assert_eq!(encoded.prefix(), first.swap_bytes());
        let mut words = vec![0; encoded.words().len() * 8];
        words[..encoded.as_bytes().len()].copy_from_slice(encoded.as_bytes());
        let of_words: Vec<u8> =
            encoded.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        prop_assert_eq!(of_words, words, "zeros follow the key");
    }
    if encoded.prefix() != other.prefix() {
        prop_assert_eq!(encoded.prefix().cmp(&other.prefix()), a.cmp(b));
    }
    Ok(())
}

/// Encodes the keys as components before another one: the encoding must say where it ends.
fn check_component<K>(a: K::Owned, b: K::Owned, after: (u8, u8)) -> Result<(), TestCaseError>
where
    K: Key<Owned: AsKey<K> + Ord + Debug + Clone>,
{
    check::<K>(&a, &b)?;
    check::<(K, u8)>(&(a.clone(), after.0), &(b.clone(), after.1))?;
    check::<(K, u8)>(&(a.clone(), after.0), &(a.clone(), after.1))?;
    check::<Option<K>>(&Some(a.clone()), &Some(b.clone()))?;
    check::<(Option<K>, u8)>(&(Some(a), after.0), &(None, after.1))
}

/// Bytes that recur, with all that encoding treats apart.
fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![0..=3_u8, Just(255), Just(b'a'), any::<u8>()];
    vec(byte, 0..most)
}

fn text(most: usize) -> impl Strategy<Value = String> {
    let char = prop_oneof![Just('\0'), Just('\x01'), Just('\x02'), Just('a'), any::<char>()];
    vec(char, 0..most).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn numbers_keep_their_order(a: [u64; 4], b: [u64; 4], shift in 0..128_u32, after: (u8, u8)) {
        let wide = |words: [u64; 4]| (u128::from(words[0]) << 64 | u128::from(words[1])) >> shift;
        macro_rules! each {
            ($($type:ident)*) => {$(
                check_component::<$type>(wide(a) as $type, wide(b) as $type, after)?;
                check_component::<$type>($type::MIN, wide(b) as $type, after)?;
                check_component::<$type>(wide(a) as $type, $type::MAX, after)?;
            )*};
        }
        each!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);
        let (low, high) = (i64::wrapping_neg(wide(a) as i64), wide(a) as i64);
        check_component::<i64>(low, high, after)?;
    }

    #[test]
    fn small_types_keep_their_order(
        a: (bool, char, [u8; 5]), b: (bool, char, [u8; 5]), after: (u8, u8)
    ) {
        check_component::<bool>(a.0, b.0, after)?;
        check_component::<char>(a.1, b.1, after)?;
        check_component::<[u8; 5]>(a.2, b.2, after)?;
        check_component::<[u8; 0]>([], [], after)?;
    }

    #[test]
    fn strings_keep_their_order(
        a in bytes(6), b in bytes(6), c in text(5), d in text(5), after: (u8, u8)
    ) {
        check::<[u8]>(&a, &b)?;
        check::<str>(&c, &d)?;
        check_component::<Vec<u8>>(a.clone(), b.clone(), after)?;
        check_component::<String>(c, d, after)?;
        let longer = [a.clone(), b].concat();
        check_component::<Vec<u8>>(a, longer, after)?;
    }

    #[test]
    fn long_strings_keep_their_order(
        a in bytes(150), b in bytes(150), shared in bytes(90), after: (u8, u8)
    ) {
        let join = |rest: &[u8]| [shared.as_slice(), rest].concat();
        check_component::<Vec<u8>>(join(&a), join(&b), after)?;
        check::<[u8]>(&join(&a), &join(&b))?;
    }

    #[test]
    fn tuples_keep_their_order(
        a in (text(3), bytes(3), any::<i16>()), b in (text(3), bytes(3), any::<i16>()),
        c in proptest::option::of(text(2)), d in proptest::option::of(text(2)),
    ) {
        check::<(String, i16)>(&(a.0.clone(), a.2), &(b.0.clone(), b.2))?;
        check::<(String, Vec<u8>)>(&(a.0.clone(), a.1.clone()), &(b.0.clone(), b.1.clone()))?;
        check::<(Option<String>, Vec<u8>, i16)>(
            &(c.clone(), a.1.clone(), a.2), &(d.clone(), b.1.clone(), b.2),
        )?;
        check::<(Option<String>, (String, i16), Vec<u8>, Option<String>)>(
            &(c.clone(), (a.0, a.2), a.1, d.clone()), &(d, (b.0, b.2), b.1, c),
        )?;
    }

    #[test]
    fn decoded_key_encodes_to_its_bytes(input in bytes(40)) {
        fn again<K: Key<Owned: AsKey<K>> + ?Sized>(input: &[u8]) -> Result<(), TestCaseError> {
            match K::from_bytes(input) {
                Ok(key) => {
                    let encoded = KeyBuf::of::<K>(key);
                    prop_assert_eq!(encoded.as_bytes(), input);
                }
                Err(stop) => prop_assert_eq!(stop, Stop::BadValue),
            }
            Ok(())
        }
        again::<u64>(&input)?;
        again::<i8>(&input)?;
        again::<bool>(&input)?;
        again::<char>(&input)?;
        again::<[u8; 3]>(&input)?;
        again::<str>(&input)?;
        again::<[u8]>(&input)?;
        again::<(Vec<u8>, Vec<u8>)>(&input)?;
        again::<(String, u16)>(&input)?;
        again::<Option<Option<u8>>>(&input)?;
        again::<(Option<char>, bool, String)>(&input)?;
    }
}

#[test]
fn shorter_string_sorts_first() {
    let key = |string: &str| KeyBuf::of::<(String, u64)>((string, u64::MAX));
    let ascending = ["", "\0", "\0\0", "\x01", "\x02", "a", "a\0", "a\0b", "a\x01", "ab", "b"];
    for pair in ascending.windows(2) {
        assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
    }
}

#[test]
fn every_form_of_a_key_encodes_alike() {
    let (string, bytes) = ("key".to_owned(), b"key".to_vec());
    let expected = KeyBuf::of::<str>("key");
    assert_eq!(KeyBuf::of::<str>(&string), expected);
    assert_eq!(KeyBuf::of::<str>(string.clone()), expected);
    assert_eq!(KeyBuf::of::<[u8]>(b"key"), expected);
    assert_eq!(KeyBuf::of::<[u8]>(bytes.as_slice()), expected);
    assert_eq!(KeyBuf::of::<[u8]>(&bytes), expected);
    assert_eq!(KeyBuf::of::<[u8; 3]>(b"key"), expected);
    let pair = KeyBuf::of::<(String, u64)>((string.clone(), 7));
    assert_eq!(KeyBuf::of::<(String, u64)>(("key", &7)), pair);
    assert_eq!(KeyBuf::of::<(String, u64)>(&(&string, 7)), pair);
    assert_eq!(
        KeyBuf::of::<Option<String>>(Some("key")),
        KeyBuf::of::<Option<String>>(&Some(string))
    );
    assert_eq!(KeyBuf::of::<u8>(7).as_bytes(), [7], "a literal has the key's type");
}

#[test]
fn types_have_names_and_lengths() {
    assert_eq!(<str as Key>::name(), <String as Key>::name());
    assert_eq!(<(String, Option<u64>, [u8; 4])>::name(), "(str, Option<u64>, [u8; 4])");
    assert_eq!(<(u32, char, (bool, [u8; 7]))>::FIXED, Some(16));
    assert_eq!(<(u32, Option<u8>)>::FIXED, None);
    assert_eq!(<(u32, String)>::FIXED, None);
}
