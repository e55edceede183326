//! Decoding by shapes against the encodings of Rust's types.

use super::*;
use crate::definitions::Definitions;
use crate::{AsKey, AsValue, KeyBuf, Value};

const LINES: [&str; 7] = [
    "struct User { id: u64 at 0, door: Door at 8, pin: [u8; 3] at 9, link: Ptr<u64> at 12 }",
    "struct Point { 0: f32 at 0, 1: [i16; 2] at 4 }",
    "enum Door: u8 { Open = 1 | Shut = 2 }",
    "key City { country: str, size: Size }",
    "key Pair { str, i8 }",
    "key None { }",
    "key enum Size: u8 { Small = 0 | Named(str) = 1 | Box(width: u16, name: str) = 7 }",
];

fn definitions() -> Definitions {
    Definitions::from_lines(LINES.into_iter())
}

fn key<K: Key + ?Sized>(key: impl AsKey<K>) -> Result<String, Fault> {
    let bytes = KeyBuf::of::<K>(key);
    let shape = Shape::of_key(&K::name(), &definitions());
    shape.key(bytes.as_bytes()).map(|key| key.to_string())
}

fn key_of(name: &str, bytes: &[u8]) -> Result<String, Fault> {
    Shape::of_key(name, &definitions()).key(bytes).map(|key| key.to_string())
}

fn value<V: Value + ?Sized>(value: impl AsValue<V>) -> Result<String, Fault> {
    value_of(&V::name(), &value.encode().unwrap())
}

fn value_of(name: &str, bytes: &[u8]) -> Result<String, Fault> {
    Shape::of_value(name, &definitions()).value(bytes).map(|value| value.to_string())
}

fn shown(text: &str) -> Result<String, Fault> {
    Ok(text.to_owned())
}

#[test]
fn keys_are_decoded_as_their_types() {
    assert_eq!(key::<i32>(-7), shown("-7"));
    assert_eq!(key::<u128>(u128::MAX), shown(&u128::MAX.to_string()));
    assert_eq!(key::<(bool, char)>((true, 'ß')), shown("(true, 'ß')"));
    assert_eq!(key::<[u8; 3]>(*b"a\0\xff"), shown("b\"a\\x00\\xff\""));
    assert_eq!(key::<str>("a\x1b[2J\u{202e}\n"), shown("\"a\\u{1b}[2J\\u{202e}\\n\""));
    type Nested = (String, Option<(u8, Vec<u8>)>);
    assert_eq!(
        key::<Nested>(("a\0b", Some((7, b"\x01")))),
        shown("(\"a\\0b\", Some((7, b\"\\x01\")))")
    );
    assert_eq!(key::<Nested>(("", None::<(u8, &[u8])>)), shown("(\"\", None)"));
    let city = b"de\0\x07\0\x05ann";
    let expected = "City { country: \"de\", size: Box { width: 5, name: \"ann\" } }";
    assert_eq!(key_of("City", city), shown(expected));
    assert_eq!(key_of("(Size, u8)", b"\x01x\0\x09"), shown("(Named(\"x\"), 9)"));
    assert_eq!(key_of("Pair", b"x\0\x7f"), shown("Pair(\"x\", -1)"));
    assert_eq!(key_of("None", b""), shown("None"));
}

#[test]
fn wrong_keys_are_no_keys() {
    for (name, bytes) in [
        ("bool", &b"\x02"[..]),
        ("u16", b"\0"),
        ("u16", b"\0\0\0"),
        ("str", b"\xff"),
        ("Option<u8>", b"\x01"),
        ("(str, u8)", b"ann"),
        ("Size", b"\x03"),
        ("Size", b""),
        ("[u8; 3]", b"ab"),
    ] {
        assert_eq!(key_of(name, bytes), Err(Fault::Wrong), "{name}");
    }
    // Nothing shows where the first component ends.
    assert_eq!(key_of("(Hash, u8)", b"\0"), Err(Fault::Unknown));
}

#[test]
fn values_are_decoded_as_their_types() {
    assert_eq!(value::<i64>(-7), shown("-7"));
    assert_eq!(value::<f64>(0.1), shown("0.1"));
    assert_eq!(value::<[[u16; 2]; 2]>([[1, 2], [3, 4]]), shown("[[1, 2], [3, 4]]"));
    assert_eq!(value::<[u8; 2]>([b'a', 0]), shown("b\"a\\x00\""));
    assert_eq!(value::<()>(()), shown("()"));
    assert_eq!(value::<str>("a\u{9b}"), shown("\"a\\u{9b}\""));
    let user = [&7_u64.to_le_bytes()[..], &[2], b"pin", &9_u64.to_le_bytes()].concat();
    let expected = "User { id: 7, door: Shut, pin: b\"pin\", link: 0x0900000000000000 }";
    assert_eq!(value_of("User", &user), shown(expected));
    let point = [&1.5_f32.to_le_bytes()[..], &[1, 0, 255, 255]].concat();
    assert_eq!(value_of("Point", &point), shown("Point(1.5, [1, -1])"));
}

#[test]
fn wrong_values_are_no_values() {
    for (name, bytes) in [
        ("bool", &b"\x02"[..]),
        ("char", b"\0\xd8\0\0"),
        ("str", b"\xff"),
        ("Door", b"\x03"),
        ("[bool; 2]", b"\0\x02"),
    ] {
        assert_eq!(value_of(name, bytes), Err(Fault::Wrong), "{name}");
    }
    // Another type of this name may have another length.
    for name in ["User", "Door", "u64", "[u16; 4]", "[(); 1000000000000]", "Ptr<u8>"] {
        assert_eq!(value_of(name, b"\x01\x02\x03"), shown("0x010203"), "{name}");
    }
}
