//! Types of fields that are refused by their names.
//!
//! The compiler would refuse most of them, too, with an error for each derive. It accepts `usize`,
//! whose size differs between machines. A type behind an alias is left to the compiler.

use syn::{Error, PathArguments, Type};

/// Returns the error at each part of a field's type that cannot be stored.
pub(super) fn check(ty: &Type) -> Result<(), Error> {
    let advice = match ty {
        Type::Array(array) => return check(&array.elem),
        Type::Group(group) => return check(&group.elem),
        Type::Paren(paren) => return check(&paren.elem),
        Type::Reference(_) | Type::Ptr(_) => {
            "a reference is valid in one process only: store a `Ptr`, `Text` or `Bytes`"
        }
        Type::BareFn(_) => "a function has another address in each process: store an enum",
        Type::Slice(_) => "a field has a fixed size: store an array, `Bytes` or `Array`",
        Type::Tuple(tuple) if !tuple.elems.is_empty() => {
            "a tuple has no defined layout: store a struct with `#[lastword::persist]`"
        }
        Type::Path(path) if path.qself.is_none() => match path.path.segments.last() {
            Some(last) => match named(&last.ident.to_string(), &last.arguments) {
                Some(advice) => advice,
                None => return Ok(()),
            },
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    Err(Error::new_spanned(ty, format!("this type cannot be stored in a pool: {advice}")))
}

/// Returns the advice for a type with this last segment, if the type is refused.
fn named(name: &str, arguments: &PathArguments) -> Option<&'static str> {
    // A program may have a `Box` of its own. std's has an argument.
    let has_arguments = !arguments.is_empty();
    match name {
        "usize" | "isize" => Some("its size differs between machines; use `u64` or `i64`"),
        "String" => Some("it owns memory outside of the pool; use `Text`"),
        "Vec" if has_arguments => {
            Some("it owns memory outside of the pool; use `Array` or `Bytes`")
        }
        "Box" | "Rc" | "Arc" if has_arguments => {
            Some("it owns memory outside of the pool; use `Ptr`")
        }
        _ => None,
    }
}
