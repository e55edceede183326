//! Shadows by name, and the designs that support them.

use clap::ValueEnum;
use lastword::Shadow;

use crate::failure::Failure;

/// Kind of memory that transactions work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShadowName {
    /// A copy of the whole heap, read when the pool is opened
    Full,
    /// A private mapping: pages are copied at the first write
    Cow,
    /// Pages are read at the first access, with a page table in software
    Software,
}

impl ShadowName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ShadowName::Full => "full",
            ShadowName::Cow => "cow",
            ShadowName::Software => "software",
        }
    }
}

impl From<ShadowName> for Shadow {
    fn from(name: ShadowName) -> Shadow {
        match name {
            ShadowName::Full => Shadow::Full,
            ShadowName::Cow => Shadow::CopyOnWrite,
            ShadowName::Software => Shadow::Software,
        }
    }
}

/// Checks that a shadow supports this bound.
///
/// # Errors
/// [`Failure::FullHasNoBound`].
pub(crate) fn check_bound(shadow: ShadowName, bytes: Option<u64>) -> Result<(), Failure> {
    match (shadow, bytes) {
        (ShadowName::Full, Some(_)) => Err(Failure::FullHasNoBound),
        _ => Ok(()),
    }
}
