//! Keys and values whose types are known at run time, for people and tools.

use std::fmt;

/// A decoded key, value or element. `Display` prints it as Rust's `Debug` does, on one line and
/// without control characters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Decoded<'t> {
    /// `()`.
    Unit,
    /// A `bool`.
    Bool(bool),
    /// A `char`.
    Char(char),
    /// An integer without sign.
    Unsigned(u128),
    /// An integer with a sign.
    Signed(i128),
    /// A `f32`.
    Float32(f32),
    /// A `f64`.
    Float64(f64),
    /// A text.
    Text(String),
    /// A byte string, or an array of bytes.
    Bytes(Vec<u8>),
    /// An array.
    List(Vec<Decoded<'t>>),
    /// A tuple.
    Tuple(Vec<Decoded<'t>>),
    /// An `Option`.
    Option(Option<Box<Decoded<'t>>>),
    /// A struct: its name and its fields.
    Struct(&'t str, Vec<Field<'t>>),
    /// The variant of an enum: its name and its fields.
    Variant(&'t str, Vec<Field<'t>>),
    /// The bytes of a type that the record does not describe, or that they are no value of.
    Unknown(Vec<u8>),
}

/// The name of a field, if it has one, and its value.
pub type Field<'t> = (Option<&'t str>, Decoded<'t>);

impl fmt::Display for Decoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decoded::Unit => f.write_str("()"),
            Decoded::Bool(value) => write!(f, "{value}"),
            Decoded::Char(value) => write!(f, "{value:?}"),
            Decoded::Unsigned(value) => write!(f, "{value}"),
            Decoded::Signed(value) => write!(f, "{value}"),
            Decoded::Float32(value) => write!(f, "{value:?}"),
            Decoded::Float64(value) => write!(f, "{value:?}"),
            Decoded::Text(text) => write!(f, "{text:?}"),
            Decoded::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Decoded::List(items) => several(f, "[", items, "]"),
            Decoded::Tuple(items) => several(f, "(", items, ")"),
            Decoded::Option(None) => f.write_str("None"),
            Decoded::Option(Some(value)) => write!(f, "Some({value})"),
            Decoded::Struct(name, fields) | Decoded::Variant(name, fields) => {
                f.write_str(name)?;
                fields_of(f, fields)
            }
            Decoded::Unknown(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

fn several(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    items: &[Decoded<'_>],
    close: &str,
) -> fmt::Result {
    f.write_str(open)?;
    for (at, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
    }
    f.write_str(close)
}

fn fields_of(f: &mut fmt::Formatter<'_>, fields: &[Field<'_>]) -> fmt::Result {
    let has_names = fields.iter().any(|(name, _)| name.is_some());
    let (open, close) = match (fields.is_empty(), has_names) {
        (true, _) => return Ok(()),
        (false, true) => (" { ", " }"),
        (false, false) => ("(", ")"),
    };
    f.write_str(open)?;
    for (at, (name, value)) in fields.iter().enumerate() {
        f.write_str(if at == 0 { "" } else { ", " })?;
        if let Some(name) = name {
            write!(f, "{name}: ")?;
        }
        write!(f, "{value}")?;
    }
    f.write_str(close)
}
