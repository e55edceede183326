//! Encoded values: the way back, and bytes that are no value.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fmt::Debug;

use collections::{AsValue, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use words::Stop;
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

#[derive(Clone, Copy, Debug, PartialEq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(u8)]
enum Door {
    Open = 1,
    Shut = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct House {
    number: u16,
    lit: bool,
    door: Door,
    height: f32,
}

/// Encodes and decodes a value from bytes of both kinds.
fn check<V>(value: &V::Owned) -> Result<(), TestCaseError>
where
    V: Value<Owned: AsValue<V> + PartialEq + Debug> + ?Sized,
{
    let encoded = value.encode().unwrap();
    prop_assert!(V::FIXED.is_none_or(|len| encoded.len() == len), "{}", V::name());
    prop_assert_eq!(&V::decode(encoded.as_ref().into()).unwrap(), value);
    prop_assert_eq!(&V::decode(encoded.into_owned().into()).unwrap(), value);
    Ok(())
}

/// Decodes arbitrary bytes: a value that is accepted encodes to them.
fn decode<V>(bytes: &[u8]) -> Result<(), TestCaseError>
where
    V: Value<Owned: AsValue<V>> + ?Sized,
{
    let (found, of_vec) = (V::decode(bytes.into()), V::decode(bytes.to_vec().into()));
    prop_assert_eq!(found.is_ok(), of_vec.is_ok());
    match found {
        Ok(value) => prop_assert_eq!(&*value.encode().unwrap(), bytes),
        Err(stop) => prop_assert_eq!(stop, Stop::BadValue),
    }
    Ok(())
}

proptest! {
    #[test]
    fn values_round_trip(
        number: u64, text in any::<String>(), bytes in vec(any::<u8>(), 0..3000), lit: bool
    ) {
        check::<u64>(&number)?;
        check::<[u8; 100]>(&[number as u8; 100])?;
        check::<()>(&())?;
        check::<str>(&text)?;
        check::<[u8]>(&bytes)?;
        let door = if lit { Door::Open } else { Door::Shut };
        check::<House>(&House { number: number as u16, lit, door, height: number as f32 })?;
    }

    #[test]
    fn decoded_value_encodes_to_its_bytes(bytes in vec(0..4_u8, 0..12)) {
        decode::<u64>(&bytes)?;
        decode::<()>(&bytes)?;
        decode::<bool>(&bytes)?;
        decode::<Door>(&bytes)?;
        decode::<House>(&bytes)?;
        decode::<[u8]>(&bytes)?;
        decode::<str>(&bytes)?;
        decode::<str>(&bytes.iter().map(|byte| byte << 6).collect::<Vec<u8>>())?;
    }
}

#[test]
fn every_form_of_a_value_encodes_alike() {
    fn encode<V: Value + ?Sized>(value: impl AsValue<V>) -> Vec<u8> {
        value.encode().unwrap().into_owned()
    }
    let (text, bytes) = ("text".to_owned(), b"text".to_vec());
    assert_eq!(encode::<str>("text"), bytes);
    assert_eq!(encode::<str>(&text), bytes);
    assert_eq!(encode::<str>(text), bytes);
    assert_eq!(encode::<[u8]>(b"text"), bytes);
    assert_eq!(encode::<[u8]>(*b"text"), bytes);
    assert_eq!(encode::<[u8]>(bytes.as_slice()), bytes);
    assert_eq!(encode::<[u8]>(&bytes), bytes);
    assert_eq!(encode::<[u8; 4]>(b"text"), bytes);
    assert_eq!(encode::<u16>(7), [7, 0], "a literal has the value's type");
    assert_eq!(encode::<u16>(&7), [7, 0]);
    assert_eq!(encode::<()>(()), []);
}

#[test]
fn names_have_no_modules() {
    assert_eq!(<u64 as Value>::name(), "u64");
    assert_eq!(<() as Value>::name(), "()");
    assert_eq!(House::name(), "House");
    assert_eq!(<[House; 3]>::name(), "[House; 3]");
    assert_eq!(<words::Ptr<House>>::name(), "Ptr<House>");
    assert_eq!(<[u8] as Value>::name(), "[u8]");
}

#[cfg(feature = "serde")]
mod serde_types {
    use std::collections::BTreeMap;

    use collections::Postcard;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Point,
        Circle { radius: u32 },
        Path(Vec<(i16, i16)>),
    }

    type Shapes = BTreeMap<String, Option<Shape>>;

    proptest! {
        #[test]
        fn serde_values_round_trip(names in vec(any::<String>(), 0..5), radius: u32) {
            let shape = |i| match i % 4 {
                0 => None,
                1 => Some(Shape::Point),
                2 => Some(Shape::Circle { radius }),
                _ => Some(Shape::Path(vec![(radius as i16, 1); i])),
            };
            let shapes: Shapes = (0..).zip(names).map(|(i, name)| (name, shape(i))).collect();
            check::<Postcard<Shapes>>(&shapes)?;
        }

        #[test]
        fn serde_bytes_that_are_no_value_are_refused(bytes in vec(any::<u8>(), 0..40)) {
            if let Err(stop) = Postcard::<Shapes>::decode(bytes.into()) {
                prop_assert_eq!(stop, Stop::BadValue);
            }
        }
    }

    #[test]
    fn bytes_after_a_serde_value_are_refused() {
        let mut bytes = AsValue::<Postcard<Shape>>::encode(&Shape::Point).unwrap().into_owned();
        assert_eq!(Postcard::<Shape>::decode(bytes.as_slice().into()).unwrap(), Shape::Point);
        bytes.push(0);
        assert_eq!(Postcard::<Shape>::decode(bytes.as_slice().into()), Err(Stop::BadValue));
        assert_eq!(Postcard::<Shape>::name(), "Postcard<Shape>");
    }
}
