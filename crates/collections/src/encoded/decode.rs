//! Decodes keys and values by their shapes.
//!
//! | | key | value |
//! |---|---|---|
//! | integers | big-endian, with the sign bit flipped | little-endian |
//! | components | one after the other, each says where it ends | at their offsets |
//!
//! Invariants:
//! - Bytes that the typed collection's decoding accepts are accepted here.
//! - Decoding takes time in proportion to the bytes and the parts of the shape, and never panics.

use words::Stop;

use super::decoded::{Decoded, Field};
use super::shape::{Number, Part, Shape, Variant};
use crate::key::Key;

/// The reason why bytes are not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The record does not describe a part of the type.
    Unknown,
    /// The bytes are no value of the type.
    Wrong,
}

impl From<Stop> for Fault {
    fn from(_: Stop) -> Fault {
        Fault::Wrong
    }
}

impl Shape {
    /// Decodes a whole key.
    pub(super) fn key(&self, mut bytes: &[u8]) -> Result<Decoded<'_>, Fault> {
        let key = self.component(&mut bytes, true)?;
        if bytes.is_empty() { Ok(key) } else { Err(Fault::Wrong) }
    }

    /// Takes a component of a key from the front of `bytes`, as [`Key::decode`] does.
    fn component<'t>(&'t self, bytes: &mut &[u8], is_last: bool) -> Result<Decoded<'t>, Fault> {
        Ok(match self {
            Shape::Unknown | Shape::Unit | Shape::Array(..) => return Err(Fault::Unknown),
            Shape::Bool => Decoded::Bool(bool::decode(bytes, is_last)?),
            Shape::Char => Decoded::Char(char::decode(bytes, is_last)?),
            Shape::Number(number) => number.component(bytes)?,
            Shape::Text => Decoded::Text(str::decode(bytes, is_last)?),
            Shape::Bytes => Decoded::Bytes(<[u8]>::decode(bytes, is_last)?),
            Shape::ByteArray(length) => {
                let (array, rest) = bytes.split_at_checked(*length).ok_or(Fault::Wrong)?;
                *bytes = rest;
                Decoded::Bytes(array.to_vec())
            }
            Shape::Option(some) => Decoded::Option(match bool::decode(bytes, false)? {
                true => Some(Box::new(some.component(bytes, is_last)?)),
                false => None,
            }),
            Shape::Tuple(parts) => {
                let last = parts.len().saturating_sub(1);
                let part =
                    |(at, part): (usize, &'t Shape)| part.component(bytes, is_last && at == last);
                Decoded::Tuple(parts.iter().enumerate().map(part).collect::<Result<_, _>>()?)
            }
            Shape::Struct(name, fields) => {
                Decoded::Struct(name, components(fields, bytes, is_last)?)
            }
            Shape::Enum(tag, variants) => {
                let (name, _, fields) = variant(variants, &tag.component(bytes)?)?;
                Decoded::Variant(name, components(fields, bytes, is_last)?)
            }
        })
    }

    /// Decodes a value or element. Parts of unknown types are [`Decoded::Unknown`].
    pub(super) fn value(&self, bytes: &[u8]) -> Result<Decoded<'_>, Fault> {
        Ok(match self {
            Shape::Unit if bytes.is_empty() => Decoded::Unit,
            Shape::Bool => match bytes {
                [0] => Decoded::Bool(false),
                [1] => Decoded::Bool(true),
                [_] => return Err(Fault::Wrong),
                _ => unknown(bytes),
            },
            Shape::Char => match bytes.try_into().map(u32::from_le_bytes) {
                Ok(number) => Decoded::Char(char::from_u32(number).ok_or(Fault::Wrong)?),
                Err(_) => unknown(bytes),
            },
            Shape::Number(number) => number.value(bytes).unwrap_or_else(|| unknown(bytes)),
            Shape::Text => {
                Decoded::Text(String::from_utf8(bytes.to_vec()).map_err(|_| Fault::Wrong)?)
            }
            Shape::Bytes => Decoded::Bytes(bytes.to_vec()),
            Shape::ByteArray(length) if *length == bytes.len() => Decoded::Bytes(bytes.to_vec()),
            Shape::Array(_, 0) if bytes.is_empty() => Decoded::List(Vec::new()),
            Shape::Array(element, length) => match bytes.len().checked_div(*length) {
                // Elements without bytes are not repeated: a damaged length may be any.
                Some(each) if each > 0 && each * length == bytes.len() => {
                    let items = bytes.chunks_exact(each).map(|bytes| element.value(bytes));
                    Decoded::List(items.collect::<Result<_, _>>()?)
                }
                _ => unknown(bytes),
            },
            Shape::Struct(name, fields) => match fields_at(fields, bytes)? {
                Some(fields) => Decoded::Struct(name, fields),
                None => unknown(bytes),
            },
            Shape::Enum(tag, variants) => match tag.value(bytes) {
                Some(tag) => Decoded::Variant(&variant(variants, &tag)?.0, Vec::new()),
                None => unknown(bytes),
            },
            _ => unknown(bytes),
        })
    }
}

fn unknown<'t>(bytes: &[u8]) -> Decoded<'t> {
    Decoded::Unknown(bytes.to_vec())
}

/// Takes the fields of a key.
fn components<'t>(
    fields: &'t [Part],
    bytes: &mut &[u8],
    is_last: bool,
) -> Result<Vec<Field<'t>>, Fault> {
    let field = |(at, (name, _, shape)): (usize, &'t Part)| {
        let value = shape.component(bytes, is_last && at + 1 == fields.len())?;
        Ok((name.as_deref(), value))
    };
    fields.iter().enumerate().map(field).collect()
}

/// Decodes the fields of a value. A field ends where the next one begins: there is no padding.
/// `None` if the offsets do not fit the bytes.
fn fields_at<'t>(fields: &'t [Part], bytes: &[u8]) -> Result<Option<Vec<Field<'t>>>, Fault> {
    let ends = fields.iter().skip(1).map(|(_, offset, _)| *offset).chain([bytes.len()]);
    let mut decoded = Vec::with_capacity(fields.len());
    for ((name, begin, shape), end) in fields.iter().zip(ends) {
        let Some(bytes) = bytes.get(*begin..end) else { return Ok(None) };
        decoded.push((name.as_deref(), shape.value(bytes)?));
    }
    Ok(Some(decoded))
}

/// Returns the variant of a discriminant.
fn variant<'t>(variants: &'t [Variant], tag: &Decoded<'_>) -> Result<&'t Variant, Fault> {
    let number = match tag {
        Decoded::Unsigned(number) => i128::try_from(*number).ok(),
        Decoded::Signed(number) => Some(*number),
        _ => return Err(Fault::Unknown),
    };
    variants.iter().find(|(_, found, _)| Some(*found) == number).ok_or(Fault::Wrong)
}

/// Implements decoding for numbers.
macro_rules! numbers {
    (
        $($signless:ident $u:ident)*;
        $($signed:ident $i:ident)*;
        $($float:ident $f:ident $as:ident)*
    ) => {
        impl Number {
            fn component(self, bytes: &mut &[u8]) -> Result<Decoded<'static>, Fault> {
                Ok(match self {
                    $(Number::$signless => Decoded::Unsigned($u::decode(bytes, false)?.into()),)*
                    $(Number::$signed => Decoded::Signed($i::decode(bytes, false)?.into()),)*
                    $(Number::$float => return Err(Fault::Unknown),)*
                })
            }

            /// Returns the number; `None` for bytes of another length.
            fn value(self, bytes: &[u8]) -> Option<Decoded<'static>> {
                Some(match self {
                    $(Number::$signless => {
                        Decoded::Unsigned($u::from_le_bytes(bytes.try_into().ok()?).into())
                    })*
                    $(Number::$signed => {
                        Decoded::Signed($i::from_le_bytes(bytes.try_into().ok()?).into())
                    })*
                    $(Number::$float => {
                        Decoded::$as($f::from_le_bytes(bytes.try_into().ok()?))
                    })*
                })
            }
        }
    };
}

numbers! {
    U8 u8 U16 u16 U32 u32 U64 u64 U128 u128;
    I8 i8 I16 i16 I32 i32 I64 i64 I128 i128;
    F32 f32 Float32 F64 f64 Float64
}

#[cfg(test)]
mod tests;
