//! Collections with names, their keys and values.

use lastword::CollectionInfo;
use lastword::collections::encoded::{Decoded, Field, Size};
use lastword::printable;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::table;

/// A collection with a name.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Collection {
    pub(crate) name: String,
    /// Absent when the record is damaged or the types are unknown.
    pub(crate) kind: Option<&'static str>,
    /// Absent without keys.
    pub(crate) key_type: Option<String>,
    /// Absent without values or elements.
    pub(crate) value_type: Option<String>,
    /// Number of entries. Absent for a counter, and if it is damaged.
    pub(crate) length: Option<u64>,
    /// Sum of a counter.
    pub(crate) sum: Option<i64>,
    /// The first damage found.
    pub(crate) damage: Option<String>,
}

impl Collection {
    pub(crate) fn of(info: &CollectionInfo) -> Collection {
        let (length, sum) = match info.size {
            Some(Size::Entries(length)) => (Some(length), None),
            Some(Size::Sum(sum)) => (None, Some(sum)),
            None => (None, None),
        };
        Collection {
            name: info.name.clone(),
            kind: info.kind.map(|kind| kind.name()),
            key_type: info.key.clone(),
            value_type: info.value.clone(),
            length,
            sum,
            damage: info.damage.map(|damage| damage.to_string()),
        }
    }

    pub(crate) fn all(infos: Vec<CollectionInfo>) -> Vec<Collection> {
        infos.iter().map(Collection::of).collect()
    }

    /// Formats the name as text in quotes: a name may have line breaks and control characters.
    pub(crate) fn quoted_name(&self) -> String {
        format!("{:?}", self.name)
    }

    /// Formats types and size.
    pub(crate) fn description(&self) -> String {
        let Some(kind) = self.kind else {
            let damage = self.damage.as_ref().map(|damage| format!("damaged: {damage}"));
            return damage.unwrap_or_else(|| "of types that this program does not know".into());
        };
        let types = [&self.key_type, &self.value_type];
        let types: Vec<_> = types.into_iter().flatten().map(|name| printable(name)).collect();
        let types =
            if types.is_empty() { String::new() } else { format!("<{}>", types.join(", ")) };
        let size = match (self.length, self.sum) {
            (Some(1), _) => ", 1 entry".into(),
            (Some(length), _) => format!(", {} entries", table::grouped(length)),
            (None, Some(sum)) => format!(", sum {sum}"),
            (None, None) => String::new(),
        };
        let damage = self.damage.as_ref().map(|damage| format!(", damaged: {damage}"));
        format!("{kind}{types}{size}{}", damage.unwrap_or_default())
    }
}

/// A key or value in JSON.
///
/// | decoded | JSON |
/// |---|---|
/// | integers of up to 64 bits, floats that JSON has | numbers |
/// | other numbers | strings |
/// | `()`, `None` | null |
/// | text, `char` | strings |
/// | byte strings, and bytes of unknown types | strings of hexadecimal digits: `0x616e6e` |
/// | structs | objects, or arrays without the names of fields |
/// | variants | `"Name"`, or `{"Name": fields}` |
pub(crate) struct Json<'d>(pub(crate) &'d Decoded<'d>);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Decoded::Unit | Decoded::Option(None) => to.serialize_unit(),
            Decoded::Option(Some(some)) => Json(some).serialize(to),
            Decoded::Bool(value) => to.serialize_bool(*value),
            Decoded::Char(value) => to.serialize_char(*value),
            Decoded::Text(text) => to.serialize_str(text),
            Decoded::Unsigned(number) => match u64::try_from(*number) {
                Ok(number) => to.serialize_u64(number),
                Err(_) => to.collect_str(number),
            },
            Decoded::Signed(number) => match i64::try_from(*number) {
                Ok(number) => to.serialize_i64(number),
                Err(_) => to.collect_str(number),
            },
            Decoded::Float32(number) if number.is_finite() => to.serialize_f32(*number),
            Decoded::Float64(number) if number.is_finite() => to.serialize_f64(*number),
            Decoded::Bytes(bytes) | Decoded::Unknown(bytes) => {
                to.collect_str(&Decoded::Unknown(bytes.clone()))
            }
            Decoded::List(items) | Decoded::Tuple(items) => to.collect_seq(items.iter().map(Json)),
            Decoded::Struct(_, fields) => Fields(fields).serialize(to),
            Decoded::Variant(name, fields) if fields.is_empty() => to.serialize_str(name),
            Decoded::Variant(name, fields) => {
                let mut variant = to.serialize_map(Some(1))?;
                variant.serialize_entry(name, &Fields(fields))?;
                variant.end()
            }
            // A float without a number in JSON, or a kind of a later version.
            other => to.collect_str(other),
        }
    }
}

/// The fields of a struct or variant.
struct Fields<'d>(&'d [Field<'d>]);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0.iter().any(|(name, _)| name.is_none()) {
            let mut fields = to.serialize_seq(Some(self.0.len()))?;
            self.0.iter().try_for_each(|(_, value)| fields.serialize_element(&Json(value)))?;
            return fields.end();
        }
        let mut fields = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            fields.serialize_entry(&name.unwrap_or_default(), &Json(value))?;
        }
        fields.end()
    }
}
