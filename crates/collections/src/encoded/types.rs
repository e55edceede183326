//! The types of keys and values, by their names in Rust.

use std::str;

use words::OBJECT_BYTES_MAX;

use super::syntax::array;

/// The name of a type of keys or values, and the length of its encodings if they have one.
///
/// ```
/// use collections::encoded::Encoding;
///
/// let text = Encoding::new("str", None).expect("text of any length");
/// assert!(text.rule().accepts("ann".as_bytes()) && !text.rule().accepts(b"\xff"));
/// assert!(Encoding::new("u32", Some(8)).is_none(), "four bytes");
/// assert!(Encoding::new("Account", Some(24)).is_some(), "the program's own type");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    name: String,
    rule: Rule,
}

/// The byte strings that are keys or values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The length plus 1, or 0 if it varies.
    length: u32,
    content: Content,
}

/// The condition on the bytes beside their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Any,
    Text,
    Bool,
    /// A `char` as a key, in big-endian order.
    CharKey,
    /// A `char` as a value, in little-endian order.
    CharValue,
}

impl Content {
    const ALL: [Content; 5] =
        [Content::Any, Content::Text, Content::Bool, Content::CharKey, Content::CharValue];
}

impl Encoding {
    /// Byte strings of any length.
    pub fn bytes() -> Encoding {
        Encoding { name: "[u8]".to_owned(), rule: Rule { length: 0, content: Content::Any } }
    }

    /// Returns the encoding with this name, as Rust writes the type without modules, and with this
    /// length, or `None` if it varies. Returns `None` for a known type of another length.
    pub fn new(name: &str, length: Option<usize>) -> Option<Encoding> {
        let known = match name {
            "u8" | "i8" | "bool" => Some(Some(1)),
            "u16" | "i16" => Some(Some(2)),
            "u32" | "i32" | "f32" | "char" => Some(Some(4)),
            "u64" | "i64" | "f64" => Some(Some(8)),
            "u128" | "i128" => Some(Some(16)),
            "()" => Some(Some(0)),
            "str" | "[u8]" => Some(None),
            _ => byte_array(name).map(Some),
        };
        let is_name = !name.is_empty() && name.chars().all(|c| !c.is_control());
        if !is_name || known.is_some_and(|known| known != length) {
            return None;
        }
        let content = match name {
            "str" => Content::Text,
            "bool" => Content::Bool,
            "char" => Content::CharKey,
            _ => Content::Any,
        };
        let length = match length {
            Some(length) => u32::try_from(length).ok()?.checked_add(1)?,
            None => 0,
        };
        Some(Encoding { name: name.to_owned(), rule: Rule { length, content } })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the rule for the bytes of a key.
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// Returns the rule for the bytes of a value. `None` if a value of that length is too long: a
    /// type of a fixed length has at most 1024 bytes, of which a compaction finds the pointers.
    pub(crate) fn value_rule(&self) -> Option<Rule> {
        let Rule { length, content } = self.rule;
        let content = if content == Content::CharKey { Content::CharValue } else { content };
        (length as usize <= OBJECT_BYTES_MAX + 1).then_some(Rule { length, content })
    }
}

/// Returns the length of `[u8; N]`.
fn byte_array(name: &str) -> Option<usize> {
    array(name).filter(|(element, _)| *element == "u8").map(|(_, length)| length)
}

impl Rule {
    /// Returns whether bytes are a key or value of the type.
    pub fn accepts(self, bytes: &[u8]) -> bool {
        let has_length = self.fixed().is_none_or(|length| length == bytes.len());
        let is_char = |number: fn([u8; 4]) -> u32| {
            bytes.try_into().is_ok_and(|bytes| char::from_u32(number(bytes)).is_some())
        };
        has_length
            && match self.content {
                Content::Any => true,
                Content::Text => str::from_utf8(bytes).is_ok(),
                Content::Bool => matches!(bytes, [0 | 1]),
                Content::CharKey => is_char(u32::from_be_bytes),
                Content::CharValue => is_char(u32::from_le_bytes),
            }
    }

    /// Returns the length of all keys or values, if they have one.
    pub const fn fixed(self) -> Option<usize> {
        match self.length {
            0 => None,
            length => Some(length as usize - 1),
        }
    }

    pub(super) const fn to_word(self) -> u64 {
        (self.content as u64) << 32 | self.length as u64
    }

    pub(super) fn from_word(word: u64) -> Option<Rule> {
        let content = *Content::ALL.get((word >> 32) as usize)?;
        Some(Rule { length: word as u32, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Value};

    /// Compares an encoding with a type of Rust, as a key and as a value.
    fn same<K: Key + ?Sized, V: Value + ?Sized>(samples: &[&[u8]]) {
        let key = Encoding::new(&K::name(), K::FIXED).unwrap();
        let value = Encoding::new(&V::name(), V::FIXED).unwrap();
        let value_rule = value.value_rule().unwrap();
        for &bytes in samples {
            assert_eq!(key.rule().accepts(bytes), K::from_bytes(bytes).is_ok(), "{bytes:?}");
            assert_eq!(value_rule.accepts(bytes), V::decode(bytes.into()).is_ok(), "{bytes:?}");
        }
    }

    #[test]
    fn encodings_accept_what_rust_decodes() {
        let samples: [&[u8]; 12] = [
            b"",
            b"\0",
            b"\x01",
            b"\x02",
            b"ann",
            b"\xff\xfe",
            b"\0\0\0A",
            b"A\0\0\0",
            b"\0\0\xd8\0",
            b"\0\xd8\0\0",
            b"\xff\xff\xff\xff",
            b"12345678",
        ];
        same::<str, str>(&samples);
        same::<[u8], [u8]>(&samples);
        same::<bool, bool>(&samples);
        same::<char, char>(&samples);
        same::<u8, i8>(&samples);
        same::<i16, u16>(&samples);
        same::<u32, f32>(&samples);
        same::<u64, f64>(&samples);
        same::<u128, i128>(&samples);
        same::<[u8; 3], [u8; 3]>(&samples);
        same::<u64, ()>(&samples);
    }

    #[test]
    fn wrong_lengths_and_names_are_refused() {
        assert!(Encoding::new("u64", None).is_none());
        assert!(Encoding::new("str", Some(8)).is_none());
        assert!(Encoding::new("[u8; 7]", Some(8)).is_none());
        assert!(Encoding::new("", Some(8)).is_none());
        assert!(Encoding::new("a\nb", Some(8)).is_none());
        let long = Encoding::new("Page", Some(1025)).unwrap();
        assert!(long.value_rule().is_none() && long.rule().fixed() == Some(1025));
    }
}
