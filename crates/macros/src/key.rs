//! `#[derive(lastword::Key)]`: the traits of a key.
//!
//! ```text
//!   struct City { country: String, size: u32 }
//!     -> impl Key for City { .. }                                    decodes, has the definition
//!        impl AsKey<City> for City { .. }                            encodes
//!        impl<A: AsKey<String>, B: AsKey<u32>> AsKey<City> for (A, B) { .. }
//!        impl<A: AsKey<String>> AsPrefix<City> for (A,) { .. }
//! ```
//!
//! Fields are encoded one after the other, as those of a tuple. An enum's discriminant is before
//! the fields of its variant, in the type of its `repr`, else in one byte. A derived `Ord` compares
//! discriminants first, too, so the bytes of two keys compare as the keys do.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{
    Data, DataEnum, DeriveInput, Error, Expr, ExprUnary, Fields, Lit, Member, Type, UnOp, Variant,
};

use crate::found::Found;
use crate::persist::{integer_repr, resolved};

/// Returns the implementations, or errors.
pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let generated = syn::parse2(item).and_then(|item: DeriveInput| generated(&item));
    generated.unwrap_or_else(Error::into_compile_error)
}

fn generated(item: &DeriveInput) -> Result<TokenStream, Error> {
    let mut found = Found::default();
    found.note_generics(&item.generics);
    match &item.data {
        Data::Struct(data) => {
            data.fields.iter().for_each(|field| found.note_cfg(&field.attrs));
            found.into_result()?;
            Ok(of_struct(&item.ident, &data.fields))
        }
        Data::Enum(data) => {
            for variant in &data.variants {
                found.note_cfg(&variant.attrs);
                variant.fields.iter().for_each(|field| found.note_cfg(&field.attrs));
            }
            if data.variants.is_empty() {
                let advice = "a key has at least one value: add a variant";
                found.note(Error::new(item.ident.span(), advice));
            }
            found.into_result()?;
            of_enum(item, data)
        }
        Data::Union(_) => {
            let advice = "a union has no order: derive `Key` for a struct or enum";
            Err(Error::new(item.ident.span(), advice))
        }
    }
}

fn of_struct(key: &Ident, fields: &Fields) -> TokenStream {
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let members: Vec<_> = fields.members().collect();
    let name = key.unraw().to_string();
    let definition = format!("key {name} {{{{ {}}}}}", shown(fields, " "));
    let lasts = lasts(types.len());
    let own = own(
        key,
        &quote!(::lastword::__private::derived::length(
            &[#(<#types as ::lastword::Key>::FIXED),*]
        )),
        &define(&definition, &types),
        &quote! {
            ::core::result::Result::Ok(Self {
                #(#members: ::lastword::__private::derived::decode::<#types>(bytes, #lasts)?,)*
            })
        },
        &quote!(#(<#types as ::lastword::AsKey<#types>>::encode(&self.#members, out, #lasts);)*),
    );
    let queries = queries(key, &types);
    quote!(#own #queries)
}

/// Returns the implementations for tuples of the fields, and of the first fields.
fn queries(key: &Ident, types: &[&Type]) -> TokenStream {
    let types: Vec<_> = types.iter().map(|ty| resolved(ty, key)).collect();
    let names: Vec<_> = (0..types.len()).map(|at| format_ident!("Query{at}")).collect();
    let indices: Vec<_> = (0..types.len()).map(Member::from).collect();
    let lasts = lasts(types.len());
    let whole = (!types.is_empty()).then(|| {
        quote! {
            impl<#(#names: ::lastword::AsKey<#types>),*> ::lastword::AsKey<#key>
                for (#(#names,)*)
            {
                #[inline]
                fn encode(&self, out: &mut ::lastword::KeyBuf, is_last: bool) {
                    #(<#names as ::lastword::AsKey<#types>>::encode(&self.#indices, out, #lasts);)*
                }
            }
        }
    });
    let prefixes = (1..types.len()).map(|len| {
        let (types, names, indices) = (&types[..len], &names[..len], &indices[..len]);
        quote! {
            impl<#(#names: ::lastword::AsKey<#types>),*>
                ::lastword::collections::btree_map::AsPrefix<#key> for (#(#names,)*)
            {
                fn encode_prefix(&self, out: &mut ::lastword::KeyBuf) {
                    #(<#names as ::lastword::AsKey<#types>>::encode(&self.#indices, out, false);)*
                }
            }
        }
    });
    quote!(#whole #(#prefixes)*)
}

fn of_enum(item: &DeriveInput, data: &DataEnum) -> Result<TokenStream, Error> {
    let key = &item.ident;
    let numbers = discriminants(data)?;
    let tag = tag(item, &numbers)?;
    let types: Vec<_> =
        data.variants.iter().flat_map(|variant| &variant.fields).map(|field| &field.ty).collect();
    let lengths = data.variants.iter().map(|variant| {
        let types = variant.fields.iter().map(|field| &field.ty);
        quote!(::lastword::__private::derived::length(&[#(<#types as ::lastword::Key>::FIXED),*]))
    });
    let literals: Vec<_> = numbers.iter().map(|&number| Literal::i128_unsuffixed(number)).collect();
    let (decoded, encoded): (Vec<_>, Vec<_>) = data
        .variants
        .iter()
        .zip(&literals)
        .map(|(variant, number)| (decoded(variant, number), encoded(variant, number, &tag)))
        .unzip();
    Ok(own(
        key,
        &quote!(::lastword::__private::derived::length_of_enum(
            ::core::mem::size_of::<#tag>(),
            &[#(#lengths),*],
        )),
        &define(&definition(key, data, &numbers, &tag), &types),
        &quote! {
            match <#tag as ::lastword::Key>::decode(bytes, false)? {
                #(#decoded)*
                _ => ::core::result::Result::Err(::lastword::Stop::BadValue),
            }
        },
        &quote!(match self { #(#encoded)* }),
    ))
}

/// Returns the number of each variant.
fn discriminants(data: &DataEnum) -> Result<Vec<i128>, Error> {
    let mut next = 0;
    let number = |variant: &Variant| {
        if let Some((_, expression)) = &variant.discriminant {
            next = literal(expression)?;
        }
        next += 1;
        Ok(next - 1)
    };
    data.variants.iter().map(number).collect()
}

fn literal(expression: &Expr) -> Result<i128, Error> {
    match expression {
        Expr::Lit(literal) if matches!(literal.lit, Lit::Int(_) | Lit::Byte(_)) => {
            match &literal.lit {
                Lit::Byte(byte) => Ok(byte.value().into()),
                Lit::Int(number) => number.base10_parse(),
                other => Err(Error::new_spanned(other, "not an integer")),
            }
        }
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => Ok(-literal(expr)?),
        other => Err(Error::new_spanned(
            other,
            "the variants of a key are compared by their discriminants: write a literal",
        )),
    }
}

/// Returns the type in which discriminants are stored.
fn tag(item: &DeriveInput, numbers: &[i128]) -> Result<Ident, Error> {
    if let Some(tag) = integer_repr(&item.attrs) {
        return Ok(tag);
    }
    if numbers.iter().all(|number| u8::try_from(*number).is_ok()) {
        return Ok(format_ident!("u8"));
    }
    let advice = "a discriminant is not within 0 to 255: add a `repr`, such as `#[repr(u16)]`";
    Err(Error::new(item.ident.span(), advice))
}

fn decoded(variant: &Variant, number: &Literal) -> TokenStream {
    let (name, members) = (&variant.ident, variant.fields.members());
    let types = variant.fields.iter().map(|field| &field.ty);
    let lasts = lasts(variant.fields.len());
    quote! {
        #number => ::core::result::Result::Ok(Self::#name {
            #(#members: ::lastword::__private::derived::decode::<#types>(bytes, #lasts)?,)*
        }),
    }
}

fn encoded(variant: &Variant, number: &Literal, tag: &Ident) -> TokenStream {
    let (name, members) = (&variant.ident, variant.fields.members());
    let types = variant.fields.iter().map(|field| &field.ty);
    let bound: Vec<_> = (0..variant.fields.len()).map(|at| format_ident!("field_{at}")).collect();
    let lasts = lasts(variant.fields.len());
    quote! {
        Self::#name { #(#members: #bound,)* } => {
            let tag: #tag = #number;
            <#tag as ::lastword::AsKey<#tag>>::encode(&tag, out, false);
            #(<#types as ::lastword::AsKey<#types>>::encode(#bound, out, #lasts);)*
        }
    }
}

fn definition(key: &Ident, data: &DataEnum, numbers: &[i128], tag: &Ident) -> String {
    let each = data.variants.iter().zip(numbers).map(|(variant, number)| {
        let fields = match variant.fields {
            Fields::Unit => String::new(),
            _ => format!("({})", shown(&variant.fields, "")),
        };
        format!("{}{fields} = {number}", variant.ident.unraw())
    });
    let each: Vec<_> = each.collect();
    format!("key enum {}: {tag} {{{{ {} }}}}", key.unraw(), each.join(" | "))
}

/// Returns the fields of a definition, as a format string with `{}` for each type, and `end` after
/// the last.
fn shown(fields: &Fields, end: &str) -> String {
    let name = |member: Member| match member {
        Member::Named(name) => format!("{}: {{}}", name.unraw()),
        Member::Unnamed(_) => "{}".to_owned(),
    };
    let mut shown = fields.members().map(name).collect::<Vec<_>>().join(", ");
    shown.extend((!fields.is_empty()).then_some(end));
    shown
}

/// Returns the body of `Key::define`. `format` has a place for the name of each type.
fn define(format: &str, types: &[&Type]) -> TokenStream {
    let mut different: Vec<&Type> = Vec::new();
    for ty in types {
        let text = ty.to_token_stream().to_string();
        if !different.iter().any(|other| other.to_token_stream().to_string() == text) {
            different.push(ty);
        }
    }
    quote! {
        definitions.add(::std::format!(#format, #(<#types as ::lastword::Key>::name()),*));
        #(<#different as ::lastword::Key>::define(definitions);)*
    }
}

/// Returns the argument `is_last` of each field.
fn lasts(len: usize) -> Vec<TokenStream> {
    let last = |at| if at + 1 == len { quote!(is_last) } else { quote!(false) };
    (0..len).map(last).collect()
}

/// Returns the implementations of `Key` and `AsKey` for the type itself.
fn own(
    key: &Ident,
    fixed: &TokenStream,
    define: &TokenStream,
    decode: &TokenStream,
    encode: &TokenStream,
) -> TokenStream {
    let name = key.unraw().to_string();
    quote! {
        impl ::lastword::Key for #key {
            type Owned = Self;
            const FIXED: ::core::option::Option<usize> = #fixed;

            fn name() -> ::std::string::String {
                ::std::string::String::from(#name)
            }

            fn define(definitions: &mut ::lastword::__private::Definitions) {
                #define
            }

            #[allow(unreachable_patterns, unused_variables)]
            fn decode(
                bytes: &mut &[u8],
                is_last: bool,
            ) -> ::core::result::Result<Self, ::lastword::Stop> {
                #decode
            }
        }

        impl ::lastword::AsKey<#key> for #key {
            #[allow(unused_variables)]
            fn encode(&self, out: &mut ::lastword::KeyBuf, is_last: bool) {
                #encode
            }
        }
    }
}
