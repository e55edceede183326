//! The macros of Lastword: stored types and keys.
//!
//! | macro | re-exported as | generates |
//! |---|---|---|
//! | [`macro@persist`] | `lastword::persist` | a stored type: traits, checks, fields |
//! | [`macro@Key`] | `lastword::Key` | the traits of a key |
//!
//! Their documentation is at the re-exports, since its examples need `lastword`. If this crate's
//! tests depended on `lastword`, Cargo would build it a second time for the compiler's own use.
//!
//! Generated code names only `lastword`, with its hidden module `__private`, so a program needs no
//! other crate. The traits and the checks themselves are in `words` and `collections`.
//!
//! Invariants:
//! - An error points at the user's own tokens: a field, a type, a variant or an attribute.
//! - A type that a macro refuses stays in the program without the generated code, so that the
//!   compiler reports nothing about its derives.

mod found;
mod key;
mod persist;

use proc_macro::TokenStream;

/// Makes a struct, or an enum without fields, a type that can be stored in a pool.
#[proc_macro_attribute]
pub fn persist(arguments: TokenStream, item: TokenStream) -> TokenStream {
    persist::expand(arguments.into(), item.into()).into()
}

/// Makes a struct or enum a key of maps and sets.
#[proc_macro_derive(Key)]
pub fn key(item: TokenStream) -> TokenStream {
    key::expand(item.into()).into()
}
