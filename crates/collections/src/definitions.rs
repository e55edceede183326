//! The definitions of a collection's own types, as lines of text.
//!
//! The catalog stores them with a collection and compares them when it is opened, so that a struct
//! with other fields under the same name is refused. Types without a macro have no definition.
//!
//! ```text
//!   struct User { id: u64 at 0, door: Door at 8 }     `#[lastword::persist]`
//!   enum Door: u8 { Open = 1 | Shut = 2 }             of a field of it
//!   key City { country: str, name: str }              `#[derive(lastword::Key)]`
//!   key enum Size: u8 { Small = 0 | Named(str) = 1 }
//! ```
//!
//! Invariants:
//! - Definitions of one type agree if they are equal, or if one is an enum with the other's
//!   variants and more. Values of the old variants stay valid.
//! - A type that only one side defines agrees. So a type may get its macro later, and a collection
//!   from before has no definitions.

use std::any::type_name;

use words::{Body, DefinedType, Definition, Persist};

/// The definitions of types, in the order in which their traits add them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions(Vec<String>);

impl Definitions {
    /// Parses stored lines.
    pub(crate) fn from_lines<'t>(lines: impl Iterator<Item = &'t str>) -> Definitions {
        Definitions(lines.map(str::to_owned).collect())
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Adds the definition of a key, as the macro `Key` writes it.
    #[doc(hidden)]
    pub fn add(&mut self, line: String) {
        if !self.0.contains(&line) {
            self.0.push(line);
        }
    }

    /// Adds the definition of a stored type, and those of its fields' types.
    pub(crate) fn add_all(&mut self, definition: &Definition) {
        self.add(line(definition));
        if let Body::Struct(fields) = definition.body {
            for field in fields {
                let mut ty = &field.ty;
                while let DefinedType::Array(element, _) = ty {
                    ty = element;
                }
                if let DefinedType::One { definition: Some(definition), .. } = ty {
                    self.add_all(definition);
                }
            }
        }
    }

    /// Returns whether a collection with these stored definitions may be opened with `wanted`.
    pub(crate) fn agree(&self, wanted: &Definitions) -> bool {
        self.lines().all(|line| {
            let stored = self.of(head(line));
            let wanted = wanted.of(head(line));
            let agree = |(stored, wanted): (&&str, &&str)| lines_agree(stored, wanted);
            wanted.is_empty()
                || stored.len() == wanted.len() && stored.iter().zip(&wanted).all(agree)
        })
    }

    /// Returns these stored definitions with those of `wanted`, if one of them is missing here.
    pub(crate) fn completed(&self, wanted: &Definitions) -> Option<Definitions> {
        if wanted.0.iter().all(|line| self.0.contains(line)) {
            return None;
        }
        let is_other = |line: &&String| wanted.of(head(line)).is_empty();
        let kept = self.0.iter().filter(is_other).cloned();
        Some(Definitions(wanted.0.iter().cloned().chain(kept).collect()))
    }

    /// Returns the definition that begins with this head. `None` if there are several.
    pub(crate) fn only(&self, begin: &str) -> Option<&str> {
        match self.of(begin)[..] {
            [line] => Some(line),
            _ => None,
        }
    }

    /// Returns the definitions that begin with this head. Types of several modules may share it.
    fn of(&self, begin: &str) -> Vec<&str> {
        self.lines().filter(|line| head(line) == begin).collect()
    }
}

/// Returns the name of a type without its modules. A type may move to another module.
pub(crate) fn short_name(name: &str) -> String {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let parts = name.split_inclusive(|c| !is_path(c));
    parts.map(|part| part.rsplit("::").next().unwrap_or(part)).collect()
}

/// Returns the name of a stored type in the pool.
pub(crate) fn stored_name<T: Persist>() -> String {
    match T::DEFINITION {
        Some(definition) => definition.name.to_owned(),
        None => short_name(type_name::<T>()),
    }
}

fn line(definition: &Definition) -> String {
    let name = definition.name;
    match definition.body {
        Body::Struct(fields) => {
            let field = |field: &words::FieldDefinition| {
                format!("{}: {} at {}", field.name, field_type(&field.ty), field.offset)
            };
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("struct {name} {{ {} }}", fields.join(", "))
        }
        Body::Enum { tag, variants } => {
            let variant = |(name, number): &(&str, i128)| format!("{name} = {number}");
            let variants: Vec<_> = variants.iter().map(variant).collect();
            format!("enum {name}: {tag} {{ {} }}", variants.join(" | "))
        }
    }
}

fn field_type(ty: &DefinedType) -> String {
    match ty {
        DefinedType::Array(element, len) => format!("[{}; {len}]", field_type(element)),
        DefinedType::One { definition: Some(definition), .. } => definition.name.to_owned(),
        DefinedType::One { name, .. } => short_name(name()),
    }
}

/// Returns the kind and the name that a definition begins with.
fn head(line: &str) -> &str {
    let end = line.find([':', '{']).unwrap_or(line.len());
    line[..end].trim_end()
}

fn lines_agree(stored: &str, wanted: &str) -> bool {
    if stored == wanted {
        return true;
    }
    let parts = |line| -> Option<(&str, &str)> {
        let line: &str = line;
        line.strip_suffix(" }")?.split_once(" { ")
    };
    let (Some((stored, old)), Some((wanted, new))) = (parts(stored), parts(wanted)) else {
        return false;
    };
    let is_enum = stored.starts_with("enum ") || stored.starts_with("key enum ");
    let has = |variant: &str| new.split(" | ").any(|other| other == variant);
    is_enum && stored == wanted && old.split(" | ").all(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions(lines: &[&str]) -> Definitions {
        Definitions::from_lines(lines.iter().copied())
    }

    #[test]
    fn changed_fields_disagree() {
        let stored = definitions(&["struct User { id: u64 at 0, age: u64 at 8 }"]);
        for other in [
            "struct User { age: u64 at 0, id: u64 at 8 }",
            "struct User { id: u64 at 0, year: u64 at 8 }",
            "struct User { id: u64 at 0, age: i64 at 8 }",
            "struct User { id: u64 at 0, age: u64 at 8, mail: Text at 16 }",
            "struct User { id: u64 at 0 }",
        ] {
            assert!(!stored.agree(&definitions(&[other])), "{other}");
        }
        assert!(stored.agree(&stored));
    }

    #[test]
    fn enum_may_get_variants_and_lose_none() {
        let old = definitions(&["enum Door: u8 { Open = 1 | Shut = 2 }"]);
        let new = definitions(&["enum Door: u8 { Ajar = 0 | Open = 1 | Shut = 2 }"]);
        assert!(old.agree(&new));
        assert!(!new.agree(&old));
        for other in [
            "enum Door: u8 { Open = 2 | Shut = 1 }",
            "enum Door: u8 { Open = 1 | Closed = 2 }",
            "enum Door: u16 { Open = 1 | Shut = 2 }",
        ] {
            assert!(!old.agree(&definitions(&[other])), "{other}");
        }
    }

    #[test]
    fn type_that_one_side_defines_agrees_and_is_added() {
        let user = "struct User { id: u64 at 0 }";
        let city = "key City { name: str }";
        let (none, users) = (Definitions::default(), definitions(&[user]));
        assert!(none.agree(&users) && users.agree(&none));
        assert_eq!(none.completed(&users), Some(users.clone()));
        assert_eq!(users.completed(&none), None);
        assert_eq!(users.completed(&users), None);
        let cities = definitions(&[city]);
        assert!(users.agree(&cities));
        assert_eq!(users.completed(&cities), Some(definitions(&[city, user])));
    }

    #[test]
    fn grown_enum_replaces_the_stored_one() {
        let old = definitions(&["enum Door: u8 { Open = 1 }", "key City { name: str }"]);
        let new = definitions(&["enum Door: u8 { Open = 1 | Shut = 2 }"]);
        let both = ["enum Door: u8 { Open = 1 | Shut = 2 }", "key City { name: str }"];
        assert_eq!(old.completed(&new), Some(definitions(&both)));
    }

    #[test]
    fn types_of_one_name_are_all_compared() {
        let doors = ["enum Door: u8 { Open = 1 }", "enum Door: u8 { Wide = 1 }"];
        let stored = definitions(&doors);
        assert!(stored.agree(&stored));
        assert!(!stored.agree(&definitions(&doors[..1])));
        assert!(!stored.agree(&definitions(&[doors[1], doors[0]])));
    }
}
