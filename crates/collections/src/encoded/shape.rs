//! The shapes of keys and values, by the names and definitions in a record of the catalog.
//!
//! A shape is as much of a type as its record shows. The rest is [`Shape::Unknown`].
//!
//! ```text
//!   HashMap<(u8, String), User>           key: Tuple(U8, Text)
//!   struct User { id: u64 at 0 }          value: Struct("User", id: U64 at 0)
//! ```
//!
//! Invariants:
//! - A shape has a bounded number of parts and a bounded depth, whatever the record has. A damaged
//!   definition may contain itself.
//! - Names in a shape are identifiers.

use super::syntax::{array, is_identifier, split, within};
use crate::definitions::Definitions;

/// Most levels of a shape.
const DEPTH_MAX: u32 = 32;

/// Most parts of a shape.
const PARTS_MAX: u32 = 4096;

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    F64,
}

/// A field: its name, unless it is that of a tuple, its offset in a value, and its shape.
pub(super) type Part = (Option<String>, usize, Shape);

/// A variant of an enum: its name, its number, and the fields of a key.
pub(super) type Variant = (String, i128, Vec<Part>);

/// As much of a type as its record shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Unknown,
    Unit,
    Bool,
    Char,
    Number(Number),
    Text,
    Bytes,
    /// `[u8; N]`.
    ByteArray(usize),
    Array(Box<Shape>, usize),
    Option(Box<Shape>),
    Tuple(Vec<Shape>),
    Struct(String, Vec<Part>),
    /// The type of the discriminant, and the variants.
    Enum(Number, Vec<Variant>),
}

impl Shape {
    /// Returns the shape of keys of a type.
    pub(super) fn of_key(name: &str, definitions: &Definitions) -> Shape {
        Parser { definitions, parts: PARTS_MAX }.key(name, DEPTH_MAX)
    }

    /// Returns the shape of values or elements of a type.
    pub(super) fn of_value(name: &str, definitions: &Definitions) -> Shape {
        match name {
            "str" => Shape::Text,
            "[u8]" => Shape::Bytes,
            name => Parser { definitions, parts: PARTS_MAX }.value(name, DEPTH_MAX),
        }
    }

    /// Returns that of a type that keys and values can have.
    fn plain(name: &str) -> Option<Shape> {
        Some(match name {
            "bool" => Shape::Bool,
            "char" => Shape::Char,
            name => match (Number::of(name), array(name)) {
                (Some(number), _) => Shape::Number(number),
                (None, Some(("u8", length))) => Shape::ByteArray(length),
                (None, _) => return None,
            },
        })
    }
}

impl Number {
    fn of(name: &str) -> Option<Number> {
        Some(match name {
            "u8" => Number::U8,
            "u16" => Number::U16,
            "u32" => Number::U32,
            "u64" => Number::U64,
            "u128" => Number::U128,
            "i8" => Number::I8,
            "i16" => Number::I16,
            "i32" => Number::I32,
            "i64" => Number::I64,
            "i128" => Number::I128,
            "f32" => Number::F32,
            "f64" => Number::F64,
            _ => return None,
        })
    }
}

/// Parses names and definitions.
struct Parser<'d> {
    definitions: &'d Definitions,
    /// Parts that the shape may still get.
    parts: u32,
}

impl<'d> Parser<'d> {
    /// Returns the depth below a part; `None` if the shape has too many.
    fn below(&mut self, depth: u32) -> Option<u32> {
        self.parts = self.parts.checked_sub(1)?;
        depth.checked_sub(1)
    }

    fn key(&mut self, name: &str, depth: u32) -> Shape {
        let Some(depth) = self.below(depth) else { return Shape::Unknown };
        let shape = match name {
            "str" => Some(Shape::Text),
            "[u8]" => Some(Shape::Bytes),
            name => Shape::plain(name),
        };
        let shape = shape.or_else(|| {
            let some = within(name, "Option<", '>')?;
            Some(Shape::Option(Box::new(self.key(some, depth))))
        });
        let shape = shape.or_else(|| {
            let parts = split(within(name, "(", ')')?, ", ")?;
            Some(Shape::Tuple(parts.into_iter().map(|part| self.key(part, depth)).collect()))
        });
        let shape = shape.or_else(|| self.key_struct(name, depth));
        shape.or_else(|| self.key_enum(name, depth)).unwrap_or(Shape::Unknown)
    }

    fn value(&mut self, name: &str, depth: u32) -> Shape {
        let Some(depth) = self.below(depth) else { return Shape::Unknown };
        let shape = if name == "()" { Some(Shape::Unit) } else { Shape::plain(name) };
        let shape = shape.or_else(|| {
            let (element, length) = array(name)?;
            Some(Shape::Array(Box::new(self.value(element, depth)), length))
        });
        let shape = shape.or_else(|| self.value_struct(name, depth));
        shape.or_else(|| self.value_enum(name)).unwrap_or(Shape::Unknown)
    }

    /// Returns the shape of `key NAME { FIELDS }`.
    fn key_struct(&mut self, name: &str, depth: u32) -> Option<Shape> {
        let (_, body) = self.definition("key", name)?;
        Some(Shape::Struct(name.to_owned(), self.key_fields(body, depth)?))
    }

    /// Returns the fields of a key: `a: A, b: B`, or `A, B`.
    fn key_fields(&mut self, body: &str, depth: u32) -> Option<Vec<Part>> {
        let field = |field| {
            let (name, ty) = match str::split_once(field, ": ") {
                Some((name, ty)) if is_identifier(name) => (Some(name.to_owned()), ty),
                _ => (None, field),
            };
            (name, 0, self.key(ty, depth))
        };
        Some(split(body, ", ")?.into_iter().map(field).collect())
    }

    /// Returns the shape of `key enum NAME: TAG { NAME = 0 | NAME(FIELDS) = 1 }`.
    fn key_enum(&mut self, name: &str, depth: u32) -> Option<Shape> {
        let (tag, body) = self.definition("key enum", name)?;
        let mut variant = |text| {
            let (variant, number) = str::rsplit_once(text, " = ")?;
            let (name, fields) = match variant.split_once('(') {
                Some((name, fields)) => (name, self.key_fields(fields.strip_suffix(')')?, depth)?),
                None => (variant, Vec::new()),
            };
            is_identifier(name).then_some((name.to_owned(), number.parse().ok()?, fields))
        };
        let variants = split(body, " | ")?.into_iter().map(&mut variant).collect::<Option<_>>()?;
        Some(Shape::Enum(Number::of(tag)?, variants))
    }

    /// Returns the shape of `struct NAME { FIELD: TYPE at 0, FIELD: TYPE at 8 }`.
    fn value_struct(&mut self, name: &str, depth: u32) -> Option<Shape> {
        let (_, body) = self.definition("struct", name)?;
        let mut field = |text| {
            let (name, rest) = str::split_once(text, ": ")?;
            let (ty, offset) = rest.rsplit_once(" at ")?;
            let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
            let name = (!is_number).then(|| name.to_owned());
            let is_valid = name.as_deref().is_none_or(is_identifier);
            let offset = offset.parse().ok().filter(|_| is_valid)?;
            Some((name, offset, self.value(ty, depth)))
        };
        let fields = split(body, ", ")?.into_iter().map(&mut field).collect::<Option<_>>()?;
        Some(Shape::Struct(name.to_owned(), fields))
    }

    /// Returns the shape of `enum NAME: TAG { NAME = 1 | NAME = 2 }`.
    fn value_enum(&mut self, name: &str) -> Option<Shape> {
        let (tag, body) = self.definition("enum", name)?;
        let variant = |text| {
            let (name, number) = str::split_once(text, " = ")?;
            is_identifier(name).then_some((name.to_owned(), number.parse().ok()?, Vec::new()))
        };
        let variants = split(body, " | ")?.into_iter().map(variant).collect::<Option<_>>()?;
        Some(Shape::Enum(Number::of(tag)?, variants))
    }

    /// Returns the type of the discriminant, or an empty text, and the body of a definition. `None`
    /// if there is none of this kind and name, or several of different modules.
    fn definition(&self, kind: &str, name: &str) -> Option<(&'d str, &'d str)> {
        let definitions: &'d Definitions = self.definitions;
        let line = definitions.only(&format!("{kind} {name}"))?;
        let (head, body) = line.strip_suffix('}')?.split_once('{')?;
        let tag = head.split_once(':').map_or("", |(_, tag)| tag.trim());
        is_identifier(name).then_some((tag, body.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions(lines: &[&str]) -> Definitions {
        Definitions::from_lines(lines.iter().copied())
    }

    #[test]
    fn unknown_types_have_no_shape() {
        let none = Definitions::default();
        for name in ["Ptr<u64>", "Option<u8>", "(u8, u8)", "[Ptr<u8>; 2", "str ", ""] {
            assert_eq!(Shape::of_value(name, &none), Shape::Unknown, "{name}");
        }
        for name in ["User", "Option<u8", "(u8, u8"] {
            assert_eq!(Shape::of_key(name, &none), Shape::Unknown, "{name}");
        }
        // Two types of one name, a name that is none, and no definition.
        let doors = ["enum Door: u8 { Open = 1 }", "enum Door: u8 { Wide = 1 }"];
        assert_eq!(Shape::of_value("Door", &definitions(&doors)), Shape::Unknown);
        for line in [
            "struct A { x\u{1b}: u8 at 0 }",
            "struct A { x: u8 at y }",
            "struct A { x: u8 }",
            "enum A: bool { X = 1 }",
            "enum A: u8 { X }",
            "struct A",
        ] {
            assert_eq!(Shape::of_value("A", &definitions(&[line])), Shape::Unknown, "{line}");
        }
    }

    #[test]
    fn shape_of_endless_definitions_is_bounded() {
        fn parts(shape: &Shape) -> u32 {
            1 + match shape {
                Shape::Struct(_, fields) => fields.iter().map(|field| parts(&field.2)).sum(),
                Shape::Array(element, _) => parts(element),
                _ => 0,
            }
        }
        let twice = definitions(&["struct A { x: A at 0, y: [A; 2] at 0 }", "key A { A, A }"]);
        assert!(parts(&Shape::of_value("A", &twice)) < 3 * PARTS_MAX);
        assert!(parts(&Shape::of_key("A", &twice)) < 3 * PARTS_MAX);
        let deep = "Option<".repeat(10_000) + &">".repeat(10_000);
        assert!(matches!(Shape::of_key(&deep, &twice), Shape::Option(_)));
    }
}
