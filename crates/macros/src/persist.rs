//! `#[lastword::persist]`: the traits of a stored type, its checks, definition and fields.
//!
//! ```text
//!   struct Ledger { savings: u64 }
//!     -> #[derive(Clone, Copy, ..)] #[repr(C)] struct Ledger { savings: u64 }
//!        impl Persist for Ledger { const DEFINITION = .. }
//!        const _: () = ..                 each field can be stored, and no padding follows it
//!        trait LedgerFields { .. }        `ledger.savings()`
//! ```
//!
//! `Persist` has an implementation for every type with zerocopy's four derives. The type here lacks
//! `KnownLayout`, so it may have an implementation of its own, with a definition.

mod accessors;
mod definition;
mod refused;

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Fields, Item, ItemEnum, ItemStruct, LitStr, MetaNameValue, Path, Token, Type,
};

use crate::found::Found;

/// The traits of zerocopy that a stored type has, and those that conflict with them.
const ZEROCOPY: [&str; 5] = ["TryFromBytes", "FromBytes", "IntoBytes", "Immutable", "KnownLayout"];

/// Returns the type with its generated code, or unchanged and with errors.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2(item.clone()).and_then(|item| generated(arguments, item)) {
        Ok(generated) => generated,
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#item #error)
        }
    }
}

fn generated(arguments: TokenStream, item: Item) -> Result<TokenStream, Error> {
    let name = stored_name(arguments)?;
    let name = |ident: &Ident| name.clone().unwrap_or_else(|| ident.unraw().to_string());
    match item {
        Item::Struct(item) => {
            check_struct(&item)?;
            let definition = definition::of_struct(&item, &name(&item.ident));
            let repr = has_repr(&item.attrs, &["C", "transparent"]);
            let repr = (!repr).then(|| quote!(#[repr(C)]));
            let checks = definition::checks(&item);
            let accessors = accessors::traits(&item);
            let own = own(&item.attrs, &item.ident, &definition);
            let derives = derives(&item.attrs, &item.ident);
            Ok(quote!(#derives #repr #item #own #checks #accessors))
        }
        Item::Enum(item) => {
            check_enum(&item)?;
            let definition = definition::of_enum(&item, &name(&item.ident));
            let own = own(&item.attrs, &item.ident, &definition);
            let derives = derives(&item.attrs, &item.ident);
            Ok(quote!(#derives #item #own))
        }
        other => Err(Error::new_spanned(
            other,
            "`#[lastword::persist]` is for structs, and for enums without fields",
        )),
    }
}

/// Returns the type's name in the pool, if the arguments have one.
fn stored_name(arguments: TokenStream) -> Result<Option<String>, Error> {
    let parser = Punctuated::<MetaNameValue, Token![,]>::parse_terminated;
    let mut name = None;
    for argument in syn::parse::Parser::parse2(parser, arguments)? {
        if !argument.path.is_ident("name") || name.is_some() {
            return Err(Error::new_spanned(argument, "the only argument is `name = \"Name\"`"));
        }
        let text: LitStr = syn::parse2(argument.value.to_token_stream())?;
        if syn::parse_str::<Ident>(&text.value()).is_err() {
            return Err(Error::new(text.span(), "the name of a type is an identifier"));
        }
        name = Some(text.value());
    }
    Ok(name)
}

fn check_struct(item: &ItemStruct) -> Result<(), Error> {
    let mut found = Found::default();
    found.note_generics(&item.generics);
    note_derives(&item.attrs, &mut found)?;
    if item.fields.is_empty() {
        let advice = "a stored value has at least one byte: add a field";
        found.note(Error::new(item.ident.span(), advice));
    }
    for field in &item.fields {
        found.note_cfg(&field.attrs);
        refused::check(&field.ty).unwrap_or_else(|error| found.note(error));
    }
    found.into_result()
}

fn check_enum(item: &ItemEnum) -> Result<(), Error> {
    let mut found = Found::default();
    found.note_generics(&item.generics);
    note_derives(&item.attrs, &mut found)?;
    if integer_repr(&item.attrs).is_none() {
        let advice = "a stored enum has an integer of a fixed size: add `#[repr(u8)]`";
        found.note(Error::new(item.ident.span(), advice));
    }
    for variant in &item.variants {
        found.note_cfg(&variant.attrs);
        if !matches!(variant.fields, Fields::Unit) {
            let advice = "a stored enum has no fields: store a struct with an enum in it";
            found.note(Error::new_spanned(&variant.fields, advice));
        }
    }
    found.into_result()
}

/// Notes derives of zerocopy, which would conflict with the generated ones.
fn note_derives(attrs: &[Attribute], found: &mut Found) -> Result<(), Error> {
    for path in derived(attrs)? {
        if ZEROCOPY.iter().any(|known| is_last(&path, known)) {
            let advice = "`#[lastword::persist]` replaces zerocopy's derives: remove this one";
            found.note(Error::new_spanned(path, advice));
        }
    }
    Ok(())
}

/// Returns the derives of a stored type that it does not have yet. Their errors are at its name.
fn derives(attrs: &[Attribute], object: &Ident) -> TokenStream {
    let own = derived(attrs).unwrap_or_default();
    let has = |name: &str| own.iter().any(|path| is_last(path, name));
    let clone = (!has("Clone")).then(|| quote!(::core::clone::Clone,));
    let copy = (!has("Copy")).then(|| quote!(::core::marker::Copy,));
    quote_spanned! {object.span()=>
        #[derive(
            #clone #copy
            ::lastword::__private::zerocopy::TryFromBytes,
            ::lastword::__private::zerocopy::IntoBytes,
            ::lastword::__private::zerocopy::Immutable,
        )]
        #[zerocopy(crate = "::lastword::__private::zerocopy")]
    }
}

/// Returns the implementation of `Persist`.
fn own(attrs: &[Attribute], object: &Ident, definition: &TokenStream) -> TokenStream {
    // A deprecated type must not warn about itself.
    let deprecated = attrs.iter().any(|at| at.path().is_ident("deprecated"));
    let allow = deprecated.then(|| quote!(#[allow(deprecated)]));
    quote! {
        #allow
        impl ::lastword::Persist for #object {
            const DEFINITION: ::core::option::Option<&'static ::lastword::__private::Definition> =
                ::core::option::Option::Some(&#definition);
        }
    }
}

/// Returns the paths in the type's `derive` attributes below this macro's.
fn derived(attrs: &[Attribute]) -> Result<Vec<Path>, Error> {
    let mut all = Vec::new();
    for attr in attrs.iter().filter(|at| at.path().is_ident("derive")) {
        all.extend(attr.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?);
    }
    Ok(all)
}

fn is_last(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|last| last.ident == name)
}

/// Returns the identifiers in the type's `repr` attributes.
fn reprs(attrs: &[Attribute]) -> Vec<Ident> {
    let lists = attrs.iter().filter(|at| at.path().is_ident("repr"));
    let tokens = lists.filter_map(|at| at.meta.require_list().ok()).flat_map(|list| {
        let tokens: Vec<TokenTree> = list.tokens.clone().into_iter().collect();
        tokens
    });
    let ident = |token| match token {
        TokenTree::Ident(ident) => Some(ident),
        _ => None,
    };
    tokens.filter_map(ident).collect()
}

fn has_repr(attrs: &[Attribute], names: &[&str]) -> bool {
    reprs(attrs).iter().any(|found| names.iter().any(|name| found == name))
}

/// Returns the integer type of an enum's `repr`.
pub(crate) fn integer_repr(attrs: &[Attribute]) -> Option<Ident> {
    let is_integer = |ident: &Ident| {
        let name = ident.to_string();
        name.starts_with(['u', 'i']) && name[1..].chars().all(|c| c.is_ascii_digit())
    };
    reprs(attrs).into_iter().find(is_integer)
}

/// Returns the tokens of a field's type outside of its struct, where `Self` is another type.
pub(crate) fn resolved(ty: &Type, object: &Ident) -> TokenStream {
    fn replaced(tokens: TokenStream, object: &Ident) -> TokenStream {
        let each = |token| match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                TokenTree::Ident(Ident::new(&object.to_string(), ident.span()))
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replaced(group.stream(), object));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other,
        };
        tokens.into_iter().map(each).collect()
    }
    replaced(ty.to_token_stream(), object)
}
