//! The methods of pointers for a struct's fields.
//!
//! A method of a trait is as visible as the trait. So there is one trait for each visibility that
//! a field has within the visibility of the struct:
//!
//! ```text
//!   pub struct Account { pub id: u64, cents: u64 }  ->  pub trait AccountFields        { id }
//!                                                           trait AccountPrivateFields { cents }
//! ```

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Field, Fields, ItemStruct, Visibility};

use super::resolved;

/// Methods that pointers and places have. A field with such a name has no method.
const TAKEN: [&str; 14] = [
    "addr",
    "borrow",
    "cast",
    "clone",
    "clone_into",
    "eq",
    "field_at",
    "fmt",
    "hash",
    "into",
    "is_null",
    "part",
    "to_bits",
    "to_owned",
];

/// How far a visibility reaches. That within a path is comparable with the least and the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Module,
    Path,
    Parent,
    Crate,
    All,
}

/// Returns the traits of a struct with named fields.
pub(super) fn traits(item: &ItemStruct) -> TokenStream {
    let Fields::Named(fields) = &item.fields else { return TokenStream::new() };
    let own = reach(&item.vis);
    // The reach of a field, if it is less than the struct's.
    let lower = |field: &Field| match reach(&field.vis) {
        Reach::Path if same(&field.vis, &item.vis) => None,
        // Any other path may be shorter than the struct's, and is in the module.
        Reach::Path if own > Reach::Module => Some(Reach::Module),
        reach => Some(reach).filter(|reach| *reach < own),
    };
    let group = |reach: Option<Reach>| {
        let fields = fields.named.iter().filter(|field| lower(field) == reach).collect::<Vec<_>>();
        let vis = fields.first().map(|field| &field.vis);
        let (vis, name) = match reach {
            None => (Some(&item.vis), "Fields"),
            Some(Reach::Crate) => (vis, "CrateFields"),
            Some(Reach::Parent) => (vis, "SuperFields"),
            Some(_) => (None, "PrivateFields"),
        };
        let name = format_ident!("{}{name}", item.ident);
        (!fields.is_empty()).then(|| of_group(&item.ident, &fields, vis, &name))
    };
    let reaches = [None, Some(Reach::Crate), Some(Reach::Parent), Some(Reach::Module)];
    reaches.into_iter().filter_map(group).collect()
}

fn reach(vis: &Visibility) -> Reach {
    match vis {
        Visibility::Public(_) => Reach::All,
        Visibility::Restricted(path) if path.path.is_ident("crate") => Reach::Crate,
        Visibility::Restricted(path) if path.path.is_ident("super") => Reach::Parent,
        Visibility::Restricted(path) if path.path.is_ident("self") => Reach::Module,
        Visibility::Restricted(_) => Reach::Path,
        Visibility::Inherited => Reach::Module,
    }
}

fn same(a: &Visibility, b: &Visibility) -> bool {
    a.to_token_stream().to_string() == b.to_token_stream().to_string()
}

fn of_group(
    object: &Ident,
    fields: &[&Field],
    vis: Option<&Visibility>,
    name: &Ident,
) -> TokenStream {
    let methods = fields.iter().filter_map(|field| method(object, field));
    let doc = format!("The fields of a [`{object}`] in a pool, for pointers to one.");
    quote! {
        #[doc = #doc]
        #[allow(dead_code, clippy::wrong_self_convention, reason = "a field may have any name")]
        #vis trait #name: ::lastword::__private::HasFields<#object> + ::core::marker::Sized {
            #(#methods)*
        }

        impl<LastwordPlace: ::lastword::__private::HasFields<#object>> #name for LastwordPlace {}
    }
}

fn method(object: &Ident, field: &Field) -> Option<TokenStream> {
    let (name, ty) = (field.ident.as_ref()?, resolved(&field.ty, object));
    if TAKEN.contains(&name.unraw().to_string().as_str()) {
        return None;
    }
    let own_docs: Vec<_> = field.attrs.iter().filter(|at| at.path().is_ident("doc")).collect();
    let doc = format!("Returns the field `{}`.", name.unraw());
    let docs = if own_docs.is_empty() { quote!(#[doc = #doc]) } else { quote!(#(#own_docs)*) };
    Some(quote! {
        #docs
        #[inline]
        fn #name(self) -> ::lastword::Field<#ty> {
            const OFFSET: usize = ::core::mem::offset_of!(#object, #name);
            ::lastword::__private::HasFields::<#object>::part(self, OFFSET)
        }
    })
}
