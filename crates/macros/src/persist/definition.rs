//! The definition of a type, and the checks of a struct's layout, as constants.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Field, Ident, ItemEnum, ItemStruct, Member, Type};

use super::{has_repr, integer_repr, resolved};

/// Returns the definition of a struct, a `Definition`.
pub(super) fn of_struct(item: &ItemStruct, name: &str) -> TokenStream {
    let object = &item.ident;
    let fields = item.fields.iter().enumerate().map(|(at, field)| {
        let (shown, member) = member(at, field);
        let ty = of_type(&field.ty, object);
        quote! {
            ::lastword::__private::FieldDefinition {
                name: #shown,
                ty: #ty,
                offset: ::core::mem::offset_of!(#object, #member),
            }
        }
    });
    quote! {
        ::lastword::__private::Definition {
            name: #name,
            body: ::lastword::__private::Body::Struct(&[#(#fields),*]),
        }
    }
}

/// Returns the definition of an enum without fields, a `Definition`.
pub(super) fn of_enum(item: &ItemEnum, name: &str) -> TokenStream {
    let tag = integer_repr(&item.attrs).map(|tag| tag.to_string());
    let variants = item.variants.iter().map(|variant| {
        let (object, ident) = (&item.ident, &variant.ident);
        let shown = ident.unraw().to_string();
        quote!((#shown, #object::#ident as i128))
    });
    quote! {
        ::lastword::__private::Definition {
            name: #name,
            body: ::lastword::__private::Body::Enum { tag: #tag, variants: &[#(#variants),*] },
        }
    }
}

/// Returns a `DefinedType`. Elements of an array may have a definition of their own.
fn of_type(ty: &Type, object: &Ident) -> TokenStream {
    if let Type::Array(array) = ty {
        let (element, len) = (of_type(&array.elem, object), &array.len);
        return quote!(::lastword::__private::DefinedType::Array(&#element, #len));
    }
    let ty = resolved(ty, object);
    quote! {
        ::lastword::__private::DefinedType::One {
            name: ::core::any::type_name::<#ty>,
            definition: ::lastword::__private::definition_of::<#ty>(),
        }
    }
}

/// Returns the checks that no padding follows a field, and that the struct's size is allowed.
pub(super) fn checks(item: &ItemStruct) -> TokenStream {
    let object = &item.ident;
    let fields = item.fields.iter().enumerate().map(|(at, field)| {
        let ((shown, member), ty) = (member(at, field), resolved(&field.ty, object));
        quote! {
            ::lastword::__private::Placed {
                name: #shown,
                offset: ::core::mem::offset_of!(#object, #member),
                bytes: ::core::mem::size_of::<#ty>(),
                align: ::core::mem::align_of::<#ty>(),
            }
        }
    });
    let each = item.fields.iter().enumerate().map(|(at, field)| {
        // The compiler reports a panic at the tokens of its call.
        let place = field.ident.as_ref().map_or_else(|| field.ty.span(), Ident::span);
        quote_spanned! {place=>
            const _: () =
                ::lastword::__private::no_padding_after(FIELDS, #at, BYTES, ALIGN);
        }
    });
    let size = quote_spanned! {object.span()=>
        const _: () = ::lastword::__private::size_allowed(::core::mem::size_of::<#object>());
    };
    if has_repr(&item.attrs, &["transparent"]) {
        // It has no padding, and its fields without bytes may be anywhere.
        return size;
    }
    quote! {
        #size
        const _: () = {
            const BYTES: usize = ::core::mem::size_of::<#object>();
            const ALIGN: usize = ::core::mem::align_of::<#object>();
            const FIELDS: &[::lastword::__private::Placed] = &[#(#fields),*];
            #(#each)*
        };
    }
}

/// Returns a field's name, as shown and as it is accessed.
fn member(at: usize, field: &Field) -> (String, Member) {
    match &field.ident {
        Some(ident) => (ident.unraw().to_string(), ident.clone().into()),
        None => (at.to_string(), at.into()),
    }
}
