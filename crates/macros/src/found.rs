//! The errors that several fields of a type have.

use syn::{Attribute, Error, Generics};

/// Errors, reported together.
#[derive(Default)]
pub(crate) struct Found(Option<Error>);

impl Found {
    pub(crate) fn note(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Notes type parameters and lifetimes.
    pub(crate) fn note_generics(&mut self, generics: &Generics) {
        if !generics.params.is_empty() {
            let advice = "a type in a pool has no parameters: write one for each type";
            self.note(Error::new_spanned(generics, advice));
        }
    }

    /// Notes a field or variant that depends on the build.
    pub(crate) fn note_cfg(&mut self, attrs: &[Attribute]) {
        if let Some(cfg) = attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
            let advice = "a type in a pool is the same in every build: remove this `cfg`";
            self.note(Error::new_spanned(cfg, advice));
        }
    }

    /// Returns the errors.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}
